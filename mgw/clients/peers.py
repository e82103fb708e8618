"""The peer of a connection, as far as its address identifies it."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

MAX_HOPS: Final = 16
"""How many proxies in a row are believed."""
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


def client_behind(peer: str, forwarded: str, proxies: Sequence[IPv4Network | IPv6Network]) -> str:
    """Return the address of a client: of the peer, or of whom trusted proxies say that they speak for.

    Each proxy has added whom it heard to the end, so only what a trusted one added counts.

    :param forwarded: ``X-Forwarded-For``.
    """
    client = peer
    for stated in reversed(forwarded.split(",")[-MAX_HOPS:]):
        address = _without_port(stated.strip())
        if not is_trusted(client, proxies) or _address(address) is None:
            break
        client = address
    return client


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


def _without_port(stated: str) -> str:
    """Return an address alone; some proxies add the port, and IPv6 then stands in brackets."""
    if stated.startswith("["):
        return stated[1:].partition("]")[0]
    address, colon, _ = stated.partition(":")
    return address if colon and stated.count(":") == 1 else stated


def _address(peer: str) -> IPv4Address | IPv6Address | None:
    """Return an address, an IPv4 one in IPv6's form as itself; ``None`` for what is none."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped
