"""The dashboard's page in a real browser, before a gateway and its simulator."""

from __future__ import annotations

from pathlib import Path

from websockets.sync.client import connect

from tests.browser import crowd as crowded
from tests.browser.conftest import Run
from tests.browser.crowd import controlled, crowd
from tests.support.gateway import start_gateway
from tests.support.realtime import closed_port
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


def test_the_page_shows_a_crowded_gateway_through_logins_a_restart_and_a_drain(
    run: Run, tmp_path: Path
) -> None:
    with (
        start_simulator() as simulator,
        controlled(crowd(simulator.url, closed_port(), tmp_path)) as (gateway, control),
        connect(
            f"ws://127.0.0.1:{gateway.port}/v1/realtime?model=voice",
            additional_headers={"Authorization": f"Bearer {crowded.EDGE_KEY}"},
            proxy=None,
        ) as session,
    ):
        session.send("canary hello")
        session.recv()
        keys = {"MGW_EDGE_KEY": crowded.EDGE_KEY, "MGW_OTHER_KEY": crowded.OTHER_KEY}
        run("crowd", gateway.url, MGW_DASHBOARD_KEY=crowded.DASHBOARD_KEY, MGW_CONTROL=control, **keys)
