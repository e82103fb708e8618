"""An access token in a plain file that something else keeps fresh: a sidecar or a projected volume."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Final

from twisted.internet.interfaces import IReactorTime

from mgw.config.provider import Provider
from mgw.credentials.provider import ClientKey, Credential, CredentialRefusal
from mgw.credentials.recent_secrets import NOWHERE, RecentSecrets
from mgw.credentials.sources import CredentialSources
from mgw.credentials.state import CredentialState, State
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import Secret, key_hash
from mgw.reactor.daemon_threads import ThreadRunner
from mgw.reactor.regular_file import MAX_TOKEN_FILE, open_regular_file, read_up_to
from mgw.reactor.single_flight import SingleFlight

CHECK_SECONDS: Final = 1.0
"""How long a token is used before the file is checked for changes."""

FileId = tuple[int, int, int]


@dataclass(slots=True)
class TokenFile:
    """Read a token, again when the file has changed.

    ``key_hash`` is made of the file's path, so that it outlives a rotation (contract 3.14).

    :param provider: its name, for messages.
    :param path: of the file; white space around the token is ignored.
    :param run: reads it.
    :param recent: is told of each token.
    """

    signs: ClassVar[bool] = False
    provider: str
    path: str
    clock: IReactorTime
    run: ThreadRunner = field(repr=False)
    recent: RecentSecrets = field(default=NOWHERE, repr=False)
    _file_id: FileId | None = None
    _checked_at: float = float("-inf")
    _credential: Credential | None = field(default=None, repr=False)
    _flights: SingleFlight[str | None] = field(default_factory=SingleFlight, repr=False)

    def ready(
        self,
        client_key: ClientKey | None,  # noqa: ARG002  the interface's
        model: str | None = None,  # noqa: ARG002  the interface's
    ) -> Credential | None:
        """Return the token if the file was looked at a moment ago."""
        return self._credential if self.clock.seconds() - self._checked_at < CHECK_SECONDS else None

    async def obtain(
        self,
        client_key: ClientKey | None,  # noqa: ARG002  the interface's
        model: str | None = None,  # noqa: ARG002  the interface's
    ) -> Credential:
        """Return the token as the file has it now.

        :raises GatewayError: ``CREDENTIAL_SOURCE`` where the file is missing, unreadable or holds no token.
        """
        if self._credential is None or self.clock.seconds() - self._checked_at >= CHECK_SECONDS:
            problem = await self._flights.run("obtain", self._reload)
            if problem is not None:
                raise GatewayError(Reason.CREDENTIAL_SOURCE, problem, code="credential_source_failed")
        assert self._credential is not None
        return self._credential

    async def refused(
        self,
        credential: Credential,
        refusal: CredentialRefusal,  # noqa: ARG002  the interface's
    ) -> Credential | None:
        """Return a newer token if the file holds one (contract 3.13)."""
        self._file_id = None
        if await self._flights.run("refused", self._reload) is not None or self._credential is None:
            return None  # the client gets the upstream's own response
        return None if self._credential.value.matches(credential.value) else self._credential

    def refusable(self, status: int) -> bool:
        """A 401 may mean that the file holds a newer token."""
        return status == 401

    def close(self) -> None:
        """Nothing is held open."""

    def describe(self, wall: float) -> CredentialState:  # noqa: ARG002  others'
        """Say whether there was a token when the file was looked at last."""
        if self._credential is None:
            return CredentialState(State.UNKNOWN, key_hash(self.path))
        return CredentialState(State.READY, self._credential.key_hash)

    async def _reload(self) -> str | None:
        """Look at the file; return why there is no token."""
        known = None if self._credential is None else self._file_id
        try:
            self._file_id, content = await self.run(partial(_read_if_changed, self.path, known))
        except OSError as error:
            self._credential = None
            return f"the token file of provider {self.provider!r} cannot be read: {error.strerror}"
        self._checked_at = self.clock.seconds()
        if content is not None:
            self._credential = self._parse(content)
        if self._credential is None:
            return f"the token file of provider {self.provider!r} does not contain exactly one token"
        return None

    def _parse(self, content: bytes) -> Credential | None:
        token = content.strip()
        if not token or len(token) > MAX_TOKEN_FILE or any(byte <= 0x20 or byte >= 0x7F for byte in token):
            return None
        value = Secret(f"Bearer {token.decode('ascii')}")
        self.recent.note(value)
        return Credential(b"Authorization", value, key_hash(self.path))


def make_credentials(provider: Provider, sources: CredentialSources) -> TokenFile:
    """Return what reads a provider's token."""
    assert provider.token_file is not None
    return TokenFile(provider.name, provider.token_file, sources.clock, sources.run, sources.recent)


def _read_if_changed(path: str, known: FileId | None) -> tuple[FileId, bytes | None]:
    """Return, in a thread, what tells one state of a file from another, and its content if that is new."""
    with open_regular_file(path) as descriptor:
        found = os.fstat(descriptor)
        file_id = (found.st_mtime_ns, found.st_ino, found.st_size)
        return file_id, None if file_id == known else read_up_to(descriptor, MAX_TOKEN_FILE + 1)
