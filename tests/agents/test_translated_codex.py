"""Codex, as its maker publishes it, works with models that are asked in another API than its own.

The models are Claude, Gemini, and one of a host that serves chat completions only.  Codex knows none of them,
so it sends what it sends for an unknown model.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.agents.agents import CODEX, CODEX_AGAIN, CODEX_OVER_WEBSOCKETS, Access, Agent, codex_with
from tests.agents.conftest import KEY, ROOT
from tests.agents.running import Desk, Finished
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.simulator import SeenRequest, SimulatorProcess

NOTE: Final = "the tangerine is in drawer 41"
CLAUDE: Final = "claude/claude-sonnet-5"
MODELS: Final = (CLAUDE, "gem/gemini-3-flash", "host/deep+sim-reasoning")
PATHS: Final = {"claude": "/v1/messages", "gem": "/v1beta/models/", "host": "/v1/chat/completions"}
PROGRAMS: Final = Path(__file__).parent / "programs"
WITHOUT_SEARCH: Final = codex_with('web_search = "disabled"')
DOT: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR4nGMQUDDAihiGlgQAWU8YATsut5kAAAAASUVORK5CYII="
)
"""An image of eight by eight pixels."""
THOUGHTS: Final = ('"signature": "c2lt', '"thoughtSignature": "c2lt', '"reasoning_content": "The user')
"""How thoughts come back to the simulator: with a signature of its own, where its provider signs them."""

Ask = Callable[[Agent, str, str], Finished]


def translating(url: str, hosted_tools: str) -> str:
    """Return a gateway's configuration whose providers have no Responses API, and which translates it."""
    return f"""
providers:
  claude: {{kind: anthropic, base_url: "{url}/v1", api_key: sk-ant-canary}}
  gem: {{kind: gemini, base_url: "{url}/v1beta", api_key: AIza-canary}}
  host: {{kind: openai_compat, base_url: "{url}/v1", api_key: sk-canary-host, speaks: [chat]}}
defaults: {{openai_dialect: host}}
aliases: {{gpt-5.5: claude/claude-sonnet-5, gpt-5.6-sol: gem/gemini-3-flash}}
translation: {{responses: {{enabled: true, hosted_tools: {hosted_tools}}}}}
edge_auth: {{enabled: true, keys: [{KEY}]}}
"""


@pytest.fixture
def gateway(
    request: pytest.FixtureRequest, installation: Path, simulator: SimulatorProcess
) -> Iterator[GatewayProcess]:
    """A gateway that translates, and drops hosted tools unless the test says ``hosted_tools``."""
    simulator.settings(keep_all=True)
    with start_gateway(translating(simulator.url, getattr(request, "param", "drop"))) as process:
        yield process


refusing = pytest.mark.parametrize("gateway", ["refuse"], indirect=True)


@pytest.fixture
def ask(installation: Path, seat: Desk, gateway: GatewayProcess) -> Ask:
    """Run an agent with a model and a prompt."""
    return lambda agent, model, prompt: agent.ask(installation, seat, Access(gateway.url, KEY), model, prompt)


@pytest.fixture
def note(seat: Desk) -> Path:
    """A file that an agent can read."""
    file = seat.work / "note.txt"
    file.write_text(f"{NOTE}\n")
    return file


def all_went_well(gateway: GatewayProcess, simulator: SimulatorProcess, model: str) -> list[SeenRequest]:
    """Return the requests, which all went to the model's provider and were answered, each with its event."""
    seen = simulator.requests()
    provider = model.partition("/")[0]
    assert len(seen) >= 2
    assert [request.status for request in seen] == [200] * len(seen)
    assert all(request.target.startswith(PATHS[provider]) for request in seen), seen
    events = gateway.events(len(seen))
    assert [(event["provider"], event["status"]) for event in events] == [(provider, "ok")] * len(seen)
    return seen


def shows_its_thought(body: dict[str, Any]) -> bool:
    """Whether a request brings a thought back to its provider, with its signature where there are any."""
    text = json.dumps(body)
    return any(sign in text for sign in THOUGHTS)


@pytest.mark.parametrize("model", MODELS)
def test_codex_reads_a_file_and_tells_what_is_in_it(
    ask: Ask, note: Path, simulator: SimulatorProcess, gateway: GatewayProcess, model: str
) -> None:
    finished = ask(CODEX, model, f"preface, then {CODEX.please_read(note)}")
    assert finished.status == 0, finished
    assert NOTE in CODEX.answer(finished.stdout), finished
    _, last = all_went_well(gateway, simulator, model)
    assert shows_its_thought(last.json())


@pytest.mark.parametrize("model", MODELS)
def test_two_tools_called_at_once_both_tell_what_they_found(
    ask: Ask, note: Path, simulator: SimulatorProcess, gateway: GatewayProcess, model: str
) -> None:
    finished = ask(CODEX, model, CODEX.please_read(note, tools=2))
    assert finished.status == 0, finished
    assert CODEX.answer(finished.stdout).count(NOTE) == 2, finished
    all_went_well(gateway, simulator, model)


@refusing
@pytest.mark.parametrize("model", MODELS)
def test_codex_without_web_search_has_nothing_that_must_be_dropped(
    ask: Ask, note: Path, simulator: SimulatorProcess, gateway: GatewayProcess, model: str
) -> None:
    finished = ask(WITHOUT_SEARCH, model, CODEX.please_read(note))
    assert finished.status == 0, finished
    assert NOTE in CODEX.answer(finished.stdout), finished
    all_went_well(gateway, simulator, model)


@refusing
def test_codex_with_web_search_shows_which_setting_would_help(ask: Ask, simulator: SimulatorProcess) -> None:
    finished = ask(CODEX, CLAUDE, "hello")
    assert finished.status != 0, finished
    assert "web_search" in finished.stdout, finished
    assert "translation.responses.hosted_tools: drop" in finished.stdout, finished
    assert simulator.requests() == []


@pytest.mark.parametrize("model", MODELS)
def test_a_patch_is_applied_through_a_custom_tool(
    ask: Ask, seat: Desk, simulator: SimulatorProcess, gateway: GatewayProcess, model: str
) -> None:
    catalog = seat.home / "catalog.json"
    catalog.write_text(catalog_of_the_page(model))
    agent = codex_with(f'model_catalog_json = "{catalog}"')
    patch = f'*** Begin Patch\n*** Add File: made.txt\n+{NOTE}\n+"quoted" \\ é\n*** End Patch\n'
    arguments = json.dumps({"input": patch}, ensure_ascii=False)
    finished = ask(agent, model, f"use tool apply_patch with {arguments}")
    assert finished.status == 0, finished
    assert (seat.work / "made.txt").read_text() == f'{NOTE}\n"quoted" \\ é\n', finished
    assert "Success" in agent.answer(finished.stdout), finished
    all_went_well(gateway, simulator, model)


def catalog_of_the_page(model: str) -> str:
    """Return the catalog of docs/clients.rst, with this model in it."""
    page = (ROOT / "docs" / "clients.rst").read_text(encoding="utf-8")
    begin = page.index('{"models": [')
    entries, _ = json.JSONDecoder().raw_decode(page, begin)
    (entry,) = entries["models"]
    return json.dumps({"models": [{**entry, "slug": model}]})


@pytest.mark.parametrize("model", MODELS)
def test_a_call_of_an_mcp_servers_tool_reaches_the_server(
    ask: Ask, simulator: SimulatorProcess, gateway: GatewayProcess, model: str
) -> None:
    agent = codex_with(
        tables=f"""
[mcp_servers.drawers]
command = "{sys.executable}"
args = ["{PROGRAMS / "drawers.py"}"]
"""
    )
    finished = ask(agent, model, 'use tool mcp__drawers__open with {"drawer": 41}')
    assert finished.status == 0, finished
    assert "a tangerine is in drawer 41" in agent.answer(finished.stdout), finished
    all_went_well(gateway, simulator, model)


@pytest.mark.parametrize("model", MODELS)
def test_a_call_in_a_namespace_of_codex_itself_starts_another_agent(
    ask: Ask, simulator: SimulatorProcess, model: str
) -> None:
    """Codex does not wait for it, and may leave before it is answered, or hear from it at once."""
    arguments = json.dumps({"message": "hello from above"})
    finished = ask(CODEX, model, f"use tool multi_agent_v1__spawn_agent with {arguments}")
    assert finished.status == 0, finished
    answer = CODEX.answer(finished.stdout)  # to what the call gave back, or to what the agent said since
    assert "agent_id" in answer or "<subagent_notification>" in answer, finished
    assert {request.status for request in simulator.requests()} <= {200, None}


@pytest.mark.parametrize("model", MODELS)
def test_an_image_that_codex_looks_at_reaches_the_model(
    ask: Ask, seat: Desk, simulator: SimulatorProcess, gateway: GatewayProcess, model: str
) -> None:
    image = seat.work / "dot.png"
    image.write_bytes(DOT)
    finished = ask(CODEX, model, f"use tool view_image with {json.dumps({'path': str(image)})}")
    assert finished.status == 0, finished
    _, last = all_went_well(gateway, simulator, model)
    assert b"image/png" in last.body


def test_tools_that_codex_finds_by_search_are_offered_next(
    ask: Ask, simulator: SimulatorProcess, gateway: GatewayProcess
) -> None:
    """What it takes for gpt-5.5 learns of subagents from a tool that searches for tools."""
    finished = ask(CODEX, "gpt-5.5", 'use tool tool_search with {"query": "spawn agent"}')
    assert finished.status == 0, finished
    assert "spawn_agent" in CODEX.answer(finished.stdout), finished
    first, second = all_went_well(gateway, simulator, CLAUDE)
    found = {tool["name"] for tool in second.json()["tools"]} - {
        tool["name"] for tool in first.json()["tools"]
    }
    assert "multi_agent_v1__spawn_agent" in found


def test_tools_that_come_as_an_item_of_the_input_are_called(
    ask: Ask, note: Path, simulator: SimulatorProcess, gateway: GatewayProcess
) -> None:
    """What it takes for gpt-5.6 is given custom tools in namespaces, and none in ``tools``."""
    script = f"text((await tools.exec_command({{cmd: 'cat {note}'}})).output)"
    finished = ask(CODEX, "gpt-5.6-sol", f"use tool functions__exec with {json.dumps({'input': script})}")
    assert finished.status == 0, finished
    assert NOTE in CODEX.answer(finished.stdout), finished
    all_went_well(gateway, simulator, "gem/gemini-3-flash")


def test_codex_falls_back_to_http_where_its_websocket_is_not_served(
    ask: Ask, note: Path, simulator: SimulatorProcess
) -> None:
    finished = ask(CODEX_OVER_WEBSOCKETS, CLAUDE, CODEX.please_read(note))
    assert finished.status == 0, finished
    assert NOTE in CODEX.answer(finished.stdout), finished
    assert [request.status for request in simulator.requests()] == [200] * 2


def test_a_conversation_goes_on_with_other_families_models(
    ask: Ask, note: Path, simulator: SimulatorProcess, gateway: GatewayProcess
) -> None:
    models = [*MODELS, CLAUDE]
    for turn, model in enumerate(models):
        agent = CODEX_AGAIN if turn else CODEX
        finished = ask(agent, model, agent.please_read(note, tools=2))
        assert finished.status == 0, finished
        assert agent.answer(finished.stdout).count(NOTE) == 2, finished
    events = gateway.events(2 * len(models))
    providers = [model.partition("/")[0] for model in models for _ in range(2)]
    assert [(event["provider"], event["status"]) for event in events] == [(name, "ok") for name in providers]
    assert [request.status for request in simulator.requests()] == [200] * len(providers)


@pytest.mark.parametrize("model", MODELS)
def test_a_conversation_is_compacted_in_the_midst_of_a_tool_loop(
    ask: Ask, seat: Desk, simulator: SimulatorProcess, gateway: GatewayProcess, model: str
) -> None:
    """What asks for the summary offers no tools, though there are calls in its history.

    The conversation that goes on with the summary asks for the call again; by then the big file is gone.
    """
    (seat.work / "big.txt").write_text("tangerine " * 3000)
    agent = codex_with("model_auto_compact_token_limit = 5000")
    arguments = json.dumps({"cmd": "cat big.txt && rm big.txt"})
    finished = ask(agent, model, f"use tool exec_command with {arguments}")
    assert finished.status == 0, finished
    seen = all_went_well(gateway, simulator, model)
    compacting = [request for request in seen if b"write_stdin" not in request.body]
    assert compacting
    assert all(b"COMPACTION" in request.body for request in compacting)
    assert "No such file" in agent.answer(finished.stdout), finished


@pytest.mark.parametrize("model", MODELS)
def test_an_answer_that_breaks_ends_the_turn_with_the_reason(
    ask: Ask, gateway: GatewayProcess, model: str
) -> None:
    finished = ask(CODEX, f"{model}+sim-error-in-stream-after-4", "repeat:30")
    assert finished.status != 0, finished
    failure = json.loads(finished.stdout.splitlines()[-1])
    assert failure["type"] == "turn.failed", finished
    assert "stream closed before response.completed" not in finished.stdout, finished
    (event,) = gateway.events()
    assert event["status"] == "upstream_error", event
