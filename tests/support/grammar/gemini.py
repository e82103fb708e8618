"""generateContent, whole, as an event stream and as an array in pieces.

Sources: ``google.genai.types`` (``GenerateContentResponse``, ``Candidate``, ``Part``, ``FinishReason``,
``BlockedReason``) and how ``_api_client.py`` of the SDK reads a stream: it takes lines that begin with
``data: ``, the blank included, and empty lines; any other line is read as a piece of a bare JSON error.
There are no event names, no comments and no ``[DONE]``.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.grammar.shape import Json, a_count, a_list, a_text, an_object, load, one_of, require
from tests.support.grammar.sse import lines_of

FINISHES: Final = (
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "OTHER",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_OTHER",
    "NO_IMAGE",
    "IMAGE_RECITATION",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
    "MISSING_THOUGHT_SIGNATURE",
    "MALFORMED_RESPONSE",
    "ESCALATION",
    "PUP_LIMITED_DISABLED",
    "CONTINUATION",
    "MODEL_ARMOR",
)
BLOCKS: Final = (
    "SAFETY",
    "OTHER",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "IMAGE_SAFETY",
    "MODEL_ARMOR",
    "JAILBREAK",
)
_DATA: Final = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
)
_COUNTS: Final = (
    "promptTokenCount",
    "candidatesTokenCount",
    "totalTokenCount",
    "cachedContentTokenCount",
    "thoughtsTokenCount",
    "toolUsePromptTokenCount",
)
_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_PREFIX: Final = "data: "


@dataclass(slots=True)
class _Stream:
    """What has come of a stream."""

    n: int
    begun: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)
    counted: bool = False
    """The last chunk had usage."""
    blocked: bool = False
    failed: bool = False
    chunks: int = 0


def check_gemini_sse(data: bytes, *, n: int = 1, broken: bool = False, counted: bool = True) -> None:
    """Check a stream as ``alt=sse`` gives it, with ``n`` candidates, and ``counted`` at its end."""
    stream = _Stream(n)
    open_line = 0
    for number, line in enumerate(lines_of(data, crlf=True), 1):
        where = f"line {number}"
        if not line:
            open_line = 0
            continue
        require(line.startswith(_PREFIX), where, f"does not begin with 'data: ': {line[:80]!r}")
        require(not open_line, where, "a second data line in one event")
        require(line != "data: [DONE]", where, "[DONE], which this vendor does not send")
        open_line = number
        _chunk(stream, load(line.removeprefix(_PREFIX), where), where)
    require(not open_line, "the end", "the last event is not closed by an empty line")
    _complete(stream, broken=broken, counted=counted)


def check_gemini_array(data: bytes, *, n: int = 1, broken: bool = False, counted: bool = True) -> None:
    """Check a stream as it comes without ``alt``: one JSON array, else as :func:`check_gemini_sse`."""
    stream = _Stream(n)
    require(data.lstrip().startswith(b"["), "byte 0", "must begin with [")
    for index, chunk in enumerate(a_list(load(data, "the array"), "the array")):
        _chunk(stream, chunk, f"[{index}]")
    _complete(stream, broken=broken, counted=counted)


def _complete(stream: _Stream, *, broken: bool, counted: bool) -> None:
    require(stream.failed is broken, "the end", "the stream broke" if stream.failed else "no error shown")
    if broken:
        return
    require(stream.chunks, "the end", "no chunk")
    require(stream.counted or not counted, "the end", "usageMetadata is missing from the last chunk")
    if not stream.blocked:
        missing = set(range(stream.n)) - stream.ended
        require(not missing, "the end", f"no finishReason of candidates {sorted(missing)}")


def _chunk(stream: _Stream, value: Any, where: str) -> None:  # Any: JSON as it was found
    chunk = an_object(value, where)
    require(not stream.failed, where, "something follows the error")
    if "error" in chunk:
        require(next(iter(chunk)) == "error", where, "the SDK knows an error by its first key")
        check_error(chunk, where)
        stream.failed = True
        return
    require(not stream.blocked, where, "something follows a blocked prompt")
    stream.chunks += 1
    if "promptFeedback" in chunk and "candidates" not in chunk:
        require(stream.chunks == 1, where, "promptFeedback alone stands in the first chunk only")
        _feedback(chunk["promptFeedback"], f"{where} promptFeedback")
        stream.blocked = True
    else:
        for candidate in _candidates(chunk, where):
            _streamed_candidate(stream, candidate, where)
    stream.counted = "usageMetadata" in chunk
    if stream.counted:
        _usage(chunk["usageMetadata"], f"{where} usageMetadata")


def _candidates(body: Json, where: str) -> list[Json]:
    candidates = a_list(body.get("candidates"), f"{where} candidates")
    require(candidates, where, "candidates is empty")
    return [an_object(candidate, f"{where} candidates") for candidate in candidates]


def _streamed_candidate(stream: _Stream, candidate: Json, where: str) -> None:
    index = a_count(candidate.get("index", 0), f"{where} index")
    where = f"{where} candidate {index}"
    require(index < stream.n, where, f"{stream.n} candidates were asked for")
    require(index not in stream.ended, where, "something follows its finishReason")
    stream.begun.add(index)
    _content(candidate, where)
    if candidate.get("finishReason") is not None:
        one_of(candidate["finishReason"], FINISHES, f"{where} finishReason")
        stream.ended.add(index)
    else:
        require("content" in candidate, where, "neither content nor finishReason")


def _content(candidate: Json, where: str) -> None:
    if "content" not in candidate:
        return
    content = an_object(candidate["content"], f"{where} content")
    require(content.get("role") == "model", where, "the role of content must be model")
    for place, part in enumerate(a_list(content.get("parts", []), f"{where} parts")):
        _part(an_object(part, f"{where} part {place}"), f"{where} part {place}")


def _part(part: Json, where: str) -> None:
    held = [key for key in _DATA if key in part]
    only_signed = not held and "thoughtSignature" in part
    require(
        len(held) == 1 or only_signed, where, f"must hold one of {', '.join(_DATA)}; found {sorted(part)}"
    )
    if "text" in part:
        a_text(part["text"], f"{where} text")
    if "thought" in part:
        require(isinstance(part["thought"], bool), where, "thought must be true or false")
        require("functionCall" not in part, where, "a thought that is a functionCall")
    if "thoughtSignature" in part:
        _base64(part["thoughtSignature"], f"{where} thoughtSignature")
    if "functionCall" in part:
        _call(an_object(part["functionCall"], f"{where} functionCall"), where)
    if "inlineData" in part:
        data = an_object(part["inlineData"], f"{where} inlineData")
        a_text(data.get("mimeType"), f"{where} mimeType", empty=False)
        _base64(data.get("data"), f"{where} data")


def _call(call: Json, where: str) -> None:
    name = a_text(call.get("name"), f"{where} functionCall.name")
    require(_NAME.fullmatch(name), where, f"an illegal name of a function: {name!r}")
    if "args" in call:
        an_object(call["args"], f"{where} functionCall.args")
    if "id" in call:
        a_text(call["id"], f"{where} functionCall.id", empty=False)


def _base64(value: object, where: str) -> None:
    """Check bytes as protobuf's JSON writes them: base64 of either alphabet, padded or not."""
    text = a_text(value, where, empty=False)
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise AssertionError(f"{where}: no base64 ({error}): {text[:80]!r}") from None


def _usage(value: object, where: str) -> None:
    usage = an_object(value, where)
    for key in _COUNTS:
        if key in usage:
            a_count(usage[key], f"{where}.{key}")
    require("promptTokenCount" in usage and "totalTokenCount" in usage, where, "a count is missing")
    out = usage.get("candidatesTokenCount", 0) + usage.get("thoughtsTokenCount", 0)
    whole = usage["promptTokenCount"] + usage.get("toolUsePromptTokenCount", 0) + out
    require(usage["totalTokenCount"] == whole, where, f"totalTokenCount is not the sum, {whole}")
    cached = usage.get("cachedContentTokenCount", 0)
    require(cached <= usage["promptTokenCount"], where, "more is cached than the prompt has")


def _feedback(value: object, where: str) -> None:
    one_of(an_object(value, where).get("blockReason"), BLOCKS, f"{where}.blockReason")


def check_error(body: Any, where: str = "the body") -> None:  # Any: JSON as it was found
    """Check an error object, which a refused request and a broken stream have in common."""
    error = an_object(an_object(body, where).get("error"), f"{where} error")
    require(a_count(error.get("code"), f"{where} error.code") >= 400, where, "code must be an HTTP status")
    a_text(error.get("message"), f"{where} error.message", empty=False)
    status = a_text(error.get("status"), f"{where} error.status", empty=False)
    require(re.fullmatch(r"[A-Z_]+", status), where, f"status must be a name of google.rpc.Code: {status!r}")


def check_generate_content(body: bytes, *, n: int = 1) -> None:
    """Check a whole answer of ``n`` candidates, or of a prompt that was blocked."""
    where = "the body"
    reply = an_object(load(body, where), where)
    _usage(reply.get("usageMetadata"), "usageMetadata")
    if "candidates" not in reply:
        _feedback(reply.get("promptFeedback"), "promptFeedback")
        return
    candidates = _candidates(reply, where)
    indexes = [candidate.get("index", 0) for candidate in candidates]
    require(indexes == list(range(n)), "candidates", f"{n} were asked for, in order; found {indexes}")
    for index, candidate in enumerate(candidates):
        _content(candidate, f"candidates[{index}]")
        one_of(candidate.get("finishReason"), FINISHES, f"candidates[{index}].finishReason")
