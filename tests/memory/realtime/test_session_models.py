"""A key that may use some models only gets no others in a session, however its messages spell them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import pytest

from mgw.realtime import session_models
from mgw.realtime.messages import MAX_MESSAGE_BYTES
from mgw.realtime.relay import MAX_UNREAD_ANSWERS
from mgw.realtime.session_models import _MAX_VALUES
from mgw.wire.nested_strings import JsonPath, NestedString
from mgw.wire.unambiguous_json import find_unambiguous_strings
from tests.support.configs import THREE_FAMILIES
from tests.support.memory_sessions import LIVE, RESPONSES, SessionHarness, spoken
from tests.support.raw_sessions import close_frame, frame

TEXT: Final = 0x81
BINARY: Final = 0x82
CLOSE: Final = 0x88
KEYS: Final = """
edge_auth:
  enabled: true
  keys:
    - {name: alice, key: edge, models: ["fast", "main/gpt-c*", "gem/good*"]}
"""
LIMITED: Final = THREE_FAMILIES + KEYS
REALTIME: Final = "/v1/realtime?model=fast"
TRANSLATIONS: Final = "/v1/realtime/translations?model=fast"
LIVE_SESSIONS: Final = "/v1/live/sessions"
BY_PATH: Final = "/v1beta/models/gem/good:bidiGenerateContent?key=edge"
BY_SETUP: Final = f"{LIVE}?key=edge"
NESTED: Final = b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
BLANKS: Final = b" " * 200

UNREADABLE: Final = {
    "NaN": b'{"model":"gpt-b","x":NaN}',
    "a trailing comma": b'{"model":"gpt-b",}',
    "a BOM": b'\xef\xbb\xbf{"model":"gpt-b"}',
    "an array": b'[{"model":"gpt-b"}]',
    "two documents": b'{"x":1}{"model":"gpt-b"}',
    "two lines": b'{"x":1}\n{"model":"gpt-b"}',
    "deep nesting": NESTED,
    "no UTF-8": b'{"model":"gpt-b","x":"\xff"}',
    "no JSON": b"model gpt-b",
    "a comment": b'{"model":"gpt-b"/**/}',
    "two cases": b'{"model":"fast","Model":"gpt-b"}',
    "another case": b'{"MODEL":"gpt-b"}',
    "twice": b'{"model":"gpt-b","model":"fast"}',
    "a number": b'{"model":7}',
    "an object": b'{"model":{"id":"gpt-b"}}',
    "a response in an array": b'{"response":[{"model":"gpt-b"}]}',
}
FORBIDDEN: Final = {
    "the model": b'{"type":"response.create","model":"gpt-b"}',
    "a late type": b'{"model":"main/gpt-b","tools":"' + BLANKS + b'","type":"response.create"}',
    "blanks": BLANKS + b'{"model":"gpt-b"}',
    "an escaped key": b'{"\\u006dodel":"gpt-b"}',
    "an escaped value": b'{"model":"\\u0067pt-b"}',
    "of the response": b'{"type":"response.create","response":{"model":"gpt-b"}}',
    "of the session": b'{"type":"session.update","session":{"model":"gpt-b"}}',
    "sorted keys": b'{"session":{"instructions":"' + BLANKS + b'","model":"gpt-b"},"type":"session.update"}',
    "an escaped type": b'{"type":"session\\u002eupdate","session":{"model":"gpt-b"}}',
    "a list of others": b'{"model":"fast","models":["fast","gpt-b"]}',
    "more than a megabyte": b'{"x":"' + b"y" * (1 << 20) + b'","model":"gpt-b","session":{"model":"gpt-b"}}',
    "another provider": b'{"model":"gem/good"}',
}
EVERY: Final = {**UNREADABLE, **FORBIDDEN}
ALLOWED: Final = {
    "the alias": (
        b'{"session":{"model":"fast"},"type":"session.update"}',
        b'{"session":{"model":"gpt-b"},"type":"session.update"}',
    ),
    "of the response": (b'{"response": {"model": "fast"}}', b'{"response": {"model": "gpt-b"}}'),
    "by its prefix": (b'{"session":{"model":"main/gpt-c"}}', b'{"session":{"model":"gpt-c"}}'),
    "no model": (b'{"type": "input_audio_buffer.append", "audio": "QUJD"}',) * 2,
    "no session": (b'{"session": null}',) * 2,
    "nothing": (b"",) * 2,
}


def open_session(path: str, first: bytes | None = None, text: str = LIMITED) -> SessionHarness:
    """Return an open session, whose first message, if it has to have one, has passed."""
    harness = SessionHarness(path, text)
    if first is not None:
        harness.take_head()
        harness.channel.dataReceived(frame(TEXT, first))
    harness.switch()
    if first is None:
        harness.take_head()
    harness.take_provider_bytes()
    return harness


def send_large(harness: SessionHarness, first: int, payload: bytes) -> None:
    """Send a message, in fragments where it is long."""
    pieces = [payload[at : at + 60_000] for at in range(0, len(payload), 60_000)] or [b""]
    for number, piece in enumerate(pieces):
        final = 0x80 if number == len(pieces) - 1 else 0
        harness.channel.dataReceived(frame(final | (0 if number else first & 0x0F), piece))


def check_closed(harness: SessionHarness) -> str:
    """Nothing but a close frame went on, and none but that came back; return its reason."""
    assert [one.first for one in harness.provider_frames()] == [CLOSE]
    (said,) = harness.client_frames()
    assert said.code == 1008
    return said.payload[2:].decode()


SESSIONS: Final = {"realtime": REALTIME, "translations": TRANSLATIONS, "live": LIVE_SESSIONS}


@pytest.mark.parametrize("path", SESSIONS.values(), ids=SESSIONS)
@pytest.mark.parametrize("first", [TEXT, BINARY], ids=["text", "binary"])
@pytest.mark.parametrize("payload", EVERY.values(), ids=EVERY)
def test_a_session_is_closed_for_a_message_that_names_another_model_or_cannot_be_read(
    path: str, first: int, payload: bytes
) -> None:
    harness = open_session(path)
    send_large(harness, first, payload)
    assert "gpt-b" not in check_closed(harness) or payload in FORBIDDEN.values()


@pytest.mark.parametrize("path", [RESPONSES, f"{RESPONSES}/ws?model=fast"])
@pytest.mark.parametrize("first", [TEXT, BINARY], ids=["text", "binary"])
@pytest.mark.parametrize("payload", EVERY.values(), ids=EVERY)
def test_a_session_of_responses_answers_such_a_message_with_an_error_and_goes_on(
    path: str, first: int, payload: bytes
) -> None:
    begin = b'{"type":"response.create","model":"fast"}'
    harness = open_session(path, begin if path == RESPONSES else None)
    send_large(harness, first, payload)
    (said,) = harness.client_frames()
    error = json.loads(said.payload)
    assert (error["type"], error["status"]) in {("error", 400), ("error", 404)}
    assert harness.provider_frames() == []
    harness.channel.dataReceived(frame(TEXT, b'{"type":"response.create","model":"fast"}'))
    assert [one.payload for one in harness.provider_frames()] == [
        b'{"type":"response.create","model":"gpt-b"}'
    ]


@pytest.mark.parametrize("path", [REALTIME, LIVE_SESSIONS])
@pytest.mark.parametrize("first", [TEXT, BINARY], ids=["text", "binary"])
@pytest.mark.parametrize(("payload", "sent"), ALLOWED.values(), ids=ALLOWED)
def test_what_it_may_use_goes_on_under_the_providers_name(
    path: str, first: int, payload: bytes, sent: bytes
) -> None:
    harness = open_session(path)
    harness.channel.dataReceived(frame(first, payload))
    assert [(one.first, one.payload) for one in harness.provider_frames()] == [(first, sent)]
    assert harness.client_frames() == []


def asked_for(query: str, text: str = THREE_FAMILIES, path: str = "/v1/realtime") -> SessionHarness:
    """Return a session whose query is this."""
    return SessionHarness(f"{path}?{query}", text)


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/responses/ws", "/v1/responses", LIVE_SESSIONS])
@pytest.mark.parametrize(
    "query", ["model=fast&model=gpt-b", "model=fast&x=1&%6dodel=gpt-b", "model=fast&model="]
)
def test_a_query_with_two_models_is_refused_whoever_asks(path: str, query: str) -> None:
    harness = asked_for(query, path=path)
    assert harness.status() == 400
    assert b"'model' more than once" in harness.received()
    assert not harness.pipeline.endpoint.connections
    assert harness.is_free()


@pytest.mark.parametrize(
    "query",
    [
        *("model=fast&Model=gpt-b", "model=fast;model=gpt-b", "model=fast&model[]=gpt-b", "x;model=gpt-b"),
        *("model=fast&deployment=gpt-b", "model=fast&Deployment=gpt-b"),
    ],
)
def test_a_query_that_some_server_reads_otherwise_is_refused_to_a_key_with_models(query: str) -> None:
    harness = asked_for(query, LIMITED)
    assert harness.status() == 400
    assert not harness.pipeline.endpoint.connections


@pytest.mark.parametrize("path", ["/v1/responses", LIVE_SESSIONS, BY_PATH.partition("?")[0]])
def test_a_key_with_models_names_none_in_a_query_that_nobody_checks(path: str) -> None:
    harness = asked_for("key=edge&model=gpt-b", LIMITED, path)
    assert harness.status() == 400
    assert not harness.pipeline.endpoint.connections


@pytest.mark.parametrize(
    "message",
    [
        b'{"session":{"delegation":{"type":"responses","responses":{"model":"gpt-b"}},"model":"gpt-c"}}',
        b'{"session":{"delegation":{"type":"decisions","decisions":{"model":"gpt-b"}}}}',
        b'{"session":{"audio":{"input":{"transcription":{"model":"gpt-b"}}}}}',
        b'{"session":{"input_audio_transcription":{"model":"gpt-b"}}}',
        b'{"tools":[{"type":"function"},{"type":"image_generation","model":"gpt-b"}]}',
        b'{"response":{"moderation":{"model":"gpt-b"}}}',
        b'{"fallbacks":["fast",{"model":"gpt-b"}]}',
    ],
    ids=["responses", "decisions", "transcription", "its former place", "tools", "moderation", "fallbacks"],
)
def test_models_beside_the_one_are_checked_as_well(message: bytes) -> None:
    harness = open_session(LIVE_SESSIONS)
    harness.channel.dataReceived(frame(TEXT, message))
    assert "no model is named 'gpt-b'" in check_closed(harness)


def test_a_message_may_have_hundreds_of_tools() -> None:
    tool = b'{"type":"function","name":"f","parameters":{"x":"' + b"y" * 200 + b'"}}'
    message = b'{"model":"fast","tools":[' + b",".join([tool] * 1500) + b"]}"
    harness = open_session(REALTIME)
    send_large(harness, TEXT, message)
    harness.channel.dataReceived(frame(TEXT, b"{}"))
    assert harness.client_frames() == []
    assert b"gpt-b" in harness.provider_frames()[0].payload


def test_a_first_message_is_searched_once_before_its_provider_is_dialled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[bytes] = []

    def find(payload: bytes, *paths: JsonPath, max_values: int) -> list[NestedString]:
        searched.append(payload)
        return find_unambiguous_strings(payload, *paths, max_values=max_values)

    monkeypatch.setattr(session_models, "find_unambiguous_strings", find)
    harness = SessionHarness(RESPONSES, LIMITED)
    harness.channel.dataReceived(frame(TEXT, b'{"type":"response.create","model":"fast"}'))
    assert len(searched) == len(harness.pipeline.endpoint.connections) == 1


@pytest.mark.parametrize("piece", [b'"m":1,', b'"\\u006c%b":1,' % (b"\\n" * 400)])
def test_a_message_of_millions_of_members_is_refused_before_anybody_waits(piece: bytes) -> None:
    harness = open_session(REALTIME)
    payload = b"{%b%b}" % (piece * (8_000_000 // len(piece)), b'"x":1')
    harness.channel.dataReceived(b"\x81\xff" + len(payload).to_bytes(8, "big") + bytes(4) + payload)
    assert "too many values" in check_closed(harness)


@pytest.mark.parametrize("more", [0, 1])
def test_so_many_values_of_a_message_are_looked_at(more: int) -> None:
    """The message, its tools and each tool are values on the way to a model."""
    harness = open_session(REALTIME)
    tools = [b"{}"] * (_MAX_VALUES - 2 + more)
    send_large(harness, TEXT, b'{"tools":[' + b",".join(tools) + b"]}")
    if more:
        assert f"too many values to search for models: more than {_MAX_VALUES}" in check_closed(harness)
    else:
        assert harness.client_frames() == []


@pytest.mark.parametrize("path", [BY_SETUP, BY_PATH])
@pytest.mark.parametrize(
    "payload",
    [
        b'{"setup":{"model":"models/gem/secret"}}',
        BLANKS + b'{"setup":{"model":"models/gem/secret"}}',
        b'{"realtimeInput":{},"setup":{"generationConfig":{"x":"' + BLANKS + b'"},"model":"gem/secret"}}',
        b'{"setup":{"model":"models/good","Model":"models/secret"}}',
        b'{"setup":{"model":"models/secret"},}',
        b'[{"setup":{"model":"models/secret"}}]',
        b'{"event_type":"interaction.create","model":"gem/secret"}',
        b'{"interaction":{"model":"gem/secret"}}',
        b'{"events":[{"model":"models/good"},{"model":"models/secret"}]}',
    ],
    ids=[
        *("second setup", "blanks", "sorted keys", "two cases", "a trailing comma", "an array"),
        *("an interaction", "an interaction within", "events"),
    ],
)
@pytest.mark.parametrize("first", [TEXT, BINARY], ids=["text", "binary"])
def test_a_second_setup_of_gemini_cannot_name_another_model(path: str, payload: bytes, first: int) -> None:
    harness = open_session(path, b'{"setup":{"model":"models/gem/good"}}' if path == BY_SETUP else None)
    harness.channel.dataReceived(frame(TEXT, b'{"realtimeInput":{"text":"hi"}}'))
    assert len(harness.provider_frames()) == 1
    harness.channel.dataReceived(frame(first, payload))
    check_closed(harness)


@pytest.mark.parametrize(
    "payload",
    [
        b'{"setup":{"model":"models/gem/good","Model":"models/gem/secret"}}',
        b'{"setup":{"model":"models/gem/secret"},"setup":{"model":"models/gem/good"}}',
        b'{"setup":{"model":"models/gem/good"},"x":NaN}',
    ],
    ids=["two cases", "two setups", "NaN"],
)
def test_a_first_message_that_cannot_be_read_for_certain_ends_the_session(payload: bytes) -> None:
    harness = SessionHarness(BY_SETUP, LIMITED)
    harness.take_head()
    harness.channel.dataReceived(frame(TEXT, payload))
    (said,) = harness.client_frames()
    assert said.code == 1008
    assert not harness.pipeline.endpoint.connections
    assert harness.event.status == "rejected"


@pytest.mark.parametrize(
    "fields", [b'"response":{"model":"gpt-b"}', b'"models":["gpt-b"]', b'"Model":"gpt-b"']
)
def test_a_first_message_that_names_another_model_besides_ends_the_session(fields: bytes) -> None:
    harness = SessionHarness(RESPONSES, LIMITED)
    harness.take_head()
    harness.channel.dataReceived(frame(TEXT, b'{"model":"fast",%b}' % fields))
    (said,) = harness.client_frames()
    assert said.code == 1008
    assert not harness.pipeline.endpoint.connections


@pytest.mark.parametrize("path", [REALTIME, RESPONSES])
def test_a_message_that_is_too_long_to_be_read_ends_the_session(path: str) -> None:
    first = b'{"type":"response.create","model":"fast"}' if path == RESPONSES else None
    harness = open_session(path, first)
    head = b"\x81\xff" + (MAX_MESSAGE_BYTES + 1).to_bytes(8, "big") + b"mask"
    harness.channel.dataReceived(frame(TEXT, b"{}") + head)
    (passed, closed) = harness.provider_frames()
    assert (passed.payload, closed.code) == (b"{}", 1008)
    (said,) = harness.client_frames()
    assert said.payload[2:].startswith(b"a message has more than 8388608 bytes")


def test_the_longest_message_passes() -> None:
    harness = open_session(REALTIME)
    payload = b'{"x":"' + b"y" * (MAX_MESSAGE_BYTES - 8) + b'"}'
    assert len(payload) == MAX_MESSAGE_BYTES
    data = b"\x81\xff" + len(payload).to_bytes(8, "big") + bytes(4) + payload
    harness.channel.dataReceived(data)
    assert harness.take_provider_bytes() == data


def test_a_whole_message_that_is_too_long_does_not_pass_either() -> None:
    harness = open_session(REALTIME)
    payload = bytes(MAX_MESSAGE_BYTES + 1)
    head = b"\x81\xff" + len(payload).to_bytes(8, "big") + b"\x00" * 4
    harness.channel.dataReceived(head + payload + frame(TEXT, b'{"session":{"model":"gpt-b"}}'))
    check_closed(harness)


@pytest.mark.parametrize("payload", EVERY.values(), ids=EVERY)
def test_a_key_without_models_sends_what_it_likes(payload: bytes) -> None:
    text = THREE_FAMILIES + KEYS.replace(', models: ["fast", "main/gpt-c*", "gem/good*"]', "")
    harness = open_session("/v1/realtime?model=gpt-b", text=text)
    data = frame(BINARY, payload[:60_000])
    harness.channel.dataReceived(data)
    assert harness.take_provider_bytes() == data


IN_FRAGMENTS: Final = {
    "at once": lambda begun, close: [begun + close],
    "apart": lambda begun, close: [begun, close],
    "byte by byte": lambda begun, close: [bytes([byte]) for byte in begun + close],
}


@pytest.mark.parametrize("path", [REALTIME, f"{RESPONSES}/ws?model=fast", LIVE_SESSIONS, BY_PATH])
@pytest.mark.parametrize("cut", IN_FRAGMENTS.values(), ids=IN_FRAGMENTS)
def test_nothing_of_a_message_goes_on_that_the_client_closes_within(
    path: str, cut: Callable[[bytes, bytes], list[bytes]]
) -> None:
    harness = open_session(path)
    begun = frame(0x01, FORBIDDEN["the model"]) + frame(0x89, b"ping") + frame(0x00, b" ")
    for data in cut(begun, close_frame(1000)):
        harness.channel.dataReceived(data)
    assert [one.first for one in harness.provider_frames()] == [0x89, CLOSE]


@pytest.mark.parametrize("behind", [b'{"type":"x"}', FORBIDDEN["the model"], b"x" * 70_000])
def test_what_comes_behind_a_refusal_does_not_cut_the_closing_handshake_short(behind: bytes) -> None:
    harness = open_session(REALTIME)
    harness.channel.dataReceived(frame(TEXT, FORBIDDEN["of the session"]))
    assert [one.code for one in harness.client_frames()] == [1008]
    send_large(harness, TEXT, behind)
    assert not harness.transport.disconnecting
    assert [one.code for one in harness.provider_frames()] == [1008]


def check_flood(harness: SessionHarness) -> None:
    """A client that goes on with messages that are refused, and reads no answer, is closed."""
    for _ in range(MAX_UNREAD_ANSWERS):
        harness.channel.dataReceived(frame(TEXT, b"{"))
    assert harness.provider_frames() == []
    harness.channel.dataReceived(frame(TEXT, b"{") * 1000)
    assert [one.code for one in harness.provider_frames()] == [1008]


def test_a_client_that_reads_no_refusals_has_its_session_closed() -> None:
    harness = open_session(f"{RESPONSES}/ws?model=fast")
    harness.channel.dataReceived(frame(TEXT, b"{") * 1000)
    assert len(harness.client_frames()) == 1000  # it reads them
    harness.channel.pauseProducing()
    check_flood(harness)


def test_exactly_so_many_refusals_may_wait_to_be_read() -> None:
    harness = open_session(f"{RESPONSES}/ws?model=fast")
    harness.channel.pauseProducing()
    for number in range(MAX_UNREAD_ANSWERS + 1):
        assert harness.provider_frames() == [], number
        harness.channel.dataReceived(frame(TEXT, b"{"))
    assert [one.code for one in harness.provider_frames()] == [1008]


def test_refusals_do_not_pile_up_behind_a_message_that_the_provider_does_not_end() -> None:
    harness = open_session(f"{RESPONSES}/ws?model=fast")
    harness.provider.send(spoken(b"begun", 0x01))
    check_flood(harness)
    harness.take_client_bytes()
    harness.turn()
    assert harness.server.budget.held == 0
