"""Find where the JSON object of a call's arguments ends while it still streams.

A scanner looks only at braces and quotes (RFC 8259: structure stands outside of strings, and a quote inside a
string is escaped), so a call is known to be complete the moment its last brace arrives.
"""

from __future__ import annotations

import re
from typing import Final

_OUTSIDE: Final = re.compile(r'["{}]')
_INSIDE: Final = re.compile(r'["\\]')


class ArgumentsScanner:
    """Takes the text of one object in pieces; time in proportion to it, nothing kept."""

    __slots__ = ("_begun", "_depth", "_escaped", "_quoted", "complete")

    def __init__(self) -> None:
        self.complete = False
        """The object has ended."""
        self._begun = False
        self._depth = 0
        self._quoted = False
        self._escaped = False

    @property
    def is_cut(self) -> bool:
        """Whether arguments have begun, and are not known to have ended."""
        return self._begun and not self.complete

    def feed(self, text: str) -> str:
        """Return what of this belongs to the arguments: nothing that follows the end of the object."""
        if self.complete:
            return ""
        if not self._begun:
            head = text.lstrip()
            if not head:
                return text
            self._begun = True
            if head[0] != "{":
                self._depth = -1  # no object, so nobody knows its end
        if self._depth < 0:
            return text
        return text[: self._scan(text)]

    def _scan(self, text: str) -> int:
        place = 0
        while place < len(text):
            if self._escaped:
                self._escaped = False
                place += 1
                continue
            found = (_INSIDE if self._quoted else _OUTSIDE).search(text, place)
            if found is None:
                break
            place = found.end()
            if self._take(found[0]):
                return place
        return len(text)

    def _take(self, mark: str) -> bool:
        """Take a mark; return whether the object has ended."""
        if mark == '"':
            self._quoted = not self._quoted
        elif mark == "\\":
            self._escaped = True
        elif mark == "{":
            self._depth += 1
        else:
            self._depth -= 1
            self.complete = self._depth <= 0
        return self.complete
