"""How much memory processes take that share some of it."""

from __future__ import annotations

from bench.workers.gateways import file_kib

LIBRARY = "/usr/lib/libpython3.11.so.1.0"


def mapping(path: str, rss: int, anonymous: int = 0, place: str = "00000000") -> str:
    """Return what the kernel says of a part of the memory; ``Pss`` is lower, as others have it too."""
    head = f"7f1c6a000000-7f1c6a400000 r-xp {place} fe:00 247278                     {path}"
    lines = [
        f"Rss: {rss:20} kB",
        f"Pss: {rss // 3:20} kB",
        f"Anonymous: {anonymous:14} kB",
        "VmFlags: rd ex mr",
    ]
    return "\n".join([head.rstrip(), *lines, ""])


def test_a_file_that_several_processes_have_counts_once_with_the_most_that_one_has() -> None:
    one = mapping(LIBRARY, 900) + mapping(LIBRARY, 300, place="00100000")
    other = mapping(LIBRARY, 1000) + mapping("/usr/lib/libssl.so.3", 50)
    assert file_kib([one]) == 1200
    assert file_kib([one, other]) == 1350


def test_what_a_process_has_written_to_is_not_the_files_any_more() -> None:
    assert file_kib([mapping(LIBRARY, 900, anonymous=200)]) == 700


def test_memory_without_a_file_is_none_of_it() -> None:
    assert file_kib([mapping("", 500, 500), mapping("[heap]", 400, 400)]) == 0
