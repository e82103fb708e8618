"""A real Prometheus reads a real gateway, and every query of the dashboard and of the rules works there."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.metrics_lint import problems
from tests.support.monitoring import ALERTS, Expression, expressions
from tests.support.simulator import start_simulator
from tests.support.waiting import WAIT_SECONDS, wait_until

KEY: Final = "edge-canary-alice"
BUSY: Final = "edge-canary-busy"
AUTHORIZATION: Final = {"Authorization": f"Bearer {KEY}"}
OPENMETRICS: Final = {"Accept": "application/openmetrics-text; version=1.0.0"}
EMPTY: Final = frozenset(
    {
        *("Subscription accounts", "Failed token renewals (15 min)", "Certificate expires in"),
        *(
            "Session duration",
            "Completed sessions",
            "Frames",
            "Payload",
            "Requests without a cost",
            "Reloads",
        ),
        *(
            "Client left, by provider",
            "Client left, by client",
            "Cache hit rate",
            "Fleet Redis",
            "Fleet hosts",
        ),
    }
)
"""Panels of what does not happen here."""


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    with start_simulator() as simulator:
        config = f"""
workers: 2
providers:
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary, max_connections: 20,
          retries: {{attempts: 1}}}}
  claude: {{kind: anthropic, base_url: "{simulator.url}/v1", api_key: sk-ant-canary}}
defaults: {{openai_dialect: main, anthropic_dialect: claude}}
edge_auth:
  enabled: true
  keys:
    - {{name: alice, key: {KEY}}}
    - {{name: busy, key: {BUSY}, requests_per_minute: 1}}
prices: {{rows: [{{model: "*", input: 1, output: 1, cache_read: 1, cache_write: 1}}]}}
"""
        with start_gateway(config) as process:
            yield process


def ask(gateway: GatewayProcess, model: str = "gpt-5", key: str = KEY) -> int:
    """Ask for a completion, and return the status."""
    content = json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}]}).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    try:
        with urlopen(Request(f"{gateway.url}/v1/chat/completions", content, headers), timeout=WAIT_SECONDS):
            return 200
    except OSError as error:
        return int(getattr(error, "code", 0))


def traffic(gateway: GatewayProcess) -> None:
    """Have some requests served, some fail at the provider, and some refused."""
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: ask(gateway), range(16)))
    ask(gateway, "gpt-5+sim-status-500")
    for key in (BUSY, BUSY, "edge-canary-wrong"):
        ask(gateway, key=key)


@pytest.mark.parametrize("openmetrics", [False, True])
def test_a_real_page_keeps_the_rules(gateway: GatewayProcess, openmetrics: bool) -> None:
    traffic(gateway)
    page = gateway.get("/metrics", {**AUTHORIZATION, **(OPENMETRICS if openmetrics else {})})
    assert problems(page.decode(), openmetrics=openmetrics) == []


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing_to_say_of_a_real_page(gateway: GatewayProcess) -> None:
    traffic(gateway)
    page = gateway.get("/metrics", AUTHORIZATION)
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=page, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


class Prometheus:
    """The API of a running one."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def get(self, path: str, **query: str) -> Any:
        """Return the data of an answer."""
        with urlopen(f"{self._url}/{path}?{urlencode(query)}", timeout=WAIT_SECONDS) as response:
            said = json.load(response)
        assert said["status"] == "success", said
        return said["data"]

    def result(self, expression: str) -> list[Any]:
        """Return what an expression is now."""
        found: list[Any] = self.get("query", query=expression)["result"]
        return found

    def is_up(self) -> bool:
        """Whether it has scraped the gateway."""
        try:
            return any(series["value"][1] == "1" for series in self.result('up{job="mgw"}'))
        except OSError:
            return False


@pytest.fixture(scope="module")
def prometheus(gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed")
    folder = tmp_path_factory.mktemp("prometheus")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "key").write_text(KEY, encoding="utf-8")
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [
            {
                "job_name": "mgw",
                "authorization": {"credentials_file": str(folder / "key")},
                "static_configs": [{"targets": [f"127.0.0.1:{gateway.port}"]}],
            }
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")  # which is YAML, too
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
            cwd=folder,
        )
    found = Prometheus(port)
    try:
        wait_until(lambda: process.poll() is not None or found.is_up(), "a first scrape")
        assert process.poll() is None, (folder / "log").read_text(encoding="utf-8")
        produce_data(gateway, found)
        yield found
    finally:
        process.kill()
        process.wait(WAIT_SECONDS)


def produce_data(gateway: GatewayProcess, prometheus: Prometheus) -> None:
    """Go on with the traffic until Prometheus has seen the numbers of all of it grow."""

    def has_grown() -> bool:
        traffic(gateway)
        wanted = (
            'rate(mgw_requests_total{outcome="upstream_error"}[1m]) > 0',
            'rate(mgw_client_limit_rejections_total{client="busy"}[1m]) > 0',
            "rate(mgw_request_retries_total[1m]) > 0",
            "rate(mgw_event_loop_delay_seconds_count[1m]) > 0",
            "job_client:mgw_cost_usd:rate1h > 0",
        )
        return all(prometheus.result(expression) for expression in wanted)

    wait_until(has_grown, "rates")


@pytest.mark.parametrize("expression", expressions(), ids=lambda expression: expression.place)
def test_every_query_is_answered(prometheus: Prometheus, expression: Expression) -> None:
    found = prometheus.result(expression.filled)
    is_alert = expression.place.startswith("Mgw")
    assert found or is_alert or expression.place in EMPTY


def test_prometheus_evaluates_all_rules_and_only_true_alerts_are_pending(prometheus: Prometheus) -> None:
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    names = {rule["name"] for rule in rules}
    assert names <= {expression.place for expression in expressions()}
    assert {rule["health"] for rule in rules} == {"ok"}
    active = {alert["labels"]["alertname"] for alert in prometheus.get("alerts")["alerts"]}
    assert active <= {"MgwKeyLimited", "MgwProviderErrors", "MgwEventLoopSlow"}, "what the traffic may cause"


def test_a_dashboard_finds_values_for_its_variables(prometheus: Prometheus) -> None:
    for label, value in (("provider", "main"), ("client", "alice")):
        assert value in prometheus.get(f"label/{label}/values")
