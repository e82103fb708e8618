"""The values of a JSON body are counted without building them."""

from __future__ import annotations

import json
from time import process_time
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from mgw.wire.json_document import BLOCK_BYTES, has_more_values
from tests.support.dice import Dice, written

LONG = ("\\" * (BLOCK_BYTES - 3), '"{[,' * BLOCK_BYTES)


def a_text(dice: Dice) -> str:
    if dice.below(16) == 15:
        return dice.one_of(LONG)
    return "".join(dice.several(lambda dice: dice.one_of('ab"\\{}[],:\n'), 5))


def a_value(dice: Dice, depth: int = 0) -> Any:
    def inner(dice: Dice) -> Any:
        return a_value(dice, depth + 1)

    match dice.below(6 if depth < 3 else 3):
        case 0:
            return dice.one_of((None, 0, -7))
        case 1 | 2:
            return a_text(dice)
        case 3 | 4:
            return dice.several(inner, 4)
    return dict(dice.several(lambda dice: (a_text(dice), inner(dice)), 4))


def counted(value: Any) -> tuple[int, int]:
    """How many objects a value has, and how many brackets and commas."""
    if isinstance(value, dict):
        inner = [counted(one) for one in value.values()]
    elif isinstance(value, list):
        inner = [counted(one) for one in value]
    else:
        return 0, 0
    objects = isinstance(value, dict) + sum(one[0] for one in inner)
    return objects, 1 + max(0, len(value) - 1) + sum(one[1] for one in inner)


@given(written(a_value))
@example(["\\" * (BLOCK_BYTES - 3) + '"', {"{": 0}])
@example(['\\"' * BLOCK_BYTES, {}])
def test_what_stands_in_texts_is_not_counted(value: Any) -> None:
    body = json.dumps(value, ensure_ascii=False).encode()
    objects, values = counted(value)
    padded = body + b" " * 3 * (objects + values)  # short bodies are not looked at
    assert not has_more_values(padded, objects, values)
    if objects:
        assert has_more_values(padded, objects - 1, values)
    if values:
        assert has_more_values(padded, objects, values - 1)


def test_counting_stops_where_it_is_too_much() -> None:
    body = b'{"a":[' + b'"",' * 2_000_000 + b"0]}"
    began = process_time()
    for _ in range(10):
        assert has_more_values(body, 100, 100_000)
    assert process_time() - began < 0.4  # measured: 0.05; to the end it would be 0.9


@given(
    mark=st.sampled_from("{[,"),
    count=st.sampled_from([0, 1, 255, 256, 257, 300]),
    in_text=st.booleans(),
)
def test_few_marks_in_a_large_body_are_counted_exactly(mark: str, count: int, in_text: bool) -> None:
    long = '"' + "a" * 10_000 + '"'
    inner = {"{": "{}", "[": "[]", ",": "0"}[mark]
    body = (f'"{mark * count}"' if in_text else "[" + ",".join([inner] * (count + 1)) + "]").encode()
    objects, values = counted(json.loads(body))
    padded = b"[" + body + b"," + long.encode() + b"]"
    objects, values = counted(json.loads(padded))
    assert not has_more_values(padded, objects, values)
    if objects:
        assert has_more_values(padded, objects - 1, values)
    assert has_more_values(padded, objects, values - 1)


def test_the_shortest_body_with_too_many_values_is_found() -> None:
    objects, arrays = (b"[" + b",".join([one] * 300) + b"]" for one in (b"{}", b"[]"))
    assert has_more_values(objects, 299, 10**6)
    assert not has_more_values(objects, 300, 600)
    assert has_more_values(arrays, 400, 599)
    assert not has_more_values(arrays, 400, 600)
