"""Finds the routes of a path: exact ones by a dict, those with wildcards by a tree of segments.

A template's ``{}`` stands for one segment, ``{...}`` for all that are left, and either may be followed by a
verb: ``/v1beta/batches/{}:cancel``.  What is exact goes before what is wild, a verb before none.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

from mgw_sim.api import Answer, Family, Request

WEBSOCKET: Final = "WEBSOCKET"
"""Stands in the place of the method on the routes of those that ask to upgrade."""


class BodyKind(Enum):
    """Which bodies a route takes."""

    NOTHING = "nothing"
    JSON = "json"
    ANY = "any"
    """JSON, a form, bytes, or none at all."""


class Route(Struct, frozen=True):
    """One method of one path of one vendor."""

    family: Family
    method: str
    template: str
    handler: Callable[[Request], Answer]
    body_kind: BodyKind = BodyKind.ANY
    names_model: bool = False
    """The last wildcard is a model."""
    is_upload: bool = False
    """What comes with a known ``upload_id`` needs no credential."""


Routes = dict[Family, dict[str, Route]]
"""What stands at one path: each vendor's routes by their methods."""


class RouteMatch(Struct, frozen=True):
    """The routes of a path, and what stands in the place of the wildcards."""

    routes: Routes
    ids: tuple[str, ...] = ()


@dataclass(slots=True)
class _Node:
    """A place in the tree: what follows by its text, any one segment, and what takes the rest."""

    literals: dict[str, "_Node"] = field(default_factory=dict)
    single: "_Node | None" = None
    here: Routes = field(default_factory=dict)
    verbs: dict[str, Routes] = field(default_factory=dict)
    rest: Routes = field(default_factory=dict)
    rest_verbs: dict[str, Routes] = field(default_factory=dict)

    def find(self, segments: list[str], at: int) -> RouteMatch | None:
        """The routes for the segments from ``at`` on."""
        if at == len(segments):
            return RouteMatch(self.here) if self.here else None
        segment, left = segments[at], "/".join(segments[at:])
        literal = self.literals.get(segment)
        match = literal.find(segments, at + 1) if literal else None
        if match is None and at == len(segments) - 1:
            match = _with_verb(self.verbs, segment)
        match = match or _with_verb(self.rest_verbs, left) or self._any_one(segments, at)
        return match or (RouteMatch(self.rest, (left,)) if self.rest and left else None)

    def _any_one(self, segments: list[str], at: int) -> RouteMatch | None:
        """The routes below a wildcard for one segment."""
        if self.single is None or not segments[at]:
            return None
        inner = self.single.find(segments, at + 1)
        return inner and RouteMatch(inner.routes, (segments[at], *inner.ids))


def _with_verb(verbs: dict[str, Routes], text: str) -> RouteMatch | None:
    name, colon, verb = text.rpartition(":")
    routes = verbs.get(verb) if colon and name else None
    return RouteMatch(routes, (name,)) if routes else None


class Router:
    """All routes of all vendors."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._exact: dict[str, Routes] = {}
        self._root = _Node()
        for route in routes:
            for place in self._places(route.template):
                place.setdefault(route.family, {})[route.method] = route

    def find(self, raw_path: str) -> RouteMatch | None:
        """The routes of a path as it was sent, or None."""
        routes = self._exact.get(raw_path)
        if routes is not None:
            return RouteMatch(routes)
        return self._root.find([unquote(segment) for segment in raw_path.split("/")], 0)

    def _places(self, template: str) -> list[Routes]:
        """Where the routes of a template stand."""
        node = self._root
        *leading, last = template.split("/")
        for segment in leading:
            node = _child(node, segment)
        name, _, verb = last.partition(":")
        if name == "{...}":
            return [node.rest_verbs.setdefault(verb, {}) if verb else node.rest]
        if name == "{}" and verb:
            return [node.verbs.setdefault(verb, {})]
        here = _child(node, last).here
        return [here] if "{" in template else [here, self._exact.setdefault(template, {})]


def _child(node: _Node, segment: str) -> _Node:
    if segment != "{}":
        return node.literals.setdefault(segment, _Node())
    if node.single is None:
        node.single = _Node()
    return node.single
