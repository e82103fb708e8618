"""The digest of a body as it is sent, for credentials that sign it.

A body that was stored as it came was hashed on the way, and one in memory is hashed when a signer asks.  What
is stored and has edits is read through once more: its digest is that of the bytes that go up.
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import Final

from mgw.bodies.source import BodySource, body_size, read_pieces
from mgw.bodies.spliced import Part, SplicedBody
from mgw.credentials.provider import Signer
from mgw.credentials.signing import Signing
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import Offload, maybe_offload

HASHED_BYTES: Final = 1024 * 1024
"""Larger bodies are hashed in a thread: a megabyte takes two milliseconds."""


async def signing_of(exchange: Exchange, signer: Signer, body: bytes | BodySource) -> Signing:
    """Return how the request of an exchange is signed now.

    :raises GatewayError: ``OVERLOADED``: a stored body cannot be read.
    """
    digest = await digest_of(body, exchange.offload)
    return Signing(signer, digest, exchange.now())


async def digest_of(body: bytes | BodySource, offload: Offload) -> bytes:
    """Return the SHA-256 of a body."""
    if isinstance(body, (bytes, SplicedBody)):
        parts = (body,) if isinstance(body, bytes) else body.parts
        return await maybe_offload(offload, partial(_hash, parts), large=body_size(body) > HASHED_BYTES)
    if body.digest is not None:
        return body.digest
    hashed = sha256()
    await read_pieces(body, hashed.update)
    return hashed.digest()


def _hash(parts: tuple[Part, ...]) -> bytes:
    hashed = sha256()
    for part in parts:
        hashed.update(part)
    return hashed.digest()
