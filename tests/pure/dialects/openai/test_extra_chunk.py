"""A chat stream is asked for its usage, and the chunk that this adds is taken out again."""

from __future__ import annotations

import json
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.dialects.openai.extra_chunk import MAX_HELD, ExtraChunk, find_usage_edits
from mgw.wire.json_spans import apply_edits
from tests.support.chat_streams import DONE, chunk, sse

USAGE: Final = {"prompt_tokens": 7, "completion_tokens": 5}
EXTRA: Final = sse({"id": "c1", "choices": [], "usage": USAGE})
WORD: Final = chunk({"content": "word"}, usage=None)
ASKED: Final = '"stream_options":{"include_usage":true}'

REQUESTS: Final = {
    "no options": ('{"stream":true}', f'{{{ASKED},"stream":true}}'),
    "with spaces": ('\n{ "stream" : true , "n":1 }', f'\n{{{ASKED}, "stream" : true , "n":1 }}'),
    "null": (
        '{"stream":true,"stream_options": null}',
        '{"stream":true,"stream_options": {"include_usage":true}}',
    ),
    "empty": (
        '{"stream_options":{},"stream":true}',
        '{"stream_options":{"include_usage":true},"stream":true}',
    ),
    "others": (
        '{"stream":true,"stream_options":{ "include_obfuscation":false}}',
        '{"stream":true,"stream_options":{"include_usage":true, "include_obfuscation":false}}',
    ),
    "false": (
        '{"stream":true,"stream_options":{"include_usage" : false }}',
        '{"stream":true,"stream_options":{"include_usage" : true }}',
    ),
    "null flag": (
        '{"stream":true,"stream_options":{"include_usage":null}}',
        '{"stream":true,"stream_options":{"include_usage":true}}',
    ),
    "two flags": (
        '{"stream":true,"stream_options":{"include_usage":true,"include_usage":false}}',
        '{"stream":true,"stream_options":{"include_usage":true,"include_usage":true}}',
    ),
    "two options": (
        '{"stream_options":{},"stream":true,"stream_options":null}',
        '{"stream_options":{"include_usage":true},"stream":true,"stream_options":{"include_usage":true}}',
    ),
    "an earlier one that does not count": (
        '{"stream_options":7,"stream":false,"stream":true,"stream_options":{}}',
        '{"stream_options":7,"stream":false,"stream":true,"stream_options":{"include_usage":true}}',
    ),
    "escapes": (
        '{"str\\u0065am":true,"stream\\u005foptions":{"include\\u005fusage":false}}',
        '{"str\\u0065am":true,"stream\\u005foptions":{"include\\u005fusage":true}}',
    ),
    "half a surrogate pair": (
        '{"stream":true,"messages":["\\ud83d"]}',
        f'{{{ASKED},"stream":true,"messages":["\\ud83d"]}}',
    ),
    "deep within": (
        '{"messages":[{"stream_options":{"include_usage":true}}],"stream":true}',
        f'{{{ASKED},"messages":[{{"stream_options":{{"include_usage":true}}}}],"stream":true}}',
    ),
}
LEFT: Final = {
    "no stream": "{}",
    "stream off": '{"stream":false}',
    "the last says no": '{"stream":true,"stream":false}',
    "no bool": '{"stream":"true"}',
    "asked": '{"stream":true,"stream_options":{"include_usage":true}}',
    "asked last": '{"stream":true,"stream_options":{},"stream_options":{"include_usage":true}}',
    "wrong options": '{"stream":true,"stream_options":"all"}',
    "wrong flag": '{"stream":true,"stream_options":{"include_usage":"yes"}}',
    "an array": "[1]",
    "no JSON": "{",
    "nothing": "",
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("case", REQUESTS)
def test_a_request_for_a_stream_asks_for_usage_and_is_the_same_otherwise(case: str) -> None:
    before, after = REQUESTS[case]
    assert apply_edits(before.encode(), find_usage_edits(before.encode())).decode() == after


@pytest.mark.parametrize("case", LEFT)
def test_what_asks_already_or_is_not_for_a_stream_stays_as_it_is(case: str) -> None:
    assert find_usage_edits(LEFT[case].encode()) == []


@given(
    st.dictionaries(st.sampled_from(["model", "n", "stream_options", "user"]), st.booleans() | st.none()),
    st.sampled_from([None, {}, {"include_usage": False}, {"x": [1, {"include_usage": 2}]}]),
    st.integers(0, 3),
)
def test_the_provider_reads_the_same_request_with_usage_asked(
    fields: dict[str, object], options: dict[str, object] | None, indent: int
) -> None:
    body = json.dumps({**fields, "stream": True, "stream_options": options}, indent=indent or None).encode()
    read = json.loads(apply_edits(body, find_usage_edits(body)))
    assert read == {**fields, "stream": True, "stream_options": {**(options or {}), "include_usage": True}}


def through(*pieces: bytes) -> bytes:
    cut = ExtraChunk()
    return b"".join([cut.feed(piece) for piece in pieces]) + cut.finish()


KEPT: Final = {
    "usage with choices": chunk({}, "stop", usage=USAGE),
    "no usage": sse({"choices": [], "prompt_filter_results": []}),
    "usage null": sse({"choices": [], "usage": None}),
    "an error": sse({"choices": [], "usage": USAGE, "error": {"message": "no"}}),
    "no choices at all": sse({"usage": USAGE}),
    "done": DONE,
    "a comment": b": keep-alive\n\n",
    "no JSON": b'data: "choices":[] "usage"\n\n',
    "only quoted": chunk({"content": '{"choices":[],"usage":{}}'}),
    "an event that is too long": sse({"choices": [], "usage": USAGE, "x": "y" * MAX_HELD}),
}


@pytest.mark.parametrize("case", KEPT)
def test_other_events_pass_as_they_come(case: str) -> None:
    stream = WORD + KEPT[case] + DONE
    assert through(stream) == stream
    assert through(*(stream[at : at + 1] for at in range(len(stream)))) == stream


TAKEN: Final = {
    "lf": (EXTRA, b""),
    "crlf": (EXTRA.replace(b"\n", b"\r\n"), b""),
    "cr": (EXTRA.replace(b"\n", b"\r"), b""),
    "mixed": (EXTRA[:-2] + b"\n\r\n", b""),
    "spelled with spaces": (b'data:{"usage":{},"choices" : [ ]}\n\n', b""),
    "in two lines": (b'data: {"choices":[],\ndata: "usage":{}}\n\n', b""),
    "with other fields": (b"event: message\nid: 7\n" + EXTRA, b""),
    "behind a comment": (b": ping\n" + EXTRA, b": ping\n\n"),
    "behind blank lines": (b"\n" + EXTRA, b"\n"),
    "crlf behind a blank line": (b"\n" + EXTRA.replace(b"\n", b"\r\n"), b"\n"),
}


@pytest.mark.parametrize("case", TAKEN)
def test_the_chunk_with_the_usage_is_taken_out_and_comments_stay(case: str) -> None:
    taken, left = TAKEN[case]
    stream, expected = WORD + taken + DONE, WORD + left + DONE
    assert through(stream) == expected
    assert through(*(stream[at : at + 1] for at in range(len(stream)))) == expected


def test_a_last_chunk_without_its_blank_line_is_taken_out() -> None:
    assert through(WORD + EXTRA[:-2]) == WORD
    assert through(WORD + WORD[:-9]) == WORD + WORD[:-9]
    assert through(WORD + EXTRA[:-9]) == WORD


def test_what_has_nothing_to_look_at_is_the_same_object() -> None:
    cut = ExtraChunk()
    assert cut.feed(WORD) is WORD
    assert not cut.is_open


@pytest.mark.parametrize("rest", [b"\n", b"\r\n", b"\r"])
def test_the_rest_of_an_end_does_not_wait_for_the_next_event(rest: bytes) -> None:
    remover = ExtraChunk()
    event = WORD.replace(b"\n", b"\r\n").removesuffix(b"\n")
    assert remover.feed(event) == event
    assert remover.feed(rest) == rest
    assert not remover.is_open
    assert remover.feed(EXTRA) == b""


def test_a_long_event_is_not_held() -> None:
    cut = ExtraChunk()
    long = b'data: {"choices":[],"usage":{},"x":"' + b"y" * MAX_HELD
    assert cut.feed(long) == long
    assert cut.is_open
    assert cut.feed(b'"}\n') + cut.feed(b"\n" + EXTRA) == b'"}\n\n'


@pytest.mark.parametrize(("size", "passes"), [(MAX_HELD, False), (MAX_HELD + 1, True)])
def test_an_event_of_exactly_so_many_bytes_may_be_the_extra_chunk(size: int, *, passes: bool) -> None:
    empty = sse({"choices": [], "usage": USAGE, "x": ""})
    event = sse({"choices": [], "usage": USAGE, "x": "y" * (size - len(empty))})
    assert len(event) == size
    assert through(WORD + event + DONE) == WORD + (event if passes else b"") + DONE


_PIECES: Final = st.sampled_from(
    [
        *(WORD, EXTRA, DONE, EXTRA[:20], EXTRA[20:], EXTRA[:-1], b"\n", b"\r", b"\r\n", b"\n\n", b": c"),
        *(b"data: ", b'{"choices":[],"usage":{}}', b"x", b"", EXTRA.replace(b"\n", b"\r\n")),
        *(EXTRA.replace(b"\n", b"\r"), b"data: " + b"z" * MAX_HELD),
    ]
)


@given(st.lists(_PIECES, max_size=12))
def test_any_cut_gives_the_same_stream(pieces: list[bytes]) -> None:
    assert through(*pieces) == through(b"".join(pieces))


_EVENTS: Final = [WORD, DONE, *KEPT.values(), *(taken for name, (taken, _) in TAKEN.items() if name != "cr")]
"""A LF at the begin of an event would belong to the CR before it."""


@given(st.lists(st.sampled_from(_EVENTS)))
def test_only_events_with_the_usage_are_missing(events: list[bytes]) -> None:
    left = dict(TAKEN.values())
    assert through(*events) == b"".join([left.get(event, event) for event in events])
