"""A provider's credential as operators see it: whether there is one, and when it expires."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class State(StrEnum):
    """Whether a credential can be used."""

    READY = "ready"
    EXPIRED = "expired"
    MISSING = "missing"
    RESTING = "resting"
    """Its provider limits it, or refuses its token."""
    SIGNED_OUT = "signed_out"
    """Nobody has logged in to the account."""
    UNKNOWN = "unknown"


class AccountState(Struct, frozen=True):
    """One account of a store."""

    name: str
    state: State
    rests_until: float | None = None
    """Unix seconds; ``expires`` likewise."""
    expires: float | None = None


class CredentialState(Struct, frozen=True):
    """The credential of a provider."""

    state: State
    key_hash: str | None = None
    expires: float | None = None
    """Unix seconds."""
    accounts: tuple[AccountState, ...] = ()
