"""What is held of a message, and what goes on meanwhile, however it arrives."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.wire.held_frames import HeldFrames
from tests.support.raw_sessions import frame

PAYLOADS = st.sampled_from([b"", b"x", b"x" * 125, b"x" * 126, b"x" * 2000])
PARTS = st.lists(
    st.tuples(PAYLOADS, st.lists(st.sampled_from([b"", b"x" * 125]), max_size=3)), min_size=1, max_size=4
)


@given(parts=PARTS, sizes=st.lists(st.integers(1, 300)))
def test_its_own_frames_are_held_and_those_of_control_go_on(
    parts: list[tuple[bytes, list[bytes]]], sizes: list[int]
) -> None:
    sent: list[tuple[bool, bytes]] = []
    for number, (payload, pings) in enumerate(parts):
        sent.append((False, frame(0 if number else 1, payload)))
        sent += [(True, frame(0x89, ping)) for ping in pings]
    data = b"".join(one for _, one in sent)
    held, passed, at = HeldFrames(), b"", 0
    for size in [*sizes, len(data)]:
        passed += held.add(data[at : at + size])
        at += size
    assert bytes(held.raw) == b"".join(one for is_control, one in sent if not is_control)
    assert passed == b"".join(one for is_control, one in sent if is_control)
    assert held.framing_bytes == len(held.raw) - sum(len(payload) for payload, _ in parts)


@pytest.mark.parametrize("cut", range(1, len(frame(0x89, b"ping"))))
def test_a_ping_goes_on_once_it_is_whole(cut: int) -> None:
    held, part, ping = HeldFrames(), frame(0x01, b"part"), frame(0x89, b"ping")
    assert held.add(part + ping[:cut]) == b""
    assert held.add(ping[cut:]) == ping
    assert held.raw == part


def test_a_flood_of_pings_takes_its_time_only() -> None:
    held, flood = HeldFrames(), frame(0x89) * 10_000
    held.add(frame(0x01, b"x" * 60_000))
    began = process_time()
    assert held.add(flood) == flood
    assert process_time() - began < 0.25
