"""What is sent for a translated request: its head, which is remembered with the client's, and its body.

A wire that is not plain decides both together, so that nothing of its requests is remembered.
"""

from __future__ import annotations

from typing import Final

from mgw.dialects.dialect import Rendered
from mgw.exchange.exchange import Exchange
from mgw.exchange.upstream_head import headers_for
from mgw.exchange.upstream_headers import forwarded_headers
from mgw.exchange.wired import WiredRequest, with_findings
from mgw.memo.client_request import ClientRequest
from mgw.memo.known_target import UpstreamHead
from mgw.nouns.families import FAMILIES
from mgw.routing.body_rules import MatchingRules
from mgw.routing.resolve import Target
from mgw.upstream.wires.wire import VendorCall
from mgw.wire.headers import RawHeaders
from mgw.wire.media_types import JSON, is_event_stream
from mgw.wire.target import split_target

_VERSIONS: Final = frozenset[bytes]().union(*(row.version_headers for row in FAMILIES.values()))
_REPLACED_HEADERS: Final = _VERSIONS | {
    b"content-type",
    b"content-encoding",
    b"accept",
    b"accept-encoding",
    b"range",
    b"if-match",
    b"if-none-match",
    b"if-modified-since",
    b"if-unmodified-since",
    b"if-range",
}
"""Headers that speak of the client's own body, or of the response that it wants."""


def translated_head(
    exchange: Exchange, request: ClientRequest, target: Target, rendered: Rendered, accept: bytes
) -> UpstreamHead:
    """Return the head to send by a plain wire: the same as for a request like it before.

    :param accept: the media type that the provider is asked for.
    """
    memo = exchange.generation.memo
    key = target.provider.name, rendered.target, rendered.headers, accept
    findings = memo.findings.get(request.head_number)
    known = None if findings is None else findings.translated.get(key)
    if known is not None:
        return known
    wire = exchange.generation.upstreams[target.provider.name].wire
    headers = _headers(headers_for(request, exchange.route.family, target), rendered, accept)
    call = wire.call(target.provider, _vendor_call(exchange, target, rendered, accept))
    found = UpstreamHead(call.method, target.provider, call.target, headers)
    memo.keep_translated(request, key, found)
    return found


def wired_head(
    exchange: Exchange,
    request: ClientRequest,
    target: Target,
    rendered: Rendered,
    accept: bytes,
    rules: MatchingRules | None,
) -> tuple[UpstreamHead, WiredRequest, bytes]:
    """Return the head to send by any other wire, how that has the request, and the body.

    :param accept: as above.
    :param rules: what changes the body.
    :raises GatewayError: the host cannot take it.
    """
    wire, row = exchange.generation.upstreams[target.provider.name].wire, target.provider.row
    vendor_call = with_findings(exchange, target, _vendor_call(exchange, target, rendered, accept))
    call = wire.call(target.provider, vendor_call)
    # no marks: a wire may move what stands in a header
    headers = _headers(forwarded_headers(request.headers, exchange.route.family, target), rendered, accept)
    names = exchange.route.dialect, row.dialect, exchange.request_id, target.provider
    wired, body = WiredRequest(wire, vendor_call, call, headers, *names, rules=rules).edit(rendered.body)
    return UpstreamHead(call.method, target.provider, call.target, wired.headers), wired, body


def _vendor_call(exchange: Exchange, target: Target, rendered: Rendered, accept: bytes) -> VendorCall:
    path, query = split_target(rendered.target)
    operation, stream = exchange.route.operation, is_event_stream(accept)
    return VendorCall(operation, b"POST", path, query, target.upstream_model, stream)


def _headers(forwarded: RawHeaders, rendered: Rendered, accept: bytes) -> RawHeaders:
    """Return the headers to send.

    :param forwarded: those of the client's.
    """
    replaced = _REPLACED_HEADERS | {name.lower() for name, _ in rendered.headers}
    return [
        *[pair for pair in forwarded if pair[0].lower() not in replaced],
        (b"Content-Type", JSON),
        (b"Accept", accept),
        (b"Accept-Encoding", b"identity"),
        *rendered.headers,
    ]
