"""Health and live lists of Bedrock, which another host answers than the models' own."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, Final

import pytest
from twisted.internet.defer import Deferred

from mgw.ops.live_models import LiveModels
from mgw.ops.provider_health import ProviderHealth
from mgw.wire.headers import value_of
from tests.support.deferreds import result_of
from tests.support.pipelines import Pipeline
from tests.support.probes import Providers
from tests.support.timed_auth import SIGNATURE, TIME, signature
from tests.support.timed_source import TimedKeys

CONFIG: Final = """
providers:
  host: {kind: bedrock, base_url: "https://bedrock-runtime.us-east-1.amazonaws.com", api_key: b-canary}
health_checks: {enabled: true}
"""
MODELS: Final = "/foundation-models?byProvider=anthropic&byOutputModality=TEXT"


def respond(providers: Providers, status: bytes, document: Any, *headers: bytes) -> None:
    body = json.dumps(document).encode()
    lines = b"".join(b"%b\r\n" % header for header in headers)
    head = b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n" % (status, lines, len(body))
    providers.connection("host").send(head + body)


def health(providers: Providers, status: bytes, document: Any, *headers: bytes) -> Any:
    asking = Deferred.fromCoroutine(ProviderHealth(providers.probe).report(providers.generation))
    assert providers.target("host") == MODELS
    assert providers.headers("host")["host"] == "bedrock.us-east-1.amazonaws.com"
    respond(providers, status, document, *headers)
    [found] = json.loads(result_of(asking))["providers"]
    return found["status"], found["error"]


@pytest.mark.parametrize(
    ("status", "name", "error"),
    [
        (b"200 OK", None, None),
        (b"403 Forbidden", "AccessDeniedException", None),
        (b"403 Forbidden", "UnrecognizedClientException", "unauthorized"),
        (b"403 Forbidden", None, "unauthorized"),
        (b"400 Bad Request", "AccessDeniedException", "bad_status"),
        (b"500 Error", None, "bad_status"),
    ],
)
def test_health_asks_the_host_that_controls_bedrock(
    status: bytes, name: str | None, error: str | None
) -> None:
    headers = [] if name is None else [b"x-amzn-ErrorType: %b:" % name.encode()]
    found = health(Providers(CONFIG), status, {"modelSummaries": []}, *headers)
    assert found == ("ok" if error is None else "error", error)


def test_a_list_has_the_models_and_the_pages_of_their_profiles() -> None:
    providers = Providers(CONFIG)
    asking = Deferred.fromCoroutine(LiveModels(providers.probe, pytest.fail).ask(providers.generation, None))
    model = {
        "modelId": "anthropic.a",
        "inferenceTypesSupported": ["ON_DEMAND"],
        "modelLifecycle": {"status": "ACTIVE"},
    }
    arn = "arn:aws:bedrock:us-east-1::foundation-model/anthropic.a"
    profiles = [
        {"inferenceProfileId": f"{region}.anthropic.a", "status": "ACTIVE", "models": [{"modelArn": arn}]}
        for region in ("us", "global")
    ]
    respond(providers, b"200 OK", {"modelSummaries": [model]})
    respond(providers, b"200 OK", {"inferenceProfileSummaries": profiles[:1], "nextToken": "more"})
    respond(providers, b"200 OK", {"inferenceProfileSummaries": profiles[1:]})
    assert [one.id for one in result_of(asking)["host"]] == [
        "anthropic.a",
        "us.anthropic.a",
        "global.anthropic.a",
    ]
    targets = [request.split(b" ")[1].decode() for request in providers.requests("host")]
    assert targets == [
        MODELS,
        "/inference-profiles?maxResults=1000",
        "/inference-profiles?maxResults=1000&nextToken=more",
    ]


def test_the_other_host_is_closed_with_the_first() -> None:
    providers = Providers(CONFIG)
    _ = health(providers, b"200 OK", {"modelSummaries": []})
    upstream = providers.generation.upstreams["host"]
    assert upstream.other is not None
    assert upstream.other.idle == 1
    upstream.close()
    providers.endpoints["host"].settle()
    assert upstream.other.idle == 0


def test_a_list_is_signed_for_the_host_that_is_asked() -> None:
    providers = Providers(pipeline=Pipeline(CONFIG, sources={"host": TimedKeys("timed-canary")}))
    asking = Deferred.fromCoroutine(ProviderHealth(providers.probe).report(providers.generation))
    line, *rows = providers.requests("host")[-1].split(b"\r\n")
    headers = [(name, value) for name, _, value in (row.partition(b": ") for row in rows)]
    when = value_of(headers, TIME.lower()) or b""
    target = line.split(b" ")[1]
    expected = signature(b"timed-canary", b"GET", target, headers, sha256(b"").digest(), when)
    assert value_of(headers, SIGNATURE.lower()) == expected
    assert value_of(headers, b"host") == b"bedrock.us-east-1.amazonaws.com"
    respond(providers, b"200 OK", {"modelSummaries": []})
    assert result_of(asking)
