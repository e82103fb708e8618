"""How a request wants its response, both ways: sampling, limits, output format, reasoning, user.

Sources: the SDK's ``MessageCreateParams``; API version 2023-06-01 for ``temperature``, ``top_p`` and
``top_k``, of which the first two are refused together by models since Claude 4.1 ("`temperature` and `top_p`
cannot both be specified for this model").
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any, Final, Literal

from msgspec import Struct

from mgw.canonical.conversation import (
    NO_REASONING,
    NO_SAMPLING,
    Conversation,
    JsonObject,
    OutputFormat,
    OutputKind,
    Reasoning,
    Sampling,
)
from mgw.canonical.features import Feature
from mgw.dialects.anthropic.schema import restrict_schema
from mgw.dialects.anthropic.tools import is_call_required
from mgw.dialects.dialect import RenderOptions
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.reasoning import Wish, choose_budget, choose_named, find_effort, find_wish
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Effort, ForcedTools

_EFFORTS: Final = MappingProxyType(
    {effort.value: effort for effort in (Effort.LOW, Effort.MEDIUM, Effort.HIGH, Effort.XHIGH, Effort.MAX)}
)
_THINKING_TYPES: Final = ("enabled", "adaptive", "disabled", "between_tools")
_DISPLAYS: Final = MappingProxyType({"summarized": True, "omitted": False})
_SAMPLING: Final = MappingProxyType(
    {
        "temperature": (Feature.TEMPERATURE, Fields.number),
        "top_p": (Feature.TOP_P, Fields.number),
        "top_k": (Feature.TOP_K, Fields.integer),
    }
)
"""How each is taken."""
_LIMIT: Final = Feature.MAX_TOKENS  # a member of an enumeration is looked up in Python's slow way each time
_PERSONAL: Final = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+|\+?[\d\s().-]{7,}")
"""An e-mail address or a telephone number, which ``metadata.user_id`` must not be (BerriAI/litellm#10106)."""
LEAST_BUDGET: Final = 1024
"""Fewest thinking tokens of an Anthropic model, and what its answer keeps for itself where it can."""


def parse_sampling(root: Fields) -> Sampling:
    """Parse ``temperature``, ``top_p`` and ``top_k``, which the newest types no longer have."""
    found: dict[str, Any] = {}  # Any: numbers
    for key, (feature, take) in _SAMPLING.items():
        if key in root.unread:
            found[key] = take(root, key, feature)
    return Sampling(**found) if found else NO_SAMPLING


def parse_max_tokens(root: Fields) -> int | None:
    """Parse ``max_tokens``."""
    limit = root.integer("max_tokens", _LIMIT)
    if limit == 0:
        raise root.wrong(
            "max_tokens", "0 only warms the Anthropic cache, which other families do not have: send 1 or more"
        )
    return limit


def parse_output(root: Fields, config: Fields | None) -> OutputFormat | None:
    """Parse ``output_config.format``, or ``output_format``, as it was called before."""
    found = None if config is None else config.nested("format")
    if found is None:
        found = root.nested("output_format")
        if found is None:
            return None
    kind = found.required_text("type")
    if kind != "json_schema":
        raise none_of(found, "type", kind, ("json_schema",))
    schema = found.raw_object("schema", Feature.OUTPUT)
    if schema is None:
        raise found.missing("schema")
    return OutputFormat(OutputKind.SCHEMA, schema)


def parse_reasoning(root: Fields, config: Fields | None) -> Reasoning:
    """Parse ``output_config.effort`` and ``thinking``."""
    effort = _parse_effort(config)
    thinking = root.nested("thinking")
    if thinking is None:
        return NO_REASONING if effort is None else Reasoning(effort)
    kind = thinking.text("type", Feature.REASONING)
    if kind is None:
        raise thinking.missing("type")
    if kind not in _THINKING_TYPES:
        raise none_of(thinking, "type", kind, _THINKING_TYPES)
    budget = thinking.integer("budget_tokens", Feature.REASONING)
    if kind == "enabled" and budget is None:
        raise thinking.missing("budget_tokens")
    thoughts = _parse_display(thinking)
    if kind == "enabled":
        return Reasoning(effort, budget, thoughts=thoughts)
    if kind == "adaptive":
        return Reasoning(effort, adaptive=True, thoughts=thoughts)
    return Reasoning(effort, budget=0, thoughts=thoughts)


def _parse_effort(config: Fields | None) -> Effort | None:
    name = None if config is None else config.text("effort", Feature.REASONING)
    if config is None or name is None:
        return None
    if name not in _EFFORTS:
        raise none_of(config, "effort", name, _EFFORTS)
    return _EFFORTS[name]


def _parse_display(thinking: Fields) -> bool | None:
    display = thinking.text("display", Feature.THOUGHTS)
    if display is None:
        return None
    if display not in _DISPLAYS:  # beta: "updates", short lines between calls
        thinking.leave("display")
    return _DISPLAYS.get(display)


def render_sampling(sampling: Sampling, lost: set[Feature], *, is_supported: bool) -> JsonObject:
    """Return ``temperature`` or ``top_p``, and ``top_k``; ``is_supported``: the model takes them now."""
    rendered: JsonObject = {}
    if sampling.temperature is not None:
        if is_supported:
            rendered["temperature"] = min(sampling.temperature, 1)
        else:
            lost.add(Feature.TEMPERATURE)
    if sampling.top_p is not None:
        if is_supported and sampling.temperature is None:
            rendered["top_p"] = sampling.top_p
        else:
            lost.add(Feature.TOP_P)
    if sampling.top_k is not None:
        if is_supported:
            rendered["top_k"] = sampling.top_k
        else:
            lost.add(Feature.TOP_K)
    return rendered


def render_stop_sequences(stop: tuple[str, ...], lost: set[Feature]) -> list[str]:
    """Return the sequences that the vendor takes: they "must contain non-whitespace"."""
    rendered = [sequence for sequence in stop if sequence and not sequence.isspace()]
    if len(rendered) < len(stop):
        lost.add(Feature.STOP)
    return rendered


def render_metadata(user: str, lost: set[Feature]) -> JsonObject | None:
    """Return ``metadata`` with the identifier of the user, unless that is personal data."""
    if _PERSONAL.fullmatch(user):
        lost.add(Feature.USER)
        return None
    return {"user_id": user}


def render_output_config(
    effort: str | None, output: OutputFormat | None, row: ModelRow, lost: set[Feature]
) -> JsonObject:
    """Return ``output_config``: the effort, and the schema of the output."""
    config: JsonObject = {}
    if effort is not None:
        config["effort"] = effort
    schema = None if output is None else _render_schema(output, row, lost)
    if schema is not None:
        config["format"] = {"type": "json_schema", "schema": schema}
    return config


def _render_schema(output: OutputFormat, row: ModelRow, lost: set[Feature]) -> JsonObject | None:
    if output.kind is OutputKind.TEXT:
        return None
    if output.schema is None or not row.structured:
        lost.add(Feature.OUTPUT)  # of any JSON object: the vendor refuses a schema that all objects meet
        return None
    if output.name is not None:
        lost.add(Feature.OUTPUT_NAME)
    if output.description is not None:
        lost.add(Feature.OUTPUT_DESCRIPTION)
    schema, is_weaker = restrict_schema(output.schema)
    if output.strict is False or (output.strict and is_weaker):
        lost.add(Feature.OUTPUT_STRICT)
    return schema


def choose_thinking(
    reasoning: Reasoning, conversation: Conversation, options: RenderOptions
) -> AnthropicThinking:
    """Return how the model is to think for this reasoning."""
    return map_reasoning(
        reasoning,
        options.row,
        conversation.max_tokens,
        options.default_max_tokens,
        forced=is_call_required(conversation),
    )


def can_force_calls(thinking: AnthropicThinking, row: ModelRow) -> bool:
    """Whether a call can be forced from this model while it thinks as it will."""
    if row.forced_tools is not ForcedTools.UNTHINKING:
        return row.forced_tools is ForcedTools.ALWAYS
    if thinking.kind is None:
        return row.default in {None, Effort.NONE}
    return thinking.kind in {"disabled", "between_tools"}


def can_bind_thoughts(thinking: AnthropicThinking, row: ModelRow) -> bool:
    """Whether the request can have the vendor drop thoughts that it would refuse: one that thinks can.

    A model that binds thoughts thinks adaptively by itself, so that saying it changes nothing else (guide on
    preserved thinking).
    """
    if not row.binds_thoughts:
        return False
    return row.adaptive if thinking.kind is None else thinking.kind in {"adaptive", "enabled"}


def render_thinking(thinking: AnthropicThinking, *, bind_thoughts: bool) -> JsonObject | None:
    """Return ``thinking``; ``bind_thoughts``: with what becomes of thoughts that do not fit the history."""
    kind = thinking.kind or ("adaptive" if bind_thoughts else None)
    if kind is None:
        return None
    rendered: JsonObject = {"type": kind}
    if thinking.budget is not None:
        rendered["budget_tokens"] = thinking.budget
    if thinking.display is not None:
        rendered["display"] = thinking.display
    if bind_thoughts:
        rendered["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    return rendered


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


def map_reasoning(
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
    wish = find_wish(reasoning)
    if wish is Wish.OFF or (forced and row.forced_tools is ForcedTools.UNTHINKING):
        return _unthinking(wish, reasoning, row, _limit(max_tokens, default_max_tokens, row))
    if wish is Wish.NOTHING:
        return _untold(reasoning, row, _limit(max_tokens, default_max_tokens, row))
    if not row.adaptive and row.budget is None:
        limit = _limit(max_tokens, default_max_tokens, row)
        return AnthropicThinking(limit, lost=wish is Wish.SOME, sampling=row.sampling)
    wanted = choose_budget(reasoning, row)
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
        effort=choose_named(reasoning.effort, row) if reasoning.effort is not None else None,
        display=_display(reasoning, row),
        sampling=False,
    )


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


def _adaptive(wish: Wish, reasoning: Reasoning, row: ModelRow, limit: int) -> AnthropicThinking:
    return AnthropicThinking(
        limit,
        kind="adaptive",
        effort=None if wish is Wish.OWN else choose_named(find_effort(reasoning), row),
        display=_display(reasoning, row),
        sampling=False,
    )


def _untold(reasoning: Reasoning, row: ModelRow, limit: int) -> AnthropicThinking:
    """Leave everything to the model, but show the thoughts of one that hides them if they are wanted."""
    thinks = row.default not in {None, Effort.NONE}
    if reasoning.thoughts and thinks and row.adaptive and row.hides_thoughts:
        return AnthropicThinking(limit, kind="adaptive", display="summarized", sampling=False)
    return AnthropicThinking(limit, sampling=row.sampling)


def _unthinking(wish: Wish, reasoning: Reasoning, row: ModelRow, limit: int) -> AnthropicThinking:
    """Switch thinking off; a model that cannot do so thinks as little as it may.

    With thinking off ``xhigh`` and ``max`` are refused by some models, so ``high`` is the most that is said.
    """
    if row.default is not Effort.NONE and not row.off:
        least = row.names[0] if row.names and wish is not Wish.NOTHING else None
        return AnthropicThinking(limit, effort=least, lost=wish is not Wish.NOTHING, sampling=row.sampling)
    wanted = find_effort(reasoning) if wish is Wish.SOME else None
    kind: Literal["between_tools", "disabled"] = "between_tools" if row.between_tools else "disabled"
    return AnthropicThinking(
        limit,
        kind=None if row.default is Effort.NONE else kind,
        effort=choose_named(Effort.HIGH if wanted in {Effort.XHIGH, Effort.MAX} else wanted, row),
        lost=wish in {Wish.SOME, Wish.OWN},
        sampling=row.sampling,
    )
