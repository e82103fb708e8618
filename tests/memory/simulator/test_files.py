"""Files: forms taken, bytes given back, whole and in part; and uploads in parts."""

import base64
import hashlib

import pytest

from mgw.simulator.api import DownloadResponse
from mgw.simulator.http.parser import Head
from mgw.simulator.platform.store import MAX_CONTENT, GeneratedContent, Store
from mgw.simulator.recording import MAX_BODY, RecordedRequest
from tests.memory.simulator.asking import CLAUDE, FORM, Client, form_of, result_of, whole

FILE = (("purpose", None, b"user_data"), ("file", "a.txt", b"0123456789"))


@pytest.fixture
def ours() -> Client:
    return Client()


def test_a_file_comes_back_as_it_went(ours: Client) -> None:
    made = ours.sent_form("/v1/files", *FILE)
    assert (made["bytes"], made["filename"], made["purpose"]) == (10, "a.txt", "user_data")
    answer = ours.ask("GET", f"/v1/files/{made['id']}/content")
    assert whole(answer) == b"0123456789"
    assert ("Content-Disposition", 'attachment; filename="a.txt"') in answer.headers
    ours.told("DELETE", f"/v1/files/{made['id']}")
    assert ours.refused("GET", f"/v1/files/{made['id']}/content")[0] == 404


def test_anthropics_file_has_its_own_shape() -> None:
    client = Client(CLAUDE)
    made = client.sent_form("/v1/files", *FILE[1:])
    assert (made["type"], made["size_bytes"], made["mime_type"]) == ("file", 10, "text/plain")
    answer = client.ask("GET", f"/v1/files/{made['id']}/content")
    assert (whole(answer), getattr(answer, "content_type", None)) == (b"0123456789", "text/plain")


@pytest.mark.parametrize(
    ("asked", "status", "found", "told"),
    [
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-2", 206, b"89", "bytes 8-9/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=10-", 416, b"", "bytes */10"),
        ("pages=1-2", 200, b"0123456789", None),
    ],
)
def test_a_part_of_a_file_can_be_asked_for(
    ours: Client, asked: str, status: int, found: bytes, told: str | None
) -> None:
    made = ours.sent_form("/v1/files", *FILE)
    answer = ours.ask("GET", f"/v1/files/{made['id']}/content", range=asked)
    assert (answer.status, whole(answer)) == (status, found)
    assert dict(answer.headers).get("Content-Range") == told


def test_a_file_that_has_not_changed_is_not_sent_again(ours: Client) -> None:
    path = "/v1/files/sim-size-100/content"
    tag = dict(ours.ask("GET", path).headers)["ETag"]
    assert ours.ask("GET", path, if_none_match=tag).status == 304
    assert ours.ask("GET", path, range="bytes=0-1", if_range=tag).status == 206
    assert ours.ask("GET", path, range="bytes=0-1", if_range='"other"').status == 200


@pytest.mark.parametrize("headers", [{}, {"x_sim_size": "300000"}], ids=["identifier", "header"])
def test_a_content_of_any_size_is_made_as_it_is_read(ours: Client, headers: dict[str, str]) -> None:
    name = "any" if headers else "sim-size-300000"
    answer = ours.ask("GET", f"/v1/files/{name}/content", **headers)
    assert isinstance(answer, DownloadResponse)
    assert answer.size == 300_000
    assert not ours.desk.store.contents
    pieces = [answer.content.read(at, 65536) for at in range(0, 300_000, 65536)]
    assert b"".join(pieces) == answer.content.read(0, 300_000)
    assert len(set(pieces)) == len(pieces)


def test_a_made_content_ends_where_it_should() -> None:
    assert GeneratedContent(10).read(8, 5) == GeneratedContent(100).read(8, 2)
    assert GeneratedContent(10).read(10, 5) == b""


@pytest.mark.parametrize(
    "parts",
    [(("purpose", None, b"user_data"),), (("purpose", None, b"fun"), FILE[1]), ()],
    ids=["no file", "no such purpose", "nothing"],
)
def test_a_form_without_what_is_needed_is_refused(
    ours: Client, parts: tuple[tuple[str, str | None, bytes], ...]
) -> None:
    assert ours.refused("POST", "/v1/files", form_of(*parts), content_type=FORM.decode())[0] == 400


def test_a_body_that_is_no_form_is_refused(ours: Client) -> None:
    assert ours.refused("POST", "/v1/files", b"junk", content_type=FORM.decode())[0] == 400
    assert ours.refused("POST", "/v1/files", {})[0] == 400


def test_parts_become_a_file_in_the_order_that_is_asked_for(ours: Client) -> None:
    body = {"bytes": 4, "filename": "f", "mime_type": "text/plain", "purpose": "user_data"}
    upload = ours.told("POST", "/v1/uploads", body)["id"]
    first, second = (
        ours.sent_form(f"/v1/uploads/{upload}/parts", ("data", "blob", data))["id"] for data in (b"ab", b"cd")
    )
    assert ours.refused("POST", f"/v1/uploads/{upload}/complete", {"part_ids": [first]})[0] == 400
    done = ours.told("POST", f"/v1/uploads/{upload}/complete", {"part_ids": [second, first]})
    assert done["status"] == "completed"
    assert whole(ours.ask("GET", f"/v1/files/{done['file']['id']}/content")) == b"cdab"
    assert ours.refused("POST", f"/v1/uploads/{upload}/complete", {"part_ids": [first]})[0] == 400


def test_old_contents_make_way_and_too_large_ones_are_not_kept() -> None:
    store = Store()
    for name in "abc":
        store.keep_content(("f", "c", name), bytes(MAX_CONTENT // 2))
    assert [key[2] for key in store.contents] == ["b", "c"]
    store.keep_content(("f", "c", "d"), bytes(MAX_CONTENT + 1))
    assert [key[2] for key in store.contents] == ["b", "c"]


def _recorded(client: Client, body: bytes) -> RecordedRequest:
    """A request with this body, as it is kept once it has been answered."""
    request = client.recorder.begin(1, Head(b"POST", b"/v1/x", b"HTTP/1.1", ((b"host", b"h"),)))
    request.body += body
    result_of(client.desk.answer(request))
    return request


def test_of_a_long_body_the_beginning_the_length_and_the_digest_are_kept(ours: Client) -> None:
    body = bytes(range(256)) * 8192
    kept = _recorded(ours, body).as_json()
    assert base64.b64decode(kept["body"]) == body[:MAX_BODY]
    assert (kept["body_size"], kept["body_sha256"]) == (len(body), hashlib.sha256(body).hexdigest())


def test_a_short_body_is_kept_whole(ours: Client) -> None:
    kept = _recorded(ours, b"abc").as_json()
    assert base64.b64decode(kept["body"]) == b"abc"
    assert (kept["body_size"], kept["body_sha256"]) == (3, hashlib.sha256(b"abc").hexdigest())


def test_a_long_body_is_kept_whole_where_that_is_asked_for(ours: Client) -> None:
    ours.told("PUT", "/_sim/settings?keep=all&lenient=on")
    assert ours.recorder.lenient
    assert len(_recorded(ours, bytes(MAX_BODY + 1)).body) == MAX_BODY + 1
    ours.told("PUT", "/_sim/settings")
    assert not ours.recorder.lenient
    assert len(_recorded(ours, bytes(MAX_BODY + 1)).body) == MAX_BODY
