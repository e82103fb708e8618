"""Silence on the client's side, which keep-alives interrupt.

It begins with the last byte that the client got; before there was one, with its request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mgw.reactor.deadline import Deadline, TimerWheel


@dataclass(slots=True, eq=False, repr=False)
class Silence:
    """Has somebody break the silence each time that it lasts ``seconds``."""

    wheel: TimerWheel
    seconds: float
    otherwise: Callable[[], None] | None = None
    """Breaks it while nobody has :meth:`taken <take>` it; ``None``: it ends when it is left."""
    deadline: Deadline = field(init=False)
    """Whoever writes to the client starts it anew: not by a call of this object, since each costs."""
    _break: Callable[[], None] = field(init=False)

    def __post_init__(self) -> None:
        self.deadline = Deadline(self.wheel, self._on_expired)
        self._break = _ignore if self.otherwise is None else self.otherwise

    def begin(self, lasted: float = 0.0) -> None:
        """Begin to count; it may have lasted some seconds already."""
        self.deadline.start(max(self.seconds - lasted, 0.0))

    def take(self, break_silence: Callable[[], None]) -> None:
        """Break it in this way from now on."""
        self._break = break_silence

    def leave(self) -> None:
        """Break it as before it was taken."""
        if self.otherwise is None:
            self.close()
        else:
            self._break = self.otherwise

    def close(self) -> None:
        """Break it no more."""
        self.otherwise = None
        self._break = _ignore
        self.deadline.close()

    def _on_expired(self) -> None:
        self._break()
        if self._break is not _ignore:
            self.deadline.start(self.seconds)


def _ignore() -> None:
    """Nobody waits."""
