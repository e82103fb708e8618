"""The dashboard's page in a real browser, before a gateway and its simulator."""

from __future__ import annotations

from pathlib import Path

from tests.browser.conftest import Run
from tests.support.gateway import start_gateway
from tests.support.simulator import start_simulator

EDGE_KEY = "edge-canary-browser"
DASHBOARD_KEY = "dashboard-canary-browser"


def configuration(url: str, table: Path) -> str:
    """Return a configuration with one provider, a price and a table of events."""
    return f"""
providers:
  main: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main}}
aliases: {{fast: main/gpt-fast}}
edge_auth: {{enabled: true, keys: [{{name: alice, key: {EDGE_KEY}}}]}}
dashboard: {{enabled: true, keys: [{DASHBOARD_KEY}]}}
prices: {{rows: [{{model: "*", input: 2.5, output: 10}}]}}
hooks: {{jsonl: {{output: stdout}}, sqlite: {{path: {table}}}}}
"""


def test_a_key_of_the_dashboard_opens_the_page(run: Run, tmp_path: Path) -> None:
    with (
        start_simulator() as simulator,
        start_gateway(configuration(simulator.url, tmp_path / "usage.sqlite")) as gateway,
    ):
        run("gateway_sign_in", gateway.url, MGW_DASHBOARD_KEY=DASHBOARD_KEY)


def test_the_page_follows_a_gateway(run: Run, tmp_path: Path) -> None:
    with (
        start_simulator() as simulator,
        start_gateway(configuration(simulator.url, tmp_path / "usage.sqlite")) as gateway,
    ):
        run("gateway", gateway.url, MGW_EDGE_KEY=EDGE_KEY, MGW_DASHBOARD_KEY=DASHBOARD_KEY)
