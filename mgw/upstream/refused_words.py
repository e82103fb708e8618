"""What the models of a provider refused of late, so that it is not sent to them again for some minutes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

REST_SECONDS: Final = 600.0
MAX_MODELS: Final = 256
"""For how many models this is remembered; beyond it the oldest are forgotten.  Clients name them."""
MAX_WORDS: Final = 64
"""How many words are remembered of each."""
_NONE: Final[frozenset[str]] = frozenset()


class RefusedWords:
    """The words that each model of one provider refused."""

    __slots__ = ("_until_of",)

    def __init__(self) -> None:
        self._until_of: dict[str, dict[str, float]] = {}
        """When each word of each model may be sent again."""

    def note(self, model: str, words: Iterable[str], now: float) -> None:
        """Remember what a model refused.

        :param now: the clock's time, as below.
        """
        known = self._until_of.pop(model, {})
        kept = {word: until for word, until in known.items() if until > now}
        kept.update((word, now + REST_SECONDS) for word in sorted(words))
        self._until_of[model] = dict(list(kept.items())[-MAX_WORDS:])
        if len(self._until_of) > MAX_MODELS:
            del self._until_of[next(iter(self._until_of))]

    def of(self, model: str | None, now: float) -> frozenset[str]:
        """Return what a model is not sent now; may be called in any thread."""
        known = self._until_of.get(model or "")
        return _NONE if known is None else frozenset(word for word, until in known.items() if until > now)
