"""Limits as an operator sees them: the command, the dashboard, metrics and events of a gateway agree."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from tests.support.commands import run_mgw
from tests.support.deployment import providers
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.redis_server import PASSWORD, RedisServer, needs_redis
from tests.support.simulator import SimulatorProcess, start_simulator
from tests.support.waiting import WAIT_SECONDS, wait_until

KEY: Final = "edge-canary-of-alice"
DASHBOARD: Final = "edge-canary-dashboard"
HEAD: Final = {"Authorization": f"Bearer {DASHBOARD}"}
WATCHER: Final = "edge-canary-of-nobody"
METRICS: Final = {"Authorization": f"Bearer {WATCHER}"}
TOKENS: Final = 4
"""The tokens of each request."""
COST: Final = 0.05
"""What it costs."""


@pytest.fixture(scope="module")
def simulator() -> Iterator[SimulatorProcess]:
    with start_simulator() as simulator:
        yield simulator


def config_text(url: str, folder: Path, more: str = "") -> str:
    return (
        providers(url)
        + f"""
prices: {{rows: [{{model: "*", input: 12500, output: 12500}}]}}
limit_store: {folder}/limits.db
dashboard: {{enabled: true, keys: [{DASHBOARD}]}}
edge_auth:
  enabled: true
  limits: [{{requests: 100, per: total}}, {{tokens: 90000, per: day, each: true}}]
  groups: {{research: {{limits: [{{usd: 0.1, per: month, warn: [0.5]}}], tags: {{cost_center: "4711"}}}}}}
  keys:
    - {{name: alice, key: {KEY}, groups: [research], tags: {{team: nlp}}}}
    - {{name: watcher, key: {WATCHER}}}
hooks: {{jsonl: {{output: stdout}}, sqlite: {{path: {folder}/usage.db}}}}
{more}
"""
    )


def ask(gateway: GatewayProcess) -> int:
    """Send a request; return its status once it is counted, as its event shows."""
    before = gateway.stdout.data.count(b"\n")
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}
    head = {"Authorization": f"Bearer {KEY}"}
    answer = httpx2.post(f"{gateway.url}/v1/chat/completions", json=body, headers=head, timeout=WAIT_SECONDS)
    gateway.events(before + 1)
    if answer.status_code == 200:
        assert answer.json()["usage"]["total_tokens"] == TOKENS
    else:
        assert answer.json()["error"]["code"] == "insufficient_quota"
    return answer.status_code


def budget(
    gateway: GatewayProcess, *arguments: str, environ: Mapping[str, str] | None = None
) -> Any:  # Any: JSON
    done = run_mgw(["budget", *arguments, "-c", str(gateway.config_file)], environ=environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if "json" in arguments else done.stdout.decode()


def rows(gateway: GatewayProcess) -> dict[tuple[str, str], Any]:  # Any: JSON
    found = budget(gateway, "show", "--format", "json")
    assert json.loads(gateway.get("/v1/dashboard/limits", HEAD))["limits"] == found
    return {(row["holder"], row["limit"]): row for row in found}


def settled(gateway: GatewayProcess, wanted: float) -> dict[tuple[str, str], Any]:
    """The rows, once what was spent is in the file."""
    place = ("group:research", "usd_per_month")
    wait_until(lambda: rows(gateway)[place]["used"] == wanted, f"{wanted} is used")
    return rows(gateway)


@pytest.mark.parametrize("workers", ["", "workers: 2"])
def test_the_command_the_dashboard_metrics_and_events_agree(
    simulator: SimulatorProcess, tmp_path: Path, workers: str
) -> None:
    with start_gateway(config_text(simulator.url, tmp_path, workers)) as gateway:
        unused = rows(gateway)
        assert list(unused) == [("gateway", "requests_total"), ("group:research", "usd_per_month")]
        assert [row["used"] for row in unused.values()] == [0, 0]
        assert [ask(gateway), ask(gateway)] == [200, 200]
        found = settled(gateway, 2 * COST)
        assert ask(gateway) == 429
        spent = found["group:research", "usd_per_month"]
        assert (spent["max"], spent["reserved"], spent["resets"][-1]) == (0.1, 0, "Z")
        assert found["gateway", "requests_total"]["used"] == 2
        assert "resets" not in found["gateway", "requests_total"]
        assert found["gateway/alice", "tokens_per_day"]["used"] == 2 * TOKENS
        _compare_metrics(gateway)
        _compare_events(gateway, tmp_path)
        text = budget(gateway, "show", "--holder", "group:*")
        head, line = text.splitlines()
        assert head.split() == ["holder", "limit", "period", "used", "reserved", "max", "resets"]
        assert line.split()[:2] == ["group:research", "usd_per_month"]
        assert budget(gateway, "show", "--format", "csv").startswith("holder,limit,period,used,reserved,max,")

        said = budget(gateway, "reset", "group:research", "--limit", "usd_per_month")
        assert said == "group:research usd_per_month: 0 used\n"
        assert rows(gateway)["group:research", "usd_per_month"]["used"] == 0
        assert ask(gateway) == 200
        settled(gateway, COST)
        budget(gateway, "reset", "group:research", "--to", "0.1")
        assert ask(gateway) == 429
        assert gateway.log(b"limit warning: group:research has reached 50% of usd_per_month (request_id=")
    assert not [file for file in os.listdir(tmp_path) if file.endswith(".lock")]


def _compare_metrics(gateway: GatewayProcess) -> None:
    labels = 'holder="group:research",limit="usd_per_month"'
    assert gateway.metric(f"mgw_limit_used{{{labels}}}", METRICS) == 2 * COST
    assert gateway.metric(f"mgw_limit_max{{{labels}}}", METRICS) == 0.1
    assert gateway.metric("mgw_limit_store_up ", METRICS) == 1
    refused = 'client="group:research",limit="usd_per_month"'
    assert gateway.metric(f"mgw_client_limit_rejections_total{{{refused}}}", METRICS) == 1
    page = gateway.get("/metrics", METRICS).decode()
    assert 'mgw_limit_used{holder="gateway/alice"' not in page, "no series for each client"


def _compare_events(gateway: GatewayProcess, folder: Path) -> None:
    events = sorted(gateway.events(3), key=lambda event: str(event["time"]))  # of several workers
    first, second, refused = events[:3]
    assert [event.get("charged_usd") for event in events[:2]] == [COST, COST]
    assert first["limit_warnings"] == ["group:research usd_per_month 0.5"]
    assert second["limit_warnings"] == ["group:research usd_per_month 1"]
    assert (refused["status"], refused["error"]) == ("rejected", "insufficient_quota")
    for event in events[:3]:
        assert event["client_groups"] == ["research"]
        assert event["tags"] == {"cost_center": "4711", "team": "nlp"}
    columns = "request_id, client_groups, tags, charged_usd, limit_warnings"

    def stored() -> Sequence[Any]:  # Any: what SQLite has
        with closing(sqlite3.connect(folder / "usage.db")) as file:
            return file.execute(f"SELECT {columns} FROM usage_events ORDER BY time").fetchall()

    wait_until(lambda: len(stored()) == 3, "the events are in the file")
    row = stored()[0]
    assert row == (
        first["request_id"],
        '["research"]',
        '{"cost_center":"4711","team":"nlp"}',
        COST,
        '["group:research usd_per_month 0.5"]',
    )


def test_what_cannot_be_done_says_why(simulator: SimulatorProcess, tmp_path: Path) -> None:
    with start_gateway(config_text(simulator.url, tmp_path)) as gateway:
        file = ["-c", str(gateway.config_file)]
        for arguments, status, words in [
            (["reset", "alice"], 1, "has no limit longer than a minute"),
            (["reset", "research"], 1, "or has not used it yet, did you mean group:research?"),
            (["reset", "group:research", "--limit", "usd_per_moth"], 2, "did you mean usd_per_month?"),
            (
                ["reset", "group:research", "--limit", "usd_per_month", "--to", "x"],
                2,
                "--to: expected dollars",
            ),
            (["reset", "gateway", "--limit", "requests_total", "--to", "1.5"], 2, "a whole number"),
            (["reset", "gateway", "--to", "-1"], 2, "--to: expected"),
            (["reset", "group:research"], 1, "nothing was counted yet"),
            (["show", "--format", "xml"], 2, "invalid choice"),
        ]:
            done = run_mgw(["budget", *arguments, *file])
            assert done.returncode == status, (arguments, done.stderr)
            assert words in done.stderr.decode()
        nothing = run_mgw(["budget", "show", "--holder", "nobody", *file])
        assert (nothing.returncode, nothing.stdout) == (0, b"")
        assert nothing.stderr == b"no limits of holders such as 'nobody' that last longer than a minute\n"
        assert run_mgw(["budget"]).returncode == 2
        missing = run_mgw(["budget", "show", "-c", str(tmp_path / "none.yaml")])
        assert missing.returncode == 1


@needs_redis
@pytest.mark.parametrize("workers", ["", "workers: 2"])
def test_limits_in_redis_are_shown_and_reset(
    simulator: SimulatorProcess, tmp_path: Path, workers: str
) -> None:
    with RedisServer() as redis:
        url = f"unix://:{PASSWORD}@{redis.path}"
        text = config_text(simulator.url, tmp_path, f'fleet: {{redis: {{url: "{url}"}}}}\n{workers}')
        with start_gateway(text) as gateway:
            wait_until(lambda: gateway.metric("mgw_fleet_redis_up ", METRICS) == 1, "Redis is there")
            assert [ask(gateway), ask(gateway)] == [200, 200]
            found = settled(gateway, 2 * COST)
            assert ask(gateway) == 429
            assert found["gateway/alice", "tokens_per_day"]["used"] == 2 * TOKENS
            budget(gateway, "reset", "group:research", "--limit", "usd_per_month")
            assert ask(gateway) == 200
            settled(gateway, COST)
            spent = [event for event in gateway.events(4) if event["status"] == "ok"]
            warned = [
                event.get("limit_warnings") for event in sorted(spent, key=lambda one: str(one["time"]))
            ]
            half, whole = ["group:research usd_per_month 0.5"], ["group:research usd_per_month 1"]
            assert warned == [half, whole, half], "a reset begins anew"
            redis.kill()
            done = run_mgw(["budget", "show", "-c", str(gateway.config_file)])
            assert done.returncode == 1
            assert b"fleet.redis: Redis does not answer" in done.stderr
