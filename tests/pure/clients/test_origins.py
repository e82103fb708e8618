"""What ``Host`` and ``Origin`` say: the laws of both, and what is neither."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mgw.clients.origins import Host, Origin, parse_host, parse_origin

LABELS = st.text("abcxyz019-_", min_size=1, max_size=12)
DOMAINS = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
ADDRESSES = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
    st.sampled_from(["127.0.0.1", "::1", "::ffff:127.0.0.1", "localhost", "a.localhost"]),
)
NAMES = st.one_of(DOMAINS, ADDRESSES)
PORTS = st.one_of(st.none(), st.integers(0, 65535))
SCHEMES = st.sampled_from(["http", "https"])


def written(name: str, port: int | None) -> str:
    bracketed = f"[{name}]" if ":" in name else name
    return bracketed if port is None else f"{bracketed}:{port}"


@given(NAMES, PORTS)
def test_a_host_is_read_as_it_was_written_in_any_case(name: str, port: int | None) -> None:
    assert parse_host(written(name, port)) == Host(name, port)
    assert parse_host(written(name.upper(), port)) == Host(name, port)


@given(NAMES, PORTS, SCHEMES)
def test_a_page_belongs_to_the_host_that_it_came_from(name: str, port: int | None, scheme: str) -> None:
    host, origin = parse_host(written(name, port)), parse_origin(f"{scheme}://{written(name, port)}")
    assert host is not None
    assert origin is not None
    assert origin.is_at(host, secure=scheme == "https")
    assert not origin.is_at(host, secure=True) or scheme == "https"


@given(NAMES, PORTS, NAMES, PORTS, SCHEMES, SCHEMES)
@example("a.example", 8787, "a.example", 3000, "http", "http")
@example("a.example", None, "a.example", 443, "http", "http")
@example("a.example", 80, "a.example.", 80, "http", "http")
def test_a_page_of_another_host_or_port_does_not(
    name: str, port: int | None, other: str, other_port: int | None, scheme: str, served: str
) -> None:
    usual = 80 if scheme == "http" else 443
    host, origin = Host(name, port), Origin(scheme, other, usual if other_port is None else other_port)
    same = (name, usual if port is None else port) == (other, usual if other_port is None else other_port)
    secure = served == "https"
    assert origin.is_at(host, secure=secure) == (same and not (secure and scheme == "http"))


@given(st.one_of(st.text(), st.text("htps:/[]@.%#?,; lo0:", max_size=24)))
def test_what_is_read_at_all_means_nothing_else_to_a_browser(text: str) -> None:
    host = parse_host(text)
    if host is not None:
        name, port = text.lower(), None
        if host.port is not None:
            name, _, digits = name.rpartition(":")
            port = int(digits)
        assert (host.name, host.port) == (name.strip("[]"), port)
        assert not set(host.name) & set("/@#?,;%\\ \t[]")
    origin = parse_origin(text)
    if origin is not None:
        assert parse_host(text.partition("://")[2]) is not None


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
@example(IPv6Address("::ffff:127.0.0.1"))
@example(IPv6Address("::ffff:192.0.2.1"))
@example(IPv4Address("0.0.0.0"))
def test_an_address_is_this_machine_where_it_is_loopback(address: IPv4Address | IPv6Address) -> None:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    host = parse_host(written(str(address), None))
    assert host is not None
    assert host.is_loopback == (mapped or address).is_loopback


@given(DOMAINS.filter(lambda name: name.rpartition(".")[2] != "localhost"))
@example("localhost.evil.example")
@example("127.0.0.1.evil.example")
@example("notlocalhost")
@example("127.1")
@example("0x7f.0.0.1")
@example("2130706433")
@example("localhost.")
def test_no_other_name_is_this_machine(name: str) -> None:
    host = parse_host(name)
    assert host is not None
    try:
        expected = IPv4Address(name).is_loopback
    except ValueError:
        expected = False
    assert host.is_loopback == expected


NO_HOSTS = ["", "::1", "a b", "a,b", "a@b", "a/b", "localhost:", "a:65536", "a:99999", "[::1%25lo]", "a:0x50"]
NO_ORIGINS = [
    *("", "null", "file://", "http://", "localhost", "//a.example", "HTTP://a.example", "ws://a.example"),
    *("http://a.example/", "http://a.example/x", "http://a.example?x", "http://u@a.example", "http://a b"),
    *("http://a.example:65536", "http://a.example, http://b.example", "http://a.example http://b.example"),
    *("http://a.example\n", "chrome-extension://abc", "http://[::1", "blob:http://a.example"),
]


@pytest.mark.parametrize("text", NO_HOSTS)
def test_what_is_no_host_is_none(text: str) -> None:
    assert parse_host(text) is None


@pytest.mark.parametrize("text", NO_ORIGINS)
def test_what_is_no_origin_of_the_web_is_none(text: str) -> None:
    assert parse_origin(text) is None
