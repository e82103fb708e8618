"""Calls, bodies and headers as Bedrock takes them."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.config.provider import HeadersSettings
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Kind, Operation
from mgw.upstream.address import shown_address
from mgw.upstream.wires.bedrock import WIRE, control_origin, list_query, read_list
from mgw.upstream.wires.wire import HostCall, chat_call, list_call, probe_call
from tests.support.asked_wires import AskedWire, asked

HOST: Final = "https://bedrock-runtime.eu-central-1.amazonaws.com"
ARN: Final = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123def456"
TYPE: Final = (b"Content-Type", b"application/json")
ACCEPT: Final = (b"Accept", b"application/json")
WHITE: Final = st.text(" \t\r\n", max_size=3)
VERSION: Final = '"anthropic_version":"bedrock-2023-05-31"'


_ASKED: Final = AskedWire(WIRE, Kind.BEDROCK, HOST)
provider, call, edits, edited = _ASKED.provider, _ASKED.call, _ASKED.edits, _ASKED.edited


# Where a call goes


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("anthropic.claude-opus-5", b"/model/anthropic.claude-opus-5/invoke"),
        ("us.anthropic.claude-haiku-4-5-v1:0", b"/model/us.anthropic.claude-haiku-4-5-v1:0/invoke"),
        (ARN, b"/model/%b/invoke" % ARN.replace("/", "%2F").encode()),
        ("a b?#%é~_-.", b"/model/a%20b%3F%23%25%C3%A9~_-./invoke"),
        ("../x", b"/model/..%2Fx/invoke"),
        ("...", b"/model/.../invoke"),
    ],
)
def test_a_model_stands_in_one_segment_of_the_path(model: str, path: bytes) -> None:
    assert call(model) == HostCall(b"POST", path)


def test_a_stream_and_a_count_have_paths_of_their_own() -> None:
    assert call("m", stream=True).path == b"/model/m/invoke-with-response-stream"
    assert call("m", Operation.COUNT).path == b"/model/m/count-tokens"
    below = WIRE.call(provider("http://127.0.0.1:8080/aws"), asked("m"))
    assert below.target == b"/aws/model/m/invoke"


@pytest.mark.parametrize("model", ["", ".", "..", "a\ud800"])
def test_a_model_that_cannot_stand_in_a_path_is_refused(model: str) -> None:
    with pytest.raises(GatewayError) as caught:
        call(model)
    assert (caught.value.reason, caught.value.param) == (Reason.MALFORMED, "model")


@pytest.mark.parametrize(
    ("model", "counted"),
    [
        ("us.anthropic.claude-opus-5", "anthropic.claude-opus-5"),
        ("us-gov.anthropic.claude-x", "anthropic.claude-x"),
        ("global.anthropic.claude-x-v1:0", "anthropic.claude-x-v1:0"),
        ("newregion.anthropic.claude-x", "anthropic.claude-x"),
        ("anthropic.claude-x", "anthropic.claude-x"),
        ("claude", "claude"),
        (ARN, ARN.replace("/", "%2F")),
        ("arn:aws:bedrock:us-east-1::inference-profile/us.anthropic.claude-x",) * 2,
    ],
)
def test_tokens_are_counted_by_the_model_behind_a_profile(model: str, counted: str) -> None:
    expected = counted.replace("/", "%2F")
    assert call(model, Operation.COUNT).path == f"/model/{expected}/count-tokens".encode()


@pytest.mark.parametrize(
    ("model", "vendor"),
    [
        ("amazon.nova-pro-v1:0", "amazon"),
        ("us.meta.llama3-3-70b-instruct-v1:0", "meta"),
        ("apac.amazon.nova-lite-v1:0", "amazon"),
        ("us-gov.mistral.mistral-large", "mistral"),
        ("openai.gpt-oss-120b-1:0", "openai"),
        ("ai21.jamba-1-5-large-v1:0", "ai21"),
    ],
)
def test_models_of_other_vendors_are_refused_with_the_kind_that_serves_them(model: str, vendor: str) -> None:
    for operation in (Operation.CHAT, Operation.COUNT):
        with pytest.raises(GatewayError) as caught:
            call(model, operation)
        assert caught.value.reason is Reason.UNSUPPORTED_BY_KIND
        assert repr(vendor) in caught.value.message
        assert (
            "by OpenAI's API, use a provider of kind openai_compat with auth: aws and a base_url"
            in caught.value.message
        )


@pytest.mark.parametrize("model", ["claude", "claude-3.5-sonnet", "eu.anthropic.x", "ca.anthropic.x", ARN])
def test_models_of_no_other_vendor_pass(model: str) -> None:
    assert call(model).path.endswith(b"/invoke")


@pytest.mark.parametrize("operation", [Operation.RELAY, Operation.EMBED, Operation.SPEECH])
def test_nothing_but_messages_and_counts_is_served(operation: Operation) -> None:
    with pytest.raises(GatewayError) as caught:
        call("m", operation)
    assert caught.value.reason is Reason.UNSUPPORTED_BY_KIND


def test_people_are_shown_where_a_message_goes() -> None:
    shown = chat_call(provider(), WIRE, "{model}").target
    assert shown_address(HOST, shown) == f"{HOST}/model/{{model}}/invoke"


# What becomes of a body


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"model":"m"}', f"{{{VERSION}}}"),
        ('{ "model" : "m" , "stream":true }', f"{{{VERSION}  }}"),
        ('{"model":"m","max_tokens":1}', f'{{{VERSION},"max_tokens":1}}'),
        ('{"max_tokens":1,"model":"m"}', f'{{{VERSION},"max_tokens":1}}'),
        ('{"a":1.50, "model":"m", "b":"\\u00e9é"}', f'{{{VERSION},"a":1.50, "b":"\\u00e9é"}}'),
        ('{"a":1,"stream":true,"model":"m","b":2}', f'{{{VERSION},"a":1,"b":2}}'),
        ('{"model":"x","a":1,"model":"m","a":2,"stream":0}', f'{{{VERSION},"a":1,"a":2}}'),
        ('{"mod\\u0065l":"m","\\u0073tream":true,"a":1}', f'{{{VERSION},"a":1}}'),
        ('\n{"a":{"model":1,"stream":[{"model":2}]},"model":"m"}\n', None),
        ('{"model":"m","anthropic_version":"own","a":1}', '{"anthropic_version":"own","a":1}'),
        ('{"anthropic\\u005fversion":"own","model":"m"}', '{"anthropic\\u005fversion":"own"}'),
        ('{"a":"\\ud83d","model":"m"}', f'{{{VERSION},"a":"\\ud83d"}}'),
    ],
)
def test_the_model_and_the_stream_go_and_the_version_comes(body: str, expected: str | None) -> None:
    if expected is None:
        expected = f'\n{{{VERSION},"a":{{"model":1,"stream":[{{"model":2}}]}}}}\n'
    assert edited(body) == expected


KEYS: Final = st.sampled_from(
    ["model", "stream", "anthropic_version", "anthropic_beta", "user_profile_id", "a", "models", "b"]
)
JSON: Final = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=6,
)


@st.composite
def spelled_keys(draw: st.DrawFn, key: str) -> str:
    return '"' + "".join(draw(st.sampled_from([one, f"\\u{ord(one):04x}"])) for one in key) + '"'


@st.composite
def objects(draw: st.DrawFn) -> list[tuple[str, str, str]]:
    """Return members: the key, how it is spelled, and the value; with any white space around them."""
    found = []
    for key in draw(st.lists(KEYS, max_size=7)):
        value = json.dumps(
            draw(JSON), ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1]))
        )
        spelled = f"{draw(WHITE)}{draw(spelled_keys(key))}{draw(WHITE)}"
        found.append((key, spelled, f"{draw(WHITE)}{value}{draw(WHITE)}"))
    return found


def pairs(body: str) -> list[tuple[str, Any]]:
    found: Any = json.loads(body, object_pairs_hook=lambda members: members)
    return [] if found == {} else found


@given(
    members=objects(),
    around=st.tuples(WHITE, WHITE),
    betas=st.lists(st.sampled_from(["one", "two"]), max_size=2),
    profile=st.sampled_from([None, "user-1"]),
)
def test_what_is_left_of_any_body_is_the_clients_byte_for_byte(
    members: list[tuple[str, str, str]], around: tuple[str, str], betas: list[str], profile: str | None
) -> None:
    body = f"{around[0]}{{{','.join(f'{key}:{value}' for _, key, value in members)}}}{around[1]}"
    headers = [(b"anthropic-beta", beta.encode()) for beta in betas]
    headers += [] if profile is None else [(b"anthropic-user-profile-id", profile.encode())]
    found = edited(body, headers)
    stated = {key for key, _, _ in members}
    added: list[tuple[str, Any]] = [("anthropic_version", "bedrock-2023-05-31")]
    if betas:
        added.append(("anthropic_beta", list(dict.fromkeys(betas))))
    if profile is not None:
        added.append(("user_profile_id", profile))
    kept = [(key, value) for key, value in pairs(body) if key not in ("model", "stream")]
    assert pairs(found) == [pair for pair in added if pair[0] not in stated] + kept
    left = [value.strip() for key, _, value in members if key not in ("model", "stream")]
    keys = [spelled.strip() for key, spelled, _ in members if key not in ("model", "stream")]
    assert re.search(
        r"\s*,\s*".join(
            rf"{re.escape(key)}\s*:\s*{re.escape(value)}" for key, value in zip(keys, left, strict=True)
        ),
        found,
    )
    whole = edits(body, headers)
    untouched, position = [], 0
    for (start, end), _ in sorted(whole.edits):
        untouched.append(body.encode()[position:start])
        position = end
    untouched.append(body.encode()[position:])
    assert re.fullmatch(b".*".join(map(re.escape, untouched)), found.encode(), re.DOTALL)


@pytest.mark.parametrize("body", ["[]", '"model"', "1", "nothing", '{"a":1,}', "{", '{"a":1} {}'])
def test_what_is_no_object_is_refused(body: str) -> None:
    with pytest.raises(GatewayError) as caught:
        edits(body)
    assert caught.value.reason is Reason.MALFORMED


@pytest.mark.parametrize(
    ("stated", "newer", "version"),
    [
        (b"2023-06-01", True, "bedrock-2023-05-31"),
        (b"2023-01-01", True, "bedrock-2023-05-31"),
        (b"2026-10-21", True, "2026-10-21"),
        (b"2026-10-21", False, "bedrock-2023-05-31"),
        (b"zzz", True, "bedrock-2023-05-31"),
        (b'2026-10-21","x":"', True, "bedrock-2023-05-31"),
    ],
)
def test_a_newer_version_goes_on_to_models_that_take_it(stated: bytes, newer: bool, version: str) -> None:
    found = edits('{"a":1}', [(b"Anthropic-Version", stated)], newer_versions=newer)
    assert found.edits[0][1] == f'"anthropic_version":"{version}",'.encode()
    assert found.refusable == (("anthropic_version",) if version.startswith("2026") else ())


def test_a_version_that_was_refused_of_late_is_not_sent() -> None:
    stated = [(b"anthropic-version", b"2026-10-21")]
    refused = frozenset({"anthropic_version"})
    assert edited("{}", stated, refused=refused) == f"{{{VERSION}}}"


def test_betas_go_into_the_body_and_the_others_are_reported() -> None:
    headers = [(b"anthropic-beta", b"one, two"), (b"Anthropic-Beta", b"three,one")]
    of = provider(betas=["t*"])
    found = edits('{"a":1}', headers, of, refused=frozenset({"three"}))
    assert found.edits[0][1] == f'{VERSION},"anthropic_beta":["two"],'.encode()
    assert found.dropped == ("anthropic-beta[one]", "anthropic-beta[three]")
    assert found.refusable == ("two",)


@pytest.mark.parametrize(
    ("stated", "dropped"),
    [
        ('["x"]', ["one", "two", "advanced-tool-use-2025-11-20"]),
        ('["two", "x"]', ["one", "advanced-tool-use-2025-11-20"]),
        ('["tool-search-tool-2025-10-19"]', ["one", "two"]),
        ('["advanced-tool-use-2025-11-20"]', ["one", "two"]),
        ("[]", ["one", "two", "advanced-tool-use-2025-11-20"]),
        ("null", ["one", "two", "advanced-tool-use-2025-11-20"]),
        ('["two"],"anthropic_beta":[1]', ["one", "two", "advanced-tool-use-2025-11-20"]),
        ('["one"],"anthropic_beta":["two"]', ["one", "advanced-tool-use-2025-11-20"]),
    ],
)
def test_betas_that_stand_in_the_body_are_the_clients_and_others_are_reported(
    stated: str, dropped: list[str]
) -> None:
    headers = [(b"anthropic-beta", b"one,two,one"), (b"anthropic-beta", b"advanced-tool-use-2025-11-20")]
    for of in (provider(), provider(betas=["t*"])):
        found = edits(f'{{"anthropic_beta":{stated}}}', headers, of)
        assert (found.edits[0][1], found.refusable) == (f"{VERSION},".encode(), ())
        assert found.dropped == tuple(f"anthropic-beta[{name}]" for name in dropped)


@pytest.mark.parametrize(
    ("body", "counted"),
    [
        ('{"model":"m","messages":[]}', f'{{{VERSION},"max_tokens":1,"messages":[]}}'),
        ('{"model":"m","max_tokens":7}', f'{{{VERSION},"max_tokens":7}}'),
    ],
)
def test_a_count_has_the_body_in_base64(body: str, counted: str) -> None:
    found = json.loads(edited(body, operation=Operation.COUNT))
    assert found.keys() == {"input"}
    assert b64decode(found["input"]["invokeModel"]["body"]).decode() == counted


# Headers


def test_few_of_a_clients_headers_go_on() -> None:
    headers = [
        (b"User-Agent", b"anthropic/2.14"),
        (b"traceparent", b"00-1"),
        (b"anthropic-version", b"2023-06-01"),
        (b"anthropic-beta", b"x"),
        (b"anthropic-user-profile-id", b"u"),
        (b"X-Stainless-Lang", b"python"),
        (b"Accept", b"*/*"),
        (b"Content-Type", b"text/plain"),
        (b"Accept-Encoding", b"gzip"),
        (b"Idempotency-Key", b"1"),
        (b"X-Amzn-Bedrock-Trace", b"ENABLED"),
        (b"X-Amz-Date", b"now"),
        (b"X-Team", b"a"),
    ]
    forward = ("X-Team", "X-Amzn-Bedrock-Trace", "x-amz-date", "Accept", "anthropic-beta")
    few = [*headers[:2]]
    assert edits("{}", headers).headers == [*few, TYPE, ACCEPT]
    of = provider(headers=HeadersSettings(forward=forward))
    more = edits("{}", headers, of).headers
    assert more == [*few, (b"X-Amzn-Bedrock-Trace", b"ENABLED"), (b"X-Team", b"a"), TYPE, ACCEPT]
    streamed = edits("{}", headers, stream=True).headers
    assert streamed == [*few, TYPE, (b"Accept", b"application/vnd.amazon.eventstream")]


def test_sdks_find_the_id_of_a_request_where_anthropic_has_it() -> None:
    assert WIRE.added_headers is not None
    assert WIRE.added_headers([(b"x-amzn-RequestId", b"1-2")]) == [(b"request-id", b"1-2")]
    assert WIRE.added_headers([(b"x-amzn-requestid", b"1"), (b"Request-Id", b"2")]) == []
    assert WIRE.added_headers([]) == []


# Lists


@pytest.mark.parametrize(
    ("base_url", "origin"),
    [
        (HOST, "https://bedrock.eu-central-1.amazonaws.com"),
        (
            "https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/x",
            "https://bedrock-fips.us-gov-west-1.amazonaws.com",
        ),
        ("http://bedrock-runtime.local:8080", "http://bedrock.local:8080"),
        ("http://127.0.0.1:8080/aws", None),
        ("https://vpce-1.bedrock-runtime.us-east-1.vpce.amazonaws.com", None),
        ("https://my-bedrock-runtime.example", None),
    ],
)
def test_models_are_listed_at_the_host_that_controls_bedrock(base_url: str, origin: str | None) -> None:
    found = probe_call(provider(base_url), WIRE)
    assert (control_origin(provider(base_url)), found.origin) == (origin, origin)
    assert (found.method, found.target) == (
        b"GET",
        b"/foundation-models?byProvider=anthropic&byOutputModality=TEXT",
    )


def test_behind_the_models_their_profiles_are_listed_page_by_page() -> None:
    paths = [list_call(provider(), WIRE, list_query(1000, page)).target for page in (None, "", "a/b=")]
    assert paths == [
        b"/foundation-models?byProvider=anthropic&byOutputModality=TEXT",
        b"/inference-profiles?maxResults=1000",
        b"/inference-profiles?maxResults=1000&nextToken=a%2Fb%3D",
    ]


def test_models_are_listed_that_can_be_asked_by_their_own_id() -> None:
    models: list[dict[str, Any]] = [
        {"modelId": "anthropic.a", "modelName": "A", "inferenceTypesSupported": ["ON_DEMAND"]},
        {"modelId": "anthropic.b", "inferenceTypesSupported": ["INFERENCE_PROFILE"]},
        {"modelId": "anthropic.c", "inferenceTypesSupported": ["ON_DEMAND"]},
    ]
    for model, status in zip(models, ["ACTIVE", "ACTIVE", "LEGACY"], strict=True):
        model["modelLifecycle"] = {"status": status}
    page = read_list(json.dumps({"modelSummaries": models}).encode())
    assert [(model.id, model.display_name) for model in page.models] == [("anthropic.a", "A")]
    assert page.next_page == ""


def test_profiles_are_listed_that_use_models_of_anthropics_alone() -> None:
    arn = "arn:aws:bedrock:us-east-1::foundation-model/"
    profiles = [
        {"inferenceProfileId": "us.anthropic.a", "inferenceProfileName": "US A", "status": "ACTIVE"},
        {"inferenceProfileId": "us.anthropic.b", "status": "DISABLED"},
        {"inferenceProfileId": "us.meta.c", "status": "ACTIVE"},
        {"inferenceProfileId": "none", "status": "ACTIVE"},
    ]
    names = [["anthropic.a", "anthropic.a"], ["anthropic.b"], ["meta.c", "anthropic.a"], []]
    for profile, models in zip(profiles, names, strict=True):
        profile["models"] = [{"modelArn": arn + name} for name in models]  # type: ignore[assignment]  # JSON
    body = json.dumps({"inferenceProfileSummaries": profiles, "nextToken": "more"}).encode()
    page = read_list(body)
    assert [(model.id, model.display_name) for model in page.models] == [("us.anthropic.a", "US A")]
    assert page.next_page == "more"


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"modelSummaries":1}', b"[" * 5000])
def test_what_is_no_list_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="list of models"):
        read_list(body)
