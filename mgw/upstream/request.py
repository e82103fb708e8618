"""What goes to a provider, and the bytes that it becomes (RFC 9112, parts 2 to 6).

Requests carry their body's length: every upstream takes that, and some refuse chunked ones.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from mgw.bodies.source import BodySource, size_of
from mgw.errors import GatewayError, Reason
from mgw.wire.headers import RawHeaders

_ALWAYS_WITH_LENGTH: Final = frozenset({b"POST", b"PUT", b"PATCH"})  # RFC 9110 8.6


class UpstreamLimits(Struct, frozen=True):
    """How long a provider may take, in seconds (contract 2.6)."""

    connect: float = 10.0
    """For the name, the TCP connection and TLS together; also for a free place among ``max_connections``."""
    first_byte: float = 600.0
    """From the request written to the head of the answer.

    Before that, for taking the request: as a whole where its body is in memory; piece by piece where it is
    read from elsewhere (:data:`mgw.bodies.source.PIECE_BYTES`), each piece taken starting the limit anew.
    """
    idle: float = 300.0
    """Between two pieces of the body; not counted while we do not read."""
    settle: float = 0.0
    """What a connection rests before it is lent again, while the provider is not known (the pool's)."""


class UpstreamRequest(Struct, frozen=True):
    """One request as it shall be sent.

    ``target`` is complete and in origin-form.  ``headers`` go out as they are, in their order; they hold no
    ``Host``, ``Content-Length`` or ``Connection``, which are the connection's own.  The same request may be
    sent several times: a body that lies elsewhere is read anew, and stays its owner's.
    """

    method: bytes
    target: bytes
    headers: RawHeaders
    body: bytes | BodySource = b""

    def __repr__(self) -> str:  # headers hold the credential, bodies hold prompts
        path = self.target.partition(b"?")[0]
        return f"UpstreamRequest({self.method!r}, {path!r}, {size_of(self.body)} bytes of body)"


def head_of(request: UpstreamRequest, host: bytes) -> bytes:
    """Return the request's head, down to the empty line.

    :raises GatewayError: MALFORMED, where a part holds a line break, NUL or blank that would end it early.
    """
    method, target = request.method, request.target
    length = size_of(request.body)
    parts = [method, b" ", target, b" HTTP/1.1\r\nHost: ", host]
    breaks = 3 + len(request.headers)
    for name, value in request.headers:
        parts += (b"\r\n", name, b": ", value)
    if length or method in _ALWAYS_WITH_LENGTH:
        parts.append(b"\r\nContent-Length: %d" % length)
        breaks += 1
    parts.append(b"\r\n\r\n")
    head = b"".join(parts)
    # Nothing that a client or a setting names may add a line (RFC 9112 11.1): the lines are counted.
    if (
        head.count(b"\n") != breaks
        or head.count(b"\r") != breaks
        or b"\0" in head
        or b" " in target
        or not target
    ):
        message = "a header or the path contains a line break, NUL or space that is not allowed there"
        raise GatewayError(Reason.MALFORMED, message)
    return head
