"""The ways that a request for text takes into the gateway, for tests whose promises hold for each of them.

A module or a test says with the mark ``doors`` through which it is run.  What is configured then adds what it
takes by :func:`through_door`: servers in memory and gateways over sockets both ask it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Final


class Door(Enum):
    """How a request comes in."""

    EXPRESS = "express"
    """Straight into the pipeline, as is the default."""
    KLEIN = "klein"
    """Through Klein, as all others do."""
    KNOWN = "known"
    """Straight into the pipeline, and its head has come before; only in memory."""


_current: Final[ContextVar[Door]] = ContextVar("door", default=Door.EXPRESS)


def current_door() -> Door:
    """Return the door that the test is run through."""
    return _current.get()


@contextmanager
def use_door(door: Door) -> Iterator[None]:
    """Run a block through a door."""
    token = _current.set(door)
    try:
        yield
    finally:
        _current.reset(token)


def through_door(text: str) -> str:
    """Return a configuration as the current door needs it; one that chooses for itself stays as it is."""
    if _current.get() is not Door.KLEIN or "\nexpress:" in f"\n{text}":
        return text
    return f"{text}\nexpress: false\n"
