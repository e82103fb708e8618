"""What a provider answers to a handshake: interim responses before its 101 are skipped."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha1

import pytest

from mgw.http.upstream_connection import MAX_HEAD_BYTES
from mgw.realtime.upstream_socket import MAX_REFUSAL_BYTES
from tests.support.memory_sessions import REALTIME, SessionHarness, spoken

EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
INTERIM = {
    "103": EARLY_HINTS,
    "100": b"HTTP/1.1 100 Continue\r\n\r\n",
    "no words": b"HTTP/1.1 102\r\n\r\n",
    "several": EARLY_HINTS * 3 + b"HTTP/1.1 199 \r\n\r\n",
}


def accept(harness: SessionHarness) -> bytes:
    """Return the head with which a provider switches protocols."""
    sent = harness.provider.received
    at = sent.lower().index(b"sec-websocket-key: ") + len(b"sec-websocket-key: ")
    key = sent[at : sent.index(b"\r\n", at)]
    accepted = b64encode(sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    lines = [b"HTTP/1.1 101 Go", b"Upgrade: websocket", b"Connection: Upgrade"]
    return b"\r\n".join([*lines, b"Sec-WebSocket-Accept: " + accepted, b"X-Seen: yes", b"", b""])


@pytest.mark.parametrize("interim", INTERIM.values(), ids=INTERIM)
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_interim_responses_before_the_101_are_skipped(interim: bytes, step: int) -> None:
    harness = SessionHarness(REALTIME)
    answer = interim + accept(harness) + spoken(b"hello")
    for at in range(0, len(answer), step):
        harness.provider.send(answer[at : at + step])
    head = harness.take_head()
    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"X-Seen: yes" in head
    assert b"preload" not in head
    assert [one.payload for one in harness.client_frames()] == [b"hello"]


@pytest.mark.parametrize("interim", INTERIM.values(), ids=INTERIM)
def test_interim_responses_before_a_refusal_are_skipped(interim: bytes) -> None:
    harness = SessionHarness(REALTIME)
    harness.provider.send(interim + b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno")
    assert (harness.status(), harness.received()[-2:]) == (403, b"no")


def test_so_much_of_the_body_of_a_refusal_is_kept() -> None:
    harness = SessionHarness(REALTIME)
    body = b"x" * MAX_REFUSAL_BYTES + b"y"
    harness.provider.send(b"HTTP/1.1 403 No\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    assert (harness.status(), harness.received().partition(b"\r\n\r\n")[2]) == (403, body[:-1])


def test_the_end_of_a_refusal_is_waited_for_up_to_a_bound() -> None:
    harness = SessionHarness(REALTIME)
    harness.provider.send(b"HTTP/1.1 403 No\r\nConnection: close\r\n\r\n".ljust(MAX_REFUSAL_BYTES))
    assert not harness.received()
    harness.provider.send(b" ")
    assert harness.status() == 403


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 103 Early\r\nLink: \x00\r\n\r\n",
        b"HTTP/1.1 1x3 Early\r\n\r\n",
        b"HTTP/1.1 103 Early\r\nX: " + b"x" * MAX_HEAD_BYTES,
        EARLY_HINTS * (MAX_HEAD_BYTES // len(EARLY_HINTS) + 1),
    ],
    ids=["a NUL", "no status", "no end", "too many"],
)
def test_what_is_no_interim_response_is_refused(sent: bytes) -> None:
    harness = SessionHarness(REALTIME)
    for at in range(0, len(sent), 10_000):
        harness.provider.send(sent[at : at + 10_000])
    assert harness.status() == 502
    assert harness.provider.aborted
    assert harness.event.error in {"unreadable", "not_http"}


def test_interim_responses_do_not_prolong_the_wait_for_the_101() -> None:
    harness = SessionHarness(REALTIME)
    for _ in range(5):
        assert not harness.received()
        harness.provider.send(EARLY_HINTS)
        harness.clock.advance(120)
    assert harness.status() == 504
