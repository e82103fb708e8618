"""The keys of issuers as the gate sees them, and the refusal of a token with a key that may be on its way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from twisted.internet.defer import Deferred

from mgw.nouns.token_flaw import TokenFlaw
from mgw.nouns.token_refusal import TokenRefusedError

if TYPE_CHECKING:
    from mgw.clients.tokens.verify import VerifyingKeys  # imported where there are issuers


class KeysOfIssuers(Protocol):
    """The public keys of issuers, as the process knows them."""

    def keys_of(self, entry: str) -> VerifyingKeys | None:
        """Return the keys that may be used now of the issuer of an entry; ``None``: there are none."""
        ...

    def ask(self, entry: str) -> Deferred[None] | None:
        """Have the keys of an issuer fetched, one of which is not known.

        :returns: what fires when that is done, after a few seconds at most; ``None``: there is nothing to
            wait for.
        """
        ...

    def first(self, entry: str) -> Deferred[None] | None:
        """Return what fires when the first fetch of the keys of an issuer is done, likewise."""
        ...


class NoKeysOfIssuers:
    """What is known of keys where nobody fetches any: a gate that is open needs none to recognize tokens."""

    def keys_of(self, entry: str) -> None:
        """Return ``None``: there are none."""

    def ask(self, entry: str) -> None:
        """Return ``None``: there is nothing to wait for."""

    def first(self, entry: str) -> None:
        """Return ``None``, likewise."""


class PendingKeysError(TokenRefusedError):
    """The refusal of a token, unless its key is among those which are being fetched.

    :param ready: fires when these are there, or it is not worth waiting for them any longer.
    """

    def __init__(self, flaw: TokenFlaw, issuer: str, what: str, ready: Deferred[None]) -> None:
        super().__init__(flaw, issuer, what)
        self.ready = ready
