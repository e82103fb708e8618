"""An answer of pieces of any size is read as what was written."""

from __future__ import annotations

import pytest
from httptools import HttpResponseParser

from mgw.web.writing import AnswerHead, AnswerWriter


class Wire(list[bytes]):
    """What was written, and how it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.body: list[bytes] = []
        self.ended = False

    def write(self, data: bytes) -> None:
        self.append(data)

    def on_body(self, data: bytes) -> None:
        self.body.append(data)

    def on_message_complete(self) -> None:
        self.ended = True


@pytest.mark.parametrize("headers", [[], [(b"Content-Length", b"200008")]], ids=["chunked", "counted"])
def test_large_and_small_pieces_arrive_as_written_and_large_ones_uncopied(
    headers: list[tuple[bytes, bytes]],
) -> None:
    wire, large = Wire(), b"x" * 200_000
    writer, head = AnswerWriter(wire), AnswerHead(200, b"OK", headers)
    head.answer_to(b"POST", b"1.1")
    writer.begin(head)
    writer.flush()
    for piece in (b"abcd", large, b"efgh"):
        writer.write(piece)
    assert any(one is large for one in wire)
    writer.finish()
    HttpResponseParser(wire).feed_data(b"".join(wire))
    assert b"".join(wire.body) == b"abcd" + large + b"efgh"
    assert wire.ended
