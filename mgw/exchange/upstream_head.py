"""What is sent for a request but for its body: the path, the query, and the head.

Clients repeat their heads, so all of this is remembered (:class:`~mgw.memo.request_memo.RequestMemo`): then a
request costs a look-up, and its body.  Heads that differ may still be the same upstream, since few of their
lines go there: a head that never came before then costs the choice of its lines.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec.json import encode
from msgspec.structs import replace

from mgw.config.auths import AuthMode
from mgw.credentials.aws.canonical import encoded_query
from mgw.credentials.provider import Credential
from mgw.credentials.signing import Signing
from mgw.exchange.body import takes_list
from mgw.exchange.target_resolution import MODEL
from mgw.exchange.upstream_headers import forwarded_headers, forwarded_names, provider_headers
from mgw.memo.client_request import MAX_VARYING, ClientRequest
from mgw.memo.known_target import KnownTarget, UpstreamHead
from mgw.memo.request_memo import RequestMemo
from mgw.nouns.families import FAMILIES
from mgw.nouns.vocabulary import Family, Modality
from mgw.routing.match import PROVIDER
from mgw.routing.model_source import ModelAt
from mgw.routing.resolve import Target
from mgw.routing.route import Route
from mgw.upstream.client import Upstream, UpstreamRequest
from mgw.upstream.wires.wire import ProviderWire, VendorCall
from mgw.wire.headers import RawHeaders, request_headers
from mgw.wire.target import quote_model_path, replace_parameter, without_parameter

_PROVIDER_PARAMETER: Final = frozenset({PROVIDER})
_AZURE_VERSION: Final = frozenset({"api-version"})
_VERSION: Final = re.compile(r"^/v1(?:beta)?(?=/)")
_TUNED_MODELS: Final = re.compile(rb"^/models/tunedModels(?:/|%2[Ff])")
_MARKS: Final = tuple(b"\x01%d\x01" % number for number in range(MAX_VARYING))
"""Stand where the values of one request will; no value of a header can hold such a character."""
_render_line: Final = b"%b: %b\r\n".__mod__
_EMPTY_BODY: Final = b"0\r\n\r\n"
"""How the head of a request ends that takes a body and has none."""
SignedBy = tuple[Credential, Signing]
"""A credential, and how it signs a request."""


def render_head(
    head: UpstreamHead, credential: Credential, upstream: Upstream, size: int, values: tuple[bytes, ...]
) -> bytes:
    """Return the bytes of a head to send with a body of ``size`` bytes.

    :param values: of the headers that vary between requests.
    :raises GatewayError: ``MALFORMED``, where it cannot be written.
    """
    if credential is not head.credential:  # a renewed one is another object
        headers = provider_headers(list(head.headers), head.provider, credential)
        rendered = upstream.render_head(UpstreamRequest(head.method, head.upstream_target, headers))
        head.keep_rendered(credential, rendered.removesuffix(_EMPTY_BODY))
    rendered = head.rendered
    if values:
        for mark, value in zip(_MARKS, values):  # noqa: B905  there are more marks than values
            rendered = rendered.replace(mark, value, 1)
    return b"%b%d\r\n\r\n" % (rendered, size)


def render_signed_head(
    head: UpstreamHead, signed: SignedBy, upstream: Upstream, size: int, values: tuple[bytes, ...]
) -> bytes:
    """Return the same as :func:`render_head` with what signs it, of which nothing is kept.

    A signature covers no header whose value varies between requests of one head.
    """
    credential, signing = signed
    signer = signing.signer
    if credential is not head.credential:
        headers = provider_headers(list(head.headers), head.provider, credential)
        headers = [pair for pair in headers if pair[0].lower() not in signer.names]
        rendered = upstream.render_head(UpstreamRequest(head.method, head.upstream_target, headers))
        head.keep_rendered(credential, rendered.removesuffix(_EMPTY_BODY))
        head.signed_headers = ((b"Host", upstream.address.host_header), *headers)
    headers = list(head.signed_headers)
    added = signer.sign(head.method, head.upstream_target, headers, signing.digest, signing.now)
    rendered = head.rendered
    if values:
        for mark, value in zip(_MARKS, values):  # noqa: B905  as above
            rendered = rendered.replace(mark, value, 1)
    return b"%b%d\r\n%b\r\n" % (rendered, size, b"".join(map(_render_line, added)))


def sign_request(request: UpstreamRequest, signing: Signing, upstream: Upstream) -> UpstreamRequest:
    """Return a request with what signs it, which may not be changed any more."""
    host = upstream.address.host_header
    headers = signing.signed(request.method, request.target, request.headers, host)
    return replace(request, headers=headers)


def known_target_of(
    route: Route, target: Target, request: ClientRequest, wire: ProviderWire, keepalive_seconds: float | None
) -> KnownTarget:
    """Return what requests of one path and one model have in common where they are passed on.

    :param wire: a plain one.
    :param keepalive_seconds: between signs of life in a stream that comes back, if there are any.
    """
    asked, model = target.asked_model, target.upstream_model
    return KnownTarget(
        request.method,
        target,
        wire.call(target.provider, vendor_call_of(route, target, request)).target,
        keepalive_seconds,
        None if model is None or model == asked else encode(model),
        takes_list(route, target),
        route.family,
        forwarded_names(target.provider),
    )


def relayed_head(memo: RequestMemo, known: KnownTarget, request: ClientRequest) -> UpstreamHead:
    """Return the head that is sent to a target for a client's head."""
    if request.varying:
        headers = headers_for(request, known.client, known.target)
    else:
        headers = request_headers(
            request.headers, client=known.client, target=known.target.family, forward=known.forward
        )
    lines, sent = tuple(headers), memo.sent.get(known)
    head = None if sent is None else sent.get(lines)
    if head is None:
        head = UpstreamHead(known.method, known.target.provider, known.upstream_target, headers)
        memo.keep_sent(known, lines, head)
    return head


def headers_for(request: ClientRequest, client: Family, target: Target) -> RawHeaders:
    """Return the client's headers that go to the target, with marks in place of the values that vary."""
    marked = request.with_values(_MARKS[: len(request.varying)]) if request.varying else request
    return forwarded_headers(marked.headers, client, target)


def vendor_call_of(
    route: Route, target: Target, request: ClientRequest, *, stream: bool = False
) -> VendorCall:
    """Return what a provider is asked by a request that is passed on.

    :param stream: whether the client wants its answer in pieces, as far as the wire has to know.
    """
    query = request.raw_query
    optional = route.models.optional or route.models.instead is not None
    if optional or route.modality is Modality.PLATFORM:
        query = without_parameter(query, _PROVIDER_PARAMETER)
    if route.models.at is ModelAt.QUERY or route.models.in_query:
        query = _with_model(query, target)
    if request.of_azure and target.provider.row.version_parameter is None:
        query = without_parameter(query, _AZURE_VERSION)
    if query and target.provider.auth is AuthMode.AWS:
        query = encoded_query(query)
    return VendorCall(
        route.operation,
        request.method,
        _path(route, target, request),
        query,
        target.upstream_model,
        stream,
        prefix=route.call.prefix.encode(),
        version=route.call.version.encode(),
        from_origin=route.call.from_origin,
    )


def _with_model(query: bytes | None, target: Target) -> bytes | None:
    """Return the query with the provider's own name of the model that it names."""
    model = target.upstream_model
    if query is None or model is None or model == target.asked_model:
        return query
    return replace_parameter(query, MODEL, target.asked_model or "", model)


def _path(route: Route, target: Target, request: ClientRequest) -> bytes:
    if route.call.path is not None:
        return route.call.path.encode()
    model, verb = target.upstream_model, route.call.verb
    if route.models.at is not ModelAt.PATH or (model == request.path_model and verb is None):
        path = request.raw_path[len(request.version) :]
    else:
        before, _, after = _VERSION.sub("", route.path).partition("{model}")
        after = after if verb is None else f":{verb}"
        named = quote_model_path(model or "", FAMILIES[route.family].id_characters)
        path = before.encode() + named + after.encode()
    # Google has tuned models beside the others, not below them.
    return _TUNED_MODELS.sub(b"/tunedModels/", path)
