"""The parts of an address."""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

_PORTS: Final = {"http": 80, "https": 443}


class Address(Struct, frozen=True):
    """The parts of a base address."""

    scheme: str
    """``http`` or ``https``."""
    host: str
    """A name or an IP address, the latter without brackets."""
    port: int
    host_header: bytes
    """What ``Host`` says: the port only where it is not the scheme's own (RFC 9110 7.2)."""
    path: bytes
    """The path without a slash at its end; empty for an origin."""

    @property
    def secure(self) -> bool:
        """Whether TLS is spoken there."""
        return self.scheme == "https"

    @property
    def origin(self) -> str:
        """The address without its path, as it may be shown to people."""
        return f"{self.scheme}://{self.host_header.decode()}"


def address_of(base_url: str) -> Address:
    """Take ``base_url`` apart.

    :raises ValueError: for anything but an ``http`` or ``https`` address with a host, and no user.
    """
    parts = urlsplit(base_url)
    if parts.scheme not in _PORTS or not parts.hostname or parts.fragment or "@" in parts.netloc:
        raise ValueError(
            "an address must start with http:// or https:// and have a host, but no user or fragment"
        )
    own_port = _PORTS[parts.scheme]
    host = parts.hostname
    if not host.isascii():
        raise ValueError("a host name with non-ASCII letters must be written in its xn-- form")
    port = own_port if parts.port is None else parts.port
    ascii_host = f"[{host}]" if ":" in host else host
    header = ascii_host if port == own_port else f"{ascii_host}:{port}"
    return Address(parts.scheme, host, port, header.encode(), parts.path.rstrip("/").encode())


def path_below(base: Address, prefix: str, url: str) -> tuple[str, str] | None:
    """Return the path of ``url`` below a base address, and its query; ``None`` where it is not below that.

    :param prefix: what stands before the path of the base address.
    """
    try:
        parts = urlsplit(url)
        is_there = address_of(url).origin == base.origin
    except ValueError:
        return None
    above = prefix + base.path.decode("latin-1")
    if not is_there or not url.isascii() or not parts.path.startswith(above + "/"):
        return None
    return parts.path[len(above) :], parts.query


def shown_address(base_url: str, target: bytes) -> str:
    """Return the whole address of a call, as it may be shown to people.

    :param target: the path and the query, as the request line has them.
    """
    return base_url.removesuffix(base_path(base_url).decode()) + target.decode()


@lru_cache(maxsize=1024)  # as many as there are providers, at the most
def base_path(base_url: str) -> bytes:
    """Return the path of a base address, without a slash at its end."""
    return address_of(base_url).path
