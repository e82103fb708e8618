"""What becomes of an error in which a provider repeats the key that it was sent (contract 6.9, 6.10)."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.credentials.provider import ClientKey
from mgw.exchange.passing_filters import MAX_ERROR_BYTES
from mgw.nouns.secret import Secret, overwritten
from mgw.nouns.vocabulary import Family
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import Pipeline, RecordingChannel, answered

KEY = b"sk-main-0001"
STARS = b"*" * len(KEY)
TEXT = THREE_FAMILIES.replace("api_key: sk-host-0002", "auth: none")


def refusal(key: bytes = KEY, padding: int = 0) -> bytes:
    message = b"Incorrect API key provided: %b." % key
    return b'{"error":{"message":"%b","x":"%b"}}' % (message, b"x" * padding)


def asked(wire_says: bytes, text: str = TEXT, key: ClientKey | None = None) -> RecordingChannel:
    pipeline = Pipeline(text)
    client, work = pipeline.ask(key=key)
    pipeline.connection.send(wire_says)
    assert work.called
    return client


def length_of(client: RecordingChannel) -> bytes:
    return dict(client.headers)[b"Content-Length"]


@pytest.mark.parametrize("status", [b"400 Bad Request", b"401 Unauthorized", b"500 Oops"])
def test_the_operators_key_is_overwritten_in_an_error_of_the_same_family(status: bytes) -> None:
    client = asked(answered(refusal(), status))
    assert client.body == refusal(STARS)
    assert length_of(client) == b"%d" % len(client.body)
    assert client.finished


def test_it_is_overwritten_in_the_head_of_an_error_too() -> None:
    whole = answered(b"{}", b"401 No " + KEY).replace(b"X-Up: 1", b"WWW-Authenticate: Bearer error=" + KEY)
    client = asked(whole)
    assert dict(client.headers)[b"WWW-Authenticate"] == b"Bearer error=" + STARS
    assert client.reason == b"No " + STARS


def test_any_other_answer_passes_byte_for_byte() -> None:
    assert asked(answered(refusal())).body == refusal()


def test_a_clients_own_key_is_its_own_to_read() -> None:
    text = TEXT.replace(", api_key: sk-main-0001", "")
    own = ClientKey(Secret(KEY.decode()), b"Bearer", Family.OPENAI)
    assert asked(answered(refusal(), b"401 No"), text, own).body == refusal()


def test_a_word_for_a_key_eats_no_message() -> None:
    text = TEXT.replace("sk-main-0001", "none")
    body = b'{"error":{"message":"The model `missing-none` does not exist, none does"}}'
    assert asked(answered(body, b"404 Not Found"), text).body == body


def test_a_compressed_error_passes_as_it_is() -> None:
    body = gzip.compress(refusal())
    whole = answered(body, b"401 No").replace(b"X-Up: 1", b"Content-Encoding: gzip")
    assert asked(whole).body == body


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_an_error_of_the_largest_size_is_looked_at_and_a_longer_one_is_not(framing: str) -> None:
    room = MAX_ERROR_BYTES - len(refusal())
    for padding, key in ((room, STARS), (room + 1, KEY)):
        body = refusal(padding=padding)
        whole = answered(body, b"401 No") if framing == "length" else chunked([body[:9], body[9:]])
        assert asked(whole).body == refusal(key, padding)


def chunked(pieces: list[bytes]) -> bytes:
    head = b"HTTP/1.1 401 No\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return head + chunks + b"0\r\n\r\n"


@pytest.mark.slow
@given(pieces=st.lists(st.sampled_from([KEY, KEY[:5], KEY[5:], b"word", b'"', b" "]), min_size=1, max_size=8))
def test_a_key_is_found_wherever_the_chunks_are_cut(pieces: list[bytes]) -> None:
    body = b"".join(pieces)
    pipeline = Pipeline(TEXT)
    client, work = pipeline.ask()
    pipeline.connection.send(b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n" % len(body))
    for piece in pieces:
        pipeline.connection.send(piece)
    assert work.called
    assert client.body == overwritten(body, [Secret(KEY.decode())])


def test_a_stream_is_not_held_back() -> None:
    pipeline = Pipeline(TEXT)
    client, _ = pipeline.ask()
    pipeline.connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: " + KEY)
    assert client.body == b"data: " + KEY


def test_an_error_that_breaks_off_is_an_aborted_answer() -> None:
    pipeline = Pipeline(TEXT)
    client, work = pipeline.ask()
    pipeline.connection.send(answered(refusal(), b"401 No")[:-5])
    pipeline.connection.close()
    _ = work.addErrback(lambda _: None)
    assert client.aborted
    assert KEY not in client.body


def test_a_credential_in_a_header_of_the_operators_is_overwritten_like_a_key() -> None:
    headers = "auth: client_bearer, headers: {set: {api-key: azure-key-0001, X-Title: application}}"
    text = TEXT.replace("api_key: sk-main-0001", headers)
    own = ClientKey(Secret("own-token-1"), b"Bearer", Family.OPENAI)
    body = b"azure-key-0001 application own-token-1"
    assert asked(answered(body, b"401 No"), text, own).body == b"************** application own-token-1"


def test_a_credential_behind_its_scheme_in_a_header_of_the_operators_is_overwritten_too() -> None:
    headers = "auth: none, headers: {set: {X-Auth: Bearer token-0001}}"
    text = TEXT.replace("api_key: sk-main-0001", headers)
    body = b"Bearer token-0001, token-0001"
    assert asked(answered(body, b"401 No"), text).body == b"*" * 17 + b", " + b"*" * 10


@pytest.mark.parametrize(
    "path", ["/v1/messages", "/v1/chat/completions"], ids=["another family", "the same family"]
)
def test_nothing_is_sent_to_a_provider_that_wants_no_credential(path: str) -> None:
    pipeline = Pipeline(TEXT)
    request = {"model": "host/m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    own = ClientKey(Secret("own-key-0001"), b"Bearer", Family.OPENAI)
    pipeline.ask(path, json.dumps(request).encode(), key=own)
    _, headers, _ = pipeline.received()
    names = {name.lower() for name, _ in headers}
    assert not names & {b"authorization", b"x-api-key", b"x-goog-api-key"}


def test_across_families_words_that_a_key_begins_stay() -> None:
    pipeline = Pipeline(TEXT.replace("sk-ant-0003", "none"))
    asking = {"model": "smart", "messages": [{"role": "user", "content": "x"}]}
    client, _ = pipeline.ask(body=json.dumps(asking).encode())
    error = {"type": "error", "error": {"type": "not_found_error", "message": "model: missing-none"}}
    pipeline.connection.send(answered(json.dumps(error).encode(), b"404 Not Found"))
    assert json.loads(client.body)["error"]["message"] == "model: missing-none"
