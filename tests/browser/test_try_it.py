"""The view "Try it" in a real browser, before a gateway and its simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import ROOT, Run
from tests.support.gateway import start_gateway
from tests.support.simulator import start_simulator

EDGE_KEY = "edge-canary-try-it"
DASHBOARD_KEY = "dashboard-canary-try-it"
EDGE = f"edge_auth: {{enabled: true, keys: [{{name: alice, key: {EDGE_KEY}}}]}}\n"
ACCESS = {
    "client": EDGE,
    "key": EDGE + f"dashboard: {{keys: [{DASHBOARD_KEY}]}}\n",
    "anyone": "",
}


def configuration(url: str, table: Path, access: str) -> str:
    """Return a configuration with a provider of each family, and prices."""
    return f"""
providers:
  main: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary, models: [gpt-fast]}}
  claude: {{kind: anthropic, base_url: "{url}/v1", api_key: sk-ant-canary}}
  gem: {{kind: gemini, base_url: "{url}/v1beta", api_key: AIza-canary}}
defaults: {{openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}}
aliases: {{fast: main/gpt-fast, smart: claude/claude-sonnet-4-5}}
prices: {{rows: [{{model: "*", input: 2.5, output: 10}}]}}
hooks: {{sqlite: {{path: {table}}}}}
{access}"""


@pytest.mark.parametrize("more", ["", "workers: 2\n"], ids=["one process", "workers"])
@pytest.mark.parametrize("access", ACCESS)
def test_the_page_sends_requests_as(run: Run, tmp_path: Path, access: str, more: str) -> None:
    with (
        start_simulator() as simulator,
        start_gateway(
            configuration(simulator.url, tmp_path / "usage.sqlite", ACCESS[access] + more)
        ) as gateway,
    ):
        keys = {"client": EDGE_KEY, "key": DASHBOARD_KEY, "anyone": ""}
        run("try_it", gateway.url, MGW_ACCESS=access, MGW_SIGN_IN_KEY=keys[access], MGW_EDGE_KEY=EDGE_KEY)


def test_the_page_works_in_the_demonstration(run: Run) -> None:
    text = (ROOT / "etc" / "mgw-demo.yaml").read_text(encoding="utf-8")
    with (
        start_simulator() as simulator,
        start_gateway(
            text.replace("http://127.0.0.1:8788", simulator.url).replace('listen: "127.0.0.1:8787"\n', "")
        ) as gateway,
    ):
        run("try_it_demo", gateway.url)
