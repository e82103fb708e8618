"""A block is as large as asked, and made of large pages where that is worth it."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path
from typing import Final

import pytest

from mgw.bodies import block
from mgw.bodies.block import HUGE_BYTES, HUGE_PAGE, MOST_BYTES, block_of
from mgw.bodies.buffer import BodyBuffer

Asked = list[tuple[int, int, int]]
NO_ADVICE: Final = not hasattr(mmap, "MADV_HUGEPAGE")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found: Asked = []
    monkeypatch.setattr(block, "_madvise", lambda: lambda *given: found.append(given))
    return found


@pytest.mark.skipif(NO_ADVICE, reason="the system has no such pages")
@pytest.mark.parametrize("size", [HUGE_BYTES, HUGE_BYTES + 1, 3 * HUGE_BYTES + 4095])
def test_large_pages_are_asked_for_nearly_all_of_a_large_block(size: int, asked: Asked) -> None:
    made = block_of(size)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(made.getbuffer()))
    [(start, length, _)] = asked
    assert (start % mmap.PAGESIZE, length % mmap.PAGESIZE) == (0, 0)
    assert begin <= start
    assert start + length <= begin + size
    assert length > size - 2 * mmap.PAGESIZE


def test_a_smaller_block_asks_for_nothing(asked: Asked) -> None:
    assert len(block_of(HUGE_BYTES - 1).getvalue()) == HUGE_BYTES - 1
    assert asked == []


@pytest.mark.skipif(
    NO_ADVICE or not Path("/sys/kernel/mm/transparent_hugepage").exists(),
    reason="the system has no such pages",
)
def test_the_system_is_asked_in_earnest() -> None:
    made = block_of(HUGE_BYTES)
    middle = ctypes.addressof(ctypes.c_char.from_buffer(made.getbuffer())) + HUGE_BYTES // 2
    bounds = (0, 0)
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        name, *words = line.split()
        if not name.endswith(":"):
            first, _, last = name.partition("-")
            bounds = int(first, 16), int(last, 16)
        elif name == "VmFlags:" and bounds[0] <= middle < bounds[1]:
            assert "hg" in words
            return
    pytest.fail("the block is nowhere")


def test_a_library_without_the_function_gives_blocks_of_usual_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    block._madvise.cache_clear()
    monkeypatch.setattr(ctypes, "PyDLL", lambda _: object())
    try:
        assert block_of(HUGE_BYTES).getvalue() == bytes(HUGE_BYTES)
    finally:
        block._madvise.cache_clear()


def test_no_block_is_larger_than_the_most() -> None:
    assert len(block_of(1 << 60).getvalue()) == MOST_BYTES


def test_a_block_that_there_is_no_room_for_grows_as_it_has_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "MOST_BYTES", 1 << 62)  # more than any system gives
    body = BodyBuffer(1 << 62)
    body.append(b"x" * HUGE_PAGE)
    body.append(b"yz")
    assert body.take() == b"x" * HUGE_PAGE + b"yz"
