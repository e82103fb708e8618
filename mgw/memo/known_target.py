"""Where requests go, and what is sent there, as far as it is the same for many of them."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from mgw.config.provider import Provider
from mgw.credentials.provider import Credential
from mgw.nouns.vocabulary import Family
from mgw.routing.resolve import Target
from mgw.wire.headers import RawHeaders

SentLines = tuple[tuple[bytes, bytes], ...]
"""The client's headers that go upstream, with marks in place of the values that vary."""


class KnownTarget(Struct, frozen=True, eq=False):
    """Where requests of one path and one model are passed on, and what they have in common there."""

    method: bytes
    target: Target
    upstream_target: bytes
    """The path and the query of the upstream request."""
    keepalive_seconds: float | None
    """The time between signs of life in a stream that comes back, if there are any."""
    model_literal: bytes | None
    """The JSON that replaces the model in the body, where the provider calls it by another name."""
    takes_list: bool
    """Whether a body may hold a list of models, which has to be looked at each time."""
    client: Family
    """The family of the clients."""
    forward: frozenset[bytes]
    """The lower-case names of headers that the operator has forwarded beside the usual ones."""


@dataclass(slots=True, eq=False, repr=False)  # headers hold credentials
class UpstreamHead:
    """The head that is sent for one head of a client's, but for the length of the body."""

    method: bytes
    provider: Provider
    upstream_target: bytes
    """The path and the query."""
    headers: RawHeaders
    """The client's headers that go upstream and what a translation adds, with marks for values that vary."""
    credential: Credential | None = None
    """The credential that :attr:`rendered` was made with: no other request may be sent with its bytes."""
    rendered: bytes = b""
    """The head up to the digits of its length, with that credential in it."""
    signed_headers: SentLines = ()
    """What a signature is made of where that credential signs: all headers but its own, ``Host`` first."""

    def keep_rendered(self, credential: Credential, rendered: bytes) -> None:
        """Remember the bytes for the credential that is in use, and forget those for the one before it."""
        self.credential, self.rendered = credential, rendered
