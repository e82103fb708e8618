"""How a request wants to be answered: sampling, limits, output format, reasoning.

Source: the SDK's ``completion_create_params``.  Reasoning has many spellings on this wire:

* ``reasoning_effort`` of OpenAI,
* ``reasoning: {effort, max_tokens, exclude, enabled}`` of OpenRouter,
* ``thinking: {type, budget_tokens}`` of DeepSeek, GLM and LiteLLM,
* ``extra_body.google.thinking_config`` of Google's endpoint for OpenAI's clients.

Each says what the ones before it left unsaid.  A value that asks for what happens anyway (``n: 1``, a
penalty of 0, ``logprobs: false``, an effort of ``default``, an empty stop sequence) says nothing.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, TypeVar

from mgw.canonical.conversation import OutputFormat, OutputKind, Reasoning, Sampling
from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields, none_of
from mgw.vocabulary import Effort

_Value = TypeVar("_Value", bound=float)
_EFFORTS: Final = MappingProxyType({str(effort): effort for effort in Effort})


def read_sampling(request: Fields) -> Sampling:
    """Take how tokens are drawn."""
    return Sampling(
        request.number("temperature", Feature.TEMPERATURE),
        request.number("top_p", Feature.TOP_P),
        request.integer("top_k", Feature.TOP_K),
        _noted(request, "frequency_penalty", Feature.FREQUENCY_PENALTY, request.number("frequency_penalty")),
        _noted(request, "presence_penalty", Feature.PRESENCE_PENALTY, request.number("presence_penalty")),
        request.integer("seed", Feature.SEED),
        _noted(request, "logprobs", Feature.LOGPROBS, request.flag("logprobs")),
        _noted(request, "top_logprobs", Feature.TOP_LOGPROBS, request.integer("top_logprobs")),
    )


def _noted(request: Fields, key: str, feature: Feature, value: _Value | None) -> _Value | None:
    """Return a value, unless it is what happens anyway: then the client has said nothing."""
    if not value:
        return None
    request.note(feature, key)
    return value


def read_max_tokens(request: Fields) -> int | None:
    """Take the limit of the answer; ``max_completion_tokens`` goes before the deprecated ``max_tokens``."""
    for key in ("max_completion_tokens", "max_tokens"):
        limit = request.integer(key, Feature.MAX_TOKENS)
        if limit is not None:
            if limit < 1:
                raise request.wrong(key, "must be at least 1")
            return limit  # the other, if there is one, stays unread
    return None


def read_candidates(request: Fields) -> int | None:
    """Take ``n``."""
    number = request.integer("n")
    if number is None or number == 1:
        return None
    if number < 1:
        raise request.wrong("n", "must be at least 1")
    request.note(Feature.CANDIDATES, "n")
    return number


def read_stop(request: Fields) -> tuple[str, ...]:
    """Take ``stop``: a string or an array of them."""
    value = request.take("stop", Feature.STOP)
    if value is None:
        return ()
    if type(value) is str:
        return (value,) if value else ()
    if type(value) is not list:
        raise request.mistyped("stop", str, value)
    for place, item in enumerate(value):
        if type(item) is not str:
            raise request.mistyped(f"stop[{place}]", str, item)
    return tuple(filter(None, value))


def read_user(request: Fields) -> str | None:
    """Take the end user: ``safety_identifier``, else ``user``, which it replaces."""
    user = request.text("safety_identifier", Feature.USER)
    return user if user is not None else request.text("user", Feature.USER)


def read_output(request: Fields) -> OutputFormat | None:
    """Take ``response_format``."""
    wanted = request.nested("response_format")
    if wanted is None:
        return None
    kind = wanted.required_text("type")
    if kind == "text":
        return None
    request.note(Feature.OUTPUT, "response_format")
    if kind == "json_object":
        return OutputFormat(OutputKind.JSON)
    if kind != "json_schema":
        raise none_of(wanted, "type", kind, ("text", "json_object", "json_schema"))
    schema = wanted.nested("json_schema")
    if schema is None:
        raise wanted.missing("json_schema")
    return OutputFormat(
        OutputKind.SCHEMA,
        schema.raw_object("schema"),
        schema.text("name", Feature.OUTPUT_NAME),
        schema.text("description", Feature.OUTPUT_DESCRIPTION),
        schema.flag("strict", Feature.OUTPUT_STRICT),
    )


def read_reasoning(request: Fields) -> Reasoning:
    """Take every spelling of reasoning."""
    wishes = [_openai(request), _openrouter(request), _thinking(request), _google(request)]
    efforts = [wish.effort for wish in wishes if wish.effort is not None]
    budgets = [wish.budget for wish in wishes if wish.budget is not None]
    thoughts = [wish.thoughts for wish in wishes if wish.thoughts is not None]
    return Reasoning(
        efforts[0] if efforts else None,
        budgets[0] if budgets else None,
        any(wish.adaptive for wish in wishes),
        thoughts[0] if thoughts else None,
    )


def _effort(fields: Fields, key: str) -> Effort | None:
    word = fields.text(key, Feature.REASONING)
    if word is None or word == "default":  # Groq
        return None
    effort = _EFFORTS.get(word.lower())
    if effort is None:
        raise none_of(fields, key, word, _EFFORTS)
    return effort


def _openai(request: Fields) -> Reasoning:
    return Reasoning(_effort(request, "reasoning_effort"))


def _openrouter(request: Fields) -> Reasoning:
    reasoning = request.nested("reasoning")
    if reasoning is None:
        return Reasoning()
    effort = _effort(reasoning, "effort")
    budget = reasoning.integer("max_tokens", Feature.REASONING)
    exclude = reasoning.flag("exclude", Feature.THOUGHTS)
    enabled = reasoning.flag("enabled", Feature.REASONING)
    if enabled is False:
        effort, budget = Effort.NONE, None
    elif enabled and effort is None and budget is None:
        effort = Effort.MEDIUM  # what OpenRouter says it means
    return Reasoning(effort, budget, thoughts=None if exclude is None else not exclude)


def _thinking(request: Fields) -> Reasoning:
    thinking = request.nested("thinking")
    if thinking is None:
        return Reasoning()
    kind = thinking.text("type", Feature.REASONING)
    budget = thinking.integer("budget_tokens", Feature.REASONING)
    if kind == "disabled":
        return Reasoning(Effort.NONE)
    if kind == "adaptive":
        return Reasoning(budget=budget, adaptive=True)
    if kind == "enabled":
        return Reasoning(budget=-1 if budget is None else budget)
    if kind is not None:
        raise none_of(thinking, "type", kind, ("enabled", "disabled", "adaptive"))
    return Reasoning(budget=budget)


def _google(request: Fields) -> Reasoning:
    extra = request.nested("extra_body")
    google = extra.nested("google") if extra is not None else None
    config = google.nested("thinking_config") if google is not None else None
    if config is None:
        return Reasoning()
    return Reasoning(
        _effort(config, "thinking_level"),
        config.integer("thinking_budget", Feature.REASONING),
        thoughts=config.flag("include_thoughts", Feature.THOUGHTS),
    )
