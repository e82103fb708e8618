"""Let go of what an error holds.

A traceback keeps the variables of every function that the error rose through, and with them the body of the
request; errors, failures and frames hold one another, so only the garbage collector would free them, and that
counts objects, not the tens of megabytes that one of them may have.
"""

from __future__ import annotations

from traceback import clear_frames
from typing import Final

_MOST: Final = 16
"""Errors that led to one another; a circle of them ends here."""


def forget_frames(error: BaseException) -> None:
    """Let go of the frames behind an error that has been dealt with, and behind those that led to it."""
    found: BaseException | None = error
    for _ in range(_MOST):
        if found is None:
            return
        clear_frames(found.__traceback__)
        found.__traceback__ = None  # some frames still run, and could not be emptied
        found = found.__cause__ or found.__context__
