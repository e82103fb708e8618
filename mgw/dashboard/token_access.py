"""Access to the dashboard with tokens of identity providers.

A token opens it where ``dashboard.groups`` is set and its client is in one of these groups; no other token
does.  Who asks for it is found out anew each time, by the gate of the process, so a change of the issuer's
keys or of the configuration counts at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Protocol

from mgw.clients.known_tokens import KnownToken
from mgw.config.dashboard import tokens_open
from mgw.config.settings import Config
from mgw.dashboard.token_sessions import TokenSessions
from mgw.nouns.token_refusal import TokenRefusedError

NOT_ACCEPTED: Final = "; tokens are not accepted, as dashboard.groups has no group of edge_auth.jwt"


class TokenFinder(Protocol):
    """What checks the tokens of a configuration's issuers."""

    def find(self, value: bytes, digest: bytes) -> KnownToken | TokenRefusedError | None:
        """Return whose token a value is, or its refusal; ``None``: it is no token of a configured issuer.

        :param digest: the SHA-256 of the value.
        """
        ...

    def wait_for(self, refusal: TokenRefusedError) -> Awaitable[None] | None:
        """Return what to wait for before a token is looked at again; ``None``: that changes nothing."""
        ...


def _no_gate() -> TokenFinder | None:
    return None


def _count_nothing(_: TokenRefusedError) -> None:
    """Nobody wants to know."""


@dataclass(slots=True, eq=False, repr=False)
class TokenAccess:
    """The tokens that open the dashboard under the configuration of the moment.

    :param gate: returns what checks tokens; ``None``: there are no issuers.
    :param count: counts a request whose token is refused.
    """

    sessions: TokenSessions
    gate: Callable[[], TokenFinder | None] = _no_gate
    count: Callable[[TokenRefusedError], None] = _count_nothing
    may_open: bool = field(default=False, init=False)
    """Whether some token opens the dashboard."""
    _groups: frozenset[str] = field(default=frozenset(), init=False)

    def use(self, config: Config) -> None:
        """Keep the rules of this configuration from now on."""
        self.may_open = tokens_open(config.dashboard, config.edge_auth)
        self._groups = frozenset(config.dashboard.groups)

    def find(self, value: bytes) -> KnownToken | None:
        """Return a token that opens the dashboard."""
        found = self._look(value)
        if not isinstance(found, KnownToken) or self._groups.isdisjoint(found.client.groups):
            return None
        return found

    def refusal_of(self, value: bytes) -> TokenRefusedError | None:
        """Return why a token of a configured issuer opens nothing; ``None``: it is none, or is valid."""
        found = self._look(value)
        return found if isinstance(found, TokenRefusedError) else None

    async def wait(self, value: bytes) -> None:
        """Wait while the key of a token may be on its way, some seconds at most."""
        refusal, gate = self.refusal_of(value), self.gate()
        ready = None if refusal is None or gate is None else gate.wait_for(refusal)
        if ready is not None:
            await ready

    def session_end(self, cookies: bytes, name: bytes) -> float | None:
        """Return when the session of a browser ends, in Unix seconds; ``None``: it has none.

        :param name: of the cookie that counts.
        """
        if not self.may_open:
            return None
        ends = [
            min(session.ends, known.until)
            for session in self.sessions.sessions_in(cookies, name)
            if (known := self.find(session.token.reveal().encode("latin-1"))) is not None
        ]
        return max(ends, default=None)

    def _look(self, value: bytes) -> KnownToken | TokenRefusedError | None:
        gate = self.gate() if self.may_open else None
        return None if gate is None else gate.find(value, sha256(value).digest())
