"""Claude on Vertex AI: Anthropic's messages at an address of Google's, with the model in the path.

::

    POST {base}/models/{id}:rawPredict             a message without ``model``, but with ``anthropic_version``
    POST {base}/models/{id}:streamRawPredict       the same with ``"stream": true``
    POST {base}/models/count-tokens:rawPredict     with ``model``

Answers are Anthropic's own, and so are the refusals of its models; what Google refuses before them has
Google's shape.  Models are not listed.  Sources: Anthropic's SDK, ``lib/vertex/_client.py``; Anthropic's page
"Claude on Google Cloud".
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from msgspec import UNSET, MsgspecError, Raw, Struct, UnsetType
from msgspec.json import Decoder, encode
from msgspec.structs import replace

from mgw.canonical.reply import UpstreamError
from mgw.config.provider import Provider
from mgw.dialects import error_reader_of
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import DialectName, Operation
from mgw.upstream.wires.betas import (
    HEADERS,
    USER_PROFILE,
    VERSION,
    VERSION_HEADERS,
    choose_betas,
    dropped_names,
    newer_version,
    refused_words,
    with_betas,
)
from mgw.upstream.wires.members import Members, open_object, splice_members
from mgw.upstream.wires.wire import HostCall, ProviderWire, RequestEdits, VendorCall, own_call
from mgw.wire.headers import RawHeaders, value_of
from mgw.wire.json_document import JsonDocument
from mgw.wire.json_spans import Edit
from mgw.wire.media_types import JSON

_FIRST_VERSION: Final = "vertex-2023-10-16"
_WHOLE: Final = b"rawPredict"
_STREAM: Final = b"streamRawPredict"
_COUNT: Final = b"/models/count-tokens:rawPredict"
_NEWEST: Final = re.compile(r"@(?:default|latest)\Z")
"""Ends the id of a model's newest snapshot: in a path, but not in a body."""
_GEMINI: Final = "gemini-"
_OF_OTHERS: Final = "-maas"
"""Ends the ids of the models of other vendors that Google serves."""
_OWN_HEADERS: Final = HEADERS | VERSION_HEADERS
_TOO_LARGE: Final = 413


def call(provider: Provider, vendor_call: VendorCall) -> HostCall:
    """Return where Vertex AI takes a call.

    :raises GatewayError: ``UNSUPPORTED_BY_KIND`` for anything but messages of Claude and their count;
        ``MALFORMED`` for a model that cannot stand in the path.
    """
    model = vendor_call.model or ""
    if vendor_call.operation is Operation.COUNT:
        _check_vendor(model)
        return own_call(provider, replace(vendor_call, path=_COUNT, query=None))
    if vendor_call.operation is Operation.CHAT:
        path = b"/models/%b:%b" % (_quoted(model), _STREAM if vendor_call.stream else _WHOLE)
        return own_call(provider, replace(vendor_call, path=path, query=None))
    message = "providers of kind vertex_anthropic serve messages and token counts only"
    raise GatewayError(Reason.UNSUPPORTED_BY_KIND, message)


def _quoted(model: str) -> bytes:
    """Return a model as it stands in the path.

    :raises GatewayError: as :func:`call` does.
    """
    if model in {"", ".", ".."} or ":" in model or "/" in model:
        message = (
            "providers of kind vertex_anthropic expect a model id such as claude-sonnet-4-5@20250929, "
            "without ':' and '/'; for models of other vendors, use a provider of kind openai_compat"
        )
        raise GatewayError(Reason.MALFORMED, message, param="model")
    _check_vendor(model)
    try:
        return quote(model, safe="@").encode()
    except UnicodeEncodeError:
        raise GatewayError(Reason.MALFORMED, "the model name is not valid Unicode", param="model") from None


def _check_vendor(model: str) -> None:
    """Refuse the models of other vendors, which Google serves at other addresses.

    :raises GatewayError: ``UNSUPPORTED_BY_KIND``.
    """
    if model.startswith(_GEMINI):
        other = "a provider of kind gemini"
    elif model.endswith(_OF_OTHERS):
        other = "a provider of kind openai_compat, with a base_url that ends in /endpoints/openapi"
    else:
        return
    message = (
        "providers of kind vertex_anthropic serve Anthropic's models, but this one is of another vendor: "
        f"use {other}"
    )
    raise GatewayError(Reason.UNSUPPORTED_BY_KIND, message, param="model")


def edits(provider: Provider, vendor_call: VendorCall, body: bytes, headers: RawHeaders) -> RequestEdits:
    """Take the model, which stands in the path, out of a body, and put the version of the API into it."""
    betas = choose_betas(headers, provider.betas, vendor_call.refused)
    kept = with_betas([pair for pair in headers if not _is_anthropics(pair[0].lower())], betas.kept)
    dropped = dropped_names(betas)
    if value_of(headers, USER_PROFILE) is not None:
        dropped = (*dropped, USER_PROFILE.decode())
    if not body:
        return RequestEdits((), kept, dropped)
    kept = [*(pair for pair in kept if pair[0].lower() != b"content-type"), (b"Content-Type", JSON)]
    document, members = open_object(body)
    version = newer_version(headers)
    if version is None or VERSION in vendor_call.refused:
        version = _FIRST_VERSION
    counts = vendor_call.operation is Operation.COUNT
    found = splice_members(document, members, {VERSION: version}, () if counts else ("model",))
    if counts:
        found += _named_models(document, members)
    refusable = betas.kept
    if version != _FIRST_VERSION and VERSION not in members:
        refusable = (*refusable, VERSION)
    return RequestEdits(found, kept, dropped, refusable)


def _is_anthropics(name: bytes) -> bool:
    return name.startswith(b"anthropic-") or name in _OWN_HEADERS


def _named_models(document: JsonDocument, members: Members) -> list[Edit]:
    """Return the splices after which a count names its model as bodies do."""
    found: list[Edit] = []
    for node in members.get("model", ()):
        model = document.string(node) or ""
        bare = _NEWEST.sub("", model)
        if bare != model:
            found.append(((node.value, node.end), encode(bare)))
    return found


class _GoogleError(Struct, frozen=True):
    status: str


class _Refusal(Struct, frozen=True):
    error: _GoogleError
    type: Raw | UnsetType = UNSET


class _Shape(Struct, frozen=True):
    type: Raw | UnsetType = UNSET


_REFUSAL: Final = Decoder(_Refusal | list[_Refusal])
_SHAPE: Final = Decoder(_Shape)
_UNREADABLE: Final = (MsgspecError, UnicodeDecodeError, RecursionError)


def read_error(status: int, _: RawHeaders, body: bytes) -> UpstreamError | None:
    """Return what a refusal of Google's says; ``None``: it is none of Google's.

    A request that is too large may be refused with a page.
    """
    if not _is_googles(body) and (status != _TOO_LARGE or _has_type(body)):
        return None
    return error_reader_of(DialectName.GEMINI)(status, body)


def _is_googles(body: bytes) -> bool:
    try:
        found = _REFUSAL.decode(body)
    except _UNREADABLE:
        return False
    refusals = found if isinstance(found, list) else [found]
    return bool(refusals) and all(refusal.type is UNSET for refusal in refusals)


def _has_type(body: bytes) -> bool:
    try:
        return _SHAPE.decode(body).type is not UNSET
    except _UNREADABLE:
        return False


def probe(provider: Provider) -> HostCall:
    """Return the call that counts a small message, or asks for the models if none is known."""
    if not provider.models:
        return own_call(provider, VendorCall(Operation.MODELS, b"GET", b"/models"))
    message = {
        VERSION: _FIRST_VERSION,
        "model": _NEWEST.sub("", provider.models[0]),
        "messages": [{"role": "user", "content": "hi"}],
    }
    count = own_call(provider, VendorCall(Operation.COUNT, b"POST", _COUNT))
    return replace(count, body=encode(message))


WIRE: Final = ProviderWire(
    call=call,
    edits=edits,
    error=read_error,
    refused=refused_words,
    probe=probe,
    serves_all=False,
    has_list=False,
)
