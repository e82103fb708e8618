"""One conversation that changes models in its middle: each reads what the others said, and its own again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

import pytest

from tests.support.all_kinds import KEY, TAG, all_kinds
from tests.support.gateway import GatewayProcess
from tests.support.sdk_conversations import (
    CONVERSATIONS,
    TWO_CALLS,
    Asking,
    ChatConversation,
    ContentConversation,
    MessagesConversation,
)
from tests.support.simulator import SimulatorProcess

ConversationClass = type[ChatConversation] | type[MessagesConversation] | type[ContentConversation]

Way = tuple[bool, ...]

ANSWER: Final = "Tool get_weather returned: sunny Tool get_time returned: noon"
SIGNED_BY: Final = {"claude": b"c2ltdWxhdGVkLWFudGhyb3BpYz", "gem": b"c2ltdWxhdGVkLWdlbWluaT"}
NEWEST: Final = ("main/gpt-5", "claude/claude-sonnet-5", "gem/gemini-3-pro")
OTHERS: Final = ("host/deep+sim-reasoning", "claude/claude-sonnet-4-5", "gem/gemini-2.5-flash")
"""Models that take the same in other words."""

each_sdk = pytest.mark.parametrize("conversation_class", CONVERSATIONS)


def asked(ways: Mapping[tuple[str, ...], Sequence[Way]], names: str) -> pytest.MarkDecorator:
    """Go through the models in each order, in the ways that are given for it."""
    return pytest.mark.parametrize(
        f"order, {names}",
        [
            pytest.param(
                order, *way, id=" ".join([*(model.partition("/")[0] for model in order), *map(str, way)])
            )
            for order, chosen in ways.items()
            for way in chosen
        ],
    )


CIRCLES: Final = tuple(
    tuple(NEWEST[(start + step * at) % 3] for at in range(3)) for step in (1, -1) for start in range(3)
)
"""The orders of the newest models.  Three that follow one another are one circle, begun with each of its
models: since a test comes back to its first model, all three have the same changes of models."""
EITHER_WAY: Final[dict[tuple[str, ...], list[Way]]] = {
    **{order: [(at % 2 == 0,)] for at, order in enumerate(CIRCLES)},
    OTHERS: [(False,), (True,)],
    OTHERS[::-1]: [(False,), (True,)],
}
"""``stream``: each change of models, with answers whole and streamed."""
EVERY_WAY: Final[dict[tuple[str, ...], list[Way]]] = {
    CIRCLES[0]: [(False, False), (True, False)],
    CIRCLES[1]: [(False, True)],
    CIRCLES[2]: [(True, True)],
    CIRCLES[3]: [(False, False), (True, False)],
    CIRCLES[4]: [(True, True)],
    CIRCLES[5]: [(False, True)],
    OTHERS: [(False, False), (True, True)],
    OTHERS[::-1]: [(False, True), (True, False)],
}
"""``stream`` and ``thinks``: each change of models in all four ways.  A model that signs its thoughts, and
reads them again at the end, is the first with thoughts whole and streamed."""


pytestmark = pytest.mark.gateway_config(make=all_kinds)


def assert_no_tags(simulator: SimulatorProcess, requests: int) -> None:
    seen = simulator.requests()
    assert [request.status for request in seen] == [200] * requests
    for request in seen:
        assert TAG not in request.body, f"a tag went to {request.target}: {request.body!r}"
        other = "gem" if request.target.startswith("/v1/messages") else "claude"
        if not request.target.startswith("/v1/chat"):
            assert SIGNED_BY[other] not in request.body, f"a foreign signature went to {request.target}"


@each_sdk
@asked(EVERY_WAY, "stream, thinks")
def test_whole_loops_with_one_model_after_another(
    simulator: SimulatorProcess,
    gateway: GatewayProcess,
    conversation_class: ConversationClass,
    order: tuple[str, ...],
    stream: bool,
    thinks: bool,
) -> None:
    simulator.clear()
    conversation = conversation_class(gateway.url, KEY, order[0], Asking(tools=True, thinks=thinks))
    for model, phrase in zip(
        (*order, order[0]), ("", "preface", "think hidden", "think between"), strict=True
    ):
        conversation.model = model
        conversation.add_user(f"{phrase} {TWO_CALLS}")
        calls = conversation.answer(stream=stream).calls
        conversation.add_results(list(zip(calls, ("sunny", "noon"), strict=True)))
        assert conversation.answer(stream=stream).text == ANSWER
    assert_no_tags(simulator, 8)
    own = SIGNED_BY.get(order[0].partition("/")[0])
    if own is not None and thinks:
        assert simulator.requests()[-1].body.count(own) >= 2  # of both its loops


@each_sdk
@asked(EITHER_WAY, "stream")
def test_the_results_of_one_models_calls_go_to_the_next(
    simulator: SimulatorProcess,
    gateway: GatewayProcess,
    conversation_class: ConversationClass,
    order: tuple[str, ...],
    stream: bool,
) -> None:
    simulator.clear()
    conversation = conversation_class(gateway.url, KEY, order[0], Asking(tools=True))
    for model, following in zip(order, (*order[1:], order[0]), strict=True):
        conversation.model = model
        conversation.add_user(f"preface {TWO_CALLS}")
        calls = conversation.answer(stream=stream).calls
        conversation.model = following
        conversation.add_results(list(zip(calls, ("sunny", "noon"), strict=True)))
        assert conversation.answer(stream=stream).text == ANSWER
    assert_no_tags(simulator, 6)


@each_sdk
@asked({order: EITHER_WAY[order] for order in CIRCLES}, "stream")
def test_the_results_go_to_the_next_although_both_think(
    simulator: SimulatorProcess,
    gateway: GatewayProcess,
    conversation_class: ConversationClass,
    order: tuple[str, ...],
    stream: bool,
) -> None:
    simulator.clear()
    conversation = conversation_class(gateway.url, KEY, order[0], Asking(tools=True, thinks=True))
    for model, following in zip(order, (*order[1:], order[0]), strict=True):
        conversation.model = model
        conversation.add_user(f"think between {TWO_CALLS}")
        calls = conversation.answer(stream=stream).calls
        conversation.model = following
        conversation.add_results(list(zip(calls, ("sunny", "noon"), strict=True)))
        assert conversation.answer(stream=stream).text == ANSWER
    assert_no_tags(simulator, 6)


ALL: Final = (
    *NEWEST,
    *OTHERS[1:],
    "main/gpt-4.1",
    "claude/claude-fable-5",
    "gem/gemini-2.5-flash+sim-no-ids",
    "gem/gemini-2.5-flash+sim-unsigned",
)
PHRASES: Final = ("preface", "afterword", "think between", "think hidden")


@each_sdk
@pytest.mark.parametrize("seed", range(10))
def test_any_way_through_the_models_comes_to_its_end(
    simulator: SimulatorProcess, gateway: GatewayProcess, conversation_class: ConversationClass, seed: int
) -> None:
    """Loops and plain turns, whole and streamed; but for hosts, whose reasoning OpenAI itself refuses."""
    simulator.clear()
    drawn = Random(seed)
    conversation = conversation_class(gateway.url, KEY, ALL[0], Asking(tools=True, thinks=seed % 4 > 0))
    for _ in range(4):
        conversation.model = drawn.choice(ALL)
        phrases = " ".join(phrase for phrase in PHRASES if drawn.random() < 0.3)
        if drawn.random() < 0.3:
            conversation.add_user(f"{phrases} hello")
            assert "hello" in conversation.answer(stream=drawn.random() < 0.5).text
        else:
            conversation.add_user(f"{phrases} {TWO_CALLS}")
            calls = conversation.answer(stream=drawn.random() < 0.5).calls
            conversation.add_results(list(zip(calls, ("sunny", "noon"), strict=True)))
            assert ANSWER in conversation.answer(stream=drawn.random() < 0.5).text
    assert_no_tags(simulator, len(simulator.requests()))
