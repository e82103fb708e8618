"""A client's messages that name models: one value changes, and nothing else of what the client has sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from wsproto.frame_protocol import FrameProtocol, Opcode

from mgw.realtime.ending import Ending, Side
from mgw.realtime.messages import find_message_models, rewrite_models
from tests.support.frames import split_raw_frames
from tests.support.laws import examples
from tests.support.relayed_sessions import (
    DrawnMessage,
    RelayedSession,
    SentFrame,
    data_messages,
    fragments,
    pieces,
    read,
    send,
)

REFUSED: Final = "of another provider"
NAMES: Final = {"alias": "real", "ünusual": 'with "quotes"'}
SPELLINGS: Final = (
    '{"model":"alias","x":[1,{"model":"alias"}]}',
    '{ "type" : "response.create" ,\n"\\u006dodel" : "\\u0061lias" }',
    '{"model":"plain","model":"alias"}',
    '{"model":"ünusual","x":"ü"}',
    '{"model":"plain"}',
    '{"x":{"model":"alias"}}',
    '{"model":7}',
    '{"model":"alias"',
    "model alias",
    "",
    f'{{"model":"{REFUSED}"}}',
)


def rewrite(payload: bytes) -> bytes | None:
    """As a session does it."""
    found = find_message_models(payload, [("model",)])
    if not found:
        return payload
    if found[-1].value == REFUSED:
        return None
    return rewrite_models(payload, found, lambda asked: NAMES.get(asked, asked))


def expected(text: str) -> object:
    """Return what a provider has to read, by another reader of JSON."""
    try:
        document = json.loads(text)
    except ValueError:
        return text
    if isinstance(document, dict) and isinstance(document.get("model"), str):
        document["model"] = NAMES.get(document["model"], document["model"])
    return document


def parsed(payload: bytes) -> object:
    """Return a message as the provider reads it."""
    try:
        return json.loads(payload)
    except ValueError:
        return payload.decode()


@st.composite
def spelled(draw: st.DrawFn) -> DrawnMessage:
    """Draw a message in fragments that are cut anywhere; binary ones are of interest only as objects."""
    text = draw(st.sampled_from(SPELLINGS))
    cuts = draw(st.lists(st.integers(0, len(text)), max_size=2).map(sorted))
    starts = [0, *cuts]
    parts = [text[start:end] for start, end in zip(starts, [*cuts, len(text)], strict=True)]
    return DrawnMessage(draw(st.booleans()), tuple(draw(fragments(st.just(part))) for part in parts))


def controls(frames: Sequence[SentFrame]) -> list[bytes]:
    """Return the control frames."""
    return [frame.data for frame in frames if frame.is_control]


@examples(60)
@given(st.lists(spelled(), max_size=4), st.integers(0, 40))
def test_only_the_model_changes_and_nothing_is_lost(drawn: list[DrawnMessage], ends_at: int) -> None:
    session = RelayedSession(rewrite)
    sent = send(FrameProtocol(True, []), drawn)
    arriving = pieces(sent)
    for data in arriving[:ends_at]:
        session.feed(from_client=True, data=data)
    frames, fault = read(bytes(session.upstream.received), is_client=False)
    assert fault is None
    if ends_at >= len(arriving):
        texts = [message.payload.decode() for message in drawn]
        found = [parsed(payload) for payload in data_messages(frames)]
        assert found == [expected(text) for text in texts if REFUSED not in text]
        kinds = (Opcode.PING, Opcode.PONG)
        assert [frame.opcode for frame in frames if frame.opcode in kinds] == [
            Opcode(data[0] & 15) for data in controls(sent)
        ]
        assert not session.budget.held
    session.relay.close(Ending(Side.GATEWAY), 1001, "over")
    session.wait_for_the_end()
    session.check_is_over()
    frames, fault = read(bytes(session.upstream.received), is_client=False)
    assert (fault, frames[-1].opcode) == (None, Opcode.CLOSE)


@examples(30)
@given(st.lists(spelled(), max_size=4))
def test_messages_that_keep_their_model_pass_as_the_same_bytes(drawn: list[DrawnMessage]) -> None:
    session = RelayedSession(rewrite)
    kept = [message for message in drawn if rewrite(message.payload) == message.payload]
    sent = send(FrameProtocol(True, []), kept)
    for data in pieces(sent):
        session.feed(from_client=True, data=data)
    found, rest = split_raw_frames(bytes(session.upstream.received))
    assert not rest
    # What is of control need not wait for the message that it came within.
    assert [one for one in found if not one[0] & 8] == [frame.data for frame in sent if not frame.is_control]
    assert [one for one in found if one[0] & 8] == controls(sent)
