"""LiteLLM's own translation, called the leanest way that it offers.

No router, no logging, no callbacks, no HTTP client: only the functions that turn one wire into another, with
its objects in between.  JSON is read and written by orjson wherever LiteLLM leaves that to its caller, which
is faster than what it uses itself.  Where it has no direct way it goes by its chat form, as its own server
does.
"""
# mypy: disable-error-code="import-not-found,no-any-return,no-untyped-call"

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # before the import: it would fetch a list of prices
os.environ["LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS"] = "True"

import httpx
import litellm
import orjson
from litellm.google_genai.adapters.transformation import GoogleGenAIAdapter, GoogleGenAIStreamWrapper
from litellm.llms.anthropic.chat.handler import ModelResponseIterator as AnthropicStream
from litellm.llms.anthropic.chat.transformation import AnthropicConfig
from litellm.llms.anthropic.pass_through.adapters.streaming_iterator import AnthropicStreamWrapper
from litellm.llms.anthropic.pass_through.adapters.transformation import AnthropicAdapter
from litellm.llms.gemini.chat.transformation import GoogleAIStudioGeminiConfig
from litellm.llms.vertex_ai.gemini.transformation import transform_request_body
from litellm.llms.vertex_ai.gemini.vertex_and_google_ai_studio_gemini import (
    ModelResponseIterator as GeminiStream,
)
from litellm.types.utils import ModelResponse, ModelResponseStream

from tests.support.wires import ANTHROPIC, CHAT, GEMINI, MODELS

Json = dict[str, Any]  # Any: JSON of whatever type
_ANTHROPIC = AnthropicConfig()
_GEMINI = GoogleAIStudioGeminiConfig()
_MESSAGES = AnthropicAdapter()
_GENERATE = GoogleGenAIAdapter()
_RAW = httpx.Response(200)
_LOGGING = SimpleNamespace(optional_params={})


class LiteLLM:
    """The side that is measured."""

    version = f"LiteLLM {litellm._version.version}"

    def request(self, client: str, provider: str, body: bytes) -> Callable[[], bytes] | None:
        if client == provider:
            return None
        to_chat, from_chat, model = _TO_CHAT[client], _FROM_CHAT[provider], MODELS[provider]
        return lambda: orjson.dumps(from_chat(to_chat(orjson.loads(body), model), model))

    def answer(self, client: str, provider: str, asked: bytes, body: bytes) -> Callable[[], bytes] | None:
        if client == provider:
            return None
        understood, told = _UNDERSTOOD[provider], _TOLD[client]
        return lambda: told(understood(orjson.loads(body)))

    def stream(
        self, client: str, provider: str, asked: bytes, events: list[bytes]
    ) -> Callable[[], bytes] | None:
        if client == provider:
            return None
        chunks, told = _CHUNKS[provider], _TOLD_STREAM[client]
        return lambda: b"".join(told(chunks(_data(events))))


def side() -> LiteLLM:
    litellm.suppress_debug_info = True
    litellm.drop_params = True
    return LiteLLM()


# Requests


def _same(body: Json, model: str) -> Json:
    return body | {"model": model}


def _chat_of_messages(body: Json, model: str) -> Json:
    return _MESSAGES.translate_completion_input_params(body | {"model": model})


def _chat_of_contents(body: Json, model: str) -> Json:
    return _GENERATE.translate_generate_content_to_completion(
        model=model,
        contents=body["contents"],
        config=body["generationConfig"],
        systemInstruction=body["systemInstruction"],
        tools=body.get("tools"),
        toolConfig=body.get("toolConfig"),
    )


def _to_anthropic(body: Json, model: str) -> Json:
    messages = body.pop("messages")
    del body["model"]
    body.pop("stream_options", None)
    options = _ANTHROPIC.map_openai_params(body, {}, model, drop_params=True)
    return _ANTHROPIC.transform_request(model, messages, options, {}, {})


def _to_gemini(body: Json, model: str) -> Json:
    messages = body.pop("messages")
    del body["model"]
    options = _GEMINI.map_openai_params(body, {}, model, drop_params=True)
    return transform_request_body(messages, model, options, "gemini", {}, None)


_TO_CHAT = {CHAT: _same, ANTHROPIC: _chat_of_messages, GEMINI: _chat_of_contents}
_FROM_CHAT = {CHAT: lambda body, _: body, ANTHROPIC: _to_anthropic, GEMINI: _to_gemini}


# Whole answers


def _of_anthropic(body: Json) -> ModelResponse:
    return _ANTHROPIC.transform_parsed_response(body, _RAW, ModelResponse())


def _of_gemini(body: Json) -> ModelResponse:
    return _GEMINI._transform_google_generate_content_to_openai_model_response(
        body, ModelResponse(), MODELS[GEMINI], _LOGGING, _RAW
    )


_UNDERSTOOD = {CHAT: lambda body: ModelResponse(**body), ANTHROPIC: _of_anthropic, GEMINI: _of_gemini}
_TOLD = {
    CHAT: lambda reply: reply.model_dump_json(exclude_none=True).encode(),
    ANTHROPIC: lambda reply: orjson.dumps(_MESSAGES.translate_completion_output_params(reply)),
    GEMINI: lambda reply: orjson.dumps(_GENERATE.translate_completion_to_generate_content(reply)),
}


# Streams


def _data(events: list[bytes]) -> Iterator[Json]:
    for event in events:
        for line in event.splitlines():
            if line.startswith(b"data: ") and line != b"data: [DONE]":
                yield orjson.loads(line[6:])


def _chat_chunks(data: Iterator[Json]) -> Iterator[ModelResponseStream]:
    return (ModelResponseStream(**one) for one in data)


def _anthropic_chunks(data: Iterator[Json]) -> Iterator[ModelResponseStream]:
    return map(AnthropicStream(iter(()), sync_stream=True).chunk_parser, data)


def _gemini_chunks(data: Iterator[Json]) -> Iterator[ModelResponseStream]:
    """Its reader of this wire says "stop" in every chunk.

    LiteLLM's wrapper around the reader puts that right, together with much that is no translation; one line
    does so here.
    """
    read = GeminiStream(iter(()), sync_stream=True, logging_obj=_LOGGING).chunk_parser
    for one in data:
        chunk = read(one)
        if "finishReason" not in one["candidates"][0]:
            chunk.choices[0].finish_reason = None
        yield chunk


def _tell_chat(chunks: Iterator[ModelResponseStream]) -> Iterator[bytes]:
    for chunk in chunks:
        yield b"data: " + chunk.model_dump_json(exclude_none=True, exclude_unset=True).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


def _tell_anthropic(chunks: Iterator[ModelResponseStream]) -> Iterator[bytes]:
    return AnthropicStreamWrapper(chunks, MODELS[ANTHROPIC]).anthropic_sse_wrapper()


def _tell_gemini(chunks: Iterator[ModelResponseStream]) -> Iterator[bytes]:
    for chunk in GoogleGenAIStreamWrapper(chunks):
        yield b"data: " + orjson.dumps(chunk) + b"\r\n\r\n"


_CHUNKS = {CHAT: _chat_chunks, ANTHROPIC: _anthropic_chunks, GEMINI: _gemini_chunks}
_TOLD_STREAM = {CHAT: _tell_chat, ANTHROPIC: _tell_anthropic, GEMINI: _tell_gemini}
