"""Where a call goes: one function for all that calls a provider."""

from __future__ import annotations

import pytest

from mgw.config.provider import Provider
from mgw.nouns.vocabulary import Kind
from mgw.upstream.address import call_target, call_url


def provider(base_url: str, kind: Kind = Kind.OPENAI) -> Provider:
    return Provider(name="main", kind=kind, base_url=base_url)


@pytest.mark.parametrize(
    ("base_url", "target"),
    [
        ("https://h/v1", b"/v1/models"),
        ("https://h", b"/models"),
        ("https://h:8443/a%20b/v1", b"/a%20b/v1/models"),
    ],
)
def test_a_call_goes_below_the_base_address(base_url: str, target: bytes) -> None:
    assert call_target(provider(base_url), b"/models") == target


@pytest.mark.parametrize(
    ("raw_query", "target"),
    [(None, b"/v1/m"), (b"", b"/v1/m?"), (b"a=%20&b", b"/v1/m?a=%20&b")],
)
def test_a_query_goes_as_it_is(raw_query: bytes | None, target: bytes) -> None:
    assert call_target(provider("https://h/v1"), b"/m", raw_query) == target


@pytest.mark.parametrize(
    ("base_url", "target"),
    [
        ("https://h/x/v1", b"/upload/x/v1beta/files"),
        ("https://h/x", b"/upload/x/v1beta/files"),
    ],
)
def test_a_call_may_need_another_version_and_something_before_it(base_url: str, target: bytes) -> None:
    found = call_target(provider(base_url, Kind.GEMINI), b"/files", prefix=b"/upload", version=b"v1beta")
    assert found == target


def test_people_see_the_whole_address_as_it_was_written() -> None:
    address = call_url(provider("https://h:443/v1"), "/models/m:streamGenerateContent?alt=sse")
    assert address == "https://h:443/v1/models/m:streamGenerateContent?alt=sse"
