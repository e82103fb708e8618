"""Coding agents whose budget is used up: they show one sentence that says so, and ask no more.

Their makers' defaults hold for retries.  The gateway counts what they send.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx2
import pytest

from tests.agents.agents import CLAUDE_CODE_RETRYING, CODEX_RETRYING, GEMINI_CLI, Access, Agent
from tests.agents.conftest import KEY, three_families
from tests.agents.running import Desk
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.simulator import SimulatorProcess
from tests.support.waiting import WAIT_SECONDS

_MOMENT: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+\d\d:\d\d"
SAID: Final = re.compile(
    "group:agents has reached its limit: "
    rf"(?:usd_per_day is 0\.01|tokens_per_day is 2); it resets at {_MOMENT}"
)
MONEY, TOKENS = "insufficient_quota", "rate_limit_exceeded"
"""What the event of a refused request says."""
ROWS: Final = {MONEY: "{usd: 0.01, per: day}", TOKENS: "{tokens: 2, per: day}"}
"""What is used up."""


@pytest.fixture
def gateway(
    installation: Path, simulator: SimulatorProcess, tmp_path: Path, error: str
) -> Iterator[GatewayProcess]:
    """A gateway that has counted one request, which has used up a day's budget of the agents."""
    limited = f"""
edge_auth:
  enabled: true
  timezone: Europe/Berlin
  groups: {{agents: {{limits: [ROW]}}}}
  keys: [{{name: agent, key: {KEY}, groups: [agents]}}]
prices: {{rows: [{{model: "*", input: 5000, output: 5000}}]}}
limit_store: {tmp_path}/limits.db
"""
    limited = limited.replace("ROW", ROWS[error])
    text = re.sub(r"\nedge_auth: .*\n", limited, three_families(simulator.url))
    with start_gateway(text) as process:
        body = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello"}]}
        head = {"Authorization": f"Bearer {KEY}"}
        url = f"{process.url}/v1/chat/completions"
        assert httpx2.post(url, json=body, headers=head, timeout=WAIT_SECONDS).status_code == 200
        process.events(1)
        yield process


CODEX_SAYS: Final = re.compile(r"Quota exceeded\. Check your plan and billing details\.")
"""Codex has words of its own for the code ``insufficient_quota``."""


@pytest.mark.parametrize(
    ("agent", "model", "error", "said"),
    [
        pytest.param(CLAUDE_CODE_RETRYING, "claude-sonnet-4-5", MONEY, SAID, id="Claude Code, money"),
        pytest.param(CLAUDE_CODE_RETRYING, "claude-sonnet-4-5", TOKENS, SAID, id="Claude Code, tokens"),
        pytest.param(CODEX_RETRYING, "gpt-5", MONEY, CODEX_SAYS, id="Codex, money"),
        pytest.param(GEMINI_CLI, "gemini-2.5-flash", MONEY, SAID, id="Gemini CLI, money"),
        pytest.param(GEMINI_CLI, "gemini-2.5-flash", TOKENS, SAID, id="Gemini CLI, tokens"),
    ],
)
def test_an_agent_says_so_in_one_sentence_and_asks_once(
    installation: Path,
    seat: Desk,
    access: Access,
    gateway: GatewayProcess,
    agent: Agent,
    model: str,
    error: str,
    said: re.Pattern[str],
) -> None:
    finished = agent.ask(installation, seat, access, model, "Hello")
    assert finished.status != 0, finished
    assert said.search(finished.stdout + finished.stderr), finished
    (_, refused) = gateway.events(2)
    assert (refused["status"], refused["error"]) == ("rejected", error)


@pytest.mark.parametrize("error", [TOKENS])
def test_codex_waits_until_tokens_are_there_again(
    installation: Path, seat: Desk, access: Access, gateway: GatewayProcess
) -> None:
    """To Codex 429 without that code is worth a retry, but not before ``Retry-After`` is over."""
    with pytest.raises(AssertionError, match="exceeded retry limit, last status: 429 Too Many Requests"):
        CODEX_RETRYING.ask(installation, seat, access, "gpt-5", "Hello", seconds=10)
    assert len(gateway.events(2)) == 2, "the one that used the row up, and one"
