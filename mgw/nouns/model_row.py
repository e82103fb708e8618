"""What translation needs to know about a model: one row per family of models.

A row says what the vendor's API takes for the models whose names match, so that a translated request holds
nothing that the upstream refuses, and that what cannot be said is reported.  Rows describe the routes that
translation writes: chat completions, messages and generateContent.

The columns are declared here alone: the rows of an operator (``translation.models``), their check, the schema
and the reference are made from them.  A new column is a field of :class:`ModelRow`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from mgw.nouns.vocabulary import CallIds, ChatTools, Effort, Family, ForcedTools, ThroughResponses


def _says(description: str) -> Meta:
    """Describe a column, for editors and for the reference."""
    return Meta(description=description)


class ModelRow(Struct, frozen=True):
    """What the models of one name pattern take."""

    match: str
    """A glob for the bare model id; case does not count."""
    family: Family
    source: str
    """The address of the vendor's reference."""
    efforts: Annotated[
        tuple[Effort, ...], _says("Reasoning efforts that the model accepts by name; [] if none.")
    ] = ()
    """``NONE`` where "none" can be said."""
    budget: Annotated[
        tuple[int, int] | None,
        _says("Smallest and largest thinking budget in tokens; false if the model accepts no budget."),
    ] = None
    off: Annotated[bool, _says("Whether thinking can be turned off.")] = False
    default: Annotated[
        Effort | None, _says("Reasoning effort if the request sets none; false if unknown.")
    ] = None
    adaptive: Annotated[bool, _says("Whether the model accepts adaptive thinking.")] = False
    """Anthropic: ``thinking: {type: adaptive}``."""
    between_tools: Annotated[
        bool, _says("Whether thinking is turned off with between_tools instead of disabled (Anthropic).")
    ] = False
    hides_thoughts: Annotated[
        bool, _says("Whether thinking blocks are empty unless the request asks for their text (Anthropic).")
    ] = False
    """The text is asked for with ``display``."""
    binds_thoughts: Annotated[
        bool,
        _says(
            "Whether the model rejects earlier thinking blocks if the conversation before them has changed "
            "(Anthropic)."
        ),
    ] = False
    """A request can tell the model to drop such blocks instead."""
    forced_tools: Annotated[ForcedTools, _says("When a request may force a tool call (Anthropic).")] = (
        ForcedTools.ALWAYS
    )
    sampling: Annotated[bool, _says("Whether the model accepts temperature, top_p and top_k.")] = True
    """Whether it thinks or not (Anthropic: unless it thinks)."""
    off_sampling: Annotated[
        bool,
        _says("Whether the model accepts temperature, top_p and top_k at least while thinking is off."),
    ] = False
    penalties: Annotated[
        bool, _says("Whether the model accepts presence and frequency penalties (Gemini).")
    ] = True
    logprobs: Annotated[bool, _says("Whether the model accepts requests for log probabilities (Gemini).")] = (
        True
    )
    candidates: Annotated[int, _says("Maximum number of candidates per request (Gemini).")] = 8
    stop: Annotated[bool, _says("Whether the model accepts stop sequences.")] = True
    tools: Annotated[bool, _says("Whether the model accepts function tools (Gemini).")] = True
    chat_tools: Annotated[
        ChatTools, _says("When the model accepts function tools in chat completions (OpenAI).")
    ] = ChatTools.ALWAYS
    through_responses: Annotated[
        ThroughResponses,
        _says("When requests of other families' clients reach the model through Responses (OpenAI)."),
    ] = ThroughResponses.NEVER
    responses_efforts: Annotated[
        tuple[Effort, ...] | None,
        _says("Reasoning efforts that the model accepts on Responses (OpenAI); same as efforts if unset."),
    ] = None
    parallel_calls: Annotated[bool, _says("Whether the model accepts parallel_tool_calls (OpenAI).")] = True
    call_ids: Annotated[
        CallIds,
        _says(
            "Which tool call ids the model's chat template accepts, for providers with chat_template: strict "
            "(OpenAI)."
        ),
    ] = CallIds.ANY
    max_completion_tokens: Annotated[
        bool, _says("Whether the model rejects max_tokens and requires max_completion_tokens (OpenAI).")
    ] = False
    json_with_tools: Annotated[
        bool, _says("Whether the model accepts structured output together with functions (Gemini).")
    ] = True
    signatures: Annotated[
        bool, _says("Whether function calls of the current turn need thought signatures (Gemini).")
    ] = False
    prefill: Annotated[
        bool,
        _says("Whether the model accepts a history that ends with an assistant turn (Anthropic, Gemini)."),
    ] = True
    """The model continues such a turn."""
    system: Annotated[bool, _says("Whether the model accepts a system instruction (OpenAI, Gemini).")] = True
    """Else the instruction is the first text of the user's."""
    system_turns: Annotated[
        bool,
        _says("Whether the model accepts system messages in the middle of a conversation (Anthropic)."),
    ] = False
    vertex_call_ids: Annotated[
        bool,
        _says("Whether the model accepts ids of function calls and their responses on Vertex AI (Gemini)."),
    ] = True
    images: Annotated[bool, _says("Whether the model answers with images (Gemini).")] = False
    structured: Annotated[
        bool,
        _says(
            "Whether the model accepts structured output (Anthropic, Gemini) and strict tools (Anthropic)."
        ),
    ] = True
    addresses: Annotated[bool, _says("Whether images and documents may be URLs that the vendor fetches.")] = (
        True
    )
    newer_versions: Annotated[
        bool,
        _says("Whether the model takes API versions after 2023-06-01 on Amazon Bedrock (Anthropic)."),
    ] = True
    max_output: Annotated[
        int | None, _says("Maximum number of output tokens, including thinking; false if unknown.")
    ] = None
    tokens: Annotated[
        float, _says("Tokens of the model's tokenizer per o200k token, for estimated counts (OpenAI).")
    ] = 1.0

    @property
    def on_responses(self) -> ModelRow:
        """The row of the same model when it is asked through Responses."""
        return _on_responses(self)

    @property
    def names(self) -> tuple[Effort, ...]:
        """The efforts by name at which it does think, the least first."""
        return _names(self.efforts)


@lru_cache(maxsize=64)
def without_addresses(row: ModelRow) -> ModelRow:
    """Return the row of the same model where it fetches nothing."""
    return replace(row, addresses=False)


@lru_cache(maxsize=64)
def _on_responses(row: ModelRow) -> ModelRow:
    efforts = row.efforts if row.responses_efforts is None else row.responses_efforts
    return replace(row, efforts=efforts, chat_tools=ChatTools.ALWAYS)


@lru_cache(maxsize=64)
def _names(efforts: tuple[Effort, ...]) -> tuple[Effort, ...]:
    return tuple(effort for effort in Effort if effort in efforts and effort is not Effort.NONE)
