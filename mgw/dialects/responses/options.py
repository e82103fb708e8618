"""Fields of a request beside its input and tools, and the response that repeats them.

What says nothing that a translation does not do anyway is taken in silence: ``store: false``, ``truncation:
disabled``, ``background: false``, ``service_tier`` of ``auto`` or ``default``, a ``text.verbosity`` of
``medium``, ``include: [reasoning.encrypted_content]``.  What needs an answer or a prompt that is stored
cannot be done and is refused.  All that is not taken here stays in :class:`Fields` and is reported:
``metadata``, ``max_tool_calls``, ``client_metadata``, ``context_management`` and whatever is newer.

The response repeats what the client asked for, with OpenAI's defaults for what it did not say.  Nothing is
stored, and it says so.  The first two events of a stream have the object without what may be large, since it
would be sent twice more.

Sources: the SDK's ``response_create_params`` and ``Response``; contract 11.3, 11.7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct
from msgspec.json import Encoder

from mgw.canonical.conversation import (
    NO_REASONING,
    NO_SAMPLING,
    JsonObject,
    OutputFormat,
    OutputKind,
    Reasoning,
    Sampling,
)
from mgw.canonical.features import Feature
from mgw.canonical.reply import (
    StopReason,
    TokenUsage,
)
from mgw.dialects.dialect import ReplyContext, ReplyOptions
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.openai.options import map_reasoning as map_chat_reasoning
from mgw.dialects.openai.options import parse_effort
from mgw.dialects.reasoning import Wish, find_wish
from mgw.dialects.responses.blocks import response_id
from mgw.dialects.responses.errors import LONGEST_SHOWN, PARAMETER, unsupported
from mgw.dialects.responses.schema import ClientTool
from mgw.dialects.responses.usage import render_usage
from mgw.nouns.model_row import ModelRow
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
_ENCODER: Final = Encoder()
_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(  # Any: JSON
    {
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": None,
        "user": None,
    }
)
"""What OpenAI's response says of fields that the request did not have."""
_SHORT: Final[JsonObject] = {"instructions": None, "tools": []}
_REASONS: Final = MappingProxyType(
    {StopReason.LENGTH: "max_output_tokens", StopReason.REFUSAL: "content_filter"}
)
"""Why an answer is incomplete; all others are complete."""
_NONE: Final = Effort.NONE  # a member of an enumeration is looked up in Python's slow way each time


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


class ResponseReplyOptions(ReplyOptions, frozen=True):
    """How a client of Responses wants its answer written."""

    client_tools: Mapping[str, ClientTool] = {}
    """By the names of their functions, the tools whose calls are told otherwise."""
    echoed: Mapping[str, Any] = {}  # Any: JSON of whatever type
    """The fields of the request that the answer repeats, as sent."""


class ConfigurationUpdate(Struct):
    """What items of the input change for the answer."""

    effort: Effort | None = None
    has_format: bool = False
    output: OutputFormat | None = None


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


def parse_max_tokens(request: Fields) -> int | None:
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


def parse_output(request: Fields) -> OutputFormat | None:
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


class ResponseRenderer:
    """Writes the object of one response, at any stage of it."""

    __slots__ = ("_context", "_echoed", "model")

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self._echoed = ResponseReplyOptions.of(context.options).echoed
        self.model = context.model
        """The model that the upstream reports, once it has."""

    def render_begun(self) -> bytes:
        """Return the object of a response that has begun; its usage is not known yet."""
        return _encode({**self._fields("in_progress"), **_SHORT, "output": [], "usage": None})

    def render_ended(self, stop: StopReason, items: Sequence[bytes], usage: TokenUsage) -> list[bytes]:
        """Return the object of a response that has ended, in pieces; ``items`` are its output."""
        reason = _REASONS.get(stop)
        fields = self._fields(status_of(stop))
        if reason is None:
            fields["completed_at"] = self._context.created
        else:
            fields["incomplete_details"] = {"reason": reason}
        return _insert_output(fields, items, usage)

    def render_failed(self, error: JsonObject, items: Sequence[bytes], usage: TokenUsage) -> list[bytes]:
        """Return the object of a response that failed, in pieces."""
        return _insert_output({**self._fields("failed"), "error": error}, items, usage)

    def _fields(self, status: str) -> JsonObject:
        context = self._context
        return {
            "id": response_id(context.request_id),
            "object": "response",
            "created_at": context.created,
            "status": status,
            "background": False,
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "model": self.model,
            "previous_response_id": None,
            "store": False,
            "truncation": "disabled",
            **_DEFAULTS,
            **self._echoed,
        }


def status_of(stop: StopReason) -> str:
    """Return the status of an answer that ended so."""
    return "incomplete" if stop in _REASONS else "completed"


def is_cut(stop: StopReason) -> bool:
    """Whether the answer ended in the middle of its last item."""
    return stop is StopReason.LENGTH


def _encode(fields: JsonObject) -> bytes:
    """Return the object; what is nested too deeply to be repeated here is not."""
    try:
        return _ENCODER.encode(fields)
    except RecursionError:
        return _ENCODER.encode({**fields, **_DEFAULTS})


def _insert_output(fields: JsonObject, items: Sequence[bytes], usage: TokenUsage) -> list[bytes]:
    """Return the pieces of an object, so that its items are copied once only."""
    fields["usage"] = render_usage(usage)
    pieces = [_encode(fields)[:-1], b',"output":[']
    for item in items:
        pieces += (item, b",")
    if items:
        pieces.pop()
    pieces.append(b"]}")
    return pieces


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


def map_reasoning(reasoning: Reasoning, row: ModelRow) -> ResponsesReasoning:
    """Say ``reasoning`` to a model that is asked through Responses.

    As with Gemini, a client that asks for thinking is shown the thoughts, unless it does not want them.

    :param row: the model's row on Responses.
    """
    said = map_chat_reasoning(reasoning, row)
    thinks = row.default not in {None, _NONE} or bool(row.names)
    wish = find_wish(reasoning)
    asked = reasoning.thoughts is True if wish is Wish.NOTHING else reasoning.thoughts is not False
    summary = asked and thinks and wish is not Wish.OFF
    return ResponsesReasoning(
        effort=said.effort,
        summary=summary,
        encrypted=bool(row.efforts) or row.default is not _NONE,
        lost=said.lost,
        thoughts_lost=reasoning.thoughts is True and not summary,
        sampling=said.sampling,
    )
