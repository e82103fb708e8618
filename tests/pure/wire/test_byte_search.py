"""A search of a large body says what ``in`` says."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.wire import byte_search
from mgw.wire.byte_search import holds

NEEDLES = (b"bWd3c2ln", b'"models"', b'"n"', b"aab")
NEARLY = st.sampled_from([b"bWd3c2l", b"Wd3c2ln", b'"model"', b"models", b'"n', b'n"', b"aa", b"ab", b"\0"])
PIECES = st.one_of(NEARLY, st.binary(max_size=6), st.sampled_from(NEEDLES))
FILLS = st.tuples(st.sampled_from([b"", b"x", b"a", b"bWd3c2l", b'"', b"\0"]), st.integers(0, 3000))


@pytest.fixture(params=["the C library's", "without one"])
def search(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    byte_search.strstr.cache_clear()
    if request.param == "without one":
        monkeypatch.setattr(ctypes, "PyDLL", lambda _: object())
        assert byte_search.strstr() is None
    yield
    byte_search.strstr.cache_clear()


@pytest.mark.usefixtures("search")
@given(st.lists(PIECES, max_size=8), FILLS, FILLS, st.sampled_from(NEEDLES))
def test_it_says_what_in_says(
    pieces: list[bytes], before: tuple[bytes, int], behind: tuple[bytes, int], needle: bytes
) -> None:
    body = before[0] * before[1] + b"".join(pieces) + behind[0] * behind[1]
    assert holds(body, needle) is (needle in body)


@pytest.mark.usefixtures("search")
@pytest.mark.parametrize("needle", NEEDLES)
def test_either_end_counts_and_nothing_beyond(needle: bytes) -> None:
    for filling in (b"", b"x" * 10_000, b"\0" * 10_000):
        assert holds(needle + filling, needle)
        assert holds(filling + needle, needle)
        assert not holds(filling + needle[:-1], needle)
        assert not holds(needle[1:] + filling, needle)
