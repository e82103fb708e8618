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
    """The account is in a cooldown: its provider limits it, or refuses its token."""
    SIGNED_OUT = "signed_out"
    """Nobody has logged in to the account."""
    UNKNOWN = "unknown"


class AccountState(Struct, frozen=True):
    """One account of a store."""

    name: str
    state: State
    rests_until: float | None = None
    """The end of the cooldown in Unix seconds; ``None``: there is none."""
    expires: float | None = None
    """The end of the token's life in Unix seconds; ``None``: unknown."""


class CredentialState(Struct, frozen=True):
    """The credential of a provider."""

    state: State
    key_hash: str | None = None
    expires: float | None = None
    """The end of the token's life in Unix seconds; ``None``: unknown."""
    accounts: tuple[AccountState, ...] = ()
