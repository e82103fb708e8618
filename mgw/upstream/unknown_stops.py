"""Providers invent stop reasons; each one that nobody knows is logged once (contract 8.21)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from twisted.logger import Logger

_log: Final = Logger()
_MOST: Final = 64
"""How many are remembered; a provider that invents more is not logged any further."""
_LONGEST: Final = 64


@dataclass(slots=True)
class UnknownStops:
    """Remember the stop reasons that were logged."""

    _seen: set[tuple[str, str]] = field(default_factory=set)

    def note(self, provider: str, word: str) -> None:
        """Log a word of a provider, unless it was logged before."""
        seen = (provider, word[:_LONGEST])
        if seen in self._seen or len(self._seen) >= _MOST:
            return
        self._seen.add(seen)
        _log.warn(
            "provider {provider} ended a response with the unknown reason {word!r}, which is treated as a "
            "normal end",
            provider=provider,
            word=seen[1],
        )
