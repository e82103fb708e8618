"""The states of connections in ``docs/architecture.rst``, from their tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from types import MappingProxyType
from typing import Final

from mgw.http.server_state import ServerState
from mgw.http.upstream_state import UpstreamState

_PARTS: Final = MappingProxyType(
    {"states of a connection": ServerState, "states of a connection to a provider": UpstreamState}
)
"""The states of each list in the page, by what the comments around it say."""


def render(page: str) -> str:
    """Return the page with its lists of states renewed."""
    for name, states in _PARTS.items():
        part = re.compile(rf"^\.\. {name}\n(?:.*\n)*?\.\. end of {name}$", re.MULTILINE)
        page = part.sub("\n".join([f".. {name}", "", *_list(states), "", f".. end of {name}"]), page)
    return page


def _list(states: type[Enum]) -> Iterator[str]:
    rule = f"{'=' * 12}  {'=' * max(len(state.value) for state in states)}"
    yield from (rule, f"{'State':12}  Meaning", rule)
    for state in states:
        yield f"{state.name.lower():12}  {state.value}"
    yield rule
