"""Who may come in, and whose key is whose."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from mgw.config.settings import Config
from mgw.memo.known_head import Caller
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family
from mgw.web.edge_auth import EdgeGate
from mgw.wire.headers import RawHeaders
from tests.support.configs import config

PROVIDERS = "providers: {p: {kind: openai, api_key: k}}\n"


def settings(edge: str) -> Config:
    return config(f"{PROVIDERS}edge_auth: {{{edge}}}")


CLOSED = EdgeGate(settings("enabled: true, keys: [edge-1, edge-2]").edge_auth)
OPEN = EdgeGate(config(PROVIDERS).edge_auth)
LISTED = EdgeGate(settings("enabled: false, keys: [edge-1, edge-canary-2]").edge_auth)
"""Keys are configured, and nobody is asked for one: so nothing hides what would go upstream."""
EDGE: RawHeaders = [(b"x-api-key", b"edge-1")]
WRAPPED = (
    *(b'"edge-1"', b"'edge-1'", b'"edge-1', b"edge-1'", b"`edge-1`", b"<edge-1>", b"edge-1;", b"\xa0edge-1"),
    *("\u201cedge-1\u201d".encode(), b"\tedge-1", b"edge-1\t", b"edge-1%0A", b"%0D%0Aedge-1", b"edge%2D1"),
    *(
        b"%22edge-1%22",
        b"edge-1%250A",
        b"edge-1+",
        b"+edge-1",
        b"%65dge-1",
        b"Bearer edge-1",
        b"Bearer%20edge-1",
    ),
)
"""An edge key as people paste it, and as shells and libraries encode it."""


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
        (Family.OPENAI, [(b"Authorization", b"Bearer theirs"), (b"x-api-key", b"edge-1")], None),
        (Family.OPENAI, [(b"Api-Key", b"edge-1")], None),
        (Family.OPENAI, [(b"api-key", b"edge-1"), (b"Authorization", b"Bearer theirs")], None),
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
        (Family.OPENAI, [(b"api-key", b"edge-1%0A")], None),
        (Family.ANTHROPIC, [(b"api-key", b"edge-1")], None),
        (Family.GEMINI, [(b"api-key", b"edge-1")], None),
        (Family.GEMINI, [], b"key=edge"),
        (Family.OPENAI, [], b"key=edge-1"),
        (Family.ANTHROPIC, [], b"a=1&key=edge-1"),
        (Family.GEMINI, [], b"api_key=edge-1"),
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
    caller = admit(CLOSED, Family.OPENAI, [(b"x-api-key", b"edge-1")], b"a=1&key=edge%2D1")
    assert caller.raw_query == b"a=1"


def test_googles_token_scheme_counts_on_geminis_routes_only() -> None:
    headers = [(b"Authorization", b"Token edge-1")]
    assert own(admit(CLOSED, Family.GEMINI, headers)) is None


@pytest.mark.parametrize("name", [b"%6bey", b"k%65y", b"%6B%65%79", b"key"])
def test_an_edge_key_leaves_the_query_however_its_name_is_spelled(name: bytes) -> None:
    for family in Family:
        caller = admit(CLOSED, family, EDGE, b"alt=sse&" + name + b"=edge-1")
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


@pytest.mark.parametrize("value", WRAPPED)
@pytest.mark.parametrize("family", list(Family))
def test_a_wrapped_edge_key_opens_nothing_and_is_nobodys_own(family: Family, value: bytes) -> None:
    carriers: list[RawHeaders] = [[(b"Authorization", b"Bearer " + value)], [(b"x-api-key", value)]]
    if family is Family.GEMINI:
        carriers.append([(b"x-goog-api-key", value)])
    for headers in carriers:
        with pytest.raises(GatewayError) as refusal:
            admit(CLOSED, family, headers)
        assert refusal.value.reason is Reason.EDGE_KEY
        assert "edge-1" not in refusal.value.message
        assert own(admit(LISTED, family, headers)) is None


@pytest.mark.parametrize(
    "value",
    [
        *(
            b"%20edge-1",
            b"edge-1%20",
            b"+edge-1+",
            b"%22edge-1%22",
            b"'edge-1'",
            b"edge-1%0A",
            b"edge-1%0D%0A",
        ),
        *(b"%2565dge-1", b"edge-1%00", b"%e2%80%9cedge-1%e2%80%9d", b"Bearer+edge-1", b"%09edge-1"),
    ],
)
@pytest.mark.parametrize("family", list(Family))
def test_a_wrapped_edge_key_in_the_query_opens_nothing_and_goes_nowhere(family: Family, value: bytes) -> None:
    query = b"alt=sse&key=" + value
    with pytest.raises(GatewayError) as refusal:
        admit(CLOSED, family, [], query)
    assert refusal.value.reason is Reason.EDGE_KEY
    caller = admit(LISTED, family, [], query)
    assert own(caller) is None
    assert caller.raw_query == b"alt=sse"


@pytest.mark.parametrize(
    "query",
    [
        *(b"api_key=edge-1", b"access_token=%22edge-1%22", b"+key=edge-1", b"token=edge-1%0A", b"KEY=edge-1"),
        *(b"q=edge-canary-2", b"edge-canary-2", b"q=a+edge-canary-2+b", b"back=%2Fx%3Fkey%3Dedge-canary-2"),
        *(b"q=edge%2Dcanary%2d2", b"edge-canary-2=1", b"x:edge%2Dcanary-2=1"),
        b"q=edge-canary-2edge-canary-2",
    ],
)
@pytest.mark.parametrize("family", list(Family))
def test_no_parameter_takes_an_edge_key_upstream(family: Family, query: bytes) -> None:
    caller = admit(LISTED, family, [], b"alt=sse&" + query + b"&limit=5")
    assert (caller.raw_query, own(caller)) == (b"alt=sse&limit=5", None)


@pytest.mark.parametrize(
    "telling",
    [
        (b"Referer", b"http://gateway/v1beta/models?key=edge-canary-2"),
        (b"Referer", b"http://gateway/?next=%2Fv1%3Fkey%3Dedge%252Dcanary-2"),
        (b"OpenAI-Organization", b"edge-canary-2"),
    ],
)
def test_no_header_takes_an_edge_key_upstream(telling: tuple[bytes, bytes]) -> None:
    plain: RawHeaders = [
        (b"User-Agent", b"an-edge-canary-22"),
        (b"X-Title", b"edge-1"),
        (b"x-api-key", b"mine"),
    ]
    assert admit(LISTED, Family.OPENAI, [telling, *plain]).headers == plain
    assert admit(LISTED, Family.OPENAI, plain).headers is plain


@pytest.mark.parametrize("value", [b"edge-canary-2", b"edge%2Dcanary-2", b"edge%252Dcanary-2"])
def test_a_header_that_repeats_an_edge_key_goes_alone(value: bytes) -> None:
    agent, title = (b"User-Agent", b"agent/1.0"), (b"X-Title", value)
    assert admit(LISTED, Family.OPENAI, [agent]).headers == [agent]
    assert admit(LISTED, Family.OPENAI, [agent, title]).headers == [agent]


@pytest.mark.parametrize("family", list(Family))
def test_an_edge_key_that_was_pasted_twice_is_nobodys_own(family: Family) -> None:
    twice = b"edge-canary-2edge-canary-2"
    for carrier in ((b"Authorization", b"Bearer " + twice), (b"x-api-key", twice)):
        assert own(admit(LISTED, family, [carrier])) is None


def test_a_long_edge_key_is_no_part_of_another_word_and_of_no_media_type() -> None:
    gate = EdgeGate(settings("enabled: false, keys: [edge-canary-00000002]").edge_auth)
    plain: RawHeaders = [(b"Accept", b"application/json"), (b"Content-Type", b"a/b; c=edge-canary-0000000")]
    telling: RawHeaders = [
        (b"Accept", b"a/b; key=edge-canary-00000002"),
        (b"Content-Type", b"a/b; key=%65dge-canary-00000002"),
        (b"X-Title", b"thekeyedge-canary-00000002is"),
    ]
    assert admit(gate, Family.OPENAI, [*telling, *plain]).headers == plain
    word: RawHeaders = [(b"Accept", b"edge-canary-2")]
    assert admit(LISTED, Family.OPENAI, word).headers == word


@pytest.mark.parametrize(
    "value", [b"ya29.a0+/b==", b"eyJ.x-y_z.~", b"sk-proj-1", b"a%41", b"key:with;signs{}", b"mw" * 1000]
)
def test_what_vendors_hand_out_as_credentials_stays_as_it_is(value: bytes) -> None:
    for gate in (OPEN, LISTED):
        caller = admit(gate, Family.OPENAI, [(b"Authorization", b"Bearer " + value)])
        assert own(caller) == (value.decode(), b"Bearer")
        assert caller.flaw is None


@pytest.mark.parametrize(
    ("headers", "query", "words"),
    [
        ([(b"Authorization", b"Bearer my key")], None, "after Bearer contains a space"),
        ([(b"Authorization", b"Bearer\tkey")], None, "does not have the form 'Bearer <key>'"),
        ([(b"Authorization", b"key")], None, "does not have the form 'Bearer <key>'"),
        ([(b"Authorization", b"Bearer ")], None, "does not have the form 'Bearer <key>'"),
        ([(b"Authorization", b'Bearer "key"')], None, "after Bearer contains a quotation mark"),
        ([(b"X-Api-Key", b"one, two")], None, "in x-api-key contains a comma"),
        ([(b"x-goog-api-key", b"k\xe9y")], None, "x-goog-api-key contains a character outside visible ASCII"),
        ([], b"key=key%0A", "in ?key= contains a line break"),
        ([(b"Authorization", b"Bearer key%0A")], None, "after Bearer is encoded"),
    ],
)
def test_a_refusal_says_what_is_wrong_with_a_credential(
    headers: RawHeaders, query: bytes | None, words: str
) -> None:
    with pytest.raises(GatewayError) as refusal:
        admit(CLOSED, Family.GEMINI, headers, query)
    assert words in refusal.value.message
    assert words in (admit(OPEN, Family.GEMINI, headers, query).flaw or "")


@pytest.mark.parametrize("others", [[(b"Authorization", b"Bearer theirs")], [(b"x-api-key", b"theirs")]])
def test_azures_header_is_looked_at_last_whatever_the_order_of_the_headers(others: RawHeaders) -> None:
    headers = [(b"api-key", b"azures"), *others]
    for order in (headers, headers[::-1]):
        key = admit(OPEN, Family.OPENAI, order).key
        assert key is not None
        assert (key.value.reveal(), key.kind_header) == ("theirs", None)


def test_a_key_in_azures_header_is_the_clients_own_beside_the_gateways() -> None:
    for headers in ([(b"api-key", b"azures"), *EDGE], [*EDGE, (b"API-KEY", b"azures")]):
        key = admit(CLOSED, Family.OPENAI, headers).key
        assert key is not None
        assert (key.value.reveal(), key.scheme, key.kind_header) == ("azures", None, b"api-key")
    assert own(admit(CLOSED, Family.ANTHROPIC, [(b"api-key", b"azures"), *EDGE])) is None


@pytest.mark.parametrize(
    ("headers", "query", "where"),
    [
        ([(b"Authorization", b"Bearer sk-a-vendors-key")], None, "after Bearer"),
        ([(b"x-api-key", b"edge-9"), (b"x-goog-api-key", b"another")], None, "in x-api-key"),
        ([], b"key=edge-9", "in ?key="),
    ],
)
def test_a_wrong_key_is_told_from_none(headers: RawHeaders, query: bytes | None, where: str) -> None:
    with pytest.raises(GatewayError) as none:
        admit(CLOSED, Family.GEMINI, [], None)
    with pytest.raises(GatewayError) as wrong:
        admit(CLOSED, Family.GEMINI, headers, query)
    assert wrong.value.message == f"{none.value.message}; the credential {where} is not a gateway key"


@pytest.mark.parametrize("family", list(Family))
def test_a_wrong_key_of_a_websocket_is_told_too(family: Family) -> None:
    with pytest.raises(GatewayError) as refused:
        CLOSED.admit(family, [], None, carried=b"edge-9")
    assert refused.value.message.endswith("; the credential in Sec-WebSocket-Protocol is not a gateway key")


@pytest.mark.parametrize("own_value", [b"a b", b'"sk-own"', b"Basic", b"sk-own"])
def test_a_carrier_that_a_client_uses_for_itself_refuses_no_other_that_fits(own_value: bytes) -> None:
    carrying: RawHeaders = [(b"Authorization", b"Bearer " + own_value), *EDGE]
    admit(CLOSED, Family.OPENAI, carrying)
    admit(CLOSED, Family.OPENAI, carrying[::-1])
    admit(CLOSED, Family.GEMINI, carrying[:1], b"key=edge-1")


@contextmanager
def watched() -> Iterator[tuple[set[str], list[bytes]]]:
    """Note the methods of the gate that are called, and the patterns that are searched for."""
    methods: set[str] = set()
    patterns: list[bytes] = []

    def note(frame: FrameType, event: str, called: object) -> None:
        if event == "call" and frame.f_code.co_qualname.startswith("EdgeGate."):
            methods.add(frame.f_code.co_name)
        pattern = getattr(called, "__self__", None) if event == "c_call" else None
        if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, bytes):
            patterns.append(pattern.pattern)

    sys.setprofile(note)
    try:
        yield methods, patterns
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ([], b"x=" + b"edge-canary-" * 5000),
        ([], b"key=edge%2Dcanary-2+&token=edge-canary-2x"),
        ([(b"Authorization", b"Bearer " + b"edge-canary-" * 5000)], None),
        ([(b"Authorization", b'Bearer "edge-canary-2"')], b"a=b"),
        ([(b"x-api-key", b"%22edge-canary-2%22"), (b"x-goog-api-key", b"(edge-canary-2)")], None),
        ([(b"x-api-key", b"theirs"), (b"User-Agent", b"edge-canary-2+" * 1000)], None),
    ],
)
def test_nothing_that_a_stranger_sends_is_searched_for_keys(
    family: Family, headers: RawHeaders, query: bytes | None
) -> None:
    gate = EdgeGate(settings("enabled: true, keys: [edge-1, edge-canary-2]").edge_auth)
    with watched() as (methods, patterns), pytest.raises(GatewayError) as refused:
        gate.admit(family, headers, query)
    assert refused.value.reason is Reason.EDGE_KEY
    assert not [pattern for pattern in patterns if b"canary" in pattern]
    assert methods <= {"admit", "_find_client", "_client_of", "_is_of_dashboard"}  # which look digests up
    with watched() as (methods, patterns):
        gate.admit(family, [*EDGE, *headers], query)
    assert [pattern for pattern in patterns if b"canary" in pattern]  # as is seen for whom may come in


def test_a_refusal_does_not_say_that_a_key_is_inside() -> None:
    said = set()
    for value in (b"(edge-1)", b"[edge-9]", b"edge-1;", b"edge-9;"):
        with pytest.raises(GatewayError) as refused:
            admit(CLOSED, Family.OPENAI, [(b"x-api-key", value)])
        said.add(refused.value.message)
    assert len(said) == 1
