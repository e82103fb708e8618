"""A prompt that is too long for its model, recognized in every provider's wording.

Agents compact their history when they read this, each in the words of its own vendor, so every dialect has to
know it of every vendor.  It is known by a code, or by words of a refusal with status 400 or 413.  The numbers
are read where the words have them: how long the prompt is, how much of an answer was asked for, and how much
the model takes of both together.

Sources: contract 8.28; what the vendors' APIs and hosts were seen to answer, each quoted in
``tests/pure/canonical/test_prompt_length.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from mgw.canonical.conversation import JsonObject
from mgw.canonical.reply import UpstreamError

CONTEXT_LENGTH_EXCEEDED: Final = "context_length_exceeded"
"""OpenAI's code, which hosts that speak its API use, too."""
CODES: Final = frozenset({CONTEXT_LENGTH_EXCEEDED, "exceed_context_size_error"})
"""OpenAI's and llama.cpp's codes."""
_REFUSED: Final = 400
_STATUSES: Final = frozenset({_REFUSED, 413})
_MOST_READ: Final = 2000
"""Characters of a message; what follows is quoted from the request."""
_WORDS: Final = re.compile(
    r"prompt is too long"  # Anthropic
    r"|exceed context limit"  # Anthropic: together with max_tokens
    r"|capability_rejected: prompt_too_long"  # Anthropic's gateways
    r"|input is too long for requested model"  # Bedrock
    r"|exceeds the maximum number of tokens"  # Gemini
    r"|token count is [0-9]+ but (?:the )?model only supports up to [0-9]+"  # Gemini on Vertex AI
    r"|maximum context length"  # OpenAI, vLLM, DeepSeek, Mistral, OpenRouter
    r"|exceeds the context window"  # OpenAI's Responses
    r"|tokens exceed the configured limit"  # OpenAI
    r"|maximum model length"  # vLLM
    r"|maximum prompt length"  # xAI
    r"|exceeds the available context size"  # llama.cpp
    r"|exceeded max context length|exceeds the context length"  # Ollama
    r"|longer than the model's context length"  # Together
    r"|greater than the context length"  # LM Studio
    r"|reduce the length of the messages",  # Groq
    re.IGNORECASE,
)
_OF_ANSWERS: Final = re.compile(
    r"(?:max_?(?:completion_|output_?|new_)?tokens|(?:output|completion) tokens?)[^.]{0,60}"
    r"exceeds the maximum (?:number of tokens|context length)",
    re.IGNORECASE,
)
"""The limit of the answer alone is too high, in some of the same words."""
_OF_PROMPTS: Final = re.compile(r"input|prompt|messages", re.IGNORECASE)
_N: Final = r"([0-9][0-9,]{0,14})"
_USED: Final = (
    re.compile(
        rf"too long: {_N} tokens"
        rf"|context limit: {_N} \+"
        rf"|input token count (?:\(|is ){_N}"
        rf"|{_N} in (?:the messages|your prompt)"
        rf"|contains (?:at least )?{_N} (?:input )?tokens"
        rf"|your request has {_N} input tokens"
        rf"|resulted in {_N} tokens"
        rf"|input length (?:\(|is )?{_N}"
        rf"|prompt \((?:total )?length {_N}\)"
        rf"|(?:request|input) \({_N} tokens\)",
        re.IGNORECASE,
    ),
    re.compile(rf"you requested (?:about )?{_N} tokens", re.IGNORECASE),
)
"""The second where the first finds nothing: it counts the answer, too."""
_PARTS: Final = re.compile(rf"{_N} of (?:text|image|tool) input", re.IGNORECASE)
_ANSWER: Final = re.compile(
    rf"context limit: [0-9]+ \+ {_N}"
    rf"|{_N} (?:in|for) the (?:completion|output)"
    rf"|requested {_N} output tokens"
    rf"|max_completion_tokens'? is too large: {_N}",
    re.IGNORECASE,
)
_LIMIT: Final = re.compile(
    rf"tokens > {_N} maximum"
    rf"|context limit: [0-9]+ \+ [0-9]+ > {_N}"
    rf"|tokens allowed \({_N}\)"
    rf"|only supports up to {_N}"
    rf"|(?:context|prompt|model) length (?:is |of |\(){_N}"
    rf"|with {_N} maximum context"
    rf"|context size \({_N}"
    rf"|configured limit of {_N}",
    re.IGNORECASE,
)
_LLAMA_USED: Final = "n_prompt_tokens"
_LLAMA_LIMIT: Final = "n_ctx"


class PromptLength(Struct, frozen=True):
    """How long a prompt is that is too long, in tokens; ``None``: nobody said."""

    used: int | None = None
    """How many tokens the prompt has."""
    answer: int | None = None
    """The tokens that the answer might have had."""
    limit: int | None = None
    """How many tokens the model takes."""


def find_prompt_length(error: UpstreamError) -> PromptLength | None:
    """Return what an error says of a prompt that is too long; ``None``: it is about something else."""
    words = error.message[:_MOST_READ]
    if error.code not in CODES and not (error.status in _STATUSES and _says_too_long(words)):
        return None
    details = error.details or {}
    used = _integer(details.get(_LLAMA_USED)) or _used(words)
    limit = _integer(details.get(_LLAMA_LIMIT)) or _first(_LIMIT, words)
    return PromptLength(used, _first(_ANSWER, words), limit)


def is_prompt_too_long(error: UpstreamError) -> bool:
    """Whether an error is about a prompt that does not fit its model."""
    return find_prompt_length(error) is not None


def find_code(words: Iterable[Any]) -> str | None:  # Any: JSON of whatever type
    """Return the first of an error's words that is a code of a prompt that is too long."""
    return next((word for word in words if type(word) is str and word in CODES), None)


def as_refusal(error: UpstreamError) -> UpstreamError:
    """Return an error that is about a prompt that is too long as the refusal that it is."""
    return error if error.status in _STATUSES else replace(error, status=_REFUSED)


def implied_status(message: str, otherwise: int) -> int:
    """Return the status that the words of an error stand for, where it names none, as in a stream."""
    return _REFUSED if _says_too_long(message[:_MOST_READ]) else otherwise


def prompt_numbers(error: JsonObject) -> JsonObject | None:
    """Return the members of an error that count the prompt (llama.cpp); ``None`` where it has none."""
    found = {key: error[key] for key in (_LLAMA_USED, _LLAMA_LIMIT) if _integer(error.get(key))}
    return found or None


def _says_too_long(words: str) -> bool:
    """Whether words are about a prompt that is too long, and not only about the answer that was asked for."""
    if _WORDS.search(words) is None:
        return False
    return _OF_ANSWERS.search(words) is None or _OF_PROMPTS.search(words) is not None


def _used(words: str) -> int | None:
    parts = [_number(part) for part in _PARTS.findall(words)]
    if parts:
        return sum(parts)
    found = (_first(pattern, words) for pattern in _USED)
    return next((number for number in found if number is not None), None)


def _first(pattern: re.Pattern[str], words: str) -> int | None:
    """Return the number in the first match."""
    match = pattern.search(words)
    return None if match is None or match.lastindex is None else _number(match[match.lastindex])


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))


def _integer(value: Any) -> int | None:  # Any: JSON of whatever type
    return value if type(value) is int and value > 0 else None
