"""Checks of ``Host`` and ``Origin``: whether a request comes from a page of the gateway itself.

Sources: RFC 9110 7.2 (Host), RFC 6454 7 (Origin), RFC 6761 6.3 (names below ``localhost``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from mgw.clients.peers import is_loopback, is_trusted
from mgw.config.settings import Config

_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,255}))(?::([0-9]{1,5}))?")
_ORIGIN: Final = re.compile(r"(https?)://(.+)")
_MAX_PORT: Final = 65535
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Host(Struct, frozen=True):
    """A host and a port, as a client names them."""

    name: str
    """The host's name in lower case, without brackets."""
    port: int | None
    """``None``: that of the scheme."""

    @property
    def is_loopback(self) -> bool:
        """Whether the name can mean nothing but this machine."""
        return self.name == "localhost" or self.name.endswith(".localhost") or is_loopback(self.name)


class Origin(Struct, frozen=True):
    """The origin of a page."""

    scheme: str
    name: str
    """The host's name in lower case, without brackets."""
    port: int

    def is_at(self, host: Host, *, secure: bool) -> bool:
        """Whether the page came from a host.

        :param secure: whether it is served over TLS, as far as we know; a proxy may add it.
        """
        port = _DEFAULT_PORTS[self.scheme] if host.port is None else host.port
        return (self.name, self.port) == (host.name, port) and (self.scheme == "https" or not secure)


def parse_host(text: str) -> Host | None:
    """Read a ``Host``; ``None`` where it is not plainly one."""
    match = _HOST.fullmatch(text)
    if match is None:
        return None
    port = None if match[3] is None else int(match[3])
    if port is not None and port > _MAX_PORT:
        return None
    return Host((match[1] or match[2]).lower(), port)


def parse_origin(text: str) -> Origin | None:
    """Read an ``Origin``; ``None`` for one that is opaque (``null``) or of another scheme."""
    match = _ORIGIN.fullmatch(text)
    host = None if match is None else parse_host(match[2])
    if match is None or host is None:
        return None
    return Origin(match[1], host.name, _DEFAULT_PORTS[match[1]] if host.port is None else host.port)


class OwnPages(Struct, frozen=True):
    """The address under which browsers reach the gateway's pages, as far as the configuration states it."""

    public_url: str | None
    public: Origin | None
    """The origin of that."""
    trusted_proxies: Sequence[IPv4Network | IPv6Network]

    @classmethod
    def of(cls, config: Config) -> OwnPages:
        """Return what a configuration states."""
        url = urlsplit(config.public_url or "")
        return cls(config.public_url, parse_origin(f"{url.scheme}://{url.netloc}"), config.trusted_proxies)

    def are_secure(self, peer: str, forwarded_proto: bytes | None, *, tls: bool) -> bool:
        """Whether the browser uses TLS, be it with a proxy in front of the gateway.

        :param peer: the address that the connection came from; empty for a UNIX socket.
        :param forwarded_proto: ``X-Forwarded-Proto``.
        :param tls: whether the connection to the gateway itself uses TLS.
        """
        if tls:
            return True
        if self.public_url is not None:
            return self.public_url.startswith("https:")
        said = (forwarded_proto or b"").partition(b",")[0].strip().lower()
        return said == b"https" and is_trusted(peer, self.trusted_proxies)

    def include(self, origin: str, host: str | None, *, tls: bool) -> bool:
        """Whether an origin is that of the gateway's own pages, as the client or the operator names it.

        :param host: the ``Host`` of the request.
        """
        stated = parse_origin(origin)
        if stated is None:
            return False
        at = None if host is None else parse_host(host)
        return stated == self.public or (at is not None and stated.is_at(at, secure=tls))
