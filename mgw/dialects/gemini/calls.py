"""Which result answers which call, on a wire where identifiers are optional.

Google matches a ``functionResponse`` by ``id`` where there is one, else by name and order.  A call without an
identifier gets one that is made from its name and its number in the history: the same in every later turn.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from mgw.dialects.identifiers import made_id


@dataclass(slots=True)
class _Waiting:
    call_id: str
    answered: bool = False


@dataclass(slots=True)
class CallLog:
    """The calls of a history so far, and which of them wait for their results."""

    _calls: int = 0
    _results: int = 0
    _by_id: dict[str, deque[_Waiting]] = field(default_factory=dict)
    _by_name: dict[str, deque[_Waiting]] = field(default_factory=dict)

    def call(self, call_id: str | None, name: str) -> str:
        """Return the identifier of the next call."""
        call_id = call_id or made_id(name, self._calls)
        self._calls += 1
        waiting = _Waiting(call_id)
        self._by_id.setdefault(call_id, deque()).append(waiting)
        self._by_name.setdefault(name, deque()).append(waiting)
        return call_id

    def result(self, call_id: str | None, name: str) -> str:
        """Return the identifier of the call that the next result answers, or an own one."""
        self._results += 1
        waiting = _first(self._by_id.get(call_id)) if call_id else None
        waiting = waiting or _first(self._by_name.get(name))
        if waiting is None:
            return call_id or made_id(f"{name}/result", self._results)
        waiting.answered = True
        return waiting.call_id


def answered_id(seed: str, candidate: int, place: int) -> str:
    """Return the identifier of a call that an answer leaves without one, by its places."""
    return made_id(f"{seed}/{candidate}" if candidate else seed, place)


def _first(waiting: deque[_Waiting] | None) -> _Waiting | None:
    while waiting:
        if not waiting[0].answered:
            return waiting[0]
        waiting.popleft()
    return None
