"""The tables of models in ``docs/models.rst``, from the rows that are shipped.

The page says with a comment which family's table stands where; everything between that comment and its end is
generated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from mgw.dialects.model_rows import FALLBACKS, ROWS
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Effort, Family

_PART: Final = re.compile(r"^\.\. models: (\w+)\n(?:.*\n)*?\.\. end of models$", re.MULTILINE)

_NOTHING: Final = "–"
"""Not a hyphen, which alone in a cell begins a list."""

Column = tuple[str, Callable[[ModelRow], str]]


def _efforts(row: ModelRow) -> str:
    return _range(row.efforts)


def _responses_efforts(row: ModelRow) -> str:
    return "as efforts" if row.responses_efforts is None else _range(row.responses_efforts)


def _range(efforts: tuple[Effort, ...]) -> str:
    if not efforts:
        return _NOTHING
    every = tuple(Effort)
    first, last = every.index(efforts[0]), every.index(efforts[-1])
    if len(efforts) > 2 and efforts == every[first : last + 1]:
        return f"{efforts[0]} to {efforts[-1]}"
    return ", ".join(efforts)


def _budget(row: ModelRow) -> str:
    return _NOTHING if row.budget is None else f"{row.budget[0]} to {row.budget[1]}"


def _yes(name: str) -> Callable[[ModelRow], str]:
    return lambda row: "yes" if getattr(row, name) else "no"


def _word(name: str) -> Callable[[ModelRow], str]:
    return lambda row: _NOTHING if getattr(row, name) is None else str(getattr(row, name))


_FIRST: Final[tuple[Column, ...]] = (("match", lambda row: f"``{row.match}``"), ("efforts", _efforts))
_COLUMNS: Final = MappingProxyType(
    {
        Family.ANTHROPIC: (
            *_FIRST,
            ("budget", _budget),
            ("off", _yes("off")),
            ("default", _word("default")),
            ("adaptive", _yes("adaptive")),
            ("hides_thoughts", _yes("hides_thoughts")),
            ("binds_thoughts", _yes("binds_thoughts")),
            ("forced_tools", _word("forced_tools")),
            ("system_turns", _yes("system_turns")),
            ("structured", _yes("structured")),
            ("sampling", _yes("sampling")),
            ("prefill", _yes("prefill")),
            ("max_output", _word("max_output")),
        ),
        Family.OPENAI: (
            *_FIRST,
            ("default", _word("default")),
            ("sampling", _yes("sampling")),
            ("off_sampling", _yes("off_sampling")),
            ("stop", _yes("stop")),
            ("chat_tools", _word("chat_tools")),
            ("through_responses", _word("through_responses")),
            ("responses_efforts", _responses_efforts),
            ("parallel_calls", _yes("parallel_calls")),
            ("call_ids", _word("call_ids")),
            ("max_completion_tokens", _yes("max_completion_tokens")),
            ("max_output", _word("max_output")),
            ("tokens", _word("tokens")),
        ),
        Family.GEMINI: (
            *_FIRST,
            ("budget", _budget),
            ("off", _yes("off")),
            ("default", _word("default")),
            ("sampling", _yes("sampling")),
            ("penalties", _yes("penalties")),
            ("logprobs", _yes("logprobs")),
            ("structured", _yes("structured")),
            ("candidates", _word("candidates")),
            ("system", _yes("system")),
            ("tools", _yes("tools")),
            ("json_with_tools", _yes("json_with_tools")),
            ("signatures", _yes("signatures")),
            ("vertex_call_ids", _yes("vertex_call_ids")),
            ("images", _yes("images")),
            ("prefill", _yes("prefill")),
            ("addresses", _yes("addresses")),
            ("max_output", _word("max_output")),
        ),
    }
)
"""The columns of each family's table; the others are the same in every row of it."""


def render(page: str) -> str:
    """Return the page with its tables renewed."""
    return _PART.sub(
        lambda match: f".. models: {match[1]}\n\n{table(Family(match[1]))}\n.. end of models", page
    )


def rows_of(family: Family) -> tuple[ModelRow, ...]:
    """Return the rows of one family in the order in which they are tried, the fallback last."""
    return (*(row for row in ROWS if row.family is family), replace(FALLBACKS[family], match="*"))


def table(family: Family) -> str:
    """Return the reStructuredText table of one family's rows and the list of its sources."""
    rows = rows_of(family)
    sources = list(dict.fromkeys(row.source for row in rows))
    columns: tuple[Column, ...] = (
        *_COLUMNS[family],
        ("source", lambda row: str(sources.index(row.source) + 1)),
    )
    cells = [[describe(row) for _, describe in columns] for row in rows]
    links = "".join(f"{number}. {source}\n" for number, source in enumerate(sources, 1))
    return f"{_simple_table([name for name, _ in columns], cells)}\nSources:\n\n{links}"


def _simple_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[place]) for line in (head, *body)) for place in range(len(head))]
    rule = "  ".join("=" * width for width in widths)

    def drawn(line: Iterable[str]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()

    return "\n".join((rule, drawn(head), rule, *map(drawn, body), rule, ""))
