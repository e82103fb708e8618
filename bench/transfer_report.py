"""The results of the transfers as a table for people, and as one for the documentation."""

from __future__ import annotations

from bench.transfer_run import Measured

MIB = 2**20
AIM_MIB = 8.0
HEADINGS = (
    ("extra memory", "MiB/file"),
    ("throughput", "MB/s"),
    ("direct", "MB/s"),
    ("CPU", "ms/file"),
)


def as_text(found: list[Measured], facts: dict[str, str]) -> str:
    """The table, what it comes to, and the facts under it."""
    out = ["".join([f"{'':42}", *(f"{row[line]:>14}" for row in HEADINGS)]) for line in (0, 1)]
    group = ""
    for one in found:
        if one.case.what != group:
            group = one.case.what
            out += ["", f"30 MiB {group}"]
        out.append("".join([f"  {one.case.how:40}", *(f"{cell:>14}" for cell in _cells(one))]))
    out += ["", *_summary(found), ""]
    out += [f"{name}: {value}" for name, value in facts.items()]
    out += [failure for one in found for failure in one.failures]
    return "\n".join(out) + "\n"


def as_rst(found: list[Measured]) -> str:
    """The same as a table of the documentation."""
    out = [".. csv-table::", "   :header-rows: 1", ""]
    out.append(_row(["30 MiB", *(f"{name}, {unit}" for name, unit in HEADINGS)]))
    out += [_row([str(one.case), *_cells(one)]) for one in found]
    return "\n".join(out) + "\n"


def _row(cells: list[str]) -> str:
    return "   " + ", ".join(f'"{cell}"' for cell in cells)


def _cells(one: Measured) -> list[str]:
    direct = one.direct_bytes_per_second
    return [
        f"{one.extra_bytes / MIB:.1f}",
        f"{one.bytes_per_second / 1e6:,.0f}",
        "–" if direct is None else f"{direct / 1e6:,.0f}",
        f"{one.cpu_seconds * 1000:,.0f}",
    ]


def _summary(found: list[Measured]) -> list[str]:
    if not found:
        return ["Nothing was measured."]
    most = max(found, key=lambda one: one.extra_bytes)
    files, failed = sum(one.files for one in found), sum(len(one.failures) for one in found)
    return [
        f"most extra memory for a file: {most.extra_bytes / MIB:.1f} MiB, the aim: below {AIM_MIB:g} MiB",
        f"files through the gateway: {files}; not the same bytes at the other end, or broken off: {failed}",
    ]
