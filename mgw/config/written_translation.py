"""What an operator may write about translation: the shapes of its blocks.

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
    """What the models of one name pattern take; what is not said is as the gateway knows it."""

    model_config = ConfigDict(json_schema_extra={"required": ["match", "family"]})

    match: ModelPattern = Field(
        default=None,
        validate_default=True,
        description="A pattern (*, ?, [...]) of model ids as the vendor has them, in either case.",
    )
    family: FamilyName = Field(
        default=None, validate_default=True, description="The family of the providers that it is about."
    )
    efforts: Stated[list[EffortName]] = Field(
        default=None, description="Names of reasoning effort that they take; [] if none."
    )
    budget: Stated[Budget] = Field(
        default=None,
        description="Least and most tokens of a thinking budget; false if they take no budget.",
    )
    off: Stated[OnOff] = Field(default=None, description="Whether their thinking can be switched off.")
    default: Stated[DefaultEffort] = Field(
        default=None, description="How much they think where nothing is said; false if unknown."
    )
    adaptive: Stated[OnOff] = Field(default=None, description="Whether they take adaptive thinking.")
    between_tools: Stated[OnOff] = Field(
        default=None, description="Whether thinking is switched off with between_tools (Anthropic)."
    )
    hides_thoughts: Stated[OnOff] = Field(
        default=None, description="Whether thoughts are empty unless asked for (Anthropic)."
    )
    binds_thoughts: Stated[OnOff] = Field(
        default=None, description="Whether they refuse thoughts of a changed conversation (Anthropic)."
    )
    forced_tools: Stated[ForcedToolsName] = Field(
        default=None, description="When a tool may be forced (Anthropic)."
    )
    sampling: Stated[OnOff] = Field(
        default=None, description="Whether they take temperature, top_p and top_k."
    )
    off_sampling: Stated[OnOff] = Field(
        default=None, description="Whether they take them at least while they do not think."
    )
    penalties: Stated[OnOff] = Field(
        default=None, description="Whether they take presence and frequency penalties (Gemini)."
    )
    logprobs: Stated[OnOff] = Field(
        default=None, description="Whether they take the wish for log-probabilities (Gemini)."
    )
    candidates: Stated[Answers] = Field(
        default=None, description="The most answers that one request may ask for (Gemini)."
    )
    stop: Stated[OnOff] = Field(default=None, description="Whether they take stop sequences.")
    chat_tools: Stated[ChatToolsName] = Field(
        default=None, description="When they take function tools on chat completions (OpenAI)."
    )
    max_completion_tokens: Stated[OnOff] = Field(
        default=None, description="Whether they refuse max_tokens and demand this name (OpenAI)."
    )
    json_with_tools: Stated[OnOff] = Field(
        default=None, description="Whether they take structured output beside functions (Gemini)."
    )
    signatures: Stated[OnOff] = Field(
        default=None, description="Whether calls of the running turn need thought signatures (Gemini)."
    )
    prefill: Stated[OnOff] = Field(
        default=None,
        description="Whether they take a history that ends with the assistant's turn (Anthropic, Gemini).",
    )
    system: Stated[OnOff] = Field(
        default=None, description="Whether they take a system instruction (Gemini)."
    )
    system_turns: Stated[OnOff] = Field(
        default=None, description="Whether they take system messages in mid-conversation."
    )
    structured: Stated[OnOff] = Field(
        default=None, description="Whether they take structured output, and strict tools (Anthropic, Gemini)."
    )
    addresses: Stated[OnOff] = Field(
        default=None, description="Whether images and documents may be addresses that the vendor fetches."
    )
    max_output: Stated[OutputTokens] = Field(
        default=None, description="Most output tokens, thinking included; false if unknown."
    )
    tokens: Stated[TokenFactor] = Field(
        default=None,
        description="Tokens that they make for each of o200k's, where a count is estimated (OpenAI).",
    )


class WrittenTranslation(Written):
    """How requests are told in another dialect."""

    default_max_tokens: Stated[AnswerTokens] = Field(
        default=None, description="max_tokens towards Anthropic when the client set none; 8192."
    )
    clean_history: Stated[OnOff] = Field(
        default=None,
        description="Whether what the gateway wrote for another family is taken out of a history; true.",
    )
    base64_embeddings: Stated[Base64EmbeddingsWord] = Field(
        default=None,
        description="Whether a provider's floats are written as base64 where an embeddings client wants that "
        "(encode), or it gets a 400 (refuse); refuse.",
    )
    models: Stated[list[WrittenModelRow]] = Field(
        default=None, description="What models take, before the rows that the gateway has itself."
    )
    voices: VoiceNames | None = Field(
        default=None,
        description="Per family of the provider, names of voices that clients ask for, and what is sent.",
    )


class WrittenAutoBreakpoints(Written):
    """Cache breakpoints that the gateway sets in requests translated to Anthropic's dialect."""

    enabled: Stated[OnOff] = Field(default=None, description="Whether it sets any; false.")
    min_chars: Stated[Characters] = Field(
        default=None, description="Characters below which it sets none; 4096."
    )
    targets: Stated[CacheTargets] = Field(default=None, description="Where: system, tools; both.")


class WrittenCaching(Written):
    """Prompt caching."""

    auto_breakpoints: WrittenAutoBreakpoints | None = Field(
        default=None, description="Cache breakpoints of the gateway's own."
    )


class WrittenStreamKeepalive(Written):
    """Signs of life while the upstream of a stream is silent; {} switches them on as they are by default."""

    interval: Stated[Seconds] = Field(default=None, description="Seconds of silence before each; 15.")
    passthrough: Stated[OnOff] = Field(
        default=None, description="Whether untranslated streams get them too, between two events; false."
    )
