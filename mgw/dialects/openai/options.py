"""Options of a request, both ways: sampling, limits, output format, reasoning, user.

Source: the SDK's ``completion_create_params``.  Reasoning has many spellings in chat:

* ``reasoning_effort`` of OpenAI,
* ``reasoning: {effort, max_tokens, exclude, enabled}`` of OpenRouter,
* ``thinking: {type, budget_tokens}`` of DeepSeek, GLM and LiteLLM,
* ``extra_body.google.thinking_config`` of Google's endpoint for OpenAI's clients.

Each adds what the ones before it left out.  A value that asks for what happens anyway (``n: 1``, a
penalty of 0, ``logprobs: false``, an effort of ``default``, an empty stop sequence) is no option.

What some hosts know beyond OpenAI (``top_k``) others refuse, so it goes only where the operator says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from mgw.canonical.conversation import (
    NO_REASONING,
    NO_SAMPLING,
    NO_SHAPE,
    Conversation,
    ImageShape,
    JsonObject,
    OutputFormat,
    OutputKind,
    Reasoning,
    Sampling,
)
from mgw.canonical.features import Feature
from mgw.dialects.dialect import RenderOptions, ReplyOptions
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.openai.schema import fits_strict, wrap_root
from mgw.dialects.placeholders import ANSWER_IN_JSON
from mgw.dialects.reasoning import Wish, choose_named, find_effort, find_wish
from mgw.nouns.kinds import KINDS
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import ChatTools, Effort

_MAX_STOP_SEQUENCES: Final = 4
_MAX_USER_CHARS: Final = 64
_MODALITIES: Final = ("text", "image")
_EFFORTS: Final = MappingProxyType({str(effort): effort for effort in Effort})
_SAMPLING: Final = MappingProxyType(
    {
        "temperature": (Feature.TEMPERATURE, Fields.number, None),
        "top_p": (Feature.TOP_P, Fields.number, None),
        "top_k": (Feature.TOP_K, Fields.integer, None),
        "frequency_penalty": (Feature.FREQUENCY_PENALTY, Fields.number, 0),
        "presence_penalty": (Feature.PRESENCE_PENALTY, Fields.number, 0),
        "seed": (Feature.SEED, Fields.integer, None),
        "logprobs": (Feature.LOGPROBS, Fields.flag, False),
        "top_logprobs": (Feature.TOP_LOGPROBS, Fields.integer, 0),
    }
)
"""How each is taken, and the value that says nothing."""
_LIMIT: Final = Feature.MAX_TOKENS  # a member of an enumeration is looked up in Python's slow way each time
_STOP: Final = Feature.STOP
_REASONING: Final = frozenset({"reasoning_effort", "reasoning", "thinking", "extra_body"})
"""Where it may be said."""
_NONE: Final = Effort.NONE  # a member of an enumeration is looked up in Python's slow way each time


class ChatReplyOptions(ReplyOptions, frozen=True):
    """How a client of chat completions wants its answer written."""

    include_usage: bool = False
    """A last chunk with usage, and ``usage: null`` in the others (``stream_options``)."""
    legacy_functions: bool = False
    """The request spoke of ``functions``; the answer says ``function_call``."""


PLAIN: Final = ChatReplyOptions()
"""Of a request that asks for nothing special."""


def parse_sampling(request: Fields) -> Sampling:
    """Take how tokens are drawn."""
    found: dict[str, Any] = {}  # Any: numbers and truth values
    for key in tuple(request.unread):
        row = _SAMPLING.get(key)
        if row is not None:
            feature, take, unsaid = row
            value = take(request, key)
            if value is not None and value != unsaid:
                request.note(feature, key)
                found[key] = value
    return Sampling(**found) if found else NO_SAMPLING


def parse_max_tokens(request: Fields) -> int | None:
    """Take the limit of the answer; ``max_completion_tokens`` goes before the deprecated ``max_tokens``."""
    for key in ("max_completion_tokens", "max_tokens"):
        limit = request.integer(key, _LIMIT) if key in request.unread else None
        if limit is not None:
            if limit < 1:
                raise request.wrong(key, "must be at least 1")
            return limit  # the other, if there is one, stays unread
    return None


def parse_candidates(request: Fields) -> int | None:
    """Take ``n``."""
    number = request.integer("n")
    if number is None or number == 1:
        return None
    if number < 1:
        raise request.wrong("n", "must be at least 1")
    request.note(Feature.CANDIDATES, "n")
    return number


def parse_stop_sequences(request: Fields) -> tuple[str, ...]:
    """Take ``stop``: a string or an array of them."""
    value = request.take("stop", _STOP)
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


def parse_user(request: Fields) -> str | None:
    """Take the end user: ``safety_identifier``, else ``user``, which it replaces."""
    user = request.text("safety_identifier", Feature.USER)
    return user if user is not None else request.text("user", Feature.USER)


def parse_output(request: Fields) -> OutputFormat | None:
    """Take ``response_format``."""
    response_format = request.nested("response_format")
    if response_format is None:
        return None
    kind = response_format.required_text("type")
    if kind == "text":
        return None
    request.note(Feature.OUTPUT, "response_format")
    if kind == "json_object":
        return OutputFormat(OutputKind.JSON)
    if kind != "json_schema":
        raise none_of(response_format, "type", kind, ("text", "json_object", "json_schema"))
    schema = response_format.nested("json_schema")
    if schema is None:
        raise response_format.missing("json_schema")
    return OutputFormat(
        OutputKind.SCHEMA,
        schema.raw_object("schema"),
        schema.text("name", Feature.OUTPUT_NAME),
        schema.text("description", Feature.OUTPUT_DESCRIPTION),
        schema.flag("strict", Feature.OUTPUT_STRICT),
    )


def parse_reasoning(request: Fields) -> Reasoning:
    """Take every spelling of reasoning."""
    if _REASONING.isdisjoint(request.unread):
        return NO_REASONING
    wishes = [
        _parse_openai_reasoning(request),
        _parse_openrouter_reasoning(request),
        _parse_thinking(request),
        _parse_google_reasoning(request),
    ]
    efforts = [wish.effort for wish in wishes if wish.effort is not None]
    budgets = [wish.budget for wish in wishes if wish.budget is not None]
    thoughts = [wish.thoughts for wish in wishes if wish.thoughts is not None]
    return Reasoning(
        efforts[0] if efforts else None,
        budgets[0] if budgets else None,
        any(wish.adaptive for wish in wishes),
        thoughts[0] if thoughts else None,
    )


def parse_modalities(request: Fields) -> bool:
    """Take ``modalities``; return whether they ask for images (OpenRouter, Google)."""
    modalities = request.take("modalities")
    if modalities is None or modalities == ["text"]:
        return False
    images = type(modalities) is list and "image" in modalities
    if images:
        request.note(Feature.IMAGE_ANSWERS, "modalities")
    if not images or any(modality not in _MODALITIES for modality in modalities):
        request.ledger.leave(request.path("modalities"))
    return images


def parse_image_shape(request: Fields) -> ImageShape:
    """Take ``image_config`` (OpenRouter): what images of the answer are to look like."""
    config = request.nested("image_config")
    if config is None:
        return NO_SHAPE
    return ImageShape(
        config.text("aspect_ratio", Feature.IMAGE_SHAPE), config.text("image_size", Feature.IMAGE_SHAPE)
    )


def parse_effort(fields: Fields, key: str) -> Effort | None:
    """Take an effort by its name, however it is spelled; ``default`` says nothing."""
    word = fields.text(key, Feature.REASONING)
    if word is None or word == "default":  # Groq
        return None
    effort = _EFFORTS.get(word.lower())
    if effort is None:
        raise none_of(fields, key, word, _EFFORTS)
    return effort


def _parse_openai_reasoning(request: Fields) -> Reasoning:
    return Reasoning(parse_effort(request, "reasoning_effort"))


def _parse_openrouter_reasoning(request: Fields) -> Reasoning:
    reasoning = request.nested("reasoning")
    if reasoning is None:
        return NO_REASONING
    effort = parse_effort(reasoning, "effort")
    budget = reasoning.integer("max_tokens", Feature.REASONING)
    exclude = reasoning.flag("exclude", Feature.THOUGHTS)
    enabled = reasoning.flag("enabled", Feature.REASONING)
    if enabled is False:
        effort, budget = Effort.NONE, None
    elif enabled and effort is None and budget is None:
        effort = Effort.MEDIUM  # what OpenRouter says it means
    return Reasoning(effort, budget, thoughts=None if exclude is None else not exclude)


def _parse_thinking(request: Fields) -> Reasoning:
    thinking = request.nested("thinking")
    if thinking is None:
        return NO_REASONING
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


def _parse_google_reasoning(request: Fields) -> Reasoning:
    extra = request.nested("extra_body")
    google = extra.nested("google") if extra is not None else None
    config = google.nested("thinking_config") if google is not None else None
    if config is None:
        return NO_REASONING
    return Reasoning(
        parse_effort(config, "thinking_level"),
        config.integer("thinking_budget", Feature.REASONING),
        thoughts=config.flag("include_thoughts", Feature.THOUGHTS),
    )


def render_output(body: JsonObject, output: OutputFormat | None) -> bool:
    """Write ``response_format``; return whether the answer will come wrapped in an object."""
    if output is None or output.kind is OutputKind.TEXT:
        return False
    if output.kind is OutputKind.JSON:
        body["response_format"] = {"type": "json_object"}
        _mention_json(body["messages"])
        return False
    inner, wrapped = (None, False) if output.schema is None else wrap_root(output.schema)
    schema: JsonObject = {"name": output.name or "answer"}
    if output.description is not None:
        schema["description"] = output.description
    if inner is not None:
        schema["schema"] = inner
    strict = output.strict
    if strict is None and inner is not None and fits_strict(inner):
        strict = True  # the client's own family would have enforced the schema
    if strict is not None:
        schema["strict"] = strict
    body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return wrapped


def _mention_json(messages: list[JsonObject]) -> None:
    """Make sure that a message mentions JSON: the API refuses ``json_object`` otherwise."""
    if not any("json" in text.lower() for text in _texts_of(messages)):
        messages.insert(0, {"role": "system", "content": ANSWER_IN_JSON})


def _texts_of(messages: list[JsonObject]) -> Iterable[str]:
    for message in messages:
        content = message["content"]
        if type(content) is str:
            yield content
        elif content is not None:
            yield from (block["text"] for block in content if block["type"] == "text")


def render_reasoning_and_sampling(
    body: JsonObject, conversation: Conversation, options: RenderOptions, lost: set[Feature]
) -> None:
    """Write the effort of reasoning, and the sampling that the model takes beside it."""
    thinking = map_reasoning(conversation.reasoning, options.row, tools=bool(conversation.tools))
    if thinking.effort is not None:
        body["reasoning_effort"] = thinking.effort
    if thinking.lost:
        lost.add(Feature.REASONING)
    if thinking.thoughts_lost:
        lost.add(Feature.THOUGHTS)
    sampling = conversation.sampling
    if sampling is NO_SAMPLING:
        return
    for key, (feature, _, _) in _SAMPLING.items():
        value = getattr(sampling, key)
        if value is None:
            continue
        if key == "seed" or (thinking.sampling and _is_accepted(key, sampling, options)):
            body[key] = value
        else:
            lost.add(feature)


def _is_accepted(key: str, sampling: Sampling, options: RenderOptions) -> bool:
    if key == "top_k":
        return key in options.extra_fields
    return key != "top_logprobs" or sampling.logprobs is True  # refused without the other


def render_limits(
    body: JsonObject, conversation: Conversation, options: RenderOptions, lost: set[Feature]
) -> None:
    """Write the limit of the answer, the stop sequences and the number of candidates."""
    row = options.row
    if conversation.max_tokens is not None:
        field = "max_completion_tokens" if row.max_completion_tokens else options.max_tokens_field
        body[field] = limit = min(conversation.max_tokens, row.max_output or conversation.max_tokens)
        if limit < conversation.max_tokens:
            lost.add(Feature.MAX_TOKENS)
    if conversation.stop:
        _render_stop_sequences(body, conversation.stop, options, lost)
    if conversation.candidates is not None and conversation.candidates > 1:
        body["n"] = conversation.candidates


def _render_stop_sequences(
    body: JsonObject, stop: tuple[str, ...], options: RenderOptions, lost: set[Feature]
) -> None:
    """Write the stop sequences: OpenAI takes four, and some of its models none."""
    if not options.row.stop:
        lost.add(Feature.STOP)
        return
    if KINDS[options.kind].is_strict and len(stop) > _MAX_STOP_SEQUENCES:
        lost.add(Feature.STOP)
        stop = stop[:_MAX_STOP_SEQUENCES]
    body["stop"] = list(stop)


def render_user(body: JsonObject, conversation: Conversation, options: RenderOptions) -> None:
    """Write the end user."""
    if conversation.user is not None:
        field = "safety_identifier" if KINDS[options.kind].has_safety_identifier else "user"
        body[field] = _shorten_user(conversation.user)


def render_prompt_cache_key(body: JsonObject, key: str, options: RenderOptions, lost: set[Feature]) -> None:
    """Write the key of the prompt's cache, for hosts that take it."""
    if "prompt_cache_key" in options.extra_fields:
        body["prompt_cache_key"] = key
    else:
        lost.add(Feature.PROMPT_CACHE_KEY)


def _shorten_user(user: str) -> str:
    """Return a name that is short enough; what is longer is hashed, the same way every time."""
    if len(user) <= _MAX_USER_CHARS:
        return user
    return blake2b(user.encode("utf-8", "surrogatepass"), digest_size=_MAX_USER_CHARS // 2).hexdigest()


class OpenAIReasoning(Struct, frozen=True):
    """What a chat completions request says; ``None`` is left out."""

    effort: str | None = None
    lost: bool = False
    """The wish could not be said."""
    thoughts_lost: bool = False
    """The client wants to read thoughts, and this dialect cannot ask for them."""
    sampling: bool = True
    """``temperature`` and ``top_p`` may go with it."""


def map_reasoning(reasoning: Reasoning, row: ModelRow, *, tools: bool = False) -> OpenAIReasoning:
    """Say ``reasoning`` to a chat completions model; ``tools``: function tools go with it.

    Newer models of OpenAI refuse function tools on this route unless they are told not to reason, even where
    nobody asked them to reason.  Those of them that do not reason by themselves refuse the word "none" beside
    tools, too (livekit/agents#5084), so that nothing is said.
    """
    if reasoning is NO_REASONING and not tools:
        return OpenAIReasoning(sampling=row.sampling or (row.off_sampling and row.default is _NONE))
    wish = find_wish(reasoning)
    effort, lost = _map_effort(wish, reasoning, row)
    if tools and row.chat_tools is ChatTools.UNREASONED:
        effort = None if row.default is Effort.NONE else Effort.NONE
        lost = wish in {Wish.SOME, Wish.OWN}
    idle = (effort or row.default) is Effort.NONE
    return OpenAIReasoning(
        effort=effort,
        lost=lost,
        thoughts_lost=reasoning.thoughts is True,
        sampling=row.sampling or (row.off_sampling and idle),
    )


def _map_effort(wish: Wish, reasoning: Reasoning, row: ModelRow) -> tuple[Effort | None, bool]:
    if wish is Wish.NOTHING:
        return None, False
    if wish is Wish.OFF:
        if Effort.NONE in row.efforts:
            return Effort.NONE, False
        if row.default is None or row.default is Effort.NONE:  # whatever it takes might set it thinking
            return None, row.default is None
        return (row.names[0] if row.names else None), True
    if wish is Wish.OWN:
        return (choose_named(Effort.MEDIUM, row) if row.default is Effort.NONE else None), False
    named = choose_named(find_effort(reasoning), row)
    return named, named is None
