"""The accounts of one store as this process knows them: read anew when they change, refreshed in time.

::

    tick ──► the file changed?   ── read it
             a token ends soon?  ── lock its entry ── read it again ── ask for tokens ── write it ── unlock
                                    (another process was faster: nothing is left to do)

Files and locks are used in a thread.  Refreshes of one entry meet in one flight within the process, and in
the entry's lock across processes, since a refresh token that is used twice may lock the account out.  A
refresh that has begun is finished even when nobody waits for it any more.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from twisted.internet.defer import CancelledError, Deferred, TimeoutError  # noqa: A004  Twisted's own name
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.config.profile import Profile
from mgw.config.secrets import secrets_in
from mgw.credentials.recent_secrets import NOWHERE, RecentSecrets
from mgw.credentials.subscription.store import (
    LOCK_SECONDS,
    CredentialStore,
    Entries,
    FileId,
    StoredCredential,
    StoreError,
)
from mgw.credentials.subscription.token_exchange import ProfileEndpoints
from mgw.credentials.token_request import TokenClient, TokenRequestError
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import Secret
from mgw.reactor.daemon_threads import ThreadRunner
from mgw.reactor.single_flight import SingleFlight

TICK_SECONDS: Final = 2.0
"""How soon a change of the store is noticed."""
LEAD_SECONDS: Final = 300.0
"""How long before its end a token is refreshed, at the latest a fifth of its life before."""
SPREAD: Final = 0.5
"""The part of that time by which a refresh may begin earlier, so that not all accounts begin at once."""
MARGIN_SECONDS: Final = 10.0
"""A token whose end is nearer than this, or than half of its life, is no longer sent."""
LOCK_TRY_SECONDS: Final = 0.25
"""The interval at which a lock that another process holds is tried: no thread waits for it."""
STOP_SECONDS: Final = 25.0
"""How long a stop waits: a refresh has its time limit, but a disk that stalls has none."""
FIRST_PAUSE_SECONDS: Final = 30.0
MAX_PAUSE_SECONDS: Final = 900.0
"""The longest pause between refreshes that fail; each is twice as long as the one before."""
_LOST_CODES: Final = frozenset({"invalid_grant", "access_denied", "expired_token"})

_log: Final = Logger()


@dataclass(frozen=True, slots=True, eq=False)
class Login:
    """An entry, and the profile by which it is refreshed."""

    name: str
    profile_name: str
    profile: Profile
    client: TokenClient = field(repr=False)
    """The client that sends requests to the profile's endpoints."""


class _Pause(Struct, frozen=True):
    """The pause after a refresh that failed."""

    until: float
    seconds: float
    token: Secret | None
    """The refresh token that was used; another one ends the pause."""


class _Unwritten(Struct, frozen=True):
    """An entry that was refreshed and could not be written: its tokens are nowhere else."""

    before: StoredCredential
    """The entry as the store has it, unless somebody has changed it since."""
    entry: StoredCredential

    def replaces(self, found: StoredCredential | None) -> bool:
        """Whether the entry is newer than what the store has: nobody has logged in or refreshed it since."""
        before = self.before
        return found is not None and (
            (found.profile, found.access_token, found.refresh_token)
            == (before.profile, before.access_token, before.refresh_token)
        )


@dataclass(slots=True, eq=False, repr=False)
class Accounts:
    """What the store says.

    :param wall: returns unix seconds.
    :param random: returns a number from 0 to 1.
    """

    store: CredentialStore
    clock: IReactorTime
    wall: Callable[[], float]
    run: ThreadRunner
    random: Callable[[], float]
    problem: str | None = None
    """Why the store cannot be used at present."""
    recent: RecentSecrets = NOWHERE
    """Is told of the tokens that others have put into the store."""
    failures: dict[str, int] = field(default_factory=dict)
    """How many requests for a new token have failed, by entry."""
    _entries: Entries = field(default_factory=dict)
    _unwritten: dict[str, _Unwritten] = field(default_factory=dict)
    _file_id: FileId | None = None
    _watched: Counter[Login] = field(default_factory=Counter)
    _due: dict[str, tuple[Secret, float]] = field(default_factory=dict)
    """The token of each entry, and when it is to be refreshed."""
    _pauses: dict[str, _Pause] = field(default_factory=dict)
    _flights: SingleFlight[StoredCredential] = field(default_factory=SingleFlight)
    _timer: IDelayedCall | None = None
    _ticking: bool = False
    _under_way: Counter[str] = field(default_factory=Counter)
    """The entries that are refreshed, or written anew, and how often at the same time."""
    _stopping: bool = False
    _idle: Deferred[None] | None = None

    def load(self) -> None:
        """Read the store at once, in this thread; where that fails, :attr:`problem` says why."""
        try:
            self._take(self._read())
        except StoreError as error:
            self._note_problem(str(error))

    async def load_in_thread(self) -> None:
        """Do the same in a thread."""
        try:
            self._take(await self.run(self._read))
        except (StoreError, OSError) as error:  # or the system gives no thread
            self._note_problem(str(error))

    async def read_token(self, name: str) -> Secret | None:
        """Read the store anew, and return an entry's token; ``None``: there is none, or it cannot be read."""
        try:
            self._take(await self.run(self._read))
        except (StoreError, OSError) as error:
            self._note_problem(str(error))
            return None
        found = self._entries.get(name)
        return None if found is None else found.access_token

    def watch(self, logins: Iterable[Login]) -> None:
        """Keep these entries fresh from now on."""
        self._watched.update(logins)
        self._tick_later()

    def unwatch(self, logins: Iterable[Login]) -> None:
        """Leave these entries to others."""
        self._watched.subtract(logins)
        self._watched = +self._watched
        if not self._watched and not self._unwritten and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def entry(self, login: Login) -> StoredCredential | None:
        """Return an entry, if it was got with the login's profile."""
        found = self._entries.get(login.name)
        return found if found is not None and found.profile == login.profile_name else None

    def fresh(self, login: Login) -> StoredCredential | None:
        """Return an entry whose token can be sent now."""
        found = self.entry(login)
        if found is None or found.expires_at is None:
            return found
        margin = min(MARGIN_SECONDS, _life_of(found) / 2)
        return None if found.expires_at - self.wall() <= margin else found

    def can_refresh(self, login: Login) -> bool:
        """Whether a refresh of an entry may succeed now."""
        found = self.entry(login)
        if found is None or not found.can_be_refreshed:
            return False
        pause = self._pauses.get(login.name)
        return pause is None or pause.until <= self.clock.seconds() or pause.token != found.refresh_token

    def secrets(self) -> list[Secret]:
        """Return every token, so that no log line holds one."""
        return secrets_in(self._entries)

    async def refresh(self, login: Login, refused: Secret | None = None) -> StoredCredential:
        """Return an entry with a token that is not ``refused``, and does not end soon.

        :raises GatewayError: ``CREDENTIAL_SOURCE``.
        """
        refresh = partial(self._refresh, login, refused)
        others = login.name in self._under_way
        entry = await self._flights.run(login.name, refresh)
        if others and entry.access_token == refused:  # theirs did not know that it was refused
            entry = await self._flights.run(login.name, refresh)
        return entry

    async def keep(self, name: str, entry: StoredCredential) -> None:
        """Put what a login gave into the store, in place of what is there; it is used from then on.

        Its tokens are nowhere else, so whoever is cancelled only leaves: the entry is written all the same.

        :raises StoreError: it cannot be written; or ``OSError``, as there is no thread.
        :raises GatewayError: another process does not let go of the entry.
        """
        await self._flights.run((name, entry.access_token), partial(self._keep, name, entry))

    async def stop(self) -> None:
        """Watch nothing any more, and return when the refreshes and writes that have begun are done.

        Who waits for another process to let go of an entry has not begun, and gives up.
        """
        self._stopping = True
        self._watched.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        with suppress(TimeoutError):
            await Deferred.fromCoroutine(self._finish()).addTimeout(STOP_SECONDS, self.clock)
        names = ", ".join(sorted({*self._under_way, *self._unwritten}))
        if names:
            _log.error("the new tokens of {names} could not be written and are lost", names=names)

    async def _finish(self) -> None:
        """Wait for the refreshes that have begun, and try once more to write what could not be written."""
        if self._under_way:
            self._idle = Deferred()
            await self._idle
        for name, unwritten in list(self._unwritten.items()):
            await self._write_again(name, unwritten)

    async def _refresh(self, login: Login, refused: Secret | None) -> StoredCredential:
        with self._counted(login.name):
            try:
                lock = await self._lock(login.name)
                try:
                    return await self._refresh_locked(login, refused)
                finally:
                    os.close(lock)
            except (StoreError, OSError) as error:  # or the system gives no thread
                self._note_problem(str(error))
                raise _source_error(str(error)) from None

    async def _keep(self, name: str, entry: StoredCredential) -> StoredCredential:
        with self._counted(name):
            lock = await self._lock(name)
            try:
                self._take(await self.run(partial(self._put, name, entry)))
            finally:
                os.close(lock)
            return entry

    @contextmanager
    def _counted(self, name: str) -> Iterator[None]:
        """Let :meth:`stop` wait for what is done with an entry."""
        self._under_way[name] += 1
        try:
            yield
        finally:
            self._under_way[name] -= 1
            self._under_way = +self._under_way
            idle = self._idle
            if idle is not None and not self._under_way:
                self._idle = None
                idle.callback(None)

    async def _lock(self, name: str) -> int:
        """Take the lock of an entry, which another process may have as long as it talks to the provider."""
        until = self.clock.seconds() + LOCK_SECONDS
        while (lock := await self.run(partial(self.store.try_lock, name))) is None:
            if self._stopping:
                raise _source_error("the gateway is stopping")
            if self.clock.seconds() >= until:
                raise _source_error(str(self.store.locked_by_another()))
            await deferLater(self.clock, LOCK_TRY_SECONDS)
        return lock

    async def _refresh_locked(self, login: Login, refused: Secret | None) -> StoredCredential:
        self._take(await self.run(self._read))
        entry = self.entry(login)
        if entry is None:
            raise _source_error(f"the credential store no longer has an entry {login.name!r}")
        is_refused = refused is not None and entry.access_token == refused
        if not is_refused and self.fresh(login) is not None and not self._is_due(login, entry):
            return entry  # another process has refreshed it, or somebody has logged in
        if is_refused and entry.is_new_after_refusal(self.wall()):
            return entry  # as another process may have found out
        if not self.can_refresh(login):
            message = f"credential {login.name!r} cannot be refreshed now: mgw auth status {login.name}"
            raise _source_error(message)
        try:
            endpoints = ProfileEndpoints(login.client, login.profile_name, login.profile)
            newer = await endpoints.refresh(entry, self.wall())
            newer = replace(newer, refused_before_at=self.wall() if is_refused else None)
        except TokenRequestError as error:
            await self._note_failure(login, entry, error)
            raise
        self._pauses.pop(login.name, None)
        await self._write(login.name, entry, newer)
        _log.info("credential {name} was refreshed", name=login.name)
        return newer

    async def _write(self, name: str, before: StoredCredential, entry: StoredCredential) -> None:
        """Put an entry into the store; where it cannot be written, it is kept until it can."""
        earlier = self._unwritten.get(name)
        unwritten = _Unwritten(before if earlier is None else earlier.before, entry)
        self._unwritten[name] = unwritten
        self._entries = {**self._entries, name: entry}
        await self._write_again(name, unwritten)

    async def _write_again(self, name: str, unwritten: _Unwritten) -> None:
        try:
            found = await self.run(partial(self._update, name, unwritten))
        except (StoreError, OSError) as error:
            self._note_problem(str(error))
            self._tick_later()
            return
        if self._unwritten.get(name) is unwritten:
            del self._unwritten[name]
        self._take(found)

    def _update(self, name: str, unwritten: _Unwritten) -> tuple[FileId | None, Entries]:
        is_gone = self.store.file_id() is None

        def change(entries: Entries) -> None:
            if is_gone or unwritten.replaces(entries.get(name)):
                entries[name] = unwritten.entry

        entries = self.store.update(change)
        return self.store.file_id(), entries

    async def _note_failure(self, login: Login, entry: StoredCredential, error: TokenRequestError) -> None:
        before = self._pauses.get(login.name)
        again = before is not None and before.token == entry.refresh_token
        seconds = (
            min(MAX_PAUSE_SECONDS, 2 * before.seconds)
            if again and before is not None
            else FIRST_PAUSE_SECONDS
        )
        until = self.clock.seconds() + seconds * (1 + SPREAD * self.random())
        self._pauses[login.name] = _Pause(until, seconds, entry.refresh_token)
        self.failures[login.name] = self.failures.get(login.name, 0) + 1
        lost = error.error_code in _LOST_CODES
        _log.warn("credential {name} was not refreshed: {reason}", name=login.name, reason=error.message)
        failed = replace(entry, last_error=error.message, last_error_at=self.wall(), is_lost=lost)
        await self._write(login.name, entry, failed)

    def _put(self, name: str, entry: StoredCredential) -> tuple[FileId | None, Entries]:
        _, entries = self.store.put(name, entry)
        return self.store.file_id(), entries

    def _read(self) -> tuple[FileId | None, Entries]:
        file_id = self.store.file_id()  # before: a change in between is noticed next time
        return file_id, self.store.read()

    def _take(self, found: tuple[FileId | None, Entries]) -> None:
        self._file_id, entries = found
        if self._file_id is not None:  # else nobody has changed it: it is not there
            self._unwritten = {
                name: unwritten
                for name, unwritten in self._unwritten.items()
                if unwritten.replaces(entries.get(name))
            }
        self.recent.note(entries)
        self._entries = {**entries, **{name: unwritten.entry for name, unwritten in self._unwritten.items()}}
        self.problem = None

    def _note_problem(self, problem: str) -> None:
        if problem != self.problem:
            _log.error("{problem}", problem=problem)
        self.problem = problem

    def _is_due(self, login: Login, entry: StoredCredential) -> bool:
        """Whether a token is near its end, or near enough for this account's share of chance."""
        if entry.expires_at is None or entry.refresh_token is None:
            return False
        known = self._due.get(login.name)
        if known is None or known[0] != entry.access_token:
            lead = min(LEAD_SECONDS, _life_of(entry) / 5)
            known = (entry.access_token, entry.expires_at - lead * (1 + SPREAD * self.random()))
            self._due[login.name] = known
        return self.wall() >= known[1]

    def _tick(self) -> None:
        self._timer, self._ticking = None, True
        _ = Deferred.fromCoroutine(self._look()).addBoth(self._on_looked)

    async def _look(self) -> None:
        try:
            file_id = await self.run(self.store.file_id)
            if file_id != self._file_id or self.problem is not None:
                self._take(await self.run(self._read))
            for name, unwritten in list(self._unwritten.items()):
                await self._write_again(name, unwritten)
        except (StoreError, OSError) as error:
            self._note_problem(str(error))
        for login in list(self._watched):
            due = self.entry(login)
            if due is not None and self._is_due(login, due) and self.can_refresh(login):
                _ = Deferred.fromCoroutine(self.refresh(login)).addErrback(_log_unless_expected)

    def _on_looked(self, result: object) -> None:
        self._ticking = False
        if isinstance(result, Failure):
            _log_unless_expected(result)
        self._tick_later()

    def _tick_later(self) -> None:
        """Look again in a while, if there is anything to look after."""
        if self._stopping or self._ticking or self._timer is not None:
            return
        if self._watched or self._unwritten:
            self._timer = self.clock.callLater(TICK_SECONDS, self._tick)


def _life_of(entry: StoredCredential) -> float:
    """Return for how many seconds an entry's token was good when it came."""
    assert entry.expires_at is not None, "the caller checked it"
    return max(0.0, entry.expires_at - (entry.refreshed_at or entry.created_at))


def _source_error(message: str) -> GatewayError:
    return GatewayError(Reason.CREDENTIAL_SOURCE, message, code="credential_source_failed")


def _log_unless_expected(failure: Failure) -> None:
    """Log a bug; what a refresh says of itself was logged, and stands in the store."""
    if not failure.check(GatewayError, CancelledError):
        _log.failure("subscription credentials cannot be refreshed", failure)
