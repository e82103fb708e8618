"""Event streams as the three vendors write them, which is less than the standard allows.

Source: the WHATWG HTML standard, section 9.2; what the vendors' SDKs read of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.grammar.shape import require


@dataclass(slots=True)
class Record:
    """What stands between two empty lines: its fields, and its comments."""

    line: int
    """The number of its first line, from 1."""
    event: str | None = None
    data: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)

    @property
    def where(self) -> str:
        """The place as an error names it."""
        return f"line {self.line}"


def lines_of(data: bytes, *, crlf: bool = False) -> list[str]:
    """Return the lines of a stream; the last must be ended, and end in CR LF only where that is allowed."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise AssertionError(f"byte {error.start}: the stream is not UTF-8") from None
    require(not text.startswith("\ufeff"), "line 1", "a byte order mark")
    if not text:
        return []
    require(text.endswith("\n"), "the end", "the last line is not ended")
    lines = text.removesuffix("\n").split("\n")
    for number, line in enumerate(lines, 1):
        require(crlf or not line.endswith("\r"), f"line {number}", "ends in CR LF")
    return [line.removesuffix("\r") for line in lines]


def records_of(data: bytes) -> list[Record]:
    """Return what stands between the empty lines; the last record must be closed by one."""
    records: list[Record] = []
    held: Record | None = None
    for number, line in enumerate(lines_of(data), 1):
        if not line:
            if held is not None:
                records.append(held)
            held = None
            continue
        held = held or Record(number)
        _take(held, line, f"line {number}")
    require(held is None, "the end", "the last event is not closed by an empty line")
    return records


def _take(record: Record, line: str, where: str) -> None:
    name, _, value = line.partition(": ")
    if line.startswith(":"):
        record.comments.append(line[1:])
    elif name == "data":
        record.data.append(value)
    elif name == "event":
        require(record.event is None, where, "a second event line in one event")
        record.event = value
    else:
        raise AssertionError(f"{where}: neither 'data: ', 'event: ' nor a comment: {line[:80]!r}")
