"""Files: forms taken, bytes given back, whole and in part; and uploads in parts."""

import pytest

from mgw_sim.api import DownloadResponse
from mgw_sim.platform.store import GeneratedContent
from tests.memory.mgw_sim.client import CLAUDE, FORM, Client, body_of, form_of

FILE = (("purpose", None, b"user_data"), ("file", "a.txt", b"0123456789"))


@pytest.fixture
def ours() -> Client:
    return Client()


def test_a_file_comes_back_as_it_went(ours: Client) -> None:
    made = ours.post_form("/v1/files", *FILE)
    assert (made["bytes"], made["filename"], made["purpose"]) == (10, "a.txt", "user_data")
    answer = ours.ask("GET", f"/v1/files/{made['id']}/content")
    assert body_of(answer) == b"0123456789"
    assert ("Content-Disposition", 'attachment; filename="a.txt"') in answer.headers
    ours.json("DELETE", f"/v1/files/{made['id']}")
    assert ours.error("GET", f"/v1/files/{made['id']}/content")[0] == 404


def test_anthropics_file_has_its_own_shape() -> None:
    client = Client(CLAUDE)
    made = client.post_form("/v1/files", *FILE[1:])
    assert (made["type"], made["size_bytes"], made["mime_type"]) == ("file", 10, "text/plain")
    answer = client.ask("GET", f"/v1/files/{made['id']}/content")
    assert (body_of(answer), getattr(answer, "content_type", None)) == (b"0123456789", "text/plain")


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
    made = ours.post_form("/v1/files", *FILE)
    answer = ours.ask("GET", f"/v1/files/{made['id']}/content", range=asked)
    assert (answer.status, body_of(answer)) == (status, found)
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
    assert not ours.dispatcher.store.contents
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
    assert ours.error("POST", "/v1/files", form_of(*parts), content_type=FORM.decode())[0] == 400


def test_a_body_that_is_no_form_is_refused(ours: Client) -> None:
    assert ours.error("POST", "/v1/files", b"junk", content_type=FORM.decode())[0] == 400
    assert ours.error("POST", "/v1/files", {})[0] == 400


def test_parts_become_a_file_in_the_order_that_is_asked_for(ours: Client) -> None:
    body = {"bytes": 4, "filename": "f", "mime_type": "text/plain", "purpose": "user_data"}
    upload = ours.json("POST", "/v1/uploads", body)["id"]
    first, second = (
        ours.post_form(f"/v1/uploads/{upload}/parts", ("data", "blob", data))["id"] for data in (b"ab", b"cd")
    )
    assert ours.error("POST", f"/v1/uploads/{upload}/complete", {"part_ids": [first]})[0] == 400
    done = ours.json("POST", f"/v1/uploads/{upload}/complete", {"part_ids": [second, first]})
    assert done["status"] == "completed"
    assert body_of(ours.ask("GET", f"/v1/files/{done['file']['id']}/content")) == b"cdab"
    assert ours.error("POST", f"/v1/uploads/{upload}/complete", {"part_ids": [first]})[0] == 400
