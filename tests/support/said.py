"""Which feature each field of a conversation is: what a request says, whatever wire it came by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from mgw.canonical.conversation import (
    CacheMark,
    Citation,
    Conversation,
    ImageShape,
    Media,
    OutputFormat,
    Reasoning,
    Refusal,
    Sampling,
    Signature,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.dialects.dialect import Rendered

Place = tuple[type[Struct], str]
"""A field of a struct."""

FEATURES: Final[dict[Place, Feature]] = {
    (Conversation, "system"): Feature.SYSTEM,
    (Conversation, "tools"): Feature.TOOLS,
    (Conversation, "parallel_calls"): Feature.PARALLEL_CALLS,
    (Conversation, "max_tokens"): Feature.MAX_TOKENS,
    (Conversation, "stop"): Feature.STOP,
    (Conversation, "prompt_cache_key"): Feature.PROMPT_CACHE_KEY,
    (Conversation, "candidates"): Feature.CANDIDATES,
    (Conversation, "user"): Feature.USER,
    (Conversation, "image_answers"): Feature.IMAGE_ANSWERS,
    (ImageShape, "aspect_ratio"): Feature.IMAGE_SHAPE,
    (ImageShape, "size"): Feature.IMAGE_SHAPE,
    (Turn, "name"): Feature.TURN_NAME,
    (Text, "cache"): Feature.CACHE,
    (Text, "signature"): Feature.THINKING,
    (Media, "name"): Feature.MEDIA_NAME,
    (Media, "file_id"): Feature.FILE_ID,
    (Media, "detail"): Feature.MEDIA_DETAIL,
    (Media, "cache"): Feature.CACHE,
    (Media, "signature"): Feature.THINKING,
    (ToolCall, "signature"): Feature.THINKING,
    (ToolCall, "cache"): Feature.CACHE,
    (ToolResult, "name"): Feature.RESULT_NAME,
    (ToolResult, "is_error"): Feature.RESULT_ERROR,
    (ToolResult, "cache"): Feature.CACHE,
    (Thinking, "text"): Feature.THINKING,
    (Thinking, "signature"): Feature.THINKING,
    (Refusal, "text"): Feature.REFUSAL,
    (Tool, "strict"): Feature.TOOL_STRICT,
    (Tool, "cache"): Feature.CACHE,
    (ToolChoice, "mode"): Feature.TOOL_CHOICE,
    (ToolChoice, "names"): Feature.TOOL_CHOICE_NAMES,
    (OutputFormat, "kind"): Feature.OUTPUT,
    (OutputFormat, "schema"): Feature.OUTPUT,
    (OutputFormat, "name"): Feature.OUTPUT_NAME,
    (OutputFormat, "description"): Feature.OUTPUT_DESCRIPTION,
    (OutputFormat, "strict"): Feature.OUTPUT_STRICT,
    (Reasoning, "effort"): Feature.REASONING,
    (Reasoning, "budget"): Feature.REASONING,
    (Reasoning, "adaptive"): Feature.REASONING,
    (Reasoning, "thoughts"): Feature.THOUGHTS,
    (Sampling, "temperature"): Feature.TEMPERATURE,
    (Sampling, "top_p"): Feature.TOP_P,
    (Sampling, "top_k"): Feature.TOP_K,
    (Sampling, "frequency_penalty"): Feature.FREQUENCY_PENALTY,
    (Sampling, "presence_penalty"): Feature.PRESENCE_PENALTY,
    (Sampling, "seed"): Feature.SEED,
    (Sampling, "logprobs"): Feature.LOGPROBS,
    (Sampling, "top_logprobs"): Feature.TOP_LOGPROBS,
}
"""What may be lost, and is then reported."""
ESSENTIAL: Final[frozenset[Place]] = frozenset(
    {
        *((Conversation, name) for name in ("turns", "stream")),
        *((Turn, name) for name in ("role", "parts")),
        (Text, "text"),
        *((Media, name) for name in ("kind", "media_type", "data", "url", "text", "context")),
        *((ToolCall, name) for name in ("id", "name", "arguments")),
        *((ToolResult, name) for name in ("call_id", "parts")),
        *((Tool, name) for name in ("name", "description", "schema")),
    }
)
"""What every dialect carries, in this form or another."""
HOLDERS: Final[frozenset[Place]] = frozenset(
    {
        (Conversation, "tool_choice"),
        (Conversation, "sampling"),
        (Conversation, "output"),
        (Conversation, "reasoning"),
        (Conversation, "image_shape"),
    }
)
"""Fields that say nothing but what the fields within them say."""
OF_ANSWERS: Final[frozenset[Place]] = frozenset({(Text, "citations")})
"""What no request holds."""
INNER: Final = (CacheMark, Citation, Signature)
"""Values that are carried as a whole."""


def places(value: object) -> Iterator[Place]:
    """Yield the fields that are set anywhere within a value."""
    if isinstance(value, tuple):
        for one in value:
            yield from places(one)
    elif isinstance(value, Struct) and not isinstance(value, INNER):
        for field in fields(value):
            held = getattr(value, field.name)
            if field.default is NODEFAULT or held != field.default:
                yield type(value), field.name
                yield from places(held)


def features(conversation: Conversation) -> set[Feature]:
    """Return the features that a conversation uses."""
    return {FEATURES[place] for place in places(conversation) if place in FEATURES}


def undelivered(conversation: Conversation, rendered: Rendered) -> frozenset[Feature]:
    """Return what a renderer would have reported of a conversation."""
    return rendered.lost | (features(conversation) - rendered.carried)
