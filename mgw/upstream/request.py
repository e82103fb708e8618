"""What is sent to a provider, and how long that may take."""

from __future__ import annotations

from msgspec import Struct

from mgw.bodies.source import BodySource, size_of
from mgw.wire.headers import RawHeaders


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
