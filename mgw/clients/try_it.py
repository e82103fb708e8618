"""The dashboard's page "Try it": where it is offered, and the token with which it sends requests.

A browser that has signed in with a gateway key holds a session in a cookie, and the key itself nowhere: the
page has no key to send.  Before each request it gets a cookie with a token that stands for the key for a
minute.  The token is an HMAC, keyed from the gateway key itself: so all workers and hosts agree on it, it
needs no state, and it ends with the key.  Where the configuration holds no more than the digest of a key,
which is to open nothing, there is no token, and the page asks for the key.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from msgspec import Struct

from mgw.config.settings import Config
from mgw.nouns.secret import KEY_HASH_DIGITS, Secret

COOKIE: Final = b"mgw_try_it"
SECURE_COOKIE: Final = b"__Host-" + COOKIE
"""The name under TLS, as that of the cookie of the session."""
SECONDS: Final = 60
"""How long a token is valid: it is made right before the request."""
MAX_TOKENS: Final = 8
"""How many cookies of the name are looked at: pages of other ports may have set some."""
_TOKEN: Final = re.compile(rb"([0-9a-f]{%d})-([0-9]{1,12})-([0-9a-f]{64})" % KEY_HASH_DIGITS)
_PURPOSE: Final = b"mgw try it"


class Token(Struct, frozen=True):
    """What a token states; whether that is true, :meth:`is_of` says."""

    key_hash: str
    """The first digits of the digest of a gateway key."""
    expires: int
    """Unix seconds."""
    _mac: str

    def is_of(self, key: bytes, now: float) -> bool:
        """Whether it was made for this key, and is valid; compared in constant time."""
        mac = _mac_of(key, self.key_hash, self.expires)
        return hmac.compare_digest(mac, self._mac) and now < self.expires

    def __repr__(self) -> str:
        return f"Token({self.key_hash!r}, {self.expires})"


def is_try_it_offered(config: Config, *, is_api_denied: bool) -> bool:
    """Whether the dashboard has the page, and requests with its cookie are accepted.

    :param is_api_denied: whether the configuration denies the routes of the dashboard's API.
    """
    dashboard = config.dashboard
    if not dashboard.is_served or is_api_denied:
        return False
    if dashboard.try_it is not None:
        return dashboard.try_it
    return config.edge_auth.enabled or not config.listen.beyond_loopback


def make_token(key: bytes, now: float) -> bytes:
    """Return a token that stands for a key.

    :param now: unix seconds.
    """
    key_hash, expires = key_hash_of(key), int(now) + SECONDS
    return f"{key_hash}-{expires}-{_mac_of(key, key_hash, expires)}".encode()


def key_hash_of(key: bytes) -> str:
    """Return the first digits of the digest of a key, by which tokens, sessions and events name it."""
    return sha256(key).hexdigest()[:KEY_HASH_DIGITS]


def raw_key(key: Secret) -> bytes:
    """Return a key as clients send it."""
    return key.reveal().encode("latin-1")


def parse_token(value: bytes) -> Token | None:
    """Read a token; ``None`` for anything else."""
    match = _TOKEN.fullmatch(value)
    if match is None:
        return None
    key_hash, expires, mac = match.groups()
    return Token(key_hash.decode(), int(expires), mac.decode())


def tokens_in(header: bytes, cookie: bytes) -> Iterator[Token]:
    """Find the tokens of a ``Cookie`` header.

    :param cookie: the name of the cookie that counts.
    """
    pairs = (pair.strip().partition(b"=") for pair in header.split(b";"))
    values = [value for name, _, value in pairs if name == cookie]
    return (token for token in map(parse_token, values[:MAX_TOKENS]) if token is not None)


def try_it_cookie(*, secure: bool) -> bytes:
    """Return the name of the cookie.

    :param secure: whether the browser uses TLS.
    """
    return SECURE_COOKIE if secure else COOKIE


def _mac_of(key: bytes, key_hash: str, expires: int) -> str:
    derived = hmac.digest(key, _PURPOSE, "sha256")
    return hmac.new(derived, f"{key_hash}\n{expires}".encode(), sha256).hexdigest()
