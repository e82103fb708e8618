"""Chat completions, whole and streamed.

Sources: ``openai.types.chat`` (``ChatCompletion``, ``ChatCompletionChunk``, ``CompletionUsage``), the API's
reference of the streamed chunk, where ``delta``, ``finish_reason`` and ``index`` of a choice are required.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.grammar.shape import (
    Json,
    a_count,
    a_list,
    a_text,
    an_object,
    load,
    needs,
    one_of,
    require,
)
from tests.support.grammar.sse import Record, records_of

FINISHES: Final = ("stop", "length", "tool_calls", "content_filter", "function_call")
_SAME: Final = ("id", "object", "created", "model")
_WITH_CALLS: Final = ("tool_calls", "length", "content_filter")
_USAGE: Final = ("prompt_tokens", "completion_tokens", "total_tokens")
_DETAILS: Final = (
    ("prompt_tokens_details", "prompt_tokens"),
    ("completion_tokens_details", "completion_tokens"),
)
_DONE: Final = "[DONE]"


@dataclass(slots=True)
class _Choice:
    """What has come of one choice."""

    begun: bool = False
    ended: bool = False
    calls: list[str] = field(default_factory=list)
    """The id of each."""
    function: bool = False


@dataclass(slots=True)
class _Stream:
    """What has come of a stream."""

    include_usage: bool
    n: int
    first: Json | None = None
    choices: dict[int, _Choice] = field(default_factory=dict)
    counted: bool = False
    failed: bool = False


def check_chat_stream(data: bytes, *, include_usage: bool, n: int = 1, broken: bool = False) -> None:
    """Check a stream of chat chunks: ``n`` choices, and a last chunk with usage iff ``include_usage``."""
    stream = _Stream(include_usage, n)
    events = [record for record in records_of(data) if _has_data(record)]
    done = bool(events) and events[-1].data == [_DONE]
    require(done is not broken, "the end", "[DONE] in a broken stream" if done else "no [DONE]")
    for record in events[:-1] if done else events:
        where = record.where
        require(record.data != [_DONE], where, "[DONE] is not the last")
        require(not stream.failed, where, "something follows the error")
        _chunk(stream, an_object(load(record.data[0], where), where), where)
    require(stream.failed is broken, "the end", "an error and [DONE]" if stream.failed else "no error shown")
    if not broken:
        _complete(stream)


def _has_data(record: Record) -> bool:
    require(record.event is None, record.where, "an event line; chat streams have none")
    require(len(record.data) <= 1, record.where, "several data lines in one event")
    return bool(record.data)


def _complete(stream: _Stream) -> None:
    for index in range(stream.n):
        choice = stream.choices.get(index)
        require(choice is not None and choice.ended, f"choice {index}", "no finish_reason")
    require(stream.counted is stream.include_usage, "the end", "no chunk with usage")


def _chunk(stream: _Stream, chunk: Json, where: str) -> None:
    if "error" in chunk:
        check_error(chunk, where)
        stream.failed = True
        return
    require(not stream.counted, where, "a chunk after the one with usage")
    needs(chunk, (*_SAME, "choices"), where)
    _frame(chunk, "chat.completion.chunk", where)
    first = stream.first = stream.first or chunk
    for key in _SAME:
        require(chunk[key] == first[key], where, f"{key} changes: {chunk[key]!r} after {first[key]!r}")
    choices = a_list(chunk["choices"], f"{where} choices")
    if choices:
        _no_usage(stream, chunk, where)
    else:
        _last_usage(stream, chunk, where)
    for item in choices:
        _streamed_choice(stream, an_object(item, f"{where} choices"), where)


def _no_usage(stream: _Stream, chunk: Json, where: str) -> None:
    if stream.include_usage:
        require(
            "usage" in chunk and chunk["usage"] is None, where, "usage must be null before the last chunk"
        )
    else:
        require("usage" not in chunk, where, "usage, though nobody asked")


def _last_usage(stream: _Stream, chunk: Json, where: str) -> None:
    require(stream.include_usage, where, "a chunk without choices, though nobody asked for usage")
    _usage(chunk.get("usage"), f"{where} usage")
    ended = [choice.ended for choice in stream.choices.values()]
    require(len(ended) == stream.n and all(ended), where, "usage before every finish")
    stream.counted = True


def _streamed_choice(stream: _Stream, item: Json, where: str) -> None:
    needs(item, ("index", "delta", "finish_reason"), f"{where} choice")
    index = a_count(item["index"], f"{where} index")
    where = f"{where} choice {index}"
    require(index < stream.n, where, f"{stream.n} choices were asked for")
    choice = stream.choices.setdefault(index, _Choice())
    require(not choice.ended, where, "something follows its finish_reason")
    _delta(choice, an_object(item["delta"], f"{where} delta"), where)
    _logprobs(item.get("logprobs"), where)
    if item["finish_reason"] is not None:
        _finish(item["finish_reason"], len(choice.calls), choice.function, where)
        choice.ended = True


def _finish(value: object, calls: int, function: bool, where: str) -> None:
    reason = one_of(value, FINISHES, f"{where} finish_reason")
    if calls:
        require(reason in _WITH_CALLS, where, f"finish_reason {reason} though there are tool calls")
    else:
        require(reason != "tool_calls", where, "finish_reason tool_calls without one")
    require(function or reason != "function_call", where, "finish_reason function_call without one")
    require(not function or reason != "stop", where, "finish_reason stop though there is a function call")


def _delta(choice: _Choice, delta: Json, where: str) -> None:
    if choice.begun:
        require("role" not in delta, where, "a second role")
    else:
        require(delta.get("role") == "assistant", where, "the first delta must have the role assistant")
    choice.begun = True
    for key in ("content", "refusal", "reasoning_content"):
        if delta.get(key) is not None:
            a_text(delta[key], f"{where} delta.{key}")
    if delta.get("function_call") is not None:
        _legacy(choice, an_object(delta["function_call"], f"{where} function_call"), where)
    if delta.get("tool_calls") is not None:
        calls = a_list(delta["tool_calls"], f"{where} tool_calls")
        require(calls, where, "tool_calls is empty")
        for call in calls:
            _streamed_call(choice, an_object(call, f"{where} tool_calls"), where)


def _legacy(choice: _Choice, call: Json, where: str) -> None:
    if choice.function:
        require("name" not in call, where, "a second name of the function call")
    else:
        a_text(call.get("name"), f"{where} function_call.name", empty=False)
    a_text(call.get("arguments", ""), f"{where} function_call.arguments")
    choice.function = True


def _streamed_call(choice: _Choice, call: Json, where: str) -> None:
    index = a_count(call.get("index"), f"{where} tool_calls index")
    where = f"{where} call {index}"
    require(index <= len(choice.calls), where, f"call {len(choice.calls)} must come before")
    function = an_object(call.get("function", {}), f"{where} function")
    if index == len(choice.calls):
        call_id = a_text(call.get("id"), f"{where} id", empty=False)
        require(call_id not in choice.calls, where, f"two calls have the same id: {call_id}")
        choice.calls.append(call_id)
        require(call.get("type") == "function", where, "its first delta must have the type function")
        a_text(function.get("name"), f"{where} name", empty=False)
    else:
        for key in ("id", "type"):
            require(key not in call, where, f"a second {key}")
        require("name" not in function, where, "a second name")
    a_text(function.get("arguments", ""), f"{where} arguments")


def _frame(body: Json, kind: str, where: str) -> None:
    a_text(body["id"], f"{where} id", empty=False)
    a_text(body["model"], f"{where} model", empty=False)
    a_count(body["created"], f"{where} created")
    require(body["object"] == kind, where, f"object must be {kind}")


def _logprobs(value: object, where: str) -> None:
    if value is None:
        return
    for key in ("content", "refusal"):
        for token in an_object(value, f"{where} logprobs").get(key) or ():
            needs(token, ("token", "bytes", "logprob", "top_logprobs"), f"{where} logprobs.{key}")
            for other in a_list(token["top_logprobs"], f"{where} top_logprobs"):
                needs(other, ("token", "bytes", "logprob"), f"{where} top_logprobs")


def _usage(value: object, where: str) -> None:
    usage = an_object(value, where)
    needs(usage, _USAGE, where)
    prompt, completion, total = (a_count(usage[key], f"{where}.{key}") for key in _USAGE)
    require(total == prompt + completion, where, "total_tokens is not the sum")
    for key, whole in _DETAILS:
        for name, count in an_object(usage.get(key) or {}, f"{where}.{key}").items():
            if count is not None:  # the counts of what is included in the whole
                require(a_count(count, f"{where}.{name}") <= usage[whole], where, f"{name} is above {whole}")


def check_error(body: Any, where: str = "the body") -> None:  # Any: JSON as it was found
    """Check an error object, which a refused request and a broken stream have in common."""
    error = an_object(an_object(body, where).get("error"), f"{where} error")
    needs(error, ("message", "type", "param", "code"), f"{where} error")
    a_text(error["message"], f"{where} error.message", empty=False)
    a_text(error["type"], f"{where} error.type", empty=False)


def check_chat(body: bytes, *, n: int = 1) -> None:
    """Check a whole chat completion of ``n`` choices."""
    where = "the body"
    reply = an_object(load(body, where), where)
    needs(reply, (*_SAME, "choices"), where)
    _frame(reply, "chat.completion", where)
    choices = a_list(reply["choices"], "choices")
    indexes = [an_object(choice, "choices").get("index") for choice in choices]
    require(indexes == list(range(n)), "choices", f"{n} were asked for, in order; found {indexes}")
    for index, choice in enumerate(choices):
        _whole_choice(choice, f"choices[{index}]")
    if reply.get("usage") is not None:
        _usage(reply["usage"], "usage")


def _whole_choice(choice: Json, where: str) -> None:
    needs(choice, ("index", "message", "finish_reason", "logprobs"), where)
    message = an_object(choice["message"], f"{where}.message")
    needs(message, ("role", "content", "refusal"), f"{where}.message")
    require(message["role"] == "assistant", where, "the role must be assistant")
    for key in ("content", "refusal", "reasoning_content"):
        if message.get(key) is not None:
            a_text(message[key], f"{where}.message.{key}")
    calls = a_list(message.get("tool_calls", [None]), f"{where}.tool_calls")
    require(calls, where, "tool_calls is empty")
    found = [_whole_call(call, f"{where}.tool_calls") for call in calls if call is not None]
    require(len(set(found)) == len(found), where, f"two calls have the same id: {found}")
    function = message.get("function_call") is not None
    _logprobs(choice["logprobs"], where)
    _finish(choice["finish_reason"], len(found), function, where)


def _whole_call(value: object, where: str) -> str:
    call = an_object(value, where)
    require(call.get("type") == "function", where, "its type must be function")
    require("index" not in call, where, "an index, which only streams have")
    function = an_object(call.get("function"), f"{where}.function")
    a_text(function.get("name"), f"{where}.function.name", empty=False)
    a_text(function.get("arguments"), f"{where}.function.arguments")
    return a_text(call.get("id"), f"{where}.id", empty=False)
