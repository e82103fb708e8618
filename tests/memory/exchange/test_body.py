"""What is replaced in a body, and when all of it is put together anew."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.bodies.spliced import SplicedBody
from mgw.exchange.body import COPIED_BYTES, edited_body, renamed_body
from mgw.wire.json_spans import Edit, apply_edits


@given(st.data(), st.booleans())
def test_the_parts_of_a_large_body_are_those_of_one_put_together(data: st.DataObject, large: bool) -> None:
    body = bytes(range(256)) * (COPIED_BYTES // 256 + large)
    places = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=20)))
    edits: list[Edit] = [
        ((start, end), data.draw(st.binary(max_size=9)))
        for start, end in zip(places[::2], places[1::2], strict=False)
    ]
    found = edited_body(body, edits)
    assert isinstance(found, SplicedBody) == (large and bool(edits))
    assert (found if isinstance(found, bytes) else found.joined()) == apply_edits(body, edits)
    if not edits:
        assert found is body


def test_nothing_of_a_large_body_is_copied() -> None:
    body = b"x" * (COPIED_BYTES + 1)
    found = renamed_body(body, ((10, 20), (40, 50)), b"new")
    assert isinstance(found, SplicedBody)
    assert [part.obj if isinstance(part, memoryview) else part for part in found.parts] == [
        *(body, b"new"),
        *(body, b"new"),
        body,
    ]


@pytest.mark.parametrize(("edits", "spliced"), [(64, True), (65, False), (5000, False)])
def test_a_body_with_many_edits_is_put_together(edits: int, spliced: bool) -> None:
    body = b"x" * 100_000
    found = renamed_body(body, tuple((at, at + 1) for at in range(0, 10 * edits, 10)), b"new")
    assert isinstance(found, SplicedBody) is spliced
