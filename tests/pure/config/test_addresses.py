"""The gateway's own address: ``public_url``, ``trusted_proxies``, ``rewrite_urls``."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_network

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mgw.config.listen import parse_network
from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.config.settings import Config

ONE = "providers: {main: {kind: openai}}\n"
FORMS = 'expected an IP address or a network such as "10.0.0.0/8" or "fd00::/8"'
IN_QUOTES = 'expected a string in quotes such as "10.0.0.0/8" or "::1"'


def config_of(settings: str) -> Config:
    return parse(ONE + settings, "mgw.yaml", {})


def said_of(settings: str) -> str:
    with pytest.raises(ConfigError) as refusal:
        config_of(settings)
    (problem,) = refusal.value.problems
    return str(problem)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("https://gateway.example.com", "https://gateway.example.com"),
        ("https://gateway.example.com/", "https://gateway.example.com"),
        ("https://gateway.example.com/llm/", "https://gateway.example.com/llm"),
        ("http://127.0.0.1:8787", "http://127.0.0.1:8787"),
        ("HTTPS://Gateway:8443/LLM", "https://gateway:8443/LLM"),
        ("http://[::1]:8787/", "http://[::1]:8787"),
    ],
)
def test_the_public_address_has_no_slash_at_its_end(written: str, meant: str) -> None:
    assert config_of(f"public_url: {written}").public_url == meant


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("gateway.example.com", "expected an address that begins with http:// or https://"),
        ("ws://gateway", "expected an address that begins with http:// or https://"),
        ("'${GATEWAY}/llm'", "the address has a placeholder in it, and placeholders are not filled in"),
        ("'https://${HOST}/llm'", "the address has a placeholder in it, and placeholders are not filled in"),
        ("https://", "expected a host name or an IP address after ://"),
        ("https:///llm", "expected a host name or an IP address after ://"),
        ("https://gw?a=b", "expected an address without a query or fragment (no ? or #)"),
        ("'https://gw#a'", "expected an address without a query or fragment (no ? or #)"),
        (
            "https://user:word@gw",
            "expected an address without a user name or password: each client sends its own credentials",
        ),
        ("https://gw:0", "expected a port from 1 to 65535, found 0"),
        ("https://gw:99999", "expected an address with a host and a port from 1 to 65535"),
        ("https://gw/a/../b", "expected a plain, percent-encoded path without . and .. segments"),
        ("'https://gw/\"'", "expected a plain, percent-encoded path without . and .. segments"),
        ("'https://g w'", "expected an address without spaces or control characters"),
        ("''", "expected an address that begins with http:// or https://"),
        ("true", "expected an http:// or https:// address, found something else"),
        ("[https://gw]", "expected an http:// or https:// address, found a list"),
        ("", "expected an http:// or https:// address, found nothing"),
    ],
)
def test_anything_else_is_no_public_address(written: str, said: str) -> None:
    assert said_of(f"public_url: {written}") == f"mgw.yaml:2: public_url: {said}"


def test_proxies_are_addresses_and_networks_each_once() -> None:
    text = 'trusted_proxies: [10.0.0.0/8, 192.0.2.1, "::1", "FD00::/8", 192.0.2.1/32, 0.0.0.0/0]'
    assert config_of(text).trusted_proxies == (
        IPv4Network("10.0.0.0/8"),
        IPv4Network("192.0.2.1/32"),
        IPv6Network("::1/128"),
        IPv6Network("fd00::/8"),
        IPv4Network("0.0.0.0/0"),
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("::ffff:192.0.2.1", "192.0.2.1/32"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::ffff:0:0/96", "0.0.0.0/0"),
        ("::fffe:0:0/95", "::fffe:0:0/95"),
        ("::fffe:10.0.0.0/104", "::fffe:a00:0/104"),
        ("::/0", "::/0"),
    ],
)
def test_an_ipv4_network_in_the_form_of_ipv6_is_an_ipv4_network(written: str, meant: str) -> None:
    assert parse_network(written) == ip_network(meant)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("10.1.2.3/8", "expected 10.0.0.0/8, found 10.1.2.3/8, which has bits set outside its prefix"),
        ('"fd00::1/8"', "expected fd00::/8, found fd00::1/8, which has bits set outside its prefix"),
        ("0.0.0.1/0", "expected 0.0.0.0/0, found 0.0.0.1/0, which has bits set outside its prefix"),
        ("localhost", f"{FORMS}, found 'localhost'"),
        ("proxy.example.com", f"{FORMS}, found 'proxy.example.com'"),
        ("''", f"{FORMS}, found ''"),
        ("10.0.0.0/33", f"{FORMS}, found '10.0.0.0/33'"),
        ("10.0.0.0/", f"{FORMS}, found '10.0.0.0/'"),
        ("10.0.0.0/255.0.0.0", f"{FORMS}, found '10.0.0.0/255.0.0.0'"),
        ("10.0.0", f"{FORMS}, found '10.0.0'"),
        ("010.0.0.1", f"{FORMS}, found '010.0.0.1'"),
        ("10.0.0.1:443", f"{FORMS}, found '10.0.0.1:443'"),
        ("' 10.0.0.1'", f"{FORMS}, found ' 10.0.0.1'"),
        ('"[::1]"', f"{FORMS}, found '[::1]'"),
        ('"fe80::1%eth0"', f"{FORMS}, found 'fe80::1%eth0'"),
        ('"fd00::/129"', f"{FORMS}, found 'fd00::/129'"),
        ("10", f"{IN_QUOTES}, found the number 10"),
        (
            "11:11:11",
            f"{IN_QUOTES}, found the number 40271 (what YAML makes of 11:11:11 without quotes)",
        ),
    ],
)
def test_a_wrong_proxy_is_told_what_was_expected(written: str, said: str) -> None:
    assert said_of(f"trusted_proxies:\n  - 127.0.0.1\n  - {written}\n") == (
        f"mgw.yaml:4: trusted_proxies.1: {said}"
    )


def test_one_proxy_is_a_list_too() -> None:
    assert said_of("trusted_proxies: 10.0.0.1") == (
        'mgw.yaml:2: trusted_proxies: expected a list such as ["10.0.0.0/8"], found a string'
    )


@st.composite
def networks(draw: st.DrawFn) -> tuple[str, IPv4Network | IPv6Network]:
    """An address with a prefix, and the network that it is in."""
    kind = IPv4Network if draw(st.booleans()) else IPv6Network
    width = 32 if kind is IPv4Network else 128
    prefix = draw(st.integers(0, width))
    net = draw(st.integers(0, 2**prefix - 1)) << (width - prefix)
    assume(not (kind is IPv6Network and prefix >= 96 and net >> 32 == 0xFFFF))  # read as IPv4: see above
    host = draw(st.sampled_from([0, 0, 1, 2 ** (width - prefix) - 1])) % 2 ** (width - prefix)
    return f"{kind((net + host, width)).network_address}/{prefix}", kind((net, prefix))


@given(drawn=networks())
def test_a_network_is_read_as_itself_or_the_right_one_is_shown(
    drawn: tuple[str, IPv4Network | IPv6Network],
) -> None:
    text, network = drawn
    if text == str(network):
        assert parse_network(text) == network
    else:
        with pytest.raises(
            ValueError, match=f"^expected {re.escape(str(network))}, found {re.escape(text)},"
        ):
            parse_network(text)


@pytest.mark.parametrize(("written", "meant"), [("true", True), ("false", False), ("off", False)])
def test_addresses_in_answers_are_turned_or_left(written: str, *, meant: bool) -> None:
    assert config_of(f"rewrite_urls: {written}").rewrite_urls is meant


def test_addresses_are_not_turned_a_little() -> None:
    said = said_of("rewrite_urls: some")
    assert said == "mgw.yaml:2: rewrite_urls: expected true or false, found a string"
