"""Tokens that a process has seen recently, so that logs can redact them.

A source of credentials knows the token that it gives out.  The one before it may still be on its way in a
request, and what is sent to a token endpoint is kept by nobody: so everything that comes and goes is noted
here as well, where the newest stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mgw.config.secrets import parts_of, secrets_in
from mgw.nouns.secret import Secret

MAX_SECRETS: Final = 512
"""How many secrets are known at a time; with one more, the oldest is forgotten."""


class RecentSecrets:
    """The newest secrets."""

    def __init__(self, max_secrets: int = MAX_SECRETS) -> None:
        self._max = max_secrets
        self._found: dict[Secret, None] = {}

    def note(self, *values: object) -> None:
        """Know all secrets in these values from now on."""
        for value in values:
            for secret in secrets_in(value):
                for part in parts_of(secret):
                    self._found.pop(part, None)
                    self._found[part] = None
        while len(self._found) > self._max:
            del self._found[next(iter(self._found))]

    def __iter__(self) -> Iterator[Secret]:
        return iter(list(self._found))

    def __repr__(self) -> str:
        return f"RecentSecrets({len(self._found)})"


NOWHERE: Final = RecentSecrets(0)
"""The secrets of a process without a log: none is kept."""
