"""The fields of Anthropic's messages, as tables (types: ``anthropic.types`` 2.x).

There are two API versions: under 2023-06-01 a request may set ``temperature``, ``top_p`` and ``top_k``; the
SDK's own version, 2026-10-21, has no such fields.
"""

from typing import Final

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
    tagged,
)

_OLD_VERSION: Final = "2023-06-01"
_NEW_VERSION: Final = "2026-10-21"
VERSIONS: Final = (_OLD_VERSION, _NEW_VERSION)
_OLD_VERSION_FIELDS: Final = {"temperature": number(0, 1), "top_p": number(0, 1), "top_k": integer(0)}
_BETA_NAMES: Final = ("context_management", "mcp_servers", "fallbacks", "task_budget", "output_format")
_BETA_FIELDS: Final = dict.fromkeys(_BETA_NAMES, ANYTHING)
_EFFORT: Final = {"effort": string("low", "medium", "high", "xhigh", "max")}
SYSTEM_BETAS: Final = {
    "per-turn-control-": {"output_config": mapping(Shape(_EFFORT))},
    "mid-conversation-output-config-": {"output_config": mapping(Shape(_EFFORT))},
    "mid-conversation-system-clear-at-": {"clear_at": string("next_user_message", "never")},
}
"""What betas, by the beginnings of their names, add to messages whose role is ``system``."""
_CACHE: Final = mapping(Shape({"type": string("ephemeral"), "ttl": string("5m", "1h")}, required=("type",)))
_CITATIONS: Final = {"citations": ANYTHING, "cache_control": _CACHE}
_TEXT: Final = Shape({"text": string(), **_CITATIONS}, required=("text",))
_SOURCE: Final = tagged(
    base64=Shape({"data": string(), "media_type": string()}, required=("data", "media_type")),
    url=Shape({"url": string()}, required=("url",)),
    text=Shape({"data": string(), "media_type": string("text/plain")}, required=("data", "media_type")),
    content=Shape({"content": ANYTHING}, required=("content",)),
    file=Shape({"file_id": string()}, required=("file_id",)),
)
_IMAGE: Final = Shape(
    {"source": _SOURCE, "cache_control": _CACHE, "transformations": ANYTHING}, required=("source",)
)
_DOCUMENT: Final = Shape(
    {"source": _SOURCE, "title": string(), "context": string(), **_CITATIONS}, required=("source",)
)
_SEARCH_RESULT: Final = Shape(
    {"source": string(), "title": string(), "content": array(), **_CITATIONS},
    required=("source", "title", "content"),
)
_TOOL_RESULT: Final = Shape(
    {
        "tool_use_id": string(),
        "content": either(
            string(),
            array(
                tagged(
                    text=_TEXT,
                    image=_IMAGE,
                    document=_DOCUMENT,
                    search_result=_SEARCH_RESULT,
                    tool_reference=Shape(
                        {"tool_name": string(), "cache_control": _CACHE}, required=("tool_name",)
                    ),
                )
            ),
        ),
        "is_error": boolean(),
        "toolset_name": string(),
        "cache_control": _CACHE,
    },
    required=("tool_use_id",),
)
_TOOL_USE: Final = Shape(
    {
        "id": string(),
        "name": string(),
        "input": Field(("object",), null=False),
        "caller": ANYTHING,
        "toolset_name": string(),
        "cache_control": _CACHE,
    },
    required=("id", "name", "input"),
)
_OPEN: Final = Shape({}, is_open=True)
_BLOCK: Final = tagged(
    text=_TEXT,
    image=_IMAGE,
    document=_DOCUMENT,
    search_result=_SEARCH_RESULT,
    tool_use=_TOOL_USE,
    tool_result=_TOOL_RESULT,
    thinking=Shape({"thinking": string(), "signature": string()}, required=("thinking", "signature")),
    redacted_thinking=Shape({"data": string()}, required=("data",)),
    server_tool_use=_OPEN,
    web_search_tool_result=_OPEN,
    web_fetch_tool_result=_OPEN,
    code_execution_tool_result=_OPEN,
    bash_code_execution_tool_result=_OPEN,
    text_editor_code_execution_tool_result=_OPEN,
    tool_search_tool_result=_OPEN,
    container_upload=_OPEN,
)
_MESSAGE: Final = {
    "role": string("user", "assistant", "system"),
    "content": either(string(), array(_BLOCK)),
}
_CUSTOM_TOOL: Final = Shape(
    {
        "type": string(),
        "name": string(),
        "description": string(),
        "input_schema": Field(("object",), null=False),
        "cache_control": _CACHE,
        "strict": boolean(),
        "defer_loading": boolean(),
        "eager_input_streaming": boolean(),
        "input_examples": array(mapping()),
        "allowed_callers": array(string()),
    },
    required=("name", "input_schema"),
)
CUSTOM_TOOL: Final = mapping(_CUSTOM_TOOL)
_ONE_AT_A_TIME: Final = {"disable_parallel_tool_use": boolean()}
_BINDING_BETA: Final = "thinking-binding-controls"
_BLOCK_BINDING: Final = {
    "block_binding": mapping(Shape({"prefix_mismatch_behavior": string("error", "drop_block")}))
}


def _thinking(binding: dict[str, Field]) -> Field:
    """How to think; ``binding`` is what a beta adds."""
    common = {"display": string("summarized", "omitted"), **binding}
    return tagged(
        enabled=Shape({"budget_tokens": integer(1024), **common}, required=("budget_tokens",)),
        disabled=Shape({}),
        adaptive=Shape(common),
        between_tools=Shape({}),
    )


_SHARED: Final = {
    "model": string(),
    "cache_control": _CACHE,
    "output_config": mapping(
        Shape(
            {
                **_EFFORT,
                "format": tagged(json_schema=Shape({"schema": mapping()}, required=("schema",))),
            }
        )
    ),
    "speed": string("standard", "fast"),
    "system": either(string(), array(tagged(text=_TEXT))),
    "thinking": _thinking({}),
    "tool_choice": tagged(
        auto=Shape(_ONE_AT_A_TIME),
        any=Shape(_ONE_AT_A_TIME),
        tool=Shape({"name": string(), **_ONE_AT_A_TIME}, required=("name",)),
        none=Shape({}),
    ),
    "tools": array(mapping(Shape({"name": string()}, required=("name",), is_open=True))),
}
_MESSAGES: Final = {
    **_SHARED,
    "max_tokens": integer(0),
    "container": ANYTHING,
    "diagnostics": mapping(),
    "inference_geo": string(),
    "metadata": mapping(Shape({"user_id": string()})),
    "service_tier": string("auto", "standard_only"),
    "stop_sequences": array(string()),
    "stream": boolean(),
    "user_profile_id": string(),
    "workspace_id": string(),
}


def messages_shape(version: str, betas: str | None) -> Shape:
    """The fields of ``/v1/messages`` under an API version; ``betas`` is the header ``anthropic-beta``."""
    fields = _MESSAGES | (_OLD_VERSION_FIELDS if version == _OLD_VERSION else {}) | _fields_with_betas(betas)
    return Shape(fields, required=("model", "max_tokens", "messages"))


def count_shape(betas: str | None) -> Shape:
    """The fields of ``/v1/messages/count_tokens``."""
    return Shape(_SHARED | _fields_with_betas(betas), required=("model", "messages"))


def _fields_with_betas(betas: str | None) -> dict[str, Field]:
    """The fields that betas change: the messages, and those of the body that any beta allows."""
    message = dict(_MESSAGE)
    for beta, more in SYSTEM_BETAS.items():
        if beta in (betas or ""):
            message |= more
    messages = array(mapping(Shape(message, required=("role", "content"))))
    fields = {"messages": messages, **(_BETA_FIELDS if betas is not None else {})}
    if _BINDING_BETA in (betas or ""):
        fields["thinking"] = _thinking(_BLOCK_BINDING)
    return fields
