"""Addresses of peers: which of them are one client's."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.clients.peers import network_of


@given(
    st.integers(1, 2**64 - 1), st.integers(1, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)
)
def test_an_ipv6_client_is_its_prefix(prefix: int, other: int, rest: int, another: int) -> None:
    first = network_of(str(IPv6Address(prefix << 64 | rest)))
    assert first == network_of(f"{IPv6Address(prefix << 64 | another)}%eth0")
    assert (first == network_of(str(IPv6Address(other << 64 | rest)))) == (prefix == other)


@given(st.ip_addresses(v=4))
def test_an_ipv4_client_is_its_address_however_it_is_written(address: IPv4Address) -> None:
    assert network_of(str(address)) == str(address)
    assert network_of(f"::ffff:{address}") == str(address)


@pytest.mark.parametrize("peer", ["", "no address"])
def test_what_has_no_address_is_itself(peer: str) -> None:
    assert network_of(peer) == peer
