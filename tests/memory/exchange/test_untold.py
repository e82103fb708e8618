"""Tokens that nobody tells are estimated where a limit needs them, and nothing else changes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred

from mgw.clients.limits import Taken
from mgw.clients.local_counts import LocalCounts
from mgw.exchange.answer_copy import MAX_WHOLE_BYTES, AnswerCopy
from mgw.exchange.untold import MAX_OBJECTS, MAX_PENDING, MAX_PENDING_BYTES, MAX_VALUES, Estimates
from mgw.nouns.vocabulary import DialectName
from mgw.tokens.text import estimate_text_tokens
from mgw.usage.event import UsageEvent
from mgw.wire.json_document import has_more_values
from tests.support.chat_streams import DONE, chunk, sse
from tests.support.configs import THREE_FAMILIES
from tests.support.laws import examples
from tests.support.pipelines import Pipeline, RecordingChannel, answered

KEY = """
edge_auth:
  enabled: true
  {more}
  keys: [{{name: alice, key: sk-alice-00000000000000000000, {limits}}}]
"""
TOKENS = THREE_FAMILIES + KEY.format(more="", limits="tokens_per_minute: 100")
SSE = b"text/event-stream"
TEXT = "The quick brown fox jumps over the lazy dog. " * 20
OUT = round(estimate_text_tokens([TEXT]))
ASKED = "Tell me of a fox and a dog."
STREAM = b'{"model":"fast","stream":true,"max_tokens":900,"messages":[{"role":"user","content":"FOX"}]}'
STREAM = STREAM.replace(b"FOX", ASKED.encode())
IN = 15
WORDS = b"".join(chunk({"content": TEXT[at : at + 9]}) for at in range(0, len(TEXT), 9))
UNTOLD = chunk({"role": "assistant", "content": ""}) + WORDS + chunk({}, "stop") + DONE
USAGE = sse({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}})
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@dataclass
class Thread:
    """A thread whose work is done when the test says so."""

    is_waiting: bool = False
    waiting: list[Callable[[], None]] = field(default_factory=list)
    stopped: bool = False

    # Any: whatever the work returns
    def run(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        self.waiting.append(lambda: then(work()))
        if not self.is_waiting:
            self.go_on()

    def go_on(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()

    def stop(self) -> None:
        self.stopped = True


class Asked:
    """One request of a client with limits, and what it took."""

    def __init__(
        self,
        text: str = TOKENS,
        body: bytes = STREAM,
        path: str = "/v1/chat/completions",
        headers: list[tuple[bytes, bytes]] | None = None,
        thread: Thread | None = None,
    ) -> None:
        self.thread = thread or Thread()
        self.counts = RecordingCounts(lambda: 0.0)
        self.pipeline = Pipeline(text, estimates=Estimates(self.thread), counts=self.counts)
        self.channel: RecordingChannel
        self.done: Deferred[None]
        self.channel, self.done = self.pipeline.ask(path, body, headers)
        _ = self.done.addErrback(lambda _: None)

    def answer(self, data: bytes, content_type: bytes = SSE, status: bytes = b"200 OK") -> Asked:
        self.pipeline.connection.send(answered(data, status, content_type))
        return self

    @property
    def event(self) -> UsageEvent:
        return self.pipeline.event()

    @property
    def estimated(self) -> Any:  # Any: a pair, compared with what is about a number
        return self.event.tokens_in_estimated, self.event.tokens_out_estimated


class RecordingCounts(LocalCounts):
    """Counts that remember what was taken."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self.taken: list[Taken] = []
        self.added: list[Taken] = []

    def end(self, permit: Any, taken: Taken) -> tuple[str, ...]:  # Any: as the counts have it
        self.taken.append(taken)
        return super().end(permit, taken)

    def add(self, limits: Any, taken: Taken) -> None:  # Any: as above
        self.added.append(taken)


def test_a_stream_without_usage_counts_what_it_is_estimated_at() -> None:
    asked = Asked().answer(UNTOLD)
    assert asked.channel.body == UNTOLD
    assert (asked.event.tokens_in, asked.event.tokens_out) == (None, None)
    assert asked.estimated == (pytest.approx(IN, abs=3), pytest.approx(OUT, abs=3))
    assert asked.counts.taken == [Taken(1, sum(found or 0 for found in asked.estimated))]


def test_what_is_told_is_not_estimated() -> None:
    asked = Asked().answer(UNTOLD.replace(DONE, USAGE + DONE))
    assert asked.thread.waiting == []
    assert asked.estimated == (None, None)
    assert asked.counts.taken == [Taken(1, 12)]


@pytest.mark.parametrize(
    "text",
    [
        THREE_FAMILIES,
        THREE_FAMILIES + KEY.format(more="", limits="requests_per_minute: 5, max_in_flight: 2"),
        THREE_FAMILIES + KEY.format(more="estimate_untold: false", limits="tokens_per_minute: 100"),
    ],
    ids=["no key", "no limit on tokens", "off"],
)
def test_nothing_is_estimated_where_no_limit_needs_it(text: str) -> None:
    asked = Asked(text).answer(UNTOLD)
    assert asked.channel.body == UNTOLD
    assert asked.estimated == (None, None)
    assert all(taken.tokens == 0 for taken in asked.counts.taken)


def test_the_event_waits_for_the_estimate_and_the_client_does_not() -> None:
    thread = Thread(is_waiting=True)
    asked = Asked(thread=thread).answer(UNTOLD)
    assert asked.channel.finished
    assert asked.done.called
    assert (asked.pipeline.events, asked.counts.taken) == ([], [])
    thread.go_on()
    assert asked.event.tokens_out_estimated is not None
    assert len(asked.counts.taken) == 1


def test_a_request_is_in_flight_no_longer_when_the_client_has_everything() -> None:
    thread = Thread(is_waiting=True)
    text = THREE_FAMILIES + KEY.format(more="", limits="tokens_per_minute: 100, max_in_flight: 1")
    asked = Asked(text, thread=thread).answer(UNTOLD)
    assert asked.counts.taken == [Taken(1)]
    assert asked.counts.in_flight("alice") == 0
    thread.go_on()
    assert asked.counts.added == [Taken(0, sum(found or 0 for found in asked.estimated))]


def test_one_direction_alone_is_estimated_where_the_other_is_told() -> None:
    usage = sse({"choices": [], "usage": {"prompt_tokens": 7}})
    asked = Asked().answer(UNTOLD.replace(DONE, usage + DONE))
    assert asked.event.tokens_in == 7
    assert asked.estimated == (None, pytest.approx(OUT, abs=3))


@pytest.mark.parametrize("status", [b"400 Bad Request", b"429 Too Many", b"500 Oops"])
def test_a_refusal_counts_nothing(status: bytes) -> None:
    asked = Asked().answer(b'{"error":{"message":"no"}}', b"application/json", status)
    assert asked.estimated == (None, None)
    assert asked.counts.taken == [Taken(1)]


def test_a_request_without_an_answer_counts_nothing() -> None:
    asked = Asked()
    asked.done.cancel()
    assert asked.event.status == "client_abort"
    assert asked.estimated == (None, None)


def test_a_request_that_breaks_off_counts_what_was_handed_on() -> None:
    asked = Asked()
    asked.pipeline.connection.send(CHUNKED + chunked(WORDS[: len(WORDS) // 2]))
    asked.pipeline.connection.reset()
    assert asked.event.status == "upstream_error"
    assert asked.estimated == (pytest.approx(IN, abs=3), pytest.approx(OUT / 2, rel=0.05))


def test_a_request_that_is_left_counts_what_was_handed_on() -> None:
    asked = Asked()
    asked.pipeline.connection.send(CHUNKED + chunked(WORDS[: len(WORDS) // 2]))
    asked.done.cancel()
    assert asked.event.status == "client_abort"
    assert asked.estimated == (pytest.approx(IN, abs=3), pytest.approx(OUT / 2, rel=0.05))


def test_of_a_request_that_is_left_the_larger_of_told_and_estimated_counts() -> None:
    started = b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message",'
    started += (
        b'"role":"assistant","model":"c","content":[],"usage":{"input_tokens":900,"output_tokens":1}}}\n\n'
    )
    started += b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    started += b'"content_block":{"type":"text","text":""}}\n\n'
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT}}
    asked = Asked(body=STREAM.replace(b"fast", b"smart"), path="/v1/messages")
    asked.pipeline.connection.send(CHUNKED + chunked(started + b"event: content_block_delta\n" + sse(delta)))
    asked.done.cancel()
    assert (asked.event.tokens_in, asked.event.tokens_out) == (900, 1)
    assert asked.estimated == (None, pytest.approx(OUT, abs=3))
    assert asked.counts.taken == [Taken(1, 900 + (asked.estimated[1] or 0))]


MESSAGE = {"role": "assistant", "content": TEXT}
NINES = [TEXT[at : at + 9] for at in range(0, len(TEXT), 9)]
CONTENTS = json.dumps({"contents": [{"parts": [{"text": ASKED}]}]}).encode()
GENERATED = {"candidates": [{"content": {"parts": [{"text": TEXT}]}, "finishReason": "STOP"}]}
CALL = {"index": 0, "id": "1", "function": {"name": "f", "arguments": json.dumps(TEXT)}}
ANSWERS: dict[str, tuple[str, bytes, bytes, bytes]] = {
    "chat whole": (
        "/v1/chat/completions",
        STREAM.replace(b"true", b"false"),
        json.dumps({"choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}]}).encode(),
        b"application/json",
    ),
    "reasoning": (
        "/v1/chat/completions",
        STREAM,
        chunk({"reasoning_content": TEXT}) + chunk({}, "stop") + DONE,
        SSE,
    ),
    "a call": (
        "/v1/chat/completions",
        STREAM,
        chunk(
            {
                "tool_calls": [
                    {"index": 0, "id": "1", "function": {"name": "f", "arguments": json.dumps(TEXT)}}
                ]
            }
        )
        + chunk({}, "tool_calls")
        + DONE,
        SSE,
    ),
    "completions": (
        "/v1/completions",
        b'{"model":"main/gpt-b","stream":true,"prompt":"Tell me of a fox and a dog."}',
        b"".join(
            sse({"choices": [{"text": TEXT[at : at + 9], "index": 0}]}) for at in range(0, len(TEXT), 9)
        ),
        SSE,
    ),
    "messages": (
        "/v1/messages",
        STREAM.replace(b"fast", b"smart").replace(b"true", b"false"),
        json.dumps({"type": "message", **MESSAGE, "content": [{"type": "text", "text": TEXT}]}).encode(),
        b"application/json",
    ),
    "responses": (
        "/v1/responses",
        b'{"model":"fast","stream":true,"input":"Tell me of a fox and a dog."}',
        sse({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": TEXT})
        + sse({"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": TEXT}),
        SSE,
    ),
    "generate content": (
        "/v1beta/models/gem-x:generateContent",
        CONTENTS,
        json.dumps(
            {"candidates": [{"content": {"parts": [{"text": TEXT}]}, "finishReason": "STOP"}]}
        ).encode(),
        b"application/json",
    ),
    "an array in pieces": (
        "/v1beta/models/gem-x:streamGenerateContent",
        CONTENTS,
        json.dumps(
            [{"candidates": [{"content": {"parts": [{"text": TEXT}]}, "finishReason": "STOP"}]}]
        ).encode(),
        b"application/json",
    ),
    "an odd stream": (
        "/v1/chat/completions",
        STREAM,
        b"".join(sse({"type": "word", "content": piece}) for piece in NINES),
        SSE,
    ),
    "an odd body": (
        "/v1/chat/completions",
        STREAM,
        json.dumps({"said": MESSAGE}).encode(),
        b"application/json",
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_every_dialect_is_estimated(case: str) -> None:
    path, body, answer, content_type = ANSWERS[case]
    asked = Asked(body=body, path=path).answer(answer, content_type)
    assert asked.channel.body == answer
    assert asked.estimated == (pytest.approx(IN, abs=9), pytest.approx(OUT, abs=12))


VECTORS = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5] * 99}]}
EMBEDDINGS: Any = {
    "openai": ("/v1/embeddings", {"model": "fast", "input": [TEXT, TEXT]}, VECTORS),
    "gemini": (
        "/v1beta/models/gem-x:batchEmbedContents",
        {"requests": [{"model": "models/gem-x", "content": {"parts": [{"text": TEXT}]}}] * 2},
        {"embeddings": [{"values": [0.5] * 99}] * 2},
    ),
}


@pytest.mark.parametrize("case", EMBEDDINGS)
def test_what_is_embedded_is_estimated(case: str) -> None:
    path, body, answer = EMBEDDINGS[case]
    asked = Asked(body=json.dumps(body).encode(), path=path)
    asked.answer(json.dumps(answer).encode(), b"application/json")
    assert asked.channel.status == 200
    assert asked.estimated == (pytest.approx(2 * OUT, abs=60), None)


def test_embeddings_whose_tokens_are_told_are_not_estimated() -> None:
    path, body, answer = EMBEDDINGS["openai"]
    asked = Asked(body=json.dumps(body).encode(), path=path)
    told = {**answer, "usage": {"prompt_tokens": 7, "total_tokens": 7}}
    asked.answer(json.dumps(told).encode(), b"application/json")
    assert asked.event.tokens_in == 7
    assert asked.estimated == (None, None)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_a_compressed_answer_is_read(path: str) -> None:
    name = "chat whole" if path == "/v1/chat/completions" else "messages"
    _, body, answer, _ = ANSWERS[name]
    asked = Asked(body=body, path=path, headers=[(b"Accept-Encoding", b"gzip")])
    zipped = gzip.compress(answer)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
    asked.pipeline.connection.send(head + b"Content-Length: %d\r\n\r\n%b" % (len(zipped), zipped))
    assert asked.channel.body == zipped
    assert asked.estimated[1] == pytest.approx(OUT, abs=3)


def test_a_translated_answer_is_read_as_the_client_gets_it() -> None:
    answer = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": TEXT}]}
    asked = Asked(body=STREAM.replace(b"fast", b"smart").replace(b"true", b"false"))
    asked.answer(json.dumps({**answer, "stop_reason": "end_turn"}).encode(), b"application/json")
    assert asked.channel.status == 200
    assert asked.estimated == (pytest.approx(IN, abs=3), pytest.approx(OUT, abs=3))


def test_a_compressed_request_is_read() -> None:
    asked = Asked(body=gzip.compress(STREAM), headers=[(b"Content-Encoding", b"gzip")]).answer(UNTOLD)
    assert asked.estimated[0] == pytest.approx(IN, abs=3)


def test_an_answer_that_says_nothing_counts_nothing() -> None:
    asked = Asked().answer(chunk({}, "stop", about={"text": TEXT}) + DONE)
    assert asked.estimated == (pytest.approx(IN, abs=3), 0)


def test_an_attempt_that_nobody_gets_counts_nothing() -> None:
    asked = Asked(f"{TOKENS}\nretries: {{attempts: 2, statuses: [500]}}\n")
    asked.pipeline.connection.send(CHUNKED + chunked(sse({"error": {"message": "overloaded", "code": 500}})))
    asked.pipeline.clock.advance(30)
    asked.done.cancel()
    assert asked.event.attempts == 2
    assert asked.estimated == (None, None)


def test_a_long_compressed_stream_is_read_as_far_as_it_does_not_swell() -> None:
    copy = AnswerCopy(DialectName.OPENAI_CHAT, "seed", in_pieces=False)
    copy.begin(SSE, b"gzip")
    zipped = gzip.compress(UNTOLD)
    for at in range(0, len(zipped), 100):
        copy.add(zipped[at : at + 100])
    assert copy.estimate(1.0) == pytest.approx(OUT, abs=3)
    copy = AnswerCopy(DialectName.OPENAI_CHAT, "seed", in_pieces=False)
    copy.begin(SSE, b"gzip")
    bomb = gzip.compress(b":" * 5 * 2**20)
    copy.add(bomb)
    assert copy.estimate(1.0) == len(bomb) // 4


def test_an_unknown_coding_counts_by_its_length() -> None:
    copy = AnswerCopy(DialectName.OPENAI_CHAT, "seed", in_pieces=False)
    copy.begin(b"application/json", b"br")
    copy.add(b"x" * 4000)
    assert copy.estimate(1.0) == 1000


def test_a_request_that_cannot_be_read_is_estimated_as_text() -> None:
    body = b'{"model":"fast","messages":"no list","x":"' + b"A" * 5000 + b'"}'
    asked = Asked(body=body).answer(UNTOLD)
    assert 1010 < (asked.estimated[0] or 0) < 1040


def test_a_long_answer_is_read_as_it_comes() -> None:
    asked = Asked()
    asked.pipeline.connection.send(CHUNKED)
    for _ in range(100):
        asked.pipeline.connection.send(chunked(WORDS))
    asked.pipeline.connection.send(chunked(chunk({}, "stop") + DONE) + b"0\r\n\r\n")
    assert asked.channel.body == WORDS * 100 + chunk({}, "stop") + DONE
    assert asked.estimated[1] == pytest.approx(100 * OUT, rel=0.05)


def guessed(answer: bytes) -> int:
    """Return what an answer that streams is guessed to have."""
    copy = AnswerCopy(DialectName.OPENAI_CHAT, "seed", in_pieces=False)
    copy.begin(b"text/event-stream", b"")
    copy.add(answer)
    return copy.estimate_roughly()


@pytest.mark.parametrize("pending", [MAX_PENDING - 1, MAX_PENDING])
def test_where_too_many_wait_the_length_has_to_do(pending: int) -> None:
    thread = Thread(is_waiting=True)
    asked = Asked(thread=thread)
    assert asked.pipeline.estimates is not None
    asked.pipeline.estimates.pending = pending
    asked.answer(UNTOLD)
    assert len(thread.waiting) == (pending < MAX_PENDING)
    thread.go_on()
    is_rough = asked.estimated == (len(STREAM) // 4, guessed(UNTOLD))
    assert is_rough is (pending == MAX_PENDING)


@pytest.mark.parametrize(("pending", "more"), [(1, 0), (1, 1), (0, 1)])
def test_where_too_large_requests_wait_they_are_guessed_by_samples(pending: int, more: int) -> None:
    thread = Thread(is_waiting=True)
    asked = Asked(thread=thread)
    estimates = asked.pipeline.estimates
    assert estimates is not None
    estimates.pending, estimates.pending_bytes = pending, MAX_PENDING_BYTES - len(STREAM) + more
    asked.answer(UNTOLD)
    is_guessed = bool(pending and more)
    assert len(thread.waiting) == (not is_guessed)
    thread.go_on()
    assert (asked.estimated == (len(STREAM) // 4, guessed(UNTOLD))) is is_guessed
    assert (estimates.pending, estimates.pending_bytes) == (pending, MAX_PENDING_BYTES - len(STREAM) + more)


def test_an_image_is_guessed_as_one_where_too_many_wait() -> None:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'iVBO' * 500_000}"}}
    body = {"model": "fast", "stream": True, "messages": [{"role": "user", "content": [image]}]}
    asked = Asked(body=json.dumps(body).encode(), thread=Thread(is_waiting=True))
    assert asked.pipeline.estimates is not None
    asked.pipeline.estimates.pending = MAX_PENDING
    asked.answer(UNTOLD)
    assert 700 < asked.estimated[0] < 50_000  # half a million by its length


@pytest.mark.parametrize(("size", "parsed"), [(MAX_WHOLE_BYTES, True), (MAX_WHOLE_BYTES + 1, False)])
def test_a_whole_answer_of_so_many_bytes_is_parsed_and_a_longer_one_read_by_its_words(
    size: int, *, parsed: bool
) -> None:
    fields = {"choices": [{"index": 0, "message": {**MESSAGE, "odd": {"text": "word " * 999}}}], "x": ""}
    body = json.dumps(fields).encode()
    body = body[:-2] + b"y" * (size - len(body)) + body[-2:]
    copy = AnswerCopy(DialectName.OPENAI_CHAT, "seed", in_pieces=False)
    copy.begin(b"application/json", b"")
    for at in range(0, size, 10**6):
        copy.add(body[at : at + 10**6])
    assert copy.estimate(1.0) == pytest.approx(OUT if parsed else OUT + 999, abs=30)


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize(("most", "item"), [(MAX_OBJECTS, "{}"), (MAX_VALUES, "0")])
def test_a_request_with_so_many_values_is_read_as_one(most: int, item: str, more: int) -> None:
    spare = 6 if item == "0" else 3  # the values around them
    items = ",".join([item] * (most - spare + more))
    body = f'{{"messages":[{{"role":"user","content":"hi"}}],"x":[{items}]}}'.encode()
    asked = Asked(body=body.replace(b'{"mess', b'{"model":"fast","mess')).answer(UNTOLD)
    is_text = asked.estimated[0] > 1000
    assert (
        has_more_values(body.replace(b'{"mess', b'{"model":"fast","mess'), MAX_OBJECTS, MAX_VALUES) is is_text
    )


def test_a_stop_waits_for_the_estimates() -> None:
    thread = Thread(is_waiting=True)
    asked = Asked(thread=thread).answer(UNTOLD)
    assert asked.pipeline.estimates is not None
    stopped = Deferred.fromCoroutine(asked.pipeline.estimates.stop())
    assert not stopped.called
    thread.go_on()
    assert stopped.called
    assert thread.stopped
    assert asked.event.tokens_out_estimated


PIECES = [WORDS[:300], WORDS[300:650], UNTOLD, DONE, b": c\n\n", USAGE, b"x"]


@examples(60)
@given(
    st.lists(
        st.sampled_from([WORDS[:300], WORDS[300:650], UNTOLD, DONE, b": c\n\n", USAGE, b"x"]), max_size=9
    )
)
def test_bytes_are_the_same_with_an_estimate_and_without(pieces: list[bytes]) -> None:
    bodies = []
    for text in (TOKENS, THREE_FAMILIES):
        asked = Asked(text)
        asked.pipeline.connection.send(CHUNKED)
        for piece in pieces:
            asked.pipeline.connection.send(chunked(piece))
        asked.pipeline.connection.send(b"0\r\n\r\n")
        bodies.append((asked.pipeline.received(), asked.channel.headers, asked.channel.body))
    assert bodies[0] == bodies[1]
