"""The public keys of the issuers in a configuration: what is known now, and asking for keys that are not.

One per process; it outlives configurations.  Where the keys come from is a :class:`KeyFeed`: one fetches them
(:mod:`mgw.identity.key_feed`), another one has them of the process that does
(:mod:`mgw.workers.shared_issuer_keys`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from mgw.clients.tokens.key_set import IssuerKey, KeySet
from mgw.config.jwt import JwtSettings
from mgw.identity.key_source import KeySource, source_of


class KnownKeys(Struct, frozen=True, eq=False):
    """The keys of a source, and since when they are known to be good."""

    keys: KeySet
    good_at: float
    """When they were fetched last, on the monotonic clock."""


class KeyFeed(Protocol):
    """Where keys come from."""

    def listen(self, on_keys: Callable[[KeySource], None]) -> None:
        """Call this when something has become known of the keys of a source."""
        ...

    def begin(self) -> None:
        """Get keys from now on; until then nothing is fetched."""
        ...

    def use(self, entries: Mapping[KeySource, JwtSettings]) -> None:
        """Get the keys of these sources, and of no others; what is known of those that stay is kept."""
        ...

    def known(self, source: KeySource) -> KnownKeys | None:
        """Return what is known."""
        ...

    def ask(self, source: KeySource) -> Deferred[None] | None:
        """See :meth:`IssuerKeys.ask`."""
        ...

    def first(self, source: KeySource) -> Deferred[None] | None:
        """See :meth:`IssuerKeys.first`."""
        ...

    def hurry(self, source: KeySource) -> None:
        """Fetch if that is overdue."""
        ...

    def stop(self) -> None:
        """Get nothing more; whoever waits goes on."""
        ...


@dataclass(slots=True, eq=False, repr=False)
class _Entry:
    """What is looked up for each token of an issuer."""

    source: KeySource
    max_stale: float
    keys: KeySet | None = None
    until: float = -inf
    """Up to when they may be used, on the monotonic clock."""
    timer: IDelayedCall | None = None
    """Fires when they may not be used any longer."""


def _nothing() -> None:
    pass


def _nothing_of(_: str) -> None:
    pass


@dataclass(slots=True, eq=False, repr=False)
class IssuerKeys:
    """The keys of all issuers, by the names of their entries.

    :param monotonic: seconds on a clock that nobody sets.
    """

    clock: IReactorTime
    monotonic: Callable[[], float]
    feed: KeyFeed
    on_change: Callable[[], None] = _nothing
    """Called when keys are new, others, gone, or may not be used any longer."""
    on_stale: Callable[[str], None] = _nothing_of
    """Called with the name of an entry if its keys may not be used any longer, as they were not fetched."""
    _entries: dict[str, _Entry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.feed.listen(self._on_keys)

    def begin(self) -> None:
        """Get keys from now on."""
        self.feed.begin()

    def use(self, entries: Sequence[JwtSettings]) -> None:
        """Use other entries; those with the same source have the keys that they had."""
        before, self._entries = self._entries, {}
        for settings in entries:
            source = source_of(settings)
            # A file says what holds now, so keys of one do not become stale.
            max_stale = inf if source.jwks_file is not None else settings.max_stale
            self._entries[settings.name] = _Entry(source, max_stale)
        self.feed.use({source_of(settings): settings for settings in entries})
        is_changed = False
        for name, entry in self._entries.items():
            self._take(name, entry)
            old = before.pop(name, None)
            is_changed |= not is_same(None if old is None else old.keys, entry.keys)
            _cancel(old)
        for old in before.values():
            is_changed |= old.keys is not None
            _cancel(old)
        if is_changed:
            self.on_change()

    def keys_of(self, name: str) -> KeySet | None:
        """Return the keys of an entry; ``None``: there are none that may be used."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        if self.monotonic() < entry.until:
            return entry.keys
        self.feed.hurry(entry.source)
        return None

    def ask(self, name: str) -> Deferred[None] | None:
        """Ask for a key that an entry does not have: returns when its keys have been fetched, or after 5 s.

        ``None``: they were fetched too recently to be fetched again.  Cancelling affects nobody else.
        """
        entry = self._entries.get(name)
        return None if entry is None else self.feed.ask(entry.source)

    def first(self, name: str) -> Deferred[None] | None:
        """Wait for the first keys of an entry: returns when their fetch is done, or after 5 s.

        ``None``: it is done, whatever it has come to.  Cancelling affects nobody else.
        """
        entry = self._entries.get(name)
        return None if entry is None else self.feed.first(entry.source)

    def stop(self) -> None:
        """Get nothing more; what is known stays."""
        self.feed.stop()
        for entry in self._entries.values():
            _cancel(entry)

    def _on_keys(self, source: KeySource) -> None:
        for name, entry in self._entries.items():
            if entry.source == source:
                before = entry.keys
                self._take(name, entry)
                if not is_same(before, entry.keys):
                    self.on_change()

    def _take(self, name: str, entry: _Entry) -> None:
        known = self.feed.known(entry.source)
        _cancel(entry)
        entry.keys, entry.until = None, -inf
        if known is None:
            return
        until = known.good_at + entry.max_stale
        rest = until - self.monotonic()
        if rest > 0:
            entry.keys, entry.until = known.keys, until
            if until < inf:
                entry.timer = self.clock.callLater(rest, self._on_time, name, entry)

    def _on_time(self, name: str, entry: _Entry) -> None:
        rest = entry.until - self.monotonic()
        if rest > 0:  # the clock of timers was set
            entry.timer = self.clock.callLater(rest, self._on_time, name, entry)
            return
        entry.keys, entry.until = None, -inf
        self.on_change()
        self.on_stale(name)


def marks_of(keys: KeySet | None) -> frozenset[tuple[str | None, bytes, frozenset[str]]]:
    """Return what tells one set of keys from another."""
    return frozenset() if keys is None else frozenset(map(_mark, keys.keys))


def is_same(one: KeySet | None, other: KeySet | None) -> bool:
    """Whether two sets verify the same tokens."""
    return one is other or ((one is None) == (other is None) and marks_of(one) == marks_of(other))


def _mark(key: IssuerKey) -> tuple[str | None, bytes, frozenset[str]]:
    return key.key_id, key.thumbprint, key.algorithms


def _cancel(entry: _Entry | None) -> None:
    if entry is not None and entry.timer is not None and entry.timer.active():
        entry.timer.cancel()
