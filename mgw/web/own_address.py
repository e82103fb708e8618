"""The gateway's own address, as a client of it knows it (contract 4.23)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

from mgw.config.settings import Config
from mgw.wire.headers import RawHeaders, value_of

_PLAIN_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


def own_address(config: Config, headers: RawHeaders, peer: str, *, secure: bool) -> str | None:
    """Return the address without a slash at its end, or ``None`` where the client does not say it plainly.

    :param peer: the address that the request came from, which may be a proxy's.
    :param secure: whether it came over TLS.
    """
    if config.public_url is not None:
        return config.public_url
    host = value_of(headers, b"host")
    if host is None or _PLAIN_HOST.fullmatch(host) is None:
        return None
    if not secure and is_trusted(peer, config.trusted_proxies):
        said = value_of(headers, b"x-forwarded-proto") or b""
        secure = said.partition(b",")[0].strip().lower() == b"https"
    return f"{'https' if secure else 'http'}://{host.decode('ascii')}"


def is_trusted(peer: str, proxies: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Whether a peer is one of the proxies whose word counts."""
    if not proxies:
        return False
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:  # a UNIX socket has no address
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in proxies if network.version == address.version)
