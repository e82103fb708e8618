"""An answer that goes on in the background counts as what it may come to, since nobody tells that."""

from __future__ import annotations

import gzip
import json
from typing import Any, Final

import pytest

from mgw.clients.limits import Taken
from mgw.exchange.untold import MAX_PENDING
from tests.memory.exchange.test_untold import CHUNKED, KEY, SSE, Asked, Thread, chunked
from tests.support.chat_streams import sse
from tests.support.configs import THREE_FAMILIES

PATH: Final = "/v1/responses"
MAY_COME_TO: Final = 500
LIMITED: Final = THREE_FAMILIES + KEY.format(
    more=f"reserve_output_tokens: {MAY_COME_TO}", limits="tokens_per_minute: 100000"
)
IN: Final = 24
TEXT: Final = "Some words of an answer. " * 4
USAGE: Final = {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
Json = dict[str, Any]  # Any: JSON


def request(**more: Any) -> bytes:  # Any: JSON
    return json.dumps({"model": "fast", "input": "Tell me of a fox and a dog.", **more}).encode()


def response(status: str = "queued", **more: Any) -> Json:  # Any: JSON
    return {"id": "resp_1", "object": "response", "status": status, "output": [], "usage": None, **more}


def event(kind: str, **more: Any) -> bytes:  # Any: JSON
    return sse({"type": kind, **more})


def whole(body: bytes, answer: Json, text: str = LIMITED, **more: Any) -> Asked:  # Any: what it is asked with
    return Asked(text, body, PATH, **more).answer(json.dumps(answer).encode(), b"application/json")


@pytest.mark.parametrize("status", ["queued", "in_progress"])
@pytest.mark.parametrize(
    ("stated", "tokens"),
    [({}, MAY_COME_TO), ({"max_output_tokens": 90}, 90), ({"max_output_tokens": 90_000}, MAY_COME_TO)],
    ids=["nothing", "less", "more"],
)
def test_an_accepted_response_counts_what_it_may_come_to(status: str, stated: Json, tokens: int) -> None:
    asked = whole(request(background=True, **stated), response(status, background=True))
    assert asked.estimated == (pytest.approx(IN, abs=11), tokens)
    assert (asked.event.tokens_in, asked.event.tokens_out) == (None, None)
    assert asked.counts.taken == [Taken(1, sum(found or 0 for found in asked.estimated))]


@pytest.mark.parametrize("is_asked", [True, False], ids=["the request", "the answer"])
def test_either_side_says_that_it_goes_on(is_asked: bool) -> None:
    asked = whole(request(background=is_asked), response(background=not is_asked))
    assert asked.estimated[1] == MAY_COME_TO


def test_a_compressed_request_says_it_as_well() -> None:
    body = gzip.compress(request(background=True, max_output_tokens=90))
    asked = whole(body, response(), headers=[(b"Content-Encoding", b"gzip")])
    assert asked.estimated[1] == 90


@pytest.mark.parametrize(
    "answer",
    [response("completed", usage=USAGE, background=True), response("completed", usage=USAGE)],
    ids=["in the background", "at once"],
)
def test_what_is_told_counts(answer: Json) -> None:
    asked = whole(request(background=True), answer)
    assert asked.estimated == (None, None)
    assert asked.counts.taken == [Taken(1, 12)]


def test_an_answer_that_is_whole_counts_its_text() -> None:
    part = {"type": "output_text", "text": TEXT, "annotations": []}
    item = {"type": "message", "role": "assistant", "content": [part]}
    asked = whole(request(background=True), response("completed", output=[item], background=True))
    assert asked.estimated[1] == pytest.approx(20, abs=6)


def test_an_answer_that_has_failed_counts_no_output() -> None:
    error = {"code": "server_error", "message": "no"}
    asked = whole(request(background=True), response("failed", error=error, background=True))
    assert asked.estimated[1] == 0


@pytest.mark.parametrize("body", [request(), request(background=False), request(background="true")])
def test_other_answers_count_their_text(body: bytes) -> None:
    asked = whole(body, response(background=False))
    assert asked.estimated[1] < 20


def test_a_request_that_the_provider_refuses_counts_nothing() -> None:
    asked = Asked(LIMITED, request(background=True), PATH)
    asked.answer(b'{"error":{"message":"no"}}', b"application/json", b"400 Bad Request")
    assert asked.estimated == (None, None)


CREATED: Final = event("response.created", response=response(background=True)) + event(
    "response.queued", response=response(background=True)
)
DELTA: Final = event("response.output_text.delta", output_index=0, content_index=0, delta=TEXT)


@pytest.mark.parametrize("body", [request(background=True, stream=True), request(stream=True)])
@pytest.mark.parametrize("sent", [CREATED, CREATED + DELTA], ids=["queued", "begun"])
@pytest.mark.parametrize("is_left", [True, False], ids=["left", "cut"])
def test_a_stream_that_breaks_off_counts_what_it_may_come_to(
    body: bytes,
    sent: bytes,
    is_left: bool,
) -> None:
    asked = Asked(LIMITED, body, PATH)
    asked.pipeline.connection.send(CHUNKED + chunked(sent))
    if is_left:
        asked.done.cancel()
    else:
        asked.pipeline.connection.reset()
    assert asked.estimated == (pytest.approx(IN, abs=11), MAY_COME_TO)


def test_a_stream_that_reaches_its_end_is_told() -> None:
    end = event("response.completed", response=response("completed", usage=USAGE, background=True))
    asked = Asked(LIMITED, request(background=True, stream=True), PATH).answer(CREATED + DELTA + end, SSE)
    assert asked.estimated == (None, None)
    assert asked.counts.taken == [Taken(1, 12)]


def test_a_stream_that_ends_untold_counts_its_text() -> None:
    end = event("response.completed", response=response("completed", background=True))
    asked = Asked(LIMITED, request(background=True, stream=True), PATH).answer(CREATED + DELTA + end, SSE)
    assert asked.estimated[1] == pytest.approx(20, abs=6)


def test_where_too_many_estimates_wait_the_usual_counts() -> None:
    thread = Thread(is_waiting=True)
    asked = Asked(LIMITED, request(background=True, max_output_tokens=90), PATH, thread=thread)
    assert asked.pipeline.estimates is not None
    asked.pipeline.estimates.pending = MAX_PENDING
    asked.answer(json.dumps(response()).encode(), b"application/json")
    assert asked.estimated[1] == MAY_COME_TO


def test_nothing_is_counted_where_estimates_are_off() -> None:
    text = THREE_FAMILIES + KEY.format(more="estimate_untold: false", limits="tokens_per_minute: 100")
    asked = whole(request(background=True), response(background=True), text)
    assert asked.estimated == (None, None)
