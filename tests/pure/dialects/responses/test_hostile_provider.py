"""A provider that is asked through Responses cannot make the gateway remember without end.

What else it may send is among :mod:`tests.pure.dialects.test_hostile_answers`.
"""

from __future__ import annotations

import pytest

from mgw.canonical.reply import Broke
from mgw.dialects.responses.stream_reader import ResponsesStreamReader
from tests.support.responses_streams import function_call, response, sse


@pytest.mark.parametrize("places", [range(5000), [0] * 5000], ids=["many places", "one place"])
def test_items_without_end_break_the_stream(places: range | list[int]) -> None:
    """Each is remembered, so that calls never repeat an identifier."""
    events = (
        {"type": "response.output_item.done", "output_index": place, "item": function_call("", "c", "f", "")}
        for place in places
    )
    reader = ResponsesStreamReader("seed")
    found = reader.feed(b"".join(map(sse, events)))
    assert isinstance(found[-1], Broke)
    assert reader.feed(sse({"type": "response.completed", "response": response([])})) == []
