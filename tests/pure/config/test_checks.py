"""What a text must be to serve as an address, a header or a key."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.config.checks import (
    checked_absolute_path,
    checked_base_url,
    checked_header_name,
    checked_header_value,
    checked_key,
    checked_public_url,
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("https://api.example.com/v1", "https://api.example.com/v1"),
        ("https://api.example.com/v1//", "https://api.example.com/v1"),
        ("HTTPS://API.Example.com:8443/V1/", "https://api.example.com:8443/V1"),
        ("http://127.0.0.1", "http://127.0.0.1"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1"),
        ("http://my_host/a%20b", "http://my_host/a%20b"),
        ("https://xn--bcher-kva.example/v1", "https://xn--bcher-kva.example/v1"),
    ],
)
def test_an_address_is_taken_and_trimmed(text: str, address: str) -> None:
    assert checked_base_url(text) == address
    assert checked_public_url(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "api.example.com/v1",
        "ftp://host/v1",
        "https:/host/v1",
        "https:host",
        "https://",
        "https:///v1",
        "https://user:canary@host/v1",
        "https://host/v1?key=canary",
        "https://host/v1?",
        "https://host/v1#",
        "https://host:0/v1",
        "https://host:65536/v1",
        "https://host:x/v1",
        "https://ho st/v1",
        "https://host/v1\n",
        "https://host/a\tb",
        "https://-host/v1",
        "https://[::1/v1",
        "https://h[::1]/v1",
        "https://[::1]h:80/v1",
        "https://[x]/v1",
        "https://host/a/../b",
        "https://host/%zz",
        "https://host/a\\b",
        "https://bücher.example/v1",
    ],
)
def test_anything_else_is_no_address_and_is_not_quoted(text: str) -> None:
    for check in (checked_base_url, checked_public_url):
        with pytest.raises(ValueError, match="expected") as refusal:
            check(text)
        assert "canary" not in str(refusal.value)


def test_an_absolute_path_is_taken_as_it_is() -> None:
    assert checked_absolute_path("/srv//mgw spool/") == "/srv//mgw spool/"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a string, found an empty string"),
        ("spool", "expected an absolute path (one that begins with /), found 'spool'"),
        ("~/spool", "expected an absolute path (one that begins with /), found '~/spool'"),
        ("./spool", "expected an absolute path (one that begins with /), found './spool'"),
        ("/sp\nool", "expected a string without control characters"),
        ("/\x00", "expected a string without control characters"),
    ],
)
def test_any_other_path_depends_on_who_starts_the_process_and_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        checked_absolute_path(text)


@given(
    scheme=st.sampled_from(["http://", "HTTPS://", "http:", "//", ""]),
    host=st.sampled_from(["h", "H.example", "[::1]", "127.0.0.1", "", "u@h", "h:80", "[::"]),
    path=st.lists(st.sampled_from(["/", "v1", ":", "%20", "%", ".", "..", "?", "é", "\t", "@"]), max_size=6),
)
def test_an_address_is_taken_as_it_is_or_refused(scheme: str, host: str, path: list[str]) -> None:
    try:
        address = checked_base_url(scheme + host + "".join(path))
    except ValueError:
        return
    assert checked_base_url(address) == address
    assert not address.endswith("/")


@pytest.mark.parametrize("name", ["x-tenant", "OpenAI-Project", "anthropic-beta", "api-key"])
def test_an_ordinary_header_may_be_edited(name: str) -> None:
    assert checked_header_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "X-API-Key",
        "x-goog-api-key",
        "Cookie",
        "Host",
        "content-length",
        "Connection",
        "Transfer-Encoding",
        "TE",
        "Upgrade",
        "Accept-Encoding",
        "Sec-WebSocket-Key",
        "",
        "a b",
        "a:",
        "naïve",
    ],
)
def test_credentials_framing_and_odd_names_may_not_be_edited(name: str) -> None:
    with pytest.raises(ValueError, match=r"credentials|connection|a header name"):
        checked_header_name(name)


@pytest.mark.parametrize("value", ["", "a b", "prépayé"])
def test_a_header_value_is_taken(value: str) -> None:
    assert checked_header_value(value) == value


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\tb", " a", "a ", "\x7f", "€"])
def test_a_header_value_cannot_end_its_line(value: str) -> None:
    with pytest.raises(ValueError, match="a header value"):
        checked_header_value(value)


@pytest.mark.parametrize("key", ["", "canary key", "canary\n", "canary\x7f", "canary€", "canary\u00a0"])
def test_a_key_that_cannot_travel_is_refused_unquoted(key: str) -> None:
    with pytest.raises(ValueError, match=r"empty|spaces|Latin-1|line break") as refusal:
        checked_key(key, "do as the document says")
    assert "canary" not in str(refusal.value)
