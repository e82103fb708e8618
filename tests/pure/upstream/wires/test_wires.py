"""Where a call goes: a provider's wire says it, to all that calls one, and nothing else does."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest

from mgw.config.provider import Provider
from mgw.credentials.signing import Signing
from mgw.nouns.kinds import KINDS
from mgw.nouns.vocabulary import Kind, Operation
from mgw.upstream.address import shown_address
from mgw.upstream.wires import wire_of
from mgw.upstream.wires.wire import HostCall, RequestEdits, VendorCall, chat_call, list_call, lister_of

MGW: Final = Path(__file__).resolve().parents[4] / "mgw"
JOINS: Final = re.compile(r"base_path\(|base_url\s*\+|\+\s*\w*\.?base_url|\{\w*\.?base_url\}")
MAY_JOIN: Final = {
    "upstream/wires/wire.py",
    "upstream/wires/bedrock.py",
    "upstream/address.py",  # whole addresses, as people are shown them
}
WITH_OTHER_PATHS: Final = {Kind.BEDROCK, Kind.VERTEX_ANTHROPIC}
"""The kinds whose hosts have paths of their own: their wires have tests of their own."""


def provider(base_url: str, kind: Kind = Kind.OPENAI, version: str | None = None) -> Provider:
    found = Provider(name="main", kind=kind, base_url=base_url)
    return found if version is None else found.model_copy(update={"api_version": version})


def call(of: Provider, path: bytes, query: bytes | None = None) -> HostCall:
    return wire_of(of).call(of, VendorCall(Operation.RELAY, b"GET", path, query))


@pytest.mark.parametrize(
    ("base_url", "target"),
    [
        ("https://h/v1", b"/v1/models"),
        ("https://h", b"/models"),
        ("https://h:8443/a%20b/v1", b"/a%20b/v1/models"),
    ],
)
def test_a_call_goes_below_the_base_address(base_url: str, target: bytes) -> None:
    assert call(provider(base_url), b"/models").target == target


@pytest.mark.parametrize(
    ("raw_query", "target"),
    [(None, b"/v1/m"), (b"", b"/v1/m?"), (b"a=%20&b", b"/v1/m?a=%20&b")],
)
def test_a_query_goes_as_it_is(raw_query: bytes | None, target: bytes) -> None:
    assert call(provider("https://h/v1"), b"/m", raw_query).target == target


@pytest.mark.parametrize(
    ("base_url", "target"),
    [
        ("https://h/x/v1", b"/upload/x/v1beta/files"),
        ("https://h/x", b"/upload/x/v1beta/files"),
    ],
)
def test_a_call_may_need_another_version_and_something_before_it(base_url: str, target: bytes) -> None:
    google = provider(base_url, Kind.GEMINI)
    vendor_call = VendorCall(Operation.RELAY, b"POST", b"/files", prefix=b"/upload", version=b"v1beta")
    assert wire_of(google).call(google, vendor_call).target == target


def test_a_call_may_go_below_the_origin() -> None:
    vendor_call = VendorCall(Operation.RELAY, b"GET", b"/ws/x", b"a=b", prefix=b"/upload", from_origin=True)
    google = provider("https://h/x/v1", Kind.GEMINI)
    assert wire_of(google).call(google, vendor_call).target == b"/ws/x?a=b"


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in WITH_OTHER_PATHS])
def test_a_version_goes_only_where_a_kind_has_a_parameter_for_it(kind: Kind) -> None:
    added = b"" if KINDS[kind].version_parameter is None else b"?api-version=a%26b"
    assert call(provider("https://h/v1", kind, "a&b"), b"/m").target == b"/v1/m" + added


def test_the_version_that_a_client_sends_is_the_one_that_counts() -> None:
    azure = provider("https://h/v1", Kind.AZURE_OPENAI, "2024-10-21")
    assert call(azure, b"/m", b"api-version=preview").query == b"api-version=preview"
    assert call(azure, b"/m", b"x=1").query == b"x=1&api-version=2024-10-21"
    assert call(provider("https://h/v1", Kind.AZURE_OPENAI), b"/m").query is None


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in WITH_OTHER_PATHS])
def test_the_hosts_of_each_kind_can_be_asked_for_a_conversation_and_for_their_models(kind: Kind) -> None:
    here = provider("https://h/v1", kind)
    wire = wire_of(here)
    chat, models = chat_call(here, wire, "m"), list_call(here, wire, lister_of(here, wire).query(9, None))
    assert (chat.method, models.method) == (b"POST", b"GET")
    assert chat.path.startswith(b"/v1/")
    assert models.path == b"/v1/models"


def test_people_see_the_whole_address_as_it_was_written() -> None:
    address = shown_address("https://h:443/v1", b"/v1/models/m:streamGenerateContent?alt=sse")
    assert address == "https://h:443/v1/models/m:streamGenerateContent?alt=sse"


def test_every_wire_is_some_kinds() -> None:
    found = {
        file.stem
        for file in (MGW / "upstream" / "wires").glob("*.py")
        if re.search("^WIRE\\b", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert found == {name for row in KINDS.values() for name in (row.wire, row.wire_on_vertex) if name}


def test_nothing_but_a_wire_puts_an_address_together() -> None:
    found = {
        file.relative_to(MGW).as_posix()
        for room in ("app", "dashboard", "exchange", "ops", "realtime", "upstream", "web", "workers")
        for file in (MGW / room).rglob("*.py")
        if JOINS.search(file.read_text(encoding="utf-8"))
    }
    assert found == MAY_JOIN


def test_no_repr_shows_what_was_asked_or_how_it_is_signed() -> None:
    query = b"key=canary"
    values = [
        HostCall(b"GET", b"/models", query, b"canary"),
        VendorCall(Operation.MODELS, b"GET", b"/models", query),
        RequestEdits([((0, 0), b"canary")], [(b"X-Key", b"canary")]),
        Signing(SimpleNamespace(key="canary"), b"canary", 1.0),
    ]
    assert "canary" not in repr(values)
