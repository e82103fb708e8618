"""The provider of the soak: ``python -m bench.soak.upstream`` prints its port, serves until its input ends.

What it does is said by the model's name (:mod:`bench.soak.exchanges`).  It reads requests as the gateway
writes them, with their length, and answers one at a time.  Each later line that it prints is a problem:
something reached it that must not.
"""

from __future__ import annotations

import re
import select
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass

from twisted.internet import reactor, stdio
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from bench.soak.answers import failure, failure_event, halves, start_up, unended, whole
from bench.soak.sessions import ProviderEnd, accept

LATE_SECONDS = 0.004
"""How long behind the answer an answer comes that nobody asked for."""
LATEST_SECONDS = 0.012
"""A busy machine may delay it; later than this it is left out, since the gateway waits for 20 ms only."""
SLOW_SECONDS = 10.0
"""How long a provider takes whose client is about to leave: the gateway hangs up before."""
_LENGTH = re.compile(rb"\r\nContent-Length: (\d+)", re.IGNORECASE)
_MODEL = re.compile(rb"m\d+\.([a-z0-9]+)")
_KEY = re.compile(rb"\r\nSec-WebSocket-Key: (\S+)", re.IGNORECASE)
_SESSION = re.compile(r"m\d+\.(?:ws(\d)|wlater)")
_STREAM = re.compile(rb'"stream"\s*:\s*true')


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for."""

    wire: str
    model: str
    stream: bool


class Provider(Protocol):
    """One connection of the gateway's."""

    def __init__(self) -> None:
        self._held = b""
        self._gone = False
        self._requests = 0
        self._session: ProviderEnd | None = None

    def connectionMade(self) -> None:
        """Send at once."""
        self.transport.setTcpNoDelay(True)

    def dataReceived(self, data: bytes) -> None:
        """Take requests, which come whole and one at a time, or the frames of a session."""
        if self._session is not None:
            self._session.feed(data)
            if self._session.is_over:
                self.transport.loseConnection()
            return
        self._held += data
        self._requests += 1
        end = self._held.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(self._held, 0, end + 2)
        size = end + 4 + (int(length[1]) if length else 0)
        if len(self._held) < size:
            return
        request, self._held = self._held[:size], self._held[size:]
        self._answer(request, end)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Say nothing more."""
        self._gone = True
        if self._session is not None:
            self._session.end()
            for problem in self._session.problems:
                _report(f"{self._session.model}: {problem}")

    def _open_session(self, path: bytes, key: bytes) -> None:
        found = _MODEL.search(path)
        named = found[0].decode() if found else ""
        session = _SESSION.fullmatch(named)
        if session is None:
            _report(f"a session for {path.decode()}")
        whole = int(session[1]) if session and session[1] else None
        self._session = ProviderEnd(named, whole)
        self.transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept(key) + b"\r\n\r\n"
        )

    def _answer(self, request: bytes, end: int) -> None:
        path = request[: request.find(b" HTTP/1.1")]
        if b".forbidden" in request:
            _report(f"asked for a forbidden model: {path.decode()}")
        key = _KEY.search(request, 0, end + 2)
        if key is not None:
            self._open_session(path, key[1])
            return
        wire = "gemini" if b"/models/" in path else "anthropic" if b"/messages" in path else "openai"
        found = _MODEL.search(path) or _MODEL.search(request, end)
        if found is None:
            self._send(400, "application/json", b'{"error":{"message":"no model"}}')
            return
        model, scenario = found[0].decode(), found[1].decode()
        asked = Asked(wire, model, b":stream" in path or _STREAM.search(request, end) is not None)
        if scenario[0] == "s" and scenario[1:].isdigit():
            self._send(int(scenario[1:]), "application/json", failure(wire, int(scenario[1:]), model))
        elif scenario in _PLAYED:
            _PLAYED[scenario](self, asked)
        else:
            self._whole(asked)

    def _whole(self, asked: Asked, *extra: str) -> None:
        if asked.stream:
            self._chunked(*halves(asked.wire, asked.model), extra=extra)
        else:
            self._send(200, "application/json", whole(asked.wire, asked.model), *extra)

    def _chunked(self, *pieces: bytes, last: bytes = b"0\r\n\r\n", extra: tuple[str, ...] = ()) -> None:
        head = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked", *extra]
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
        self.transport.write("\r\n".join([*head, "", ""]).encode() + chunks + last)

    def _send(self, status: int, kind: str, body: bytes, *extra: str) -> None:
        head = [f"HTTP/1.1 {status} OK", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *extra]
        self.transport.write("\r\n".join([*head, "", ""]).encode() + body)

    # What a scenario does in place of a whole answer

    def close(self, asked: Asked) -> None:
        """Answer, and close."""
        self._whole(asked, "Connection: close")
        self.transport.loseConnection()

    def second(self, asked: Asked) -> None:
        """Answer, and a little later answer again, unless the connection is in use again by then.

        What comes while another request waits for its answer cannot be told from that answer by anybody.
        """
        self._whole(asked)
        before, latest = self._requests, reactor.seconds() + LATEST_SECONDS

        def again() -> None:
            in_use = self._requests != before or _readable(self.transport.socket)
            if not in_use and reactor.seconds() <= latest:
                self._whole(asked)

        self._later(LATE_SECONDS, again)

    def reset(self, asked: Asked) -> None:
        """Break the connection without an answer."""
        self.transport.abortConnection()

    def garbage(self, asked: Asked) -> None:
        """Say something that is not HTTP."""
        self.transport.write(b"220 smtp.example ESMTP\r\n")
        self.transport.loseConnection()

    def trunc(self, asked: Asked) -> None:
        """Close in the middle of an answer."""
        if asked.stream:
            self._chunked(halves(asked.wire, asked.model)[0], last=b"")
        else:
            body = whole(asked.wire, asked.model)
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            self.transport.write(head.encode() + body[: len(body) // 2])
        self.transport.loseConnection()

    def error(self, asked: Asked) -> None:
        """Say in the middle of a stream that it failed."""
        self._chunked(halves(asked.wire, asked.model)[0], failure_event(asked.wire, asked.model))

    def starterr(self, asked: Asked) -> None:
        """Say that it failed, behind events that say nothing yet."""
        self._chunked(start_up(asked.wire, asked.model), failure_event(asked.wire, asked.model))

    def again(self, asked: Asked) -> None:
        """Fail the first time, and answer the second time."""
        if asked.model in _failed_once:
            _failed_once.remove(asked.model)
            self._whole(asked)
        else:
            _failed_once.add(asked.model)
            self.starterr(asked)

    def short(self, asked: Asked) -> None:
        """End in order in the middle of a stream."""
        self._chunked(halves(asked.wire, asked.model)[0])

    def finished(self, asked: Asked) -> None:
        """Break off when all has been said but the last event."""
        self._chunked(unended(asked.wire, asked.model), last=b"")
        self.transport.loseConnection()

    def leave(self, asked: Asked) -> None:
        """Answer when the client has left."""
        self._later(SLOW_SECONDS, lambda: self._whole(asked))

    def leavemid(self, asked: Asked) -> None:
        """Answer half, and the rest when the client has left."""
        first, second = halves(asked.wire, asked.model)
        self._chunked(first, last=b"")
        rest = b"%x\r\n%b\r\n0\r\n\r\n" % (len(second), second)
        self._later(SLOW_SECONDS, lambda: self.transport.write(rest))

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        reactor.callLater(seconds, lambda: None if self._gone else act())


_PLAYED: dict[str, Callable[[Provider, Asked], None]] = {
    name: getattr(Provider, name)
    for name in (
        *("close", "second", "reset", "garbage", "trunc", "error", "starterr", "again", "short", "finished"),
        *("leave", "leavemid"),
    )
}
_failed_once: set[str] = set()
"""The models of streams that were answered with an error, and are to be answered well."""


def _report(problem: str) -> None:
    print(problem, flush=True)


def _readable(connection: socket.socket) -> bool:
    return bool(select.select([connection], [], [], 0)[0])


class _Providers(Factory):
    noisy = False

    def buildProtocol(self, addr: IAddress | None) -> Provider:
        """Make the protocol of a new connection."""
        return Provider()


class _Leash(Protocol):
    """Standard input: the process ends when it does."""

    def connectionLost(self, reason: Failure = Failure(ConnectionDone())) -> None:  # noqa: B008  Twisted's
        """Stop."""
        if reactor.running:
            reactor.stop()


def main() -> None:
    """Serve until standard input ends."""
    port = reactor.listenTCP(0, _Providers(), backlog=512, interface="127.0.0.1")
    print(port.getHost().port, flush=True)
    stdio.StandardIO(_Leash(), stdout=sys.stderr.fileno())
    reactor.run()


if __name__ == "__main__":
    main()
