"""Refresh tokens that rotate when used, each stored in its own file.

A token endpoint may answer with a new refresh token, and then the old one is spent: using it again locks the
account out.  So the newest is kept by what was configured, whatever else changes in a reload or after a
restart, and only one request at a time uses it, of whatever process.  The file is written before the access
token that came with it is used.  Files and locks are those of the store of subscription credentials.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, Final

import msgspec
from twisted.internet.defer import Deferred, DeferredLock, TimeoutError  # noqa: A004  Twisted's own name
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from mgw.credentials.subscription.accounts import LOCK_TRY_SECONDS, STOP_SECONDS
from mgw.credentials.subscription.store import LOCK_SECONDS, CredentialStore, StoredCredential, StoreError
from mgw.credentials.token_request import TokenRequestError, TokenResponse
from mgw.nouns.secret import Secret
from mgw.reactor.daemon_threads import ThreadRunner

RefreshRequest = Callable[[Secret], Coroutine[Deferred[Any], Any, TokenResponse]]
"""Sends a refresh token, and returns what comes for it."""

_ENTRY: Final = "token"
"""The name of the only entry of each file."""
_log = Logger()


@dataclass(slots=True, eq=False, repr=False)
class RefreshTokenFile:
    """The file of one refresh token.

    :param run: runs what blocks.
    :param wall: returns unix seconds.
    """

    store: CredentialStore
    run: ThreadRunner
    clock: IReactorTime
    wall: Callable[[], float]

    async def lock(self) -> int | None:
        """Return the descriptor of a lock that no other process has; ``None``: no file can be kept.

        :raises TokenRequestError: another process does not let go, or there is a file that cannot be locked.
        """
        until = self.clock.seconds() + LOCK_SECONDS
        try:
            while (lock := await self.run(partial(self.store.try_lock, _ENTRY))) is None:
                if self.clock.seconds() >= until:
                    raise TokenRequestError(str(self.store.locked_by_another()))
                await deferLater(self.clock, LOCK_TRY_SECONDS)
        except (StoreError, OSError) as error:
            if await self.run(self.store.file_id) is None:
                return None
            raise TokenRequestError(str(error)) from None
        return lock

    async def read(self) -> Secret | None:
        """Return the token in the file; ``None``: there is no file.

        :raises TokenRequestError: it cannot be read; the token that was configured is probably spent.
        """
        try:
            entries = await self.run(self.store.read)
        except (StoreError, OSError) as error:
            raise TokenRequestError(str(error)) from None
        found = entries.get(_ENTRY)
        return None if found is None else found.refresh_token

    async def write(self, response: TokenResponse, token: Secret) -> None:
        """Replace the file.

        :raises StoreError: it cannot be written; or ``OSError``, as there is no thread.
        """
        now = self.wall()
        entry = StoredCredential(
            profile="oauth2",
            access_token=response.access_token,
            refresh_token=token,
            expires_at=now + response.expires_in,
            created_at=now,
        )
        await self.run(partial(self.store.update, lambda entries: entries.update({_ENTRY: entry})))


@dataclass(slots=True, eq=False, repr=False)
class RotatingToken:
    """A refresh token, which one request at a time uses.

    :param file: where it is kept; ``None``: in memory alone.
    """

    current: Secret
    file: RefreshTokenFile | None = None
    turn: DeferredLock = field(default_factory=DeferredLock)
    _kept: Secret = field(init=False)
    """The newest refresh token in the file, or the configured one where there is no file."""
    _has_warned: bool = False

    def __post_init__(self) -> None:
        self._kept = self.current

    async def use(self, request: RefreshRequest, endpoint: str) -> TokenResponse:
        """Return what comes for the token, and use the new one from then on, if one came.

        :raises TokenRequestError: nothing comes, or the file of the token is unusable.
        """
        await self.turn.acquire()
        try:
            lock = None if self.file is None else await self.file.lock()
            try:
                return await self._use(request, endpoint, None if lock is None else self.file)
            finally:
                if lock is not None:
                    os.close(lock)
        finally:
            self.turn.release()

    async def _use(
        self, request: RefreshRequest, endpoint: str, file: RefreshTokenFile | None
    ) -> TokenResponse:
        found = None if file is None else await file.read()
        if found is not None and found != self._kept:
            self.current = self._kept = found
        response = await request(self.current)
        self.current = response.refresh_token or self.current
        if self.current != self._kept:
            await self._keep(response, endpoint, file)
        return response

    async def _keep(self, response: TokenResponse, endpoint: str, file: RefreshTokenFile | None) -> None:
        """Write the token down; where that fails, tell the operator, and try again next time."""
        reason = "there is no directory for it"
        if file is not None:
            try:
                await file.write(response, self.current)
            except (StoreError, OSError) as error:
                reason = str(error)
            else:
                self._kept = self.current
                return
        if not self._has_warned:
            self._has_warned = True
            _log.warn(
                "{endpoint} replaced the configured refresh token; the new one is in memory only ({reason}), "
                "so after a restart the configured one may be rejected",
                endpoint=endpoint,
                reason=reason,
            )


class RefreshTokens:
    """All refresh tokens that were ever configured, by endpoint, client and configured value.

    A few hundred bytes for each; an operator configures a handful in the life of a process.

    :param open_file: returns the file of a token by its name; ``None``: they are kept in memory alone.
    """

    def __init__(self, open_file: Callable[[str], RefreshTokenFile] | None = None) -> None:
        self._open_file = open_file
        self._tokens: dict[tuple[str, str | None, Secret], RotatingToken] = {}

    def of(self, token_url: str, client_id: str | None, configured: Secret) -> RotatingToken:
        """Return the token that stands for a configured one."""
        key = (token_url, client_id, configured)
        if key not in self._tokens:
            name = sha256(msgspec.json.encode([token_url, client_id, configured.reveal()])).hexdigest()[:32]
            file = None if self._open_file is None else self._open_file(name)
            self._tokens[key] = RotatingToken(configured, file)
        return self._tokens[key]

    def secrets(self) -> list[Secret]:
        """Return the tokens in use and those they replaced, for whoever hides them in logs."""
        known = [(token.current, configured) for (_, _, configured), token in self._tokens.items()]
        return [token for pair in known for token in pair]

    async def stop(self, clock: IReactorTime) -> None:
        """Let the requests that have begun come to their end: what they bring is to be written."""
        for token in self._tokens.values():
            try:
                await token.turn.acquire().addTimeout(STOP_SECONDS, clock)
            except TimeoutError:
                return
            token.turn.release()
