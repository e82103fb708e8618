"""Keep-alives in streams of frames: at their interval whatever comes meanwhile, and never within an event."""

from __future__ import annotations

import json
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.usage.event import Outcome
from tests.memory.exchange.test_bedrock import (
    EVENT,
    FRAME,
    HEAD,
    KEEPALIVE,
    MESSAGE,
    PING,
    STREAMS,
    VERSION,
    pipeline_of,
)
from tests.memory.exchange.test_wires import chunk
from tests.support.event_streams import chunk_frame, event_frame
from tests.support.pipelines import Pipeline, RecordingChannel

SECONDS: Final = 5
"""The interval of :data:`KEEPALIVE`."""
SKIPPED: Final = {
    "no type": chunk_frame(b'{"index":0}'),
    "no bytes": event_frame("chunk", b'{"p":"abcdefghijkl"}'),
    "an empty type": chunk_frame(b'{"type":""}'),
    "another event": event_frame("metadata", b'{"bytes":"eyJ0eXBlIjoicGluZyJ9"}'),
    "no document": chunk_frame(b"nothing"),
}
"""Frames of which the client gets nothing."""
LAST: Final = sum(map(len, FRAME[-2:])) + 2 * len(SKIPPED["no type"])
"""The bytes from the reason to stop on, behind which no host is waited for long."""


def asked() -> tuple[Pipeline, RecordingChannel]:
    pipeline = pipeline_of(KEEPALIVE)
    client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    pipeline.connection.send(HEAD)
    return pipeline, client


def send(pipeline: Pipeline, *frames: bytes) -> None:
    for data in frames:
        pipeline.connection.send(chunk(data))


def pings_in_turn(pipeline: Pipeline, client: RecordingChannel, piece: bytes, seconds: int) -> list[int]:
    """Send a piece each second; return behind which of them a keep-alive came."""
    found = []
    for second in range(1, seconds + 1):
        before = client.body
        send(pipeline, piece)
        assert client.body == before, "a piece means nothing to the client"
        pipeline.clock.advance(1)
        if client.body != before:
            assert client.body == before + PING
            found.append(second)
    return found


@pytest.mark.parametrize("frame", SKIPPED.values(), ids=SKIPPED)
@pytest.mark.parametrize("count", [0, 1, 3], ids=["as the first", "behind the first", "within a block"])
def test_frames_that_mean_nothing_hold_no_keep_alive_back(frame: bytes, count: int) -> None:
    pipeline, client = asked()
    send(pipeline, *FRAME[:count])
    assert pings_in_turn(pipeline, client, frame, 3 * SECONDS + 1) == [5, 10, 15]
    send(pipeline, *FRAME[count:])
    pipeline.connection.send(b"0\r\n\r\n")
    assert client.body == b"".join(EVENT[:count]) + 3 * PING + b"".join(EVENT[count:])
    assert client.finished


@pytest.mark.parametrize("count", [0, 1, 3], ids=["the first", "the second", "a later one"])
def test_a_frame_that_trickles_in_holds_no_keep_alive_back(count: int) -> None:
    pipeline, client = asked()
    send(pipeline, *FRAME[:count])
    pieces = [FRAME[count][at : at + 9] for at in range(0, len(FRAME[count]), 9)]
    found = []
    for second, piece in enumerate(pieces[:-1], 1):
        before = client.body
        send(pipeline, piece)
        pipeline.clock.advance(1)
        if client.body != before:
            assert client.body == before + PING
            found.append(second)
    assert found == list(range(SECONDS, len(pieces), SECONDS))
    assert len(found) > 2
    send(pipeline, pieces[-1], *FRAME[count + 1 :])
    pipeline.connection.send(b"0\r\n\r\n")
    assert client.body == b"".join(EVENT[:count]) + len(found) * PING + b"".join(EVENT[count:])


@pytest.mark.parametrize(("path", "body"), STREAMS)
def test_clients_of_all_families_hear_between_such_frames(path: str, body: bytes) -> None:
    pipeline = pipeline_of(KEEPALIVE)
    client, _ = pipeline.ask(path, body)
    pipeline.connection.send(HEAD)
    send(pipeline, *FRAME[:3])
    heard = []
    for second in range(1, 12):
        before = client.body
        send(pipeline, SKIPPED["no type"])
        pipeline.clock.advance(1)
        if client.body != before:
            heard.append((second, client.body.removeprefix(before)))
    words = {"/v1/messages": PING, "/v1beta/models/m:streamGenerateContent": b"\n"}.get(path, b": ping\n\n")
    assert heard == [(5, words), (10, words)]


@given(pieces=st.lists(st.sampled_from([*range(-6, 0), *range(1, 30)]), min_size=1, max_size=60))
def test_keep_alives_stand_between_events_however_frames_and_silence_come(pieces: list[int]) -> None:
    """Positive numbers are twenty bytes of the stream, negative ones seconds of silence."""
    pipeline, client = asked()
    left = b"".join(frame + SKIPPED["no type"] for frame in FRAME)
    for piece in pieces:
        if piece > 0:
            pipeline.connection.send(b"".join(map(chunk, filter(None, [left[: piece * 20]]))))
            left = left[piece * 20 :]
        elif len(left) > LAST:
            pipeline.clock.pump([1.0] * -piece)
    pipeline.connection.send(b"".join(map(chunk, filter(None, [left]))) + b"0\r\n\r\n")
    assert client.finished
    events = [event + b"\n\n" for event in client.body.split(b"\n\n")[:-1]]
    assert [event for event in events if event != PING] == EVENT


@pytest.mark.parametrize("lines", [(), (KEEPALIVE,)], ids=["without keep-alives", "with them"])
def test_a_host_that_falls_silent_before_the_last_event_is_said_to_have_failed(
    lines: tuple[str, ...],
) -> None:
    pipeline = pipeline_of(*lines)
    client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    pipeline.connection.send(HEAD)
    send(pipeline, *FRAME[:-1])
    pipeline.clock.pump([1.0] * 20)
    assert (client.finished, client.aborted) == (True, False)
    said = client.body.removeprefix(b"".join(EVENT[:-1])).replace(PING, b"")
    assert said.startswith(b"event: error\ndata: ")
    assert json.loads(said.partition(b"data: ")[2])["error"]["type"] == "api_error"
    event = pipeline.event()
    assert (event.status, event.error) == (Outcome.UPSTREAM_ERROR, "truncated")
