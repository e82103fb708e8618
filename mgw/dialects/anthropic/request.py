"""A request of the Messages API, both ways.

Sources: the SDK's ``MessageCreateParams`` and ``MessageCountTokensParams`` with all that they hold, the beta
types of the same name, and of API version 2023-06-01 the fields that the newest types have dropped.  What is
not named here is reported as unread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from msgspec import Struct
from msgspec.json import Decoder, Encoder, encode
from msgspec.structs import replace

from mgw.canonical.conversation import (
    NO_SAMPLING,
    Conversation,
    JsonObject,
    Reasoning,
    Role,
    Sampling,
    Text,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.canonical.identifiers import ANTHROPIC_NAME
from mgw.dialects.anthropic.blocks import BILLING_PREFIX, BlockRenderer, parse_system
from mgw.dialects.anthropic.cache_control import CacheBreakpoints
from mgw.dialects.anthropic.errors import NO_THREADS
from mgw.dialects.anthropic.options import (
    AnthropicThinking,
    can_bind_thoughts,
    can_force_calls,
    choose_thinking,
    parse_max_tokens,
    parse_output,
    parse_reasoning,
    parse_sampling,
    render_metadata,
    render_output_config,
    render_sampling,
    render_stop_sequences,
    render_thinking,
)
from mgw.dialects.anthropic.thoughts import drop_thoughts, has_thoughts, refuses_thinking
from mgw.dialects.anthropic.tools import (
    declare_called_tools,
    parse_tool_choice,
    parse_tools,
    render_tool_choice,
    render_tools,
)
from mgw.dialects.anthropic.turns import parse_turns, render_turns
from mgw.dialects.dialect import Parsed, Rendered, RenderOptions, RequestContext, finish_parsing
from mgw.dialects.fields import Fields, Ledger, open_request
from mgw.dialects.one_pass import FieldPath, Limit, Number, collect_said, decode_in_one_pass
from mgw.dialects.refusal import no_messages
from mgw.dialects.system_prompt import Members, add_elements, add_member
from mgw.dialects.tool_names import ToolNames
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Effort
from mgw.wire.json_document import JsonDocument
from mgw.wire.json_spans import Edit

SAMPLING_VERSION: Final = "2023-06-01"
"""The version that a request states where the client stated none, and the last that has sampling."""
_BINDING_BETA: Final = b"thinking-binding-controls-2026-08-01"
"""What ``thinking.block_binding`` needs (guide on preserved thinking; the SDK's ``BetaMessage``)."""
_ENCODER: Final = Encoder()
_STOP: Final = Feature.STOP  # a member of an enumeration is looked up in Python's slow way each time
_NONE: Final = Effort.NONE
_CARRIED: Final = frozenset(
    {
        Feature.SYSTEM,
        Feature.CACHE,
        Feature.MEDIA_DETAIL,
        Feature.MEDIA_NAME,
        Feature.FILE_ID,
        Feature.IMAGE,
        Feature.DOCUMENT,
        Feature.AUDIO,
        Feature.VIDEO,
        Feature.THINKING,
        Feature.REFUSAL,
        Feature.RESULT_ERROR,
        Feature.RESULT_NAME,
        Feature.TOOLS,
        Feature.TOOL_STRICT,
        Feature.TOOL_CHOICE,
        Feature.TOOL_CHOICE_NAMES,
        Feature.PARALLEL_CALLS,
        Feature.TEMPERATURE,
        Feature.TOP_P,
        Feature.TOP_K,
        Feature.MAX_TOKENS,
        Feature.STOP,
        Feature.OUTPUT,
        Feature.OUTPUT_NAME,
        Feature.OUTPUT_DESCRIPTION,
        Feature.OUTPUT_STRICT,
        Feature.REASONING,
        Feature.THOUGHTS,
        Feature.USER,
    }
)
"""What this dialect can express, though not with every value and for every model."""
_MESSAGES: Final = b"/messages"
_COUNT_TOKENS: Final = b"/messages/count_tokens"
_COUNTED_FIELDS: Final = (
    "model",
    "system",
    "tools",
    "tool_choice",
    "messages",
    "thinking",
    "output_config",
)
_USER: Final = Role.USER  # a member of an enumeration is looked up in Python's slow way each time
_ASSISTANT: Final = Role.ASSISTANT
_PATHS: Final[tuple[FieldPath, ...]] = (
    ("max_tokens", Feature.MAX_TOKENS, frozenset({"max_tokens"})),
    ("system", Feature.SYSTEM, frozenset({"system"})),
    ("temperature", Feature.TEMPERATURE, frozenset({"temperature"})),
    ("top_p", Feature.TOP_P, frozenset({"top_p"})),
    ("top_k", Feature.TOP_K, frozenset({"top_k"})),
    ("stop_sequences", Feature.STOP, frozenset({"stop_sequences"})),
)
_OPENING_BRACKET: Final = b"["
_QUOTE: Final = b'"'


def parse_request(body: bytes, _context: RequestContext) -> Parsed[Conversation]:
    """Parse a request for a message."""
    parsed = parse_in_one_pass(body)
    if parsed is not None:
        return parsed
    ledger = Ledger()
    root = open_request(body, ledger)
    if "max_tokens" not in root:
        raise root.missing("max_tokens")
    return finish_parsing(_parse_conversation(root), ledger)


def parse_count_request(body: bytes, _context: RequestContext) -> Parsed[Conversation]:
    """Parse a request for a count of tokens, which needs no ``max_tokens``."""
    ledger = Ledger()
    return finish_parsing(_parse_conversation(open_request(body, ledger)), ledger)


def _parse_conversation(root: Fields) -> Conversation:
    root.required_text("model")  # the route has resolved it
    if "thread" in root.unread:
        _refuse_thread(root)
    system, turns = parse_turns(root)
    conversation = Conversation(
        turns=turns,
        system=(*parse_system(root), *system),
        sampling=parse_sampling(root),
        max_tokens=parse_max_tokens(root),
        stop=tuple(filter(None, root.texts("stop_sequences", _STOP))),
        stream=root.flag("stream") is True,
    )
    return _parse_rare_fields(root, conversation) if root.unread else conversation


def _parse_rare_fields(root: Fields, conversation: Conversation) -> Conversation:
    """Return the conversation with what a mere chat does not have."""
    tool_choice, parallel_calls = parse_tool_choice(root)
    metadata, config = root.nested("metadata"), root.nested("output_config")
    return replace(
        conversation,
        tools=parse_tools(root),
        tool_choice=tool_choice,
        parallel_calls=parallel_calls,
        output=parse_output(root, config),
        reasoning=parse_reasoning(root, config),
        user=None if metadata is None else metadata.text("user_id", Feature.USER),
    )


def _refuse_thread(root: Fields) -> None:
    """Refuse to continue a conversation that the vendor stores: all but its last turn is missing here."""
    thread = root.nested("thread")
    if thread is None:
        return
    if thread.text("type") == "continue":
        message = "thread: only the vendor that stores a thread can continue it; send all messages instead"
        raise GatewayError(Reason.MALFORMED, message, param="thread", code=NO_THREADS)
    root.leave("thread")
    thread.skip(*thread)


def render_request(conversation: Conversation, options: RenderOptions) -> Rendered:
    """Render a request for a message."""
    return _RequestRenderer(conversation, options).render(_MESSAGES)


def render_count_request(conversation: Conversation, options: RenderOptions) -> Rendered:
    """Render a request for a count of tokens: what of it is part of the prompt."""
    return _RequestRenderer(conversation, options).render(_COUNT_TOKENS, _COUNTED_FIELDS)


@dataclass(slots=True)
class _RequestRenderer:
    """Renders one request."""

    conversation: Conversation
    options: RenderOptions
    lost: set[Feature] = field(default_factory=set)
    names: ToolNames = field(default_factory=lambda: ToolNames(ANTHROPIC_NAME))
    has_thoughts: bool = False
    """The history holds thoughts."""
    binds_thoughts: bool = False
    """The request says what becomes of thoughts whose conversation has changed."""

    def render(self, target: bytes, keys: tuple[str, ...] = ()) -> Rendered:
        """Return the request, of its fields only ``keys`` where there are any."""
        try:
            body = self._render_body()
            data = _ENCODER.encode({key: body[key] for key in keys if key in body} if keys else body)
        except RecursionError:
            raise GatewayError(Reason.MALFORMED, "a schema in the request is nested too deeply") from None
        headers = [(b"anthropic-version", self._version.encode("latin-1", "replace"))]
        if self.binds_thoughts:
            headers.append((b"anthropic-beta", _BINDING_BETA))
        lost, renamed = frozenset(self.lost), self.names.renamed
        return Rendered(target, data, _CARRIED, lost, tuple(headers), renamed, thoughts=self.has_thoughts)

    @property
    def _version(self) -> str:
        return self.options.version or SAMPLING_VERSION

    def _render_body(self) -> JsonObject:
        conversation, row = self.conversation, self.options.row
        breakpoints = CacheBreakpoints(self.lost)
        renderer = BlockRenderer(row, self.names, breakpoints, self.lost, self.options.thoughts)
        tools = render_tools(conversation, self.names, breakpoints, self.lost, strict=row.structured)
        system = renderer.render_texts(conversation.system)
        messages = render_turns(conversation.turns, renderer)
        if not messages:  # instructions alone: the model is to respond to them
            messages, system = [{"role": "user", "content": system}], []
        if not messages[0]["content"]:
            raise no_messages()
        if renderer.called and not tools:
            tools = declare_called_tools(renderer.called)
        thinking = self._choose_thinking(messages, has_thoughts=renderer.has_thoughts)
        self.has_thoughts = renderer.has_thoughts and has_thoughts(messages)
        self.binds_thoughts = self.has_thoughts and can_bind_thoughts(thinking, row)
        body: JsonObject = {"model": self.options.model, "max_tokens": thinking.max_tokens}
        if system:
            body["system"] = system
        if tools:
            body["tools"] = tools
            can_force = can_force_calls(thinking, row)
            choice = render_tool_choice(conversation, self.names, can_force=can_force, lost=self.lost)
            if choice is not None:
                body["tool_choice"] = choice
        body["messages"] = messages
        self._add_options(body, thinking)
        return body

    def _choose_thinking(self, messages: list[JsonObject], *, has_thoughts: bool) -> AnthropicThinking:
        """Return how the model is to think after these messages, which lose the thoughts that do not fit."""
        conversation, row = self.conversation, self.options.row
        thinking = choose_thinking(conversation.reasoning, conversation, self.options)
        if thinking.kind == "enabled" and refuses_thinking(messages):
            self.lost.add(Feature.REASONING)
            thinking = choose_thinking(Reasoning(Effort.NONE), conversation, self.options)
        if thinking.lost:
            self.lost.add(Feature.REASONING)
        is_off = thinking.kind == "disabled" or (thinking.kind is None and row.default is _NONE)
        if has_thoughts and is_off:
            drop_thoughts(messages, self.lost)
        limit = conversation.max_tokens
        if limit is not None and row.max_output is not None and limit > row.max_output:
            self.lost.add(Feature.MAX_TOKENS)
        return thinking

    def _add_options(self, body: JsonObject, thinking: AnthropicThinking) -> None:
        conversation = self.conversation
        rendered = render_thinking(thinking, bind_thoughts=self.binds_thoughts)
        if rendered is not None:
            body["thinking"] = rendered
        if thinking.effort is not None or conversation.output is not None:
            config = render_output_config(thinking.effort, conversation.output, self.options.row, self.lost)
            if config:
                body["output_config"] = config
        has_sampling = thinking.sampling and self._version == SAMPLING_VERSION
        body |= render_sampling(conversation.sampling, self.lost, is_supported=has_sampling)
        if conversation.stop:
            stop_sequences = render_stop_sequences(conversation.stop, self.lost)
            if stop_sequences:
                body["stop_sequences"] = stop_sequences
        if conversation.user is not None:
            metadata = render_metadata(conversation.user, self.lost)
            if metadata is not None:
                body["metadata"] = metadata
        if conversation.stream:
            body["stream"] = True


class _Block(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["text"]
    text: str


class _Message(Struct, forbid_unknown_fields=True, gc=False):
    role: Literal["user", "assistant"]
    content: list[_Block] | str


class _Request(Struct, forbid_unknown_fields=True):
    model: str
    max_tokens: Limit
    messages: list[_Message]
    system: list[_Block] | str | None = None
    temperature: Number | None = None
    top_p: Number | None = None
    top_k: Limit | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None


_DECODER: Final = Decoder(_Request)


def parse_in_one_pass(body: bytes) -> Parsed[Conversation] | None:
    """Return what a simple request means; ``None``: it holds more, or is not valid."""
    request = decode_in_one_pass(_DECODER, body)
    if request is None:
        return None
    system = () if request.system is None else _parse_texts(request.system)
    for text in system:
        if text.text.startswith(BILLING_PREFIX):
            return None
    sampling = Sampling(request.temperature, request.top_p, request.top_k)
    turns = [
        Turn(_USER if message.role == "user" else _ASSISTANT, _parse_texts(message.content))
        for message in request.messages
    ]
    conversation = Conversation(
        turns=tuple(turns),
        system=system,
        sampling=NO_SAMPLING if sampling == NO_SAMPLING else sampling,
        max_tokens=request.max_tokens,
        stop=tuple(filter(None, request.stop_sequences or ())),
        stream=request.stream is True,
    )
    return Parsed(conversation, frozenset(), collect_said(request, _PATHS))


def _parse_texts(content: list[_Block] | str) -> tuple[Text, ...]:
    if isinstance(content, str):
        return (Text(content),)
    return tuple([Text(block.text) for block in content])


def prepend_system(document: JsonDocument, members: Members, texts: Sequence[str]) -> list[Edit]:
    """Return the edits that put texts in front of the system prompt (``system``: text, or blocks)."""
    blocks: list[JsonObject] = [{"type": "text", "text": text} for text in texts]
    found = members.get("system")
    if found is None:
        return [add_member(document, "system", encode(blocks))]
    node = found[-1]
    raw = document.raw(node)
    if raw.startswith(_OPENING_BRACKET):
        return [add_elements(node, raw, encode(blocks)[1:-1])]
    if raw.startswith(_QUOTE) and document.string(node):
        own = b'{"type":"text","text":%b}' % raw
        return [((node.value, node.end), b"%b,%b]" % (encode(blocks)[:-1], own))]
    return [((node.value, node.end), encode(blocks))]
