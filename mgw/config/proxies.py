"""Which machines stand before the gateway: one entry of ``trusted_proxies`` (contract 4.23)."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from mgw.config.quoting import shown

_FORM: Final = re.compile(r"[0-9A-Fa-f:.]+(?:/[0-9]{1,3})?")
"""No zones (``%eth0``), and no masks, which mean two things."""
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
"""IPv4 addresses as a socket of both versions sees them (RFC 4291 2.5.5.2)."""
_FORMS: Final = 'expected an IP address or a network such as "10.0.0.0/8" or "fd00::/8"'


def parse_network(text: str) -> IPv4Network | IPv6Network:
    """Read an address or a network in CIDR notation; an IPv4 network in IPv6's form becomes a plain one.

    :raises ValueError: with what was expected and what was found.
    """
    if not _FORM.fullmatch(text):
        raise ValueError(f"{_FORMS}, found {shown(text)}")
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{_FORMS}, found {shown(text)}") from None
    address = text.partition("/")[0]
    if ip_network(address).network_address != network.network_address:
        raise ValueError(f"expected {network}, found {text}, which has bits set outside its prefix")
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        bits = int(network.network_address) & 0xFFFFFFFF
        return IPv4Network((bits, network.prefixlen - _MAPPED.prefixlen))
    return network
