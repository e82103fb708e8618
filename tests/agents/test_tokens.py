"""Coding agents with tokens of an identity provider, where their settings have a key.

Their makers' defaults hold for retries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.agents.agents import (
    CLAUDE_CODE,
    CLAUDE_CODE_RETRYING,
    CODEX,
    CODEX_OVER_WEBSOCKETS,
    CODEX_RETRYING,
    GEMINI_CLI,
    Access,
    Agent,
    codex_with,
)
from tests.agents.conftest import KEY, three_families
from tests.agents.running import Desk
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.idp import Idp
from tests.support.simulator import SimulatorProcess

ANN = "corp:ann@example.com"
HEAD = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture
def idp(simulator: SimulatorProcess) -> Idp:
    """Who signs the tokens."""
    return Idp(simulator.url, "agents")


@pytest.fixture
def gateway(installation: Path, simulator: SimulatorProcess, idp: Idp) -> Iterator[GatewayProcess]:
    """A gateway that takes them."""
    entry = f'{{name: corp, issuer: "{idp.issuer}", audience: mgw, client: email, rules: [{{}}]}}'
    text = re.sub(r"(\nedge_auth: .*)\}\n", rf"\1, jwt: [{entry}]}}\n", three_families(simulator.url))
    with start_gateway(text) as process:
        process.log(b"issuer corp: keys added: ")
        yield process


@pytest.fixture
def token(idp: Idp) -> str:
    """Ann's."""
    return idp.token(email="ann@example.com")


@pytest.fixture
def expired(idp: Idp) -> str:
    """Ann's, of yesterday."""
    return idp.token(email="ann@example.com", expires_in=-86400)


def rejections(gateway: GatewayProcess) -> float:
    """How often a token was refused."""
    return gateway.metric('mgw_token_rejections_total{issuer="corp",reason="expired"}', HEAD)


def tool_loop(
    agent: Agent, installation: Path, seat: Desk, gateway: GatewayProcess, key: str, model: str
) -> list[dict[str, object]]:
    """Have an agent read a note; return the events of that.  Codex leaves a session without a close frame."""
    note = seat.work / "note.txt"
    note.write_text("the note says hello")
    finished = agent.ask(installation, seat, Access(gateway.url, key), model, agent.please_read(note))
    assert finished.status == 0, finished
    assert "the note says hello" in agent.answer(finished.stdout), finished
    return gateway.events()


def _printing(at: Desk) -> Path:
    """Return a program that prints the token and, if there is a newer one, that from then on."""
    program = at.home / "print.sh"
    program.write_text(f"cd {at.home}\ncat token\nif [ -f new ]; then mv new token; fi\n")
    return program


def _prepare_with_helper(at: Desk, access: Access) -> Mapping[str, str]:
    """Claude Code runs a program that prints its token."""
    variables = dict(CLAUDE_CODE.prepare(at, access))
    token = at.home / "token"
    token.write_text(variables.pop("ANTHROPIC_AUTH_TOKEN"))
    folder = at.home / ".claude"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"apiKeyHelper": f"sh {_printing(at)}"}))
    return variables


def _prepare_with_command(at: Desk, access: Access) -> Mapping[str, str]:
    """Codex runs a program that prints its token."""
    token = at.home / "token"
    token.write_text(access.key)
    auth = f'[model_providers.mgw.auth]\ncommand = "sh"\nargs = ["{_printing(at)}"]'
    codex_with(tables=auth).prepare(at, access)
    settings = at.home / ".codex" / "config.toml"
    settings.write_text(settings.read_text().replace('env_key = "MGW_KEY"\n', ""))
    return {}


CLAUDE_CODE_WITH_HELPER = replace(CLAUDE_CODE, prepare=_prepare_with_helper)
CODEX_WITH_COMMAND = replace(CODEX, prepare=_prepare_with_command)


@pytest.mark.parametrize(
    ("agent", "model"),
    [
        pytest.param(CLAUDE_CODE, "claude-sonnet-4-5", id="Claude Code"),
        pytest.param(CLAUDE_CODE_WITH_HELPER, "claude-sonnet-4-5", id="Claude Code with apiKeyHelper"),
        pytest.param(CODEX, "gpt-5", id="Codex"),
        pytest.param(CODEX_WITH_COMMAND, "gpt-5", id="Codex with a command"),
        pytest.param(CODEX_OVER_WEBSOCKETS, "gpt-5", id="Codex over a WebSocket"),
        pytest.param(GEMINI_CLI, "gemini-2.5-flash", id="Gemini CLI"),
    ],
)
def test_an_agent_works_with_a_token(
    installation: Path, seat: Desk, gateway: GatewayProcess, token: str, agent: Agent, model: str
) -> None:
    events = tool_loop(agent, installation, seat, gateway, token, model)
    assert {event["client"] for event in events} == {ANN}
    ways = {(event.get("transport"), event["status"]) for event in events}
    assert ways == ({("websocket", "client_abort")} if agent is CODEX_OVER_WEBSOCKETS else {("http", "ok")})
    assert rejections(gateway) == 0


@pytest.mark.parametrize(
    ("agent", "model", "most"),
    [
        pytest.param(CLAUDE_CODE_WITH_HELPER, "claude-sonnet-4-5", 1, id="Claude Code with apiKeyHelper"),
        pytest.param(CODEX_WITH_COMMAND, "gpt-5", 4, id="Codex with a command"),
    ],
)
def test_an_agent_asks_its_program_for_a_new_token(
    installation: Path,
    seat: Desk,
    gateway: GatewayProcess,
    token: str,
    expired: str,
    agent: Agent,
    model: str,
    most: int,
) -> None:
    """Codex also asks for the list of models."""
    new = seat.home / "new"
    new.write_text(token)
    finished = agent.ask(
        installation, seat, Access(gateway.url, f"{expired}\n"), model, "Hello, after a new token"
    )
    assert "You said" in agent.answer(finished.stdout), finished
    assert 1 <= rejections(gateway) <= most


SAID = re.compile(r"the token has expired: get a new one from its issuer")


@pytest.mark.parametrize(
    ("agent", "model", "requests"),
    [
        pytest.param(CLAUDE_CODE_RETRYING, "claude-sonnet-4-5", 1, id="Claude Code"),
        pytest.param(CODEX_RETRYING, "gpt-5", 6, id="Codex"),
        pytest.param(CODEX_OVER_WEBSOCKETS, "gpt-5", 3, id="Codex over a WebSocket"),
        pytest.param(GEMINI_CLI, "gemini-2.5-flash", 1, id="Gemini CLI"),
    ],
)
def test_an_agent_says_that_its_token_has_expired(
    installation: Path,
    seat: Desk,
    gateway: GatewayProcess,
    expired: str,
    agent: Agent,
    model: str,
    requests: int,
) -> None:
    """Codex takes any 401 for a broken stream, which it repeats ``stream_max_retries`` times: 5."""
    finished = agent.ask(installation, seat, Access(gateway.url, expired), model, "Hello")
    assert finished.status != 0, finished
    assert SAID.search(finished.stdout + finished.stderr), finished
    assert rejections(gateway) == requests


def test_claude_code_says_that_a_token_is_of_another_issuer(
    installation: Path, simulator: SimulatorProcess, seat: Desk, gateway: GatewayProcess
) -> None:
    """It makes "Not logged in" of any 401 that names ``x-api-key``."""
    other = Idp(simulator.url, "others").token()
    finished = CLAUDE_CODE_RETRYING.ask(
        installation, seat, Access(gateway.url, other), "claude-sonnet-4-5", "Hello"
    )
    assert finished.status != 0, finished
    assert "the token after Bearer is of an issuer that is not configured here" in finished.stdout, finished
    assert gateway.metric('mgw_edge_rejections_total{reason="key"}', HEAD) == 1
