"""Browser sessions: a signed random id in a cookie instead of a key.

An id is signed with a key that is derived from the one that the user signed in with: every process that has
that key takes the cookie, and with the key its sessions go.  Where the configuration holds no more than the
digest of a key, which is to open nothing, a random secret of the process takes its place: such a session ends
with the process.  The cookie names the key by the first digits of its digest, as events do.  Nothing is kept
of a session but its end, where a user signs out.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from mgw.nouns.secret import KEY_HASH_DIGITS

if TYPE_CHECKING:
    from mgw.dashboard.cookie_signer import CookieSigner

COOKIE: Final = b"mgw_dashboard"
SECURE_COOKIE: Final = b"__Host-" + COOKIE
"""The name under TLS: browsers take it with ``Secure`` from this very host alone (RFC 6265bis 4.1.3.2)."""
SECONDS: Final = 12 * 60 * 60
"""How long a session lasts."""
MAX_ENDED: Final = 10_000
"""How many ends of sessions are remembered; the oldest is forgotten then."""
_ID_BYTES: Final = 16
_SECRET_BYTES: Final = 32
_LONGEST: Final = 200
_MOST_COOKIES: Final = 8
"""How many cookies of our name are looked at: pages of other paths and ports may have set some."""
_PURPOSE: Final = b"mgw dashboard session"


@dataclass(slots=True, eq=False, repr=False)
class CookieSessions:
    """Who has signed in.

    :param wall: returns unix seconds.
    :param random: returns so many random bytes.
    """

    wall: Callable[[], float]
    random: Callable[[int], bytes]
    _secret: bytes = field(init=False)
    _keys: dict[str, tuple[bytes, bytes | None]] = field(default_factory=dict)
    """The digest of each key of the dashboard, and the key if it is known, by the digest's first digits."""
    _signers: dict[str, CookieSigner] = field(default_factory=dict)
    """The signers that somebody has needed, by the same digits."""
    _ended: dict[bytes, float] = field(default_factory=dict)
    """When what has been ended early would have ended anyway, by the id of the session."""

    def __post_init__(self) -> None:
        self._secret = self.random(_SECRET_BYTES)

    def use(self, keys: Mapping[bytes, bytes | None]) -> None:
        """Take the sessions of these keys, and of no others, from now on.

        :param keys: by their digests; ``None`` for those of which there is no more than that.
        """
        self._keys = {_name_of(digest): (digest, key) for digest, key in keys.items()}
        self._signers = {}

    def begin(self, digest: bytes) -> bytes:
        """Return the cookie of a new session, for whoever has the key of this digest."""
        name = _name_of(digest)
        session_id = self.random(_ID_BYTES).hex()
        return self._signer(name).sign(f"{name}-{session_id}")

    def end_of(self, header: bytes, cookie: bytes) -> float | None:
        """Return when the sessions will have ended that a ``Cookie`` header holds; ``None``: they have.

        :param cookie: the name of the cookie that counts.
        :return: unix seconds.
        """
        ends = [ends for session, ends in self._sessions_in(header, cookie) if session not in self._ended]
        return max(ends, default=None)

    def key_hash_of(self, header: bytes, cookie: bytes) -> str | None:
        """Return the first digits of the digest of the key that a browser has signed in with.

        ``None``: it has no session.  The parameters are those of :meth:`end_of`.
        """
        for session, _ in self._sessions_in(header, cookie):
            if session not in self._ended:
                return session.partition(b"-")[0].decode()
        return None

    def end(self, header: bytes, cookie: bytes) -> None:
        """End the sessions that a ``Cookie`` header holds; the parameters are those of :meth:`end_of`."""
        now = self.wall()
        for session, _ in self._sessions_in(header, cookie):
            if len(self._ended) >= MAX_ENDED:
                self._forget(now)
            self._ended[session] = now + SECONDS

    def _forget(self, now: float) -> None:
        """Make room: for what ended anyway, or else for the oldest."""
        self._ended = {session: at for session, at in self._ended.items() if at > now}
        while len(self._ended) >= MAX_ENDED:
            del self._ended[next(iter(self._ended))]

    def _sessions_in(self, header: bytes, cookie: bytes) -> list[tuple[bytes, float]]:
        """Return sessions, and when each ends."""
        found = [self._session_of(value) for value in cookie_values(header, cookie)]
        return [session for session in found if session is not None]

    def _session_of(self, cookie: bytes) -> tuple[bytes, float] | None:
        """Return the session that a cookie stands for and its end, if it is signed and not too old."""
        name = cookie.partition(b"-")[0].decode("latin-1")
        if name not in self._keys or len(cookie) > _LONGEST:
            return None
        return self._signer(name).session_of(cookie, SECONDS)

    def _signer(self, name: str) -> CookieSigner:
        signer = self._signers.get(name)
        if signer is None:
            from mgw.dashboard.cookie_signer import CookieSigner  # it has a cost, where nobody signs in

            digest, key = self._keys[name]
            signing_key = hmac.digest(key or self._secret, _PURPOSE + digest, sha256)
            signer = self._signers[name] = CookieSigner(signing_key, _PURPOSE, self.wall)
        return signer


def _name_of(digest: bytes) -> str:
    return digest.hex()[:KEY_HASH_DIGITS]


def cookie_name(*, secure: bool) -> bytes:
    """Return the name of the cookie.

    :param secure: whether the browser speaks TLS; the name of plain HTTP then counts for nothing, as a page
        of a neighbouring host could have set it.
    """
    return SECURE_COOKIE if secure else COOKIE


def set_cookie(name: bytes, value: bytes, seconds: int, *, secure: bool) -> tuple[bytes, bytes]:
    """Return the header that sets a cookie for the gateway's own pages.

    :param seconds: how long the browser keeps it; 0: it is removed.
    """
    rules = b"; Max-Age=%d; Path=/; HttpOnly; SameSite=Strict" % seconds
    return b"Set-Cookie", name + b"=" + value + rules + (b"; Secure" if secure else b"")


def cookie_values(header: bytes, cookie: bytes) -> list[bytes]:
    """Return the values of a cookie in a ``Cookie`` header, as far as they are looked at."""
    pairs = (pair.strip().partition(b"=") for pair in header.split(b";"))
    return [value for name, _, value in pairs if name == cookie][:_MOST_COOKIES]
