"""Chat: the checker takes what the vendor's reference shows, and refuses it with one rule broken."""

from __future__ import annotations

import pytest

from tests.support.grammar import check_chat, check_chat_stream
from tests.support.grammar.mutation import mutated, named

_CHUNK = 'data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]%s}\n\n'


def chunk(delta: str, finish: str = "null", index: int = 0, more: str = "") -> str:
    return _CHUNK % (f'{{"index":{index},"delta":{delta},"logprobs":null,"finish_reason":{finish}}}', more)


TEXT = (
    chunk('{"role":"assistant","content":"","refusal":null}')
    + ": still here\n\n"
    + chunk('{"content":"Hi"}')
    + chunk("{}", '"stop"')
    + "data: [DONE]\n\n"
)
NULL = ',"usage":null'
COUNTS = (
    ',"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,'
    '"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":1}}'
)
COUNTED = (
    chunk('{"role":"assistant","content":"Hi"}', more=NULL)
    + chunk("{}", '"stop"', more=NULL)
    + _CHUNK % ("", COUNTS)
    + "data: [DONE]\n\n"
)
CALLS = (
    chunk('{"role":"assistant","content":null}')
    + chunk(
        '{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"f","arguments":""}}]}'
    )
    + chunk(
        '{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"f","arguments":""}}]}'
    )
    + chunk('{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}')
    + chunk('{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}')
    + chunk("{}", '"tool_calls"')
    + "data: [DONE]\n\n"
)
TWO = (
    chunk('{"role":"assistant","content":"a"}')
    + chunk('{"role":"assistant","content":"b"}', index=1)
    + chunk("{}", '"stop"')
    + chunk("{}", '"length"', index=1)
    + "data: [DONE]\n\n"
)
LEGACY = (
    chunk('{"role":"assistant","content":null,"function_call":{"name":"f","arguments":""}}')
    + chunk('{"function_call":{"arguments":"{}"}}')
    + chunk("{}", '"function_call"')
    + "data: [DONE]\n\n"
)
CHAT_ERROR = 'data: {"error":{"message":"It broke.","type":"server_error","param":null,"code":null}}\n\n'
CHAT_BROKEN = chunk('{"role":"assistant","content":"Hi"}') + CHAT_ERROR


def test_a_chat_stream_as_the_reference_shows_it_is_taken() -> None:
    check_chat_stream(TEXT.encode(), include_usage=False)
    check_chat_stream(COUNTED.encode(), include_usage=True)
    check_chat_stream(CALLS.encode(), include_usage=False)
    check_chat_stream(TWO.encode(), include_usage=False, n=2)
    check_chat_stream(LEGACY.encode(), include_usage=False)


def test_a_chat_stream_that_shows_its_break_is_taken_as_broken() -> None:
    check_chat_stream(CHAT_BROKEN.encode(), include_usage=False, broken=True)
    check_chat_stream(CHAT_ERROR.encode(), include_usage=True, broken=True)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    named(
        [
            ("data: [DONE]\n\n", "", "no .DONE."),
            ("data: [DONE]\n\n", "data: [DONE]\n\ndata: [DONE]\n\n", ".DONE. is not the last"),
            ("data: [DONE]\n\n", CHAT_ERROR + "data: [DONE]\n\n", "an error and .DONE."),
            ("data: {", "event: chunk\ndata: {", "an event line"),
            ("data: {", "data: 1\ndata: {", "several data lines"),
            ("data: {", "data: {{", "no JSON"),
            ('"created":1,"model":"m","choices":[{"index":0,"delta":{"content"', '"x":{"y"', "no JSON"),
            ('"role":"assistant"', '"role":"user"', "must have the role assistant"),
            ('"content":"Hi"', '"role":"assistant","content":"Hi"', "a second role"),
            ('"delta":{"content":"Hi"}', '"text":"Hi"', "delta is missing"),
            ('"content":"Hi"', '"content":["Hi"]', "must be text"),
            ('"Hi"},"logprobs":null,"finish_reason":null', '"Hi"}', "finish_reason is missing"),
            ('"stop"', "null", "no finish_reason"),
            ('"stop"', '"end_turn"', "must be one of stop"),
            ('"stop"', '"tool_calls"', "tool_calls without one"),
            ('"stop"', '"function_call"', "function_call without one"),
            ('"Hi"},"logprobs":null,"finish_reason":null', '"Hi"},"finish_reason":"stop"', "follows its fin"),
            ('"index":0', '"index":1', "1 choices were asked for"),
            ('"model":"m"', '"model":""', "model: must be some text"),
            ('"object":"chat.completion.chunk"', '"object":"chat.completion"', "object must be"),
            ('"created":1', '"created":"1"', "created: must be a whole number"),
            ('"logprobs":null', '"logprobs":{"content":[{"token":"a"}]}', "bytes is missing"),
            ("]}\n", '],"usage":null}\n', "usage, though nobody asked"),
        ]
    ),
)
def test_a_chat_stream_with_one_rule_broken_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_chat_stream(mutated(TEXT, old, new), include_usage=False)


@pytest.mark.parametrize("key", ["id", "created", "model", "object"])
def test_a_chat_stream_whose_frame_changes_is_refused(key: str) -> None:
    head, second, rest = TEXT.partition(": still here\n\n")
    changes = {"id": ('"c1"', '"c2"'), "created": ('"created":1', '"created":2'), "model": ('"m"', '"m2"')}
    old, new = changes.get(key, ("chunk", "chunks"))
    with pytest.raises(AssertionError, match=key):
        check_chat_stream((head + second + rest.replace(old, new, 1)).encode(), include_usage=False)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    named(
        [
            (NULL, "", "usage must be null before"),
            (_CHUNK % ("", COUNTS), "", "no chunk with usage"),
            (_CHUNK % ("", COUNTS), _CHUNK % ("", COUNTS) * 2, "a chunk after the one with usage"),
            ('"total_tokens":12', '"total_tokens":13', "not the sum"),
            ('"cached_tokens":4', '"cached_tokens":10', "cached_tokens is above"),
            ('"reasoning_tokens":1', '"reasoning_tokens":4', "reasoning_tokens is above"),
            ('"prompt_tokens":9,', "", "prompt_tokens is missing"),
            (COUNTS, NULL, "must be an object"),
        ]
    ),
)
def test_a_chat_stream_that_counts_wrongly_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_chat_stream(mutated(COUNTED, old, new), include_usage=True)


def test_usage_that_nobody_asked_for_or_that_comes_too_early_is_refused() -> None:
    with pytest.raises(AssertionError, match="without choices, though nobody asked"):
        check_chat_stream(COUNTED.replace(NULL, "").encode(), include_usage=False)
    early = COUNTED.replace(chunk("{}", '"stop"', more=NULL), "")
    with pytest.raises(AssertionError, match="usage before every finish"):
        check_chat_stream(early.encode(), include_usage=True)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    named(
        [
            ('"id":"call_a",', "", "must be some text"),
            ('"id":"call_b"', '"id":"call_a"', "two calls have the same id"),
            ('"type":"function",', "", "must have the type function"),
            ('"name":"f",', "", "name: must be some text"),
            ('{"index":0,"id"', '{"index":1,"id"', "call 0 must come before"),
            ('{"index":0,"function"', '{"index":2,"function"', "id: must be some text"),
            ('{"index":0,"function"', '{"index":0,"id":"call_a","function"', "a second id"),
            ('{"index":0,"function"', '{"index":0,"type":"function","function"', "a second type"),
            ('{"index":0,"function":{', '{"index":0,"function":{"name":"f",', "a second name"),
            ('"arguments":"{}"', '"arguments":{}', "arguments: must be text"),
            ('"tool_calls"}', '"stop"}', "though there are tool calls"),
            ('[{"index":0,"function":{"arguments":"{}"}}]', "[]", "tool_calls is empty"),
        ]
    ),
)
def test_a_chat_stream_with_a_wrong_tool_call_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_chat_stream(mutated(CALLS, old, new), include_usage=False)


def test_a_chat_stream_that_lacks_a_choice_is_refused() -> None:
    with pytest.raises(AssertionError, match="choice 1: no finish_reason"):
        check_chat_stream(TEXT.encode(), include_usage=False, n=2)


def test_a_legacy_function_call_is_named_once_and_ends_as_one() -> None:
    twice = mutated(LEGACY, '{"arguments":"{}"}', '{"name":"f","arguments":"{}"}')
    with pytest.raises(AssertionError, match="a second name"):
        check_chat_stream(twice, include_usage=False)
    with pytest.raises(AssertionError, match="finish_reason stop though"):
        check_chat_stream(mutated(LEGACY, '"function_call"}', '"stop"}'), include_usage=False)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (TEXT, "DONE. in a broken stream"),
        (CHAT_BROKEN.replace(CHAT_ERROR, ""), "no error shown"),
        (CHAT_BROKEN + chunk('{"content":"more"}'), "something follows the error"),
        (CHAT_BROKEN.replace('"param":null,', ""), "param is missing"),
        (CHAT_BROKEN.replace("It broke.", ""), "message: must be some text"),
    ],
)
def test_a_broken_chat_stream_must_show_its_error_last(data: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_chat_stream(data.encode(), include_usage=False, broken=True)


WHOLE_CHAT = (
    '{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":'
    '{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"call_a","type":"function",'
    '"function":{"name":"f","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"}],'
    '"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}'
)
CALL_A = '{"id":"call_a","type":"function","function":{"name":"f","arguments":"{}"}}'


def test_a_whole_chat_completion_is_taken() -> None:
    check_chat(WHOLE_CHAT.encode())
    check_chat(WHOLE_CHAT.replace("null,", '"Hi",', 1).encode())


@pytest.mark.parametrize(
    ("old", "new", "says"),
    named(
        [
            ('"object":"chat.completion"', '"object":"chat.completion.chunk"', "object must be"),
            ('"index":0', '"index":1', "in order"),
            ('"refusal":null', '"x":null', "refusal is missing"),
            ('"role":"assistant"', '"role":"user"', "the role must be assistant"),
            ('"tool_calls"}', '"stop"}', "though there are tool calls"),
            ('"logprobs":null,', "", "logprobs is missing"),
            (CALL_A, f"{CALL_A},{CALL_A}", "the same id"),
            (CALL_A, "", "tool_calls is empty"),
            ('"type":"function"', '"type":"custom"', "type must be function"),
            ('"id":"call_a"', '"index":0,"id":"call_a"', "which only streams have"),
            ('"arguments":"{}"', '"arguments":{}', "arguments: must be text"),
            ('"total_tokens":12', '"total_tokens":9', "not the sum"),
        ]
    ),
)
def test_a_whole_chat_completion_with_one_rule_broken_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_chat(mutated(WHOLE_CHAT, old, new))
