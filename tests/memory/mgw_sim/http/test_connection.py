"""Connections in memory: what the faults write, and what is recorded of a client that leaves."""

import json
from typing import cast

import pytest
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from mgw_sim.http.connection import SimulatorConnection, SimulatorFactory
from mgw_sim.recording import RecordedRequest
from mgw_sim.service import site


class Wire(StringTransport):
    """A TCP transport that remembers being aborted."""

    aborted = False

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Asked of every TCP transport."""

    def abortConnection(self) -> None:
        self.aborted = True

    def written(self) -> bytes:
        """Everything that was written."""
        return bytes(self.io.getvalue())


class Peer:
    """A client of a simulator in memory."""

    def __init__(self, beside: "Peer | None" = None) -> None:
        self.clock = Clock()
        self.factory: SimulatorFactory = beside.factory if beside else site(self.clock)
        self.transport = Wire()  # type: ignore[no-untyped-call]  # Twisted's own has no types
        self.connection: SimulatorConnection = self.factory.buildProtocol(None)
        self.connection.transport = cast(ITCPTransport, self.transport)  # as far as it is used
        self.connection.connectionMade()

    def ask(self, model: str = "m", *, stream: bool = True, more: bytes = b"") -> bytes:
        """Send a chat; returns what has been answered so far."""
        value = {"model": model, "messages": [{"role": "user", "content": "a b"}], "stream": stream}
        body = json.dumps(value).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer k\r\n" + more
        head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        self.connection.dataReceived(head + body)
        return self.transport.written()

    def leave(self) -> None:
        """Close."""
        self.connection.connectionLost(Failure(ConnectionDone()))

    @property
    def request(self) -> RecordedRequest:
        """The last one."""
        return self.factory.recorder.requests[-1]


WHOLE_PIECES = 7  # the role, four words, the finish, [DONE]


def test_a_stream_is_chunked_one_piece_each() -> None:
    peer = Peer()
    answer = peer.ask()
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.count(b"data: ") == WHOLE_PIECES
    assert answer.endswith(b"0\r\n\r\n")
    assert peer.request.answered
    assert not peer.transport.disconnecting


def test_requests_that_come_at_once_are_answered_in_order() -> None:
    peer = Peer()
    peer.ask("sim-delay-100", stream=False)
    peer.ask("m2", stream=False)
    assert peer.transport.written() == b""
    peer.clock.advance(0.1)
    answer = peer.transport.written()
    assert answer.index(b'"sim-delay-100"') < answer.index(b'"m2"')


def test_a_stalled_head_waits_until_the_client_leaves() -> None:
    peer = Peer()
    assert peer.ask("sim-stall-head") == b""
    peer.clock.advance(10_000)
    assert peer.transport.written() == b""
    peer.leave()
    assert peer.request.client_left
    assert peer.factory.recorder.counters()["client_left"] == 1


def test_a_stalled_body_has_sent_as_many_pieces_as_were_asked() -> None:
    peer = Peer()
    assert peer.ask("sim-stall-body-after-3").count(b"data: ") == 3
    peer.leave()
    assert (peer.request.pieces_sent, peer.request.client_left) == (3, True)


def test_pieces_come_at_their_distance() -> None:
    peer = Peer()
    assert peer.ask("sim-chunk-delay-20").count(b"data: ") == 1
    peer.clock.advance(0.02)
    assert peer.transport.written().count(b"data: ") == 2


@pytest.mark.parametrize("fault", ["sim-reset-before", "sim-reset-after-2", "sim-reset-after-99"])
def test_a_reset_aborts_and_is_not_the_clients_doing(fault: str) -> None:
    peer = Peer()
    peer.ask(fault)
    peer.clock.advance(1)
    assert peer.transport.aborted
    assert not peer.transport.written().endswith(b"0\r\n\r\n")
    peer.leave()
    assert not peer.request.client_left


def test_a_truncated_stream_closes_without_its_last_chunk() -> None:
    peer = Peer()
    answer = peer.ask("sim-truncate-after-2")
    assert answer.count(b"data: ") == 2
    assert not answer.endswith(b"0\r\n\r\n")
    assert peer.transport.disconnecting


def test_a_truncated_body_is_shorter_than_its_length() -> None:
    head, _, body = Peer().ask("sim-truncate-after-2", stream=False).partition(b"\r\n\r\n")
    [length] = [int(line[16:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")]
    assert len(body) == 32 < length


def test_close_after_does_not_announce_itself() -> None:
    peer = Peer()
    answer = peer.ask("sim-close-after", stream=False)
    assert b"Connection: " not in answer
    assert peer.transport.disconnecting


def test_http10_has_neither_chunks_nor_length() -> None:
    answer = Peer().ask("sim-http10")
    assert answer.startswith(b"HTTP/1.0 200 OK\r\n")
    assert b"chunked" not in answer


def test_interim_answers_come_before_the_real_one() -> None:
    answer = Peer().ask("sim-1xx", stream=False)
    assert [line for line in answer.split(b"\r\n") if line.startswith(b"HTTP/")] == [
        b"HTTP/1.1 100 Continue",
        b"HTTP/1.1 103 Early Hints",
        b"HTTP/1.1 200 OK",
    ]


def test_an_error_in_the_stream_ends_it_without_done() -> None:
    answer = Peer().ask("sim-error-in-stream-after-2")
    assert answer.count(b"data: ") == 3
    assert b'"error"' in answer
    assert b"[DONE]" not in answer
    assert answer.endswith(b"0\r\n\r\n")


def test_gzip_only_where_it_is_offered() -> None:
    assert b"Content-Encoding" not in Peer().ask("sim-gzip")
    assert b"Content-Encoding: gzip" in Peer().ask("sim-gzip", more=b"Accept-Encoding: br, gzip\r\n")


def test_a_paused_client_pauses_the_answer() -> None:
    peer = Peer()
    peer.connection.pauseProducing()
    assert peer.ask().count(b"data: ") == 1
    peer.connection.resumeProducing()
    assert peer.transport.written().count(b"data: ") == WHOLE_PIECES


def test_malformed_http_is_a_400_and_a_closed_connection() -> None:
    peer = Peer()
    peer.connection.dataReceived(b"GET / HTTP/1.1\r\n\r\n")
    assert peer.transport.written().startswith(b"HTTP/1.1 400 ")
    assert peer.transport.disconnecting
    assert peer.factory.recorder.malformed == 1


def test_a_client_that_leaves_while_it_sends_is_recorded() -> None:
    peer = Peer()
    peer.connection.dataReceived(b"POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nab")
    peer.leave()
    assert (bytes(peer.request.body), peer.request.complete, peer.request.client_left) == (b"ab", False, True)


def test_a_client_that_expects_100_gets_it() -> None:
    peer = Peer()
    peer.connection.dataReceived(
        b"POST /v1/messages HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"
    )
    assert peer.transport.written() == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_whoever_waits_for_a_counter_is_told() -> None:
    peer = Peer()
    peer.ask("sim-stall-head")
    asker = Peer(beside=peer)
    asker.connection.dataReceived(b"GET /_sim/wait?counter=client_left HTTP/1.1\r\nHost: h\r\n\r\n")
    assert asker.transport.written() == b""
    peer.leave()
    assert b'"client_left":1' in asker.transport.written()
    assert peer.factory.recorder.counters()["received"] == 1


def test_a_wait_in_vain_is_a_504() -> None:
    peer = Peer()
    peer.connection.dataReceived(b"GET /_sim/wait?counter=received&seconds=3 HTTP/1.1\r\nHost: h\r\n\r\n")
    peer.clock.advance(3)
    assert peer.transport.written().startswith(b"HTTP/1.1 504 ")


def test_a_stream_may_lack_its_end_and_yet_end_well() -> None:
    answer = Peer().ask("sim-drop-last-1")
    assert answer.count(b"data: ") == WHOLE_PIECES - 1
    assert b"[DONE]" not in answer
    assert answer.endswith(b"0\r\n\r\n")
    assert Peer().ask("sim-drop-last-99").count(b"data: ") == 0


def test_an_error_in_a_stream_may_be_a_chunk_without_choices() -> None:
    answer = Peer().ask("sim-error-in-stream-after-1+sim-odd-error")
    assert b'"choices":[],"error":{"message":"The server broke."' in answer


def test_a_download_waits_for_the_client_piece_by_piece() -> None:
    peer = Peer()
    peer.connection.pauseProducing()
    head = b"GET /v1/files/sim-size-200000/content HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer k\r\n\r\n"
    peer.connection.dataReceived(head)
    assert peer.request.bytes_sent == 65536
    peer.connection.resumeProducing()
    assert peer.request.bytes_sent == 200_000
    answer_head, _, body = peer.transport.written().partition(b"\r\n\r\n")
    assert b"Content-Length: 200000" in answer_head
    assert len(body) == 200_000


def test_a_download_can_break_between_its_pieces() -> None:
    peer = Peer()
    head = b"GET /v1/files/sim-size-200000/content HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer k\r\n"
    peer.connection.dataReceived(head + b"x-sim-truncate-after: 2\r\n\r\n")
    assert peer.request.bytes_sent == 2 * 65536
    assert peer.transport.disconnecting


def test_a_client_that_leaves_while_it_sends_leaves_a_short_record() -> None:
    peer = Peer()
    head = b"POST /v1/files HTTP/1.1\r\nHost: h\r\nContent-Length: 9000000\r\n\r\n"
    peer.connection.dataReceived(head + bytes(3_000_000))
    peer.leave()
    assert (peer.request.body_size, len(peer.request.body)) == (3_000_000, 1024 * 1024)
