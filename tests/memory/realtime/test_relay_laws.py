"""What the two sides of a session get, whatever they send, however it arrives, and whatever comes between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.frame_protocol import FrameProtocol, Opcode

from mgw.nouns.errors import GatewayError, Reason
from mgw.realtime.ending import Ending, Side
from mgw.realtime.messages import MAX_MESSAGE_BYTES
from mgw.realtime.relay import CLOSE_SECONDS
from mgw.wire.whole_frames import TEXT, render_frame
from tests.support.laws import examples
from tests.support.relayed_sessions import (
    DrawnMessage,
    MemoryConnection,
    RelayedSession,
    data_messages,
    interleave,
    messages,
    pieces,
    read,
    send,
)

ORDER: Final = st.lists(st.booleans(), max_size=30)
FEW: Final = examples(40)
OURS: Final = b'{"type":"error"}'


def pause(session: RelayedSession, step: int) -> None:
    """Have one side take less for a while, or everything again."""
    relay = session.relay
    (
        relay.on_client_full,
        relay.on_upstream_full,
        relay.on_client_drained,
        relay.on_upstream_drained,
    )[step % 4]()


@FEW
@given(messages(), messages(), ORDER, st.lists(st.integers(0, 3), max_size=30), st.booleans())
def test_bytes_pass_as_they_came_in_both_directions(
    from_client: Sequence[DrawnMessage],
    from_upstream: Sequence[DrawnMessage],
    order: list[bool],
    pauses: list[int],
    client_closes_first: bool,
) -> None:
    session = RelayedSession()
    makers = {True: FrameProtocol(True, []), False: FrameProtocol(False, [])}
    sent = {True: pieces(send(makers[True], from_client)), False: pieces(send(makers[False], from_upstream))}
    for number, (side, data) in enumerate(interleave(order, sent[True], sent[False])):
        if number < len(pauses):
            pause(session, pauses[number])
        session.feed(from_client=side, data=data)
    assert not session.endings
    for side in (client_closes_first, not client_closes_first):
        close = bytes(makers[side].close(1000, "done"))
        sent[side].append(close)
        session.feed(from_client=side, data=close)
    assert session.upstream.received == b"".join(sent[True])
    assert session.client.received == b"".join(sent[False])
    assert session.endings == [
        Ending(Side.CLIENT if client_closes_first else Side.UPSTREAM, 1000, said="done")
    ]
    assert (session.client.ends, session.upstream.ends) == (["close"], ["close"])
    session.check_is_over()


def check_legal_end(connection: MemoryConnection, *, is_client: bool) -> None:
    """A side has received legal frames, the last of them a close, or its connection was broken off."""
    frames, fault = read(bytes(connection.received), is_client=is_client)
    assert fault is None
    closes = [frame.opcode is Opcode.CLOSE for frame in frames]
    assert not any(closes[:-1])
    assert closes[-1:] == [True] or "abort" in connection.ends


@FEW
@given(
    messages(), messages(), ORDER, st.integers(0, 30), st.integers(0, 30), st.sampled_from(["close", "lost"])
)
def test_what_the_gateway_says_stands_at_a_legal_place(
    from_client: Sequence[DrawnMessage],
    from_upstream: Sequence[DrawnMessage],
    order: list[bool],
    says_at: int,
    ends_at: int,
    how: str,
) -> None:
    session = RelayedSession()
    sent = interleave(
        order,
        pieces(send(FrameProtocol(True, []), from_client)),
        pieces(send(FrameProtocol(False, []), from_upstream)),
    )
    for number, (side, data) in enumerate(sent):
        if number == says_at:
            session.relay.to_client.send_message(render_frame(TEXT, OURS))
        if number == ends_at:
            if how == "close":
                session.relay.close(Ending(Side.GATEWAY), 1001, "over")
            else:
                session.relay.on_client_lost()
        session.feed(from_client=side, data=data)
    if says_at < len(sent) and ends_at >= len(sent):
        frames, _ = read(bytes(session.client.received), is_client=True)
        theirs = [message.payload for message in from_upstream]
        found = data_messages(frames)
        assert OURS in found
        found.remove(OURS)
        assert found == theirs
    session.relay.close(Ending(Side.GATEWAY), 1001, "over")
    session.wait_for_the_end()
    session.check_is_over()
    check_legal_end(session.upstream, is_client=False)
    if how == "close" or ends_at >= len(sent):
        check_legal_end(session.client, is_client=True)


@FEW
@given(
    messages(max_size=2),
    messages(max_size=2),
    ORDER,
    st.lists(st.binary(min_size=1, max_size=12), min_size=1, max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_whatever_is_illegal_ends_the_session_and_does_not_pass(
    from_client: Sequence[DrawnMessage],
    from_upstream: Sequence[DrawnMessage],
    order: list[bool],
    garbage: list[bytes],
    client_is_guilty: bool,
    is_rewritten: bool,
) -> None:
    session = RelayedSession(lambda payload: payload) if is_rewritten else RelayedSession()
    sent = {
        True: pieces(send(FrameProtocol(True, []), from_client)),
        False: pieces(send(FrameProtocol(False, []), from_upstream)),
    }
    sent[client_is_guilty] += garbage
    for side, data in interleave(order, sent[True], sent[False]):
        session.feed(from_client=side, data=data)
    (session.relay.on_client_lost if client_is_guilty else session.relay.on_upstream_lost)()
    session.wait_for_the_end()
    session.check_is_over()
    innocent = session.upstream if client_is_guilty else session.client
    check_legal_end(innocent, is_client=not client_is_guilty)


CLIENT: Final = FrameProtocol(True, [])
BEGUN: Final = bytes(FrameProtocol(True, []).send_data("x" * 300, fin=True))[:100]


def test_a_message_that_cannot_be_held_leaves_nothing_behind() -> None:
    session = RelayedSession(lambda payload: payload, max_held=50)
    session.feed(from_client=True, data=BEGUN)
    session.feed(from_client=True, data=b"rest that belongs to nothing" * 20)
    session.wait_for_the_end()
    session.check_is_over()
    (ending,) = session.endings
    assert isinstance(ending.refusal, GatewayError)
    assert ending.refusal.reason is Reason.OVERLOADED
    frames, fault = read(bytes(session.upstream.received), is_client=False)
    assert ([frame.opcode for frame in frames], fault) == ([Opcode.CLOSE], None)


def test_nothing_passes_behind_the_close_frame_of_a_refused_message() -> None:
    def close(_: bytes) -> None:
        relay.close(Ending(Side.GATEWAY), 1008, "no")

    session = RelayedSession(close, first_only=True)
    relay = session.relay
    data = b"".join(bytes(CLIENT.send_data(text, fin=True)) for text in ("{}", "[]"))
    session.feed(from_client=True, data=data + BEGUN)
    session.feed(from_client=True, data=bytes(300))
    session.wait_for_the_end()
    session.check_is_over()
    check_legal_end(session.upstream, is_client=False)
    frames, _ = read(bytes(session.upstream.received), is_client=False)
    assert len(frames) == 1


@pytest.mark.parametrize("is_rewritten", [False, True])
def test_a_close_frame_within_a_message_passes(is_rewritten: bool) -> None:
    session = RelayedSession(lambda payload: payload) if is_rewritten else RelayedSession()
    maker = FrameProtocol(True, [])
    data = bytes(maker.send_data("begun", fin=False)) + bytes(maker.close(1000, "enough"))
    session.feed(from_client=True, data=data)
    assert session.upstream.received == data
    session.feed(from_client=False, data=bytes(FrameProtocol(False, []).close(1000, "enough")))
    assert session.endings == [Ending(Side.CLIENT, 1000, said="enough")]
    session.check_is_over()


def test_empty_fragments_are_not_held_without_end() -> None:
    session = RelayedSession(lambda payload: payload, max_held=1 << 30)
    fragment = b"\x00\x80key." * 10_000
    session.feed(from_client=True, data=b"\x01\x80key.")
    for _ in range(300):
        session.feed(from_client=True, data=fragment)
        if session.endings or session.upstream.received:
            break
    frames, _ = read(bytes(session.upstream.received), is_client=False)
    assert [frame.opcode for frame in frames] == [Opcode.CLOSE]


def begun(size: int) -> bytes:
    """Return the first frame of a message, of so many bytes of payload, with more to come."""
    length = bytes([0xFF]) + size.to_bytes(8, "big")
    return b"\x01" + length + bytes(4 + size)


@pytest.mark.parametrize(
    ("held", "more", "said"),
    [
        (begun(MAX_MESSAGE_BYTES), b"\x00\x81\0\0\0\0\0", "a message has more than 8388608 bytes"),
        (
            b"\x01\x80key." + b"\x00\x80key." * 43_687 + b"\x00\xfe\x00\x7ekey.%b" % bytes(126) * 2,
            b"\x00\x80key.",
            "the frames of a message have more than 262144 bytes of headers",
        ),
    ],
    ids=["payload", "headers"],
)
def test_as_much_is_held_as_may_be_and_no_more(held: bytes, more: bytes, said: str) -> None:
    session = RelayedSession(lambda payload: payload, max_held=1 << 30)
    session.feed(from_client=True, data=held)
    assert (session.endings, session.budget.held) == ([], len(held))
    assert not session.upstream.received
    session.feed(from_client=True, data=more)
    frames, _ = read(bytes(session.client.received), is_client=True)
    assert frames[-1].payload == (1009, said)
    session.wait_for_the_end()
    session.check_is_over()


def test_a_client_that_has_ended_is_not_waited_for_where_the_provider_takes_nothing() -> None:
    session = RelayedSession()
    session.feed(from_client=True, data=bytes(FrameProtocol(True, []).send_data("hello", fin=True)))
    session.relay.on_upstream_full()
    session.clock.advance(10)
    session.relay.on_client_ended()
    session.clock.advance(CLOSE_SECONDS - 1)
    session.relay.on_client_ended()  # it is looked at every few seconds, and told each time
    assert session.client.is_paused
    assert not session.endings
    session.clock.advance(1)
    assert session.endings == [Ending(Side.CLIENT, is_lost=True)]
    frames, _ = read(bytes(session.upstream.received), is_client=False)
    assert frames[-1].opcode is Opcode.CLOSE
    assert session.upstream.ends == ["close"]  # broken off, it might lose what stands before the close frame
    session.check_is_over()


def test_a_provider_that_takes_something_gets_the_rest_of_a_client_that_has_ended() -> None:
    session = RelayedSession()
    session.relay.on_upstream_full()
    session.relay.on_client_ended()
    session.clock.advance(CLOSE_SECONDS - 1)
    session.relay.on_upstream_drained()
    session.clock.advance(29)
    assert not session.client.is_paused
    session.relay.on_upstream_full()
    session.clock.advance(29)
    assert not session.endings
    session.clock.advance(1)
    assert session.endings == [Ending(Side.UPSTREAM, is_stalled=True)]
    session.check_is_over()
