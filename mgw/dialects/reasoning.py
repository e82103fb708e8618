"""How each family expresses a thinking setting.

Three vendors measure thinking in three ways: by name, in tokens, and by leaving it to the model.  A wish goes
over by name where the model takes names (a missing one to its neighbour), else in tokens.  What the model
does by itself is left unsaid, and so is everything where nothing was asked.

Sources: contract 8.8; the vendors' references as named in :mod:`mgw.dialects.model_rows`.
"""

from __future__ import annotations

from enum import Enum, auto
from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct

from mgw.canonical.conversation import NO_REASONING, Reasoning
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import ChatTools, Effort, ForcedTools

LEAST_BUDGET: Final = 1024
"""Fewest thinking tokens of an Anthropic model, and what its answer keeps for itself where it can."""

BUDGETS: Final = MappingProxyType(
    {
        Effort.NONE: 0,
        Effort.MINIMAL: 1024,
        Effort.LOW: 2048,
        Effort.MEDIUM: 8192,
        Effort.HIGH: 24_576,
        Effort.XHIGH: 32_768,
        Effort.MAX: 32_768,
    }
)
"""What an effort is in tokens."""

_NAMES_BY_BUDGET: Final = (
    (1024, Effort.MINIMAL),
    (4096, Effort.LOW),
    (16_384, Effort.MEDIUM),
    (28_672, Effort.HIGH),
)
_NONE: Final = Effort.NONE  # a member of an enumeration is looked up in Python's slow way each time
_ORDER: Final = MappingProxyType({effort: place for place, effort in enumerate(Effort)})


class OpenAIReasoning(Struct, frozen=True):
    """What a chat completions request says; ``None`` is left out."""

    effort: str | None = None
    lost: bool = False
    """The wish could not be said."""
    thoughts_lost: bool = False
    """The client wants to read thoughts, and this dialect cannot ask for them."""
    sampling: bool = True
    """``temperature`` and ``top_p`` may go with it."""


class ResponsesReasoning(Struct, frozen=True):
    """What a request of Responses says of reasoning."""

    effort: str | None = None
    summary: bool = False
    """Whether to ask for a summary of the thoughts, which is all that anybody may read of them."""
    encrypted: bool = False
    """The model may think, so that its thoughts have to come encrypted for the next request."""
    lost: bool = False
    """The wish could not be said."""
    thoughts_lost: bool = False
    """The client wants to read thoughts, and the model has none."""
    sampling: bool = True
    """``temperature`` and ``top_p`` may go with it."""


class AnthropicThinking(Struct, frozen=True):
    """What a messages request says; ``None`` is left out."""

    max_tokens: int
    kind: Literal["enabled", "adaptive", "disabled", "between_tools"] | None = None
    """``thinking.type``."""
    budget: int | None = None
    """``thinking.budget_tokens``, with ``enabled`` only."""
    effort: str | None = None
    """``output_config.effort``."""
    display: Literal["summarized", "omitted"] | None = None
    """``thinking.display``."""
    lost: bool = False
    """The wish could not be said."""
    sampling: bool = True
    """``temperature``, ``top_p`` and ``top_k`` may go with it, where the API version has them."""


class GeminiThinking(Struct, frozen=True):
    """What ``thinkingConfig`` says; all ``None``: there is none."""

    budget: int | None = None
    level: str | None = None
    include_thoughts: bool | None = None
    lost: bool = False
    """The wish could not be said."""


_UNTOLD_TO_GEMINI: Final = GeminiThinking()


class _Wish(Enum):
    """What a request asks for, whatever measure it uses."""

    NOTHING = auto()
    OFF = auto()
    OWN = auto()
    """The amount of thinking that the model thinks right."""
    SOME = auto()


def effort_of(budget: int) -> Effort | None:
    """Return the name of a number of tokens; ``None``, the model's own choice, for -1."""
    if budget < 0:
        return None
    if budget == 0:
        return Effort.NONE
    return next((effort for most, effort in _NAMES_BY_BUDGET if budget <= most), Effort.XHIGH)


def map_to_openai(reasoning: Reasoning, row: ModelRow, *, tools: bool = False) -> OpenAIReasoning:
    """Say ``reasoning`` to a chat completions model; ``tools``: function tools go with it.

    Newer models of OpenAI refuse function tools on this route unless they are told not to reason, even where
    nobody asked them to reason.  Those of them that do not reason by themselves refuse the word "none" beside
    tools, too (livekit/agents#5084), so that nothing is said.
    """
    if reasoning is NO_REASONING and not tools:
        return OpenAIReasoning(sampling=row.sampling or (row.off_sampling and row.default is _NONE))
    wish = _wish(reasoning)
    effort, lost = _effort_for_openai(wish, reasoning, row)
    if tools and row.chat_tools is ChatTools.UNREASONED:
        effort = None if row.default is Effort.NONE else Effort.NONE
        lost = wish in {_Wish.SOME, _Wish.OWN}
    idle = (effort or row.default) is Effort.NONE
    return OpenAIReasoning(
        effort=effort,
        lost=lost,
        thoughts_lost=reasoning.thoughts is True,
        sampling=row.sampling or (row.off_sampling and idle),
    )


def map_to_responses(reasoning: Reasoning, row: ModelRow) -> ResponsesReasoning:
    """Say ``reasoning`` to a model that is asked through Responses.

    As with Gemini, a client that asks for thinking is shown the thoughts, unless it does not want them.

    :param row: the model's row on Responses.
    """
    said = map_to_openai(reasoning, row)
    thinks = row.default not in {None, _NONE} or bool(row.names)
    wish = _wish(reasoning)
    asked = reasoning.thoughts is True if wish is _Wish.NOTHING else reasoning.thoughts is not False
    summary = asked and thinks and wish is not _Wish.OFF
    return ResponsesReasoning(
        effort=said.effort,
        summary=summary,
        encrypted=bool(row.efforts) or row.default is not _NONE,
        lost=said.lost,
        thoughts_lost=reasoning.thoughts is True and not summary,
        sampling=said.sampling,
    )


def map_to_anthropic(
    reasoning: Reasoning,
    row: ModelRow,
    max_tokens: int | None,
    default_max_tokens: int,
    *,
    forced: bool = False,
) -> AnthropicThinking:
    """Say ``reasoning`` to a messages model; ``forced``: a tool choice goes with it that forces a call.

    ``max_tokens`` is the client's limit; without one the answer gets ``default_max_tokens`` beside what it
    thinks.  Both stay within what the model can put out.
    """
    if reasoning is NO_REASONING and not forced:
        return AnthropicThinking(_limit(max_tokens, default_max_tokens, row), sampling=row.sampling)
    wish = _wish(reasoning)
    if wish is _Wish.OFF or (forced and row.forced_tools is ForcedTools.UNTHINKING):
        return _unthinking(wish, reasoning, row, _limit(max_tokens, default_max_tokens, row))
    if wish is _Wish.NOTHING:
        return _untold(reasoning, row, _limit(max_tokens, default_max_tokens, row))
    if not row.adaptive and row.budget is None:
        limit = _limit(max_tokens, default_max_tokens, row)
        return AnthropicThinking(limit, lost=wish is _Wish.SOME, sampling=row.sampling)
    wanted = _tokens(reasoning, row)
    limit = _limit(max_tokens, default_max_tokens + wanted, row)
    switchable = row.off or row.default is Effort.NONE
    if limit <= LEAST_BUDGET and (switchable or not row.adaptive):
        return _unthinking(wish, reasoning, row, limit)
    if row.adaptive:
        return _adaptive(wish, reasoning, row, limit)
    return AnthropicThinking(
        limit,
        kind="enabled",
        budget=_fitting(wanted, limit),
        effort=_named(reasoning.effort, row) if reasoning.effort is not None else None,
        display=_display(reasoning, row),
        sampling=False,
    )


def map_to_gemini(reasoning: Reasoning, row: ModelRow) -> GeminiThinking:
    """Say ``reasoning`` to a generateContent model.

    A client that asks for thinking is shown the thoughts, unless it does not want them.
    """
    if reasoning is NO_REASONING:
        return _UNTOLD_TO_GEMINI
    wish = _wish(reasoning)
    if not row.names and row.budget is None:
        thinks = row.default is not Effort.NONE
        return GeminiThinking(lost=wish is _Wish.SOME or (wish is _Wish.OFF and thinks))
    if wish is _Wish.OFF:
        return _off_for_gemini(row)
    if wish is _Wish.NOTHING:
        return GeminiThinking(include_thoughts=reasoning.thoughts or None)
    shown = None if reasoning.thoughts is False else True
    if row.names:
        level = None if wish is _Wish.OWN else _named(_amount(reasoning), row)
        return GeminiThinking(level=None if level is None else level.upper(), include_thoughts=shown)
    budget = -1 if wish is _Wish.OWN else _tokens(reasoning, row)
    return GeminiThinking(budget=budget, include_thoughts=shown)


def _wish(reasoning: Reasoning) -> _Wish:
    if reasoning.effort is Effort.NONE or reasoning.budget == 0:
        return _Wish.OFF
    if reasoning.effort is not None or (reasoning.budget is not None and reasoning.budget > 0):
        return _Wish.SOME
    if reasoning.budget is not None or reasoning.adaptive:
        return _Wish.OWN
    return _Wish.NOTHING


def _amount(reasoning: Reasoning) -> Effort | None:
    """Return how much is asked for, by name; ``None``: that is the model's choice."""
    if reasoning.effort is not None or reasoning.budget is None:
        return reasoning.effort
    return effort_of(reasoning.budget)


def _named(wanted: Effort | None, row: ModelRow) -> Effort | None:
    """Return the nearest effort that the model takes by name, of two as near the higher."""
    if wanted is None or not row.names:
        return None
    return min(row.names, key=lambda name: (abs(_ORDER[name] - _ORDER[wanted]), -_ORDER[name]))


def _tokens(reasoning: Reasoning, row: ModelRow) -> int:
    """Return how many tokens are asked for, within the model's range.

    The model's own choice is what it thinks by itself; a model that does not gets a medium budget, and an
    adaptive one ``high``, the vendor's default once thinking is on.
    """
    if reasoning.budget is not None and reasoning.budget > 0 and not row.adaptive:
        wanted = reasoning.budget
    else:
        own = row.default if row.default not in {None, Effort.NONE} else None
        wanted = BUDGETS[_amount(reasoning) or own or (Effort.HIGH if row.adaptive else Effort.MEDIUM)]
    if row.budget is None:
        return wanted
    least, most = row.budget
    return max(least, min(wanted, most))


def _effort_for_openai(wish: _Wish, reasoning: Reasoning, row: ModelRow) -> tuple[Effort | None, bool]:
    if wish is _Wish.NOTHING:
        return None, False
    if wish is _Wish.OFF:
        if Effort.NONE in row.efforts:
            return Effort.NONE, False
        if row.default is None or row.default is Effort.NONE:  # whatever it takes might set it thinking
            return None, row.default is None
        return (row.names[0] if row.names else None), True
    if wish is _Wish.OWN:
        return (_named(Effort.MEDIUM, row) if row.default is Effort.NONE else None), False
    named = _named(_amount(reasoning), row)
    return named, named is None


def _limit(max_tokens: int | None, unlimited: int, row: ModelRow) -> int:
    wanted = unlimited if max_tokens is None else max_tokens
    return wanted if row.max_output is None else min(wanted, row.max_output)


def _fitting(wanted: int, limit: int) -> int:
    """Return a budget below ``limit`` that leaves the answer its own share where there is one."""
    return max(LEAST_BUDGET, min(wanted, limit - LEAST_BUDGET))


def _display(reasoning: Reasoning, row: ModelRow) -> Literal["summarized", "omitted"] | None:
    if row.hides_thoughts:
        return None if reasoning.thoughts is False else "summarized"
    return "omitted" if reasoning.thoughts is False else None


def _adaptive(wish: _Wish, reasoning: Reasoning, row: ModelRow, limit: int) -> AnthropicThinking:
    return AnthropicThinking(
        limit,
        kind="adaptive",
        effort=None if wish is _Wish.OWN else _named(_amount(reasoning), row),
        display=_display(reasoning, row),
        sampling=False,
    )


def _untold(reasoning: Reasoning, row: ModelRow, limit: int) -> AnthropicThinking:
    """Leave everything to the model, but show the thoughts of one that hides them if they are wanted."""
    thinks = row.default not in {None, Effort.NONE}
    if reasoning.thoughts and thinks and row.adaptive and row.hides_thoughts:
        return AnthropicThinking(limit, kind="adaptive", display="summarized", sampling=False)
    return AnthropicThinking(limit, sampling=row.sampling)


def _unthinking(wish: _Wish, reasoning: Reasoning, row: ModelRow, limit: int) -> AnthropicThinking:
    """Switch thinking off; a model that cannot do so thinks as little as it may.

    With thinking off ``xhigh`` and ``max`` are refused by some models, so ``high`` is the most that is said.
    """
    if row.default is not Effort.NONE and not row.off:
        least = row.names[0] if row.names and wish is not _Wish.NOTHING else None
        return AnthropicThinking(limit, effort=least, lost=wish is not _Wish.NOTHING, sampling=row.sampling)
    wanted = _amount(reasoning) if wish is _Wish.SOME else None
    kind: Literal["between_tools", "disabled"] = "between_tools" if row.between_tools else "disabled"
    return AnthropicThinking(
        limit,
        kind=None if row.default is Effort.NONE else kind,
        effort=_named(Effort.HIGH if wanted in {Effort.XHIGH, Effort.MAX} else wanted, row),
        lost=wish in {_Wish.SOME, _Wish.OWN},
        sampling=row.sampling,
    )


def _off_for_gemini(row: ModelRow) -> GeminiThinking:
    if row.names:
        return GeminiThinking(level=row.names[0].upper(), lost=True)
    if row.off:
        return GeminiThinking(budget=0)
    return GeminiThinking(budget=row.budget[0] if row.budget else None, lost=True)
