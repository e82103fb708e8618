"""Who may come in, and whose key is whose."""

from __future__ import annotations

import pytest

from mgw.config.model import Config
from mgw.errors import GatewayError, Reason
from mgw.vocabulary import Family
from mgw.web.edge_auth import Caller, EdgeGate
from mgw.wire.headers import RawHeaders
from tests.support.configs import config

PROVIDERS = "providers: {p: {kind: openai, api_key: k}}\n"


def settings(edge: str) -> Config:
    return config(f"{PROVIDERS}edge_auth: {{{edge}}}")


CLOSED = EdgeGate(settings("enabled: true, keys: [edge-1, edge-2]").edge_auth)
OPEN = EdgeGate(config(PROVIDERS).edge_auth)


def own(caller: Caller) -> tuple[str, bytes | None] | None:
    return None if caller.key is None else (caller.key.value.reveal(), caller.key.scheme)


def admit(gate: EdgeGate, family: Family, headers: RawHeaders, query: bytes | None = None) -> Caller:
    return gate.admit(family, headers, query)


@pytest.mark.parametrize(
    ("family", "headers", "query"),
    [
        (Family.OPENAI, [(b"Authorization", b"Bearer edge-1")], None),
        (Family.OPENAI, [(b"authorization", b"bearer   edge-2")], None),
        (Family.ANTHROPIC, [(b"X-Api-Key", b"edge-2")], None),
        (Family.GEMINI, [(b"x-goog-api-key", b"edge-1")], None),
        (Family.GEMINI, [], b"key=edge-1"),
        (Family.OPENAI, [], b"key=edge-1"),
        (Family.OPENAI, [(b"Authorization", b"Bearer theirs"), (b"x-api-key", b"edge-1")], None),
    ],
)
def test_an_edge_key_opens_the_gate_in_every_carrier(
    family: Family, headers: RawHeaders, query: bytes | None
) -> None:
    caller = admit(CLOSED, family, headers, query)
    assert caller.raw_query is None
    assert own(caller) in (None, ("theirs", b"Bearer"))


@pytest.mark.parametrize(
    ("family", "headers", "query"),
    [
        (Family.OPENAI, [], None),
        (Family.OPENAI, [(b"Authorization", b"Bearer edge-3")], None),
        (Family.OPENAI, [(b"Authorization", b"Basic edge-1")], None),
        (Family.OPENAI, [(b"Authorization", b"Token edge-1")], None),
        (Family.OPENAI, [(b"Authorization", b"edge-1")], None),
        (Family.OPENAI, [(b"x-goog-api-key", b"edge-1")], None),
        (Family.OPENAI, [(b"x-api-key", b"edge-1\xff")], None),
        (Family.GEMINI, [], b"key=edge"),
    ],
)
def test_anything_else_is_refused(family: Family, headers: RawHeaders, query: bytes | None) -> None:
    with pytest.raises(GatewayError) as refusal:
        admit(CLOSED, family, headers, query)
    assert refusal.value.reason is Reason.EDGE_KEY
    assert "edge-" not in refusal.value.message


def test_the_first_credential_that_is_no_edge_key_is_the_clients_own() -> None:
    headers = [(b"Authorization", b"Bearer edge-1"), (b"x-api-key", b"theirs"), (b"x-api-key", b"later")]
    assert own(admit(CLOSED, Family.ANTHROPIC, headers)) == ("theirs", None)


def test_without_edge_auth_everybody_comes_in_with_their_own_credential() -> None:
    assert own(admit(OPEN, Family.OPENAI, [(b"Authorization", b"Bearer theirs")])) == ("theirs", b"Bearer")
    assert own(admit(OPEN, Family.OPENAI, [])) is None


def test_an_edge_key_is_nobodys_own_credential_even_with_the_gate_open() -> None:
    gate = EdgeGate(settings("enabled: false, keys: [edge-1]").edge_auth)
    assert own(admit(gate, Family.OPENAI, [(b"Authorization", b"Bearer edge-1")])) is None


def test_geminis_key_leaves_the_query_and_the_rest_stays_byte_for_byte() -> None:
    caller = admit(OPEN, Family.GEMINI, [], b"alt=sse&key=theirs&x=%7e+1&&y")
    assert caller.raw_query == b"alt=sse&x=%7e+1&&y"
    assert own(caller) == ("theirs", None)


def test_key_is_an_ordinary_parameter_of_other_families_unless_it_is_an_edge_key() -> None:
    caller = admit(CLOSED, Family.OPENAI, [(b"x-api-key", b"edge-1")], b"key=ordinary&a=1")
    assert (caller.raw_query, own(caller)) == (b"key=ordinary&a=1", None)
    caller = admit(CLOSED, Family.OPENAI, [], b"a=1&key=edge%2D1")
    assert caller.raw_query == b"a=1"


def test_googles_token_scheme_counts_on_geminis_routes_only() -> None:
    headers = [(b"Authorization", b"Token edge-1")]
    assert own(admit(CLOSED, Family.GEMINI, headers)) is None


@pytest.mark.parametrize("name", [b"%6bey", b"k%65y", b"%6B%65%79", b"key"])
def test_an_edge_key_leaves_the_query_however_its_name_is_spelled(name: bytes) -> None:
    for family in Family:
        caller = admit(CLOSED, family, [], b"alt=sse&" + name + b"=edge-1")
        assert (caller.raw_query, own(caller)) == (b"alt=sse", None)


def test_an_empty_key_in_the_query_is_no_credential() -> None:
    caller = admit(OPEN, Family.GEMINI, [], b"key=&alt=sse")
    assert (caller.raw_query, own(caller)) == (b"alt=sse", None)


@pytest.mark.parametrize("value", [b"edge-1, Bearer theirs", b"theirs,edge-1", b"theirs edge-1"])
def test_headers_that_a_proxy_joined_are_nobodys_credential(value: bytes) -> None:
    headers = [(b"x-api-key", b"edge-1"), (b"Authorization", b"Bearer " + value)]
    assert own(admit(CLOSED, Family.ANTHROPIC, headers)) is None
    assert own(admit(CLOSED, Family.ANTHROPIC, [(b"x-api-key", b"edge-1"), (b"x-api-key", value)])) is None


def test_an_edge_key_may_hold_a_comma() -> None:
    gate = EdgeGate(settings("enabled: true, keys: ['edge,1']").edge_auth)
    assert own(admit(gate, Family.OPENAI, [(b"Authorization", b"Bearer edge,1")])) is None


def test_a_bearer_token_comes_before_the_other_carriers_whatever_the_order_of_the_headers() -> None:
    headers = [
        (b"x-api-key", b"theirs"),
        (b"Authorization", b"Bearer token"),
        (b"Authorization", b"Bearer 2"),
    ]
    assert own(admit(OPEN, Family.ANTHROPIC, headers)) == ("token", b"Bearer")
    assert own(admit(OPEN, Family.ANTHROPIC, headers[::-1])) == ("2", b"Bearer")
