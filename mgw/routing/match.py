"""From a method and a raw path to a row of the route table.

A path that several families have is decided by what the client's headers say, else by the table of routes
(contract 4.13).  The family is settled before the method: a path never belongs to one family for reading
and to another for deleting.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.families import FAMILIES, UNSAID, shown_family
from mgw.nouns.secret import CREDENTIAL_STARTS, redact_patterns
from mgw.nouns.vocabulary import DialectName, Family
from mgw.routing.azure_paths import AZURE_PREFIX, find_azure_path, names_deployment
from mgw.routing.model_source import ModelAt
from mgw.routing.paths import PathIndex, PathMatch, templates_of
from mgw.routing.resources import group_of
from mgw.routing.route import ANY_METHOD, Route
from mgw.wire.headers import RawHeaders, value_of
from mgw.wire.target import check_path, query_value

_VERB: Final = re.compile(r"(?::|%3[Aa])[a-zA-Z]+$")
_NO_MODEL: Final = re.compile(r"(?P<models>.*/models/)(?::|%3[Aa])(?P<verb>[a-zA-Z]+)")
PROVIDER: Final = "provider"
"""The parameter that names the provider where no model does; it goes no further."""


class MatchedRoute(Struct, frozen=True):
    """A row, and what the path says beyond it."""

    route: Route
    version: str
    """The version prefix of the client's path, without which it goes upstream."""
    model: str | None = None
    """The decoded model of the path."""
    fault: GatewayError | None = None
    """Why the request is refused all the same: another server may read its path as a different one, or the
    operator denies the row."""
    of_azure: bool = False
    """Whether the path is one of Azure's for the row."""
    deployment: str | None = None
    """The decoded model of a path that names it in place of the body."""


class RouteTable:
    """Find rows; built once for each configuration.

    :param routes: the rows.
    :param denied: names of rows, of groups of them and of families that answer 404 (``routes.deny``).
    :param providers: the family of each provider, by its name.
    :param reasons: what is said of paths that lead to a group and are not served, because its rows are
        denied or have other paths; nothing is said of other groups.
    :param azure: the rows that Azure's paths lead to; ``None``: there are no such paths.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        denied: Collection[str] = frozenset(),
        providers: Mapping[str, Family] = MappingProxyType({}),
        reasons: Mapping[str, str] = MappingProxyType({}),
        azure: RouteTable | None = None,
    ) -> None:
        self._azure: Final = azure
        self._paths = PathIndex()
        self._providers: Final = providers
        self._reasons: Final = reasons
        self._denied: set[str] = set()
        self._families: dict[str, set[Family]] = {}
        self._exact: dict[str, list[PathMatch] | None] = {}
        """What fits the paths of templates without a parameter; ``None``: nobody has asked for one yet."""
        self._direct: dict[tuple[str, str], MatchedRoute] = {}
        """What can be said of such paths once and for all, by method and path, once they were asked for."""
        for route in routes:
            if is_denied(route, denied):
                self._denied.add(route.name)
            self._families.setdefault(group_of(route.path), set()).add(route.family)
            for template, version in templates_of(route):
                self._paths.add(template, version, route)
                if "{" not in template:
                    self._exact[template] = None

    def match(self, method: str, raw_path: str, raw_query: bytes | None, headers: RawHeaders) -> MatchedRoute:
        """Return the row that serves this request.

        :param raw_path: as sent, percent-encoded.
        :param raw_query: as sent, or ``None``.
        :param headers: the request's; looked at only where the path does not decide alone.
        :raises GatewayError: ``UNKNOWN_ROUTE``, ``WRONG_METHOD`` with the methods that the path takes, or
            ``MALFORMED`` for a path without a row that another server may read as a different one.
        """
        matched = self._direct.get((method, raw_path))
        if matched is not None:
            return matched
        if raw_path in self._exact:
            found = self._exact[raw_path] or self._learn(raw_path)
            return self._matched(self._chosen(found, method, raw_path, raw_query, headers), raw_path)
        if self._azure is not None and raw_path.startswith(AZURE_PREFIX):
            return _match_azure(self._azure, method, raw_path)
        fault: GatewayError | None = None
        try:
            check_path(raw_path.encode("latin-1"))
        except GatewayError as error:
            fault = error
        nameless = _NO_MODEL.fullmatch(raw_path)
        if nameless is not None and (named := self._with_verb(nameless)):
            matched = self._matched(
                self._chosen(named, method, raw_path, raw_query, headers), raw_path, fault
            )
            return replace(matched, fault=matched.fault or _no_model(nameless["verb"]))
        found = self._paths.find(raw_path)
        if not found:
            raise fault or self._nearly_known(raw_path, raw_query, headers)
        try:
            chosen = self._chosen(found, method, raw_path, raw_query, headers)
        except GatewayError as error:
            raise fault or error from None
        return self._matched(chosen, raw_path, fault)

    def _with_verb(self, nameless: re.Match[str]) -> list[PathMatch]:
        """Return the rows of a path that lacks nothing but its model."""
        found = self._paths.find(f"{nameless['models']}-:{nameless['verb']}")
        return [one for one in found if one.row.route.path.endswith(f":{nameless['verb']}")]

    def dialect_of(self, raw_path: str, raw_query: bytes | None, headers: RawHeaders) -> DialectName:
        """Return the dialect that a path suggests, for a refusal without a row (contract 4.1)."""
        if self._azure is not None and raw_path.startswith(AZURE_PREFIX):
            return FAMILIES[Family.OPENAI].dialect
        for row in FAMILIES.values():
            if row.path_sign is not None and row.path_sign.search(raw_path):
                return row.dialect
        found = self._paths.find(raw_path) or self._meant(raw_path)[0]
        if found:
            return FAMILIES[self._of_one_family(found, raw_query, headers)[0].row.route.family].dialect
        families = self._families.get(group_of(raw_path)) or set(Family)
        if len(families) == 1:
            return FAMILIES[next(iter(families))].dialect
        return FAMILIES[_shown_family(raw_query, headers) or UNSAID].dialect

    def rows_of(self, raw_path: str) -> Iterator[Route]:
        """Yield the rows that are served at a path, whatever the method and whoever asks."""
        try:
            check_path(raw_path.encode("latin-1"))
        except GatewayError:
            return
        if self._azure is not None and raw_path.startswith(AZURE_PREFIX):
            path = find_azure_path(raw_path, self._azure.serves_deployments)
            yield from () if path is None else self._azure.rows_of(path.own)
            return
        found = self._paths.find(raw_path)
        for family in {one.row.route.family for one in found}:
            theirs = _most_exact([one for one in found if one.row.route.family is family], raw_path)
            yield from (one.row.route for one in theirs if one.row.route.name not in self._denied)

    def serves_deployments(self, raw_path: str) -> bool:
        """Whether requests to a path name a model in their body, so that another path may name it."""
        return any(names_deployment(one.row.route) for one in self._paths.find(raw_path))

    def _nearly_known(self, raw_path: str, raw_query: bytes | None, headers: RawHeaders) -> GatewayError:
        """Return the refusal of a path without a row; it says which base address would lead to one."""
        found, meant, advice = self._meant(raw_path)
        reason = self._reasons.get(found[0].row.route.group if found else group_of(raw_path))
        if reason is not None:
            return unknown_endpoint(raw_path, f"; {reason}")
        if not found:
            return unknown_endpoint(raw_path)
        family = self._of_one_family(found, raw_query, headers)[0].row.route.family
        return unknown_endpoint(raw_path, _base_address_hint(_shown(meant), advice, family))

    def _meant(self, raw_path: str) -> tuple[list[PathMatch], str, str]:
        """Return the rows of a path that may have been meant, that path, and how to get there."""
        for meant, advice in _corrected_paths(raw_path):
            found = [one for one in self._paths.find(meant) if one.row.route.name not in self._denied]
            if found:
                return found, meant, advice
        return [], "", ""

    def _learn(self, path: str) -> list[PathMatch]:
        """Return what fits a path without a parameter, and note what can be said of it once and for all.

        That is more if it belongs to one family alone.
        """
        self._exact[path] = found = self._paths.find(path)
        if len({one.row.route.family for one in found}) == 1:
            for one in reversed(found):
                if one.row.literals == found[0].row.literals:
                    self._direct[one.row.route.method, path] = self._matched(one, path)
        return found

    def _chosen(
        self, found: list[PathMatch], method: str, raw_path: str, raw_query: bytes | None, headers: RawHeaders
    ) -> PathMatch:
        """Return the row for a method, of the family that a path is for this client."""
        theirs = self._of_one_family(found, raw_query, headers)
        try:
            return self._with_method(theirs, method, raw_path)
        except GatewayError as error:
            others = {one.row.route.family for one in found if one.row.route.method == method}
            if error.reason is not Reason.WRONG_METHOD or not others:
                raise
            whose = " or ".join(sorted(others))
            ours = theirs[0].row.route.family
            message = (
                f"{error.message} for {ours} clients; to use a provider of {whose}, name it: "
                "X-Provider, or ?provider="
            )
            raise GatewayError(error.reason, message, allow=error.allow) from None

    def _of_one_family(
        self, found: list[PathMatch], raw_query: bytes | None, headers: RawHeaders
    ) -> list[PathMatch]:
        """Return those rows of a path that belong to the family that it is for this client."""
        first = found[0].row.route.family
        if all(one.row.route.family is first for one in found):
            return found
        for family in (_shown_family(raw_query, headers), self._named_family(raw_query, headers)):
            theirs = [one for one in found if one.row.route.family is family]
            if theirs:
                return theirs
        exact = [one for one in found if one.row.literals == found[0].row.literals]
        preferred = next((one for one in exact if one.row.route.preferred), None)
        usual = next((one for one in exact if one.row.route.family is UNSAID), None)
        family = (preferred or usual or exact[0]).row.route.family
        return [one for one in found if one.row.route.family is family]

    def _named_family(self, raw_query: bytes | None, headers: RawHeaders) -> Family | None:
        """Return the family of the provider that a client names; an unknown one is refused later."""
        name = query_value(raw_query, PROVIDER)
        if name is None:
            header = value_of(headers, b"x-provider")
            name = None if header is None else header.decode("latin-1")
        return None if name is None else self._providers.get(name)

    def _with_method(self, found: list[PathMatch], method: str, raw_path: str) -> PathMatch:
        """Return the row that takes a method, of those that fit a path most exactly."""
        found = _most_exact(found, raw_path)
        for wanted in (method, "GET") if method == "HEAD" else (method,):
            for one in found:
                if one.row.route.method in (wanted, ANY_METHOD):
                    return one
        if _VERB.search(raw_path) and not any(":" in one.row.route.path for one in found):
            raise unknown_endpoint(raw_path)
        allow = sorted({one.row.route.method for one in found if one.row.route.name not in self._denied})
        if not allow:
            raise unknown_endpoint(raw_path)
        if "GET" in allow:
            allow.append("HEAD")
        message = f"{_shown(raw_path)} takes {', '.join(allow)}, not {method}"
        raise GatewayError(Reason.WRONG_METHOD, message, allow=tuple(allow))

    def _matched(self, chosen: PathMatch, raw_path: str, fault: GatewayError | None = None) -> MatchedRoute:
        route, raw_model = chosen.row.route, chosen.raw_model
        if fault is None and route.name in self._denied:
            reason = self._reasons.get(route.group)
            fault = unknown_endpoint(raw_path, "" if reason is None else f"; {reason}")
        model: str | None = None
        if raw_model is not None and route.models.at is ModelAt.PATH:
            try:
                model = unquote(raw_model, errors="strict")
            except UnicodeDecodeError:
                message = "the model in the path is not valid UTF-8"
                fault = fault or GatewayError(Reason.MALFORMED, message, param="model")
        return MatchedRoute(route, chosen.row.version, model, fault)


def _match_azure(table: RouteTable, method: str, raw_path: str) -> MatchedRoute:
    """Return the row of OpenAI's that one of Azure's paths leads to.

    :raises GatewayError: as :meth:`RouteTable.match` does.
    """
    check_path(raw_path.encode("latin-1"))
    path = find_azure_path(raw_path, table.serves_deployments)
    if path is None:
        raise unknown_endpoint(raw_path)
    try:
        matched = table.match(method, path.own, None, [])
    except GatewayError as error:
        if error.reason is Reason.UNKNOWN_ROUTE:
            raise unknown_endpoint(raw_path) from None
        raise
    if path.raw_model is None:
        return replace(matched, version=path.version, of_azure=True)
    if not names_deployment(matched.route):
        raise unknown_endpoint(raw_path)
    try:
        model = unquote(path.raw_model, errors="strict")
    except UnicodeDecodeError:
        message = "the model in the path is not valid UTF-8"
        raise GatewayError(Reason.MALFORMED, message, param="model") from None
    return replace(matched, version=path.version, of_azure=True, deployment=model)


def _most_exact(found: list[PathMatch], raw_path: str) -> list[PathMatch]:
    """Return those rows of one family that fit a path most exactly.

    What another row of the same family names by a word is no identifier.
    """
    if _VERB.search(raw_path) and any(":" in one.row.route.path for one in found):
        found = [one for one in found if ":" in one.row.route.path]
    return [one for one in found if one.row.literals == found[0].row.literals]


def is_denied(route: Route, denied: Collection[str]) -> bool:
    """Whether an operator switches a row off; what the gateway answers itself belongs to no family."""
    names = {route.name, route.group}
    if not route.is_local:
        names.add(route.family.value)
    return not names.isdisjoint(denied)


def _shown_family(raw_query: bytes | None, headers: RawHeaders) -> Family | None:
    """Return the family that a client shows itself to be of."""
    return shown_family(raw_query, frozenset(name.lower() for name, _ in headers))


def unknown_endpoint(raw_path: str, more: str = "") -> GatewayError:
    """Return the refusal of a path without a row.

    :param more: what else is said of it.
    """
    return GatewayError(Reason.UNKNOWN_ROUTE, f"no such endpoint: {_shown(raw_path)}{more}")


def _no_model(verb: str) -> GatewayError:
    message = f"the model is empty: write /models/<model>:{verb}"
    return GatewayError(Reason.MALFORMED, message, param="model")


_may_hold_credential: Final = re.compile(f"=|{CREDENTIAL_STARTS}").search
"""Strangers may ask often, and this costs no call."""


def _shown(raw_path: str) -> str:
    shown = raw_path if len(raw_path) <= 200 else f"{raw_path[:200]}…"
    return shown if _may_hold_credential(shown) is None else redact_patterns(shown)


_SLASHES: Final = re.compile(r"/{2,}")
_VERSIONED: Final = re.compile(r"(/(?:v1|v1beta|v1alpha|beta))(/.+)")
_LITERAL_VERB: Final = re.compile(r":[A-Za-z]+$")


def _corrected_paths(raw_path: str) -> Iterator[tuple[str, str]]:
    """Yield paths that may have been meant, each with what to do to the base address (contract 6.11).

    OpenAI's SDKs take an address with ``/v1`` and add ``/chat/completions``; Anthropic's take the bare origin
    and add ``/v1/messages``; Google's take the bare origin and add a version of their own.  Whoever mixes
    them up asks for ``/v1/v1/messages`` or ``/chat/completions``.
    """
    tidy = _SLASHES.sub("/", raw_path).rstrip("/")
    if tidy != raw_path:
        yield tidy, "remove the slash from the end of the base URL"
    versioned = _VERSIONED.fullmatch(tidy)
    if versioned is not None:
        yield versioned[2], f"remove {versioned[1]} from the end of the base URL"
    elif tidy:
        version = "/v1beta" if _LITERAL_VERB.search(tidy) else "/v1"
        yield version + tidy, f"add {version} to the end of the base URL"


def _base_address_hint(raw_path: str, advice: str, family: Family) -> str:
    """Return what follows the words that there is no such endpoint.

    :param raw_path: of those that :func:`_corrected_paths` yields, the one that is served.
    """
    return f"; for {raw_path}, {advice} ({FAMILIES[family].sdk_base})"
