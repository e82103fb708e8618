"""The fields of usage events for readers, from their table (:mod:`mgw.usage.event`).

``docs/usage-events.rst`` has all of the table; what a field means stands under it in the source, as a
docstring does.  The dashboard's page has a module with the names that it shows.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from mgw.usage.event import UsageEvent
from mgw.usage.event_field import FIRST_VERSION, EventField, table_of

_PART: Final = re.compile(r"^\.\. event fields\n(?:.*\n)*?\.\. end of event fields$", re.MULTILINE)
_UNNAMED: Final = "–"
_MEANINGS: Final = ("17 15 68", ("Field", "Type", "Meaning"))
_NAMES: Final = ("19 17 28 22 14", ("Field", "``usage`` line", "Span attribute", "Metric", "Dashboard"))
_BETWEEN: Final = """\
Times of JSON lines are in RFC 3339, UTC, with milliseconds; numbers have at most three decimals.

Names elsewhere
~~~~~~~~~~~~~~~

JSON lines, webhooks, the SQLite table and the dashboard's API have every field under its own name. Elsewhere:
"""


def render(page: str, event: type[UsageEvent] = UsageEvent) -> str:
    """Return the page with its fields renewed."""
    fields, meanings = table_of(event), meanings_of(event)
    lines = [
        ".. event fields",
        "",
        *_table(
            *_MEANINGS, ([_code(field.name), _type(field), _meaning(field, meanings)] for field in fields)
        ),
        *_BETWEEN.splitlines(),
        "",
        *_table(*_NAMES, map(_names, fields)),
        ".. end of event fields",
    ]
    return _PART.sub(lambda _: "\n".join(lines), page)


def names_module(event: type[UsageEvent] = UsageEvent) -> str:
    """Return the module of the dashboard's page that names fields."""
    names = "".join(f'  {field.name}: "{field.page_name}",\n' for field in table_of(event))
    return (
        "/** The names of a usage event's fields on the page, from their table (`make docs`). */\n\n"
        "/** @type {Record<string, string>} */\n"
        f"export const EVENT_NAMES = {{\n{names}}};\n"
    )


def meanings_of(event: type[UsageEvent]) -> dict[str, str]:
    """Return what stands under each field, on one line."""
    found: dict[str, str] = {}
    for source in reversed(event.__mro__[: event.__mro__.index(UsageEvent) + 1]):
        (declared,) = ast.parse(textwrap.dedent(inspect.getsource(source))).body
        assert isinstance(declared, ast.ClassDef)
        for field, text in zip(declared.body, declared.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                assert isinstance(field.target, ast.Name)
                found[field.target.id] = " ".join(ast.literal_eval(text.value).split())
    return found


def _table(widths: str, head: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    yield from (".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", "")
    for first, *others in (head, *rows):
        yield f"   * - {first}"
        yield from (f"     - {cell}".rstrip() for cell in others)
    yield ""


def _type(field: EventField) -> str:
    return f"{field.type}, {field.about.unit}" if field.about.unit else str(field.type)


def _meaning(field: EventField, meanings: dict[str, str]) -> str:
    said = meanings.get(field.name, "")
    since = field.about.since
    return said if since == FIRST_VERSION else f"{said} Since {since}."


def _names(field: EventField) -> list[str]:
    kind, _, label = field.about.metric.partition(" ")
    metric = f"label {_code(label)}" if label else _code(kind)
    return [_code(field.name), _code(field.log_name), _code(field.span_name), metric, field.page_name]


def _code(name: str | None) -> str:
    return f"``{name}``" if name else _UNNAMED
