"""The cases of the translation benchmark: the same in every wire, and all of it arrives."""

from __future__ import annotations

import pytest

from bench.translation.ours import side
from bench.translation.pure import wrong
from bench.translation.side import items
from bench.translation.tally import differences, of_answer, of_request
from tests.support.talks import Talk, agent, chat
from tests.support.wires import ANTHROPIC, CHAT, GEMINI, answer, request

TALKS = [pytest.param(chat(), id="chat"), pytest.param(agent(), id="agent")]


@pytest.mark.parametrize("wire", [ANTHROPIC, GEMINI])
@pytest.mark.parametrize("talk", TALKS)
def test_a_conversation_holds_the_same_in_every_wire(talk: Talk, wire: str) -> None:
    assert of_request(wire, request(wire, talk)) == of_request(CHAT, request(CHAT, talk))
    assert of_answer(wire, answer(wire, talk)) == of_answer(CHAT, answer(CHAT, talk))


def test_the_cases_are_as_large_as_they_are_called() -> None:
    assert len(request(CHAT, chat())) == pytest.approx(4 * 1024, rel=0.05)
    assert len(request(CHAT, agent())) == pytest.approx(200 * 1024, rel=0.05)
    assert of_request(CHAT, request(CHAT, agent()))["tools"] == 40


def test_what_is_missing_is_seen() -> None:
    whole = of_request(CHAT, request(CHAT, agent()))
    assert differences(whole, whole | {"calls": whole["calls"] - 1}) == ["calls: 71 in place of 72"]
    assert differences(whole, {name: count for name, count in whole.items() if name != "text characters"})


def test_our_translation_of_the_cases_lacks_nothing() -> None:
    tallies = {item.key: item.tally(item.work()) for item in items(side())}
    assert wrong(tallies) == {}
    assert len(tallies) == 9 * 8 - 2, "every direction, but for requests that Gemini's path has the model of"
