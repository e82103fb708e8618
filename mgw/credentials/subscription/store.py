"""The file that keeps subscription credentials: for its owner alone, replaced whole, locked across processes.

Everything here blocks, if only for a moment: a gateway calls it in a thread.

A change takes a lock on a file beside the store, reads what is there, and writes a new file that then takes
the place of the old one.  So whoever reads without a lock sees the store before the change or after it, and
so does whoever comes after a crash.  A refresh takes a lock of its entry besides, which it holds while it
talks to the provider: a refresh token that is used twice may lock the account out.

Locks are ``flock(2)``: the kernel releases those of a process that dies.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from mgw.nouns.secret import Secret
from mgw.reactor.regular_file import open_regular_file, read_up_to

MAX_BYTES: Final = 16 * 1024 * 1024
LOCK_SECONDS: Final = 90.0
"""How long to wait for another process; a refresh gives up long before."""
_TRY_AGAIN_SECONDS: Final = 0.05
NEW_SECONDS: Final = 10.0
"""How long a token counts as new that was got because the one before was refused."""
_VERSION: Final = 1
_WIDER: Final = stat.S_IRWXG | stat.S_IRWXO


class StoreError(Exception):
    """The store cannot be used; the text says why and what to do."""


class StoredCredential(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One account, by what was got when somebody logged in to it."""

    profile: str
    """The profile of the login."""
    access_token: Secret
    refresh_token: Secret | None = None
    expires_at: float | None = None
    """The end of the access token in Unix seconds; ``None``: unknown, so it is used until it is refused."""
    account: str | None = None
    """The account's name as people know it."""
    scopes: tuple[str, ...] = ()
    details: dict[str, str] = {}
    """Other values that the profile keeps of a login, such as the account's id."""
    created_at: float
    """The time of the login in Unix seconds."""
    refreshed_at: float | None = None
    """Unix seconds at which the access token came, if not by the login."""
    refused_before_at: float | None = None
    """Unix seconds at which the access token came, if it came because the one before was refused."""
    last_error: str | None = None
    """Why the last refresh failed; never what a provider said of a token."""
    last_error_at: float | None = None
    is_lost: bool = False
    """Whether the provider refuses the refresh token, so that somebody has to log in again."""

    @property
    def can_be_refreshed(self) -> bool:
        """Whether there is a refresh token that the provider may accept."""
        return self.refresh_token is not None and not self.is_lost

    def is_new_after_refusal(self, now: float) -> bool:
        """Whether the token came a moment ago because the one before was refused: another would not help.

        :param now: unix seconds.
        """
        came = self.refused_before_at
        return came is not None and 0 <= now - came < NEW_SECONDS

    def is_usable(self, now: float) -> bool:
        """Whether there is a token to send, or may be one.

        :param now: unix seconds.
        """
        return self.expires_at is None or self.expires_at > now or self.can_be_refreshed


Entries = dict[str, StoredCredential]
FileId = tuple[int, int, int]
"""The facts of a file that change whenever it is replaced."""


class _Content(Struct):
    version: int
    entries: Entries


class CredentialStore:
    """The entries of one file."""

    def __init__(self, path: str | Path) -> None:
        self.path: Final = Path(path)

    def file_id(self) -> FileId | None:
        """Return what tells one state of the file from another; ``None``: there is none."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return (found.st_ino, found.st_mtime_ns, found.st_size)

    def read(self) -> Entries:
        """Return all entries; none where there is no file.

        :raises StoreError: others may read the file, or it is none of ours.
        """
        try:
            with open_regular_file(self.path, os.O_NOFOLLOW) as descriptor:
                self._check(os.fstat(descriptor), self.path, 0o600)
                self._check_directory()
                content = read_up_to(descriptor, MAX_BYTES + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._error(f"cannot be read: {error.strerror}") from None
        return self._parse(content)

    def update(self, change: Callable[[Entries], None]) -> Entries:
        """Change the entries and write them; return what they are now.

        :raises StoreError: as :meth:`read`, or it cannot be written, or another process does not let go.
        """
        with self.locked(None):
            entries = self.read()
            before = dict(entries)
            change(entries)
            if entries != before or not self.path.exists():
                self._write(entries)
            return entries

    def put(self, name: str, entry: StoredCredential) -> tuple[StoredCredential | None, Entries]:
        """Keep what a login gave; return the entry that was there, and what the entries are now.

        The caller has the entry's lock (:meth:`locked`), so that no refresh of the old one comes in between.

        :raises StoreError: as :meth:`update`.
        """
        before: list[StoredCredential | None] = []

        def change(entries: Entries) -> None:
            before.append(entries.get(name))
            entries[name] = entry

        entries = self.update(change)
        return before[0], entries

    @contextmanager
    def locked(self, name: str | None) -> Iterator[None]:
        """Keep every other process from changing an entry's tokens; without a name, from changing the file.

        :raises StoreError: another process has not let go for :data:`LOCK_SECONDS`.
        """
        lock = self.lock(name)
        try:
            yield
        finally:
            os.close(lock)

    def lock(self, name: str | None) -> int:
        """Take a lock as :meth:`locked` does, and return its descriptor: closing it lets go."""
        until = time.monotonic() + LOCK_SECONDS
        while (lock := self.try_lock(name)) is None:
            if time.monotonic() > until:
                raise self.locked_by_another()
            time.sleep(_TRY_AGAIN_SECONDS)
        return lock

    def try_lock(self, name: str | None) -> int | None:
        """Take a lock if nobody has it, and return its descriptor; ``None``: somebody has.

        :raises StoreError: there can be no lock.
        """
        self._make_directory()
        path = self.path.with_name(self.path.name + ("" if name is None else f".{name}") + ".lock")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise self._error(f"cannot be locked: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return None
            raise self._error(f"cannot be locked: {error.strerror}") from None
        return descriptor

    def locked_by_another(self) -> StoreError:
        """Return the error of a lock that somebody has had for :data:`LOCK_SECONDS`."""
        return self._error(f"cannot be locked: another process has kept its lock for {LOCK_SECONDS:g} s")

    def _write(self, entries: Entries) -> None:
        """Replace the file; a crash leaves the old one or the new one."""
        content = msgspec.json.format(
            msgspec.json.encode(_Content(_VERSION, entries), enc_hook=_reveal), indent=1
        )
        new = self.path.with_name(self.path.name + ".new")
        try:
            with suppress(FileNotFoundError):
                new.unlink()  # of a process that died; we have the lock
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(new, flags, 0o600), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self.path)
            directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise self._error(f"cannot be written: {error.strerror}") from None

    def _make_directory(self) -> None:
        """Make the directory, if there is none, for us alone."""
        directory = self.path.parent
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                directory.mkdir(mode=0o700)
        except OSError as error:
            raise self._error(f"its directory cannot be created: {error.strerror}") from None
        self._check_directory()

    def _check_directory(self) -> None:
        directory = self.path.parent
        try:
            self._check(directory.stat(), directory, 0o700)
        except OSError as error:
            raise self._error(f"its directory cannot be read: {error.strerror}") from None

    def _check(self, found: os.stat_result, path: Path, mode: int) -> None:
        """Refuse what others may read or replace, and what is another's."""
        what = "the directory of the credential store" if path != self.path else "the credential store"
        if found.st_uid != os.geteuid():
            raise StoreError(
                f"{what} {path} belongs to another user: run the command as the user of the gateway"
            )
        if found.st_mode & _WIDER:
            raise StoreError(f"{what} {path} is open to other users: chmod {mode:o} {path}")
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise StoreError(f"{what} {path} is not a regular file")

    def _parse(self, content: bytes) -> Entries:
        if len(content) > MAX_BYTES:
            raise self._error(f"has more than {MAX_BYTES} bytes")
        if not content:
            raise self._error("is empty: remove it, and log in again")
        try:
            found = msgspec.json.decode(content, type=_Content, dec_hook=_conceal)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self._error("is damaged, or was not written by mgw") from None
        if found.version != _VERSION:
            raise self._error(f"has version {found.version}; this program supports version {_VERSION}")
        return found.entries

    def _error(self, what: str) -> StoreError:
        return StoreError(f"the credential store {self.path} {what}")


def _reveal(value: object) -> str:
    assert isinstance(value, Secret), "the only type that needs a hook"
    return value.reveal()


def _conceal(kind: type, value: object) -> Any:  # Any: as msgspec declares its hooks
    assert kind is Secret, "the only type that needs a hook"
    if not isinstance(value, str):
        raise msgspec.ValidationError("a token is text")
    return Secret(value)
