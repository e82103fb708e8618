"""What the bench of losses counts as changed, and as lost."""

from __future__ import annotations

import json

import pytest

from bench.fidelity.corpus import MODEL, answers, requests
from bench.fidelity.passing import Passed
from bench.fidelity.sides import PATHS


def test_a_body_that_arrives_as_it_was_sent_is_not_changed() -> None:
    passed = Passed()
    passed.compare(b'{"a": 1}', b'{"a": 1}')
    assert (passed.bodies, passed.changed, passed.lost) == (1, 0, set())


def test_a_body_that_says_the_same_in_other_bytes_is_changed_and_has_lost_nothing() -> None:
    passed = Passed()
    passed.compare(b'{"a": 1.0}', b'{"a":1}')
    assert (passed.bodies, passed.changed, passed.lost) == (1, 1, set())


def test_a_field_that_is_missing_is_named_with_its_path() -> None:
    passed = Passed()
    passed.compare(b'{"a": [{"b": 1, "c": 2}]}', b'{"a": [{"b": 1}]}')
    assert passed.lost == {"a[].c"}


def test_a_field_that_is_missing_in_an_event_of_a_stream_is_named() -> None:
    passed = Passed()
    passed.compare(
        b': hi\n\ndata: {"a": 1, "b": null}\n\ndata: [DONE]\n\n', b'data: {"a": 1}\n\ndata: [DONE]\n\n'
    )
    assert passed.lost == {"b"}


@pytest.mark.parametrize("wire", PATHS)
@pytest.mark.parametrize("is_stream", [False, True])
def test_the_corpus_of_a_wire_says_the_same_in_different_bytes(wire: str, *, is_stream: bool) -> None:
    written = requests(wire, is_stream=is_stream)
    assert len(set(written)) == len(written)
    assert len({json.dumps(json.loads(body), sort_keys=True) for body in written}) == 1
    assert all((MODEL in body) is (wire != "generateContent") for body in written)
    assert all(b"introduced_in_2030" in body for body in (*written, *answers(wire, is_stream=is_stream)[1:]))
