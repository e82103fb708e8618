"""Event streams: the checker takes what the vendor's reference shows, and refuses it with one rule broken."""

from __future__ import annotations

import pytest

from tests.support.grammar.sse import records_of


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"data: 1", "the last line is not ended"),
        (b"data: 1\n", "not closed by an empty line"),
        (b"data: 1\r\n\r\n", "ends in CR LF"),
        (b"\xef\xbb\xbfdata: 1\n\n", "byte order mark"),
        (b"data: \xff\n\n", "not UTF-8"),
        (b"data:1\n\n", "neither"),
        (b"id: 1\n\n", "neither"),
        (b"event: a\nevent: b\n\n", "second event line"),
    ],
)
def test_an_event_stream_outside_of_what_vendors_write_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        records_of(data)
