"""What an operator may write about translation: the structure of its blocks.

A model row gets a new field by one line here, one of the same name in
:class:`mgw.config.translation.ModelRow`, and its row in the document.
"""

from __future__ import annotations

from pydantic import ConfigDict, Field

from mgw.config.blocks import Written
from mgw.config.fields import (
    Answers,
    AnswerTokens,
    Base64EmbeddingsWord,
    Budget,
    CacheTargets,
    Characters,
    ChatToolsName,
    DefaultEffort,
    EffortName,
    FamilyName,
    ForcedToolsName,
    ModelPattern,
    OnOff,
    OutputTokens,
    Seconds,
    Stated,
    TokenFactor,
    VoiceNames,
)


class WrittenModelRow(Written):
    """What the models that match a pattern accept; missing fields are as the gateway knows them."""

    model_config = ConfigDict(json_schema_extra={"required": ["match", "family"]})

    match: ModelPattern = Field(
        default=None,
        validate_default=True,
        description="Pattern (*, ?, [...]) for the vendor's model ids; case does not matter.",
    )
    family: FamilyName = Field(
        default=None, validate_default=True, description="The family of providers to which the row applies."
    )
    efforts: Stated[list[EffortName]] = Field(
        default=None, description="Reasoning efforts that the model accepts by name; [] if none."
    )
    budget: Stated[Budget] = Field(
        default=None,
        description="Smallest and largest thinking budget in tokens; false if the model accepts no budget.",
    )
    off: Stated[OnOff] = Field(default=None, description="Whether thinking can be turned off.")
    default: Stated[DefaultEffort] = Field(
        default=None, description="Reasoning effort if the request sets none; false if unknown."
    )
    adaptive: Stated[OnOff] = Field(default=None, description="Whether the model accepts adaptive thinking.")
    between_tools: Stated[OnOff] = Field(
        default=None,
        description="Whether thinking is turned off with between_tools instead of disabled (Anthropic).",
    )
    hides_thoughts: Stated[OnOff] = Field(
        default=None,
        description="Whether thinking blocks are empty unless the request asks for their text (Anthropic).",
    )
    binds_thoughts: Stated[OnOff] = Field(
        default=None,
        description="Whether the model rejects earlier thinking blocks if the conversation before them has "
        "changed (Anthropic).",
    )
    forced_tools: Stated[ForcedToolsName] = Field(
        default=None, description="When a request may force a tool call (Anthropic)."
    )
    sampling: Stated[OnOff] = Field(
        default=None, description="Whether the model accepts temperature, top_p and top_k."
    )
    off_sampling: Stated[OnOff] = Field(
        default=None,
        description="Whether the model accepts temperature, top_p and top_k at least while thinking is off.",
    )
    penalties: Stated[OnOff] = Field(
        default=None, description="Whether the model accepts presence and frequency penalties (Gemini)."
    )
    logprobs: Stated[OnOff] = Field(
        default=None, description="Whether the model accepts requests for log probabilities (Gemini)."
    )
    candidates: Stated[Answers] = Field(
        default=None, description="Maximum number of candidates per request (Gemini)."
    )
    stop: Stated[OnOff] = Field(default=None, description="Whether the model accepts stop sequences.")
    tools: Stated[OnOff] = Field(
        default=None, description="Whether the model accepts function tools (Gemini)."
    )
    chat_tools: Stated[ChatToolsName] = Field(
        default=None, description="When the model accepts function tools in chat completions (OpenAI)."
    )
    parallel_calls: Stated[OnOff] = Field(
        default=None, description="Whether the model accepts parallel_tool_calls (OpenAI)."
    )
    max_completion_tokens: Stated[OnOff] = Field(
        default=None,
        description="Whether the model rejects max_tokens and requires max_completion_tokens (OpenAI).",
    )
    json_with_tools: Stated[OnOff] = Field(
        default=None,
        description="Whether the model accepts structured output together with functions (Gemini).",
    )
    signatures: Stated[OnOff] = Field(
        default=None,
        description="Whether function calls of the current turn need thought signatures (Gemini).",
    )
    prefill: Stated[OnOff] = Field(
        default=None,
        description="Whether the model accepts a history that ends with an assistant turn (Anthropic, "
        "Gemini).",
    )
    system: Stated[OnOff] = Field(
        default=None, description="Whether the model accepts a system instruction (Gemini)."
    )
    system_turns: Stated[OnOff] = Field(
        default=None,
        description="Whether the model accepts system messages in the middle of a conversation (Anthropic).",
    )
    structured: Stated[OnOff] = Field(
        default=None,
        description="Whether the model accepts structured output (Anthropic, Gemini) and strict tools "
        "(Anthropic).",
    )
    addresses: Stated[OnOff] = Field(
        default=None, description="Whether images and documents may be URLs that the vendor fetches."
    )
    max_output: Stated[OutputTokens] = Field(
        default=None, description="Maximum number of output tokens, including thinking; false if unknown."
    )
    tokens: Stated[TokenFactor] = Field(
        default=None,
        description="Tokens of the model's tokenizer per o200k token, for estimated counts (OpenAI).",
    )


class WrittenTranslation(Written):
    """How requests are translated into another dialect."""

    default_max_tokens: Stated[AnswerTokens] = Field(
        default=None, description="max_tokens in requests to Anthropic if the client set none; default 8192."
    )
    clean_history: Stated[OnOff] = Field(
        default=None,
        description="Whether the gateway's additions for another family are removed from the history; "
        "default true.",
    )
    base64_embeddings: Stated[Base64EmbeddingsWord] = Field(
        default=None,
        description="What happens if a client asks for base64 embeddings but the provider returns floats: "
        "encode them, or refuse with a 400; default refuse.",
    )
    models: Stated[list[WrittenModelRow]] = Field(
        default=None, description="What models accept; these rows come before the built-in ones."
    )
    voices: VoiceNames | None = Field(
        default=None,
        description="For each family of providers, voice names that clients use and the names to send "
        "instead.",
    )


class WrittenAutoBreakpoints(Written):
    """Cache breakpoints that the gateway sets in requests translated to Anthropic's dialect."""

    enabled: Stated[OnOff] = Field(
        default=None, description="Whether the gateway sets cache breakpoints; default false."
    )
    min_chars: Stated[Characters] = Field(
        default=None, description="Minimum number of characters before a breakpoint; default 4096."
    )
    targets: Stated[CacheTargets] = Field(
        default=None, description="Where to set breakpoints: system, tools; default both."
    )


class WrittenCaching(Written):
    """Prompt caching."""

    auto_breakpoints: WrittenAutoBreakpoints | None = Field(
        default=None, description="Cache breakpoints that the gateway sets itself."
    )


class WrittenStreamKeepalive(Written):
    """Keep-alives in streams while the upstream is silent; {} turns them on with the defaults."""

    interval: Stated[Seconds] = Field(
        default=None, description="Seconds of silence before each keep-alive; default 15."
    )
    passthrough: Stated[OnOff] = Field(
        default=None,
        description="Whether streams that pass through get keep-alives too, between two events; default "
        "false.",
    )
