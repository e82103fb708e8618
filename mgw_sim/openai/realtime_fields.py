"""The client events of OpenAI's realtime protocol, as tables (types: ``openai.types.realtime`` 3.54)."""

from typing import Final

from msgspec.structs import replace

from mgw_sim.validation import (
    ANYTHING,
    Field,
    Shape,
    array,
    boolean,
    either,
    integer,
    mapping,
    number,
    string,
)


def _never_null(field: Field) -> Field:
    return replace(field, null=False)


_FORMAT: Final = _never_null(
    mapping(Shape({"type": string("audio/pcm", "audio/pcmu", "audio/pcma"), "rate": integer()}, ("type",)))
)
_DETECTION: Final = Shape(
    {
        "type": string("server_vad", "semantic_vad"),
        "create_response": boolean(),
        "interrupt_response": boolean(),
    },
    is_open=True,
)
_AUDIO_INPUT: Final = Shape(
    {
        "format": _FORMAT,
        "noise_reduction": mapping(),
        "transcription": mapping(),
        "turn_detection": mapping(_DETECTION),
    }
)
_AUDIO_OUTPUT: Final = Shape(
    {"format": _FORMAT, "voice": either(string(), mapping()), "speed": number(0.25, 1.5)}
)
_AUDIO: Final = Shape(
    {"input": _never_null(mapping(_AUDIO_INPUT)), "output": _never_null(mapping(_AUDIO_OUTPUT))}
)
_OF_RESPONSES: Final = {
    "output_modalities": _never_null(array(string("text", "audio"))),
    "max_output_tokens": either(integer(1), string("inf")),
    "instructions": string(),
    "tools": array(mapping(Shape({"type": string(), "name": string()}, ("type",), is_open=True))),
    "tool_choice": either(string("none", "auto", "required"), mapping()),
    "audio": _never_null(mapping(_AUDIO)),
    "parallel_tool_calls": boolean(),
    "prompt": mapping(),
    "reasoning": mapping(),
}
_SESSION: Final = Shape(
    {
        **_OF_RESPONSES,
        "type": string("realtime", "transcription"),
        "id": string(),
        "object": string(),
        "model": string(),
        "expires_at": integer(),
        "include": array(string()),
        "tracing": either(string("auto"), mapping()),
        "truncation": either(string("auto", "disabled"), mapping()),
    },
    required=("type",),
)
_PART: Final = Shape(
    {
        "type": string(),
        "text": string(),
        "audio": string(),
        "transcript": string(),
        "image_url": string(),
        "detail": string("auto", "low", "high"),
    },
    required=("type",),
)
_COMMON: Final = {"id": string(), "object": string(), "status": string()}
_MCP: Final = Shape({"id": string()}, is_open=True)
_ITEMS: Final = {
    "message": Shape(
        {**_COMMON, "role": string("user", "assistant", "system"), "content": array(mapping(_PART))},
        required=("role", "content"),
    ),
    "function_call": Shape(
        {**_COMMON, "call_id": string(), "name": string(), "arguments": string()},
        required=("name", "arguments"),
    ),
    "function_call_output": Shape(
        {**_COMMON, "call_id": string(), "output": string()}, required=("call_id", "output")
    ),
    **dict.fromkeys(
        ("mcp_approval_request", "mcp_approval_response", "mcp_list_tools", "mcp_call", "mcp_tool_call"), _MCP
    ),
}
_ITEM: Final = Field(("object",), null=False, variants=_ITEMS)
_REFERENCE: Final = Shape({"id": string()}, required=("id",))
_RESPONSE: Final = Shape(
    {
        **_OF_RESPONSES,
        "conversation": string(),
        "input": array(Field(("object",), variants={**_ITEMS, "item_reference": _REFERENCE})),
        "metadata": mapping(),
    }
)
_EVENT_FIELDS: Final[dict[str, tuple[dict[str, Field], tuple[str, ...]]]] = {
    "session.update": ({"session": mapping(_SESSION)}, ("session",)),
    "input_audio_buffer.append": ({"audio": string()}, ("audio",)),
    "input_audio_buffer.commit": ({}, ()),
    "input_audio_buffer.clear": ({}, ()),
    "conversation.item.create": ({"item": _ITEM, "previous_item_id": string()}, ("item",)),
    "conversation.item.truncate": (
        {"item_id": string(), "content_index": integer(0), "audio_end_ms": integer(0)},
        ("item_id", "content_index", "audio_end_ms"),
    ),
    "conversation.item.delete": ({"item_id": string()}, ("item_id",)),
    "conversation.item.retrieve": ({"item_id": string()}, ("item_id",)),
    "response.create": ({"response": mapping(_RESPONSE)}, ()),
    "response.cancel": ({"response_id": string()}, ()),
}
EVENTS: Final = {
    name: Shape({"type": string(), "event_id": ANYTHING, **fields}, ("type", *required))
    for name, (fields, required) in _EVENT_FIELDS.items()
}
"""Each event by its type."""
