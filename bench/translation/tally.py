"""What an output holds, so that nobody is measured doing less: counted in whatever wire it was written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from tests.support.talks import as_json
from tests.support.wires import ANTHROPIC, CHAT, GEMINI

TOLERANCES = {"characters": 0.02, "arguments": 0.2}
"""By how much a count may differ: some put a newline between two texts, or escape what need not be."""
Tally = dict[str, int]


def of_request(wire: str, body: bytes) -> Tally:
    """Count the tools, calls, results and characters of a request."""
    return _counted(_REQUESTS[wire](json.loads(body)))


def of_answer(wire: str, body: bytes) -> Tally:
    """Count the calls, characters and tokens of an answer."""
    return _counted(_ANSWERS[wire](json.loads(body)))


def of_stream(wire: str, data: bytes) -> Tally:
    """Count the calls, characters and tokens of a stream, and whether it says why it ended."""
    lines = data.decode().replace("\r\n", "\n").split("\n")
    bodies = [line[6:] for line in lines if line.startswith("data: ") and line != "data: [DONE]"]
    return _counted(item for body in bodies for item in _STREAMS[wire](json.loads(body)))


def differences(wanted: Tally, found: Tally) -> list[str]:
    """Say what one output has that another lacks."""
    said = []
    for name in sorted(wanted.keys() | found.keys()):
        one, other = wanted.get(name, 0), found.get(name, 0)
        allowed = one * TOLERANCES.get(name.rpartition(" ")[2], 0)
        if abs(one - other) > allowed:
            said.append(f"{name}: {other} in place of {one}")
    return said


Items = Iterator[tuple[str, int]]


def _counted(items: Iterable[tuple[str, int]]) -> Tally:
    counts: Counter[str] = Counter()
    for name, count in items:
        counts[name] += count
    return dict(+counts)


def _text(value: Any) -> int:  # Any: JSON of whatever shape
    """The characters of all strings in it that a model would read."""
    match value:
        case str():
            return len(value)
        case list():
            return sum(map(_text, value))
        case dict():
            return sum(_text(one) for key, one in value.items() if key not in {"type", "role"})
        case _:
            return 0


def _chat_request(body: Any) -> Items:
    for tool in body.get("tools", ()):
        yield from _tool(tool["function"], "parameters")
    for message in body["messages"]:
        if message["role"] == "tool":
            yield "results", 1
            yield "result characters", _text(message["content"])
        else:
            yield "text characters", _text(message.get("content"))
            yield from _chat_calls(message)
    yield from _options(body.get("max_tokens") or body.get("max_completion_tokens"), body.get("stop"))


def _chat_calls(message: Any) -> Items:
    for call in message.get("tool_calls") or ():
        yield "calls", 1
        yield "argument characters", _text(json.loads(call["function"]["arguments"]))


def _chat_answer(body: Any) -> Items:
    choice = body["choices"][0]
    yield "text characters", _text(choice["message"]["content"])
    yield from _chat_calls(choice["message"])
    yield "ends", int(choice["finish_reason"] is not None)
    yield "tokens out", body["usage"]["completion_tokens"]


def _chat_stream(body: Any) -> Items:
    for choice in body["choices"]:
        delta = choice.get("delta") or {}
        yield "text characters", len(delta.get("content") or "")
        for call in delta.get("tool_calls") or ():
            yield "calls", int(bool(call["function"].get("name")))
            yield "streamed arguments", _dense(call["function"].get("arguments"))
        yield "ends", int(choice.get("finish_reason") is not None)


def _anthropic_request(body: Any) -> Items:
    for tool in body.get("tools", ()):
        yield from _tool(tool, "input_schema")
    yield "text characters", _text(body.get("system"))
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            yield from _block(block)
    yield from _options(body["max_tokens"], body.get("stop_sequences"))


def _block(block: Any) -> Items:
    match block["type"]:
        case "text":
            yield "text characters", len(block["text"])
        case "tool_use":
            yield "calls", 1
            yield "argument characters", _text(block["input"])
        case "tool_result":
            yield "results", 1
            yield "result characters", _text(block["content"])


def _anthropic_answer(body: Any) -> Items:
    for block in body["content"]:
        yield from _block(block)
    yield "ends", int(body["stop_reason"] is not None)
    yield "tokens out", body["usage"]["output_tokens"]


def _anthropic_stream(body: Any) -> Items:
    delta = body.get("delta") or {}
    yield "text characters", len(delta.get("text") or "")
    yield "streamed arguments", _dense(delta.get("partial_json"))
    yield "calls", int((body.get("content_block") or {}).get("type") == "tool_use")
    yield "ends", int(delta.get("stop_reason") is not None)


def _gemini_request(body: Any) -> Items:
    for tool in body.get("tools", ()):
        for declared in tool.get("functionDeclarations") or tool.get("function_declarations") or ():
            yield from _tool(declared, "parameters" if "parameters" in declared else "parametersJsonSchema")
    yield "text characters", _text(body.get("systemInstruction") or body.get("system_instruction"))
    for content in body["contents"]:
        yield from _parts(content["parts"])
    config = body.get("generationConfig") or {}
    yield from _options(
        config.get("maxOutputTokens") or config.get("max_output_tokens"),
        config.get("stopSequences") or config.get("stop_sequences"),
    )


def _parts(parts: Any) -> Items:
    for part in parts:
        call = part.get("functionCall") or part.get("function_call")
        result = part.get("functionResponse") or part.get("function_response")
        yield "text characters", len(part.get("text") or "")
        if call:
            yield "calls", 1
            yield "argument characters", _text(call["args"])
        if result:
            yield "results", 1
            yield "result characters", _text(result["response"])


def _gemini_answer(body: Any) -> Items:
    candidate = body["candidates"][0]
    yield from _parts(candidate["content"]["parts"])
    yield "ends", int(candidate.get("finishReason") is not None)
    yield "tokens out", body["usageMetadata"]["candidatesTokenCount"]


def _gemini_stream(body: Any) -> Items:
    for candidate in body.get("candidates") or ():
        for part in (candidate.get("content") or {}).get("parts") or ():
            yield "text characters", len(part.get("text") or "")
            call = part.get("functionCall") or part.get("function_call")
            yield "calls", int(bool(call))
            yield "streamed arguments", _dense(as_json(call["args"])) if call else 0
        yield "ends", int(candidate.get("finishReason") is not None)


def _dense(text: str | None) -> int:
    """The characters that are no space: JSON may be written with some or without."""
    return len("".join((text or "").split()))


def _tool(tool: Any, schema: str) -> Items:
    yield "tools", 1
    yield "description characters", len(tool["description"]) + _text_of_schema(tool[schema])


def _text_of_schema(schema: Any) -> int:
    below = schema.get("properties", {}).values()
    return len(schema.get("description", "")) + sum(map(_text_of_schema, below))


def _options(max_tokens: Any, stop: Any) -> Items:
    yield "most tokens", max_tokens or 0
    yield "stop sequences", 1 if isinstance(stop, str) else len(stop or ())


_REQUESTS = {CHAT: _chat_request, ANTHROPIC: _anthropic_request, GEMINI: _gemini_request}
_ANSWERS = {CHAT: _chat_answer, ANTHROPIC: _anthropic_answer, GEMINI: _gemini_answer}
_STREAMS = {CHAT: _chat_stream, ANTHROPIC: _anthropic_stream, GEMINI: _gemini_stream}
