"""What translation must know of a model: one row per family of models.

A row says what the vendor's API takes for the models whose names match, so that a translated request holds
nothing that the upstream refuses, and that what cannot be said is reported.  Rows describe the routes that
translation writes: chat completions, messages and generateContent.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from mgw.vocabulary import ChatTools, Effort, Family, ForcedTools

__all__ = ["ChatTools", "ForcedTools", "ModelRow", "OverrideRow"]


class ModelRow(Struct, frozen=True):
    """What the models of one name pattern take."""

    match: str
    """A glob for the bare model id; case does not count."""
    family: Family
    source: str
    """The address of the vendor's reference."""
    efforts: tuple[Effort, ...] = ()
    """What it takes by name; ``NONE`` where "none" can be said."""
    budget: tuple[int, int] | None = None
    """Least and most thinking tokens; ``None``: it takes no budget."""
    off: bool = False
    """Thinking can be switched off by the request."""
    default: Effort | None = None
    """How much it thinks where the request says nothing; ``None``: unknown."""
    adaptive: bool = False
    """Anthropic: takes ``thinking: {type: adaptive}``."""
    between_tools: bool = False
    """Anthropic: thinking is switched off with ``between_tools`` in place of ``disabled``."""
    hides_thoughts: bool = False
    """Anthropic: thinking blocks are empty unless ``display`` asks for their text."""
    binds_thoughts: bool = False
    """Anthropic: refuses thoughts where what stands before them has changed, unless told to drop them."""
    forced_tools: ForcedTools = ForcedTools.ALWAYS
    system: bool = True
    """Gemini: takes a system instruction; else it is the first text of the user's."""
    system_turns: bool = False
    """Anthropic: takes ``system`` messages in mid-conversation."""
    structured: bool = True
    """Anthropic and Gemini: takes structured output (Anthropic: and strict tools)."""
    sampling: bool = True
    """Takes ``temperature``, ``top_p``, ``top_k``, whether it thinks or not (Anthropic: unless it thinks)."""
    off_sampling: bool = False
    """Takes them while it does not think, though not else."""
    penalties: bool = True
    """Gemini: takes presence and frequency penalties."""
    logprobs: bool = True
    """Gemini: takes the wish for log-probabilities."""
    candidates: int = 8
    """Gemini: the most answers that one request may ask for."""
    stop: bool = True
    """Takes stop sequences."""
    tools: bool = True
    """Gemini: takes function tools."""
    chat_tools: ChatTools = ChatTools.ALWAYS
    parallel_calls: bool = True
    """OpenAI: takes the wish for one tool call at a time."""
    max_completion_tokens: bool = False
    """OpenAI: refuses ``max_tokens`` and demands this name."""
    json_with_tools: bool = True
    """Gemini: takes structured output in a request that has functions."""
    signatures: bool = False
    """Gemini: refuses a function call of the running turn without its thought signature."""
    prefill: bool = True
    """Takes a history that ends with the assistant's turn, and goes on from there."""
    addresses: bool = True
    """Fetches media from plain ``https`` addresses."""
    max_output: int | None = None
    """Most output tokens, thinking included; ``None``: unknown."""
    tokens: float = 1.0
    """OpenAI: how many tokens its own tokenizer makes for each of o200k's, for counts that are estimated."""

    @property
    def names(self) -> tuple[Effort, ...]:
        """The efforts by name at which it does think, the least first."""
        return tuple(effort for effort in Effort if effort in self.efforts and effort is not Effort.NONE)


class OverrideRow(Struct, frozen=True):
    """A row of the operator's: what it states goes before the shipped row, the rest is inherited."""

    match: str
    """A glob for the bare model id, or for the id as it is sent upstream."""
    family: Family | None = None
    """``None``: of any family."""
    efforts: tuple[Effort, ...] | UnsetType = UNSET
    budget: tuple[int, int] | UnsetType | None = UNSET
    off: bool | UnsetType = UNSET
    default: Effort | UnsetType | None = UNSET
    adaptive: bool | UnsetType = UNSET
    between_tools: bool | UnsetType = UNSET
    hides_thoughts: bool | UnsetType = UNSET
    binds_thoughts: bool | UnsetType = UNSET
    forced_tools: ForcedTools | UnsetType = UNSET
    system: bool | UnsetType = UNSET
    system_turns: bool | UnsetType = UNSET
    structured: bool | UnsetType = UNSET
    sampling: bool | UnsetType = UNSET
    off_sampling: bool | UnsetType = UNSET
    penalties: bool | UnsetType = UNSET
    logprobs: bool | UnsetType = UNSET
    candidates: int | UnsetType = UNSET
    stop: bool | UnsetType = UNSET
    tools: bool | UnsetType = UNSET
    chat_tools: ChatTools | UnsetType = UNSET
    parallel_calls: bool | UnsetType = UNSET
    max_completion_tokens: bool | UnsetType = UNSET
    json_with_tools: bool | UnsetType = UNSET
    signatures: bool | UnsetType = UNSET
    prefill: bool | UnsetType = UNSET
    addresses: bool | UnsetType = UNSET
    max_output: int | UnsetType | None = UNSET
    tokens: float | UnsetType = UNSET
