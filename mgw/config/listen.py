"""Listening addresses, and trusted machines in front of the gateway (contract 2.4 and 4.23)."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.config.quoting import quote

ENDPOINT_TYPES: Final = frozenset({"tcp", "tcp6", "ssl", "tls", "unix", "systemd", "haproxy"})
"""First words of a Twisted server endpoint string that make a listener; a test asks Twisted for them."""

_NOT_ENDPOINTS: Final = MappingProxyType(
    {
        "fd": "Twisted has no endpoint type fd: for a systemd socket, write systemd:domain=INET:index=0",
        "stdio": "stdio cannot be listened on",
        "unix": "expected unix:/path/of/the/socket",
    }
)
_BINDS_LOCALLY: Final = re.compile(r"(?:^|:)unix:")
_INTERFACE: Final = re.compile(r"(?:^|:)interface=((?:\\.|[^:\\])*)")
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_FORMS: Final = 'expected "host:port", ":port", "[address]:port" or a Twisted endpoint string'
MAX_PORT: Final = 65535


class Listen(Struct, frozen=True):
    """A TCP listener."""

    host: str
    """A host name or address without brackets; empty: all interfaces."""
    port: int
    """0: any free port."""

    @property
    def beyond_loopback(self) -> bool:
        """Whether other machines may reach it."""
        return not _is_loopback(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class EndpointText(Struct, frozen=True):
    """A Twisted server endpoint string, to be read by ``serverFromString``."""

    text: str

    @property
    def brings_tls(self) -> bool:
        """Whether the endpoint itself speaks TLS."""
        return self.text.partition(":")[0] in ("ssl", "tls")

    @property
    def may_bring_tls(self) -> bool:
        """Whether the endpoint, or one within it, as in ``haproxy:tls:…``, speaks TLS."""
        return not {"ssl", "tls"}.isdisjoint(self.text.split(":"))

    @property
    def beyond_loopback(self) -> bool:
        """Whether other machines may reach it; a socket that somebody else opened counts as such."""
        if _BINDS_LOCALLY.search(self.text):
            return False
        interface = _INTERFACE.search(self.text)
        return interface is None or not _is_loopback(interface[1].replace("\\", ""))

    def __str__(self) -> str:
        return self.text


DEFAULT_LISTEN: Final = Listen("127.0.0.1", 8787)


def parse_listen(text: str) -> Listen | EndpointText:
    """Read one of the forms of ``listen``.

    :raises ValueError: with what was expected and what was found.
    """
    if not text.isprintable() or text != text.strip():
        raise ValueError(f"{_FORMS}, found spaces or control characters")
    first, colon, rest = text.partition(":")
    if colon and rest and rest == rest.strip() and first in ENDPOINT_TYPES:
        return EndpointText(text)
    if first in _NOT_ENDPOINTS:
        raise ValueError(_NOT_ENDPOINTS[first])
    host, colon, port = text.rpartition(":")
    if "://" in text:
        raise ValueError(f"{_FORMS}, found an address with a scheme: leave out everything up to ://")
    if not colon:
        raise ValueError(f"{_FORMS}, found {quote(text)}{_completed(text)}")
    return Listen(_host(host), _port(port))


def _completed(text: str) -> str:
    """Say how to write a port or a host that stands alone."""
    if text.isdecimal():
        return f'; for this port on loopback write "127.0.0.1:{text}"'
    return f'; for the usual port write "{text}:{DEFAULT_LISTEN.port}"' if _is_address(text) else ""


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= MAX_PORT):
        raise ValueError(f"expected a port from 0 to {MAX_PORT}, found {quote(text)}")
    return int(text)


def _host(text: str) -> str:
    bracketed = text.startswith("[") and text.endswith("]")
    host = text[1:-1] if bracketed else text
    if bracketed or host.replace(".", "").isdecimal():
        if _is_address(host) and bracketed == (":" in host):
            return host
        raise ValueError(f"expected an IP address, found {quote(text)}")
    if _is_address(host):
        raise ValueError(f'an IPv6 address needs brackets: "[::1]:8787", found {quote(text)}')
    if host == "*":
        raise ValueError('for all interfaces, write ":port" without the *')
    if host and not _HOST.fullmatch(host):
        raise ValueError(f"expected a host name or an IP address, found {quote(text)}")
    return host


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


_NETWORK: Final = re.compile(r"[0-9A-Fa-f:.]+(?:/[0-9]{1,3})?")
"""No zones (``%eth0``), and no masks, which mean two things."""
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
"""IPv4 addresses as a socket of both versions sees them (RFC 4291 2.5.5.2)."""
_NETWORK_FORMS: Final = 'expected an IP address or a network such as "10.0.0.0/8" or "fd00::/8"'


def parse_network(text: str) -> IPv4Network | IPv6Network:
    """Read an address or a network in CIDR notation; an IPv4 network in IPv6's form becomes a plain one.

    :raises ValueError: with what was expected and what was found.
    """
    if not _NETWORK.fullmatch(text):
        raise ValueError(f"{_NETWORK_FORMS}, found {quote(text)}")
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{_NETWORK_FORMS}, found {quote(text)}") from None
    address = text.partition("/")[0]
    if ip_network(address).network_address != network.network_address:
        raise ValueError(f"expected {network}, found {text}, which has bits set outside its prefix")
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        bits = int(network.network_address) & 0xFFFFFFFF
        return IPv4Network((bits, network.prefixlen - _MAPPED.prefixlen))
    return network
