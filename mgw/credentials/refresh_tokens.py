"""Refresh tokens that change when they are used, kept for as long as the process lives.

A token endpoint may answer with a new refresh token, and then the old one is spent: using it again locks the
account out.  So the newest is kept by what was configured, whatever else changes in a reload, and only one
request at a time uses it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from mgw.secret import Secret

_log = Logger()


@dataclass(slots=True, eq=False)
class RotatingToken:
    """A refresh token, and its turn: who holds ``turn`` may use it."""

    current: Secret
    turn: DeferredLock = field(default_factory=DeferredLock, repr=False)
    _rotated: bool = False

    def replace(self, new: Secret, endpoint: str) -> None:
        """Use another from now on; the first time, tell the operator that it is not written down."""
        if new == self.current:
            return
        self.current = new
        if not self._rotated:
            self._rotated = True
            _log.warn(
                "{endpoint} replaced the configured refresh token; the new one is in memory only, so after a "
                "restart the configured one may be refused: use a client whose refresh tokens do not change",
                endpoint=endpoint,
            )


class RefreshTokens:
    """All refresh tokens that were ever configured, by endpoint, client and configured value.

    A few hundred bytes for each; an operator configures a handful in the life of a process.
    """

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, str | None, Secret], RotatingToken] = {}

    def of(self, token_url: str, client_id: str | None, configured: Secret) -> RotatingToken:
        """Return the token that stands for a configured one."""
        return self._tokens.setdefault((token_url, client_id, configured), RotatingToken(configured))

    def secrets(self) -> list[Secret]:
        """Return the tokens in use, for whoever hides them in logs."""
        return [token.current for token in self._tokens.values()]
