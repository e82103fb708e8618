"""Ways through a table of states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

State = TypeVar("State")
Event = TypeVar("Event")


def shortest_paths(
    transitions: Mapping[State, Mapping[Event, State]], first: State
) -> dict[State, list[Event]]:
    """Return the events of a shortest way from ``first`` to each state that the table leads to."""
    found: dict[State, list[Event]] = {first: []}
    waiting = [first]
    for state in waiting:
        for event, target in transitions[state].items():
            if target not in found:
                found[target] = [*found[state], event]
                waiting.append(target)
    return found
