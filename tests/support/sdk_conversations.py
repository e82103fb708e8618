"""A conversation as the user of an official SDK has it: what the SDK returned goes back as it is.

One class for each SDK, with the same methods, so that one test can be run with all three; ``own`` is how the
names of its own family's models begin in :mod:`tests.support.all_kinds`.  ``add_user`` and ``add_results``
put a turn of the user into the history, and ``answer`` asks the model and puts its answer there:
OpenAI's and Anthropic's message objects whole, Google's through the SDK's own chat.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Final, Protocol

import anthropic
import openai
from google import genai
from google.genai import chats, types

MAX_TOKENS: Final = 8000
BUDGET: Final = 2048
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS: Final = ("get_weather", "get_time")
TWO_CALLS: Final = 'use tool get_weather with {"city": "Paris"} and use tool get_time with {"city": "Rome"}'


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool."""

    id: str | None
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Usage in one convention: ``tokens_in`` with the cache, ``tokens_out`` with the reasoning."""

    tokens_in: int
    tokens_out: int
    cached: int
    reasoning: int


@dataclass(frozen=True, slots=True)
class Said:
    """An answer; ``stop`` in the words of the family."""

    text: str
    thoughts: str
    calls: tuple[Call, ...]
    stop: str
    tokens: Tokens

    def named(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The calls without their identifiers."""
        return [(call.name, call.arguments) for call in self.calls]


@dataclass(frozen=True, slots=True)
class Asking:
    """How a model is asked, in every family's words."""

    tools: bool = False
    thinks: bool = False
    max_tokens: int = MAX_TOKENS
    stop: str | None = None
    system: str | None = None


class SdkConversation(Protocol):
    """What the three have in common."""

    model: str

    def add_user(self, text: str) -> None:
        """Begin the user's next turn."""

    def add_results(self, results: Sequence[tuple[Call, str]]) -> None:
        """Begin the user's next turn with the results of tools."""

    def answer(self, *, stream: bool) -> Said:
        """Ask the model, and put its answer into the history."""


@cache  # a client that nobody holds closes itself in the middle of a call
def openai_client(url: str, key: str) -> openai.OpenAI:
    """OpenAI's SDK at a gateway."""
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)


@cache
def anthropic_client(url: str, key: str) -> anthropic.Anthropic:
    """Anthropic's SDK at a gateway."""
    return anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)


@cache
def gemini_client(url: str, key: str) -> genai.Client:
    """Google's SDK at a gateway."""
    return genai.Client(api_key=key, http_options={"base_url": url})


@dataclass
class ChatConversation:
    """Through OpenAI's SDK."""

    url: str
    key: str
    model: str
    asking: Asking = field(default_factory=Asking)
    messages: list[Any] = field(default_factory=list)  # mappings and the SDK's own objects
    own: ClassVar = ("main/", "host/")
    stops: ClassVar = MappingProxyType({"end": "stop", "calls": "tool_calls", "length": "length"})

    def add_user(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def add_results(self, results: Sequence[tuple[Call, str]]) -> None:
        self.messages += [
            {"role": "tool", "tool_call_id": call.id, "content": result} for call, result in results
        ]

    def answer(self, *, stream: bool) -> Said:
        chats = openai_client(self.url, self.key).chat.completions
        completion: Any  # of two classes with the same fields
        if stream:
            with chats.stream(**self._request(), stream_options={"include_usage": True}) as streamed:
                completion = _final(streamed)
        else:
            completion = chats.create(**self._request())
        (choice,) = completion.choices
        self.messages.append(choice.message)
        return Said(
            choice.message.content or "",
            getattr(choice.message, "reasoning_content", None) or "",
            tuple(
                Call(call.id, call.function.name, json.loads(call.function.arguments or "{}"))
                for call in choice.message.tool_calls or ()
            ),
            choice.finish_reason,
            chat_tokens(completion.usage),
        )

    def _request(self) -> dict[str, Any]:  # the fields of a request
        asking = self.asking
        system = [{"role": "system", "content": asking.system}] if asking.system else []
        made: dict[str, Any] = {"model": self.model, "messages": [*system, *self.messages]}
        made["max_completion_tokens"] = asking.max_tokens
        if asking.tools:
            functions = [{"name": name, "strict": True, "parameters": _SCHEMA} for name in TOOLS]
            made["tools"] = [{"type": "function", "function": function} for function in functions]
        if asking.thinks:
            made["reasoning_effort"] = "low"
        if asking.stop:
            made["stop"] = [asking.stop]
        return made


def _final(stream: Any) -> Any:  # openai.lib.streaming.chat.ChatCompletionStream, and its completion
    """The SDK raises where an answer ended early, and tells it with the error."""
    try:
        return stream.get_final_completion()
    except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError) as error:
        return error.completion


def chat_tokens(usage: Any) -> Tokens:  # openai.types.CompletionUsage or None
    """OpenAI counts the cache within the prompt, and the reasoning within the completion."""
    if usage is None:  # the SDK's error about an answer that ended early has none
        return Tokens(0, 0, 0, 0)
    of_prompt, of_completion = usage.prompt_tokens_details, usage.completion_tokens_details
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    return Tokens(
        usage.prompt_tokens,
        usage.completion_tokens,
        (of_prompt and of_prompt.cached_tokens) or 0,
        (of_completion and of_completion.reasoning_tokens) or 0,
    )


@dataclass
class MessagesConversation:
    """Through Anthropic's SDK."""

    url: str
    key: str
    model: str
    asking: Asking = field(default_factory=Asking)
    messages: list[Any] = field(default_factory=list)  # mappings and the SDK's own objects
    own: ClassVar = ("claude/",)
    stops: ClassVar = MappingProxyType({"end": "end_turn", "calls": "tool_use", "length": "max_tokens"})

    def add_user(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def add_results(self, results: Sequence[tuple[Call, str]]) -> None:
        blocks = [
            {"type": "tool_result", "tool_use_id": call.id, "content": result} for call, result in results
        ]
        self.messages.append({"role": "user", "content": blocks})

    def answer(self, *, stream: bool) -> Said:
        messages = anthropic_client(self.url, self.key).messages
        message: Any  # of two classes with the same fields
        if stream:
            with messages.stream(**self._request()) as streamed:
                message = streamed.get_final_message()
        else:
            message = messages.create(**self._request())
        self.messages.append({"role": "assistant", "content": message.content})
        return Said(
            "".join(block.text for block in message.content if block.type == "text"),
            "".join(block.thinking for block in message.content if block.type == "thinking"),
            tuple(
                Call(block.id, block.name, block.input)
                for block in message.content
                if block.type == "tool_use"
            ),
            message.stop_reason,
            message_tokens(message.usage),
        )

    def _request(self) -> dict[str, Any]:  # the fields of a request
        asking = self.asking
        made: dict[str, Any] = {"model": self.model, "messages": self.messages}
        made["max_tokens"] = asking.max_tokens
        if asking.system:
            made["system"] = asking.system
        if asking.tools:
            made["tools"] = [{"name": name, "input_schema": _SCHEMA} for name in TOOLS]
        if asking.thinks and "claude" in self.model and "-4-5" not in self.model:
            made["thinking"] = {"type": "adaptive"}
        elif asking.thinks:
            made["thinking"] = {"type": "enabled", "budget_tokens": BUDGET}
        if asking.stop:
            made["stop_sequences"] = [asking.stop]
        return made


def message_tokens(usage: Any) -> Tokens:  # anthropic.types.Usage
    """Anthropic counts the cache beside the input."""
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    details = usage.output_tokens_details
    return Tokens(
        usage.input_tokens + read + written,
        usage.output_tokens,
        read,
        (details and details.thinking_tokens) or 0,
    )


@dataclass
class ContentConversation:
    """Through Google's SDK, and its chat."""

    url: str
    key: str
    model: str
    asking: Asking = field(default_factory=Asking)
    _turn: list[types.Part] = field(default_factory=list)
    _chat: chats.Chat | None = None
    _asked_model: str = ""
    own: ClassVar = ("gem/",)
    stops: ClassVar = MappingProxyType({"end": "STOP", "calls": "STOP", "length": "MAX_TOKENS"})

    def add_user(self, text: str) -> None:
        self._turn.append(types.Part(text=text))

    def add_results(self, results: Sequence[tuple[Call, str]]) -> None:
        for call, result in results:
            response = types.FunctionResponse(id=call.id, name=call.name, response={"result": result})
            self._turn.append(types.Part(function_response=response))

    def answer(self, *, stream: bool) -> Said:
        turn, self._turn = self._turn, []
        chat = self._chat_with_the_model()
        pieces = list(chat.send_message_stream(turn)) if stream else [chat.send_message(turn)]
        if not self.model.startswith(self.own):
            assert chat.get_history(curated=True) == chat.get_history(), "the SDK thinks the answer invalid"
        return content_said(pieces)

    def _chat_with_the_model(self) -> chats.Chat:
        """The chat so far; a change of models begins another with its history."""
        if self._chat is None or self._asked_model != self.model:
            history: list[Any] = [] if self._chat is None else list(self._chat.get_history(curated=True))
            maker = gemini_client(self.url, self.key).chats
            self._chat = maker.create(model=self.model, config=self._config(), history=history)
            self._asked_model = self.model
        return self._chat

    def _config(self) -> types.GenerateContentConfig:
        asking = self.asking
        config = types.GenerateContentConfig(max_output_tokens=asking.max_tokens)
        if asking.system:
            config.system_instruction = asking.system
        if asking.tools:
            functions = [
                types.FunctionDeclaration(name=name, parameters_json_schema=_SCHEMA) for name in TOOLS
            ]
            config.tools = [types.Tool(function_declarations=functions)]
        if asking.thinks:
            config.thinking_config = types.ThinkingConfig(include_thoughts=True)
            if "gemini-3" in self.model:
                config.thinking_config.thinking_level = types.ThinkingLevel.LOW
            else:
                config.thinking_config.thinking_budget = BUDGET
        if asking.stop:
            config.stop_sequences = [asking.stop]
        return config


def content_said(pieces: Sequence[types.GenerateContentResponse]) -> Said:
    """Join the pieces of an answer, as a user does."""
    candidates = [candidate for piece in pieces for candidate in piece.candidates or ()]
    parts = [
        part for candidate in candidates for part in (candidate.content and candidate.content.parts) or ()
    ]
    calls = [part.function_call for part in parts if part.function_call]
    stops = [candidate.finish_reason for candidate in candidates if candidate.finish_reason]
    return Said(
        "".join(part.text or "" for part in parts if not part.thought),
        "".join(part.text or "" for part in parts if part.thought),
        tuple(Call(call.id, call.name or "", call.args or {}) for call in calls),
        stops[-1].value if stops else "",
        content_tokens([piece.usage_metadata for piece in pieces if piece.usage_metadata][-1]),
    )


def content_tokens(usage: types.GenerateContentResponseUsageMetadata) -> Tokens:
    """Google counts the cache within the prompt, and thoughts beside the candidates."""
    thoughts = usage.thoughts_token_count or 0
    tokens_in, tokens_out = usage.prompt_token_count or 0, (usage.candidates_token_count or 0) + thoughts
    assert usage.total_token_count == tokens_in + tokens_out
    return Tokens(tokens_in, tokens_out, usage.cached_content_token_count or 0, thoughts)


CONVERSATIONS: Final = (ChatConversation, MessagesConversation, ContentConversation)
