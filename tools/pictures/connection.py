"""The states of connections to clients and to providers, from their tables (``docs/architecture.rst``).

What may happen in every state, an abort and the loss of the connection, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TypeVar

from mgw.http import server_state, upstream_state
from tools.pictures.diagram import LINE, NAME, arrow, diagram, node, words
from tools.pictures.svg import Box, Color, rectangle

_State = TypeVar("_State", bound=Enum)
_Event = TypeVar("_Event", bound=Enum)

_WIDTH = 800
_TOP = 24
_STEP = 34
_GAP = 20
_LEFT = 24
_STATE_WIDTH = 150
_RIGHT = 626
_ANYWHERE = frozenset({"ABORT", "LOST"})


def render() -> str:
    """Return the file of a client's connection."""
    return _render("The states of a client's connection", server_state.TRANSITIONS)


def render_upstream() -> str:
    """Return the file of a connection to a provider."""
    return _render("The states of a connection to a provider", upstream_state.TRANSITIONS)


def _render(title: str, table: Mapping[_State, Mapping[_Event, _State]]) -> str:
    shapes: list[str] = []
    top = _TOP
    for states, ways in _groups(table):
        height = _STEP * max(len(ways), len(states))
        shapes += _group(states, ways, Box(_LEFT, top, _STATE_WIDTH, height - _GAP / 2))
        top += height + _GAP
    return diagram(
        title,
        "On the left are the states of a connection, and beside each the events that may come in it, with "
        "the state that each leads to.",
        (_WIDTH, top),
        shapes,
    )


def _groups(
    table: Mapping[_State, Mapping[_Event, _State]],
) -> list[tuple[list[_State], Mapping[_Event, _State]]]:
    """Return the ways out of each state; states that are left in the same ways share them."""
    found: list[tuple[list[_State], Mapping[_Event, _State]]] = []
    for state, all_ways in table.items():
        ways = {event: target for event, target in all_ways.items() if event.name not in _ANYWHERE}
        shared = next((states for states, others in found if others == ways), None)
        if shared is not None:
            shared.append(state)
        elif ways:
            found.append(([state], ways))
    return found


def _group(states: Sequence[Enum], ways: Mapping[_Event, _State], box: Box) -> list[str]:
    """Return one or more states, and an arrow for each way out of them."""
    shapes = [rectangle(box, Color.SURFACE, Color.EDGE)]
    for number, state in enumerate(states):
        at = (box.middle, box.center + (number - (len(states) - 1) / 2) * 22 + 5)
        shapes.append(words(_name(state), at, box.width - 12, NAME))
    for number, (event, target) in enumerate(ways.items()):
        middle = box.y + 12 + number * _STEP
        shapes.append(arrow((box.right, middle), (_RIGHT, middle)))
        shapes.append(
            words(event.value, ((box.right + _RIGHT) / 2, middle - 5), _RIGHT - box.right - 40, LINE)
        )
        shapes.append(node(Box(_RIGHT, middle - 12, _STATE_WIDTH, 24), _name(target), (), NAME))
    return shapes


def _name(state: Enum) -> str:
    return state.name.lower()
