"""A request as an upstream received it."""

from __future__ import annotations

from dataclasses import dataclass

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Recorded:
    """One request as it came: nothing is decoded, and headers keep their spelling and order."""

    method: str
    target: str
    headers: Headers
    body: bytes

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    def header(self, name: str) -> str | None:
        """Return the first value of a header."""
        return next((value for key, value in self.headers if key.lower() == name), None)

    def __str__(self) -> str:
        return f"{self.method} {self.target}"
