"""Fields of a request beside its input and tools.

What says nothing that a translation does not do anyway is taken in silence: ``store: false``, ``truncation:
disabled``, ``background: false``, ``service_tier`` of ``auto`` or ``default``, a ``text.verbosity`` of
``medium``, ``include: [reasoning.encrypted_content]``.  What needs an answer or a prompt that is stored
cannot be done and is refused.  All that is not taken here stays in :class:`Fields` and is reported:
``metadata``, ``max_tool_calls``, ``client_metadata``, ``context_management`` and whatever is newer.

Sources: the SDK's ``response_create_params``; contract 11.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from mgw.canonical.conversation import (
    NO_REASONING,
    NO_SAMPLING,
    OutputFormat,
    OutputKind,
    Reasoning,
    Sampling,
)
from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.openai.options import parse_effort
from mgw.dialects.responses.refusals import LONGEST_SHOWN, PARAMETER, unsupported
from mgw.nouns.vocabulary import Effort

_LOGPROBS: Final = "message.output_text.logprobs"
_ENCRYPTED: Final = "reasoning.encrypted_content"
_FORMATS: Final = ("text", "json_object", "json_schema")
_LIMIT: Final = Feature.MAX_TOKENS  # a member of an enumeration is looked up in Python's slow way each time
_NEUTRAL: Final = MappingProxyType(
    {
        "store": frozenset({False}),
        "truncation": frozenset({"disabled"}),
        "service_tier": frozenset({"auto", "default"}),
    }
)
"""Values that say nothing."""
_REFUSED: Final = MappingProxyType(
    {
        "previous_response_id": "responses are not stored: leave it out, and send the whole conversation",
        "conversation": "conversations are not stored: leave it out, and send the whole history as input",
        "prompt": "prompts are not stored: leave it out, and send its text as instructions",
    }
)
"""What lies with OpenAI, and what to send in its place."""
_ECHOED: Final = (
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "reasoning",
    "temperature",
    "top_p",
    "text",
    "tool_choice",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "top_logprobs",
)
"""What the answer repeats as it was sent; ``tools``, too, as far as they are not left out."""
_OPENED: Final = frozenset({"reasoning", "text", "tool_choice"})
_COPIED_LEVELS: Final = 3
"""The depth to which a parser goes into any of them."""


class ConfigurationUpdate(Struct):
    """What items of the input change for the answer."""

    effort: Effort | None = None
    has_format: bool = False
    output: OutputFormat | None = None


def collect_echoed(request: Fields) -> dict[str, Any]:  # Any: JSON of whatever type
    """Return what the answer repeats, before anything is read."""
    unread = request.unread
    return {
        key: _copy(value, _COPIED_LEVELS) if key in _OPENED else value
        for key in _ECHOED
        if (value := unread.get(key)) is not None and (key not in _UNREAD or _UNREAD[key](value))
    }


def _is_metadata(value: Any) -> bool:  # Any: JSON of whatever type
    return type(value) is dict and all(type(one) is str for one in value.values())


def _copy(value: Any, levels: int) -> Any:  # Any: JSON of whatever type
    """Copy what is about to be read, which empties it."""
    if type(value) is dict and levels:
        return {key: _copy(inner, levels - 1) for key, inner in value.items()}
    if type(value) is list and levels:
        return [_copy(inner, levels - 1) for inner in value]
    return value


_UNREAD: Final[Mapping[str, Callable[[Any], bool]]] = MappingProxyType(  # Any: JSON of whatever type
    {"metadata": _is_metadata, "max_tool_calls": lambda value: type(value) is int}
)
"""Fields that nobody reads, so that nothing has refused another type; clients read none but these."""


def refuse_state(request: Fields) -> None:
    """Raise the refusal of what needs a store of answers or prompts, or an answer that is fetched later."""
    for key, message in _REFUSED.items():
        if key in request:
            raise unsupported(request, key, message, PARAMETER)
    if request.flag("background"):
        message = "responses are not stored: send false, and read the response from this request"
        raise unsupported(request, "background", message, PARAMETER)


def skip_neutral(request: Fields) -> None:
    """Take the values that say nothing; the others of these fields stay, to be reported."""
    unread = request.unread
    for key, values in _NEUTRAL.items():
        value = unread.get(key)
        if type(value) in (str, bool) and value in values:
            del unread[key]
    options = request.nested("stream_options")
    if options is not None and options.flag("include_obfuscation"):
        options.leave("include_obfuscation")


def parse_limit(request: Fields) -> int | None:
    """Take ``max_output_tokens``."""
    limit = request.integer("max_output_tokens", _LIMIT)
    if limit is not None and limit < 1:
        raise request.wrong("max_output_tokens", "must be at least 1")
    return limit


def parse_sampling(request: Fields) -> Sampling:
    """Take how tokens are drawn, and ``include``, which asks for their probabilities."""
    logprobs = _parse_include(request) if "include" in request.unread else False
    temperature = request.number("temperature", Feature.TEMPERATURE)
    top_p = request.number("top_p", Feature.TOP_P)
    top = request.integer("top_logprobs") or None
    if top is not None:
        request.note(Feature.TOP_LOGPROBS, "top_logprobs")
        if not logprobs:
            request.note(Feature.LOGPROBS, "top_logprobs")
    if temperature is None and top_p is None and top is None and not logprobs:
        return NO_SAMPLING
    wanted = True if logprobs or top is not None else None
    return Sampling(temperature, top_p, logprobs=wanted, top_logprobs=top)


def _parse_include(request: Fields) -> bool:
    """Take ``include``; return whether log probabilities are wanted.  Encrypted thoughts always are given."""
    logprobs = False
    for value in request.texts("include"):
        if value == _LOGPROBS:
            logprobs = True
            request.note(Feature.LOGPROBS, f"include[{_LOGPROBS}]")
        elif value != _ENCRYPTED:
            request.ledger.leave(f"include[{value[:LONGEST_SHOWN]}]")
    return logprobs


def parse_reasoning(request: Fields) -> Reasoning:
    """Take ``reasoning``; any summary means that the client wants to read the thoughts."""
    reasoning = request.nested("reasoning")
    if reasoning is None:
        return NO_REASONING
    effort = parse_effort(reasoning, "effort")
    summaries = [reasoning.unread.get(key) for key in ("summary", "generate_summary")]
    for key in ("summary", "generate_summary"):
        if reasoning.text(key) not in (None, "auto"):  # which one, nobody else knows
            reasoning.leave(key)
    if reasoning.unread.get("context") == "auto":
        reasoning.skip("context")
    return Reasoning(effort, thoughts=True if any(summaries) else None)


def parse_text(request: Fields) -> OutputFormat | None:
    """Take ``text``: the format of the answer."""
    text = request.nested("text")
    if text is None:
        return None
    if text.unread.get("verbosity") == "medium":
        text.skip("verbosity")
    return parse_format(text)


def parse_format(text: Fields) -> OutputFormat | None:
    """Take ``format``; ``None``: a text."""
    output = text.nested("format")
    kind = "text" if output is None else output.required_text("type")
    if output is None or kind == "text":
        return None
    if kind not in _FORMATS:
        raise none_of(output, "type", kind, _FORMATS)
    text.note(Feature.OUTPUT, "format")
    if kind == "json_object":
        return OutputFormat(OutputKind.JSON)
    return OutputFormat(
        OutputKind.SCHEMA,
        output.raw_object("schema"),
        output.text("name", Feature.OUTPUT_NAME),
        output.text("description", Feature.OUTPUT_DESCRIPTION),
        output.flag("strict", Feature.OUTPUT_STRICT),
    )


def parse_update(item: Fields, update: ConfigurationUpdate) -> None:
    """Take an item that changes the effort or the format; what it does not say stays."""
    reasoning, text = item.nested("reasoning"), item.nested("text")
    if reasoning is not None:
        update.effort = parse_effort(reasoning, "effort") or update.effort
    if text is not None and "format" in text:
        update.has_format, update.output = True, parse_format(text)
