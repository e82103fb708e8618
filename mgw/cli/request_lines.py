"""The output of ``mgw requests``: a table that fits a terminal, or all fields of a request.

Names of models come from clients, and messages from providers, so whatever would not print is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from mgw.cli.tail_lines import harmless

Event = Mapping[str, Any]  # Any: JSON
NARROWEST: Final = 120
"""A table is no wider than this, or than the terminal where that is wider."""
_GAPS: Final = (2, 1)
"""Blanks between two columns; the smaller number where names would have to be cut otherwise."""
_LEAST: Final = 6
"""Columns that give way keep so many characters."""
_GIVE_WAY: Final = frozenset({"client", "provider", "model", "error"})
_RIGHT: Final = frozenset({"latency", "ttft", "tokens", "cost"})
_UNKNOWN: Final = "-"


def render_table(events: Sequence[Event], width: int = NARROWEST) -> str:
    """Return a table with a line for each event."""
    one_day = len({str(event.get("time"))[:10] for event in events}) == 1
    cells = [list(_COLUMNS)]
    cells += [
        [_time(event, one_day) if name == "time" else show(event) for name, show in _COLUMNS.items()]
        for event in events
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    gap = next((gap for gap in _GAPS if _needs(widths, gap) <= width), _GAPS[-1])
    _narrow(widths, width, gap)
    lines = []
    for row in cells:
        parts = [
            _cut(cell, size).rjust(size) if name in _RIGHT else _cut(cell, size).ljust(size)
            for name, cell, size in zip(_COLUMNS, row, widths, strict=True)
        ]
        lines.append((" " * gap).join(parts).rstrip())
    return "\n".join(lines) + "\n"


def render_details(event: Event) -> str:
    """Return every field of an event on a line of its own."""
    size = max(map(len, event))
    return "".join(f"{name.ljust(size)}  {_value_text(value)}\n" for name, value in event.items())


def _needs(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _narrow(widths: list[int], width: int, gap: int) -> None:
    """Take from the widest of the columns that give way, until all of them fit."""
    names = list(_COLUMNS)
    while _needs(widths, gap) > width:
        able = [at for at, name in enumerate(names) if name in _GIVE_WAY and widths[at] > _LEAST]
        if not able:
            return
        widths[max(able, key=lambda at: widths[at])] -= 1


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 1]}…"


def _time(event: Event, one_day: bool) -> str:  # noqa: FBT001  whether the day is the same in all lines
    time = _value_text(event.get("time"))
    return time[11:19] if one_day else f"{time[5:10]} {time[11:19]}"


def _value_text(value: object) -> str:
    if value is None:
        return _UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0").rstrip(".")
    if isinstance(value, list | tuple):
        return ", ".join(map(_value_text, value))
    return harmless(str(value))


def _text(name: str) -> Callable[[Event], str]:
    return lambda event: _value_text(event.get(name))


def _error(event: Event) -> str:
    status = event.get("status")
    return _value_text(event.get("error") or (None if status == "ok" else status))


def _milliseconds(name: str) -> Callable[[Event], str]:
    def show(event: Event) -> str:
        value = event.get(name)
        if not isinstance(value, int | float):
            return _UNKNOWN
        return f"{value:.0f}ms" if value < 999.5 else f"{value / 1000:.{1 if value < 99_950 else 0}f}s"

    return show


def _tokens(event: Event) -> str:
    into, out = event.get("tokens_in"), event.get("tokens_out")
    return _UNKNOWN if into is None and out is None else f"{_short(into)}>{_short(out)}"


def _short(count: object) -> str:
    if not isinstance(count, int | float):
        return _UNKNOWN
    if count < 1000:
        return f"{count:.0f}"
    value, unit = (count / 1000, "k") if count < 999_500 else (count / 1_000_000, "M")
    return f"{value:.{1 if value < 9.95 else 0}f}{unit}"


def _cost(event: Event) -> str:
    value = event.get("cost_usd")
    if not isinstance(value, int | float):
        return _UNKNOWN
    return (
        "$0"
        if value == 0
        else f"${value:.2f}"
        if value >= 1
        else f"${value:.4f}"
        if value >= 0.0001
        else "<$.0001"
    )


_COLUMNS: Final[Mapping[str, Callable[[Event], str]]] = MappingProxyType(
    {
        "time": _text("time"),
        "status": _text("http_status"),
        "client": _text("client"),
        "provider": _text("provider"),
        "model": _text("model"),
        "latency": _milliseconds("latency_ms"),
        "ttft": _milliseconds("ttft_ms"),
        "tokens": _tokens,
        "cost": _cost,
        "error": _error,
        "request_id": _text("request_id"),
    }
)
