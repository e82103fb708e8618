"""A session that ends at any byte: what the client sent whole has arrived, and the end is legal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.realtime.ending import Ending, Side
from tests.support.frames import RawFrame, messages_of, split_frames
from tests.support.raw_sessions import frame
from tests.support.relayed_sessions import RelayedSession

TEXT: Final = 0x01
BINARY: Final = 0x02
FINAL: Final = 0x80
CLOSE: Final = 0x88
PING: Final = 0x89
PONG: Final = 0x8A
MARKER: Final = b'"session.update"'
UPDATE: Final = b'{"type":"session.update","session":{"model":"alias"}}'
RENAMED: Final = UPDATE.replace(b"alias", b"real")
AUDIO: Final = b'{"type":"input_audio_buffer.append","audio":"' + b"A" * 200 + b'"}'
PADDED: Final = UPDATE[:-1] + b" " * 300 + b"}"
PAYLOADS: Final = (UPDATE, AUDIO, PADDED, b"", b"{", b"x" * 126, b"\x00")
MASK: Final = b"\x10\x20\x30\x40"


def rename(payload: bytes) -> bytes:
    """As a session does it."""
    return payload.replace(b'"alias"', b'"real"') if b'"alias"' in payload else payload


def renamed_session() -> RelayedSession:
    """One whose messages are looked into only where they begin with the marker."""
    return RelayedSession(rename, head_marker=MARKER)


def read_session() -> RelayedSession:
    """One whose messages are all looked into."""
    return RelayedSession(rename)


SESSIONS: Final = {"plain": RelayedSession, "renamed": renamed_session, "read": read_session}
EVERY_SESSION: Final = pytest.mark.parametrize("build", SESSIONS.values(), ids=SESSIONS)


@st.composite
def client_frames(draw: st.DrawFn) -> list[RawFrame]:
    """Draw messages in fragments, with control frames before and within."""
    found: list[RawFrame] = []
    for _ in range(draw(st.integers(1, 4))):
        payload = draw(st.sampled_from(PAYLOADS))
        cuts = draw(st.lists(st.integers(0, len(payload)), max_size=3).map(sorted))
        places = [0, *cuts, len(payload)]
        first = draw(st.sampled_from([TEXT, BINARY]))
        for number, (start, end) in enumerate(pairwise(places)):
            for _ in range(draw(st.integers(0, 2))):
                first_byte = draw(st.sampled_from([PING, PONG]))
                found.append(RawFrame(first_byte, draw(st.sampled_from([b"", b"p" * 9]))))
            final = FINAL if number == len(places) - 2 else 0
            found.append(RawFrame(final | (0 if number else first), payload[start:end]))
    return found


def cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Return what arrives at once: pieces of these sizes, and then the rest."""
    pieces, at = [], 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    return [piece for piece in [*pieces, data[at:]] if piece]


SIZES: Final = st.lists(st.one_of(st.integers(1, 9), st.integers(1, 400)), max_size=40)


def sent_frames(drawn: Sequence[RawFrame]) -> bytes:
    """Return frames as a client sends them."""
    return b"".join(frame(one.first, one.payload, MASK) for one in drawn)


def change_of(build: Callable[[], RelayedSession]) -> Callable[[bytes], bytes]:
    """Return what a session makes of a message."""
    return bytes if build is RelayedSession else rename


def check_what_arrived(session: RelayedSession, sent: bytes, change: Callable[[bytes], bytes]) -> None:
    """The provider has all that was sent whole, and nothing of the gateway's stands within a frame."""
    whole, _ = split_frames(sent)
    found, rest = split_frames(bytes(session.upstream.received))
    closes = [one for one in found if one.first == CLOSE]
    if rest:
        assert (closes, session.upstream.ends) == ([], ["abort"])
    else:
        assert [one.payload[:2] for one in closes] == [(1001).to_bytes(2, "big")]
        assert found[-1] is closes[0]
    passed = [one for one in found if one.first != CLOSE]
    controls = [one for one in whole if one.is_control]
    assert [one for one in passed if one.is_control] == controls
    wanted, unfinished = messages_of(whole)
    arrived, begun = messages_of(passed)
    assert arrived == [(kind, change(payload)) for kind, payload in wanted]
    assert begun == unfinished[: len(begun)]


@EVERY_SESSION
@given(client_frames(), SIZES, st.integers(0, 3000))
def test_what_was_sent_whole_arrives_wherever_the_client_leaves(
    build: Callable[[], RelayedSession], drawn: list[RawFrame], sizes: list[int], leaves_at: int
) -> None:
    session = build()
    sent = sent_frames(drawn)[:leaves_at]
    for data in cut(sent, sizes):
        session.feed(from_client=True, data=data)
    session.relay.on_client_lost()
    session.check_is_over()
    assert session.endings == [Ending(Side.CLIENT, is_lost=True)]
    check_what_arrived(session, sent, change_of(build))


@EVERY_SESSION
@given(client_frames(), SIZES, SIZES, st.integers(0, 3000), st.booleans())
def test_a_close_of_the_gateways_own_stands_between_two_frames(
    build: Callable[[], RelayedSession],
    drawn: list[RawFrame],
    before: list[int],
    behind: list[int],
    ends_at: int,
    goes_on: bool,
) -> None:
    session = build()
    sent = sent_frames(drawn)
    for data in cut(sent[:ends_at], before):
        session.feed(from_client=True, data=data)
    session.relay.close(Ending(Side.GATEWAY), 1001, "over")
    for data in cut(sent[ends_at:], behind) if goes_on else ():
        session.feed(from_client=True, data=data)
    session.wait_for_the_end()
    session.check_is_over()
    found, rest = split_frames(bytes(session.upstream.received))
    assert ("abort" in session.upstream.ends) is bool(rest)
    assert [one.first == CLOSE for one in found].count(True) == (not rest)
    assert rest or found[-1].first == CLOSE
    whole, _ = messages_of(split_frames(sent[:ends_at])[0])
    arrived, _ = messages_of(found if rest else found[:-1])
    change = change_of(build)
    assert arrived[: len(whole)] == [(kind, change(payload)) for kind, payload in whole]


def test_the_rest_of_a_frame_that_streams_goes_on_with_the_begin_of_another_behind_it() -> None:
    session, audio = renamed_session(), frame(FINAL | TEXT, AUDIO, MASK)
    session.feed(from_client=True, data=audio[:-10])
    assert session.upstream.received == audio[:-10]
    session.feed(from_client=True, data=audio[-10:] + frame(FINAL | TEXT, UPDATE, MASK)[:1])
    assert session.upstream.received == audio
    session.relay.on_client_lost()
    found, rest = split_frames(bytes(session.upstream.received))
    assert ([one.first for one in found], rest) == ([FINAL | TEXT, CLOSE], b"")


def test_whole_messages_go_on_with_the_begin_of_another_behind_them() -> None:
    session, audio = renamed_session(), frame(FINAL | TEXT, AUDIO, MASK)
    session.feed(from_client=True, data=audio + audio + frame(TEXT, UPDATE, MASK))
    assert session.upstream.received == audio + audio


def test_fragments_of_a_message_that_streams_go_on_as_they_come() -> None:
    session = renamed_session()
    data = frame(TEXT, AUDIO, MASK) + frame(0, b"more", MASK)
    for at in range(0, len(data), 250):
        session.feed(from_client=True, data=data[at : at + 250])
    assert session.upstream.received == data


def test_a_refused_message_is_closed_for_behind_what_streams_before_it() -> None:
    def refuse(_: bytes) -> None:
        relay.close(Ending(Side.GATEWAY), 1008, "no")

    session = RelayedSession(refuse, head_marker=MARKER)
    relay = session.relay
    audio = frame(FINAL | TEXT, AUDIO, MASK)
    session.feed(from_client=True, data=audio[:-10])
    session.feed(from_client=True, data=audio[-10:] + audio + frame(FINAL | TEXT, UPDATE, MASK))
    found, rest = split_frames(bytes(session.upstream.received))
    assert ([one.first for one in found], rest) == ([FINAL | TEXT, FINAL | TEXT, CLOSE], b"")


def test_a_provider_that_has_had_nothing_of_a_held_message_is_closed_in_order() -> None:
    session = read_session()
    session.feed(from_client=True, data=frame(FINAL | TEXT, UPDATE, MASK)[:-1])
    session.feed(from_client=False, data=b"\x88\x02\x03\xe8")
    session.wait_for_the_end()  # the client does not answer the provider's close frame
    session.check_is_over()
    assert session.upstream.ends == ["close"]
    assert not session.upstream.received
