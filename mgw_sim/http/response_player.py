"""Plays a response onto a transport, with the faults that were asked for.

A piece is one event of a stream, or 16 bytes of a body with a length; faults that count (``reset-after``)
count pieces.  Each piece is one HTTP chunk of its own, unless ``cut`` says how long the chunks are.  The
pieces of a download have 64 KiB, and are read one after the other, as the client takes them.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime, ITCPTransport
from twisted.internet.task import deferLater

from mgw_sim.api import DownloadResponse, Response, StreamResponse
from mgw_sim.faults import Faults
from mgw_sim.http.parser import render_head
from mgw_sim.recording import RecordedRequest

_RESET_DELAY: Final = 0.02  # seconds between the last bytes and a reset, so that they are on their way
_PIECE_SIZE: Final = 16  # bytes
_DOWNLOAD_PIECE_SIZE: Final = 64 * 1024  # bytes, of a download
_GARBAGE: Final = b"\x16\x03\x01 this is not HTTP\r\n\r\n\x00\xff"
_COUNTED_FAULTS: Final = ("stall-body-after", "reset-after", "truncate-after", "garbage-after", "chunk-delay")
_FIXED_HEADERS: Final = (
    ("Date", "Fri, 02 Jan 2026 03:04:05 GMT"),
    ("Server", "mgw-sim"),
    ("Set-Cookie", "__sim=crumb; path=/; HttpOnly"),
    ("Alt-Svc", 'h3=":443"; ma=86400'),
)


class ConnectionEnded(Exception):  # noqa: N818  a fault that was asked for, not an error
    """The response ends here; the connection has been closed or is about to be."""


@dataclass(slots=True)
class Gate:
    """Shut while the transport's buffer is full."""

    shut: bool = False
    waiter: Deferred[None] | None = None

    def open(self) -> None:
        """Let the response go on."""
        self.shut = False
        if self.waiter is not None:
            waiter, self.waiter = self.waiter, None
            waiter.callback(None)

    async def wait(self) -> None:
        """Wait for as long as the gate is shut."""
        while self.shut:
            self.waiter = Deferred(self._leave)
            await self.waiter

    def _leave(self, waiter: Deferred[None]) -> None:
        if self.waiter is waiter:
            self.waiter = None


@dataclass(slots=True)
class ResponsePlayer:
    """Plays one response: ``play`` returns whether the connection may be used again."""

    transport: ITCPTransport
    reactor: IReactorTime
    gate: Gate
    request: RecordedRequest
    response: Response
    faults: Faults
    before_close: Callable[[], None]
    """Called before we close, so that this is not taken for the client's leaving."""

    async def play(self) -> bool:
        """Write the response; raises CancelledError when the client leaves."""
        try:
            await self._before()
            await self._body(self._head())
        except ConnectionEnded:
            return False
        return self._reusable() and "close-after" not in self.faults

    async def _before(self) -> None:
        await self._sleep(self.faults.number("delay"))
        if "stall-head" in self.faults:
            await self._stall()
        if "reset-before" in self.faults:
            self._abort()
        if "garbage" in self.faults:
            self._close(_GARBAGE)
        if "1xx" in self.faults:
            self._write(render_head("HTTP/1.1", 100, "Continue", []))
            self._write(render_head("HTTP/1.1", 103, "Early Hints", [("Link", "</style.css>; rel=preload")]))

    def _head(self) -> Callable[[bytes], bytes]:
        """Write the head; returns what frames each piece."""
        old = "http10" in self.faults or self.request.head.version == b"HTTP/1.0"
        is_gzipped = self._is_gzipped()
        own = {name for name, _ in self.response.headers}
        fixed = [pair for pair in _FIXED_HEADERS if pair[0] not in own]
        headers = [("Content-Type", self.response.content_type), *fixed, *self.response.headers]
        if is_gzipped:
            headers += [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
        frame: Callable[[bytes], bytes] = _unframed
        if not isinstance(self.response, StreamResponse):
            if self.response.status in {204, 304}:
                pass  # RFC 9110 8.6: these have no content, and a length would be of another answer
            elif not is_gzipped:
                headers.append(("Content-Length", str(self.response.size)))
            elif not old:
                frame = _chunk
        elif not old:
            frame = _chunk
        if frame is _chunk:
            headers.append(("Transfer-Encoding", "chunked"))
        if not self._reusable():
            headers.append(("Connection", "close"))
        self.request.status = self.response.status
        self._write(
            render_head("HTTP/1.0" if old else "HTTP/1.1", self.response.status, self._phrase(), headers)
        )
        return frame

    def _is_gzipped(self) -> bool:
        if "force-gzip" in self.faults:
            return True
        return "gzip" in self.faults and b"gzip" in (self.request.head.value(b"accept-encoding") or b"")

    def _phrase(self) -> str:
        try:
            return HTTPStatus(self.response.status).phrase
        except ValueError:
            return "Overloaded" if self.response.status == 529 else "Unknown"

    def _reusable(self) -> bool:
        connection_header = (self.request.head.value(b"connection") or b"").lower()
        return (
            self.request.head.version == b"HTTP/1.1"
            and "http10" not in self.faults
            and b"close" not in connection_header
        )

    async def _body(self, frame: Callable[[bytes], bytes]) -> None:
        if self.request.head.method == b"HEAD":
            return
        compressor = zlib.compressobj(wbits=31) if self._is_gzipped() else None
        for index, piece in enumerate(self._pieces()):
            await self._between(index, frame)
            compressed = (
                compressor.compress(piece) + compressor.flush(zlib.Z_SYNC_FLUSH) if compressor else piece
            )
            if compressed:
                self._write(frame(compressed))
            self.request.pieces_sent += 1
            self.request.bytes_sent += len(piece)
            if self.gate.shut:
                await self.gate.wait()
        await self._between(-1, frame)
        if compressor:
            self._write(frame(compressor.flush()))
        if frame is _chunk:
            self._write(b"0\r\n\r\n")

    def _pieces(self) -> Iterator[bytes]:
        error_after = self.faults.number("error-in-stream-after")
        length = self.faults.number("cut")
        if isinstance(self.response, DownloadResponse):
            return _read_pieces(self.response, length or _DOWNLOAD_PIECE_SIZE)
        if isinstance(self.response, StreamResponse):
            pieces = list(self.response.pieces)
            pieces = pieces[: max(0, len(pieces) - (self.faults.number("drop-last") or 0))]
            if error_after is not None:
                pieces[error_after:] = [self.response.error_piece]
        elif any(word in self.faults for word in _COUNTED_FAULTS):
            pieces = _split(self.response.body, _PIECE_SIZE)
        else:
            pieces = [self.response.body]
        return iter(_split(b"".join(pieces), length) if length else pieces)

    async def _between(self, index: int, frame: Callable[[bytes], bytes]) -> None:
        """The faults before piece ``index``; -1 is the end, where a fault is due that counts beyond it."""
        if index:
            await self._sleep(self.faults.number("chunk-delay"))
        if self._due("stall-body-after", index):
            await self._stall()
        if self._due("reset-after", index):
            await self._sleep(int(_RESET_DELAY * 1000))
            self._abort()
        if self._due("truncate-after", index):
            self._close(b"")
        if self._due("garbage-after", index):
            self._close(_GARBAGE if frame is _chunk else frame(_GARBAGE))

    def _due(self, word: str, index: int) -> bool:
        number = self.faults.number(word)
        return number is not None and (
            index == number or (index == -1 and number >= self.request.pieces_sent)
        )

    async def _sleep(self, milliseconds: int | None) -> None:
        if milliseconds:
            await deferLater(self.reactor, milliseconds / 1000)

    async def _stall(self) -> None:
        """Wait until the client leaves."""
        await Deferred(lambda _: None)

    def _write(self, data: bytes) -> None:
        self.transport.write(data)

    def _abort(self) -> None:
        self.before_close()
        self.transport.abortConnection()
        raise ConnectionEnded

    def _close(self, last: bytes) -> None:
        self.before_close()
        self._write(last)
        self.transport.loseConnection()
        raise ConnectionEnded


def _unframed(data: bytes) -> bytes:
    return data


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _read_pieces(response: DownloadResponse, length: int) -> Iterator[bytes]:
    for at in range(response.start, response.stop, length):
        yield response.content.read(at, min(length, response.stop - at))


def _split(data: bytes, length: int) -> list[bytes]:
    return [data[at : at + length] for at in range(0, len(data), length)]
