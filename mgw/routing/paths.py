"""Path templates, and how to find the one for a raw path.

A template is cut at its slashes, and at the colon before a verb of Google's.  Segments are compared decoded,
so that no spelling of a path reaches a provider under another row than its own; an identifier may therefore
hold no escaped slash, and one of Google's no colon.  A template with a parameter for several segments
(``{model}``, ``{path}``) is matched by a regular expression, word for word on the path as it was sent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

from mgw.nouns.families import FAMILIES
from mgw.routing.route import Route, Treatment

GEMINI_VERSIONS: Final = ("/v1beta", "/v1", "/v1alpha")
"""The prefixes under which Gemini's routes are served alike (contract 4.14)."""

_ALSO_NOTHING: Final = frozenset({Treatment.REFUSE, Treatment.LOCAL})
"""Where ``{path}`` may be empty: what is refused, and what the dashboard has a table of its own for."""
_LONG: Final = re.compile(r"\{(?:model|path)\}")
_PARAMETER: Final = re.compile(r"\{\w+\}")
_VERB: Final = re.compile(r"(?::|%3[Aa])([A-Za-z]+)$")
_VERSIONS: Final = ("/v1", "/beta")


class VersionedRoute(Struct, frozen=True):
    """A row of the table under one of its versions."""

    route: Route
    version: str
    """The version prefix of the client's path, without which it goes upstream."""
    literals: int
    """How many of its segments are words, a verb included: the more, the more exactly it fits."""


class PathMatch(Struct, frozen=True):
    """A row that fits a path."""

    row: VersionedRoute
    raw_model: str | None = None
    """What stands for ``{model}``, as sent."""


def templates_of(route: Route) -> list[tuple[str, str]]:
    """Return each template under which a row is served, with its version prefix."""
    for before in ("", "/upload"):
        if route.path.startswith(f"{before}/v1beta/"):
            rest = route.path.removeprefix(f"{before}/v1beta")
            return [(before + version + rest, before + version) for version in GEMINI_VERSIONS]
    for version in _VERSIONS:
        if route.path.startswith(version + "/"):
            return [(route.path, version)]
    return [(route.path, "")]


@dataclass(slots=True, eq=False, repr=False)
class _Node:
    """What may follow the segments so far."""

    words: dict[str, _Node] = field(default_factory=dict)
    anything: _Node | None = None
    rows: list[VersionedRoute] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class _Pattern:
    """A template with a parameter for several segments, compiled when a path first comes near it."""

    template: str
    row: VersionedRoute
    compiled: re.Pattern[str] | None = None

    def compile(self) -> re.Pattern[str]:
        """Compile it, and return it."""
        self.compiled = _pattern_of(self.template, self.row.route)
        return self.compiled


class PathIndex:
    """All templates, and which of them fit a path."""

    def __init__(self) -> None:
        self._root = _Node()
        self._patterns: dict[tuple[str, str], list[_Pattern]] = {}
        """Patterns by the first segment and the verb, which is empty for most."""

    def add(self, template: str, version: str, route: Route) -> None:
        """Put a template among the others."""
        segments = _segments(template)
        literals = sum(1 for segment in segments if not _PARAMETER.fullmatch(segment))
        row = VersionedRoute(route, version, literals)
        if _LONG.search(template):
            key = segments[0], segments[-1] if segments[-1].startswith(":") else ""
            self._patterns.setdefault(key, []).append(_Pattern(template, row))
            return
        node = self._root
        for segment in segments:
            if _PARAMETER.fullmatch(segment):
                node.anything = node.anything or _Node()
                node = node.anything
            else:
                node = node.words.setdefault(segment, _Node())
        node.rows.append(row)

    def find(self, raw_path: str) -> list[PathMatch]:
        """Return all rows that fit, those that fit most exactly first."""
        if not raw_path.startswith("/"):
            return []
        verb = _VERB.search(raw_path)
        found = [PathMatch(row) for row in self._walk(raw_path, verb)]
        first = raw_path[1:].partition("/")[0]
        for key in ((first, ""), (first, f":{verb[1]}")) if verb else ((first, ""),):
            for pattern in self._patterns.get(key, ()):
                match = (pattern.compiled or pattern.compile()).fullmatch(raw_path)
                if match is not None:
                    found.append(PathMatch(pattern.row, match.groupdict().get("model")))
        if len(found) > 1:
            found.sort(key=_exactness)
        return found

    def _walk(self, raw_path: str, verb: re.Match[str] | None) -> list[VersionedRoute]:
        """Return the rows without a parameter for several segments."""
        segments = _decoded(raw_path)
        found = self._leaves(segments)
        if verb is not None:
            found += self._leaves([*_decoded(raw_path[: verb.start()]), f":{verb[1]}"])
        return found

    def _leaves(self, segments: list[str]) -> list[VersionedRoute]:
        if "" in segments and len(segments) > 1:
            return []
        nodes = [self._root]
        for segment in segments:
            following = [node.words[segment] for node in nodes if segment in node.words]
            if "/" not in segment and not segment.startswith(":"):
                following += [node.anything for node in nodes if node.anything is not None]
            if not following:
                return []
            nodes = following
        rows = [row for node in nodes for row in node.rows]
        if any(":" in segment[1:] for segment in segments):
            rows = [row for row in rows if not FAMILIES[row.route.family].has_verbs]
        return rows


def _decoded(raw_path: str) -> list[str]:
    """Return the segments, decoded but for the version's, which is cut off before a path goes upstream."""
    raw = raw_path[1:].split("/")
    if "%" not in raw_path:
        return raw
    kept = 2 if raw[0] == "upload" else 1
    return [*raw[:kept], *map(unquote, raw[kept:])]


def _exactness(found: PathMatch) -> tuple[int, bool]:
    return -found.row.literals, found.raw_model is not None


def _segments(template: str) -> list[str]:
    """Cut a template; a verb is a segment of its own, with its colon."""
    *segments, last = template[1:].split("/")
    before, colon, verb = last.partition(":")
    return [*segments, before, colon + verb] if colon else [*segments, last]


def _pattern_of(template: str, route: Route) -> re.Pattern[str]:
    """Return a pattern for a template with a parameter that stands for several segments."""
    has_verbs = FAMILIES[route.family].has_verbs
    one = "[^/:]+" if has_verbs else "[^/]+"
    relayed_without_verb = has_verbs and ":" not in template and not route.is_local
    model = "(?P<model>(?:(?!%3[Aa])[^:])+)" if relayed_without_verb else "(?P<model>.+)"
    rest = ".*" if route.treatment in _ALSO_NOTHING else ".+"
    pieces: list[str] = []
    position = 0
    for match in _PARAMETER.finditer(template):
        before = re.escape(template[position : match.start()])
        position = match.end()
        if match[0] == "{model}":
            if template[position:].startswith(":"):  # Google's SDK dials tunedModels/… beside models/…
                before = before.removesuffix("models/") + "(?:models/|(?=tunedModels/))"
            pieces += (before, model)
        else:
            pieces += (before, rest if match[0] == "{path}" else one)
    # A colon that is percent-encoded begins a verb too: it must not pass as a part of the model's name.
    pieces.append(re.escape(template[position:]).replace(":", "(?::|%3[Aa])"))
    return re.compile("".join(pieces))
