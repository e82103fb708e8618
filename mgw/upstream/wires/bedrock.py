"""Claude on Amazon Bedrock by InvokeModel: Anthropic's messages in calls, frames and errors of Amazon's.

::

    POST /model/{id}/invoke                        a message without ``model`` and ``stream``, but with
    POST /model/{id}/invoke-with-response-stream   ``anthropic_version`` and ``anthropic_beta``
    POST /model/{id}/count-tokens                  the same in base64
    GET /foundation-models, /inference-profiles    at the host ``bedrock``, not ``bedrock-runtime``

Of a body everything stays as the client wrote it but for these members at the top.  Sources: botocore's
models of the services ``bedrock-runtime`` and ``bedrock``; Anthropic's SDK, ``lib/bedrock/_client.py``.
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Final
from urllib.parse import quote, urlsplit

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder

from mgw.canonical.catalog import ListedModel
from mgw.config.provider import Provider
from mgw.dialects.dialect import ModelLister, ModelPage
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Operation
from mgw.upstream.address import base_path
from mgw.upstream.wires.bedrock_answers import BedrockCount, BedrockEvents, is_access_denied, read_error
from mgw.upstream.wires.betas import (
    USER_PROFILE,
    VERSION,
    choose_betas,
    dropped_names,
    newer_version,
    refused_words,
)
from mgw.upstream.wires.members import Members, open_object, splice_members
from mgw.upstream.wires.wire import Framing, HostCall, ProviderWire, RequestEdits, VendorCall
from mgw.wire.headers import RawHeaders, value_of
from mgw.wire.json_document import JsonDocument
from mgw.wire.json_spans import Edit, apply_edits
from mgw.wire.media_types import AMAZON_EVENT_STREAM, EVENT_STREAM, JSON, is_amazon_event_stream

_CUT: Final = ("model", "stream")
_BETAS: Final = "anthropic_beta"
_NAMES: Final = Decoder(list[str])
_FIRST_VERSION: Final = "bedrock-2023-05-31"
_SENT_HEADERS: Final = frozenset({b"user-agent", b"traceparent", b"tracestate", b"baggage"})
_OWN_HEADERS: Final = frozenset({b"content-type", b"content-encoding", b"accept", b"accept-encoding"})
"""What is said of a request here, whatever an operator forwards."""
_REGIONS: Final = frozenset({"us", "eu", "apac", "jp", "au", "global", "us-gov"})
_CLAUDE: Final = "anthropic"
_VENDOR: Final = re.compile(r"[a-z][a-z0-9]*").fullmatch
_VERBS: Final = {Operation.CHAT: b"invoke", Operation.COUNT: b"count-tokens"}
_RUNTIME: Final = "bedrock-runtime"
_CONTROL: Final = "bedrock"
_MODELS: Final = "byProvider=anthropic&byOutputModality=TEXT"
_REQUEST_ID: Final = b"x-amzn-requestid"


def call(provider: Provider, vendor_call: VendorCall) -> HostCall:
    """Return where Bedrock takes a call.

    :raises GatewayError: ``UNSUPPORTED_BY_KIND`` for anything but messages of Claude and their count;
        ``MALFORMED`` for a model that cannot stand in a path.
    """
    if vendor_call.operation is Operation.MODELS:
        query = vendor_call.query or _MODELS.encode()
        path = b"/foundation-models" if query == _MODELS.encode() else b"/inference-profiles"
        return HostCall(b"GET", path, query, origin=control_origin(provider))
    verb = _VERBS.get(vendor_call.operation)
    if verb is None:
        message = "providers of kind bedrock serve messages and token counts only"
        raise GatewayError(Reason.UNSUPPORTED_BY_KIND, message)
    model = vendor_call.model or ""
    _check_vendor(model)
    if vendor_call.operation is Operation.COUNT:
        model = _without_region(model)
    elif vendor_call.stream:
        verb += b"-with-response-stream"
    return HostCall(b"POST", b"%b/model/%b/%b" % (base_path(provider.base_url), _quoted(model), verb))


def _quoted(model: str) -> bytes:
    """Return a model as it stands in a path.

    :raises GatewayError: ``MALFORMED``: it cannot.
    """
    if model in {"", ".", ".."}:
        message = "the model must have a name, which is neither '.' nor '..'"
        raise GatewayError(Reason.MALFORMED, message, param="model")
    try:
        return quote(model, safe=":").encode()
    except UnicodeEncodeError:
        raise GatewayError(Reason.MALFORMED, "the model name is not valid Unicode", param="model") from None


def _check_vendor(model: str) -> None:
    """Refuse the models of other vendors, which take no messages of Anthropic's.

    :raises GatewayError: ``UNSUPPORTED_BY_KIND``.
    """
    first, *others = model.split(".")
    if not others or _CLAUDE in (first, others[0]):
        return
    vendor = others[0] if first in _REGIONS and len(others) > 1 else first
    if _VENDOR(vendor):
        message = (
            f"providers of kind bedrock serve Anthropic's models, but this one is of {vendor[:40]!r}: "
            "if Bedrock serves it by OpenAI's API, use a provider of kind openai_compat with auth: aws and a "
            "base_url that ends in /openai/v1"
        )
        raise GatewayError(Reason.UNSUPPORTED_BY_KIND, message, param="model")


def _without_region(model: str) -> str:
    """Return the model that a profile of several regions uses."""
    region, _, rest = model.partition(".")
    return rest if rest.startswith(f"{_CLAUDE}.") and ":" not in region else model


def edits(provider: Provider, vendor_call: VendorCall, body: bytes, headers: RawHeaders) -> RequestEdits:
    """Take what stands in Bedrock's path out of a body, and put what has no header there into it."""
    kept = _headers(provider, vendor_call, headers)
    if not body:
        return RequestEdits((), kept)
    document, members = open_object(body)
    in_body = _stated_betas(document, members)
    betas = choose_betas(headers, provider.betas, vendor_call.refused, in_body=in_body)
    version = newer_version(headers) if vendor_call.newer_versions else None
    if version is None or VERSION in vendor_call.refused:
        version = _FIRST_VERSION
    added: dict[str, object] = {VERSION: version}
    if betas.kept:
        added[_BETAS] = betas.kept
    profile = value_of(headers, USER_PROFILE)
    if profile is not None:
        added["user_profile_id"] = profile.decode("latin-1")
    counts = vendor_call.operation is Operation.COUNT
    if counts:
        added["max_tokens"] = 1
    found: list[Edit] = splice_members(document, members, added, _CUT)
    refusable = betas.kept
    if version != _FIRST_VERSION and VERSION not in members:
        refusable = (*refusable, VERSION)
    if counts:
        wrapped = b'{"input":{"invokeModel":{"body":"%b"}}}' % b64encode(apply_edits(body, found))
        found = [((0, len(body)), wrapped)]
    return RequestEdits(found, kept, dropped_names(betas), refusable)


def _stated_betas(document: JsonDocument, members: Members) -> frozenset[str] | None:
    """Return the betas that a body states itself; ``None``: it states none."""
    nodes = members.get(_BETAS)
    if not nodes:
        return None
    try:
        return frozenset(_NAMES.decode(document.raw(nodes[-1])))
    except MsgspecError:  # the host's to refuse
        return frozenset()


def _headers(provider: Provider, vendor_call: VendorCall, headers: RawHeaders) -> RawHeaders:
    """Return the headers that go up; all others of Anthropic's clients mean nothing there."""
    forward = {name.lower().encode("latin-1") for name in provider.headers.forward} - _OWN_HEADERS
    kept = [
        (name, value)
        for name, value in headers
        if (lower := name.lower()) in _SENT_HEADERS
        or (lower in forward and not lower.startswith((b"anthropic-", b"x-amz-")))
    ]
    accept = AMAZON_EVENT_STREAM if vendor_call.stream else JSON
    return [*kept, (b"Content-Type", JSON), (b"Accept", accept)]


def unframe(vendor_call: VendorCall, content_type: bytes) -> Framing | None:
    """Return what makes Anthropic's events of a stream's frames, and Anthropic's count of Amazon's.

    :raises GatewayError: ``UPSTREAM_BROKEN``: what should be a stream is none.
    """
    if vendor_call.operation is Operation.COUNT:
        return Framing(BedrockCount(), JSON)
    if not vendor_call.stream:
        return None
    if not is_amazon_event_stream(content_type):
        message = "the upstream's response is not an event stream of Amazon's: check the provider's base_url"
        raise GatewayError(Reason.UPSTREAM_BROKEN, message)
    return Framing(BedrockEvents(), EVENT_STREAM + b"; charset=utf-8")


def added_headers(headers: RawHeaders) -> RawHeaders:
    """Return Amazon's id of a request under the name that Anthropic's SDKs read."""
    request_id = value_of(headers, _REQUEST_ID)
    if request_id is None or value_of(headers, b"request-id") is not None:
        return []
    return [(b"request-id", request_id)]


def control_origin(provider: Provider) -> str | None:
    """Return the origin of the host that lists models; ``None``: it is that of the base address."""
    address = urlsplit(provider.base_url)
    label, dot, domain = (address.hostname or "").partition(".")
    if not (label == _RUNTIME or label.startswith(f"{_RUNTIME}-")):
        return None
    port = "" if address.port is None else f":{address.port}"
    return f"{address.scheme}://{label.replace(_RUNTIME, _CONTROL, 1)}{dot}{domain}{port}"


class _FoundationModel(Struct, frozen=True):
    modelId: str = ""
    modelName: str | None = None
    inferenceTypesSupported: list[str] = []
    modelLifecycle: dict[str, Raw] = {}


class _ProfileModel(Struct, frozen=True):
    modelArn: str = ""


class _Profile(Struct, frozen=True):
    inferenceProfileId: str = ""
    inferenceProfileName: str | None = None
    status: str = ""
    models: list[_ProfileModel] = []


class _List(Struct, frozen=True):
    modelSummaries: list[_FoundationModel] | None = None
    inferenceProfileSummaries: list[_Profile] | None = None
    nextToken: str | None = None


_LIST: Final = Decoder(_List)
_ACTIVE: Final = Raw(b'"ACTIVE"')
_IS_CLAUDE: Final = re.compile(r"(?:.*[:/])?(?:[a-z-]+\.)?anthropic\.").match


def list_query(size: int, page: str | None) -> str:  # noqa: ARG001  models have no pages
    """Return the query for the models, and then for the pages of the profiles."""
    if page is None:
        return _MODELS
    return "maxResults=1000" + (f"&nextToken={quote(page, safe='')}" if page else "")


def read_list(body: bytes) -> ModelPage:
    """Read the models that may be called by their own id, or a page of the profiles of Claude.

    :raises ValueError: it is neither.
    """
    try:
        found = _LIST.decode(body)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        raise ValueError("the list of models cannot be read") from None
    if found.modelSummaries is not None:
        models = [
            ListedModel(model.modelId, display_name=model.modelName)
            for model in found.modelSummaries
            if "ON_DEMAND" in model.inferenceTypesSupported
            and model.modelLifecycle.get("status") == _ACTIVE
            and model.modelId
        ]
        return ModelPage(models, "")
    if found.inferenceProfileSummaries is None:
        raise ValueError("the list of models is none of Bedrock's")
    profiles = [
        ListedModel(profile.inferenceProfileId, display_name=profile.inferenceProfileName)
        for profile in found.inferenceProfileSummaries
        if profile.status == "ACTIVE"
        and profile.inferenceProfileId
        and profile.models
        and all(_IS_CLAUDE(model.modelArn) for model in profile.models)
    ]
    return ModelPage(profiles, found.nextToken or None)


def probe(provider: Provider) -> HostCall:
    """Return the call for the list of models, which says that the host takes the credential."""
    return call(provider, VendorCall(Operation.MODELS, b"GET", b"/models"))


WIRE: Final = ProviderWire(
    call=call,
    edits=edits,
    unframe=unframe,
    error=read_error,
    refused=refused_words,
    added_headers=added_headers,
    serves_all=False,
    estimates_counts=True,
    is_silent=True,
    lister=ModelLister(list_query, read_list),
    probe=probe,
    is_well=is_access_denied,
    other_origin=control_origin,
)
