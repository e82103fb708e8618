"""The signature of a cookie and its time.

It is a module of its own since the package that it needs has a cost at the start, where nobody may sign in.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from itsdangerous import BadSignature, TimestampSigner


class CookieSigner(TimestampSigner):
    """Signs with a time that comes from outside."""

    def __init__(self, key: bytes, purpose: bytes, wall: Callable[[], float]) -> None:
        super().__init__(key, salt=purpose, key_derivation="hmac", digest_method=sha256)
        self._wall = wall

    def get_timestamp(self) -> int:
        """Return the time, in seconds."""
        return int(self._wall())

    def session_of(self, cookie: bytes, seconds: int) -> tuple[bytes, float] | None:
        """Return the session that a cookie stands for and its end, if it is signed and not older than that.

        :return: the end in unix seconds; the last second of a session is a whole one.
        """
        try:
            session, begin = self.unsign(cookie, max_age=seconds, return_timestamp=True)
        except BadSignature:
            return None
        return session, begin.timestamp() + seconds + 1
