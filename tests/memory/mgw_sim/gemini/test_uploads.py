"""Google's uploads, command by command."""

import base64
import hashlib
from typing import Any

import pytest

from mgw_sim.api import Response, UnaryResponse
from tests.memory.mgw_sim.client import GOOGLE, Client, body_of

FILES = "/upload/v1beta/files"
STORE = "/upload/v1/fileSearchStores/s:uploadToFileSearchStore"


@pytest.fixture
def google() -> Client:
    return Client(GOOGLE)


def _begun(client: Client, target: str = FILES, size: str = "6", body: Any = None) -> str:
    """The target of an upload that has begun."""
    answer = client.ask(
        "POST",
        target,
        body or {},
        x_goog_upload_protocol="resumable",
        x_goog_upload_command="start",
        x_goog_upload_header_content_length=size,
        x_goog_upload_header_content_type="text/plain",
    )
    assert (answer.status, body_of(answer)) == (200, b"")
    headers = dict(answer.headers)
    assert headers["X-Goog-Upload-Status"] == "active"
    url = headers["X-Goog-Upload-URL"]
    assert url.startswith(f"http://h:1{target}?upload_id=")
    assert url.endswith("&upload_protocol=resumable")
    return url.removeprefix("http://h:1")


def _chunk(client: Client, url: str, command: str, data: bytes = b"", offset: int | None = None) -> Response:
    """The answer to a command of somebody who shows no credential."""
    stranger = Client(((b"content-type", b"application/octet-stream"),))
    stranger.dispatcher, stranger.number = client.dispatcher, client.number
    more = {} if offset is None else {"x_goog_upload_offset": str(offset)}
    return stranger.ask("POST", url, data, x_goog_upload_command=command, **more)


def _status(answer: Response) -> str | None:
    return dict(answer.headers).get("X-Goog-Upload-Status")


def test_a_file_comes_in_chunks_without_a_credential(google: Client) -> None:
    url = _begun(google, body={"file": {"displayName": "d"}})
    first = _chunk(google, url, "upload", b"abc", 0)
    assert (first.status, _status(first)) == (200, "active")
    last = _chunk(google, url, "upload, finalize", b"def", 3)
    assert (last.status, _status(last)) == (200, "final")
    [listed] = google.json("GET", "/v1beta/files")["files"]
    assert (listed["displayName"], listed["mimeType"], listed["sizeBytes"]) == ("d", "text/plain", "6")
    assert base64.b64decode(listed["sha256Hash"]).decode() == hashlib.sha256(b"abcdef").hexdigest()
    assert body_of(google.ask("GET", f"/v1/{listed['name']}:download?alt=media")) == b"abcdef"


def test_a_name_that_was_wished_for_is_taken(google: Client) -> None:
    url = _begun(google, body={"file": {"name": "files/mine"}})
    _chunk(google, url, "upload, finalize", b"abcdef", 0)
    assert google.json("GET", "/v1alpha/files/mine")["uri"] == "http://h:1/v1beta/files/mine"


def test_what_has_come_can_be_asked_for(google: Client) -> None:
    url = _begun(google)
    _chunk(google, url, "upload", b"abc", 0)
    told = _chunk(google, url, "query")
    assert dict(told.headers)["X-Goog-Upload-Size-Received"] == "3"
    assert _status(told) == "active"
    _chunk(google, url, "upload", b"def", 3)
    assert _status(_chunk(google, url, "finalize")) == "final"
    assert _status(_chunk(google, url, "query")) == "final"


@pytest.mark.parametrize(
    ("command", "data", "offset"),
    [
        ("upload", b"abc", 1),
        ("upload", b"abc", None),
        ("upload", b"abcdefg", 0),
        ("finalize", b"", None),
        ("upload, finalize", b"abc", 0),
        ("sing", b"", None),
        ("", b"", None),
    ],
    ids=["offset", "no offset", "too much", "nothing", "too little", "unknown", "no command"],
)
def test_what_does_not_fit_is_refused(google: Client, command: str, data: bytes, offset: int | None) -> None:
    assert _chunk(google, _begun(google), command, data, offset).status == 400


def test_nothing_follows_the_end(google: Client) -> None:
    url = _begun(google)
    assert _status(_chunk(google, url, "cancel")) == "cancelled"
    assert _chunk(google, url, "upload", b"abc", 0).status == 400


@pytest.mark.parametrize("changed", ["upload_id=up-other", "upload_id="])
def test_an_upload_that_nobody_began_is_unknown(google: Client, changed: str) -> None:
    url = _begun(google)
    known = url.partition("?")[2].partition("&")[0]
    assert _chunk(google, url.replace(known, changed), "upload", b"a", 0).status == 404


def test_an_upload_belongs_to_its_path(google: Client) -> None:
    url = _begun(google)
    assert _chunk(google, url.replace("v1beta", "v1"), "upload", b"a", 0).status == 404


@pytest.mark.parametrize("name", ["mgw", "provider"])
def test_a_gateways_own_parameter_on_a_chunk_is_refused(google: Client, name: str) -> None:
    assert _chunk(google, f"{_begun(google)}&{name}=x", "upload, finalize", b"abcdef", 0).status == 400


def test_to_begin_takes_a_credential() -> None:
    stranger = Client(((b"content-type", b"application/json"),))
    assert stranger.error("POST", FILES, {}, x_goog_upload_protocol="resumable")[0] == 401


def test_a_document_of_a_store_is_the_end_of_an_operation(google: Client) -> None:
    url = _begun(google, STORE, "3", {"displayName": "d"})
    answer = _chunk(google, url, "upload, finalize", b"abc", 0)
    assert isinstance(answer, UnaryResponse)
    [document] = google.json("GET", "/v1beta/fileSearchStores/s/documents")["documents"]
    assert (document["displayName"], document["sizeBytes"]) == ("d", "3")
    name = document["name"].rpartition("/")[2]
    done = google.json("GET", f"/v1/fileSearchStores/s/upload/operations/{name}")
    assert done["response"]["documentName"] == document["name"]


def test_a_file_may_come_with_what_is_known_of_it(google: Client) -> None:
    body = b'--B\r\nContent-Type: application/json\r\n\r\n{"file":{"displayName":"d"}}\r\n'
    body += b"--B\r\nContent-Type: text/csv\r\n\r\na,b\r\n--B--"
    media = {"content_type": "multipart/related; boundary=B", "x_goog_upload_protocol": "multipart"}
    made = google.json("POST", FILES, body, **media)["file"]
    assert (made["displayName"], made["mimeType"], made["sizeBytes"]) == ("d", "text/csv", "3")
    assert google.error("POST", FILES, b"--B--", **media)[0] == 400


def test_a_file_may_come_bare(google: Client) -> None:
    made = google.json("POST", f"{FILES}?uploadType=media", b"abc", content_type="text/plain")["file"]
    assert (made["mimeType"], made["sizeBytes"]) == ("text/plain", "3")


def test_a_file_of_an_environment_stays_at_its_path(google: Client) -> None:
    answer = google.ask(
        "PUT",
        "/upload/v1beta/environments/e/files/d/x.txt",
        x_goog_upload_protocol="resumable",
        x_goog_upload_command="start",
    )
    url = dict(answer.headers)["X-Goog-Upload-URL"].removeprefix("http://h:1")
    _chunk(google, url, "upload, finalize", b"abc", 0)
    path = "/v1beta/environments/e/files/d/x.txt"
    assert google.json("GET", path)["files"][0]["size_bytes"] == 3
    assert body_of(google.ask("GET", f"{path}?alt=media")) == b"abc"
    assert google.error("GET", "/v1beta/environments/e/files/other?alt=media")[0] == 404
