"""Problems of a configuration: all at once, each with its file, line and path.

Source: contract 2.2.  A message says what was expected and what was found, never a secret's value.  What is
planned and this version does not do yet is an error of its own (contract 2.1): an operator who wrote it
relies on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Final, TypeVar

from msgspec import Struct

from mgw.config.auths import SECRET_KEYS
from mgw.config.aws_settings import SECRET_KEYS as AWS_SECRET_KEYS
from mgw.config.quoting import HIDDEN, is_quotable, quote

S = TypeVar("S")
T = TypeVar("T")

Path = tuple[str | int, ...]
"""The keys and list positions that lead to a value."""

ANY: Final = "*"
"""In a pattern, any one key."""

SECRET_PLACES: Final[tuple[Path, ...]] = (
    ("edge_auth", "keys"),
    ("edge_auth", "keys_env"),
    *(("edge_auth", "jwt", ANY, key) for key in ("issuer", "jwks_url", "proxy", "proxy_env")),
    ("dashboard", "keys"),
    ("dashboard", "keys_env"),
    *(("providers", ANY, key) for key in SECRET_KEYS),
    *(("providers", ANY, "aws", key) for key in AWS_SECRET_KEYS),
    ("providers", ANY, "base_url"),
    ("providers", ANY, "oauth", "client_id"),
    ("providers", ANY, "oauth", "client_id_env"),
    ("providers", ANY, "oauth", "client_secret"),
    ("providers", ANY, "oauth", "client_secret_env"),
    ("providers", ANY, "oauth", "refresh_token"),
    ("providers", ANY, "oauth", "refresh_token_env"),
    ("providers", ANY, "oauth", "token_url"),
    ("providers", ANY, "oauth", "extra", ANY),
    ("providers", ANY, "oauth", "headers", ANY),
    ("providers", ANY, "headers", "set", ANY),
    ("providers", ANY, "proxy"),
    ("providers", ANY, "proxy_env"),
    ("public_url",),
    ("hooks", "webhook", "url"),
    ("hooks", "webhook", "headers", ANY),
    ("hooks", "webhook", "secret"),
    ("hooks", "webhook", "secret_env"),
    ("hooks", "otlp", "endpoint"),
    ("hooks", "otlp", "headers", ANY),
    ("fleet", "redis", "url"),
    ("fleet", "redis", "url_env"),
    # Of key files:
    ("sha256",),
    ("previous",),
    # Of profiles:
    ("client_secret",),
    ("client_secret_env",),
    ("token", "parameters", ANY),
    ("token", "headers", ANY),
    ("headers", "set", ANY),
    ("headers", "merge", ANY),
    ("cloak", "headers", ANY),
)
"""Values at and below these never stand in a message: there a key stands, or may stand by mistake."""

LIMITS_OF_KEYS: Final = ("requests_per_minute", "tokens_per_minute", "max_in_flight")
"""The limits of a named key: each is a setting of its own, and a row of :mod:`mgw.clients.limits`."""

OF_NAMED_KEYS: Final = frozenset(
    {
        *("name", "key", "key_env", "sha256", "models", *LIMITS_OF_KEYS),
        *("groups", "limits", "tags", "expires", "priority", "disabled", "previous"),
    }
)
OF_LIMIT_ROWS: Final = frozenset(
    {"requests", "tokens", "usd", "in_flight", "per", "count", "each", "action", "warn"}
)
"""Settings below the secret place of edge keys, as those of keys; any other word there may be a key."""

_NEEDS_NO_QUOTES: Final = re.compile(r"[A-Za-z0-9_./-]+")


def matches(path: Path, pattern: Path) -> bool:
    """Say whether ``path`` is at or below the place that ``pattern`` names."""
    return len(path) >= len(pattern) and all(
        wanted in (ANY, part) for part, wanted in zip(path, pattern, strict=False)
    )


def is_among(path: Path, patterns: Iterable[Path]) -> bool:
    """Say whether ``path`` is at or below one of these places."""
    return any(matches(path, pattern) for pattern in patterns)


def dotted_path(path: Path, *, names_setting: bool = False) -> str:
    """Write a path as an operator reads it: one line, without what stands below a secret place.

    :param names_setting: its last part is the name of a setting, and is shown there too.
    """
    hidden = path[:-1] if names_setting else path
    parts = [
        HIDDEN if _is_secret(part) and is_among(path[:depth], SECRET_PLACES) else _component(part)
        for depth, part in enumerate(hidden)
    ]
    return ".".join([*parts, *map(_component, path[len(hidden) :])])


def _is_secret(part: str | int) -> bool:
    return isinstance(part, str) and part not in OF_NAMED_KEYS and part not in OF_LIMIT_ROWS


def _component(part: str | int) -> str:
    text = str(part)
    if text == HIDDEN or not is_quotable(text):
        return HIDDEN
    return text if _NEEDS_NO_QUOTES.fullmatch(text) else quote(text)


Mark = tuple[float, float]
"""Line and column, counted from 1."""

FIRST: Final[Mark] = (1, 1)
_AFTER_THE_FILE: Final[Mark] = (inf, inf)


class Problem(Struct, frozen=True):
    """One thing to change."""

    file: str
    """The file's name, or ``environment``."""
    line: int | None
    path: str
    """The dotted path of the setting, or the variable's name; empty for the file as a whole."""
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(part for part in (place, self.path, self.message) if part)


class ConfigError(Exception):
    """The configuration cannot be used; ``problems`` says all that is wrong with it."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(slots=True, eq=False, repr=False)
class Report:
    """Collect the problems of one file, and know where in it things stand."""

    file: str
    marks: dict[Path, Mark] = field(default_factory=dict)
    """Where each value is named, by its path."""
    _found: list[tuple[Mark, Problem]] = field(default_factory=list)
    _with_problem: set[Path] = field(default_factory=set)
    _misspelled: set[Path] = field(default_factory=set)

    def note_misspelling(self, path: Path) -> None:
        """Note that an unknown key may mean the setting at ``path``, which then is not missing as well."""
        self._misspelled.add(path)

    def is_misspelled(self, path: Path) -> bool:
        """Say whether an unknown key may mean exactly this setting."""
        return path in self._misspelled

    def add(
        self,
        path: Path,
        message: str,
        *,
        at: Mark | None = None,
        named: Path | None = None,
        names_setting: bool = False,
    ) -> None:
        """Note a problem; it stands at ``at``, else where ``path`` or its nearest known ancestor does.

        :param named: the path as it is shown, where that is another.
        :param names_setting: as in :func:`dotted_path`.
        """
        mark = self._mark_of(path) if at is None else at
        self._with_problem.add(path)
        place = dotted_path(path if named is None else named, names_setting=names_setting)
        self._found.append((mark, Problem(self.file, int(mark[0]), place, message)))

    def add_environment(self, variable: str, message: str) -> None:
        """Note a problem of an environment variable that overrides the file."""
        self._found.append((_AFTER_THE_FILE, Problem("environment", None, variable, message)))

    def has_problem_at(self, path: Path) -> bool:
        """Say whether a problem is known at exactly this place."""
        return path in self._with_problem

    def has_problem_below(self, path: Path) -> bool:
        """Say whether a problem is known at or below ``path``: what would follow from it is not asked."""
        return any(known[: len(path)] == path for known in self._with_problem | self._misspelled)

    def raise_if_any(self) -> None:
        """Raise all problems together, in the order of the file.

        :raises ConfigError: if there is one.
        """
        if self._found:
            ordered = sorted(self._found, key=lambda entry: entry[0])
            raise ConfigError(tuple(problem for _, problem in ordered))

    def _mark_of(self, path: Path) -> Mark:
        for depth in range(len(path), 0, -1):
            mark = self.marks.get(path[:depth])
            if mark is not None:
                return mark
        return FIRST


def value_or_error(read: Callable[[S], T], of: S) -> T | ValueError:
    """Return what ``read`` does, or why it could not."""
    try:
        return read(of)
    except ValueError as error:
        return ValueError(str(error))  # without the frames, which hold what was read
