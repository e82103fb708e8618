"""The key files of a service, from the look at their directory to the gates of all its processes.

A change goes to this process and to all workers before the log tells of it: who reads that a key was removed
can rely on it.  Many changes at once are taken over a slice at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mgw.clients.key_changes import CHANGED, REMOVED, describe_key_change
from mgw.clients.key_rows import IN_CONFIG, KeyRow, file_rows, key_row
from mgw.config.key_settings import NamedKeySettings
from mgw.config.quoting import shown
from mgw.identity.key_watch import KeyWatch
from mgw.identity.keys_dir import KeyChange, KeysDirectory
from mgw.reactor.daemon_threads import DaemonThreads

SLICE_KEYS: Final = 100
"""How many keys are taken over without letting anybody else go on."""
T = TypeVar("T")
_log: Final = Logger()

ApplyKeys = Callable[[Sequence[NamedKeySettings], Sequence[str]], None]
"""Takes keys that are new or other than before, and the names of those that are gone."""

TellKeys = Callable[[Sequence[NamedKeySettings], Sequence[str]], Deferred[None] | None]
"""Takes the same; returns what fires when other processes have taken it over, or after a moment, and never
fails."""


def ignore_keys(_: Sequence[NamedKeySettings], __: Sequence[str]) -> None:
    """There is nobody else to tell."""


@dataclass(slots=True, eq=False, repr=False)
class KeyFiles:
    """Follows the key files.

    :param directory: what was read at start, and is in force already; ``None``: there is none.
    :param apply: takes changes over in this process.
    """

    reactor: Any  # Any: a reactor has no one type
    directory: KeysDirectory | None
    apply: ApplyKeys
    tell_others: TellKeys = ignore_keys
    """Tells the other processes of the service."""
    on_done: Callable[[], None] = lambda: None
    """Called when all of a change was taken over."""
    _watch: KeyWatch = field(init=False)
    _slices: deque[KeyChange] = field(init=False, default_factory=deque)
    _is_changed: bool = field(init=False, default=False)
    """Whether keys have changed since :attr:`on_done` was called."""

    def __post_init__(self) -> None:
        threads = DaemonThreads(self.reactor, "mgw-keys")
        self._watch = watch = KeyWatch(self.reactor, threads, self._publish, self.directory)
        if self.directory is not None:
            watch.keys.update(self.directory.keys)

    @property
    def keys(self) -> list[NamedKeySettings]:
        """The keys in force."""
        return list(self._watch.keys.values())

    @property
    def invalid(self) -> int:
        """How many files cannot be used."""
        return len(self._watch.faults)

    def rows(self, configured: Sequence[NamedKeySettings], zone: tzinfo, now: float) -> list[KeyRow]:
        """Return what may be seen of all keys with names, those of the configuration first."""
        of_files = file_rows(self._watch.keys, self._watch.faults, now, zone)
        return [*(key_row(key, now, zone, IN_CONFIG) for key in configured), *of_files]

    @property
    def current(self) -> KeysDirectory | None:
        """The directory that is followed."""
        return self._watch.directory

    def begin(self) -> None:
        """Say what there is, and follow it, once the reactor runs."""
        if self.directory is not None:
            _log.info("edge_auth.keys_dir: keys read: {count}", count=len(self._watch.keys))
            _log_faults(tuple(self.directory.faults.values()))
        self._watch.begin()

    def use(self, directory: KeysDirectory | None) -> None:
        """Follow the directory of another configuration, which was read already."""
        self._watch.use(directory)

    def stop(self) -> None:
        """Follow nothing more."""
        self._watch.stop()

    def _publish(self, change: KeyChange) -> None:
        is_idle = not self._slices
        self._slices.extend(_slices_of(change))
        if is_idle:
            self._take_slice()

    def _take_slice(self) -> None:
        """Take the first slice over; the next follows when the reactor has done other things."""
        part = self._slices[0]
        try:
            self.apply(part.changed, part.gone)
            told = self.tell_others(part.changed, part.gone)
            if told is None:
                _log_change(part)
            else:  # who reads in the log that a key was removed can rely on it
                _ = told.addCallback(lambda _: _log_change(part))
        finally:
            self._slices.popleft()
            self._is_changed = self._is_changed or bool(part.changed or part.gone)
            if self._slices:
                self.reactor.callLater(0, self._take_slice)
            elif self._is_changed:
                self._is_changed = False
                self.on_done()


def batched_keys(keys: Sequence[NamedKeySettings]) -> Iterator[Sequence[NamedKeySettings]]:
    """Yield slices of keys."""
    return _batched(tuple(keys))


def _batched(values: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    for at in range(0, len(values), SLICE_KEYS):
        yield values[at : at + SLICE_KEYS]


def _slices_of(change: KeyChange) -> list[KeyChange]:
    """Cut a change into parts; what is gone comes first."""
    faults = [KeyChange(faults=part) for part in _batched(change.faults)]
    gone = [KeyChange(gone=part) for part in _batched(change.gone)]
    changed = [KeyChange(part, before=change.before) for part in _batched(change.changed)]
    return [*gone, *faults, *changed]


def _log_change(change: KeyChange) -> None:
    for name in change.gone:
        log_key(name, REMOVED)
    for key in change.changed:
        log_key(key.name, describe_key_change(change.before.get(key.name), key) or CHANGED)
    _log_faults(change.faults)


def log_key(name: str, what: str) -> None:
    """Say what has become of a key."""
    _log.info("key {name}: {what}", name=shown(name), what=what)


def _log_faults(faults: Sequence[str]) -> None:
    for fault in faults:
        for line in fault.splitlines():
            _log.error("{line}", line=line)


def log_expiry(which: str) -> None:
    """Say that a key has expired."""
    _log.info("{which}: expired", which=which)
