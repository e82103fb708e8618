"""Coding agents go round a whole tool loop with models on clouds: Amazon's and Google's.

Claude Code, Codex and Gemini CLI each speak their own API; the gateway signs what it asks of Amazon, and the
simulator verifies it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.agents.agents import CLAUDE_CODE, CODEX, GEMINI_CLI, Access, Agent
from tests.agents.running import Desk
from tests.support.clouds import AWS_KEY, ENVIRON, KEY, OPUS, SONNET, clouds, on_google
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.simulator import SimulatorProcess, start_simulator

NOTE: Final = "the tangerine is in drawer 41"
AGENTS: Final = (CLAUDE_CODE, CODEX, GEMINI_CLI)
AMAZON: Final = (f"invoke/{SONNET}", f"invoke/{OPUS}", f"mantle/{OPUS}", "gpt/openai.gpt-5.5")
GOOGLE: Final = ("vertex/claude-sonnet-4-5@20250929", "gemini/gemini-3-flash")


@pytest.fixture(scope="module")
def amazon() -> Iterator[SimulatorProcess]:
    """A host that takes what is signed alone."""
    with start_simulator(AWS_KEY) as process:
        yield process


@pytest.fixture(scope="module")
def gateway(
    installation: Path, amazon: SimulatorProcess, shared_simulator: SimulatorProcess
) -> Iterator[GatewayProcess]:
    """A gateway before both clouds."""
    config = clouds(amazon.url, **on_google(shared_simulator.url))
    with start_gateway(config, ENVIRON) as process:
        yield process


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
@pytest.mark.parametrize("model", [*AMAZON, *GOOGLE])
def test_an_agent_reads_two_files_and_tells_what_is_in_them(
    installation: Path,
    seat: Desk,
    amazon: SimulatorProcess,
    simulator: SimulatorProcess,
    gateway: GatewayProcess,
    agent: Agent,
    model: str,
) -> None:
    note = seat.work / "note.txt"
    note.write_text(f"{NOTE}\n")
    amazon.clear()
    before = gateway.stdout.data.count(b"\n")
    prompt = f"preface, then {agent.please_read(note, tools=2)}"
    finished = agent.ask(installation, seat, Access(gateway.url, KEY), model, prompt)
    assert finished.status == 0, finished
    assert agent.answer(finished.stdout).count(NOTE) == 2, finished
    seen = (amazon if model in AMAZON else simulator).requests()
    assert len(seen) >= 2
    assert [request.status for request in seen] == [200] * len(seen)
    events = gateway.events(before + len(seen))[before:]
    provider = model.partition("/")[0]
    assert [(event["provider"], event["status"]) for event in events] == [(provider, "ok")] * len(seen)
