"""Content codings: request bodies decoded within a limit, and gzip read in pieces for metering.

Rules: RFC 9110 8.4, RFC 1952 (gzip, of one or more members), RFC 1950 and 1951 (deflate, with its zlib
wrapper or, as some clients send it, without), RFC 7932 (br), RFC 8878 and 9659 (zstd, windows up to 8 MiB).
The limit counts decompressed bytes and holds while decompressing, so a small body that unfolds into a huge
one costs little more than the limit.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

import brotli  # type: ignore[import-untyped]  # it ships no types
import zstandard

from mgw.nouns.errors import GatewayError, Reason

MAX_CODINGS: Final = 4
MAX_MEMBERS: Final = 4096
"""How many gzip members or zstd frames one body may have; block-wise writers make one of every 64 kB."""

_GZIP: Final = zlib.MAX_WBITS | 16
_RAW_DEFLATE: Final = -zlib.MAX_WBITS
_ZSTD_WINDOW_BYTES: Final = 8 * 1024 * 1024  # RFC 9659
_INPUT_BYTES: Final = 64 * 1024
"""Input goes in by pieces: what stands behind the end of a member is copied each time."""
_OUTPUT_BYTES: Final = 1024 * 1024


def decode_content(body: bytes, content_encoding: bytes, max_bytes: int) -> bytes:
    """Return a body without its content codings; the same object where it is empty or has none.

    :raises GatewayError: ``BODY_TOO_LARGE`` where more than ``max_bytes`` come out of one of the
    codings, ``MALFORMED`` for an unknown coding, too many of them, and bytes that are not what they claim to
    be.
    """
    names = [name.strip(b" \t").lower() for name in content_encoding.split(b",")]
    codings = [name for name in names if name not in (b"", b"identity")]
    if len(codings) > MAX_CODINGS:
        raise _malformed_error(f"a body may have at most {MAX_CODINGS} content codings")
    if not body:
        return body
    for coding in reversed(codings):
        decoder = _DECODERS.get(coding)
        if decoder is None:
            raise _malformed_error("the body's content coding must be gzip, deflate, br or zstd")
        body = _join(decoder(body, max_bytes), max_bytes)
    return body


class Gunzip:
    """Unzip passing bytes for whoever counts them, at most ``max_bytes`` for each piece that comes in.

    A piece that unfolds into more, or that is not gzip, ends the reading: from there on nothing comes out.
    """

    __slots__ = ("_max_bytes", "_member", "given_up")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._member: zlib._Decompress | None = None
        self.given_up = False
        """Whether the reading has ended before the body: what came out is not all of it."""

    def feed(self, data: bytes) -> bytes:
        """Return what these bytes unfold into; never raises."""
        if self.given_up:
            return b""
        pieces = []
        room = self._max_bytes
        try:
            while data:
                member = self._member
                if member is None:
                    member = self._member = zlib.decompressobj(_GZIP)
                piece = member.decompress(data, room + 1)
                room -= len(piece)
                if room < 0:
                    self.given_up = True
                    return b""
                pieces.append(piece)
                data = member.unconsumed_tail
                if member.eof:
                    data = member.unused_data
                    self._member = None
        except zlib.error:
            self.given_up = True
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _join(pieces: Iterator[bytes], max_bytes: int) -> bytes:
    """Join what a decoder yields, and stop it at the limit."""
    gathered: list[bytes] = []
    size = 0
    try:
        for piece in pieces:
            size += len(piece)
            if size > max_bytes:
                raise GatewayError(
                    Reason.BODY_TOO_LARGE, f"the body has more than {max_bytes} bytes when decompressed"
                )
            gathered.append(piece)
    except (zlib.error, brotli.error, zstandard.ZstdError):
        raise _malformed_error("the body does not match its Content-Encoding") from None
    return b"".join(gathered)


def _gunzip(body: bytes, max_bytes: int) -> Iterator[bytes]:
    members = 0
    member: zlib._Decompress | None = None
    for data in _input_pieces(body):
        while data:
            if member is None:
                data = data.lstrip(b"\x00") if members else data  # noqa: PLW2901  padding after a member
                if not data:
                    break
                members = _count_member(members)
                member = zlib.decompressobj(_GZIP)
            yield member.decompress(data, max_bytes + 1)
            data = member.unconsumed_tail  # noqa: PLW2901  what is left of this piece
            if member.eof:
                data = member.unused_data  # noqa: PLW2901  the next member
                member = None
    if member is not None:
        raise _truncated_error()


def _inflate(body: bytes, max_bytes: int) -> Iterator[bytes]:
    try:
        yield _inflate_once(body, zlib.MAX_WBITS, max_bytes)
    except zlib.error:
        yield _inflate_once(body, _RAW_DEFLATE, max_bytes)


def _inflate_once(body: bytes, window_bits: int, max_bytes: int) -> bytes:
    stream = zlib.decompressobj(window_bits)
    inflated = stream.decompress(body, max_bytes + 1)
    if len(inflated) <= max_bytes and not stream.eof:
        raise _truncated_error()
    if stream.unused_data:
        raise _malformed_error("bytes follow the end of the compressed body")
    return inflated


def _decode_brotli(body: bytes, max_bytes: int) -> Iterator[bytes]:
    limit = min(max_bytes + 1, _OUTPUT_BYTES)
    stream = brotli.Decompressor()
    yield stream.process(body, output_buffer_limit=limit)
    while not stream.is_finished():
        if stream.can_accept_more_data():
            raise _truncated_error()
        yield stream.process(b"", output_buffer_limit=limit)


def _decode_zstd(body: bytes, max_bytes: int) -> Iterator[bytes]:
    """Decode twice: only the reader keeps to a limit, and only the other knows whether a frame has ended."""
    context = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    reader = context.stream_reader(body, read_across_frames=True)
    while piece := reader.read(min(max_bytes + 1, _OUTPUT_BYTES)):
        yield piece
    frames = 0
    frame = None
    for data in _input_pieces(body):
        while data:
            if frame is None:
                frames = _count_member(frames)
                frame = context.decompressobj()
            frame.decompress(data)
            data = b""  # noqa: PLW2901  what is left of this piece
            if frame.eof:
                data = frame.unused_data  # noqa: PLW2901  the next frame
                frame = None
    if frame is not None:
        raise _truncated_error()


_DECODERS: Final = MappingProxyType(
    {
        b"gzip": _gunzip,
        b"x-gzip": _gunzip,  # RFC 9110 8.4.1.3
        b"deflate": _inflate,
        b"br": _decode_brotli,
        b"zstd": _decode_zstd,
    }
)


def _input_pieces(body: bytes) -> Iterator[bytes]:
    return (body[at : at + _INPUT_BYTES] for at in range(0, len(body), _INPUT_BYTES))


def _count_member(members: int) -> int:
    if members == MAX_MEMBERS:
        raise _malformed_error(f"the compressed body has more than {MAX_MEMBERS} members")
    return members + 1


def _truncated_error() -> GatewayError:
    return _malformed_error("the compressed body is cut short")


def _malformed_error(message: str) -> GatewayError:
    return GatewayError(Reason.MALFORMED, message, param="Content-Encoding")
