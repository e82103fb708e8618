"""The digest of a body as it is sent, for credentials that sign it.

A body that was stored as it came was hashed on the way, and one in memory is hashed when a signer asks.  What
is stored and has edits is read through once more: its digest is that of the bytes that go up.
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from hashlib import sha256
from typing import Any, Final

from twisted.internet.defer import Deferred

from mgw.bodies.source import BodySource, body_size, read_pieces
from mgw.bodies.spliced import Part, SplicedBody
from mgw.credentials.provider import Signer
from mgw.credentials.signing import Signing
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import Offload, maybe_offload

HASHED_BYTES: Final = 1024 * 1024
"""Larger bodies are hashed in a thread: a megabyte takes two milliseconds."""


def signing_of(
    exchange: Exchange, signer: Signer, body: bytes | BodySource
) -> Signing | Coroutine[Deferred[Any], Any, Signing]:
    """Return how the request of an exchange is signed now; a large body is hashed first.

    Hashing raises :class:`GatewayError` ``OVERLOADED`` where a stored body cannot be read.
    """
    if isinstance(body, bytes) and len(body) <= HASHED_BYTES:
        return Signing(signer, sha256(body).digest(), exchange.now(), signer.clock.correction)
    return _hashed(exchange, signer, body)


async def _hashed(exchange: Exchange, signer: Signer, body: bytes | BodySource) -> Signing:
    digest = await digest_of(body, exchange.offload)
    return Signing(signer, digest, exchange.now(), signer.clock.correction)


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
