"""The position of each setting in its file, for problems that are found later.

A file that is missing, a port that is in use and most warnings are noticed after the configuration was read.
What is said of them begins with the path of the setting (``tls.cert_file: file not found: …``), and
:meth:`Places.locate` puts the file and the line before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from mgw.config.problems import Mark, Path

_PATH: Final = re.compile(r"((?:[^\s:']|'(?:[^'\\]|\\.)*')+): ")
"""The path of a setting at the beginning of a sentence; components with other characters are in quotes."""
_LOCATED: Final = re.compile(r"\S+:[0-9]+: ")
"""The file and line of another file, as of prices."""
_STEP: Final = re.compile(r"'(?:[^'\\]|\\.)*'|[^.]+")


class Places(Struct, frozen=True, eq=False):
    """The lines of one file on which settings are named; all are equal, as nothing depends on them."""

    file: str = ""
    """Empty: the settings are from no file."""
    lines: dict[Path, int] = {}
    settings: frozenset[str] = frozenset()
    """The settings that the file may have at its top."""
    variables: dict[str, str] = {}
    """Environment variables that a setting is from, by its path as a message has it."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places)

    def __hash__(self) -> int:
        return hash(Places)

    def __reduce__(self) -> tuple[type[Places], tuple[()]]:
        """Travel without the lines: the supervisor has checked the file, and says what is wrong with it."""
        return Places, ()

    def __repr__(self) -> str:  # a key in the wrong place is part of a path
        return f"Places({self.file!r})"

    def locate(self, text: str, otherwise: str = "") -> str:
        """Put file and line before a sentence that begins with the path of a setting.

        Where the file does not have the setting itself, the line is that of the nearest block around it.

        :param otherwise: what is put before any other sentence.
        """
        match = _PATH.match(text)
        if _LOCATED.match(text) is not None:
            return text
        if match is None or not self.file:
            return otherwise + text
        variable = self.variables.get(match[1])
        if variable is not None:
            return f"environment: {variable}: {text[match.end() :]}"
        steps = _STEP.findall(match[1])
        if steps[0] not in self.settings:
            return otherwise + text
        line = self._line_of(steps)
        return f"{self.file}: {text}" if line is None else f"{self.file}:{line}: {text}"

    def locate_lines(self, text: str, otherwise: str = "") -> str:
        """Do the same with each line of a text."""
        return "\n".join(self.locate(line, otherwise) for line in text.splitlines())

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Give a ``ValueError`` that is raised within file and line, where its text begins with a setting."""
        try:
            yield
        except ValueError as error:
            raise ValueError(self.locate_lines(str(error))) from None

    def _line_of(self, steps: list[str]) -> int | None:
        """Return the line of the deepest known setting on the way; names may hold dots themselves."""
        path: Path = ()
        found, begin = None, 0
        while begin < len(steps):
            for end in range(len(steps), begin, -1):
                step = ".".join(steps[begin:end]).strip("'")
                here: Path = (*path, step)
                if here in self.lines:
                    found, path, begin = self.lines[here], here, end
                    break
            else:
                if not steps[begin].isdecimal():
                    break
                path, begin = (*path, int(steps[begin])), begin + 1  # an element of a list
        return found


def places_in(
    file: str, marks: Mapping[Path, Mark], settings: frozenset[str], variables: dict[str, str]
) -> Places:
    """Return the places of a file that was read.

    Of elements of lists only the settings within are kept: a large configuration has thousands of models.
    """
    lines = {path: int(mark[0]) for path, mark in marks.items() if path and isinstance(path[-1], str)}
    return Places(file, lines, settings, variables)
