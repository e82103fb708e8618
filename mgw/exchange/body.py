"""A request body, opened once: its bytes, the models that it names, and the edits for the upstream.

Most bodies are JSON with the model at the top.  Platform bodies may name none, or several deep within; forms
name it in a part.  Whatever is replaced is an edit at its own position (contract 5.1 to 5.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec.json import encode

from mgw.bodies.source import BodySource, edit_source, read_all, read_pieces
from mgw.bodies.spliced import SplicedBody
from mgw.dialects import dialect_of
from mgw.dialects.dialect import AskedUsage
from mgw.dialects.foreign_history import TAG_BYTES, clean_history
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import CODED_BYTES, SEARCHED_BYTES, SMALL_BYTES, maybe_offload
from mgw.memo.client_request import ClientRequest
from mgw.nouns.vocabulary import Modality
from mgw.routing.model_source import MODEL_LIST, ModelAt
from mgw.routing.resolve import Target
from mgw.routing.route import Route, Treatment
from mgw.wire.byte_search import holds
from mgw.wire.encodings import decode_content
from mgw.wire.headers import value_of
from mgw.wire.json_document import Span
from mgw.wire.json_spans import Edit, FoundString, apply_edits, edited_parts, find_model
from mgw.wire.media_types import FORM, JSON, media_type
from mgw.wire.multipart import FormReader, find_nested_in_part, find_part, part_edits
from mgw.wire.nested_strings import NestedString, find_nested_strings
from mgw.wire.unambiguous_json import find_unambiguous_strings

_TREATMENTS_WITH_HISTORY: Final = frozenset({Treatment.CHAT, Treatment.COUNT})
MAX_PART_BYTES: Final = 64 * 1024
"""The longest part of a form that is read."""
MANY_MODELS: Final = 1000
COPIED_BYTES: Final = 16 * 1024
"""A body up to this size is put together anew where something of it is replaced."""
_MAX_SPLICED: Final = 64
"""And so is one with more edits: many parts cost more than one."""
LIST_MARKER: Final = b'"models"'
"""Is in every body with such a list, and in hardly any other: within a string, its quotes are escaped."""
MODELS: Final = "models/"
"""A prefix that some of Google's clients put before a model's name."""


@dataclass(slots=True, repr=False, eq=False)
class RequestBody:
    """A request body as the client sent it and as it reads, the models found in it, and the edits."""

    original: bytes | BodySource
    decoded: bytes | None = None
    """The bytes without any content coding, where all of them were needed."""
    model: FoundString | None = None
    """The one model that the body names."""
    nested: tuple[NestedString, ...] = ()
    """The models that it names deep within, or beside its path."""
    others: tuple[NestedString, ...] = ()
    """The models that it names beside the one, which the provider may use as well."""
    names_others: bool = False
    """Whether there are any, where that was looked for before :attr:`others` were."""
    listed: tuple[str, ...] = ()
    """What the provider calls those of :attr:`others` that may answer in place of the one."""
    in_form: bool = False
    """Whether :attr:`model` and :attr:`others` are values of a form's parts."""
    encoded: bool = False
    """Whether ``original`` has a content coding that ``decoded`` has not."""
    is_changed: bool = False
    """Whether ``decoded`` is no longer what the client sent: stripped of history, or transformed."""
    edits: list[Edit] = field(default_factory=list)
    _effective_models: dict[tuple[str | int, ...], NestedString] | None = None
    _edited: bytes | SplicedBody | None = None

    @property
    def has_many_models(self) -> bool:
        """Whether it names so many models that resolving them takes long."""
        return len(self.nested) > MANY_MODELS

    def rename(self, new: str, *, everywhere: bool = False) -> None:
        """Replace the one model; nothing happens where it has that name.

        :param everywhere: whether it is replaced where it is stated more than once, be it under that name at
            last: some server may read the first.
        """
        found = self.model
        if found is None:
            return
        if everywhere and len(found.spans) > 1:
            literal = new.encode() if self.in_form else encode(new)
            self.edits += [(span, literal) for span in found.spans]
        elif found.value == new:
            return
        elif self.in_form:
            self.edits += part_edits(found, new)
        else:
            literal = encode(new)
            self.edits += [(span, literal) for span in found.spans]

    @property
    def effective_models(self) -> dict[tuple[str | int, ...], NestedString]:
        """The nested models by their place: of several at one place the last one counts."""
        if self._effective_models is None:
            self._effective_models = {nested.path: nested for nested in self.nested}
        return self._effective_models

    def rename_nested(self, new_at: Mapping[tuple[str | int, ...], str]) -> None:
        """Replace nested models, and those beside the one, by their places, each time that one is stated."""
        for nested in (*self.nested, *self.others):
            new = new_at.get(nested.path, nested.value)
            if nested.value != new:
                self.edits.append((nested.span, new.encode() if self.in_form else encode(new)))

    def upstream_body(self) -> tuple[bytes | BodySource, bool]:
        """Return the body to send, and whether it is no longer encoded as the client sent it."""
        if self.decoded is None:
            assert not isinstance(self.original, bytes) or not self.edits, "what is edited was looked at"
            original = self.original
            return (original if isinstance(original, bytes) else edit_source(original, self.edits)), False
        if not self.edits and not self.is_changed:
            return self.original, False
        if self._edited is None:  # once, however many credentials are tried
            self._edited = edited_body(self.decoded, self.edits)
        return self._edited, self.encoded


def edited_body(body: bytes, edits: Sequence[Edit]) -> bytes | SplicedBody:
    """Return a body with the edits made, which do not overlap; the same object where there are none."""
    if len(body) <= COPIED_BYTES or not 0 < len(edits) <= _MAX_SPLICED:
        return apply_edits(body, edits)
    return SplicedBody.of(body, edited_parts(body, edits))


def renamed_body(body: bytes, spans: Sequence[Span], literal: bytes) -> bytes | SplicedBody:
    """Return a body with the same at each of the spans."""
    return edited_body(body, [(span, literal) for span in spans])


async def open_body(exchange: Exchange, request: ClientRequest, original: bytes | BodySource) -> RequestBody:
    """Read the body as far as its route needs it, and find the models in it.

    :raises GatewayError: ``MALFORMED``, ``BODY_TOO_LARGE`` or ``OVERLOADED``.
    """
    route = exchange.route
    if route.names_one_model:
        assert isinstance(original, bytes), "JSON that is inspected is kept in memory"
        if not request.content_codings and len(original) <= SEARCHED_BYTES:
            return RequestBody(original, original, find_model(original))
        body = await decode_body(exchange, request, original)
        find = partial(find_model, body)
        model = await maybe_offload(exchange.offload, find, large=len(body) > SEARCHED_BYTES)
        return RequestBody(original, body, model, encoded=body is not original)
    if route.models.at is ModelAt.FORM:
        return await _read_form(exchange, request, original)
    if route.models.paths and (route.models.at is not ModelAt.PATH or route.modality is Modality.PLATFORM):
        return await find_nested_models(exchange, request, original)
    return RequestBody(original, original if isinstance(original, bytes) else None)


async def find_nested_models(
    exchange: Exchange, request: ClientRequest, original: bytes | BodySource
) -> RequestBody:
    """Find the models that stand deep within a body.

    :raises GatewayError: ``MALFORMED``, ``BODY_TOO_LARGE`` or ``OVERLOADED``.
    """
    assert isinstance(original, bytes), "JSON that is inspected is kept in memory"
    body = await decode_body(exchange, request, original)
    find = partial(_nested_in, exchange.route, body)
    found = await maybe_offload(exchange.offload, find, large=len(body) > SMALL_BYTES)
    return RequestBody(original, body, nested=found, encoded=body is not original)


async def find_other_models(exchange: Exchange, target: Target, opened: RequestBody) -> None:
    """Find the models that a body names beside the one, where the provider may use them.

    For a client that may use every model, these are the lists of hosts that take one.

    :raises GatewayError: ``MALFORMED``.
    """
    body, route = opened.decoded, exchange.route
    if body is None or not route.models.others:
        return
    if exchange.is_restricted:
        if not opened.names_others:
            return
        find = partial(find_unambiguous_strings, body, *route.models.others)
    elif takes_list(route, target) and not _is_alone(opened) and holds(body, LIST_MARKER):
        find = partial(find_nested_strings, body, MODEL_LIST)
    else:
        return
    opened.others = tuple(await maybe_offload(exchange.offload, find, large=len(body) > SMALL_BYTES))


def _is_alone(opened: RequestBody) -> bool:
    """Whether no list of models is known to stand beside the one."""
    return opened.model is not None and opened.model.is_alone


def takes_list(route: Route, target: Target) -> bool:
    """Whether a provider may be given a list of models, one of which it chooses."""
    return MODEL_LIST in route.models.others and target.provider.row.takes_model_list


def _nested_in(route: Route, body: bytes) -> tuple[NestedString, ...]:
    return tuple(find_nested_strings(body, *route.models.paths)) if body else ()


async def _read_form(exchange: Exchange, request: ClientRequest, body: bytes | BodySource) -> RequestBody:
    """Find the model of a form, or of the JSON that some clients send in its place.

    A form on disk is walked piece by piece.  What has a content coding is small enough to be unpacked.
    """
    content_type = value_of(request.headers, b"content-type") or b""
    media = media_type(content_type)
    if not isinstance(body, bytes) and (media == JSON or request.content_codings):
        exchange.reserve(body.size)
        body = await read_all(body)
    if media not in (JSON, FORM):
        return RequestBody(body, body if isinstance(body, bytes) else None)  # the provider's to refuse
    if not isinstance(body, bytes):
        reader = FormReader(content_type, exchange.route.models.form_part, MAX_PART_BYTES)
        await read_pieces(body, reader.feed)
        return _find_in_part(exchange.route, RequestBody(body), reader.finish())
    whole = await decode_body(exchange, request, body)
    opened = RequestBody(body, whole, encoded=whole is not body)
    if media == JSON:
        find = partial(_find_in_json, exchange.route, opened, whole)
    else:
        find = partial(_find_in_form, exchange.route, opened, whole, content_type)
    return await maybe_offload(exchange.offload, find, large=len(whole) > SMALL_BYTES)


def _find_in_form(route: Route, opened: RequestBody, body: bytes, content_type: bytes) -> RequestBody:
    return _find_in_part(route, opened, find_part(body, content_type, route.models.form_part, MAX_PART_BYTES))


def _find_in_json(route: Route, opened: RequestBody, body: bytes) -> RequestBody:
    """Find the model of a form's route in JSON, which has a member for each part."""
    if not body:
        return opened
    if route.models.paths:
        opened.nested = tuple(
            find_nested_strings(body, *((route.models.form_part, *path) for path in route.models.paths))
        )
    else:
        opened.model = find_model(body)
    return opened


def _find_in_part(route: Route, opened: RequestBody, part: FoundString | None) -> RequestBody:
    if part is None:
        return opened
    if route.models.paths:
        opened.nested = tuple(find_nested_in_part(part, *route.models.paths))
    else:
        opened.model, opened.in_form = part, True
    return opened


def has_foreign_history(exchange: Exchange, opened: RequestBody) -> bool:
    """Whether a history may hold what the gateway itself wrote for another family (contract 5.4).

    Nothing of it concerns a body that is not looked at because of its content coding.
    """
    body = opened.decoded
    if body is None or not _takes_history(exchange.route):
        return False
    return exchange.generation.config.translation.clean_history and holds(body, TAG_BYTES)


def _takes_history(route: Route) -> bool:
    """Whether a request has a conversation: one to compact a conversation has, though it is only relayed."""
    return route.treatment in _TREATMENTS_WITH_HISTORY or route.text_api is not None


async def strip_foreign_history(exchange: Exchange, opened: RequestBody) -> RequestBody:
    """Cut that out of the history."""
    before = opened.decoded
    assert before is not None, "it has been looked at"
    clean = partial(_strip_history, exchange.route, opened, before)
    return await maybe_offload(exchange.offload, clean, large=len(before) > SMALL_BYTES)


def _strip_history(route: Route, opened: RequestBody, before: bytes) -> RequestBody:
    body = clean_history(dialect_of(route.dialect).find_tagged, before)
    if body is before:
        return opened
    model = None if opened.model is None else find_model(body)
    nested = _nested_in(route, body) if opened.nested else ()
    changed = RequestBody(opened.original, body, model, nested, encoded=opened.encoded, is_changed=True)
    changed.names_others = opened.names_others
    return changed


async def ask_for_usage(exchange: Exchange, opened: RequestBody, asked: AskedUsage) -> bool:
    """Have a stream tell its usage (contract 5.8); return whether the client has not asked for that."""
    body = opened.decoded
    if body is None:
        return False
    find = partial(asked.find_edits, body)
    edits = await maybe_offload(exchange.offload, find, large=len(body) > SEARCHED_BYTES)
    opened.edits += edits
    return bool(edits)


async def transform(
    exchange: Exchange,
    request: ClientRequest,
    original: bytes | BodySource,
    change: Callable[[bytes], bytes],
) -> RequestBody:
    """Return the body with ``change`` applied to all of it; as it came where that returns the same object.

    :raises GatewayError: ``MALFORMED``, ``BODY_TOO_LARGE`` or ``OVERLOADED``.
    """
    assert isinstance(original, bytes), "JSON that is inspected is kept in memory"
    before = await decode_body(exchange, request, original)
    body = await maybe_offload(exchange.offload, partial(change, before), large=len(before) > SMALL_BYTES)
    encoded = before is not original
    return RequestBody(original, body, encoded=encoded, is_changed=body is not before)


async def decode_body(exchange: Exchange, request: ClientRequest, body: bytes) -> bytes:
    """Return a body without its content codings; the same object where it has none.

    :raises GatewayError: ``MALFORMED``, ``BODY_TOO_LARGE`` or ``OVERLOADED``.
    """
    encodings = request.content_codings
    if not encodings:
        return body
    decode = partial(decode_content, body, b",".join(encodings), exchange.generation.config.max_body_bytes)
    body = await maybe_offload(exchange.offload, decode, large=len(body) > CODED_BYTES)
    exchange.reserve(len(body))
    return body
