"""Browser sessions of users who have signed in with a token of an identity provider.

The cookie is random and names nothing.  What it stands for is the token, which the process keeps: the gate
checks it again for each request, so a session ends with its token, with the key that has signed it, and with
the rule that has let it in.  Such sessions end with the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from msgspec import Struct

from mgw.dashboard.cookies import SECONDS, cookie_values
from mgw.nouns.secret import Secret

MAX_SESSIONS: Final = 1_000
"""How many sessions are kept; the one that was used least recently makes room."""
_ID_BYTES: Final = 16


class TokenSession(Struct, frozen=True, eq=False):
    """A session, which ends with its token, and after a time anyway."""

    token: Secret
    ends: float
    """Unix seconds."""


@dataclass(slots=True, eq=False, repr=False)
class TokenSessions:
    """Who has signed in with a token.

    :param wall: returns Unix seconds.
    :param random: returns so many random bytes.
    """

    wall: Callable[[], float]
    random: Callable[[int], bytes]
    _sessions: dict[bytes, TokenSession] = field(default_factory=dict)
    """By the digests of cookies: nobody can steer a digest, so the time of a search tells nothing of one."""

    def begin(self, token: Secret, until: float) -> bytes:
        """Return the cookie of a new session.

        :param until: when the token ends, in Unix seconds.
        """
        now = self.wall()
        self._sessions = {key: kept for key, kept in self._sessions.items() if kept.ends > now}
        if len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        cookie = self.random(_ID_BYTES).hex().encode()
        self._sessions[sha256(cookie).digest()] = TokenSession(token, min(until, now + SECONDS))
        return cookie

    def sessions_in(self, header: bytes, cookie: bytes) -> Iterator[TokenSession]:
        """Yield the sessions that a ``Cookie`` header holds.

        :param cookie: the name of the cookie that counts.
        """
        if not self._sessions:
            return
        now = self.wall()
        for value in cookie_values(header, cookie):
            digest = sha256(value).digest()
            session = self._sessions.pop(digest, None)
            if session is not None and session.ends > now:
                self._sessions[digest] = session  # the last one now
                yield session

    def end(self, header: bytes, cookie: bytes) -> None:
        """End the sessions that a ``Cookie`` header holds; the parameters as above."""
        for value in cookie_values(header, cookie):
            self._sessions.pop(sha256(value).digest(), None)
