"""Agent SDKs that speak Responses, unmodified, with models that are asked in another API.

Each runs in a program of its own (:mod:`tests.agents.programs`), which says what came of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.agents.conftest import KEY
from tests.agents.running import Desk, node, run
from tests.agents.test_translated_codex import shows_its_thought, translating
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.simulator import SimulatorProcess

PROGRAMS: Final = Path(__file__).parent / "programs"
MODELS: Final = ("claude/claude-sonnet-5", "gem/gemini-3-flash")
BOTH_CALLS: Final = 'use tool get_weather with {"city": "Paris"} and use tool get_time with {"city": "Rome"}'
BOTH_RESULTS: Final = "Tool get_weather returned: rain in Paris Tool get_time returned: noon in Rome"

Play = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def gateway(installation: Path, shared_simulator: SimulatorProcess) -> Iterator[GatewayProcess]:
    """A gateway that translates, and says what it has dropped."""
    config = translating(shared_simulator.url, "refuse") + "observe_dropped_fields: true\n"
    with start_gateway(config) as process:
        yield process


@pytest.fixture
def agents_sdk(installation: Path, seat: Desk, gateway: GatewayProcess) -> Play:
    """Run two agents of the OpenAI Agents SDK."""
    command = [str(installation / "python" / "bin" / "python"), str(PROGRAMS / "agents_sdk.py")]
    return lambda **task: play(command, {}, seat, gateway, task)


@pytest.fixture
def vercel(installation: Path, seat: Desk, gateway: GatewayProcess) -> Play:
    """Hold a conversation with the Vercel AI SDK."""
    command = [node(), str(PROGRAMS / "vercel.mjs")]
    return lambda **task: play(command, {"MODULES": str(installation)}, seat, gateway, task)


def play(
    command: list[str], environ: dict[str, str], seat: Desk, gateway: GatewayProcess, task: dict[str, Any]
) -> dict[str, Any]:
    """Run a program with a task, and return what it says."""
    whole_task = json.dumps({"url": gateway.url, "key": KEY, **task})
    finished = run([*command, whole_task], seat, environ)
    assert finished.status == 0, finished
    answer: dict[str, Any] = json.loads(finished.stdout)
    return answer


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "streamed"])
@pytest.mark.parametrize("thinks", [False, True], ids=["without thoughts", "with thoughts"])
@pytest.mark.parametrize("model", [*MODELS, "gem/gemini-2.5-flash+sim-no-ids"])
def test_a_run_with_a_handoff_and_tools_ends_in_the_second_agents_text(
    agents_sdk: Play, simulator: SimulatorProcess, model: str, thinks: bool, stream: bool
) -> None:
    """The SDK ends a run in which an identifier of a call repeats, whoever has made it."""
    prompt = (
        'preface, use tool get_weather with {"city": "Paris"} and use tool transfer_to_clock with {} '
        'and use tool get_time with {"city": "Rome"}'
    )
    ended = agents_sdk(model=model, stream=stream, thinks=thinks, prompt=prompt)
    assert (ended["agent"], ended["text"]) == ("clock", "Tool get_time returned: noon in Rome")
    assert ended["items"].count("tool_call_item") == 2
    assert ended["items"].count("handoff_call_item") == 1
    assert ended["usage"] > 0
    assert ended["deltas"].endswith(ended["text"]) is stream
    assert [request.status for request in simulator.requests()] == [200] * 3


@pytest.mark.parametrize("stream", [False, True], ids=["generateText", "streamText"])
@pytest.mark.parametrize("model", MODELS)
def test_tools_end_in_text_and_only_the_thought_is_lost_where_items_are_to_be_stored(
    vercel: Play, simulator: SimulatorProcess, gateway: GatewayProcess, model: str, stream: bool
) -> None:
    before = gateway.stdout.data.count(b"\n")
    ended = vercel(model=model, stream=stream, store=None, thinks=True, turns=[BOTH_CALLS])
    (turn,) = ended["turns"]
    assert (turn["text"], turn["finish"]) == (BOTH_RESULTS, "stop")
    assert turn["calls"] == [["get_weather", {"city": "Paris"}], ["get_time", {"city": "Rome"}]]
    assert all(turn["reasoning"]), turn
    first, second = gateway.events(before + 2)[before:]
    lost = set(second["dropped_fields"]) - set(first.get("dropped_fields", ()))
    assert lost == {"input[item_reference]"}
    assert [request.status for request in simulator.requests()] == [200] * 2


@pytest.mark.parametrize("stream", [False, True], ids=["generateText", "streamText"])
@pytest.mark.parametrize("model", MODELS)
def test_nothing_is_lost_in_a_conversation_that_is_not_to_be_stored(
    vercel: Play, simulator: SimulatorProcess, model: str, stream: bool
) -> None:
    turns = [f"preface, {BOTH_CALLS}", "and then"]
    ended = vercel(model=model, stream=stream, store=False, thinks=True, turns=turns)
    assert [turn["text"] for turn in ended["turns"]] == [BOTH_RESULTS, "You said: and then"]
    seen = simulator.requests()
    assert [request.status for request in seen] == [200] * 3
    assert all(shows_its_thought(request.json()) for request in seen[1:])
    for text in ("I call get_weather, get_time.", "rain in Paris", BOTH_RESULTS):
        assert json.dumps(text)[1:-1].encode() in seen[-1].body, text


@pytest.mark.parametrize("stream", [False, True], ids=["generateText", "streamText"])
@pytest.mark.parametrize("turns", [["one", "two"], [f"preface, {BOTH_CALLS}"]], ids=["turns", "tool loop"])
def test_a_text_that_was_to_be_stored_is_missed_with_the_setting_that_helps(
    vercel: Play, simulator: SimulatorProcess, turns: list[str], stream: bool
) -> None:
    ended = vercel(model=MODELS[0], stream=stream, store=None, thinks=False, turns=turns)
    assert len(ended["turns"]) == len(turns) - 1
    assert ended["error"]["status"] == 400, ended
    error = json.loads(ended["error"]["body"])["error"]
    assert "store: false" in error["message"]
    assert "providerOptions.openai.store" in error["message"]
    assert (error["code"], error["param"]) == ("unsupported_item", "input[1]")
    assert len(simulator.requests()) == 1
