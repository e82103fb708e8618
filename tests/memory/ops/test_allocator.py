"""The system's allocator is told to give large blocks back."""

from __future__ import annotations

import platform

from mgw.ops.allocator import give_large_blocks_back


def test_glibc_takes_the_threshold() -> None:
    assert give_large_blocks_back() or platform.libc_ver()[0] != "glibc"
