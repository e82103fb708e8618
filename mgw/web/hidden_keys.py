"""Gateway keys embedded in other text: in a query, in a header, or in quotes.

Patterns find them.  To compile one takes about half a millisecond for each key, so those of a configuration
are compiled once, by a thread where there are many, and keys that are learned later get small ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

_SHORTEST_SECRET: Final = 8
"""A shorter key may well be a word, which means something else where it stands in no carrier."""
_NO_WORD: Final = 16
"""A key from this length on is no part of any other word, and of no media type either."""
MAX_LEARNED: Final = 64
"""How many keys one later pattern has: the reactor waits while it is compiled."""

compile_pattern: Final = re.compile
_Patterns = tuple[re.Pattern[bytes], re.Pattern[bytes]]


@lru_cache(maxsize=2)
def _patterns_of(secrets: tuple[bytes, ...]) -> _Patterns:
    """Return what finds one of these keys anywhere, and as a word of its own."""
    return _compile(secrets)


def _compile(secrets: Sequence[bytes]) -> _Patterns:
    words = b"|".join(map(re.escape, secrets))  # a pattern of literals is a fast one
    return compile_pattern(words), compile_pattern(rb"(?<![0-9A-Za-z])(?:%b)+(?![0-9A-Za-z])" % words)


class HiddenKeys:
    """The keys that are long enough to be told from words; false where there are none."""

    def __init__(self, values: Sequence[bytes]) -> None:
        secrets = tuple(value for value in values if len(value) >= _SHORTEST_SECRET)
        self._patterns = [_patterns_of(secrets)] if secrets else []
        self._long = [value for value in secrets if len(value) >= _NO_WORD]
        self._newest: list[bytes] = []
        """What the last pattern has, where it may have more."""
        self.search = self._search_of_patterns()
        """Looks for any of the keys anywhere in words; ``None`` where there is none."""

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def add(self, value: bytes) -> None:
        """Know one key more."""
        if len(value) < _SHORTEST_SECRET:
            return
        if self._newest and len(self._newest) < MAX_LEARNED:
            self._patterns.pop()
        else:
            self._newest = []
        self._newest.append(value)
        self._patterns.append(_compile(self._newest))
        if len(value) >= _NO_WORD:
            self._long.append(value)
        self.search = self._search_of_patterns()

    def _search_of_patterns(self) -> Callable[[bytes], object | None]:
        """Return the search of the one pattern itself, where there is one: many requests ask for it."""
        return self._patterns[0][0].search if len(self._patterns) == 1 else self._search_all

    def _search_all(self, words: bytes) -> re.Match[bytes] | None:
        for occurs, _ in self._patterns:
            if (found := occurs.search(words)) is not None:
                return found
        return None

    def are_mentioned(self, words: bytes) -> bool:
        """Whether a key that is no mere word stands among other words, or repeated."""
        if self.search(words) is None:
            return False
        return any(is_word.search(words) is not None for _, is_word in self._patterns) or self.are_contained(
            words
        )

    def are_contained(self, words: bytes) -> bool:
        """Whether a key that is too long to be a word stands within these words."""
        return any(value in words for value in self._long)
