"""The gateway keys of one configuration and its key files, by their digests: which open the gate, and which
did so once.

A key that opens nothing any more is still the gateway's own: it is remembered as such, so that it never goes
to a provider as a credential of the client's, and so that its refusal can say why.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import tzinfo
from math import inf

from msgspec.structs import replace

from mgw.clients.client import Client
from mgw.clients.key_hints import KeyHints
from mgw.clients.key_memory import KeyMemory
from mgw.config.key_settings import NamedKeySettings
from mgw.nouns.key_state import KeyState


@dataclass(slots=True, eq=False, repr=False)
class KeyTable:
    """The keys of one configuration and of its key files at the moment.

    :param zone: where days end.
    """

    memory: KeyMemory
    zone: tzinfo
    fixed: Set[str] = frozenset()
    """The names of keys of the configuration, which give up no digest."""
    clients: dict[bytes, Client] = field(default_factory=dict)
    """Those that open the gate.  Nobody can steer a digest: the time of a search tells nothing of a key."""
    hints: KeyHints = field(default_factory=KeyHints)
    """The digests of these."""
    ended: dict[bytes, KeyState] = field(default_factory=dict)
    """Those that are configured and open nothing."""
    _expiring: dict[bytes, Client] = field(default_factory=dict)
    """Those of ``clients`` that expire."""
    _next_expiry: float = inf
    _digests: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    """The digests of each key with a name, its own first."""
    _owners: dict[bytes, str] = field(default_factory=dict)
    """The names of the keys that have them."""

    def add(self, client: Client, key: NamedKeySettings | None, now: float) -> list[Client]:
        """Put a key in; return it as the client of each of its digests, but for what another key has.

        A key of a file gives its digest up: it is about to change itself, a slice later.

        :param key: its settings, where it has a name.
        """
        opens = [client]
        if key is not None and key.previous is not None and key.previous.sha256 is not None:
            opens.append(self._previous(client, key))
        opens = [one for one in opens if self._is_free(one.digest)]
        if key is not None:
            self._digests[key.name] = digests = tuple(one.digest for one in opens)
            self._owners.update(dict.fromkeys(digests, key.name))
        for one in opens:
            self.memory.known.add(one.digest)
            if key is not None and key.disabled:
                self.ended[one.digest] = KeyState.DISABLED
            elif self._has_expired(one, now):
                self.ended[one.digest] = KeyState.EXPIRED
            else:
                self._open(one)
        return opens

    def remove(self, name: str) -> None:
        """Take a key out that has a name, if it is there."""
        for digest in self._digests.pop(name, ()):
            if self._owners.get(digest) == name:
                self._release(digest)

    def find(self, digest: bytes, now: float) -> Client | None:
        """Return whose key opens the gate."""
        client = self.clients.get(digest)
        if client is None or client.expires is None or not self._has_expired(client, now):
            return client
        self._next_expiry = -inf
        return None

    def state_of(self, digest: bytes) -> KeyState | None:
        """Return what has become of a key; ``None``: it was never one of the gateway's."""
        client = self.clients.get(digest)
        if client is not None:
            return KeyState.EXPIRED if self._has_expired(client, -inf) else KeyState.ACTIVE
        return self.ended.get(digest) or (KeyState.REVOKED if digest in self.memory.known else None)

    @property
    def has_expiring(self) -> bool:
        """Whether a key that opens the gate expires some day."""
        return bool(self._expiring)

    def expire(self, now: float) -> list[Client]:
        """End the keys that have expired, and return them."""
        if now < self._next_expiry:
            return []
        over = [client for client in self._expiring.values() if self._has_expired(client, now)]
        for client in over:
            self._end(client)
        self._next_expiry = min((_expiry_of(client) for client in self._expiring.values()), default=inf)
        return over

    def is_previous(self, client: Client) -> bool:
        """Whether a client has sent its key from before a rotation."""
        return client.digest in self._digests.get(client.name, ())[1:]

    def count_states(self) -> Mapping[str, int]:
        """Return how many keys with names are in each state that is configured."""
        found = [self.state_of(digests[0]) for digests in self._digests.values() if digests]
        return {state: found.count(state) for state in (KeyState.ACTIVE, KeyState.EXPIRED, KeyState.DISABLED)}

    def _is_free(self, digest: bytes) -> bool:
        """Whether a key may have a digest, which another key of a file gives up for it."""
        if digest in self.clients or digest in self.ended:
            owner = self._owners.get(digest)
            if owner is None or owner in self.fixed:
                return False
            self._release(digest)
        return True

    def _release(self, digest: bytes) -> None:
        del self._owners[digest]
        if self.clients.pop(digest, None) is not None:
            self.hints.remove(digest)
        self.ended.pop(digest, None)
        self._expiring.pop(digest, None)

    def _has_expired(self, client: Client, now: float) -> bool:
        return self.memory.has_expired(client.digest, client.expires, now)

    def _previous(self, client: Client, key: NamedKeySettings) -> Client:
        previous = key.previous
        assert previous is not None
        ends = previous.expires.ends(self.zone)
        digest = bytes.fromhex(previous.sha256.reveal())
        expires = ends if client.expires is None else min(ends, client.expires)
        return replace(client, digest=digest, expires=expires, is_known=False)

    def _open(self, client: Client) -> None:
        self.clients[client.digest] = client
        self.hints.add(client.digest)
        if client.expires is not None:
            self._expiring[client.digest] = client
            self._next_expiry = min(self._next_expiry, client.expires)

    def _end(self, client: Client) -> None:
        del self.clients[client.digest]
        self.hints.remove(client.digest)
        self._expiring.pop(client.digest, None)
        self.ended[client.digest] = KeyState.EXPIRED


def _expiry_of(client: Client) -> float:
    return inf if client.expires is None else client.expires
