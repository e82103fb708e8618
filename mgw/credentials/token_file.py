"""An access token in a plain file, kept fresh by somebody else: a side-car or a projected volume."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from twisted.internet.interfaces import IReactorTime

from mgw.credentials.provider import ClientKey, Credential, CredentialRefusal
from mgw.credentials.recent_secrets import NOWHERE, RecentSecrets
from mgw.credentials.state import CredentialState, State
from mgw.errors import GatewayError, Reason
from mgw.secret import Secret, key_hash

CHECK_SECONDS: Final = 1.0
"""How long a token is used before the file is checked for changes."""

MAX_TOKEN_BYTES: Final = 64 * 1024


@dataclass(slots=True)
class TokenFile:
    """Read a token, again when the file has changed.

    ``key_hash`` is made of the file's path, so that it outlives a rotation (contract 3.14).

    :param provider: its name, for messages.
    :param path: of the file; white space around the token is ignored.
    :param recent: is told of each token.
    """

    provider: str
    path: str
    clock: IReactorTime
    recent: RecentSecrets = field(default=NOWHERE, repr=False)
    _file_id: tuple[int, int, int] | None = None
    _checked_at: float = float("-inf")
    _credential: Credential | None = field(default=None, repr=False)

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
        now = self.clock.seconds()
        if self._credential is None or now - self._checked_at >= CHECK_SECONDS:
            self._reload(now)
        assert self._credential is not None
        return self._credential

    async def refused(
        self,
        credential: Credential,
        refusal: CredentialRefusal,  # noqa: ARG002  the interface's
    ) -> Credential | None:
        """Return a newer token if the file holds one (contract 3.13)."""
        self._file_id = None
        try:
            self._reload(self.clock.seconds())
        except GatewayError:
            return None  # the client gets the upstream's own response
        assert self._credential is not None
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

    def _reload(self, now: float) -> None:
        try:
            with Path(self.path).open("rb") as file:
                stat = os.fstat(file.fileno())
                file_id = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
                if file_id != self._file_id or self._credential is None:
                    self._credential = self._read(file.read(MAX_TOKEN_BYTES + 1))
                    self._file_id = file_id
        except OSError as error:
            self._credential = None
            message = f"the token file of provider {self.provider!r} cannot be read: {error.strerror}"
            raise GatewayError(Reason.CREDENTIAL_SOURCE, message, code="credential_source_failed") from None
        self._checked_at = now

    def _read(self, content: bytes) -> Credential:
        token = content.strip()
        if not token or len(token) > MAX_TOKEN_BYTES or any(byte <= 0x20 or byte >= 0x7F for byte in token):
            self._credential = None
            message = f"the token file of provider {self.provider!r} does not contain exactly one token"
            raise GatewayError(Reason.CREDENTIAL_SOURCE, message, code="credential_source_failed")
        value = Secret(f"Bearer {token.decode('ascii')}")
        self.recent.note(value)
        return Credential(b"Authorization", value, key_hash(self.path))
