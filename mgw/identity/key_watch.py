"""The watch over a directory of key files: a look each second, in a thread, while there is a directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.config.key_settings import NamedKeySettings
from mgw.identity.keys_dir import KeyChange, KeysDirectory, change_between
from mgw.reactor.daemon_threads import SerialRunner

LOOK_SECONDS: Final = 1.0
LATEST_SECONDS: Final = 5.0
"""How long what was read of another directory waits for a look."""
_log: Final = Logger()


@dataclass(slots=True, eq=False, repr=False)
class KeyWatch:
    """Says what becomes of the keys of a directory, and of one that takes its place.

    :param publish: takes each change, and what is wrong with files.
    :param directory: ``None``: the configuration names none.
    """

    clock: IReactorTime
    threads: SerialRunner
    publish: Callable[[KeyChange], None]
    directory: KeysDirectory | None = None
    keys: dict[str, NamedKeySettings] = field(default_factory=dict)
    """The keys that were published, by name."""
    _next: IDelayedCall | None = None
    _is_looking: bool = False
    _is_new: bool = False
    """Whether nothing was published of the directory yet."""
    _is_running: bool = False

    @property
    def faults(self) -> Mapping[str, str]:
        """What is wrong with files, by the names of their keys."""
        return {} if self.directory is None else self.directory.faults

    def begin(self) -> None:
        """Look from now on."""
        self._is_running = True
        self._wait()

    def stop(self) -> None:
        """Look no more."""
        self._is_running = False
        if self._next is not None and self._next.active():
            self._next.cancel()
        self.threads.stop()

    def use(self, directory: KeysDirectory | None) -> None:
        """Watch another directory, or the same one under other rules, which was read already.

        A key may have been revoked since then: what was read counts only after one more look.
        """
        self.directory, self._is_new = directory, True
        if directory is None or not self._is_running:
            self._publish_all(directory)
            self._wait()
        else:
            self._look()
            self.clock.callLater(LATEST_SECONDS, self._on_late, directory)

    def _wait(self) -> None:
        is_waiting = self._next is not None and self._next.active()
        if self._is_running and self.directory is not None and not is_waiting and not self._is_looking:
            self._next = self.clock.callLater(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        directory = self.directory
        if directory is None:
            return
        self._is_looking = True
        try:
            self.threads.run(directory.look, partial(self._on_look, directory))
        except OSError as error:  # no thread could be started
            self._on_look(directory, error)

    def _on_look(self, directory: KeysDirectory, found: KeyChange | Exception) -> None:
        self._is_looking = False
        if isinstance(found, Exception):
            _log.failure("internal error: the key files could not be looked at", Failure(found))
        elif directory is self.directory and self._is_running:
            if self._is_new:
                self._publish_all(directory)
            else:
                self._publish(found)
        self._wait()

    def _on_late(self, directory: KeysDirectory) -> None:
        """The disk hangs, maybe that of the directory before: what was read counts as it is."""
        if self._is_new and directory is self.directory and self._is_running:
            self._publish_all(directory)

    def _publish_all(self, directory: KeysDirectory | None) -> None:
        """Say in what a directory differs from the one before."""
        self._is_new = False
        after = {} if directory is None else directory.keys
        faults = () if directory is None else tuple(directory.faults.values())
        self._publish(change_between(self.keys, after, faults))

    def _publish(self, change: KeyChange) -> None:
        if not change:
            return
        for name in change.gone:
            self.keys.pop(name, None)
        self.keys.update({key.name: key for key in change.changed})
        self.publish(change)
