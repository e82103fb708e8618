"""The promises of mgw.reactor.twisted_fast.tls_transport."""

from __future__ import annotations

import gc
import ssl
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost

from mgw.reactor.twisted_fast.tls_transport import TlsTransport
from tests.support.certificates import Authority, Issued, authority, issue
from tests.support.tls_peers import RecordingProtocol, TlsPair

TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
VERSIONS = pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3], ids=["1.2", "1.3"])
RECORD = 16 * 1024


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def issued(ca: Authority) -> Issued:
    return issue(ca, "localhost")


@pytest.fixture
def pair(ca: Authority, issued: Issued) -> TlsPair:
    """Both sides after the handshake."""
    pair = TlsPair(ca, issued)
    pair.connect()
    return pair


def cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Cut ``data`` into pieces of these sizes, again and again."""
    pieces = []
    while data:
        for size in sizes:
            pieces.append(data[:size])
            data = data[size:]
    return [piece for piece in pieces if piece]


@VERSIONS
@given(
    sizes=st.lists(st.integers(1, 700), min_size=1, max_size=8),
    messages=st.lists(st.binary(min_size=1, max_size=900), max_size=6),
    large=st.booleans(),
)
def test_any_cut_gives_the_same_bytes(
    ca: Authority,
    issued: Issued,
    version: ssl.TLSVersion,
    sizes: list[int],
    messages: list[bytes],
    large: bool,
) -> None:
    pair = TlsPair(ca, issued, highest=version)
    pair.transport.makeConnection(pair.tcp)
    while data := pair.step():
        for piece in cut(data, sizes):
            pair.transport.dataReceived(piece)
    assert pair.protocol.events == ["made", "handshake"]
    if large:
        messages = [*messages, bytes(range(256)) * 300]
    for message in messages:
        pair.transport.write(message)
        assert pair.heard() == message
    for piece in cut(b"".join(map(pair.said, messages)) + pair.goodbye(), [each * 100 for each in sizes]):
        pair.transport.dataReceived(piece)
    assert pair.protocol.received == b"".join(messages)
    assert pair.tcp.disconnecting
    assert pair.end().check(ConnectionDone)


def test_what_one_read_completes_is_delivered_as_one_piece(pair: TlsPair) -> None:
    data = b"".join(pair.said(b"%d," % number) for number in range(100))
    whole, rest = data[:-7], data[-7:]
    pair.transport.dataReceived(whole)
    assert pair.protocol.pieces == [b"".join(b"%d," % number for number in range(99))]
    pair.transport.dataReceived(rest)
    assert pair.protocol.pieces[1:] == [b"99,"]


def test_a_small_write_is_one_record_and_leaves_at_once(pair: TlsPair) -> None:
    pair.transport.write(b"x" * RECORD)
    assert pair.tcp.value().count(b"\x17\x03\x03") == 1
    assert pair.heard() == b"x" * RECORD
    pair.transport.write(b"")
    assert pair.tcp.value() == b""


@VERSIONS
def test_a_refused_certificate_ends_the_connection_and_nothing_is_said(
    ca: Authority, issued: Issued, version: ssl.TLSVersion
) -> None:
    seen: list[bytes | None] = []
    refusal = ValueError("not this one")

    def refuse(certificate: bytes | None) -> Exception:
        seen.append(certificate)
        return refusal

    pair = TlsPair(ca, issued, refuse, version)
    pair.connect()
    assert seen == [ssl.PEM_cert_to_DER_cert(issued.cert_file.read_text())]
    assert pair.protocol.events == ["made"]
    assert pair.tcp.aborted
    assert pair.heard() == b""
    pair.transport.dataReceived(b"anything")
    assert pair.end(ConnectionAborted()).value is refusal
    assert pair.protocol.events == ["made", "lost"]


@VERSIONS
def test_a_chain_to_nobody_we_trust_fails_with_openssls_reason_and_an_alert(
    tmp_path: Path, issued: Issued, version: ssl.TLSVersion
) -> None:
    pair = TlsPair(authority(tmp_path, "Somebody else"), issued, highest=version)
    with pytest.raises(ssl.SSLError, match="unknown ca"):
        pair.connect()  # where the server reads the alert
    assert pair.tcp.disconnecting
    reason = pair.end()
    assert isinstance(reason.value, ssl.SSLCertVerificationError)
    assert reason.value.verify_code == 20
    assert pair.protocol.events == ["made", "lost"]


def handed_over_early(pair: TlsPair, data: bytes) -> None:
    """Deliver the end of the handshake together with ``data`` of a server that waits for no request."""
    pair.transport.makeConnection(pair.tcp)
    pair.transport.dataReceived(pair.step())
    pair.transport.dataReceived(pair.step() + pair.said(data))


def test_data_that_come_with_the_end_of_the_handshake_come_before_the_protocol_may_ask(
    ca: Authority, issued: Issued
) -> None:
    pair = TlsPair(ca, issued, highest=TLS_1_2)
    handed_over_early(pair, b"early")
    assert pair.protocol.events == ["made", "data", "handshake"]


class Strict(RecordingProtocol):
    """Aborts upon data."""

    def dataReceived(self, data: bytes) -> None:
        cast(TlsTransport, self.transport).abortConnection()


def test_a_protocol_that_closes_upon_early_data_hears_of_no_handshake(ca: Authority, issued: Issued) -> None:
    pair = TlsPair(ca, issued, highest=TLS_1_2, protocol=Strict())
    handed_over_early(pair, b"early")
    assert pair.protocol.events == ["made"]
    assert pair.tcp.aborted


def test_tickets_after_the_handshake_are_no_data_and_close_nothing(ca: Authority, issued: Issued) -> None:
    pair = TlsPair(ca, issued)
    pair.transport.makeConnection(pair.tcp)
    pair.transport.dataReceived(pair.step())
    tickets = pair.step()
    assert tickets
    pair.transport.dataReceived(tickets)
    assert pair.protocol.events == ["made", "handshake"]
    assert not pair.tcp.disconnecting
    pair.transport.dataReceived(pair.said(b"still there"))
    assert pair.protocol.received == b"still there"


def test_an_end_without_the_other_sides_goodbye_is_a_loss(pair: TlsPair) -> None:
    pair.transport.dataReceived(pair.said(b"HTTP/1.0 200 OK\r\n\r\nhal"))
    assert pair.end().check(ConnectionLost)


def test_an_end_within_the_handshake_is_a_loss(ca: Authority, issued: Issued) -> None:
    pair = TlsPair(ca, issued)
    pair.transport.makeConnection(pair.tcp)
    pair.transport.dataReceived(pair.step()[:100])
    assert pair.end().check(ConnectionLost)


def test_a_goodbye_is_heard_after_the_data_before_it_and_answered(pair: TlsPair) -> None:
    pair.transport.dataReceived(pair.said(b"all") + pair.goodbye())
    assert pair.protocol.received == b"all"
    assert pair.tcp.disconnecting
    assert pair.heard() == b""
    pair.server.unwrap()  # raises unless ours is there
    assert pair.end().check(ConnectionDone)


def test_closing_says_goodbye_and_does_not_wait_for_theirs(pair: TlsPair) -> None:
    pair.transport.write(b"last words")
    pair.transport.loseConnection()
    assert pair.tcp.disconnecting
    pair.transport.write(b"too late")
    pair.transport.dataReceived(pair.said(b"unheard"))
    assert pair.heard() == b"last words"
    assert pair.protocol.received == b""
    assert pair.end().check(ConnectionDone)


def test_closing_waits_for_the_producer(pair: TlsPair) -> None:
    producer = object()
    pair.transport.registerProducer(producer, streaming=True)
    assert (pair.tcp.producer, pair.tcp.streaming) == (producer, True)
    pair.transport.loseConnection()
    assert not pair.tcp.disconnecting
    pair.transport.write(b"last piece")
    pair.transport.unregisterProducer()
    assert pair.tcp.disconnecting
    assert pair.tcp.producer is None
    assert pair.heard() == b"last piece"


def test_closing_within_the_handshake_aborts(ca: Authority, issued: Issued) -> None:
    pair = TlsPair(ca, issued)
    pair.transport.makeConnection(pair.tcp)
    pair.transport.loseConnection()
    assert pair.tcp.aborted


def test_aborting_says_nothing_and_delivers_nothing(pair: TlsPair) -> None:
    pair.transport.abortConnection()
    assert pair.tcp.aborted
    assert pair.tcp.value() == b""
    pair.transport.dataReceived(pair.said(b"unheard"))
    pair.transport.write(b"unsaid")
    assert pair.tcp.value() == b""
    assert pair.protocol.received == b""
    assert pair.end(ConnectionAborted()).check(ConnectionAborted)


def test_a_record_that_cannot_be_decrypted_ends_the_connection(pair: TlsPair) -> None:
    whole = pair.said(b"good")
    pair.transport.dataReceived(whole + b"\x17\x03\x03\x00\x20" + b"x" * 32)
    assert pair.protocol.received == b"good"
    assert pair.tcp.disconnecting
    pair.transport.dataReceived(b"more")
    with pytest.raises(ssl.SSLError, match="bad record mac"):
        pair.heard()  # the alert
    assert isinstance(pair.end().value, ssl.SSLError)


def test_reading_is_paused_and_resumed_at_tcp_and_nothing_is_held_back(pair: TlsPair) -> None:
    class Pausing(RecordingProtocol):
        def dataReceived(self, data: bytes) -> None:
            super().dataReceived(data)
            pair.transport.pauseProducing()

    protocol = pair.transport.protocol = Pausing()
    pair.transport.dataReceived(b"".join(pair.said(b"x" * 100) for _ in range(50)))
    assert pair.tcp.producerState == "paused"
    assert protocol.pieces == [b"x" * 5000]
    assert not pair.transport._incoming.pending
    pair.transport.resumeProducing()
    assert pair.tcp.producerState == "producing"


def test_nothing_is_left_to_collect_after_the_end(ca: Authority, issued: Issued) -> None:
    gc.collect()
    gc.disable()
    try:
        pair = TlsPair(ca, issued)
        pair.connect()
        pair.end()
        ends = [weakref.ref(pair.protocol), weakref.ref(pair.server)]
        del pair
        assert [end() for end in ends] == [None, None]
    finally:
        gc.enable()


def python_calls(work: Callable[[], object]) -> list[str]:
    """Return the names of the Python functions that are called while ``work`` runs."""
    names: list[str] = []
    sys.setprofile(lambda frame, event, _: names.append(frame.f_code.co_name) if event == "call" else None)
    try:
        work()
    finally:
        sys.setprofile(None)
    return names


def test_a_record_passes_through_few_calls(pair: TlsPair) -> None:
    write = partial(pair.transport.write, b"x" * 1400)
    assert python_calls(write)[:-2] == [
        "write",
        "write",
        "write",
    ]  # ours, ssl's, the eager one; then the pipe
    data = pair.said(b"y" * 850)
    read = partial(pair.transport.dataReceived, data)
    assert python_calls(read) == ["dataReceived", "_read", "_decrypt", "read", "dataReceived"]
