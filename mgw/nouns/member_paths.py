r"""Paths to members of JSON objects, as an operator writes them.

Names have dots between them, and ``\.`` is a dot within a name; any other backslash stands for itself.
``name[]`` is every element of the array with this name: ``tools[].defer_loading``.
"""

from __future__ import annotations

import re
from typing import Final

Step = str | None
"""The name of a member; :data:`EACH`: every element of an array."""
MemberPath = tuple[Step, ...]
EACH: Final = None
_NAMES: Final = re.compile(r"(?:\\\.|[^.])*")
_EMPTY: Final = r"expected names with dots between them, found an empty name (\. is a dot in a name)"
_ELEMENTS: Final = "[]"


def parse_path(text: str) -> MemberPath:
    """Return the steps of a path, of which the first is a name.

    :raises ValueError: a name is empty.
    """
    steps: list[Step] = []
    position = 0
    while True:
        match = _NAMES.match(text, position)
        assert match is not None, "it may be empty"
        name, depth = match[0], 0
        while name.endswith(_ELEMENTS):
            name, depth = name.removesuffix(_ELEMENTS), depth + 1
        if not name:
            raise ValueError(_EMPTY)
        steps += [name.replace(r"\.", "."), *[EACH] * depth]
        position = match.end() + 1
        if position > len(text):
            return tuple(steps)
