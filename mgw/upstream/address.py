"""Where a provider is: its base address, taken apart once."""

from __future__ import annotations

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
    """Without a slash at its end; empty for an origin."""

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
