"""Tokens of identity providers at the gate: to whom one belongs, and why it opens nothing.

A token of a configured issuer is the gateway's, as its keys are: valid or not, it never goes to a provider as
a credential of the client's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from time import monotonic, time
from typing import Final

from twisted.internet.defer import Deferred

from mgw.clients.expired_tokens import ExpiredTokens
from mgw.clients.identity_clients import IdentityClients
from mgw.clients.known_tokens import KnownToken, KnownTokens
from mgw.clients.limits import Counts
from mgw.clients.tokens.token import issuer_in, parse_token
from mgw.clients.tokens.verify import TokenEntry, TokenError, verify_token
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.nouns.secret import Secret
from mgw.nouns.token_flaw import TokenFlaw
from mgw.nouns.token_refusal import TokenRefusedError
from mgw.web.pending_keys import KeysOfIssuers, PendingKeysError
from mgw.web.service_secret import service_secret

_BETWEEN_DOTS: Final = re.compile(rb"(?<=[\w=-]\.)[\w-]{8,}+(?==*\.)")
"""What may be the claims of a token among other words.  Its header may be joined with a word before it, its
signature with one behind it, and either may be padded: so only the claims say that it is one.  No JSON object
with an issuer is shorter.  Each word is looked at once."""


@dataclass(slots=True, eq=False, repr=False)
class TokenGate:
    """The issuers of one configuration.

    :param entries: those by their addresses.
    :param expired: when tokens end that the process has seen.
    """

    entries: Mapping[str, TokenEntry]
    clients: IdentityClients
    keys: KeysOfIssuers
    expired: ExpiredTokens
    wall: Callable[[], float] = time
    monotonic: Callable[[], float] = monotonic
    _known: KnownTokens = field(default_factory=KnownTokens)

    def find(self, value: bytes, digest: bytes) -> KnownToken | TokenRefusedError | None:
        """Return whose token a value is, or its refusal; ``None``: it is no token of a configured issuer.

        :param digest: the SHA-256 of the value.
        """
        known = self._known.find(digest)
        if known is None:
            return self._check(value, digest)
        if self.wall() < known.until and self.monotonic() < known.ends:
            return known
        self._known.forget(digest)
        self.expired.add(_identity_of(value))
        return _expired(known.entry)

    def wait_for(self, refusal: TokenRefusedError) -> Deferred[None] | None:
        """Return what to wait for before a token is looked at again; ``None``: that changes nothing."""
        return refusal.ready if isinstance(refusal, PendingKeysError) else None

    def are_mentioned(self, words: bytes) -> bool:
        """Whether a token of a configured issuer stands among other words."""
        return any(issuer_in(found[0]) in self.entries for found in _BETWEEN_DOTS.finditer(words))

    def is_foreign(self, value: bytes) -> bool:
        """Whether a value is a token of an issuer that is not configured."""
        token = parse_token(value)
        return token is not None and token.issuer not in self.entries

    def forget_all(self) -> None:
        """Check all tokens anew."""
        self._known.clear()

    def _check(self, value: bytes, digest: bytes) -> KnownToken | TokenRefusedError | None:
        token = parse_token(value)
        entry = None if token is None or token.issuer is None else self.entries.get(token.issuer)
        if token is None or entry is None:
            return None
        now = self.wall()
        try:
            verified = verify_token(token, entry, self.keys.keys_of(entry.name), now)
        except TokenError as error:
            return self._refusal(error, entry, value)
        monotonic = self.monotonic()
        ends = self.expired.bound(_identity_of(value), monotonic + verified.until - now)
        if monotonic >= ends:  # the wall clock was set back
            return _expired(entry.name)
        client = self.clients.client_of(verified.entry, verified.value, verified.groups, verified.tags)
        secret = Secret(value.decode("ascii"))
        known = KnownToken(client, secret, entry.name, verified.until, ends, verified.expires)
        self._known.keep(digest, known)
        return known

    def _refusal(self, error: TokenError, entry: TokenEntry, value: bytes) -> TokenRefusedError:
        flaw, ready = error.flaw, None
        if flaw is TokenFlaw.UNKNOWN_KEY:
            ready = self.keys.ask(entry.name)
        elif flaw is TokenFlaw.KEYS_UNAVAILABLE:
            ready = self.keys.first(entry.name)
        elif flaw is TokenFlaw.EXPIRED:
            self.expired.add(_identity_of(value))
        if ready is not None:
            return PendingKeysError(flaw, entry.name, error.what, ready)
        return TokenRefusedError(flaw, entry.name, error.what)


def _identity_of(value: bytes) -> bytes:
    """Return the digest of what is signed: whoever has an ECDSA signature can make another one of it."""
    return sha256(value.rpartition(b".")[0]).digest()


def _expired(entry: str) -> TokenRefusedError:
    return TokenRefusedError(TokenFlaw.EXPIRED, entry, "the token has expired")


def make_token_gate(
    settings: EdgeAuthSettings,
    counts: Counts,
    keys: KeysOfIssuers,
    expired: ExpiredTokens,
    wall: Callable[[], float] = time,
) -> TokenGate:
    """Return what checks the tokens of a configuration's issuers.

    :param counts: counts the use of the limits of clients.
    """
    entries = {entry.issuer: TokenEntry.of(entry) for entry in settings.jwt}
    clients = IdentityClients(settings, counts, service_secret(settings))
    return TokenGate(entries, clients, keys, expired, wall)
