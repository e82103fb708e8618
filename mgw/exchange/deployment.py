"""Put the model into a body that its path names, as Azure's paths name a deployment (contract 4.27).

What the body says of the model is replaced, or the model is put in first; all other bytes stay.  From then on
the request is one whose body names its model.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from msgspec.json import encode
from msgspec.structs import replace

from mgw.bodies.source import BodySource, edit_source, read_all, read_pieces
from mgw.exchange.body import MAX_PART_BYTES, decode_body
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import SMALL_BYTES, maybe_offload
from mgw.memo.client_request import ClientRequest
from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.headers import value_of
from mgw.wire.json_document import JsonDocument
from mgw.wire.json_spans import Edit, apply_edits
from mgw.wire.media_types import FORM, media_type
from mgw.wire.multipart import FormReader, feed_whole, part_edits, render_part

_MODEL: Final = "model"
_OBJECT: Final = b"{"
_MEMBERS: Final = 200_000

NamedRequest = tuple[ClientRequest, bytes | BodySource]


async def name_deployment(
    exchange: Exchange, request: ClientRequest, body: bytes | BodySource
) -> NamedRequest:
    """Return a request without a deployment in its path, and its body, which names the model.

    :raises GatewayError: ``MALFORMED``, ``BODY_TOO_LARGE`` or ``OVERLOADED``.
    """
    model = request.deployment
    assert model is not None
    content_type = value_of(request.headers, b"content-type") or b""
    in_form = media_type(content_type) == FORM
    if not isinstance(body, bytes) and (request.content_codings or not in_form):
        exchange.reserve(body.size)
        body = await read_all(body)
    if not isinstance(body, bytes):
        reader = FormReader(content_type, _MODEL, MAX_PART_BYTES)
        await read_pieces(body, reader.feed)
        start = await body.read(0, len(reader.opening))
        return _named(request), edit_source(body, _form_edits(reader, start, model))
    whole = await decode_body(exchange, request, body)
    change = partial(_name_in_form, content_type) if in_form else name_in_json
    named = partial(change, whole, model)
    found = await maybe_offload(exchange.offload, named, large=len(whole) > SMALL_BYTES)
    return _named(request, is_decoded=whole is not body), found


def name_in_json(body: bytes, model: str) -> bytes:
    """Return a JSON object that names a model at its top; the same bytes if it does.

    :raises GatewayError: ``MALFORMED``.
    """
    document = JsonDocument(body, _MEMBERS)
    root = document.root
    if body[root.value : root.value + 1] != _OBJECT:
        raise GatewayError(Reason.MALFORMED, "the body must be a JSON object")
    members = document.members(root)
    literal = encode(model)
    stated = members.get(_MODEL)
    if stated is not None:
        edits = [((one.value, one.end), literal) for one in stated if document.string(one) != model]
        return apply_edits(body, edits)
    behind = root.value + 1
    comma = b"," if members else b""
    return b'%b"model":%b%b%b' % (body[:behind], literal, comma, body[behind:])


def _name_in_form(content_type: bytes, body: bytes, model: str) -> bytes:
    reader = FormReader(content_type, _MODEL, MAX_PART_BYTES)
    feed_whole(reader, body)
    return apply_edits(body, _form_edits(reader, body[: len(reader.opening)], model))


def _form_edits(reader: FormReader, start: bytes, model: str) -> list[Edit]:
    """Return what puts the model into a form that was read; ``start``: how it begins."""
    found = reader.finish()
    if found is not None:
        return part_edits(found, model)
    if start != reader.opening:
        raise GatewayError(Reason.MALFORMED, "the form must begin with its first part", param=_MODEL)
    return [((0, 0), render_part(reader.opening, _MODEL, model))]


def _named(request: ClientRequest, *, is_decoded: bool = False) -> ClientRequest:
    if not is_decoded:
        return replace(request, deployment=None)
    headers = [pair for pair in request.headers if pair[0].lower() != b"content-encoding"]
    # What is remembered of its head is of one with a content coding.
    return replace(
        request, deployment=None, headers=headers, is_uncoded=True, varying=(), values=(), head_number=0
    )
