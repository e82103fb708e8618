"""LLM-Rosetta's own translation: its converters, without its gateway.

Its converters take and give parsed JSON; orjson reads and writes it, which is faster than what its own
gateway uses.
"""
# mypy: disable-error-code="import-not-found,no-any-return"

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import llm_rosetta
import orjson
from llm_rosetta import ConversionPipeline

from tests.support.wires import ANTHROPIC, CHAT, GEMINI, MODELS

_NAMES = {CHAT: "openai_chat", ANTHROPIC: "anthropic", GEMINI: "google"}


class Rosetta:
    """The side that is measured."""

    version = f"LLM-Rosetta {llm_rosetta.__version__}"

    def request(self, client: str, provider: str, body: bytes) -> Callable[[], bytes] | None:
        if client == provider:
            return None

        def work() -> bytes:
            asked = orjson.loads(body)
            asked["model"] = MODELS[provider]
            return orjson.dumps(_pipeline(client, provider).convert_request(asked))

        return work

    def answer(self, client: str, provider: str, asked: bytes, body: bytes) -> Callable[[], bytes] | None:
        if client == provider:
            return None
        pipeline = _asked(client, provider, asked)
        return lambda: orjson.dumps(pipeline.convert_response(orjson.loads(body)))

    def stream(
        self, client: str, provider: str, asked: bytes, events: list[bytes]
    ) -> Callable[[], bytes] | None:
        if client == provider:
            return None
        pipeline, written = _asked(client, provider, asked), _WRITTEN[client]

        def work() -> bytes:
            processor = pipeline.create_stream_processor()
            chunks = (one for event in events for one in _data(event))
            return b"".join(written(told) for chunk in chunks for told in processor.process_chunk(chunk))

        return work


def side() -> Rosetta:
    return Rosetta()


def _pipeline(client: str, provider: str) -> ConversionPipeline:
    return ConversionPipeline(_NAMES[client], _NAMES[provider])


def _asked(client: str, provider: str, asked: bytes) -> ConversionPipeline:
    """A pipeline is made for one request and converts its answer."""
    pipeline = _pipeline(client, provider)
    pipeline.convert_request(orjson.loads(asked) | {"model": MODELS[provider]})
    return pipeline


def _data(event: bytes) -> Iterator[Any]:
    for line in event.splitlines():
        if line.startswith(b"data: ") and line != b"data: [DONE]":
            yield orjson.loads(line[6:])


def _plain(chunk: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


def _named(chunk: dict[str, Any]) -> bytes:
    return b"event: " + chunk["type"].encode() + b"\ndata: " + orjson.dumps(chunk) + b"\n\n"


_WRITTEN = {CHAT: _plain, ANTHROPIC: _named, GEMINI: _plain}
