"""Bodies of clients that may use some models only: the gateway and providers must read them alike.

A permission holds for what was checked, so a request is refused if some provider would find another model in
it: in JSON that is not valid, under a key that is stated twice or in another case, in the query of a route
whose model stands elsewhere, or in a body that the ``Content-Type`` makes it read by other rules.  For a
client that may use every model, none of this is done: its bytes are the provider's to refuse.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from mgw.bodies.source import BodySource, read_all, read_pieces
from mgw.exchange.body import MAX_PART_BYTES, MODELS, RequestBody, decode_body
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import SMALL_BYTES, maybe_offload
from mgw.exchange.target_resolution import MODEL, check_query
from mgw.memo.client_request import ClientRequest
from mgw.nouns.errors import GatewayError, Reason
from mgw.routing.model_source import ModelAt
from mgw.routing.route import Route, Treatment
from mgw.wire.headers import values_of
from mgw.wire.json_spans import FoundString
from mgw.wire.media_types import FORM, JSON, media_type
from mgw.wire.multipart import feed_whole
from mgw.wire.nested_strings import JsonPath, NestedString
from mgw.wire.target import query_value
from mgw.wire.unambiguous_form import UnambiguousFormReader, find_unambiguous_in_part
from mgw.wire.unambiguous_json import find_unambiguous_strings

_ONE: Final[JsonPath] = ("model",)
_OFFER: Final = b"application/sdp"
"""The offer of a call, whose model is in the query."""
_READ_AS_JSON: Final = re.compile(rb"application/(?:[!-~]+\+)?json|text/(?:json|plain)")
_CHARSET: Final = re.compile(rb'charset\*?[0-9*]*[ \t]*=[ \t"]*([^\s";,]*)', re.IGNORECASE)
_LIKE_ASCII: Final = frozenset(
    {b"utf-8", b"utf8", b"us-ascii", b"ascii", b"iso-8859-1", b"latin1", b"windows-1252"}
)
"""The encodings in which JSON says the same as in UTF-8, but for letters that are in no key."""
_RAW_OR_WRAPPED: Final = b"deflate"
"""Some take it for a bare stream, some for one of zlib's: it is sent on as the gateway has read it."""


async def open_restricted_body(
    exchange: Exchange, request: ClientRequest, original: bytes | BodySource
) -> RequestBody:
    """Read a body as far as its route may name models in it, and find them.

    :raises GatewayError: ``MALFORMED``, where some provider may find others; ``BODY_TOO_LARGE`` or
        ``OVERLOADED``.
    """
    route = exchange.route
    has_body = not isinstance(original, bytes) or bool(original)
    _check_head(exchange, request, has_body=has_body)
    in_form = route.models.at is ModelAt.FORM and _media_of(request) == FORM
    if not isinstance(original, bytes):
        if in_form and not request.content_codings:
            reader = _form_reader(route, request)
            await read_pieces(original, reader.feed)
            return _find_in_parts(route, request, RequestBody(original), reader)
        exchange.reserve(original.size)
        original = await read_all(original)
    body = await decode_body(exchange, request, original)
    read = partial(_read, route, request, original, body)
    return await maybe_offload(exchange.offload, read, large=len(body) > SMALL_BYTES)


def read_small_restricted(exchange: Exchange, request: ClientRequest, body: bytes) -> RequestBody | None:
    """Do what :func:`open_restricted_body` does for a body without a content coding, if it names one model.

    :returns: ``None``, where it names others, too, or is not small.
    :raises GatewayError: ``MALFORMED``.
    """
    if len(body) > SMALL_BYTES:
        return None
    findings = exchange.generation.memo.findings.get(request.head_number)
    if findings is None or not findings.is_unambiguous:
        _check_head(exchange, request, has_body=bool(body))
    opened = _read(exchange.route, request, body, body)
    return None if opened.nested or opened.names_others else opened


def _read(route: Route, request: ClientRequest, original: bytes, body: bytes) -> RequestBody:
    """Find the models in a body, which has no content coding any more."""
    opened = RequestBody(original, body)
    if body is not original:
        opened.encoded = True
        opened.is_changed = any(_RAW_OR_WRAPPED in coding.lower() for coding in request.content_codings)
    if route.names_one_model:
        found = find_unambiguous_strings(body, _ONE, *route.models.others)
        if len(found) == 1 and found[0].path == _ONE:  # as nearly always
            opened.model = FoundString(found[0].value, (found[0].span,))
            return opened
        opened.model = _one_of([one for one in found if one.path == _ONE])
        opened.names_others = any(one.path != _ONE for one in found)
    elif route.models.at is ModelAt.FORM:
        _read_form(route, request, opened, body)
    elif body:
        paths = route.models.paths or (_ONE,)
        found = find_unambiguous_strings(body, *paths, *route.models.others)
        opened.nested = tuple(one for one in found if _ends_at(one, paths))
        opened.names_others = len(opened.nested) < len(found)
        if not route.models.paths:
            _check_repetition(route, request, opened.nested)
    return opened


def _check_head(exchange: Exchange, request: ClientRequest, *, has_body: bool) -> None:
    """Refuse a query and a ``Content-Type`` by which some provider finds another model."""
    check_query(exchange.route, request.raw_query)
    if has_body:
        _check_media(exchange.route, request)
        findings = exchange.generation.memo.findings.get(request.head_number)
        if findings is not None:
            findings.is_unambiguous = True


def _check_media(route: Route, request: ClientRequest) -> None:
    """Refuse a ``Content-Type`` by which some provider reads the body in another way."""
    stated = values_of(request.headers, b"content-type")
    if len(stated) > 1:
        raise _media_error("Content-Type appears more than once")
    media = media_type(stated[0]) if stated else b""
    if route.models.at is ModelAt.FORM:
        if media not in (FORM, JSON) and not (media == _OFFER and route.models.in_query):
            raise _media_error("the body must be multipart/form-data or application/json")
    elif stated and _READ_AS_JSON.fullmatch(media) is None:
        raise _media_error("the body must be application/json")
    if stated and any(found.lower() not in _LIKE_ASCII for found in _CHARSET.findall(stated[0])):
        raise _media_error("the body must be in UTF-8")


def _form_reader(route: Route, request: ClientRequest) -> UnambiguousFormReader:
    return UnambiguousFormReader(
        _content_type(request), route.models.form_part, MAX_PART_BYTES, route.models.others
    )


def _find_in_parts(
    route: Route, request: ClientRequest, opened: RequestBody, reader: UnambiguousFormReader
) -> RequestBody:
    """Find the models of a form that has been read."""
    part = reader.finish()
    if reader.further:
        opened.others, opened.in_form = tuple(reader.further), True
    if part is None:
        return opened
    if route.models.paths:
        opened.nested = tuple(find_unambiguous_in_part(part, *route.models.paths))
        _check_query_repetition(route, request, opened)
    else:
        opened.model, opened.in_form = part, True
    return opened


def _read_form(route: Route, request: ClientRequest, opened: RequestBody, body: bytes) -> None:
    """Find the models of a form, or of JSON that has a member for each of its parts."""
    media = _media_of(request)
    if media == FORM:
        reader = _form_reader(route, request)
        feed_whole(reader, body)
        _find_in_parts(route, request, opened, reader)
    elif not body or media == _OFFER:
        return
    elif route.models.paths:
        paths = [(route.models.form_part, *path) for path in route.models.paths]
        opened.nested = tuple(find_unambiguous_strings(body, *paths, _ONE))
        _check_query_repetition(route, request, opened)
    else:
        found = find_unambiguous_strings(body, _ONE, *route.models.others)
        opened.model = _one_of([one for one in found if one.path == _ONE])
        opened.names_others = any(one.path != _ONE for one in found)


def _check_query_repetition(route: Route, request: ClientRequest, opened: RequestBody) -> None:
    """Refuse a query whose model is another than the body's: of two, each provider chooses its own."""
    asked = query_value(request.raw_query, MODEL) if route.models.in_query else None
    if asked is not None and opened.nested and any(one.value != asked for one in opened.nested):
        raise GatewayError(Reason.MALFORMED, "the query and the body name different models", param=MODEL)


def _check_repetition(route: Route, request: ClientRequest, named: tuple[NestedString, ...]) -> None:
    """Refuse a model in a body that needs none, unless it repeats the one of the path."""
    asked = (request.path_model or "").removeprefix(MODELS)
    for one in named:
        if one.value.removeprefix(MODELS) != asked or route.treatment is Treatment.SPEECH:
            message = f"the model for {route.path} is in the path: remove it from the body"
            raise GatewayError(Reason.MALFORMED, message, param=one.name)


def _one_of(named: list[NestedString]) -> FoundString | None:
    """Return the one model that these are."""
    return FoundString(named[0].value, tuple(one.span for one in named)) if named else None


def _ends_at(found: NestedString, paths: tuple[JsonPath, ...]) -> bool:
    return tuple(None if isinstance(step, int) else step for step in found.path) in paths


def _content_type(request: ClientRequest) -> bytes:
    stated = values_of(request.headers, b"content-type")
    return stated[0] if stated else b""


def _media_of(request: ClientRequest) -> bytes:
    return media_type(_content_type(request))


def _media_error(message: str) -> GatewayError:
    return GatewayError(Reason.MALFORMED, message, param="Content-Type")
