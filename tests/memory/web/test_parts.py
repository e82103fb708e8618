"""A response in parts: a slice each turn of the reactor, and none while its client takes nothing."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred

from mgw.web.server_response import SLICE_BYTES, send_parts
from tests.support.deferreds import result_of
from tests.support.pipelines import RecordingChannel


@dataclass
class Turns(RecordingChannel):
    """A client, and a reactor that turns when the test says so."""

    writes: list[int] = field(default_factory=list)
    """How many bytes each turn has written."""
    waiting: list[Deferred[None]] = field(default_factory=list)

    def write(self, data: bytes) -> None:
        super().write(data)
        self.writes[-1] += len(data)

    def pause(self) -> Awaitable[None]:
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def send(self, parts: list[bytes]) -> Deferred[None]:
        self.writes.append(0)
        return Deferred.fromCoroutine(send_parts(self, b"text/plain", parts, [(b"X", b"y")], self.pause))

    def turn(self) -> None:
        self.writes.append(0)
        self.waiting.pop().callback(None)


SIZES = st.sampled_from([0, 1, 100, SLICE_BYTES - 1, SLICE_BYTES, SLICE_BYTES + 1, 700_000])


@given(sizes=st.lists(SIZES, max_size=6))
def test_no_turn_writes_more_than_a_slice_and_few_write_less(sizes: list[int]) -> None:
    client = Turns()
    parts = [bytes([number]) * size for number, size in enumerate(sizes)]
    done = client.send(parts)
    while client.waiting:
        client.turn()
    result_of(done)
    whole = b"".join(parts)
    assert client.body == whole
    assert dict(client.headers) == {
        b"Content-Type": b"text/plain",
        b"Content-Length": b"%d" % len(whole),
        b"X": b"y",
    }
    assert client.finished
    assert client.source is None
    assert max(client.writes) <= SLICE_BYTES
    assert all(written == SLICE_BYTES for written in client.writes[:-1])


def test_a_client_that_takes_nothing_is_waited_for() -> None:
    client = Turns()
    done = client.send([b"x" * SLICE_BYTES] * 3)
    assert client.source is not None
    client.source.pause()
    client.turn()
    assert (client.writes, client.waiting) == ([SLICE_BYTES, 0], [])
    client.writes.append(0)
    client.source.resume()
    assert client.writes == [SLICE_BYTES, 0, SLICE_BYTES]
    client.turn()
    result_of(done)
    assert len(client.body) == 3 * SLICE_BYTES


@pytest.mark.parametrize("paused", [False, True])
def test_a_client_that_leaves_ends_it(paused: bool) -> None:
    client = Turns()
    done = client.send([b"x" * SLICE_BYTES] * 3)
    source = client.source
    assert source is not None
    if paused:
        source.pause()
        client.turn()
    done.cancel()
    with pytest.raises(CancelledError):
        result_of(done)
    source.resume()  # comes too late
    assert client.source is None
    assert not client.finished
    assert client.writes[0] == SLICE_BYTES
    assert sum(client.writes) == SLICE_BYTES
