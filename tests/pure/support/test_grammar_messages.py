"""Messages: the checker takes what the vendor's reference shows, and refuses it with one rule broken."""

from __future__ import annotations

import pytest

from tests.support.grammar import check_message, check_messages_stream
from tests.support.grammar.mutation import mutated, named


def event(kind: str, more: str = "") -> str:
    return f'event: {kind}\ndata: {{"type":"{kind}"{more}}}\n\n'


def block(index: int, start: str, *deltas: str) -> str:
    told = [event("content_block_start", f',"index":{index},"content_block":{start}')]
    told += [event("content_block_delta", f',"index":{index},"delta":{delta}') for delta in deltas]
    return "".join(told) + event("content_block_stop", f',"index":{index}')


START = event(
    "message_start",
    ',"message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],'
    '"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}',
)
THOUGHT = block(
    0,
    '{"type":"thinking","thinking":"","signature":""}',
    '{"type":"thinking_delta","thinking":"Hm."}',
    '{"type":"signature_delta","signature":"c2ln"}',
)
HIDDEN = block(1, '{"type":"redacted_thinking","data":"aGlkZGVu"}')
SAID = block(2, '{"type":"text","text":""}', '{"type":"text_delta","text":"Hi"}')
CALLED = block(
    3,
    '{"type":"tool_use","id":"toolu_1","name":"f","input":{}}',
    '{"type":"input_json_delta","partial_json":""}',
    '{"type":"input_json_delta","partial_json":"{\\"a\\":"}',
    '{"type":"input_json_delta","partial_json":"1}"}',
)
CALLED_AGAIN = block(4, '{"type":"tool_use","id":"toolu_2","name":"f","input":{}}')
STOP = event(
    "message_delta",
    ',"delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9,'
    '"output_tokens_details":{"thinking_tokens":2}}',
)
END = event("message_stop")
PING = event("ping")
MESSAGE_ERROR = event("error", ',"error":{"type":"overloaded_error","message":"Overloaded"}')
MESSAGES = START + PING + THOUGHT + HIDDEN + SAID + CALLED + CALLED_AGAIN + STOP + END
PLAIN = START + SAID.replace('"index":2', '"index":0') + STOP.replace('"tool_use"', '"end_turn"') + END


def test_a_stream_of_a_message_as_the_reference_shows_it_is_taken() -> None:
    check_messages_stream(MESSAGES.encode())
    check_messages_stream(PLAIN.encode())
    check_messages_stream((PING + PLAIN).encode())
    check_messages_stream((START + STOP.replace('"tool_use"', '"end_turn"') + END).encode())


def test_a_call_may_be_cut_where_the_stop_says_so() -> None:
    cut = (
        MESSAGES.replace('"1}"', '"1"')
        .replace(CALLED_AGAIN, "")
        .replace('"tool_use","stop', '"max_tokens","stop')
    )
    check_messages_stream(cut.encode())


def test_a_stop_sequence_is_named() -> None:
    stopped = PLAIN.replace('"end_turn","stop_sequence":null', '"stop_sequence","stop_sequence":"END"')
    check_messages_stream(stopped.encode())
    with pytest.raises(AssertionError, match="stop_sequence: must be some text"):
        check_messages_stream(PLAIN.replace('"end_turn"', '"stop_sequence"').encode())
    with pytest.raises(AssertionError, match="did not stop it"):
        check_messages_stream(PLAIN.replace('"stop_sequence":null},"us', '"stop_sequence":"E"},"us').encode())


def test_a_stream_of_a_message_that_shows_its_break_is_taken_as_broken() -> None:
    check_messages_stream((START + MESSAGE_ERROR).encode(), broken=True)
    opened = SAID.replace('"index":2', '"index":0').replace(event("content_block_stop", ',"index":0'), "")
    check_messages_stream((START + opened + MESSAGE_ERROR).encode(), broken=True)
    check_messages_stream(MESSAGE_ERROR.encode(), broken=True)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (PLAIN, "no error shown"),
        (START, "no error shown"),
        (START + MESSAGE_ERROR + PING, "ping after the error"),
        (START + MESSAGE_ERROR.replace("Overloaded", ""), "message: must be some text"),
        (START + MESSAGE_ERROR.replace('"overloaded_error"', "null"), "error.type: must be some text"),
        (PLAIN + MESSAGE_ERROR, "error after message_stop"),
    ],
)
def test_a_broken_stream_of_a_message_must_end_with_its_error(data: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_messages_stream(data.encode(), broken=True)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    named(
        [
            ("event: ping\n", "event: pong\n", "event pong with data of ping"),
            ("event: ping\n", "", "must be one event and one data line"),
            (PING, ": still here\n\n", "a comment"),
            (PING, event("future"), "an event that nobody knows"),
            (START, "", "a block before message_start"),
            (START, START + START, "a second message_start"),
            ('"content":[]', '"content":[{"type":"text","text":"x"}]', "content must be empty"),
            ('"stop_reason":null', '"stop_reason":"end_turn"', "stop_reason must be null"),
            ('"role":"assistant"', '"role":"model"', "role must be assistant"),
            ('"type":"message",', '"type":"x",', "type must be message"),
            ('"usage":{"input_tokens":9,', '"usage":{', "input_tokens is missing"),
            ('"input_tokens":9', '"input_tokens":null', "must be a whole number"),
            (event("content_block_stop", ',"index":0'), "", "the last block is still open"),
            (HIDDEN, "", "block 2 where 1 must come"),
            ('"index":2,"delta"', '"index":1,"delta"', "block 1, though 2 is open"),
            ('stop","index":2', 'stop","index":1', "block 1, though 2 is open"),
            ('"text":""}', '"text":"x"}', "must start as ''"),
            ('"input":{}}', '"input":{"a":1}}', "must start as {}"),
            ('"signature":""', '"signature":"x"', "must start as ''"),
            ('"data":"aGlkZGVu"', '"data":""', "data: must be some text"),
            ('{"type":"text_delta","text"', '{"type":"thinking_delta","thinking"', "in a block of type text"),
            ('"text_delta"', '"delta"', "must be one of text_delta"),
            ('"text":"Hi"', '"text":""', "an empty text block"),
            (
                '{"type":"signature_delta","signature":"c2ln"}',
                '{"type":"thinking_delta","thinking":""}',
                "witho",
            ),
            ('"signature":"c2ln"', '"signature":""', "signature: must be some text"),
            ('"partial_json":"1}"', '"partial_json":"1"', "no JSON"),
            ('"partial_json":"{\\"a\\":"', '"partial_json":""', "no JSON"),
            ('"toolu_1"', '"call.1"', "an id that the reference does not allow"),
            ('"toolu_1"', '"toolu_2"', "two calls with the id"),
            ('"name":"f"', '"name":""', "name: must be some text"),
            (CALLED, CALLED + STOP, "a block after message_delta"),
            ('"stop_reason":"tool_use"', '"stop_reason":"end_turn"', "though there is a tool_use block"),
            ('"stop_reason":"tool_use"', '"stop_reason":"stop"', "must be one of end_turn"),
            ('"stop_reason":"tool_use"', '"stop_reason":null', "message_stop before a stop_reason"),
            (STOP, STOP + STOP, "a second stop_reason"),
            (STOP, "", "message_stop before a stop_reason"),
            ('"output_tokens":9,', "", "output_tokens"),
            ('"thinking_tokens":2', '"thinking_tokens":12', "thinking_tokens above"),
            (END, "", "message_stop is missing"),
            (END, END + PING, "ping after message_stop"),
            (END, MESSAGE_ERROR, "the stream broke"),
        ]
    ),
)
def test_a_stream_of_a_message_with_one_rule_broken_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_messages_stream(mutated(MESSAGES, old, new))


def test_a_delta_after_the_signature_or_outside_of_a_block_is_refused() -> None:
    late = '{"type":"thinking_delta","thinking":"!"}'
    twice = THOUGHT.replace(
        event("content_block_stop", ',"index":0'),
        event("content_block_delta", f',"index":0,"delta":{late}')
        + event("content_block_stop", ',"index":0'),
    )
    with pytest.raises(AssertionError, match="a delta after the signature"):
        check_messages_stream((START + twice).encode())
    outside = event("content_block_delta", f',"index":0,"delta":{late}')
    with pytest.raises(AssertionError, match="no block is open"):
        check_messages_stream((START + THOUGHT + outside).encode())


def test_message_delta_within_a_block_is_refused() -> None:
    opened = THOUGHT.replace(event("content_block_stop", ',"index":0'), "")
    with pytest.raises(AssertionError, match="message_delta within a block"):
        check_messages_stream((START + opened + STOP).encode())


def test_tool_use_is_no_stop_without_a_call() -> None:
    with pytest.raises(AssertionError, match="without a tool_use block"):
        check_messages_stream(PLAIN.replace('"end_turn"', '"tool_use"').encode())


WHOLE_MESSAGE = (
    '{"id":"msg_1","type":"message","role":"assistant","model":"m","content":['
    '{"type":"thinking","thinking":"Hm.","signature":"c2ln"},{"type":"redacted_thinking","data":"eA=="},'
    '{"type":"text","text":"Hi"},{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1}}],'
    '"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":3}}'
)
TOOL_USE = '{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1}}'


def test_a_whole_message_is_taken() -> None:
    check_message(WHOLE_MESSAGE.encode())


@pytest.mark.parametrize(
    ("old", "new", "says"),
    named(
        [
            ('"stop_reason":"tool_use"', '"stop_reason":"end_turn"', "though there is a tool_use block"),
            ('"stop_reason":"tool_use"', '"stop_reason":null', "must be one of end_turn"),
            ('"text":"Hi"', '"text":""', "must be some text"),
            ('"signature":"c2ln"', '"signature":""', "signature: must be some text"),
            ('"data":"eA=="', '"data":""', "data: must be some text"),
            ('"input":{"a":1}', '"input":"{}"', "input: must be an object"),
            (TOOL_USE, f"{TOOL_USE},{TOOL_USE}", "the same id"),
            ('"type":"text"', '"type":"prose"', "must be one of text"),
            ('"stop_sequence":null,', "", "stop_sequence is missing"),
            ('"input_tokens":9,', "", "input_tokens is missing"),
        ]
    ),
)
def test_a_whole_message_with_one_rule_broken_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_message(mutated(WHOLE_MESSAGE, old, new))
