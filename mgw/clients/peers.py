"""Who is at the other end of a connection, as far as its address says."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

_ONE_CLIENT: Final = 64
"""How long the prefix is that a client gets, who can use any address behind it (RFC 6177)."""


def is_trusted(peer: str, proxies: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Whether a peer is one of the proxies whose word counts."""
    if not proxies:
        return False
    address = _address(peer)
    if address is None:
        return False
    return any(address in network for network in proxies if network.version == address.version)


def is_loopback(peer: str) -> bool:
    """Whether a peer is on this machine; a UNIX socket has no address, and says nothing of that."""
    address = _address(peer)
    return address is not None and address.is_loopback


def network_of(peer: str) -> str:
    """Return what is likely one client's: an IPv4 address, or the first 64 bits of an IPv6 one."""
    address = _address(peer)
    if not isinstance(address, IPv6Address):
        return peer if address is None else str(address)
    return str(IPv6Network((int(address), _ONE_CLIENT), strict=False))


def _address(peer: str) -> IPv4Address | IPv6Address | None:
    """Return an address, an IPv4 one in IPv6's form as itself; ``None`` for what is none."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped
