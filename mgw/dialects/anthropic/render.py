"""A request of the messages API, written.

Sources: the SDK's ``MessageCreateParams`` and ``MessageCountTokensParams``; API version 2023-06-01 for
``temperature``, ``top_p`` and ``top_k``, of which the first two are refused together by models since Claude
4.1 ("`temperature` and `top_p` cannot both be specified for this model").
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from msgspec.json import Encoder
from msgspec.structs import replace

from mgw.canonical.conversation import Conversation, JsonObject, OutputFormat, OutputKind, Reasoning
from mgw.canonical.features import Feature
from mgw.dialects.anthropic.blocks import Blocks
from mgw.dialects.anthropic.marks import Marks
from mgw.dialects.anthropic.schema import enforceable
from mgw.dialects.anthropic.tools import choice_of, forces, tools_of
from mgw.dialects.anthropic.turns import arranged, forget_thoughts, hold_thoughts, refuses_thinking
from mgw.dialects.dialect import Rendered, RenderOptions
from mgw.dialects.identifiers import ANTHROPIC_NAME
from mgw.dialects.model_row import ForcedTools
from mgw.dialects.names import Names
from mgw.dialects.reasoning import AnthropicThinking, for_anthropic
from mgw.dialects.refusal import no_messages
from mgw.errors import GatewayError, Reason
from mgw.vocabulary import Effort

SAMPLING_VERSION: Final = "2023-06-01"
"""The version that a request states where the client stated none, and the last that has sampling."""

_BINDING_BETA: Final = b"thinking-binding-controls-2026-08-01"
"""What ``thinking.block_binding`` needs (guide on preserved thinking; the SDK's ``BetaMessage``)."""
_ENCODER: Final = Encoder()
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
"""What this dialect has words for, be it not with every value and for every model."""
_MESSAGES: Final = b"/messages"
_COUNT_TOKENS: Final = b"/messages/count_tokens"
_COUNTED: Final = ("model", "system", "tools", "tool_choice", "messages", "thinking", "output_config")
_PERSONAL: Final = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+|\+?[\d\s().-]{7,}")
"""An e-mail address or a telephone number, which ``metadata.user_id`` must not be (BerriAI/litellm#10106)."""


def render_request(conversation: Conversation, options: RenderOptions) -> Rendered:
    """Write a request for an answer."""
    draft = _Draft(conversation, options)
    return draft.rendered(_MESSAGES)


def render_count(conversation: Conversation, options: RenderOptions) -> Rendered:
    """Write a request for a count of tokens: what of it is part of the prompt."""
    draft = _Draft(conversation, options)
    return draft.rendered(_COUNT_TOKENS, _COUNTED)


@dataclass(slots=True)
class _Draft:
    """One request being written."""

    said: Conversation
    options: RenderOptions
    lost: set[Feature] = field(default_factory=set)
    names: Names = field(default_factory=lambda: Names(ANTHROPIC_NAME))
    has_thoughts: bool = False
    """The history holds thoughts."""
    binding: bool = False
    """The request says what becomes of thoughts whose conversation has changed."""

    def rendered(self, target: bytes, keys: tuple[str, ...] = ()) -> Rendered:
        """Return the request, of its fields only ``keys`` where there are any."""
        try:
            body = self._body()
            data = _ENCODER.encode({key: body[key] for key in keys if key in body} if keys else body)
        except RecursionError:
            raise GatewayError(Reason.MALFORMED, "a schema in the request is nested too deeply") from None
        version = self.options.version or SAMPLING_VERSION
        headers = [(b"anthropic-version", version.encode("latin-1", "replace"))]
        if self.binding:
            headers.append((b"anthropic-beta", _BINDING_BETA))
        lost, renamed = frozenset(self.lost), self.names.renamed
        return Rendered(target, data, _CARRIED, lost, tuple(headers), renamed, thoughts=self.has_thoughts)

    def _body(self) -> JsonObject:
        said = self.said
        marks = Marks(self.lost)
        row = self.options.row
        blocks = Blocks(row, self.names, marks, self.lost, self.options.thoughts)
        tools = tools_of(said, self.names, marks, self.lost, strict=row.structured)
        system, messages = blocks.texts(said.system), arranged(said.turns, blocks)
        if not messages:  # instructions alone: they are what there is to answer
            messages, system = [{"role": "user", "content": system}], []
        if not messages[0]["content"]:
            raise no_messages()
        thinking = self._thinking(messages)
        body: JsonObject = {"model": self.options.model, "max_tokens": thinking.max_tokens}
        if system:
            body["system"] = system
        if tools:
            body["tools"] = tools
            choice = choice_of(said, self.names, free=not self._may_force(thinking), lost=self.lost)
            if choice is not None:
                body["tool_choice"] = choice
        body["messages"] = messages
        self._put_thinking(body, thinking)
        if thinking.sampling:
            self._put_sampling(body)
        else:
            self._lose_sampling()
        self._put_rest(body)
        return body

    def _thinking(self, messages: list[JsonObject]) -> AnthropicThinking:
        thinking = self._asked(self.said.reasoning)
        if thinking.kind == "enabled" and refuses_thinking(messages):
            self.lost.add(Feature.REASONING)
            thinking = self._asked(Reasoning(Effort.NONE))
        if thinking.lost:
            self.lost.add(Feature.REASONING)
        if thinking.kind == "disabled" or (thinking.kind is None and self.options.row.default is Effort.NONE):
            forget_thoughts(messages, self.lost)
        self.has_thoughts = hold_thoughts(messages)
        most = self.options.row.max_output
        if self.said.max_tokens is not None and most is not None and self.said.max_tokens > most:
            self.lost.add(Feature.MAX_TOKENS)
        return thinking

    def _asked(self, reasoning: Reasoning) -> AnthropicThinking:
        return for_anthropic(
            reasoning,
            self.options.row,
            self.said.max_tokens,
            self.options.default_max_tokens,
            forced=forces(self.said),
        )

    def _may_force(self, thinking: AnthropicThinking) -> bool:
        """Whether a call can be forced from this model while it thinks as it will."""
        row = self.options.row
        if row.forced_tools is not ForcedTools.UNTHINKING:
            return row.forced_tools is ForcedTools.ALWAYS
        if thinking.kind is None:
            return row.default in {None, Effort.NONE}
        return thinking.kind in {"disabled", "between_tools"}

    def _bound(self, thinking: AnthropicThinking) -> AnthropicThinking:
        """Have the vendor drop thoughts that it would refuse, where a request that thinks can say so.

        A model that binds thoughts thinks adaptively by itself, so that saying it changes nothing else (guide
        on preserved thinking).
        """
        row = self.options.row
        if not (row.binds_thoughts and self.has_thoughts and thinking.kind in {None, "adaptive", "enabled"}):
            return thinking
        if thinking.kind is None and not row.adaptive:
            return thinking
        self.binding = True
        return replace(thinking, kind=thinking.kind or "adaptive")

    def _put_thinking(self, body: JsonObject, thinking: AnthropicThinking) -> None:
        thinking = self._bound(thinking)
        if thinking.kind is not None:
            config: JsonObject = {"type": thinking.kind}
            if thinking.budget is not None:
                config["budget_tokens"] = thinking.budget
            if thinking.display is not None:
                config["display"] = thinking.display
            if self.binding:
                config["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
            body["thinking"] = config
        output: JsonObject = {}
        if thinking.effort is not None:
            output["effort"] = thinking.effort
        if self.said.output is not None:
            schema = self._output_schema(self.said.output)
            if schema is not None:
                output["format"] = {"type": "json_schema", "schema": schema}
        if output:
            body["output_config"] = output

    def _output_schema(self, output: OutputFormat) -> JsonObject | None:
        if output.kind is OutputKind.TEXT:
            return None
        if (
            output.schema is None or not self.options.row.structured
        ):  # any JSON object: a schema that every object of it meets is refused
            self.lost.add(Feature.OUTPUT)
            return None
        if output.name is not None:
            self.lost.add(Feature.OUTPUT_NAME)
        if output.description is not None:
            self.lost.add(Feature.OUTPUT_DESCRIPTION)
        schema, is_weaker = enforceable(output.schema)
        if output.strict is False or (output.strict and is_weaker):
            self.lost.add(Feature.OUTPUT_STRICT)
        return schema

    def _put_sampling(self, body: JsonObject) -> None:
        if (self.options.version or SAMPLING_VERSION) != SAMPLING_VERSION:
            self._lose_sampling()
            return
        sampling = self.said.sampling
        if sampling.temperature is not None:
            body["temperature"] = min(sampling.temperature, 1)
            if sampling.top_p is not None:
                self.lost.add(Feature.TOP_P)
        elif sampling.top_p is not None:
            body["top_p"] = sampling.top_p
        if sampling.top_k is not None:
            body["top_k"] = sampling.top_k

    def _lose_sampling(self) -> None:
        sampling = self.said.sampling
        if sampling.temperature is not None:
            self.lost.add(Feature.TEMPERATURE)
        if sampling.top_p is not None:
            self.lost.add(Feature.TOP_P)
        if sampling.top_k is not None:
            self.lost.add(Feature.TOP_K)

    def _put_rest(self, body: JsonObject) -> None:
        said = self.said
        stop = [one for one in said.stop if one and not one.isspace()]  # "must contain non-whitespace"
        if len(stop) < len(said.stop):
            self.lost.add(Feature.STOP)
        if stop:
            body["stop_sequences"] = stop
        if said.user is not None and _PERSONAL.fullmatch(said.user):
            self.lost.add(Feature.USER)
        elif said.user is not None:
            body["metadata"] = {"user_id": said.user}
        if said.stream:
            body["stream"] = True
