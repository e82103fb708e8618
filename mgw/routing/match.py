"""From a method and a raw path to the row that serves it.

Exact paths are found in a dictionary, the others by one regular expression each.  A path that several
families have is decided by what the client's headers say (decisions, part 4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

from mgw.errors import GatewayError, Reason
from mgw.routing.route import Route
from mgw.vocabulary import VERSION_HEADERS, Dialect, Family
from mgw.wire.headers import RawHeaders
from mgw.wire.target import check_path

GEMINI_VERSIONS: Final = ("/v1beta", "/v1", "/v1alpha")
"""The prefixes under which Gemini's routes are served alike (decisions, part 4)."""

_GEMINI_PATH: Final = re.compile(r"^/(?:upload/)?(?:v1beta|v1alpha|ws)(?:/|$)|:[a-zA-Z]+$")
_VERB: Final = re.compile(r":[a-zA-Z]+$")
_ANTHROPIC_PATH: Final = re.compile(r"^/v1/messages(?:/|$)")
_OPENAI_PATH: Final = re.compile(r"^/beta/|^/v1/(?:chat|completions|responses|embeddings|moderations)(?:/|$)")
_DIALECT_OF: Final = MappingProxyType(
    {Family.ANTHROPIC: Dialect.ANTHROPIC, Family.GEMINI: Dialect.GEMINI, Family.OPENAI: Dialect.OPENAI}
)
_GEMINI_SIGNS: Final = frozenset({b"x-goog-api-key", b"x-goog-api-client"})


class Matched(Struct, frozen=True):
    """A row, and what the path says beyond it."""

    route: Route
    version: str
    """The version prefix of the client's path, without which it goes upstream."""
    model: str | None = None
    """The decoded model of the path."""
    fault: GatewayError | None = None
    """Why the request is refused all the same: another server may read its path as a different one."""


class _Row(Struct, frozen=True):
    route: Route
    version: str


class RouteTable:
    """Find rows; built once from the table.

    :param routes: the rows.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self._exact: dict[str, list[_Row]] = {}
        self._patterns: list[tuple[re.Pattern[str], _Row]] = []
        for route in routes:
            for path, version in _paths_of(route):
                row = _Row(route, version)
                if "{" in path:
                    self._patterns.append((_pattern_of(path), row))
                else:
                    self._exact.setdefault(path, []).append(row)
        # A row with a verb after the model comes before the one whose model would swallow it.
        self._patterns.sort(key=lambda entry: ":" not in entry[1].route.path)

    def match(self, method: str, raw_path: str, raw_query: bytes | None, headers: RawHeaders) -> Matched:
        """Return the row that serves this request.

        :param raw_path: as sent, percent-encoded.
        :param raw_query: as sent, or ``None``.
        :param headers: the request's; looked at only where the path does not decide alone.
        :raises GatewayError: ``UNKNOWN_ROUTE``, ``WRONG_METHOD`` with the methods that the path takes, or
            ``MALFORMED`` for a path without a row that another server may read as a different one.
        """
        found = self._exact.get(raw_path)
        if found is not None:
            row = _choose(_with_method(found, method, raw_path), raw_query, headers)
            return Matched(row.route, row.version)
        fault: GatewayError | None = None
        model: str | None = None
        try:
            check_path(raw_path.encode("latin-1"))
        except GatewayError as error:
            fault = error
        try:
            row, raw_model = self._find(method, raw_path, raw_query, headers)
        except GatewayError as error:
            raise fault or error from None
        try:
            model = _decoded(raw_model)
        except GatewayError as error:
            fault = fault or error
        return Matched(row.route, row.version, model, fault)

    def _find(
        self, method: str, raw_path: str, raw_query: bytes | None, headers: RawHeaders
    ) -> tuple[_Row, str]:
        matches = [
            (match, row)
            for pattern, row in self._patterns
            if (match := pattern.fullmatch(raw_path)) is not None
        ]
        if not matches:
            raise GatewayError(Reason.UNKNOWN_ROUTE, f"no route is served at {_shown(raw_path)}")
        verbs = [entry for entry in matches if ":" in entry[1].route.path]
        rows = _with_method([row for _, row in verbs or matches], method, raw_path)
        row = _choose(rows, raw_query, headers)
        return row, next(match["model"] for match, candidate in matches if candidate is row)


def _decoded(raw_model: str) -> str:
    try:
        return unquote(raw_model, errors="strict")
    except UnicodeDecodeError:
        raise GatewayError(Reason.MALFORMED, "the model in the path is not UTF-8", param="model") from None


def dialect_of(raw_path: str, raw_query: bytes | None, headers: RawHeaders) -> Dialect:
    """Return the dialect that a path suggests, for a refusal where no row tells it (decisions, part 4)."""
    if _ANTHROPIC_PATH.match(raw_path):
        return Dialect.ANTHROPIC
    if _GEMINI_PATH.search(raw_path):
        return Dialect.GEMINI
    family = None if _OPENAI_PATH.match(raw_path) else _family_of(raw_query, headers)
    return Dialect.OPENAI if family is None else _DIALECT_OF[family]


def _family_of(raw_query: bytes | None, headers: RawHeaders) -> Family | None:
    names = {name.lower() for name, _ in headers}
    if not VERSION_HEADERS.isdisjoint(names):
        return Family.ANTHROPIC
    if not _GEMINI_SIGNS.isdisjoint(names):
        return Family.GEMINI
    if raw_query is not None and (raw_query.startswith(b"key=") or b"&key=" in raw_query):
        return Family.GEMINI
    return None


def _choose(rows: list[_Row], raw_query: bytes | None, headers: RawHeaders) -> _Row:
    if len(rows) == 1:
        return rows[0]
    family = _family_of(raw_query, headers)
    for row in rows:
        if row.route.family is family:
            return row
    return rows[0]


def _with_method(rows: list[_Row], method: str, raw_path: str) -> list[_Row]:
    fitting = [row for row in rows if row.route.method == method]
    if not fitting and method == "HEAD":
        fitting = [row for row in rows if row.route.method == "GET"]
    if fitting:
        return fitting
    if _VERB.search(raw_path) and not any(":" in row.route.path for row in rows):
        raise GatewayError(Reason.UNKNOWN_ROUTE, f"no route is served at {_shown(raw_path)}")
    allow = sorted({row.route.method for row in rows})
    if "GET" in allow:
        allow.append("HEAD")
    raise GatewayError(
        Reason.WRONG_METHOD, f"{_shown(raw_path)} takes {', '.join(allow)}, not {method}", allow=tuple(allow)
    )


def _shown(raw_path: str) -> str:
    return raw_path if len(raw_path) <= 200 else f"{raw_path[:200]}…"


def _paths_of(route: Route) -> list[tuple[str, str]]:
    if route.path.startswith("/v1beta/"):
        rest = route.path.removeprefix("/v1beta")
        return [(version + rest, version) for version in GEMINI_VERSIONS]
    for version in ("/v1", "/beta"):
        if route.path.startswith(version + "/"):
            return [(route.path, version)]
    return [(route.path, "")]


def _pattern_of(path: str) -> re.Pattern[str]:
    before, _, after = path.partition("{model}")
    beginning = re.escape(before)
    if after:  # Google's SDK dials tunedModels/… beside models/…
        beginning = re.escape(before.removesuffix("models/")) + "(?:models/|(?=tunedModels/))"
    ending = re.escape(after).replace(":", "(?::|%3[Aa])")
    return re.compile(f"{beginning}(?P<model>.+){ending}")
