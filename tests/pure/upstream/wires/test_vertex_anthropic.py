"""Calls, bodies, headers and refusals as Vertex AI has them for Claude."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.config.provider import HeadersSettings
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Kind, Operation
from mgw.upstream.address import shown_address
from mgw.upstream.wires.vertex_anthropic import WIRE
from mgw.upstream.wires.wire import HostCall, chat_call, probe_call
from mgw.wire.headers import RawHeaders
from tests.pure.upstream.wires.test_bedrock import WHITE, objects, pairs
from tests.support.asked_wires import AskedWire

PATH: Final = "/v1/projects/p/locations/global/publishers/anthropic"
HOST: Final = f"https://aiplatform.googleapis.com{PATH}"
VERSION: Final = '"anthropic_version":"vertex-2023-10-16"'
TYPE: Final = (b"Content-Type", b"application/json")
BASE: Final = f"{PATH}/models/".encode()


_ASKED: Final = AskedWire(WIRE, Kind.VERTEX_ANTHROPIC, HOST)
provider, call, edits, edited = _ASKED.provider, _ASKED.call, _ASKED.edits, _ASKED.edited


# Where a call goes


@pytest.mark.parametrize(
    ("model", "segment"),
    [
        ("claude-opus-5", b"claude-opus-5"),
        ("claude-sonnet-4-5@20250929", b"claude-sonnet-4-5@20250929"),
        ("claude-opus-5@default", b"claude-opus-5@default"),
        ("a b;?#%é~_-.", b"a%20b%3B%3F%23%25%C3%A9~_-."),
        ("...", b"..."),
        ("meta-maas-x", b"meta-maas-x"),
    ],
)
def test_a_model_stands_in_the_path(model: str, segment: bytes) -> None:
    assert call(model) == HostCall(b"POST", BASE + segment + b":rawPredict")
    assert call(model, stream=True).path == BASE + segment + b":streamRawPredict"


def test_tokens_are_counted_at_a_path_without_the_model() -> None:
    assert call("claude-opus-5", Operation.COUNT).target == BASE + b"count-tokens:rawPredict"
    assert call("claude-opus-5", Operation.COUNT, query=b"beta=true").query is None


@pytest.mark.parametrize("model", ["", ".", "..", "a:b", "a/b", "models/a", "a\ud800"])
def test_a_model_that_cannot_stand_in_the_path_is_refused(model: str) -> None:
    with pytest.raises(GatewayError) as caught:
        call(model)
    assert (caught.value.reason, caught.value.param) == (Reason.MALFORMED, "model")


@pytest.mark.parametrize("model", ["meta/llama-4", "claude-opus-5:beta"])
def test_a_model_that_is_no_id_is_refused_with_what_an_id_looks_like(model: str) -> None:
    with pytest.raises(GatewayError) as caught:
        call(model)
    assert caught.value.message == (
        "providers of kind vertex_anthropic expect a model id such as claude-sonnet-4-5@20250929, without "
        "':' and '/'; for models of other vendors, use a provider of kind openai_compat"
    )


@pytest.mark.parametrize("operation", [Operation.CHAT, Operation.COUNT])
@pytest.mark.parametrize(
    ("model", "kind"), [("gemini-2.5-pro", "kind gemini"), ("gpt-oss-120b-maas", "kind openai_compat")]
)
def test_models_of_other_vendors_are_refused_with_the_kind_that_serves_them(
    model: str, kind: str, operation: Operation
) -> None:
    with pytest.raises(GatewayError, match=kind) as caught:
        call(model, operation)
    assert caught.value.reason is Reason.UNSUPPORTED_BY_KIND


@pytest.mark.parametrize("operation", [Operation.RELAY, Operation.EMBED, Operation.SPEECH, Operation.MODELS])
def test_nothing_but_messages_and_counts_is_served(operation: Operation) -> None:
    with pytest.raises(GatewayError) as caught:
        call("m", operation)
    assert caught.value.reason is Reason.UNSUPPORTED_BY_KIND


def test_people_are_shown_where_a_message_goes() -> None:
    shown = chat_call(provider(), WIRE, "{model}").target
    assert shown_address(HOST, shown) == f"{HOST}/models/{{model}}:rawPredict"


# What becomes of a body


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"model":"m"}', f"{{{VERSION}}}"),
        ('{ "model" : "m" , "stream":true }', f'{{{VERSION}, "stream":true }}'),
        ('{"a":1.50, "model":"m", "b":"\\u00e9é"}', f'{{{VERSION},"a":1.50, "b":"\\u00e9é"}}'),
        ('{"model":"x","a":1,"model":"m","a":2,"stream":0}', f'{{{VERSION},"a":1,"a":2,"stream":0}}'),
        ('{"mod\\u0065l":"m","a":1}', f'{{{VERSION},"a":1}}'),
        ('{"model":"m","anthropic_version":"own","a":1}', '{"anthropic_version":"own","a":1}'),
        ('{"anthropic\\u005fversion":"own","model":"m"}', '{"anthropic\\u005fversion":"own"}'),
        ('{"a":{"model":1},"model":"m"}', f'{{{VERSION},"a":{{"model":1}}}}'),
    ],
)
def test_the_model_goes_and_the_version_comes(body: str, expected: str) -> None:
    assert edited(body) == expected


@pytest.mark.parametrize(
    ("stated", "counted"),
    [
        ('"claude-opus-5"', '"claude-opus-5"'),
        ('"claude-opus-5@20260101"', '"claude-opus-5@20260101"'),
        ('"claude-opus-5@default"', '"claude-opus-5"'),
        ('"claude-opus-5\\u0040latest"', '"claude-opus-5"'),
        ('"claude@default@latest"', '"claude@default"'),
        ('"claude@default "', '"claude@default "'),
        ("7", "7"),
    ],
)
def test_a_count_names_its_model_as_bodies_do(stated: str, counted: str) -> None:
    body = f'{{"max":1, "model" : {stated} , "stream":true}}'
    found = edited(body, operation=Operation.COUNT)
    assert found == f'{{{VERSION},"max":1, "model" : {counted} , "stream":true}}'


@given(members=objects(), around=st.tuples(WHITE, WHITE), counts=st.booleans())
def test_all_else_of_any_body_is_the_clients_byte_for_byte(
    members: list[tuple[str, str, str]], around: tuple[str, str], counts: bool
) -> None:
    body = f"{around[0]}{{{','.join(f'{key}:{value}' for _, key, value in members)}}}{around[1]}"
    operation = Operation.COUNT if counts else Operation.CHAT
    found = edited(body, operation=operation)
    cut = () if counts else ("model",)
    added = [("anthropic_version", "vertex-2023-10-16")]
    stated = {key for key, _, _ in members}
    assert pairs(found) == [pair for pair in added if pair[0] not in stated] + [
        pair for pair in pairs(body) if pair[0] not in cut
    ]
    untouched, position = [], 0
    for (start, end), _ in sorted(edits(body, operation=operation).edits):
        untouched.append(body.encode()[position:start])
        position = end
    untouched.append(body.encode()[position:])
    assert re.fullmatch(b".*".join(map(re.escape, untouched)), found.encode(), re.DOTALL)
    if "model" not in stated or counts:
        assert b"".join(untouched) == body.encode()


@pytest.mark.parametrize("body", ["[]", '"model"', "nothing", '{"a":1,}', "{", '{"a":1} {}'])
def test_what_is_no_object_is_refused(body: str) -> None:
    with pytest.raises(GatewayError) as caught:
        edits(body)
    assert caught.value.reason is Reason.MALFORMED


@pytest.mark.parametrize(
    ("stated", "version"),
    [
        (b"2023-06-01", "vertex-2023-10-16"),
        (b"2026-10-21", "2026-10-21"),
        (b"zzz", "vertex-2023-10-16"),
        (b'2026-10-21","x":"', "vertex-2023-10-16"),
    ],
)
@pytest.mark.parametrize("newer", [True, False])
def test_a_newer_version_goes_on_to_all_models(stated: bytes, version: str, newer: bool) -> None:
    found = edits('{"a":1}', [(b"Anthropic-Version", stated)], newer_versions=newer)
    assert found.edits[0][1] == f'"anthropic_version":"{version}",'.encode()
    assert found.refusable == (("anthropic_version",) if version.startswith("2026") else ())
    assert found.headers == [TYPE]


def test_a_version_that_was_refused_of_late_or_stands_in_the_body_is_not_sent() -> None:
    stated = [(b"anthropic-version", b"2026-10-21")]
    assert edited("{}", stated, refused=frozenset({"anthropic_version"})) == f"{{{VERSION}}}"
    assert edits('{"anthropic_version":"x"}', stated).refusable == ()


# Headers


def test_betas_go_on_as_a_header_and_the_others_are_reported() -> None:
    headers = [(b"anthropic-beta", b"one, two"), (b"Anthropic-Beta", b"three,two,one")]
    found = edits("{}", headers, provider(betas=["t*"]), refused=frozenset({"three"}))
    assert found.headers == [(b"anthropic-beta", b"two"), TYPE]
    assert found.dropped == ("anthropic-beta[one]", "anthropic-beta[three]")
    assert found.refusable == ("two",)
    renamed = edits("{}", [(b"beta-beta", b"advanced-tool-use-2025-11-20")])
    assert renamed.headers == [(b"anthropic-beta", b"tool-search-tool-2025-10-19"), TYPE]
    assert edits("{}", headers, provider(betas=[])).headers == [TYPE]


@pytest.mark.parametrize(
    "stated",
    [
        [],
        [(b"content-type", b"text/plain")],
        [(b"Content-Type", b"application/json; charset=latin-1"), (b"CONTENT-TYPE", b"image/png")],
    ],
)
@pytest.mark.parametrize("operation", [Operation.CHAT, Operation.COUNT])
def test_a_body_goes_as_json_whatever_the_client_calls_it(stated: RawHeaders, operation: Operation) -> None:
    found = edits('{"model":"m"}', [*stated, (b"User-Agent", b"sdk")], operation=operation)
    assert found.headers == [(b"User-Agent", b"sdk"), TYPE]


def test_no_other_header_of_anthropics_goes_on_even_if_it_is_forwarded() -> None:
    headers = [
        (b"User-Agent", b"anthropic/2.14"),
        (b"anthropic-version", b"2023-06-01"),
        (b"beta-version", b"2023-06-01"),
        (b"Anthropic-Dangerous-Direct-Browser-Access", b"true"),
        (b"anthropic-user-profile-id", b"u"),
        (b"X-Team", b"a"),
        (b"Content-Type", b"application/json"),
    ]
    of = provider(headers=HeadersSettings(forward=("anthropic-user-profile-id",)))
    assert edits("{}", headers, of).headers == [headers[0], headers[5], headers[6]]


@pytest.mark.parametrize("body", ["{}", ""])
def test_the_profile_of_a_user_has_no_place_there_and_is_reported(body: str) -> None:
    headers = [(b"Anthropic-User-Profile-Id", b"u"), (b"anthropic-beta", b"one")]
    found = edits(body, headers, provider(betas=[]))
    assert found.dropped == ("anthropic-beta[one]", "anthropic-user-profile-id")


# Refusals


GOOGLE: Final = {"error": {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED"}}
RETRY: Final = {
    "error": {
        **GOOGLE["error"],
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}],
    }
}
OWN: Final = {"type": "error", "error": {"type": "invalid_request_error", "message": "x"}}


def said(body: Any, status: int = 429) -> str | None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    error = WIRE.read_error(status, [], data)
    if error is None:
        return None
    assert error.status == status
    return error.message


@pytest.mark.parametrize("body", [GOOGLE, [GOOGLE], [GOOGLE, GOOGLE], RETRY])
def test_what_google_refuses_is_read(body: Any) -> None:
    assert said(body) == "Quota exceeded"


def test_a_pause_that_google_asks_for_is_kept() -> None:
    found = WIRE.read_error(429, [], json.dumps([RETRY]).encode())
    assert found is not None
    assert found.retry_after == 7.0


@pytest.mark.parametrize(
    "body",
    [
        OWN,
        {**OWN, "error": {**OWN["error"], "status": "x"}},  # type: ignore[dict-item]  # it is a mapping
        {**GOOGLE, "type": None},
        [OWN],
        [],
        {"error": "x"},
        {"error": {"message": "x"}},
        b"<html>",
        b"",
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_all_else_is_anthropics_or_nobodys(body: Any) -> None:
    assert said(body) is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html><title>Error 413 (Request Entity Too Large)!!1</title>", "Error 413"),
        (b"", "413"),
        ({"error": {"code": 413, "message": "too large", "status": "x"}}, "too large"),
        (OWN, None),
    ],
)
def test_a_request_that_is_too_large_may_be_refused_with_a_page(body: Any, message: str | None) -> None:
    found = said(body, 413)
    assert found is None if message is None else found is not None and message in found


# Health


def test_health_counts_the_tokens_of_a_word_for_the_first_model() -> None:
    found = probe_call(provider(models=["claude-opus-5@default", "x"]), WIRE)
    assert (found.method, found.target) == (b"POST", BASE + b"count-tokens:rawPredict")
    assert json.loads(found.body) == {
        "anthropic_version": "vertex-2023-10-16",
        "model": "claude-opus-5",
        "messages": [{"role": "user", "content": "hi"}],
    }
    assert probe_call(provider(), WIRE) == HostCall(b"GET", f"{PATH}/models".encode())
    assert not WIRE.has_list
