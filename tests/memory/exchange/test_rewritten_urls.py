"""Addresses in answers that lead past the gateway are turned to it; nothing else of an answer is touched."""

from __future__ import annotations

import json

import pytest
from twisted.python.failure import Failure

from mgw.wire.headers import RawHeaders, value_of
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import Pipeline, RecordingChannel, answered

OWN = "http://gateway:8787"
ANTHROPIC: RawHeaders = [(b"anthropic-version", b"2023-06-01"), (b"Accept-Encoding", b"gzip")]
EDGE = THREE_FAMILIES + "edge_auth: {enabled: true, keys: [edge-1, edge-2]}\n"


def start(
    upload_url: str, text: str = THREE_FAMILIES, own: str | None = OWN, path: str = "/upload/v1/files"
) -> tuple[Pipeline, bytes | None]:
    """Start an upload; return the pipeline and the address that the client gets."""
    pipeline = Pipeline(text)
    client, _ = pipeline.ask(path, b"{}", [(b"X-Goog-Upload-Command", b"start")], own_address=own)
    pipeline.connection.send(
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Goog-Upload-Status: active\r\n"
        b"X-Goog-Upload-URL: " + upload_url.encode() + b"\r\n\r\n"
    )
    assert client.finished
    return pipeline, value_of(client.headers, b"x-goog-upload-url")


UPSTREAM = "https://gemini.example/upload/v1beta/files?upload_id=abc&upload_protocol=resumable"


def test_an_upload_is_started_beside_the_base_address() -> None:
    pipeline, _ = start(UPSTREAM)
    line, headers, _ = pipeline.received()
    assert line == b"POST /upload/v1beta/files HTTP/1.1"
    assert value_of(headers, b"x-goog-upload-command") == b"start"


def test_the_address_of_an_upload_leads_to_the_gateway() -> None:
    _, url = start(UPSTREAM)
    assert url == (
        b"http://gateway:8787/upload/v1/files?upload_id=abc&upload_protocol=resumable&provider=gem"
    )


def test_an_address_hands_no_key_of_the_gateways_to_the_client() -> None:
    _, url = start(UPSTREAM + "&key=AIza-0004")
    assert url is not None
    assert b"AIza" not in url


@pytest.mark.parametrize(
    ("url", "text", "own"),
    [
        ("https://elsewhere.example/upload/v1beta/files?upload_id=a", THREE_FAMILIES, OWN),
        ("http://gemini.example/upload/v1beta/files?upload_id=a", THREE_FAMILIES, OWN),
        ("https://gemini.example:444/upload/v1beta/files?upload_id=a", THREE_FAMILIES, OWN),
        ("https://gemini.example/other/v1beta/files?upload_id=a", THREE_FAMILIES, OWN),
        ("https://gemini.example/upload/v1betax/files?upload_id=a", THREE_FAMILIES, OWN),
        ("not an address", THREE_FAMILIES, OWN),
        ("https://gemini.example/upload/v1beta/files/\u00e9?upload_id=a", THREE_FAMILIES, OWN),
        (UPSTREAM, THREE_FAMILIES + "rewrite_urls: false\n", OWN),
        (UPSTREAM, THREE_FAMILIES, None),
    ],
)
def test_an_address_that_is_not_the_providers_stays(url: str, text: str, own: str | None) -> None:
    assert start(url, text, own)[1] == url.encode()


@pytest.mark.parametrize("name", ["X-Goog-Upload-Control-URL", "location"])
def test_each_address_of_an_upload_is_turned(name: str) -> None:
    pipeline = Pipeline(EDGE)
    client, _ = pipeline.ask(
        "/upload/v1/files", b"{}", [(b"X-Goog-Upload-Command", b"start")], own_address=OWN
    )
    pipeline.connection.send(f"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{name}: {UPSTREAM}\r\n\r\n".encode())
    turned = value_of(client.headers, name.lower().encode()) or b""
    assert turned.startswith(b"http://gateway:8787/upload/v1/files?upload_id=abc&upload_protocol=resumable")
    assert b"&mgw=" in turned


def test_a_location_that_is_no_uploads_stays() -> None:
    pipeline = Pipeline()
    client, _ = pipeline.ask("/v1beta/files/f", b"", [], method="GET", own_address=OWN)
    place = b"https://gemini.example/v1beta/files/g"
    pipeline.connection.send(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + place + b"\r\n\r\n")
    assert value_of(client.headers, b"location") == place


@pytest.mark.parametrize("parameter", ["provider=host", "mgw=x", "pro%76ider=host"])
def test_a_provider_has_no_say_in_who_gets_the_chunks(parameter: str) -> None:
    _, url = start(UPSTREAM.replace("?", f"?{parameter}&"))
    assert url == (
        b"http://gateway:8787/upload/v1/files?upload_id=abc&upload_protocol=resumable&provider=gem"
    )


def test_with_edge_auth_the_address_carries_a_token() -> None:
    _, url = start(UPSTREAM, EDGE)
    assert url is not None
    before, _, token = url.partition(b"&mgw=")
    assert before.endswith(b"&provider=gem")
    assert b"-" in token
    assert b"edge-1" not in url


def test_a_chunk_goes_to_the_provider_of_its_address_without_our_parameters() -> None:
    pipeline = Pipeline()
    query = b"upload_id=abc&upload_protocol=resumable&provider=gem"
    pipeline.ask("/upload/v1/files", b"chunk", [(b"X-Goog-Upload-Offset", b"0")], query)
    line, headers, body = pipeline.received()
    assert line == b"POST /upload/v1beta/files?upload_id=abc&upload_protocol=resumable HTTP/1.1"
    assert value_of(headers, b"x-goog-api-key") == b"AIza-0004"
    assert body == b"chunk"


def test_a_chunk_needs_no_key_where_there_is_none_to_send() -> None:
    pipeline = Pipeline(THREE_FAMILIES.replace(", api_key: AIza-0004", ""))
    pipeline.ask("/upload/v1/files", b"chunk", [], b"upload_id=abc&provider=gem")
    _, headers, _ = pipeline.received()
    assert value_of(headers, b"x-goog-api-key") is None
    assert value_of(headers, b"authorization") is None


def results(
    body: bytes, query: bytes | None = None, headers: bytes = b"", text: str = THREE_FAMILIES
) -> RecordingChannel:
    pipeline = Pipeline(text)
    path = "/v1/messages/batches"
    client, _ = pipeline.ask(path, b"", ANTHROPIC, query, method="GET", own_address=OWN)
    assert value_of(pipeline.received()[1], b"accept-encoding") == b"identity"
    pipeline.connection.send(answered(body).replace(b"X-Up: 1\r\n", b"X-Up: 1\r\n" + headers))
    assert client.finished
    return client


def test_each_results_url_is_turned_at_its_place() -> None:
    body = (
        b'{ "data": [ {"x":1e400,'
        b' "results_url" : "https:\\/\\/anthropic.example/v1/messages/batches/b1/results"},'
        b' {"results_url":null} ], "results_url": "https://anthropic.example/v1/messages/batches/b2/results",'
        b' "note":"results_url" }'
    )
    client = results(body)
    assert client.body == body.replace(b"https:\\/\\/anthropic.example", OWN.encode()).replace(
        b"https://anthropic.example", OWN.encode()
    )
    assert value_of(client.headers, b"content-length") == b"%d" % len(client.body)
    assert client.status == 200


def test_a_key_in_any_spelling_and_a_body_of_any_type_are_turned() -> None:
    body = b'{"results_\\u0075rl": "https://anthropic.example/v1/messages/batches/b/results"}'
    pipeline = Pipeline()
    headers: RawHeaders = [*ANTHROPIC, (b"Range", b"bytes=0-5"), (b"If-Range", b"x")]
    path = "/v1/messages/batches/b"
    client, _ = pipeline.ask(path, b"", headers, method="GET", own_address=OWN)
    sent = pipeline.received()[1]
    assert (value_of(sent, b"range"), value_of(sent, b"if-range")) == (None, None)
    pipeline.connection.send(b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
    assert client.body == body.replace(b"https://anthropic.example", OWN.encode())
    assert value_of(client.headers, b"etag") is None


def test_the_provider_that_was_chosen_is_kept_in_the_address() -> None:
    text = THREE_FAMILIES.replace(
        "defaults:",
        '  second: {kind: anthropic, base_url: "https://second.example/v1", api_key: k}\ndefaults:',
    )
    body = json.dumps({"results_url": "https://second.example/v1/messages/batches/b/results"}).encode()
    client = results(body, b"provider=second", text=text)
    assert json.loads(client.body)["results_url"] == f"{OWN}/v1/messages/batches/b/results?provider=second"


@pytest.mark.parametrize(
    "body",
    [
        b'{"results_url": "https://evil.example/v1/x"}',
        '{"results_url": "https://anthropic.example/v1/messages/batches/\u20ac/results"}'.encode(),
        '{"results_url": "https://anthropic.example/v1/messages/batches/b/results?q=\u20ac"}'.encode(),
        b"results_url is no JSON",
        b'{"data":[]}',
        b"",
    ],
)
def test_what_cannot_be_turned_comes_as_it_is(body: bytes) -> None:
    assert results(body).body == body


def test_a_list_that_is_far_larger_than_any_page_is_refused() -> None:
    pipeline, failures = Pipeline(), list[Failure]()
    client, work = pipeline.ask("/v1/messages/batches", b"", ANTHROPIC, method="GET", own_address=OWN)
    _ = work.addErrback(failures.append)
    pipeline.connection.send(answered(b'{"data":[' + b"{}," * (6 * 1024 * 1024) + b"{}]}"))
    assert not client.started
    assert "more than 16777216 bytes" in str(failures[0].value)
