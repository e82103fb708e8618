"""How much a translation may have to build, and how long a model's name may be: so much, and one more."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from twisted.internet.defer import Deferred

from mgw.exchange import response_translation, translation
from mgw.exchange.target_resolution import MAX_MODEL_CHARS
from mgw.nouns.errors import Reason
from tests.support.pipelines import Pipeline, RecordingChannel, answered
from tests.support.translation import MESSAGE, asked, failure_of

Fill = Callable[[bytes, int, int], bytes]
BUILDS = f"at most {translation.MAX_OBJECTS} JSON objects and {translation.MAX_VALUES} JSON values"
ANSWER = json.dumps(MESSAGE).encode()


def with_objects(document: bytes, count: int, text: int = 0) -> bytes:
    """A document with so many objects in all, and a text that makes room for as many values."""
    objects = b",".join([b"{}"] * (count - document.count(b"{")))
    return document[:-1] + b',"y":"%b","x":[%b]}' % (b"x" * text, objects)


def with_values(document: bytes, count: int, text: int = 0) -> bytes:
    """A document with so many values in all: as many as it has braces, brackets and commas that open one."""
    before = sum(map(document.count, (b"{", b"[", b","))) + 2  # a comma before each of the two members
    numbers = b",".join([b"0"] * (count - before))
    return document[:-1] + b',"y":"%b","x":[%b]}' % (b"x" * text, numbers)


@pytest.mark.parametrize(
    ("fill", "most"),
    [(with_objects, translation.MAX_OBJECTS), (with_values, translation.MAX_VALUES)],
    ids=["objects", "values"],
)
def test_a_translated_request_may_have_so_many(fill: Fill, most: int) -> None:
    pipeline = Pipeline()
    pipeline.ask(body=fill(asked("smart"), most, 0))
    assert pipeline.received()[0] == b"POST /v1/messages HTTP/1.1"
    _, work = Pipeline().ask(body=fill(asked("smart"), most + 1, 0))
    error = failure_of(work)
    assert (error.reason, BUILDS in error.message) == (Reason.MALFORMED, True)


@pytest.mark.parametrize(
    ("fill", "most"),
    [
        (with_objects, response_translation.MAX_OBJECTS),
        pytest.param(with_values, response_translation.MAX_VALUES, marks=pytest.mark.slow),
    ],
    ids=["objects", "values"],
)
def test_a_translated_answer_may_have_so_many(fill: Fill, most: int) -> None:
    """A long answer may have more values than a short one: one for four bytes."""
    text = 4 * most if fill is with_values else 8 * most
    client, work = answer_of(fill(ANSWER, most, text))
    assert json.loads(client.body)["choices"][0]["message"]["content"] == "hi"
    assert work.called
    _, work = answer_of(fill(ANSWER, most + 1, text))
    assert failure_of(work).reason is Reason.UPSTREAM_BROKEN


def answer_of(body: bytes) -> tuple[RecordingChannel, Deferred[None]]:
    """What becomes of a provider's answer."""
    pipeline = Pipeline()
    client, work = pipeline.ask(body=asked("smart"))
    pipeline.connection.send(answered(body))
    return client, work


def test_the_name_of_a_model_may_be_so_long() -> None:
    name = "claude/" + "x" * (MAX_MODEL_CHARS - 7)
    pipeline = Pipeline()
    pipeline.ask("/v1/messages", asked(name, max_tokens=9))
    assert name[7:].encode() in pipeline.received()[2]
    refused = Pipeline()
    _, work = refused.ask("/v1/messages", asked(name + "x", max_tokens=9))
    assert failure_of(work).reason is Reason.MALFORMED
    assert not refused.endpoint.connections
