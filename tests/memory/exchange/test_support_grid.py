"""Every cell of the support grid: passed through, translated, or refused without a call (contract 4.7).

The site with its channel, the pipeline and the pool are the real ones; only the sockets are in memory.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from http.client import HTTPResponse
from io import BytesIO
from typing import Any, Final

import pytest
from msgspec.structs import replace
from twisted.internet.testing import StringTransport

from mgw.config import normalize
from mgw.config.problems import ConfigError
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.kinds import KINDS as KIND_ROWS
from mgw.nouns.vocabulary import DialectName, Modality
from mgw.routing.model_source import IN_QUERY
from mgw.routing.resolve import Resolver, check_capability
from mgw.routing.route import Route, Treatment
from mgw.routing.routes import ROUTES
from tests.support.configs import config
from tests.support.grid import (
    ANTHROPIC,
    CAPABILITIES,
    COMPAT,
    DEFAULTS,
    ERRORS,
    FAMILY,
    GEMINI,
    GRID,
    KINDS,
    OPENAI,
    ROW,
    SPEECH,
    STATUS,
    TEXT,
    Cell,
    Flag,
    Row,
    configuration,
)
from tests.support.upstreams import ProviderConnection
from tests.support.web_servers import WebServerHarness

Json = Any  # JSON of whatever type

SOUND: Final = bytes(range(256)) * 4
MEDIA: Final = {Modality.IMAGE_GEN, Modality.VIDEO_GEN, Modality.AUDIO_SPEECH, Modality.AUDIO_TRANSCRIBE}
KEY: Final = {
    OPENAI: b"Authorization: Bearer k-openai",
    COMPAT: b"Authorization: Bearer k-openai_compat",
    ANTHROPIC: b"x-api-key: k-anthropic",
    GEMINI: b"x-goog-api-key: k-gemini",
}
CELLS: Final = [
    pytest.param(row, kind, flag, id=f"{row.name} {kind} {flag}")
    for row in GRID
    for kind in KINDS
    for flag in Flag
]


@pytest.fixture(scope="module")
def benches() -> dict[Flag, WebServerHarness]:
    """A gateway for each setting of the flags.

    With Anthropic's flags forced on, which the loader refuses: the gate behind it is asked all the same.
    """
    with pytest.MonkeyPatch.context() as patch:
        able = {kind: replace(row, impossible=frozenset()) for kind, row in KIND_ROWS.items()}
        patch.setattr(normalize, "KINDS", able)
        return {flag: WebServerHarness(configuration(flag)) for flag in Flag}


# What providers say, and what clients hear ----------------------------------------------------------------


def json_answer(value: Json) -> tuple[bytes, bytes]:
    return b"application/json", json.dumps(value, indent=1).encode()


def said(kind: str) -> tuple[bytes, bytes]:
    """A model's answer in the words of its provider."""
    match FAMILY[kind]:
        case "openai":
            message: Json = {"role": "assistant", "content": "Hello"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return json_answer({"id": "c", "object": "chat.completion", "model": "m-1", "choices": [choice]})
        case "anthropic":
            usage = {"input_tokens": 1, "output_tokens": 2}
            message = {"id": "m", "type": "message", "role": "assistant", "model": "m-1", "usage": usage}
            content = [{"type": "text", "text": "Hello"}]
            return json_answer({**message, "content": content, "stop_reason": "end_turn"})
    candidate = {"content": {"role": "model", "parts": [{"text": "Hello"}]}, "finishReason": "STOP"}
    return json_answer({"candidates": [candidate]})


def streamed(kind: str) -> tuple[bytes, bytes]:
    """The same, piece by piece."""
    match FAMILY[kind]:
        case "openai":
            chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m-1"}
            last = {"index": 0, "delta": {"content": "Hello"}, "finish_reason": "stop"}
            events: list[Json] = [{**chunk, "choices": [last]}]
            return b"text/event-stream", _events(events) + b"data: [DONE]\n\n"
        case "anthropic":
            message = json.loads(said(ANTHROPIC)[1]) | {"content": [], "stop_reason": None}
            ended = {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}
            events = [
                {"type": "message_start", "message": message},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", **ended},
                {"type": "message_stop"},
            ]
            return b"text/event-stream", _events(events)
    return b"application/json", b"[" + said(GEMINI)[1] + b"]"


def _events(events: list[Json]) -> bytes:
    return b"".join(
        f"event: {event.get('type', 'x')}\ndata: {json.dumps(event)}\n\n".encode() for event in events
    )


def spoken(kind: str) -> tuple[bytes, bytes]:
    """Sound in the words of its provider."""
    if FAMILY[kind] == OPENAI:
        return b"audio/pcm", SOUND
    blob = {"mimeType": "audio/L16;rate=24000", "data": b64encode(SOUND).decode()}
    parts = [{"inlineData": blob}]
    return json_answer({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]})


def answer_of(row: Row, kind: str) -> tuple[bytes, bytes]:
    """The media type and the body of a provider's answer."""
    if row.capability == "audio_speech":
        return spoken(kind)
    if row.capability == "text":
        return streamed(kind) if row.name.startswith("stream") else said(kind)
    return b"application/x-own", b'{ "own" : 1.0e0 }'


def heard(row: Row, body: bytes) -> str | bytes:
    """The text or the sound of an answer in the client's dialect."""
    if row.name == "audio_speech":
        return body
    parsed = json.loads(body)
    if row.client == OPENAI:
        return str(parsed["choices"][0]["message"]["content"])
    if row.client == ANTHROPIC:
        assert (parsed["type"], parsed["role"]) == ("message", "assistant")
        (block,) = parsed["content"]
        return b64decode(block["source"]["data"]) if block["type"] == "audio" else str(block["text"])
    pieces = parsed if isinstance(parsed, list) else [parsed]
    parts = [part for piece in pieces for part in piece["candidates"][0].get("content", {}).get("parts", [])]
    blobs = [b64decode(part["inlineData"]["data"]) for part in parts if "inlineData" in part]
    return b"".join(blobs) if blobs else "".join(part["text"] for part in parts)


def translated_to(row: Row, kind: str) -> bytes:
    """Where a translated request goes."""
    if FAMILY[kind] == GEMINI:
        return b"/v1beta/models/m-1:generateContent"
    if row.capability == "audio_speech":
        return b"/v1/audio/speech"
    return b"/v1/messages" if FAMILY[kind] == ANTHROPIC else b"/v1/chat/completions"


# One request ----------------------------------------------------------------------------------------------


class _Taken:
    """What http.client reads an answer from."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> BytesIO:
        assert mode == "rb"
        return BytesIO(self._data)


@dataclass
class Seen:
    """What came of one request."""

    status: int
    content_type: str | None
    body: bytes
    connections: list[ProviderConnection]
    """The connections to providers that it has made."""


def ask(harness: WebServerHarness, row: Row, kind: str) -> Seen:
    """Send a row's request, let the provider answer if it is asked, and return what came."""
    transport = StringTransport()
    channel = harness.factory.buildProtocol(None)
    channel.makeConnection(transport)  # type: ignore[no-untyped-call]  # Twisted's
    before = len(harness.pipeline.endpoint.connections)
    channel.dataReceived(row.request(kind, "edge"))
    connections = harness.pipeline.endpoint.connections[before:]
    for connection in connections:
        media_type, body = answer_of(row, kind)
        head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n" % len(body)
        connection.send(head + b"Content-Type: " + media_type + b"\r\n\r\n" + body)
        connection.close()
    answer = HTTPResponse(_Taken(transport.value()), method=row.method)  # type: ignore[arg-type]  # enough of it
    answer.begin()
    return Seen(answer.status, answer.getheader("content-type"), answer.read(), connections)


def check(harness: WebServerHarness, row: Row, kind: str, cell: Cell) -> None:
    """Assert that a request ends as its cell says, with one event that tells the same."""
    harness.observer.events.clear()
    seen = ask(harness, row, kind)
    (event,) = harness.observer.events
    assert (event.route, event.provider) == (row.name, kind)
    assert (event.dialect, event.modality) == (row.client, row.capability)
    assert event.http_status == seen.status
    if cell in STATUS:
        check_refused(row, kind, seen, cell)
        assert (event.status, event.attempts) == ("rejected", 0)
        return
    assert (seen.status, event.status, event.attempts) == (200, "ok", 1)
    (connection,) = seen.connections
    head, _, body = connection.received.partition(b"\r\n\r\n")
    assert KEY[kind] in head.split(b"\r\n")
    assert b"Host: %b.example" % kind.replace("_", "-").encode() in head.split(b"\r\n")
    assert b"X-Provider" not in head
    assert b"edge" not in head
    line = head.split(b"\r\n")[0]
    if cell is Cell.PASSED:
        base = "/v1beta" if kind == GEMINI else "/v1"
        assert line == f"{row.method} {base}{row.passed_to()} HTTP/1.1".encode()
        assert body == row.passed_body()
        media_type, answer = answer_of(row, kind)
        assert (seen.content_type, seen.body) == (media_type.decode(), answer)
    else:
        assert FAMILY[kind] != row.client or row.name == "anthropic_audio_speech"
        method, path, _ = line.replace(b":streamGenerateContent?alt=sse", b":generateContent").split(b" ")
        assert (method, path) == (b"POST", translated_to(row, kind))
        assert heard(row, seen.body) == (SOUND if row in SPEECH else "Hello")
        if row.client != FAMILY[kind]:
            assert seen.body != answer_of(row, kind)[1]


def check_refused(row: Row, kind: str, seen: Seen, cell: Cell) -> None:
    assert seen.connections == []
    assert (seen.status, seen.content_type) == (STATUS[cell], "application/json")
    parsed = json.loads(seen.body)
    error = parsed["error"]
    for key, value in ERRORS[row.client, cell].items():
        assert error[key] == value, key
    assert kind in error["message"]
    assert "m-1" not in error["message"]
    assert set(parsed) == ({"type", "error", "request_id"} if row.client == ANTHROPIC else {"error"})
    if row.client == GEMINI:
        assert error["details"][0]["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    elif row.client == OPENAI:
        assert error["param"] == ("provider" if not row.names_model and cell is not Cell.OFF else "model")


@pytest.mark.parametrize(("row", "kind", "flag"), CELLS)
def test_each_cell_is_passed_through_translated_or_refused_without_a_call(
    benches: dict[Flag, WebServerHarness], row: Row, kind: str, flag: Flag
) -> None:
    check(benches[flag], row, kind, row.expected(kind, flag))


def test_a_wrong_cell_is_found(benches: dict[Flag, WebServerHarness]) -> None:
    missed = []
    for row in GRID:
        for kind in KINDS:
            for wrong in set(Cell) - {row.cell(kind)}:
                try:
                    check(benches[Flag.ON], row, kind, wrong)
                except (AssertionError, ValueError, KeyError):
                    continue
                missed.append((row.name, kind, wrong))
    assert missed == []


# That the grid is all of it -------------------------------------------------------------------------------


def test_the_grid_has_every_route_that_needs_a_capability_of_media_and_every_conversation() -> None:
    needed = {
        route.name: (route.method, route.path)
        for route in ROUTES
        if route.modality in MEDIA or route.treatment is Treatment.CHAT
    }
    assert {row.name for row in GRID} == set(needed)
    assert len(ROW) == len(GRID)


def test_every_route_has_a_cell_for_each_kind() -> None:
    assert [row.name for row in GRID if len(row.cells) != len(KINDS) or set(row.cells) - set("PTU")] == []


def test_the_words_of_the_contract_are_the_cells() -> None:
    """Contract 4.7, line by line."""
    assert [row.cells for row in TEXT] == ["PPTT", "PPUU", "TTPT", "TTTP", "TTTP"]
    assert [row.cells for row in SPEECH] == ["PPUT", "TTUT", "TTUP"]
    others = [row for row in GRID if row not in TEXT and row not in SPEECH and row.client == OPENAI]
    assert {row.cells for row in others} == {"PPUU"}
    assert {row.capability for row in others} == {"image_gen", "video_gen", "audio_transcribe"}


# The gate -------------------------------------------------------------------------------------------------


def test_the_flags_that_nobody_sets_follow_from_the_kind() -> None:
    found = config(configuration(Flag.UNSAID)).providers
    assert {kind: sorted(found[kind].capabilities) for kind in KINDS} == {
        kind: sorted(DEFAULTS[kind]) for kind in KINDS
    }


@pytest.mark.parametrize("capability", CAPABILITIES[1:])
def test_a_flag_that_anthropic_cannot_keep_is_an_error_at_load(capability: str) -> None:
    text = configuration(Flag.UNSAID)
    line = f"k-{ANTHROPIC}, capabilities: {{{capability}: true}}"
    with pytest.raises(ConfigError) as refused:
        config(text.replace(f"k-{ANTHROPIC}, capabilities: {{}}", line))
    assert f"providers.{ANTHROPIC}.capabilities.{capability}" in str(refused.value)


@pytest.mark.parametrize("kind", KINDS)
def test_realtime_that_is_off_is_not_implemented(kind: str) -> None:
    route = Route(
        "live", "GET", "/v1/live", DialectName.OPENAI, Modality.REALTIME, IN_QUERY, Treatment.REALTIME
    )
    settings = config(configuration(Flag.OFF))
    target = Resolver(settings).resolve(f"{kind}/m-1", route.family)
    with pytest.raises(GatewayError) as refused:
        check_capability(route, target, settings.translation)
    assert (refused.value.reason, refused.value.status) == (Reason.NOT_IMPLEMENTED, 501)
