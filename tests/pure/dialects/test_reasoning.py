"""What each family is told about thinking: the table of cases, and laws for any wish and any model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.conversation import Reasoning
from mgw.dialects.anthropic.options import AnthropicThinking
from mgw.dialects.anthropic.options import map_reasoning as map_to_anthropic
from mgw.dialects.gemini.options import GeminiThinking
from mgw.dialects.gemini.options import map_reasoning as map_to_gemini
from mgw.dialects.model_rows import FALLBACKS, ROWS
from mgw.dialects.models import Models
from mgw.dialects.openai.options import OpenAIReasoning
from mgw.dialects.openai.options import map_reasoning as map_to_openai
from mgw.dialects.reasoning import BUDGETS, effort_of
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import ChatTools, Effort, Family, ForcedTools

DEFAULT = 8192
OPUS = "claude-opus-5-5"
HAIKU_4_5 = "claude-haiku-4-5"
THINKING = [effort for effort in Effort if effort is not Effort.NONE]

budgets = st.one_of(
    st.none(), st.sampled_from([-1, 0, 1, 1023, 1024, 1025, 4096, 28_672, 28_673]), st.integers(-9, 200_000)
)
wishes = st.builds(
    Reasoning,
    effort=st.none() | st.just(Effort.NONE) | st.sampled_from(list(Effort)),
    budget=budgets,
    adaptive=st.booleans(),
    thoughts=st.none() | st.booleans(),
)
efforts = st.just(()) | st.sets(st.sampled_from(list(Effort))).map(
    lambda chosen: tuple(effort for effort in Effort if effort in chosen)
)
drawn_rows = st.builds(
    ModelRow,
    match=st.just("*"),
    family=st.just(Family.ANTHROPIC),
    source=st.just("drawn"),
    efforts=efforts,
    budget=st.none() | st.tuples(st.integers(1, 4096), st.integers(4096, 130_000)),
    off=st.booleans(),
    default=st.none() | st.sampled_from(list(Effort)),
    adaptive=st.booleans(),
    between_tools=st.booleans(),
    hides_thoughts=st.booleans(),
    forced_tools=st.sampled_from(list(ForcedTools)),
    chat_tools=st.sampled_from([ChatTools.ALWAYS, ChatTools.NEVER]),
    sampling=st.booleans(),
    off_sampling=st.booleans(),
    max_output=st.none() | st.integers(1, 130_000),
)
rows = st.one_of(st.sampled_from((*ROWS, *FALLBACKS.values())), drawn_rows)
limits = st.one_of(st.none(), st.integers(1, 3000), st.integers(1, 200_000))


def claude(model: str, reasoning: Reasoning, limit: int | None = None) -> AnthropicThinking:
    return map_to_anthropic(reasoning, Models().row(model, Family.ANTHROPIC), limit, DEFAULT)


def gpt(model: str, reasoning: Reasoning) -> OpenAIReasoning:
    return map_to_openai(reasoning, Models().row(model, Family.OPENAI))


def gemini(model: str, reasoning: Reasoning) -> GeminiThinking:
    return map_to_gemini(reasoning, Models().row(model, Family.GEMINI))


@pytest.mark.parametrize(
    ("budget", "effort"),
    [
        (-1, None),
        (0, Effort.NONE),
        (1, Effort.MINIMAL),
        (1024, Effort.MINIMAL),
        (1025, Effort.LOW),
        (4096, Effort.LOW),
        (4097, Effort.MEDIUM),
        (16_384, Effort.MEDIUM),
        (16_385, Effort.HIGH),
        (28_672, Effort.HIGH),
        (28_673, Effort.XHIGH),
    ],
)
def test_a_budget_has_a_name(budget: int, effort: Effort | None) -> None:
    assert effort_of(budget) is effort


@pytest.mark.parametrize("effort", [effort for effort in Effort if effort is not Effort.MAX])
def test_an_effort_comes_back_from_its_tokens(effort: Effort) -> None:
    assert effort_of(BUDGETS[effort]) is effort


# OpenAI


@pytest.mark.parametrize(
    ("model", "reasoning", "effort", "lost"),
    [
        ("o3", Reasoning(effort=Effort.HIGH), "high", False),
        ("o3", Reasoning(effort=Effort.MAX), "high", False),
        ("o3", Reasoning(effort=Effort.NONE), "low", True),
        ("o3", Reasoning(budget=8192), "medium", False),
        ("o3", Reasoning(budget=-1), None, False),
        ("gpt-5", Reasoning(budget=1024), "minimal", False),
        ("gpt-5.6-sol", Reasoning(effort=Effort.MINIMAL), "low", False),
        ("gpt-5.6-sol", Reasoning(effort=Effort.MAX), "xhigh", False),
        ("gpt-5.6-sol", Reasoning(budget=0), "none", False),
        ("gpt-5.6-sol", Reasoning(adaptive=True), None, False),
        ("gpt-5.2", Reasoning(adaptive=True), "medium", False),
        ("gpt-6-astra", Reasoning(effort=Effort.NONE), "low", True),
        ("gpt-4.1", Reasoning(effort=Effort.NONE), None, False),
        ("gpt-4.1", Reasoning(effort=Effort.LOW), None, True),
        ("gpt-4.1", Reasoning(adaptive=True), None, False),
        ("qwen3-32b", Reasoning(effort=Effort.XHIGH), "high", False),
        ("qwen3-32b", Reasoning(effort=Effort.NONE), None, True),
        ("qwen3-32b", Reasoning(adaptive=True), None, False),
    ],
)
def test_chat_models_are_told_by_name(
    model: str, reasoning: Reasoning, effort: str | None, lost: bool
) -> None:
    told = gpt(model, reasoning)
    assert (told.effort, told.lost) == (effort, lost)


@pytest.mark.parametrize(
    ("reasoning", "lost"),
    [
        (Reasoning(), False),
        (Reasoning(effort=Effort.NONE), False),
        (Reasoning(effort=Effort.HIGH), True),
        (Reasoning(adaptive=True), True),
    ],
)
def test_a_model_that_takes_tools_only_unreasoned_is_told_so(reasoning: Reasoning, lost: bool) -> None:
    told = map_to_openai(reasoning, Models().row("gpt-6-luna", Family.OPENAI), tools=True)
    assert (told.effort, told.lost) == ("none", lost)


@pytest.mark.parametrize(
    ("model", "effort", "sampling"),
    [
        ("gpt-4.1", None, True),
        ("gpt-5", None, False),
        ("gpt-5.2", None, True),
        ("gpt-5.2", Effort.LOW, False),
        ("gpt-5.6-sol", None, False),
        ("gpt-5.6-sol", Effort.NONE, True),
        ("gpt-6-astra", Effort.NONE, False),
        ("qwen3-32b", Effort.HIGH, True),
    ],
)
def test_sampling_goes_along_only_where_it_is_taken(
    model: str, effort: Effort | None, sampling: bool
) -> None:
    assert gpt(model, Reasoning(effort=effort)).sampling is sampling


def test_chat_cannot_be_asked_for_thoughts() -> None:
    assert gpt("o3", Reasoning(thoughts=True)) == OpenAIReasoning(thoughts_lost=True, sampling=False)


# Anthropic


@pytest.mark.parametrize(
    ("model", "reasoning", "kind", "effort"),
    [
        (OPUS, Reasoning(effort=Effort.MINIMAL), "adaptive", "low"),
        (OPUS, Reasoning(effort=Effort.XHIGH), "adaptive", "xhigh"),
        (OPUS, Reasoning(budget=8192), "adaptive", "medium"),
        (OPUS, Reasoning(budget=-1), "adaptive", None),
        (OPUS, Reasoning(adaptive=True), "adaptive", None),
        ("claude-opus-4-6", Reasoning(effort=Effort.XHIGH), "adaptive", "max"),
        ("claude-opus-4-6", Reasoning(effort=Effort.NONE), None, None),
        ("claude-opus-5", Reasoning(effort=Effort.NONE), "disabled", None),
        ("claude-haiku-5-5", Reasoning(budget=0), "disabled", None),
        ("claude-sonnet-5-5", Reasoning(effort=Effort.NONE), "between_tools", None),
        (HAIKU_4_5, Reasoning(effort=Effort.LOW), "enabled", None),
        ("claude-opus-4-5", Reasoning(effort=Effort.XHIGH), "enabled", "high"),
        ("claude-opus-4-5", Reasoning(budget=2048), "enabled", None),
    ],
)
def test_claude_models_are_told_in_their_own_way(
    model: str, reasoning: Reasoning, kind: str | None, effort: str | None
) -> None:
    told = claude(model, reasoning)
    assert (told.kind, told.effort, told.lost) == (kind, effort, False)


def test_a_claude_that_always_thinks_thinks_as_little_as_it_may() -> None:
    told = claude(OPUS, Reasoning(effort=Effort.NONE))
    assert told == AnthropicThinking(DEFAULT, effort="low", lost=True, sampling=False)


def test_a_claude_that_cannot_think_reports_the_wish() -> None:
    assert claude("claude-3-5-haiku-latest", Reasoning(effort=Effort.LOW)) == AnthropicThinking(
        8192, lost=True
    )


def test_without_a_limit_the_answer_has_the_default_beside_the_budget() -> None:
    told = claude(HAIKU_4_5, Reasoning(effort=Effort.MEDIUM))
    assert (told.budget, told.max_tokens) == (8192, DEFAULT + 8192)


@pytest.mark.parametrize(("effort", "tokens"), [(Effort.LOW, 2048), (Effort.MAX, 32_768)])
def test_without_a_limit_adaptive_thinking_has_room_for_its_effort(effort: Effort, tokens: int) -> None:
    assert claude(OPUS, Reasoning(effort=effort)).max_tokens == DEFAULT + tokens


def test_without_a_limit_the_model_is_never_asked_for_more_than_it_puts_out() -> None:
    told = claude("claude-opus-4-1", Reasoning(effort=Effort.MAX))
    assert (told.max_tokens, told.budget) == (32_000, 32_000 - 1024)
    assert claude("claude-3-haiku-20240307", Reasoning()).max_tokens == 4096


@pytest.mark.parametrize(
    ("limit", "budget"), [(1025, 1024), (2048, 1024), (3000, 1976), (9216, 8192), (60_000, 8192)]
)
def test_within_a_limit_the_answer_keeps_its_share(limit: int, budget: int) -> None:
    told = claude(HAIKU_4_5, Reasoning(effort=Effort.MEDIUM), limit)
    assert (told.kind, told.budget, told.max_tokens, told.lost) == ("enabled", budget, limit, False)


def test_a_limit_above_what_the_model_puts_out_is_lowered_to_that() -> None:
    assert claude("claude-opus-4-1", Reasoning(), 500_000).max_tokens == 32_000


@pytest.mark.parametrize(
    ("model", "kind"), [(HAIKU_4_5, None), ("claude-opus-4-6", None), ("claude-opus-5", "disabled")]
)
def test_a_limit_without_room_for_thinking_switches_it_off(model: str, kind: str | None) -> None:
    told = claude(model, Reasoning(budget=8192), 1024)
    assert (told.kind, told.budget, told.max_tokens, told.lost) == (kind, None, 1024, True)


@pytest.mark.parametrize(
    ("model", "kind", "effort"),
    [("claude-opus-4-8", None, "high"), ("claude-opus-5", "disabled", "high"), (OPUS, "adaptive", "max")],
)
def test_a_forced_tool_switches_thinking_off_where_they_do_not_go_together(
    model: str, kind: str | None, effort: str
) -> None:
    row = Models().row(model, Family.ANTHROPIC)
    told = map_to_anthropic(Reasoning(effort=Effort.MAX), row, None, DEFAULT, forced=True)
    assert (told.kind, told.effort, told.lost) == (kind, effort, kind != "adaptive")


def test_a_forced_tool_switches_off_thinking_that_nobody_asked_for() -> None:
    row = Models().row("claude-sonnet-5", Family.ANTHROPIC)
    told = map_to_anthropic(Reasoning(), row, None, DEFAULT, forced=True)
    assert (told.kind, told.lost) == ("disabled", False)


@pytest.mark.parametrize(
    ("model", "thoughts", "display"),
    [
        (OPUS, None, "summarized"),
        (OPUS, True, "summarized"),
        (OPUS, False, None),
        ("claude-opus-4-6", None, None),
        ("claude-opus-4-6", False, "omitted"),
        (HAIKU_4_5, None, None),
        (HAIKU_4_5, False, "omitted"),
    ],
)
def test_who_asks_for_thinking_sees_it(model: str, thoughts: bool | None, display: str | None) -> None:
    assert claude(model, Reasoning(effort=Effort.HIGH, thoughts=thoughts)).display == display


def test_thoughts_alone_are_shown_where_there_are_any() -> None:
    told = claude(OPUS, Reasoning(thoughts=True))
    assert (told.kind, told.effort, told.display) == ("adaptive", None, "summarized")
    assert claude("claude-opus-4-8", Reasoning(thoughts=True)).kind is None


def test_sampling_does_not_go_with_thinking() -> None:
    assert claude("claude-opus-4-6", Reasoning()).sampling is True
    assert claude("claude-opus-4-6", Reasoning(effort=Effort.LOW)).sampling is False
    assert claude(HAIKU_4_5, Reasoning(effort=Effort.LOW)).sampling is False
    assert claude(OPUS, Reasoning()).sampling is False


# Gemini


@pytest.mark.parametrize(
    ("model", "reasoning", "told"),
    [
        ("gemini-4-hydrogen", Reasoning(effort=Effort.MAX), GeminiThinking(None, "XHIGH", True)),
        ("gemini-4-argon", Reasoning(effort=Effort.XHIGH), GeminiThinking(None, "HIGH", True)),
        ("gemini-4-argon", Reasoning(effort=Effort.MINIMAL), GeminiThinking(None, "LOW", True)),
        ("gemini-4-argon", Reasoning(budget=5000), GeminiThinking(None, "MEDIUM", True)),
        ("gemini-4-argon", Reasoning(adaptive=True), GeminiThinking(include_thoughts=True)),
        ("gemini-4-argon", Reasoning(effort=Effort.NONE), GeminiThinking(None, "LOW", None, lost=True)),
        ("gemini-3-pro-preview", Reasoning(effort=Effort.MEDIUM), GeminiThinking(None, "HIGH", True)),
        ("gemma-4-31b-it", Reasoning(effort=Effort.LOW), GeminiThinking(None, "MINIMAL", True)),
        ("gemini-2.5-pro", Reasoning(effort=Effort.MAX), GeminiThinking(32_768, None, True)),
        ("gemini-2.5-pro", Reasoning(budget=7), GeminiThinking(128, None, True)),
        ("gemini-2.5-pro", Reasoning(budget=0), GeminiThinking(128, lost=True)),
        ("gemini-2.5-flash", Reasoning(effort=Effort.XHIGH), GeminiThinking(24_576, None, True)),
        ("gemini-2.5-flash", Reasoning(effort=Effort.NONE), GeminiThinking(0)),
        ("gemini-2.5-flash-lite", Reasoning(budget=-1), GeminiThinking(-1, None, True)),
        ("gemini-2.5-flash", Reasoning(effort=Effort.LOW, thoughts=False), GeminiThinking(2048)),
        ("gemini-4-argon", Reasoning(thoughts=True), GeminiThinking(include_thoughts=True)),
        ("gemini-4-argon", Reasoning(thoughts=False), GeminiThinking()),
        ("gemini-2.0-flash", Reasoning(effort=Effort.LOW), GeminiThinking(lost=True)),
        ("gemini-2.0-flash", Reasoning(effort=Effort.NONE), GeminiThinking()),
        ("gemini-2.0-flash", Reasoning(thoughts=True), GeminiThinking()),
    ],
)
def test_gemini_is_told_by_level_or_by_budget(model: str, reasoning: Reasoning, told: GeminiThinking) -> None:
    assert gemini(model, reasoning) == told


# Laws


@given(row=rows, limit=limits, thoughts=st.none() | st.just(value=False))
def test_nothing_asked_is_nothing_said(row: ModelRow, limit: int | None, thoughts: bool | None) -> None:
    asked = Reasoning(thoughts=thoughts)
    openai, anthropic = map_to_openai(asked, row), map_to_anthropic(asked, row, limit, DEFAULT)
    assert (openai.effort, openai.lost) == (None, False)
    assert (anthropic.kind, anthropic.effort, anthropic.display, anthropic.lost) == (None, None, None, False)
    assert map_to_gemini(asked, row) == GeminiThinking()


@given(reasoning=wishes, row=rows, tools=st.booleans())
def test_an_openai_model_is_told_only_what_it_takes(reasoning: Reasoning, row: ModelRow, tools: bool) -> None:
    told = map_to_openai(reasoning, row, tools=tools)
    assert told.effort is None or told.effort in row.efforts


@given(reasoning=wishes, row=rows, limit=limits, forced=st.booleans())
def test_an_anthropic_model_is_told_only_what_it_takes(
    reasoning: Reasoning, row: ModelRow, limit: int | None, forced: bool
) -> None:
    told = map_to_anthropic(reasoning, row, limit, DEFAULT, forced=forced)
    assert (told.kind == "enabled") is (told.budget is not None)
    assert told.budget is None or 1024 <= told.budget < told.max_tokens
    assert told.effort is None or told.effort in row.names
    assert told.kind != "enabled" or row.budget is not None
    assert told.kind != "adaptive" or row.adaptive
    assert told.kind not in {"disabled", "between_tools"} or row.off
    assert (told.kind == "between_tools") <= row.between_tools
    assert told.display is None or told.kind in {"enabled", "adaptive"}
    assert limit is None or told.max_tokens == min(limit, row.max_output or limit)
    assert row.max_output is None or told.max_tokens <= row.max_output


@given(reasoning=wishes, row=rows)
def test_a_gemini_model_is_told_only_what_it_takes(reasoning: Reasoning, row: ModelRow) -> None:
    told = map_to_gemini(reasoning, row)
    assert told.budget is None or told.level is None
    assert told.level is None or told.level.lower() in row.names
    if told.budget == 0:
        assert row.off
    elif told.budget is not None and told.budget != -1:
        assert row.budget is not None
        assert row.budget[0] <= told.budget <= row.budget[1]


@given(row=rows, limit=limits, thoughts=st.none() | st.booleans())
def test_more_effort_is_never_less_thinking(row: ModelRow, limit: int | None, thoughts: bool | None) -> None:
    order = list(Effort)
    asked = [Reasoning(effort=effort, thoughts=thoughts) for effort in THINKING]
    openai = [map_to_openai(one, row) for one in asked]
    anthropic = [map_to_anthropic(one, row, limit, DEFAULT) for one in asked]
    gemini_told = [map_to_gemini(one, row) for one in asked]
    for measured in (
        [order.index(Effort(told.effort)) for told in openai if told.effort],
        [order.index(Effort(told.effort)) for told in anthropic if told.effort],
        [told.budget for told in anthropic if told.budget is not None],
        [told.max_tokens for told in anthropic],
        [order.index(Effort(told.level.lower())) for told in gemini_told if told.level],
        [told.budget for told in gemini_told if told.budget is not None],
    ):
        assert measured == sorted(measured)


@given(reasoning=wishes, row=rows, limit=limits)
def test_a_wish_to_think_that_is_not_reported_is_heard(
    reasoning: Reasoning, row: ModelRow, limit: int | None
) -> None:
    wished = (reasoning.budget or 0) > 0 or (reasoning.effort in THINKING and reasoning.budget != 0)
    if not wished or reasoning.effort is Effort.NONE:
        return
    openai, anthropic = map_to_openai(reasoning, row), map_to_anthropic(reasoning, row, limit, DEFAULT)
    google = map_to_gemini(reasoning, row)
    assert openai.lost or openai.effort in THINKING
    assert anthropic.lost or anthropic.kind in {"enabled", "adaptive"}
    assert google.lost or google.level or (google.budget or 0) > 0 or google.include_thoughts


@pytest.mark.parametrize(("model", "said"), [("gpt-5.2", None), ("gpt-5.4", None), ("gpt-5.6", "none")])
def test_no_model_is_asked_to_reason_beside_tools_that_refuses_it(model: str, said: str | None) -> None:
    row = Models().row(model, Family.OPENAI)
    found = map_to_openai(Reasoning(Effort.HIGH), row, tools=True)
    assert (found.effort, found.lost) == (said, True)
    assert map_to_openai(Reasoning(), row, tools=True).effort == said
    assert not map_to_openai(Reasoning(Effort.NONE), row, tools=True).lost
