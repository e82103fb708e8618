"""The promises of mgw.bodies.source."""

from __future__ import annotations

import errno
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred

from mgw.bodies.source import BodyGoneError, body_size, edit_source, read_all, read_pieces
from mgw.nouns.errors import GatewayError, Reason
from tests.support.bodies import MemorySource, patterned
from tests.support.deferreds import result_of


@dataclass(frozen=True)
class Case:
    """A body, its edits, and what must come of them."""

    body: bytes
    edits: list[tuple[tuple[int, int], bytes]]
    edited: bytes


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw the pieces of a body, kept or replaced, and join them."""
    kept_or_replaced = st.tuples(st.binary(max_size=12), st.none() | st.binary(max_size=6))
    body, edited = b"", b""
    edits: list[tuple[tuple[int, int], bytes]] = []
    for piece, text in draw(st.lists(kept_or_replaced, max_size=8)):
        if text is not None:
            edits.append(((len(body), len(body) + len(piece)), text))
        body += piece
        edited += piece if text is None else text
    return Case(body, edits, edited)


@given(case=cases(), size=st.integers(1, 20))
def test_an_edited_body_read_in_any_pieces_is_the_body_with_its_edits(case: Case, size: int) -> None:
    source = edit_source(MemorySource(case.body), case.edits)
    pieces: list[bytes] = []
    result_of(read_pieces(source, pieces.append, size))
    assert b"".join(pieces) == case.edited
    assert source.size == len(case.edited)
    assert all(len(piece) == size for piece in pieces[:-1])


@given(case=cases(), position=st.integers(0, 100), size=st.integers(1, 100))
def test_a_read_gives_exactly_what_was_asked_for_up_to_the_end(case: Case, position: int, size: int) -> None:
    source = edit_source(MemorySource(case.body), case.edits)
    assert result_of(source.read(position, size)) == case.edited[position : position + size]


@given(case=cases())
def test_one_read_of_an_edited_body_reads_no_byte_of_the_source_twice(case: Case) -> None:
    source = MemorySource(case.body)
    assert result_of(read_all(edit_source(source, case.edits))) == case.edited
    assert source.total_read <= source.size


def test_what_lies_between_many_small_edits_is_read_at_once() -> None:
    source = MemorySource(patterned(100_000))
    edited = edit_source(source, [((at, at + 4), b"new!!") for at in range(0, 100_000, 100)])
    assert len(result_of(edited.read(0, 50_000))) == 50_000
    assert len(source.reads) <= 2


def test_a_source_without_edits_is_the_same_source() -> None:
    source = MemorySource(b"body")
    assert edit_source(source, []) is source


def test_edits_may_themselves_be_edited() -> None:
    once = edit_source(MemorySource(b"one two three"), [((4, 7), b"2")])
    twice = edit_source(once, [((0, 3), b"1"), ((6, 11), b"3")])
    assert result_of(read_all(twice)) == b"1 2 3"


@pytest.mark.parametrize(
    "edits", [[((2, 4), b""), ((3, 5), b"")], [((5, 6), b""), ((0, 1), b"")], [((0, 9), b"")]]
)
def test_edits_that_overlap_go_back_or_lie_outside_are_a_bug(
    edits: list[tuple[tuple[int, int], bytes]],
) -> None:
    with pytest.raises(AssertionError):
        edit_source(MemorySource(b"12345678"), edits)


def test_cancelling_a_read_across_an_edit_cancels_the_read_of_the_source() -> None:
    source = MemorySource(b"12345678", held=True)
    reading = edit_source(source, [((2, 4), b"-")]).read(0, 7)
    reading.cancel()
    assert source.cancelled == 1
    with pytest.raises(CancelledError):
        result_of(reading)


def test_a_body_that_goes_while_it_is_scanned_stops_the_scan() -> None:
    source = MemorySource(b"12345678", held=True)
    pieces: list[bytes] = []
    scan = Deferred.fromCoroutine(read_pieces(source, pieces.append, 4))
    source.step()
    source.closed = True
    source.step()
    with pytest.raises(BodyGoneError):
        result_of(scan)
    assert pieces == [b"1234"]


def test_a_body_that_the_disk_does_not_give_back_is_refused_without_its_words() -> None:
    error = OSError(errno.EIO, "Input/output error")
    for work in (read_pieces, lambda source, _: read_all(source)):
        source = MemorySource(b"1234", held=True)
        reading = Deferred.fromCoroutine(work(source, lambda piece: None))
        source.fail(error)
        with pytest.raises(GatewayError, match="cannot be read") as caught:
            result_of(reading)
        assert (caught.value.reason, caught.value.retry_after) == (Reason.OVERLOADED, 1.0)
        assert "Input" not in caught.value.message


def test_a_scan_holds_one_piece_at_a_time() -> None:
    source = MemorySource(b"12345678", held=True)
    scan = Deferred.fromCoroutine(read_pieces(source, lambda _: None, 2))
    while source.pending:
        source.step()
    assert source.most_pending == 1
    result_of(scan)


def test_the_size_of_a_body_is_known_wherever_it_is() -> None:
    assert [body_size(b"123"), body_size(MemorySource(b"1234"))] == [3, 4]
