"""The setting ``proxy`` of a provider: what is read, what is refused, and that no password shows."""

from __future__ import annotations

import json
from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.config.proxy import ProxyAddress, parse_proxy
from mgw.config.secrets import secrets_in

FORM = "expected http://host:port or http://user:password@host:port"
ENCODED = "in user and password, percent-encode everything but letters, digits and -._~"
PLACEHOLDER = "placeholder, and placeholders are not filled in"


def configured(settings: str, **environ: str) -> ProxyAddress | None:
    return parse(f"providers: {{main: {{kind: openai, {settings}}}}}", "f", environ).providers["main"].proxy


def problem(settings: str, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        configured(settings, **environ)
    (found,) = caught.value.problems
    return f"{found.path}: {found.message}"


def sent(proxy: ProxyAddress) -> bytes:
    assert proxy.authorization is not None
    scheme, _, rest = proxy.authorization.reveal().partition(" ")
    assert scheme == "Basic"
    return b64decode(rest)


@pytest.mark.parametrize(
    ("written", "secure", "host", "port", "name"),
    [
        ("http://proxy.example:3128", False, "proxy.example", 3128, "proxy.example:3128"),
        ("HTTP://Proxy.Example:80/", False, "proxy.example", 80, "proxy.example:80"),
        ("https://10.0.0.1:443", True, "10.0.0.1", 443, "10.0.0.1:443"),
        ("http://[2001:DB8::1]:8080", False, "2001:db8::1", 8080, "[2001:db8::1]:8080"),
        ("http://squid_1:3128", False, "squid_1", 3128, "squid_1:3128"),
    ],
)
def test_an_address_is_taken_apart(written: str, secure: bool, host: str, port: int, name: str) -> None:
    proxy = parse_proxy(written)
    assert (proxy.secure, proxy.host, proxy.port, proxy.name) == (secure, host, port, name)
    assert proxy.authorization is None
    assert secrets_in(proxy) == []


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ("me:canary", b"me:canary"),
        ("me", b"me:"),
        ("me:", b"me:"),
        ("me:a:b", b"me:a:b"),
        ("m%20e:p%40s%2Fs%25", b"m e:p@s/s%"),
        ("%C3%A4:%C3%B6", "ä:ö".encode()),
    ],
)
def test_a_user_and_a_password_are_sent_as_basic(user: str, said: bytes) -> None:
    assert sent(parse_proxy(f"http://{user}@h:1")) == said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("proxy.canary:3128", FORM),
        ("socks5://proxy.canary:1080", FORM),
        ("http:proxy.canary:1", FORM),
        ("http://proxy.canary", f"{FORM} (https:// to a proxy with TLS), with a port from 1 to 65535"),
        ("http://proxy.canary:0", "with a port from 1 to 65535"),
        ("http://proxy.canary:65536", "with a port from 1 to 65535"),
        ("http://canary:x:80", "with a port from 1 to 65535"),
        ("http://canary:80/path", ENCODED),
        ("http://canary:80?q", ENCODED),
        ("http://u:can/ary@h:80", ENCODED),
        ("http://u:can#ary@h:80", ENCODED),
        ("http://u:can@ary@h:80", ENCODED),
        ("http://u:can ary@h:80", ENCODED),
        ("http://u:cänary@h:80", ENCODED),
        ("http://u:canary%zz@h:80", ENCODED),
        ("http://:canary@h:80", "with a user name before the password"),
        ("http://u%3Acanary:x@h:80", "the user name contains a colon"),
        ("http://u:canary%0a@h:80", "contains control characters"),
        ("http://u:$CANARY@h:80", f"the password is a {PLACEHOLDER}"),
        ("${CANARY}", f"a {PLACEHOLDER}: to read the address from the environment, name"),
        ("http://[canary]:80", FORM),
        ("http://-canary:80", "expected a host name or an IP address after ://"),
    ],
)  # fmt: skip
def test_what_is_no_proxy_is_refused_without_being_quoted(written: str, said: str) -> None:
    found = problem(f"proxy: {json.dumps(written)}")
    assert found.startswith("providers.main.proxy: ")
    assert said in found
    assert "canary" not in found.lower()
    by_name = problem("proxy_env: WHERE", WHERE=written)
    assert by_name.startswith("providers.main.proxy_env: the address in the environment variable WHERE: ")
    assert said in by_name
    assert "canary" not in by_name.lower()


def test_the_environment_can_hold_it() -> None:
    proxy = configured("proxy_env: WHERE", WHERE="http://me:secret@h:1")
    assert proxy is not None
    assert sent(proxy) == b"me:secret"


@pytest.mark.parametrize(
    ("settings", "environ", "said"),
    [
        ("proxy_env: WHERE", {}, "proxy_env: the environment variable WHERE is not set"),
        ("proxy_env: WHERE", {"WHERE": ""}, "proxy_env: the environment variable WHERE is empty"),
        ("proxy: 5", {}, "proxy: expected an address such as http://proxy.example:3128, found"),
        ("proxy: {a: canary}", {}, "proxy: expected an address"),
        ('proxy_env: "http://u:canary@h:1"', {}, "proxy_env: expected the name of an environment variable"),
        ('proxy: "http://h:1", proxy_env: W', {"W": "http://h:1"}, "proxy_env: proxy is also set: keep only"),
    ],
)
def test_what_is_wrong_with_the_setting_is_told(settings: str, environ: dict[str, str], said: str) -> None:
    found = problem(settings, **environ)
    assert f"providers.main.{said}" in found
    assert "canary" not in found


def test_the_usual_variables_of_a_process_are_not_looked_at() -> None:
    usual = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "https_proxy"), "http://h:1")
    assert configured("auth: client_bearer", **usual) is None


@given(password=st.text(min_size=1, max_size=20), wrong=st.sampled_from(["", "@", "/", ":x", "#", " "]))
def test_no_password_shows_whatever_is_wrong(password: str, wrong: str) -> None:
    text = json.dumps(f"http://me:{wrong}sk-canary{password}{wrong}@h:1")
    try:
        shown = repr(parse(f"providers: {{main: {{kind: openai, proxy: {text}}}}}", "f", {}))
    except ConfigError as error:
        shown = str(error) + repr(error.problems)
    assert "canary" not in shown
