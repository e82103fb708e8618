"""The settings of translation: what models take, automatic cache breakpoints, signs of life in streams.

Source: contract 2.14, 4.25, 8.4, 8.7, 8.9, 8.25 and 8.27.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

from pydantic import Field

from mgw.config.blocks import Settings
from mgw.vocabulary import ChatTools, Effort, Family, ForcedTools

DEFAULT_MAX_TOKENS: Final = 8192
DEFAULT_MIN_CHARS: Final = 4096
"""About 1024 tokens, the least that most of Anthropic's models cache (prompt caching reference)."""
DEFAULT_KEEPALIVE_SECONDS: Final = 15.0


class CacheTarget(StrEnum):
    """Where an automatic cache breakpoint goes."""

    SYSTEM = "system"
    TOOLS = "tools"


class ExtraField(StrEnum):
    """A field beyond OpenAI's own that some hosts of its wire take."""

    TOP_K = "top_k"


class Base64Embeddings(StrEnum):
    """What becomes of a wish for embeddings in base64 where the provider gives floats."""

    REFUSE = "refuse"
    ENCODE = "encode"


class ModelRow(Settings):
    """What the models of one name pattern take; ``None``: not stated.

    The fields are those of the written row, by the same names.
    """

    match: str
    """A lower-case glob (:mod:`fnmatch`) of the lower-case model id as the vendor has it."""
    family: Family
    """Of the provider."""
    efforts: tuple[Effort, ...] | None = None
    """Levels that it takes by name, each once, as written; empty: it takes none."""
    budget: tuple[int, int] | Literal[False] | None = None
    """Least and most tokens of thinking; ``False``: it takes no budget."""
    off: bool | None = None
    """Its thinking can be switched off."""
    default: Effort | Literal[False] | None = None
    """How much it thinks where the request says nothing; ``False``: unknown."""
    adaptive: bool | None = None
    """It takes adaptive thinking."""
    between_tools: bool | None = None
    """Its thinking is switched off with ``between_tools``."""
    hides_thoughts: bool | None = None
    """It shows no thoughts unless asked for their text."""
    binds_thoughts: bool | None = None
    """It refuses thoughts of a conversation that has changed before them."""
    forced_tools: ForcedTools | None = None
    """When a tool may be forced."""
    sampling: bool | None = None
    """It takes temperature, top_p and top_k."""
    off_sampling: bool | None = None
    """It takes them at least while it does not think."""
    penalties: bool | None = None
    """It takes presence and frequency penalties."""
    logprobs: bool | None = None
    """It takes the wish for log-probabilities."""
    candidates: int | None = None
    """The most answers that one request may ask for."""
    stop: bool | None = None
    """It takes stop sequences."""
    tools: bool | None = None
    """It takes function tools."""
    chat_tools: ChatTools | None = None
    """When it takes function tools on chat completions."""
    parallel_calls: bool | None = None
    """It takes the wish for one tool call at a time."""
    max_completion_tokens: bool | None = None
    """It refuses ``max_tokens`` and demands this name."""
    json_with_tools: bool | None = None
    """It takes structured output in a request that has functions."""
    signatures: bool | None = None
    """A function call of the running turn needs its thought signature."""
    prefill: bool | None = None
    """It takes a history that ends with the assistant's turn."""
    system: bool | None = None
    """It takes a system instruction."""
    system_turns: bool | None = None
    """It takes system messages in mid-conversation."""
    structured: bool | None = None
    """It takes structured output and strict tools."""
    addresses: bool | None = None
    """It fetches images and documents from addresses."""
    max_output: int | Literal[False] | None = None
    """Most output tokens, thinking included; ``False``: unknown."""
    tokens: float | None = None
    """Tokens of its own tokenizer for each of o200k's."""


class Translation(Settings):
    """How requests are told in another dialect."""

    default_max_tokens: int = DEFAULT_MAX_TOKENS
    """``max_tokens`` towards Anthropic when the client set none."""
    clean_history: bool = True
    """Passthrough takes out of a history what the gateway itself wrote for another family."""
    base64_embeddings: Base64Embeddings = Base64Embeddings.REFUSE
    """Whether the gateway writes floats as base64 for a client that asks for it."""
    models: tuple[ModelRow, ...] = ()
    """Rows that stand before the shipped ones, in the order of the file."""
    voices: dict[Family, dict[str, str]] = Field(default_factory=dict)
    """By the provider's family: the name of a voice as asked for, and the name that is sent."""


class AutoBreakpoints(Settings):
    """Cache breakpoints that the gateway sets in requests translated to Anthropic's dialect."""

    enabled: bool = False
    min_chars: int = DEFAULT_MIN_CHARS
    """No breakpoint below this size."""
    targets: frozenset[CacheTarget] = frozenset(CacheTarget)


class Caching(Settings):
    """Prompt caching."""

    auto_breakpoints: AutoBreakpoints = AutoBreakpoints()


class StreamKeepalive(Settings):
    """Signs of life while the upstream of a stream is silent."""

    interval: float = DEFAULT_KEEPALIVE_SECONDS
    """Seconds of silence before each."""
    passthrough: bool = False
    """In byte-exact streams too, between two events."""
