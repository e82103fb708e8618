"""Where the public keys of an issuer come from, as a value: what has the same one has the same keys."""

from __future__ import annotations

from hashlib import sha256

import msgspec
from msgspec import Struct

from mgw.clients.tokens.key_set import KeySet
from mgw.config.jwt import JwtSettings
from mgw.config.proxy import ProxyAddress
from mgw.nouns.secret import Secret


class KeySource(Struct, frozen=True):
    """What decides which keys there are."""

    issuer: str
    discovery_url: str
    jwks_url: str | None = None
    jwks_file: str | None = None
    ca_file: str | None = None
    proxy: ProxyAddress | None = None
    token_file: str | None = None

    def __repr__(self) -> str:
        return "KeySource(…)"

    @property
    def digest(self) -> str:
        """What stands for it between the processes of a service, and shows nothing of it."""
        return sha256(msgspec.json.encode(self, enc_hook=_reveal)).hexdigest()


def source_of(entry: JwtSettings) -> KeySource:
    """Return the source of an entry."""
    return KeySource(
        entry.issuer,
        entry.discovery_url,
        entry.jwks_url,
        entry.jwks_file,
        entry.ca_file,
        entry.proxy,
        entry.token_file,
    )


class FetchedKeys(Struct, frozen=True):
    """The keys of a source."""

    document: bytes
    """The JSON Web Key Set as it came."""
    keys: KeySet
    seconds: float
    """How long they are to be used before they are fetched again."""

    def __repr__(self) -> str:
        return f"FetchedKeys({len(self.document)} bytes)"


class KeyFetchError(Exception):
    """No keys could be had; the text says why, and repeats of an answer at most ids of keys."""


def _reveal(value: object) -> str:
    assert isinstance(value, Secret), "the only type that needs a hook"
    return value.reveal()
