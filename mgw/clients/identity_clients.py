"""The clients that only tokens name: one for each person or program, and for what its token gives it.

A configuration does not know them beforehand, and there may be any number of them.  Those of a configuration
are kept up to a number, and made again when they come back: what they have used is counted by their names.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct
from msgspec.json import encode

from mgw.clients.client import Client, Identity
from mgw.clients.client_groups import Matcher, highest_priority, matchers_of, tags_of
from mgw.clients.client_limits import limits_of_groups
from mgw.clients.limits import Counts
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.jwt import JwtSettings
from mgw.nouns.vocabulary import Priority

MAX_CLIENTS: Final = 10_000
"""How many clients are remembered; the one that was asked for least recently makes room."""
_PURPOSE: Final = b"mgw identity\n"
_Tags = tuple[tuple[str, str], ...]


class _Membership(Struct, frozen=True, eq=False):
    """What follows from groups alone."""

    fits: tuple[Matcher, ...]
    priority: Priority


@dataclass(slots=True, eq=False, repr=False)
class IdentityClients:
    """The clients of tokens under one configuration."""

    settings: EdgeAuthSettings
    counts: Counts | None
    """What counts the use of their limits; ``None``: nobody does."""
    secret: bytes = b""
    """What their digests are derived from."""
    _clients: dict[tuple[str, tuple[str, ...], _Tags], Client] = field(default_factory=dict)
    """Those that were asked for last stand last."""
    _memberships: dict[tuple[str, ...], _Membership] = field(default_factory=dict)
    """By the groups of a rule, of which there are as many as the configuration has."""

    def client_of(
        self, issuer: str, value: str, groups: Sequence[str], tags: Mapping[str, str] | _Tags
    ) -> Client:
        """Return the client of a token: the same one for the same person with the same groups and tags.

        :param issuer: the name of the issuer's entry.
        :param value: of the claim that names the client.
        :param groups: those of the rule that matches.
        :param tags: those of the token.
        """
        own = dict(tags)
        key = (f"{issuer}:{value}", tuple(groups), tuple(own.items()))
        client = self._clients.pop(key, None)
        if client is None:
            while len(self._clients) >= MAX_CLIENTS:
                del self._clients[next(iter(self._clients))]
            client = self._make(issuer, key[0], key[1], own)
        self._clients[key] = client
        return client

    def find(self, identity: Identity) -> Client | None:
        """Return a client whom a token has named, if the configuration has its issuer and a rule for it.

        The token itself is not at hand: all that can be seen is whether any token gives these groups.
        """
        entry = self._entry_of(identity)
        if entry is None or all(tuple(rule.groups) != identity.groups for rule in entry.rules):
            return None
        return self.client_of(identity.issuer, identity.value, identity.groups, identity.tags)

    def digest_of(self, identity: Identity) -> bytes:
        """Return what stands for a client in place of the digest of a key: nobody else can find it."""
        entry = self._entry_of(identity)
        address = "" if entry is None else entry.issuer  # another issuer may get the name of one that is gone
        return hmac.digest(self.secret, _PURPOSE + encode((address, identity)), "sha256")

    def _entry_of(self, identity: Identity) -> JwtSettings | None:
        return next((entry for entry in self.settings.jwt if entry.name == identity.issuer), None)

    def _make(self, issuer: str, name: str, groups: tuple[str, ...], tags: Mapping[str, str]) -> Client:
        settings = self.settings
        membership = self._memberships.get(groups)
        if membership is None:
            found = _Membership(matchers_of(None, groups, settings), highest_priority(groups, settings))
            self._memberships[groups] = membership = found
        limits = limits_of_groups(name, groups, settings)
        all_tags = tags_of(groups, tags, settings)
        identity = Identity(issuer, name.removeprefix(f"{issuer}:"), groups, all_tags)
        return Client(
            name,
            self.digest_of(identity),
            fits=membership.fits,
            limits=limits,
            counts=self.counts if limits else None,
            groups=groups,
            tags=all_tags,
            priority=membership.priority,
            zone=settings.timezone,
            issuer=issuer,
        )
