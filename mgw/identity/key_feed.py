"""Fetch the keys of all issuers in this process, and tell other processes, the log and metrics of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from mgw.clients.tokens.key_set import KeySet
from mgw.config.jwt import JwtSettings
from mgw.identity.issuer_log import IssuerLog
from mgw.identity.issuers import KnownKeys
from mgw.identity.key_refresh import KeyRefresh, Pace
from mgw.identity.key_source import FetchedKeys, KeyFetchError, KeySource

LEAST_SECONDS: Final = 30.0
"""Keys that are soon stale are fetched again when half of that time is over, but not more often than this."""


class KeyFetch(Struct, frozen=True):
    """What fetches the keys of one source."""

    fetch: Callable[[], Coroutine[Deferred[Any], Any, FetchedKeys]]
    """Returns the same object where nothing was fetched, because nothing has changed."""
    pace: Pace
    close: Callable[[], None]


class IssuerFetches(Struct, frozen=True):
    """What metrics say of an issuer."""

    name: str
    succeeded: int
    failed: int
    age: float | None
    """Seconds since the last good fetch; ``None``: there was none, or the entry is gone."""


TellKeys = Callable[[str, bytes | None, float | None], Deferred[None] | None]
"""Takes the digest of a source, the document with its keys (``None``: as before), and how many seconds ago
they were fetched (``None``: the source is gone).

Returns what fires when all other processes use a new document, or after a moment; never fails."""


def tell_nobody(_: str, __: bytes | None, ___: float | None) -> None:
    """There are no other processes."""


def _ignore(_: KeySource) -> None:
    pass


@dataclass(slots=True, eq=False, repr=False)
class _Fetched:
    """A source, and what is known of it."""

    name: str
    refresh: KeyRefresh
    close: Callable[[], None]
    log: IssuerLog
    last: FetchedKeys | None = None
    good_at: float = 0.0
    fault: str | None = None
    """Why the last fetch has failed."""


@dataclass(slots=True, eq=False, repr=False)
class FetchingFeed:
    """Fetches keys.

    :param monotonic: seconds on a clock that nobody sets.
    :param open_fetch: makes what fetches the keys of a source.
    """

    clock: IReactorTime
    monotonic: Callable[[], float]
    open_fetch: Callable[[KeySource], KeyFetch]
    tell_others: TellKeys = tell_nobody
    close: Callable[[], None] = lambda: None
    """Called at the end."""
    _on_keys: Callable[[KeySource], None] = _ignore
    _sources: dict[KeySource, _Fetched] = field(default_factory=dict)
    _counts: dict[str, list[int]] = field(default_factory=dict)
    """How many fetches have succeeded and failed, by the names of entries, also of those that are gone."""
    _is_running: bool = False

    def listen(self, on_keys: Callable[[KeySource], None]) -> None:
        """Say whom to tell."""
        self._on_keys = on_keys

    def begin(self) -> None:
        """Fetch, now and from now on."""
        self._is_running = True
        for fetched in list(self._sources.values()):
            fetched.refresh.begin()

    def use(self, entries: Mapping[KeySource, JwtSettings]) -> None:
        """Fetch the keys of these sources, and of no others."""
        for source in self._sources.keys() - entries.keys():
            gone = self._sources.pop(source)
            gone.refresh.stop()
            gone.close()
            _ = self.tell_others(source.digest, None, None)
        for source, entry in entries.items():
            self._counts.setdefault(entry.name, [0, 0])
            most_seconds = max(entry.max_stale / 2, LEAST_SECONDS)
            fetched = self._sources.get(source)
            if fetched is None:
                self._open(source, entry.name, most_seconds)
            else:
                fetched.name = fetched.log.name = entry.name
                fetched.refresh.bound(most_seconds)

    def known(self, source: KeySource) -> KnownKeys | None:
        """Return what is known."""
        fetched = self._sources.get(source)
        return None if fetched is None or fetched.last is None else _known(fetched)

    def ask(self, source: KeySource) -> Deferred[None] | None:
        """Fetch the keys of a source anew; see :meth:`KeyRefresh.ask`."""
        fetched = self._sources.get(source)
        return None if fetched is None or not self._is_running else fetched.refresh.ask()

    def first(self, source: KeySource) -> Deferred[None] | None:
        """Wait for the first fetch of a source; see :meth:`KeyRefresh.first`."""
        fetched = self._sources.get(source)
        return None if fetched is None else fetched.refresh.first()

    def find(self, digest: str) -> KeySource | None:
        """Return the source that another process means."""
        return next((source for source in self._sources if source.digest == digest), None)

    def seconds_to_ask(self, source: KeySource) -> float:
        """Return for how long asking again has nothing fetched."""
        fetched = self._sources.get(source)
        return 0.0 if fetched is None else fetched.refresh.seconds_to_ask

    def hurry(self, source: KeySource) -> None:
        """Fetch if that is overdue."""
        fetched = self._sources.get(source)
        if fetched is not None:
            fetched.refresh.hurry()

    def stop(self) -> None:
        """Fetch nothing more, also for a configuration to come; whoever waits goes on."""
        self._is_running = False
        for fetched in self._sources.values():
            fetched.refresh.stop()
            fetched.close()
        self.close()

    def documents(self) -> Iterator[tuple[str, bytes, float]]:
        """Yield what another process needs to know: see :data:`TellKeys`."""
        for source, fetched in self._sources.items():
            if fetched.last is not None:
                yield source.digest, fetched.last.document, self.monotonic() - fetched.good_at

    def states(self) -> Iterator[IssuerFetches]:
        """Yield what metrics say."""
        now = self.monotonic()
        ages = {each.name: now - each.good_at for each in self._sources.values() if each.last is not None}
        for name, (succeeded, failed) in self._counts.items():
            yield IssuerFetches(name, succeeded, failed, ages.get(name))

    def log_stale(self, name: str) -> None:
        """Say that the keys of an entry may not be used any longer."""
        for fetched in self._sources.values():
            if fetched.name == name:
                fetched.log.on_stale()

    def _open(self, source: KeySource, name: str, most_seconds: float) -> None:
        opened = self.open_fetch(source)
        on_done = partial(self._on_done, source)
        refresh = KeyRefresh(self.clock, self.monotonic, opened.fetch, on_done, opened.pace, most_seconds)
        self._sources[source] = _Fetched(name, refresh, opened.close, IssuerLog(name, self.monotonic))
        if self._is_running:
            refresh.begin()

    def _on_done(self, source: KeySource, found: FetchedKeys | KeyFetchError) -> None:
        fetched = self._sources[source]
        if isinstance(found, KeyFetchError):
            self._on_failure(source, fetched, str(found))
            return
        before, fetched.last, fetched.good_at = fetched.last, found, self.monotonic()
        has_failed, fetched.fault = fetched.fault is not None, None
        if found is before and not has_failed:  # a file, which is as it was
            return
        self._counts[fetched.name][0] += 1
        self._on_keys(source)
        is_same = before is not None and before.document == found.document
        told = self.tell_others(source.digest, None if is_same else found.document, 0.0)
        log_change = partial(fetched.log.on_keys, _keys(before), found.keys)
        if told is None:
            log_change()
        else:  # who reads in the log that a key was added or removed can rely on it
            _ = told.addCallback(lambda _: log_change())

    def _on_failure(self, source: KeySource, fetched: _Fetched, fault: str) -> None:
        is_news = source.jwks_file is None or fault != fetched.fault
        fetched.fault = fault
        if is_news:  # a file is looked at each second
            self._counts[fetched.name][1] += 1
            fetched.log.on_failure(fault)


def _known(fetched: _Fetched) -> KnownKeys:
    assert fetched.last is not None, "it was fetched"
    return KnownKeys(fetched.last.keys, fetched.good_at)


def _keys(fetched: FetchedKeys | None) -> KeySet | None:
    return None if fetched is None else fetched.keys
