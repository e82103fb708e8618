"""A directory of key files: which keys it holds now, and what is wrong with its files.

A file ``NAME.yaml`` is the key NAME.  The directory is looked at again and again, and a file is read where
what the system says of it has changed: device, inode, size, and the times of modification and of change.
Nothing is watched: notifications do not come for what another host writes to an NFS.  Links are followed, so
that a Secret which Kubernetes mounts works: there each file is a link into ``..data``, itself a link that is
swapped.

A file that is no valid key leaves the last good state of its name in force, so that a file that is being
written, or that somebody has spoiled, locks nobody out; a file that is gone takes its key away.  Of two files
with one digest the first counts, in the order of their names.

All of this blocks, and is done in a thread.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Lock
from time import sleep
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.config.file_faults import shown_path, unreadable, user_name
from mgw.config.key_settings import NamedKeySettings
from mgw.config.places import Places
from mgw.config.problems import ConfigError
from mgw.nouns.secret import Secret
from mgw.reactor.regular_file import read_regular_file

MAX_FILES: Final = 10_000
"""Where there are more key files, the known keys stay, and further ones are not read."""
MAX_FILE_BYTES: Final = 64 * 1024
ENDING: Final = ".yaml"
FURTHER_READINGS: Final = 2
"""At how many of the next looks a file that has changed is read again: times are only as fine as the clock of
a kernel or of an NFS, so what is written behind the first reading may leave all of them as they are."""
SETTLE_SECONDS: Final = 0.2
"""A file that goes on changing for so long is still being written, and waits for the next look: the beginning
of a valid key may be a valid key itself, without the limits that follow."""
DIRECTORY: Final = ""
"""Stands for the directory itself where others have the name of a key."""

Mark = tuple[int, ...]
"""Device, inode, size, and the two times in nanoseconds; of a file that cannot be looked at, the error."""
_UNREAD: Final[Mark] = ()
ParseKey = Callable[[str, str, str], tuple[NamedKeySettings, Places]]
"""Takes a text, the name of the key and that of the file; raises :class:`ConfigError`."""


class KeyRules(Struct, frozen=True):
    """What one configuration says of the files."""

    parse: ParseKey
    names: Set[str] = frozenset()
    """The names that keys and issuers of the configuration have."""
    digests: Set[Secret] = frozenset()
    """The digests that keys of the configuration have."""


class KeyChange(Struct, frozen=True):
    """What has become of the keys since the look before; false: nothing."""

    changed: tuple[NamedKeySettings, ...] = ()
    """Those that are new, or other than they were."""
    gone: tuple[str, ...] = ()
    """The names of those that are no more."""
    before: Mapping[str, NamedKeySettings] = MappingProxyType({})
    """What those among ``changed`` were that were there before, by name."""
    faults: tuple[str, ...] = ()
    """What is wrong with files that was not reported yet: a text for each, with file and line."""

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone or self.faults)


class _Reading(Struct, frozen=True):
    """What a file contained."""

    content: bytes | None
    """The digest of the content; ``None``: it could not be read."""
    key: NamedKeySettings | None = None
    places: Places = Places()
    fault: str | None = None


def change_between(
    before: Mapping[str, NamedKeySettings],
    after: Mapping[str, NamedKeySettings],
    faults: tuple[str, ...] = (),
) -> KeyChange:
    """Return what has become of keys."""
    changed = tuple(key for name, key in after.items() if not _is_same(before.get(name), key))
    gone = tuple(name for name in before if name not in after)
    earlier = {key.name: before[key.name] for key in changed if key.name in before}
    return KeyChange(changed, gone, earlier, faults)


def digests_of(key: NamedKeySettings) -> list[Secret]:
    """Return the digests of a key: its own, and that from before a rotation."""
    previous = key.previous
    found = [key.sha256, None if previous is None else previous.sha256]
    return [digest for digest in found if digest is not None]


def unreadable_directory(path: str) -> str | None:
    """Say why a directory cannot be looked at; ``None``: it can."""
    try:
        os.scandir(path).close()
    except OSError as error:
        return _why_no_directory(path, error)
    return None


def _why_no_directory(path: str, error: OSError) -> str:
    named = shown_path(path)
    match error.errno:
        case errno.ENOENT:
            return f"directory not found: {named}"
        case errno.ENOTDIR:
            return f"not a directory: {named}"
        case errno.EACCES | errno.EPERM:
            return f"permission denied for user {user_name()}: {named}"
    return f"{named} cannot be read: {error.strerror}"


def scan_directory(path: str) -> dict[str, Mark]:
    """Return the marks of all key files by the names of the keys."""
    marks: dict[str, Mark] = {}
    with os.scandir(path) as entries:
        for entry in entries:
            file = entry.name
            if not file.endswith(ENDING) or file[0] == ".":
                continue
            try:
                found = entry.stat()
            except FileNotFoundError:  # removed a moment ago, or a link to nothing
                continue
            except OSError as error:
                marks[file[: -len(ENDING)]] = (-(error.errno or 0),)
                continue
            marks[file[: -len(ENDING)]] = _mark(found)
    return marks


def _mark(found: os.stat_result) -> Mark:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@dataclass(slots=True, eq=False, repr=False)
class KeysDirectory:
    """The key files of one directory, under the rules of one configuration.

    :param keys: those in force, by name; what a look finds takes their place.
    :param pause: waits for so many seconds.
    :param scan: returns the marks of all key files by the names of the keys, or raises :class:`OSError`.
    """

    path: str
    rules: KeyRules
    keys: Mapping[str, NamedKeySettings] = field(default_factory=dict)
    pause: Callable[[float], None] = sleep
    scan: Callable[[str], dict[str, Mark]] = scan_directory
    faults: Mapping[str, str] = field(default_factory=dict)
    """What is wrong, by the names of the files; see :data:`DIRECTORY`."""
    _marks: dict[str, Mark] = field(default_factory=dict)
    _readings: dict[str, _Reading] = field(default_factory=dict)
    _further: dict[str, int] = field(default_factory=dict)
    """At how many more looks a file is read again."""
    _unsettled: Set[str] = frozenset()
    """What was being written at the look before."""
    _lock: Lock = field(default_factory=Lock)

    def read_all(self) -> KeyChange:
        """Read every file, even one that is being written."""
        with self._lock:
            self._marks.clear()
            self._readings.clear()
            return self._try_to_look(is_first=True)

    def look(self) -> KeyChange:
        """Read what has changed."""
        with self._lock:
            return self._try_to_look(is_first=False)

    def _try_to_look(self, *, is_first: bool) -> KeyChange:
        try:
            return self._look(self.scan(self.path), is_first=is_first)
        except OSError as error:
            return self._on_no_directory(f"edge_auth.keys_dir: {_why_no_directory(self.path, error)}")

    def _look(self, marks: dict[str, Mark], *, is_first: bool) -> KeyChange:
        """Read what has changed.

        :raises OSError: the directory is there no more.
        """
        too_many = len(marks) - MAX_FILES
        if too_many > 0:
            marks = self._first_of(marks)
        before = self._marks
        changed = {name for name, mark in marks.items() if before.get(name) != mark}
        is_same = not changed and not self._further and len(marks) == len(before)
        if is_same and (DIRECTORY in self.faults) == (too_many > 0):
            return KeyChange()
        unsettled, self._unsettled = self._unsettled, frozenset()
        if changed and not is_first:
            changed = self._settled(marks, changed, unsettled)
        self._marks = marks
        fresh = self._read(changed)
        for name in self._readings.keys() - marks.keys():
            del self._readings[name]
        of_directory = f"edge_auth.keys_dir: more than {MAX_FILES} key files: {too_many} are not read"
        return self._judge(fresh, of_directory if too_many > 0 else None)

    def _on_no_directory(self, fault: str) -> KeyChange:
        """Keep all keys: a file system that is not there says nothing of them."""
        if self.faults.get(DIRECTORY) == fault:
            return KeyChange()
        self.faults = {**self.faults, DIRECTORY: fault}
        return KeyChange(faults=(fault,))

    def _first_of(self, marks: Mapping[str, Mark]) -> dict[str, Mark]:
        """Return as many files as are read, of which those of known keys come first."""
        ordered = sorted(marks, key=lambda name: (name not in self.keys, name))
        return {name: marks[name] for name in ordered[:MAX_FILES]}

    def _settled(self, marks: dict[str, Mark], changed: set[str], unsettled: Set[str]) -> set[str]:
        """Return those of the changed files that are not being written; others are left to the next look.

        :raises OSError: the directory is there no more.
        """
        self.pause(SETTLE_SECONDS)
        now = self.scan(self.path)
        for name in changed - now.keys():
            del marks[name]
        changed &= now.keys()
        moving = {name for name in changed if now[name] != marks[name]} - unsettled
        self._unsettled = moving
        for name in moving:
            marks[name] = self._marks.get(name, _UNREAD)
        return changed - moving

    def _read(self, changed: Set[str]) -> set[str]:
        """Read the files that have changed, and some that had; return those with another content."""
        fresh: set[str] = set()
        further = self._further
        self._further = {name: left - 1 for name, left in further.items() if left > 1}
        again = (further.keys() & self._marks.keys()) - self._unsettled
        for name in sorted(changed | again):
            if name in changed:
                self._further[name] = FURTHER_READINGS
            found = self._read_file(name)
            if found is None:
                del self._marks[name]
                self._further.pop(name, None)
            elif found is not self._readings.get(name):
                self._readings[name] = found
                fresh.add(name)
        return fresh

    def _read_file(self, name: str) -> _Reading | None:
        """Return what is in a file; ``None``: it is gone.  Where nothing is new, it is the reading before."""
        before, path = self._readings.get(name), os.path.join(self.path, name + ENDING)
        file = shown_path(path)
        try:
            data = read_regular_file(path, MAX_FILE_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            fault = f"{file}:1: {unreadable(path, error, hides_path=True)}"
            return before if before is not None and before.fault == fault else _Reading(None, fault=fault)
        content = sha256(data).digest()
        if before is not None and before.content == content:
            return before
        try:
            key, places = self.rules.parse(data.decode("utf-8", "surrogateescape"), name, file)
        except ConfigError as error:
            return _Reading(content, fault=str(error))
        except Exception as error:
            return _Reading(content, fault=f"{file}:1: internal error: {type(error).__name__}")
        return _Reading(content, key, places)

    def _judge(self, fresh: Set[str], of_directory: str | None) -> KeyChange:
        """See which keys are in force: what is valid by itself may still collide with something else."""
        owners = dict.fromkeys(self.rules.digests, "edge_auth.keys")
        keys: dict[str, NamedKeySettings] = {}
        faults: dict[str, str] = {} if of_directory is None else {DIRECTORY: of_directory}
        for name in sorted(self._readings):
            reading, last = self._readings[name], self.keys.get(name)
            fault = reading.fault or self._collision(name, reading, owners)
            found = reading.key if fault is None else last
            if fault is not None:
                faults[name] = fault
            if found is None or name in self.rules.names or any(d in owners for d in digests_of(found)):
                continue
            keys[name] = last if last is not None and last == found else found  # one object: quick to compare
            owners.update(dict.fromkeys(digests_of(found), name + ENDING))
        told = (fault for name, fault in faults.items() if name in fresh or self.faults.get(name) != fault)
        change = change_between(self.keys, keys, tuple(told))
        self.keys, self.faults = keys, faults
        return change

    def _collision(self, name: str, reading: _Reading, owners: Mapping[Secret, str]) -> str | None:
        """Say what a valid key has in common with another one that comes before it."""
        if name in self.rules.names:
            file = shown_path(os.path.join(self.path, name + ENDING))
            return f"{file}:1: edge_auth.keys has a key of this name"
        key, places = reading.key, reading.places
        assert key is not None, "there is no fault"
        for setting, digest in zip(("sha256", "previous.sha256"), digests_of(key), strict=False):
            if digest in owners:
                return places.locate(f"{setting}: the same key as in {owners[digest]}: keep only one")
        return None


def _is_same(one: NamedKeySettings | None, other: NamedKeySettings) -> bool:
    return one is other or one == other
