"""A body of which a few places are replaced is the same, read or sent in whatever pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mgw.bodies.source import body_size, read_all, read_pieces
from mgw.bodies.spliced import SplicedBody, iter_pieces
from tests.support.deferreds import result_of

PARTS = st.lists(st.tuples(st.binary(max_size=12), st.booleans()), max_size=8)


def spliced(parts: list[tuple[bytes, bool]]) -> SplicedBody:
    return SplicedBody.of(b"original", [memoryview(part) if viewed else part for part, viewed in parts])


@given(PARTS, st.integers(0, 100), st.integers(1, 100))
def test_a_read_gives_exactly_what_was_asked_for_up_to_the_end(
    parts: list[tuple[bytes, bool]], position: int, size: int
) -> None:
    body, whole = spliced(parts), b"".join(part for part, _ in parts)
    assert result_of(body.read(position, size)) == whole[position : position + size]
    assert (body_size(body), body.joined(), result_of(read_all(body))) == (len(whole), whole, whole)
    assert (body.original, body.digest) == (b"original", None)


@given(PARTS, st.integers(1, 20))
def test_all_of_it_is_read_and_sent_in_pieces_of_one_size(parts: list[tuple[bytes, bool]], most: int) -> None:
    body, read = spliced(parts), list[bytes]()
    result_of(read_pieces(body, read.append, most))
    sent = [b"".join(piece) for piece in iter_pieces(body.parts, most)]
    assert read == sent
    assert b"".join(sent) == body.joined()
    assert all(len(piece) == most for piece in sent[:-1])
    assert b"" not in sent


def test_what_is_sent_is_not_copied() -> None:
    data = b"x" * 1000
    pieces = [part for piece in iter_pieces([b"head", data], 300) for part in piece]
    assert [part.obj for part in pieces[1:] if isinstance(part, memoryview)] == [data] * 4
