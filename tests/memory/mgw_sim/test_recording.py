"""What is kept of a request's body."""

import base64
import hashlib

import pytest

from mgw_sim.http.parser import Head
from mgw_sim.recording import MAX_BODY, RecordedRequest
from tests.memory.mgw_sim.client import Client, result_of


@pytest.fixture
def ours() -> Client:
    return Client()


def _recorded(client: Client, body: bytes) -> RecordedRequest:
    """A request with this body, as it is kept once it has been answered."""
    request = client.recorder.begin(1, Head(b"POST", b"/v1/x", b"HTTP/1.1", ((b"host", b"h"),)))
    request.body += body
    result_of(client.dispatcher.answer(request))
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
    ours.json("PUT", "/_sim/settings?keep=all&lenient=on")
    assert ours.recorder.lenient
    assert len(_recorded(ours, bytes(MAX_BODY + 1)).body) == MAX_BODY + 1
    ours.json("PUT", "/_sim/settings")
    assert not ours.recorder.lenient
    assert len(_recorded(ours, bytes(MAX_BODY + 1)).body) == MAX_BODY
