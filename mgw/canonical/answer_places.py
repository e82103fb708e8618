"""Where the JSON of a request states how long its answers may be, how many there are to be, and when."""

from __future__ import annotations

from msgspec import Struct


class AnswerPlaces(Struct, frozen=True):
    """The names of the members that state it; each dialect has its own."""

    limits: tuple[str, ...] = ()
    """The most tokens of an answer."""
    answers: tuple[str, ...] = ()
    """How many answers, or images, are asked for."""
    objects: tuple[str, ...] = ()
    """The objects in which both stand; empty: they stand at the top."""
    background: str | None = None
    """The member that is true where the provider goes on once the request has ended."""
