"""Coding agents, as their makers publish them, go round a whole tool loop through a gateway.

The simulator asks an agent to read a file; the agent reads it, sends what is in it, and the simulator's last
answer repeats it.  What the file says is in no prompt, so an answer that has it has been round.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.agents import CLAUDE_CODE, CLAUDE_CODE_AGAIN, CODEX, GEMINI_CLI, Access, Agent
from tests.agents.running import Desk
from tests.support.gateway import GatewayProcess
from tests.support.simulator import SimulatorProcess

NOTE = "the tangerine is in drawer 41"
PATHS = {
    "main": ("/v1/chat/completions", "/v1/responses"),
    "claude": ("/v1/messages",),
    "gem": ("/v1beta/models/",),
}

OWN_FAMILY = [
    pytest.param(CLAUDE_CODE, "claude", "claude-sonnet-4-5", id="Claude Code, bare"),
    pytest.param(CLAUDE_CODE, "claude", "claude/claude-sonnet-4-5", id="Claude Code, provider and model"),
    pytest.param(CLAUDE_CODE, "claude", "smart", id="Claude Code, alias"),
    pytest.param(CODEX, "main", "gpt-5", id="Codex, bare"),
    pytest.param(CODEX, "main", "main/gpt-5.5", id="Codex, provider and model"),
    pytest.param(CODEX, "main", "fast", id="Codex, alias"),
    pytest.param(GEMINI_CLI, "gem", "gemini-2.5-flash", id="Gemini CLI, bare"),
    pytest.param(GEMINI_CLI, "gem", "gem/gemini-3-flash", id="Gemini CLI, provider and model"),
    pytest.param(GEMINI_CLI, "gem", "quick", id="Gemini CLI, alias"),
]
OTHER_FAMILIES = [
    pytest.param(CLAUDE_CODE, "gem", "haiku", id="Claude Code, its own small model an alias of Gemini 3"),
    pytest.param(CLAUDE_CODE, "main", "sonnet", id="Claude Code, its own middle model an alias of OpenAI"),
    pytest.param(CLAUDE_CODE, "main", "main/gpt-5", id="Claude Code to OpenAI"),
    pytest.param(CLAUDE_CODE, "gem", "gem/gemini-2.5-flash", id="Claude Code to Gemini"),
    pytest.param(CLAUDE_CODE, "gem", "gem/gemini-3-flash", id="Claude Code to Gemini 3"),
    pytest.param(GEMINI_CLI, "main", "main/gpt-5", id="Gemini CLI to OpenAI"),
    pytest.param(GEMINI_CLI, "claude", "claude/claude-sonnet-4-5", id="Gemini CLI to Claude"),
    pytest.param(GEMINI_CLI, "claude", "smart", id="Gemini CLI to a Claude that chooses how much it thinks"),
]
ONE_PER_PAIR = [OWN_FAMILY[0], OWN_FAMILY[4], OWN_FAMILY[7], *OTHER_FAMILIES]


@pytest.fixture
def note(seat: Desk) -> Path:
    """A file that an agent can read."""
    file = seat.work / "note.txt"
    file.write_text(f"{NOTE}\n")
    return file


def assert_all_went_well(gateway: GatewayProcess, simulator: SimulatorProcess, provider: str) -> None:
    """Everything went to one provider and came back whole, with an event for each request."""
    seen = simulator.requests()
    assert len(seen) >= 2
    assert [request.status for request in seen] == [200] * len(seen)
    assert all(request.target.startswith(PATHS[provider]) for request in seen), seen
    events = gateway.events(len(seen))
    assert [(event["provider"], event["status"]) for event in events] == [(provider, "ok")] * len(seen)


@pytest.mark.parametrize(("agent", "provider", "model"), [*OWN_FAMILY, *OTHER_FAMILIES])
def test_an_agent_reads_a_file_and_tells_what_is_in_it(
    installation: Path,
    seat: Desk,
    note: Path,
    simulator: SimulatorProcess,
    gateway: GatewayProcess,
    access: Access,
    agent: Agent,
    provider: str,
    model: str,
) -> None:
    finished = agent.ask(installation, seat, access, model, f"preface, then {agent.please_read(note)}")
    assert finished.status == 0, finished
    assert NOTE in agent.answer(finished.stdout), finished
    assert_all_went_well(gateway, simulator, provider)


@pytest.mark.parametrize(("agent", "provider", "model"), ONE_PER_PAIR)
def test_two_tools_called_at_once_both_tell_what_they_found(
    installation: Path,
    seat: Desk,
    note: Path,
    simulator: SimulatorProcess,
    gateway: GatewayProcess,
    access: Access,
    agent: Agent,
    provider: str,
    model: str,
) -> None:
    finished = agent.ask(installation, seat, access, model, agent.please_read(note, tools=2))
    assert finished.status == 0, finished
    assert agent.answer(finished.stdout).count(NOTE) == 2, finished
    assert_all_went_well(gateway, simulator, provider)


def test_claude_codes_own_default_model_works(
    installation: Path,
    seat: Desk,
    note: Path,
    simulator: SimulatorProcess,
    gateway: GatewayProcess,
    access: Access,
) -> None:
    finished = CLAUDE_CODE.ask(installation, seat, access, None, CLAUDE_CODE.please_read(note))
    assert finished.status == 0, finished
    assert NOTE in CLAUDE_CODE.answer(finished.stdout), finished
    assert_all_went_well(gateway, simulator, "claude")


def test_claude_code_goes_on_with_another_familys_model(
    installation: Path,
    seat: Desk,
    note: Path,
    simulator: SimulatorProcess,
    gateway: GatewayProcess,
    access: Access,
) -> None:
    models = ["main/gpt-5", "claude/claude-sonnet-4-5", "gem/gemini-3-flash", "smart", "main/gpt-5"]
    for turn, model in enumerate(models):
        agent = CLAUDE_CODE_AGAIN if turn else CLAUDE_CODE
        finished = agent.ask(installation, seat, access, model, agent.please_read(note, tools=2))
        assert finished.status == 0, finished
        assert agent.answer(finished.stdout).count(NOTE) == 2, finished
    events = gateway.events(2 * len(models))
    providers = [provider for provider in ("main", "claude", "gem", "claude", "main") for _ in range(2)]
    assert [(event["provider"], event["status"]) for event in events] == [(name, "ok") for name in providers]
    assert len(simulator.requests()[-1].json()["messages"]) > 4 * len(models)


@pytest.mark.parametrize("model", ["claude/claude-sonnet-5", "gem/gemini-3-flash"])
def test_codex_learns_that_another_family_does_not_serve_its_protocol(
    installation: Path,
    seat: Desk,
    simulator: SimulatorProcess,
    access: Access,
    model: str,
) -> None:
    finished = CODEX.ask(installation, seat, access, model, "hello")
    assert finished.status != 0, finished
    assert "/v1/responses is not supported by provider" in finished.stdout, finished
    assert simulator.requests() == []


def test_gemini_cli_asks_another_family_which_model_to_take(
    installation: Path,
    seat: Desk,
    note: Path,
    simulator: SimulatorProcess,
    gateway: GatewayProcess,
    access: Access,
) -> None:
    finished = GEMINI_CLI.ask(installation, seat, access, "auto", GEMINI_CLI.please_read(note))
    assert finished.status == 0, finished
    assert NOTE in GEMINI_CLI.answer(finished.stdout), finished
    seen = simulator.requests()
    assert [request.status for request in seen] == [200] * 3
    assert [event["provider"] for event in gateway.events(3)] == ["claude", "gem", "gem"]


@pytest.mark.parametrize("agent", [CLAUDE_CODE, CODEX, GEMINI_CLI], ids=lambda agent: agent.name)
def test_a_key_that_opens_nothing_ends_an_agent_with_a_401(
    installation: Path,
    seat: Desk,
    simulator: SimulatorProcess,
    gateway: GatewayProcess,
    agent: Agent,
) -> None:
    finished = agent.ask(installation, seat, Access(gateway.url, "wrong-canary"), "smart", "hello")
    assert finished.status != 0, finished
    assert "401" in finished.stdout + finished.stderr, finished
    assert simulator.requests() == []
