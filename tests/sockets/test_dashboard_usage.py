"""What the dashboard says of usage events, over sockets: the same as the events' lines and ``mgw usage``."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from tests.support.commands import run_mgw
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.simulator import SimulatorProcess, start_simulator
from tests.support.waiting import WAIT_SECONDS, wait_until

Json = dict[str, Any]  # Any: JSON
GROUPS = ("provider", "model", "client", "status", "error", "route", "key")
STATUSES = {"answered": "ok", "failed": "upstream_error", "rejected": "rejected", "aborted": "client_abort"}
TOKENS = ("tokens_in", "tokens_out", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


@pytest.fixture(scope="module")
def simulator() -> Iterator[SimulatorProcess]:
    with start_simulator() as simulator:
        yield simulator


def configuration(simulator: SimulatorProcess, hooks: str = "") -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary-openai}}
  claude: {{kind: anthropic, base_url: "{simulator.url}/v1", api_key: sk-ant-canary}}
defaults: {{openai_dialect: main}}
prices: {{rows: [{{model: "gpt-*", input: 2.5, output: 10}}]}}
hooks: {{jsonl: {{output: stdout}}{hooks}}}
listen: 127.0.0.1:0
dashboard: {{enabled: true}}
"""


def usage(gateway: GatewayProcess, **parameters: str) -> Json:
    path = f"/v1/dashboard/usage?{urllib.parse.urlencode(parameters)}"
    found: Json = json.loads(gateway.get(path))
    return found


def chat(gateway: GatewayProcess, *models: str) -> None:
    """Send a request for each model; one that no provider has is refused."""
    for model in models:
        body = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
        request = urllib.request.Request(
            f"{gateway.url}/v1/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json", "Authorization": "Bearer k"},
        )
        try:
            with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
                answer.read()
        except urllib.error.HTTPError as refusal:
            refusal.read()


def sums_of(events: Sequence[Json]) -> Json:
    """What lines add up to, as answers have it."""
    found: Json = {"requests": len(events)}
    for name, status in STATUSES.items():
        found[name] = sum(event["status"] == status for event in events)
    for name in TOKENS:
        values = [event[name] for event in events if name in event]
        if values:
            found[name] = sum(values)
    costs = [round(event["cost_usd"] * 10**9) for event in events if "cost_usd" in event]
    if costs:
        found["cost_usd"] = sum(costs) / 10**9
    return found


def said_of(row: Json) -> Json:
    """The same of a row of an answer."""
    names = ("requests", *STATUSES, *TOKENS, "cost_usd")
    return {name: row[name] for name in names if row.get(name) is not None}


def by_model(events: Sequence[Json]) -> dict[str, Json]:
    models = {event["model"] for event in events}
    return {model: sums_of([event for event in events if event["model"] == model]) for model in models}


def command(database: Path) -> dict[str, Json]:
    """What ``mgw usage`` says, by model."""
    ran = run_mgw(["usage", "--database", str(database), "--format", "json"])
    assert ran.returncode == 0, ran.stderr
    return {row["model"]: said_of(row) for row in json.loads(ran.stdout)}


def reload(gateway: GatewayProcess, text: str, generation: int) -> None:
    gateway.rewrite(text)
    gateway.signal(signal.SIGHUP)
    gateway.log(b"the configuration was reloaded: generation %d\n" % generation)


def test_the_dashboard_the_lines_and_the_command_agree_wherever_the_events_are(
    simulator: SimulatorProcess, tmp_path: Path
) -> None:
    database = tmp_path / "usage.db"
    with start_gateway(configuration(simulator)) as gateway:
        chat(gateway, "gpt-5", "gpt-5", "claude/claude-5", "o-9", "claude/", "nobody/nothing")
        first = gateway.events(6)
        answer = usage(gateway, by="model")
        assert answer["source"] == "memory"
        assert said_of(answer["totals"]) == sums_of(first)
        assert {row["key"]: said_of(row) for row in answer["groups"]} == by_model(first)
        assert answer["totals"]["latency_ms_p95"] > 0

        reload(gateway, configuration(simulator, f", sqlite: {{path: {database}}}"), 2)
        assert usage(gateway)["source"] == "sqlite"
        chat(gateway, "gpt-5", "claude/claude-5", "gpt-4")
        second = gateway.events(9)[6:]
        wait_until(lambda: usage(gateway)["totals"]["requests"] == 3, "the events in the file")
        answer = usage(gateway, by="model")
        assert said_of(answer["totals"]) == sums_of(second)
        assert {row["key"]: said_of(row) for row in answer["groups"]} == by_model(second)
        assert command(database) == by_model(second)

        reload(gateway, configuration(simulator), 3)
        chat(gateway, "gpt-5")
        events = gateway.events(10)
        answer = usage(gateway)
        assert answer["source"] == "memory"
        assert said_of(answer["totals"]) == sums_of(events[-1:])  # it begins anew


ANSWERS = ("profiles", "requests", "sessions", "logs", *(f"usage?by={by}" for by in GROUPS))


def test_what_is_answered_of_real_traffic_fits_the_description(
    simulator: SimulatorProcess, tmp_path: Path
) -> None:
    for hooks in ("", f", sqlite: {{path: {tmp_path / 'usage.sqlite'}}}"):
        with start_gateway(configuration(simulator, hooks)) as gateway:
            chat(gateway, "gpt-5", "claude/claude-5", "o-9", "nobody/nothing")
            wait_until(lambda: usage(gateway)["totals"]["requests"] == 4, "four events")
            description = json.loads(gateway.get("/v1/dashboard/openapi.json"))
            for name in ANSWERS:
                answer = json.loads(gateway.get(f"/v1/dashboard/{name}"))
                schema = description["components"]["schemas"][name.partition("?")[0]]
                assert not list(Draft202012Validator(schema).iter_errors(answer)), name


def test_a_query_that_makes_no_sense_is_refused_as_openai_does(simulator: SimulatorProcess) -> None:
    with start_gateway(configuration(simulator)) as gateway:
        with pytest.raises(urllib.error.HTTPError) as refused:
            gateway.get("/v1/dashboard/usage?by=day")
        assert refused.value.code == 400
        error = json.loads(refused.value.read())["error"]
        assert (error["type"], error["param"]) == ("invalid_request_error", "by")
        assert gateway.get("/v1/dashboard/usage?since=2026-01-01T00:00:00Z&until=2026-01-02T00:00:00Z")
