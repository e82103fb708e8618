"""The gateway's address as its clients know it."""

from __future__ import annotations

import pytest

from mgw.clients.peers import is_trusted
from mgw.web.server_request import own_address
from mgw.wire.headers import RawHeaders
from tests.support.configs import THREE_FAMILIES, config

PROXIES = THREE_FAMILIES + "trusted_proxies: [10.0.0.0/8, '::1', 192.168.1.7]\n"
HTTPS: RawHeaders = [(b"X-Forwarded-Proto", b"https")]


@pytest.mark.parametrize(
    ("host", "address"),
    [
        (b"gateway", "http://gateway"),
        (b"gateway.example:8787", "http://gateway.example:8787"),
        (b"my_service:80", "http://my_service:80"),
        (b"[::1]:8787", "http://[::1]:8787"),
        (b"user@gateway", None),
        (b"gateway/path", None),
        (b"gateway?x", None),
        (b"gateway, other", None),
        (b"", None),
        (b"gateway:port", None),
        (b"b\xc3\xa4r", None),
    ],
)
def test_a_plain_host_is_the_address(host: bytes, address: str | None) -> None:
    assert own_address(config(), [(b"Host", host)], "127.0.0.1", secure=False) == address


def test_without_a_host_there_is_no_address() -> None:
    assert own_address(config(), [], "127.0.0.1", secure=False) is None


def test_a_listener_with_tls_makes_it_https() -> None:
    assert own_address(config(), [(b"Host", b"g")], "127.0.0.1", secure=True) == "https://g"


@pytest.mark.parametrize(
    ("peer", "said", "address"),
    [
        ("10.1.2.3", HTTPS, "https://g"),
        ("::ffff:10.1.2.3", HTTPS, "https://g"),
        ("::1", HTTPS, "https://g"),
        ("192.168.1.7", HTTPS, "https://g"),
        ("10.1.2.3", [(b"x-forwarded-proto", b" HTTPS , http")], "https://g"),
        ("10.1.2.3", [(b"x-forwarded-proto", b"http")], "http://g"),
        ("10.1.2.3", [], "http://g"),
        ("192.168.1.8", HTTPS, "http://g"),
        ("fe80::1%eth0", HTTPS, "http://g"),
        ("", HTTPS, "http://g"),
    ],
)
def test_only_a_trusted_proxy_is_believed(peer: str, said: RawHeaders, address: str) -> None:
    assert own_address(config(PROXIES), [(b"Host", b"g"), *said], peer, secure=False) == address


def test_nobody_is_trusted_unless_named() -> None:
    assert not is_trusted("127.0.0.1", config().trusted_proxies)


def test_the_public_address_comes_before_all_else() -> None:
    settings = config(THREE_FAMILIES + "public_url: https://llm.example.com/gw/\n")
    assert own_address(settings, [(b"Host", b"g")], "1.2.3.4", secure=False) == "https://llm.example.com/gw"
