"""A relayed request, as far as its head and model determine it.

Clients repeat their heads, so what is made of one is kept with it (in its
:class:`~mgw.exchange.request.ClientRequest`): then a request costs a look-up, and its body.

Heads that differ may still be the same upstream, since few of their lines go there.  So where requests of one
path and one model go is kept with the configuration (:class:`PreparedTarget`), and with it what is sent for
those lines: a head that never came before costs the choice of its lines.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec.json import encode

from mgw.credentials.provider import Credential
from mgw.exchange.body import takes_list
from mgw.exchange.request import MAX_MODEL_CHARS, MAX_VARYING, ClientRequest
from mgw.exchange.target_resolution import MODEL
from mgw.exchange.upstream_headers import forwarded_headers, forwarded_names, provider_headers
from mgw.generation import Generation
from mgw.nouns.families import FAMILIES
from mgw.nouns.vocabulary import Family, Modality
from mgw.routing.match import PROVIDER
from mgw.routing.resolve import Target
from mgw.routing.route import ModelAt, Route
from mgw.upstream.address import call_target
from mgw.upstream.client import Upstream, UpstreamRequest
from mgw.wire.headers import RawHeaders, request_headers
from mgw.wire.target import quote_model_path, replace_parameter, without_parameter

_PROVIDER_PARAMETER: Final = frozenset({PROVIDER})
_VERSION: Final = re.compile(r"^/v1(?:beta)?(?=/)")
_TUNED_MODELS: Final = re.compile(rb"^/models/tunedModels(?:/|%2[Ff])")
_MARKS: Final = tuple(b"\x01%d\x01" % number for number in range(MAX_VARYING))
"""Stand where the values of one request will; no value of a header can hold such a character."""
_EMPTY_BODY: Final = b"0\r\n\r\n"
"""How the head of a request ends that takes a body and has none."""
MAX_TARGETS: Final = 512
"""With all that is sent there, which clients may make long, they take thirty megabytes at the most."""
MAX_HEADS: Final = 8
"""Of each target; the lines of one client and one library are nearly always the same."""
_MAX_HEAD_BYTES: Final = 2048
_MAX_PATH_BYTES: Final = 1024


class PreparedHead:
    """The head that is sent for one head of a client's, but for the length of the body.

    :param headers: from :func:`headers_for`, and what is added to them.
    """

    __slots__ = ("_credential", "_head", "_headers", "method", "target", "upstream_target")

    def __init__(self, method: bytes, target: Target, upstream_target: bytes, headers: RawHeaders) -> None:
        self.method = method
        self.target = target
        self.upstream_target = upstream_target
        self._headers = headers
        self._credential: Credential | None = None
        self._head = b""

    def head(self, credential: Credential, upstream: Upstream, size: int, values: tuple[bytes, ...]) -> bytes:
        """Return the head to send with a body of ``size`` bytes.

        :param values: of the headers that vary between requests.
        :raises GatewayError: ``MALFORMED``, where it cannot be written.
        """
        if credential is not self._credential:
            headers = provider_headers(list(self._headers), self.target.provider, credential)
            rendered = upstream.render_head(UpstreamRequest(self.method, self.upstream_target, headers))
            self._head, self._credential = rendered.removesuffix(_EMPTY_BODY), credential
        head = self._head
        for mark, value in zip(_MARKS, values):  # noqa: B905  there are more marks than values
            head = head.replace(mark, value, 1)
        return b"%b%d\r\n\r\n" % (head, size)


class PreparedRequest(PreparedHead):
    """What is sent for one head and one model, but for the body and its length.

    :param headers: the client's that go upstream, with marks in place of the values that vary.
    """

    __slots__ = ("keepalive_seconds", "model_literal", "takes_list")

    def __init__(self, prepared: PreparedTarget, headers: RawHeaders) -> None:
        super().__init__(prepared.method, prepared.target, prepared.upstream_target, headers)
        self.keepalive_seconds = prepared.keepalive_seconds
        self.model_literal = prepared.model_literal
        self.takes_list = prepared.takes_list


class PreparedTarget:
    """Where requests of one path and one model go, and what they have in common there.

    :param keepalive_seconds: between signs of life in a stream that comes back, if there are any.
    """

    __slots__ = (
        *("_client", "_forward", "_requests", "keepalive_seconds", "method", "model_literal"),
        *("takes_list", "target", "upstream_target"),
    )

    def __init__(
        self, route: Route, target: Target, request: ClientRequest, keepalive_seconds: float | None
    ) -> None:
        self.method = request.method
        self.target = target
        self.upstream_target = upstream_target(route, target, request)
        self.keepalive_seconds = keepalive_seconds
        asked, model = target.asked_model, target.upstream_model
        self.model_literal = None if model is None or model == asked else encode(model)
        """What stands in the body in place of the model that was asked for, if that is another."""
        self.takes_list = takes_list(route, target)
        """Whether a body may hold a list of models, to be looked at each time."""
        self._client = route.family
        self._forward = forwarded_names(target.provider)
        self._requests: dict[tuple[tuple[bytes, bytes], ...], PreparedRequest] = {}
        """By the headers that are sent."""

    def request_for(self, request: ClientRequest) -> PreparedRequest:
        """Return what is sent for a client's head."""
        if request.varying:
            headers = headers_for(request, self._client, self.target)
        else:
            family = self.target.family
            headers = request_headers(
                request.headers, client=self._client, target=family, forward=self._forward
            )
        sent = tuple(headers)
        return self._requests.get(sent) or self._prepare(sent, headers)

    def _prepare(self, sent: tuple[tuple[bytes, bytes], ...], headers: RawHeaders) -> PreparedRequest:
        """Make it, and keep it if it is of a usual size; the oldest makes room."""
        prepared = PreparedRequest(self, headers)
        if sum([len(name) + len(value) for name, value in headers]) <= _MAX_HEAD_BYTES:
            if len(self._requests) >= MAX_HEADS:
                del self._requests[next(iter(self._requests))]
            self._requests[sent] = prepared
        return prepared


def find_target(
    generation: Generation, route: Route, request: ClientRequest, asked: str | None
) -> PreparedTarget | Target | None:
    """Return where requests like this one go, if one has come before; a bare target translates them."""
    found: PreparedTarget | Target | None = generation.prepared_targets.get(
        (route.name, request.raw_path, request.raw_query, asked)
    )
    return found


def keep_target(
    generation: Generation, route: Route, request: ClientRequest, found: PreparedTarget | Target
) -> None:
    """Remember where requests like this one go, if their headers have no say in it; the oldest makes room."""
    target = found.target if isinstance(found, PreparedTarget) else found
    asked, path, query = target.asked_model, request.raw_path, request.raw_query
    if asked is None or route.modality is Modality.PLATFORM or not request.is_plain:
        return
    if len(asked) > MAX_MODEL_CHARS or len(path) + len(query or b"") > _MAX_PATH_BYTES:
        return
    targets, key = generation.prepared_targets, (route.name, path, query, asked)
    if len(targets) >= MAX_TARGETS and key not in targets:
        del targets[next(iter(targets))]
    targets[key] = found


def headers_for(request: ClientRequest, client: Family, target: Target) -> RawHeaders:
    """Return the client's headers that go to the target, with marks in place of the values that vary."""
    marked = request.with_values(_MARKS[: len(request.varying)]) if request.varying else request
    return forwarded_headers(marked, client, target)


def upstream_target(route: Route, target: Target, request: ClientRequest) -> bytes:
    """Return the path and the query of a request that is passed on."""
    query = request.raw_query
    optional = route.model_optional or route.instead_of_model is not None
    if optional or route.modality is Modality.PLATFORM:
        query = without_parameter(query, _PROVIDER_PARAMETER)
    if route.model_at is ModelAt.QUERY or route.query_model:
        query = _with_model(query, target)
    path = _path(route, target, request)
    if route.upstream_origin:
        return path if query is None else path + b"?" + query
    return call_target(
        target.provider,
        path,
        query,
        prefix=route.upstream_prefix.encode(),
        version=(route.upstream_version or "").encode(),
    )


def _with_model(query: bytes | None, target: Target) -> bytes | None:
    """Return the query with the provider's own name of the model that it names."""
    model = target.upstream_model
    if query is None or model is None or model == target.asked_model:
        return query
    return replace_parameter(query, MODEL, target.asked_model or "", model)


def _path(route: Route, target: Target, request: ClientRequest) -> bytes:
    if route.upstream_path is not None:
        return route.upstream_path.encode()
    model, verb = target.upstream_model, route.upstream_verb
    if route.model_at is not ModelAt.PATH or (model == request.path_model and verb is None):
        path = request.raw_path[len(request.version) :]
    else:
        before, _, after = _VERSION.sub("", route.path).partition("{model}")
        after = after if verb is None else f":{verb}"
        named = quote_model_path(model or "", FAMILIES[route.family].id_characters)
        path = before.encode() + named + after.encode()
    # Google has tuned models beside the others, not below them.
    return _TUNED_MODELS.sub(b"/tunedModels/", path)
