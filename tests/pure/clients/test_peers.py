"""Addresses of peers: which of them are one client's."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.clients.peers import MAX_HOPS, client_behind, network_of


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


PROXIES = (ip_network("10.0.0.0/8"), ip_network("2001:db8:1::/48"))
BEHIND = {
    "nothing is said": ("10.0.0.1", "", "10.0.0.1"),
    "a client": ("10.0.0.1", "192.0.2.1", "192.0.2.1"),
    "what the client says itself": ("10.0.0.1", "198.51.100.9, 192.0.2.1", "192.0.2.1"),
    "two proxies": ("10.0.0.1", "192.0.2.1,10.9.9.9", "192.0.2.1"),
    "one that is not trusted": ("192.0.2.9", "198.51.100.9", "192.0.2.9"),
    "one behind another that is not trusted": ("10.0.0.1", "198.51.100.9, 192.0.2.9", "192.0.2.9"),
    "no address": ("10.0.0.1", "192.0.2.1, unknown", "10.0.0.1"),
    "an empty one": ("10.0.0.1", "192.0.2.1, ", "10.0.0.1"),
    "a port": ("10.0.0.1", "192.0.2.1:4711", "192.0.2.1"),
    "IPv6": ("2001:db8:1::1", "2001:db8:2::1", "2001:db8:2::1"),
    "IPv6 with a port": ("2001:db8:1::1", "[2001:db8:2::1]:4711", "2001:db8:2::1"),
    "proxies alone": ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
    "more than are believed": ("10.0.0.1", ", ".join(["192.0.2.1", *["10.0.0.2"] * MAX_HOPS]), "10.0.0.2"),
    "a UNIX socket": ("", "192.0.2.1", ""),
}


@pytest.mark.parametrize(("peer", "forwarded", "client"), BEHIND.values(), ids=BEHIND)
def test_whom_a_trusted_proxy_names_is_the_client(peer: str, forwarded: str, client: str) -> None:
    assert client_behind(peer, forwarded, PROXIES) == client


def test_without_trusted_proxies_the_peer_is_the_client() -> None:
    assert client_behind("10.0.0.1", "192.0.2.1", ()) == "10.0.0.1"
