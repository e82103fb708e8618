"""The states of a client's connection in ``docs/architecture.rst``, from their table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mgw.http.server_state import ServerState

_PART: Final = re.compile(
    r"^\.\. states of a connection\n(?:.*\n)*?\.\. end of states of a connection$", re.MULTILINE
)


def render(page: str) -> str:
    """Return the page with its list of states renewed."""
    lines = [".. states of a connection", "", *_list(), "", ".. end of states of a connection"]
    return _PART.sub(lambda _: "\n".join(lines), page)


def _list() -> Iterator[str]:
    rule = f"{'=' * 12}  {'=' * max(len(state.value) for state in ServerState)}"
    yield from (rule, f"{'State':12}  Meaning", rule)
    for state in ServerState:
        yield f"{state.name.lower():12}  {state.value}"
    yield rule
