"""The address of an HTTP proxy, which may hold a password: read once, and never shown (contract 2.20).

Sources: RFC 3986 3.2.1 (user information), RFC 7617 2 (what a user name and a password may hold).
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Final
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from msgspec import Struct

from mgw.config.checks import checked_host, is_placeholder
from mgw.nouns.secret import Secret

_BLANK: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")
_ADDRESS: Final = re.compile("https?://", re.IGNORECASE)
_USER: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})+")
_FORM: Final = "expected http://host:port or http://user:password@host:port (https:// to a proxy with TLS)"
_ENCODED: Final = "in user and password, percent-encode everything but letters, digits and -._~"


class ProxyAddress(Struct, frozen=True):
    """Where a proxy is, and who we are to it."""

    secure: bool
    """Whether TLS is spoken with the proxy itself."""
    host: str
    """A name or an IP address, the latter without brackets."""
    port: int
    authorization: Secret | None = None
    """What ``Proxy-Authorization`` says."""
    password: Secret | None = None
    """The password, which is hidden wherever it is repeated."""

    def __repr__(self) -> str:  # whoever mixes up the order writes a password as the host
        return "ProxyAddress(…)"

    @property
    def name(self) -> str:
        """Host and port as the log may show them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_proxy(text: str) -> ProxyAddress:
    """Read the address of a proxy.

    :raises ValueError: with a sentence that quotes nothing of it.
    """
    if is_placeholder(text):
        raise ValueError(
            "a placeholder, and placeholders are not filled in: to read the address from the environment, "
            "name its variable in proxy_env"
        )
    if not _ADDRESS.match(text):
        raise ValueError(_FORM)
    if not text.isascii() or _BLANK.search(text):
        raise ValueError(f"{_FORM}; {_ENCODED}")
    try:
        parts = urlsplit(text)
    except ValueError:
        raise ValueError(_FORM) from None
    user, at, place = parts.netloc.rpartition("@")
    if parts.path not in ("", "/") or "?" in text or "#" in text or (at and not _USER.fullmatch(user)):
        raise ValueError(f"{_FORM}; {_ENCODED}")
    host, port = _host_and_port(parts._replace(netloc=place))
    authorization, password = _authorization(user) if at else (None, None)
    return ProxyAddress(parts.scheme == "https", host, port, authorization, password)


def _host_and_port(parts: SplitResult) -> tuple[str, int]:
    try:
        port = parts.port
    except ValueError:
        port = None
    if not port:
        raise ValueError(f"{_FORM}, with a port from 1 to 65535")
    return checked_host(parts).removeprefix("[").removesuffix("]"), port


def _authorization(user_and_password: str) -> tuple[Secret, Secret | None]:
    user, password = map(unquote_to_bytes, user_and_password.partition(":")[::2])
    if not user:
        raise ValueError(f"{_FORM}, with a user name before the password")
    if b":" in user:
        raise ValueError("the user name contains a colon, which HTTP cannot send (RFC 7617)")
    if any(byte < 0x20 or byte == 0x7F for byte in user + password):
        raise ValueError("the user name or the password contains control characters, which HTTP cannot send")
    if is_placeholder(password.decode("latin-1")):
        raise ValueError(
            "the password is a placeholder, and placeholders are not filled in: put the whole address into "
            "an environment variable, and name that in proxy_env"
        )
    basic = b64encode(user + b":" + password).decode("ascii")
    return Secret(f"Basic {basic}"), Secret(password.decode("utf-8", "replace")) if password else None
