"""What the dashboard tells of the gateway, and the description of its API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types
from twisted.internet.task import Clock

from mgw.credentials.state import AccountState, CredentialState, State
from mgw.credentials.token_file import TokenFile
from mgw.dashboard.switch import DashboardSink
from mgw.exchange.offload import run_inline
from tests.support.configs import THREE_FAMILIES
from tests.support.dashboards import HERE, DashboardHarness
from tests.support.usage import exchange

NAMES = ("profiles", "requests", "sessions", "logs", "usage")


def ask(gateway: DashboardHarness, name: str) -> dict[str, Any]:  # Any: JSON
    response = gateway.ask(f"/v1/dashboard/{name}", host="localhost")
    assert (response.status, response.headers["content-type"]) == (200, "application/json")
    assert response.headers["cache-control"] == "no-store"
    found: dict[str, Any] = json.loads(response.body)
    return found


def schema_of(description: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = description["components"]["schemas"][name]
    return found


def test_the_description_is_of_what_is_served() -> None:
    gateway = DashboardHarness(THREE_FAMILIES, HERE)
    description = ask(gateway, "openapi.json")
    for path, item in description["paths"].items():
        for method in item.keys() - {"parameters"}:
            target, own = path.replace("{entry}", "none"), "Origin: http://localhost"
            response = gateway.ask(target, own, method=method.upper(), host="localhost")
            assert response.status != 405, (path, method)
            assert response.status in (200, 204) or "{" in path or path.endswith(("events", "usage")), (
                path,
                method,
            )
    for schema in description["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("name", NAMES)
def test_each_answer_fits_the_description(name: str) -> None:
    gateway = DashboardHarness(THREE_FAMILIES, HERE)
    description = ask(gateway, "openapi.json")
    answer = ask(gateway, name)
    assert not list(Draft202012Validator(schema_of(description, name)).iter_errors(answer))
    assert b"sk-" not in gateway.received().partition(b"\r\n\r\n")[2]


def test_completed_requests_fit_the_description() -> None:
    gateway = DashboardHarness(THREE_FAMILIES, HERE)
    schema = schema_of(ask(gateway, "openapi.json"), "requests")
    full = exchange(client="team", error="overloaded", cost_usd=0.25, dropped_fields=("a",), bytes_in=1)
    (sink,) = gateway.sinks
    assert isinstance(sink, DashboardSink)
    sink.record_all(iter([exchange(request_id="req_0"), full]))
    answer = ask(gateway, "requests")
    assert [row["request_id"] for row in answer["requests"]] == ["req_1", "req_0"]
    assert not list(Draft202012Validator(schema).iter_errors(answer))
    assert answer["requests"][0].keys() <= schema["properties"]["requests"]["items"]["properties"].keys()
    page = ask(gateway, "requests?limit=1")
    assert not list(Draft202012Validator(schema).iter_errors(page))
    assert "next" in page


def test_a_refusal_fits_the_description() -> None:
    gateway = DashboardHarness(THREE_FAMILIES, HERE)
    schema = schema_of(ask(gateway, "openapi.json"), "error")
    refusal = gateway.ask("/v1/dashboard/nothing", host="localhost")
    assert refusal.status == 404
    assert not list(Draft202012Validator(schema).iter_errors(json.loads(refusal.body)))


def test_the_providers_are_as_they_are_configured() -> None:
    answer = ask(DashboardHarness(THREE_FAMILIES, HERE), "profiles")
    first = answer["providers"][0]
    assert (first["name"], first["kind"], first["family"]) == ("main", "openai", "openai")
    assert first["defaults"] == ["openai"]
    assert first["credentials"]["mode"] == "api_key"
    assert first["credentials"]["state"] == "ready"
    assert len(first["credentials"]["key_hash"]) == 12
    assert answer["auth"] == "loopback"
    assert {"name": "fast", "targets": ["main/gpt-b"]} in answer["aliases"]
    assert answer["models"][0]["upstream_model"] == "gpt-b"


PRICED = f"""{THREE_FAMILIES}
prices:
  rows:
    - {{model: gpt-b, provider: main, input: 0.25, output: 2, cache_read: 0.025}}
    - {{model: "sound-*", per_minute: 0.006}}
"""


def test_a_model_of_the_catalog_has_the_price_of_its_row() -> None:
    answer = ask(DashboardHarness(PRICED, HERE), "profiles")
    price = {model["id"]: model.get("price") for model in answer["models"]}
    assert price["main/gpt-b"] == {"input": 0.25, "output": 2, "cache_read": 0.025}
    assert price["main/gpt-c"] is None


def test_an_answer_with_prices_fits_the_description() -> None:
    gateway = DashboardHarness(PRICED, HERE)
    schema = schema_of(ask(gateway, "openapi.json"), "profiles")
    assert not list(Draft202012Validator(schema).iter_errors(ask(gateway, "profiles")))


def test_a_token_file_that_nobody_has_read_is_unknown() -> None:
    found = TokenFile("main", "/nowhere/token", Clock(), run_inline).describe(0.0)
    assert found.state is State.UNKNOWN
    assert found.key_hash is not None


def test_a_state_holds_no_token() -> None:
    assert {*CredentialState.__struct_fields__, *AccountState.__struct_fields__} == {
        *("state", "key_hash", "expires", "accounts", "name", "rests_until")
    }
