"""The cases of the translation benchmark: the same in every wire, and all of it arrives."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bench.translation.ours import side
from bench.translation.pure import wrong
from bench.translation.side import items
from bench.translation.tally import differences, of_body, of_stream
from tests.support.talks import Assistant, Results, Talk, Turn, User, agent, chat
from tests.support.wires import ANTHROPIC, CHAT, GEMINI, WIRES, answer, request, stream

TALKS = [pytest.param(chat(), id="chat"), pytest.param(agent(), id="agent")]


@pytest.mark.parametrize("wire", [ANTHROPIC, GEMINI])
@pytest.mark.parametrize("talk", TALKS)
def test_a_conversation_holds_the_same_in_every_wire(talk: Talk, wire: str) -> None:
    assert of_body(request(wire, talk)) == of_body(request(CHAT, talk))
    assert of_body(answer(wire, talk)) == of_body(answer(CHAT, talk))


def test_the_cases_are_as_large_as_they_are_called() -> None:
    assert len(request(CHAT, chat())) == pytest.approx(4 * 1024, rel=0.05)
    assert len(request(CHAT, agent())) == pytest.approx(200 * 1024, rel=0.05)
    assert len(json.loads(request(CHAT, agent()))["tools"]) == 40


def test_what_is_missing_is_seen() -> None:
    whole = of_body(request(CHAT, agent()))
    assert differences(whole, whole | {"results": whole["results"] - 1}) == ["results: 71 in place of 72"]
    assert differences(whole, {name: count for name, count in whole.items() if name != "characters"})


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "missing", ["text", "a call", "arguments", "a result", "a tool", "the limit", "stops"]
)
def test_a_request_without_a_part_of_its_case_is_seen(wire: str, missing: str) -> None:
    whole = agent()
    calls, results = whole.turns[1], whole.turns[2]
    assert isinstance(calls, Assistant)
    assert isinstance(results, Results)
    without = {
        "text": replace(whole, turns=(User(""), *whole.turns[1:])),
        "a call": replace(whole, turns=(whole.turns[0], replace(calls, calls=()), *whole.turns[2:])),
        "arguments": replace(whole, turns=tuple(map(_without_arguments, whole.turns))),
        "a result": replace(whole, turns=(*whole.turns[:2], Results(()), *whole.turns[3:])),
        "a tool": replace(whole, tools=whole.tools[1:]),
        "the limit": replace(whole, max_tokens=0),
        "stops": replace(whole, stop=()),
    }[missing]
    assert differences(of_body(request(wire, whole)), of_body(request(wire, without)))


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_or_a_stream_without_its_end_or_a_call_is_seen(wire: str) -> None:
    said = agent().answer
    events = stream(wire, said)
    for less in (events[: len(events) // 2], stream(wire, replace(said, calls=said.calls[1:]))):
        assert differences(of_stream(b"".join(events)), of_stream(b"".join(less)))
    fewer = replace(agent(), answer=replace(said, calls=said.calls[1:]))
    assert differences(of_body(answer(wire, agent())), of_body(answer(wire, fewer)))


def _without_arguments(turn: Turn) -> Turn:
    if not isinstance(turn, Assistant):
        return turn
    return replace(turn, calls=tuple(replace(call, arguments={}) for call in turn.calls))


def test_our_translation_of_the_cases_lacks_nothing() -> None:
    tallies = {item.key: item.tally(item.work()) for item in items(side())}
    assert wrong(tallies) == {}
    assert len(tallies) == 9 * 6 - 2, "every direction, but for requests that Gemini's path has the model of"
