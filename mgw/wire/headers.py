"""Raw header pairs, and which of them are forwarded (contract 5.5 to 5.7).

Pairs keep their order, their repetition and their names as sent.  Requests are forwarded by an allow-list,
responses without what belongs to one connection (RFC 9110 7.6.1) and without what only the upstream's own
address may say.  A name is looked up once and its decision kept in a bounded cache.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from mgw.nouns.families import FAMILIES
from mgw.nouns.vocabulary import Family

RawHeaders = list[tuple[bytes, bytes]]
"""Header pairs in order, names as sent, never merged."""

CREDENTIAL_HEADERS: Final = frozenset(
    {
        b"authorization",
        b"x-api-key",
        b"api-key",
        b"x-goog-api-key",
        b"x-goog-iam-authorization-token",
        b"x-goog-iap-jwt-assertion",
        b"cookie",
        b"cookie2",
    }
)
"""What carries a client's credential: no setting sends it upstream."""

HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""What speaks of one connection (RFC 9110 7.6.1)."""

_OUR_CONNECTION: Final = HOP_BY_HOP | {b"host", b"content-length", b"expect", b"http2-settings"}
_FOR_US: Final = CREDENTIAL_HEADERS | _OUR_CONNECTION | {b"origin"}
"""Request headers that no setting sends upstream: the origin is that of a page that uses the gateway."""
_IAP_PREFIX: Final = b"x-goog-authenticated-user-"
"""Google's identity-aware proxy, before a gateway, says so who its user is."""
_SERVER_HEADERS: Final = frozenset({b"set-cookie", b"set-cookie2", b"server", b"alt-svc"})
_GATEWAY_HEADERS: Final = frozenset({b"x-gateway-request-id"})

_FORWARDED: Final = frozenset(
    {
        b"accept",
        b"content-encoding",
        b"content-type",
        b"user-agent",
        b"range",
        b"http-referer",
        b"referer",
        b"x-title",
        b"x-client-request-id",
        b"idempotency-key",
        b"x-server-timeout",
        b"session_id",
        b"originator",
        b"traceparent",
        b"tracestate",
        b"baggage",
    }
)
_FORWARDED_PREFIXES: Final = (b"if-", b"x-stainless-", b"x-codex-")

# What is done with a request header: numbers, since members of an enum are slow to compare for every header.
_DROP: Final = 0
_FORWARD: Final = 1
_NEVER_FORWARD: Final = 2
_REDUCE: Final = 3
_READ_NAMES: Final = 4

_CACHED_NAMES: Final = 1024
# ``Accept-Encoding`` is ours to state whatever a client calls it; without its ``Content-Length`` a response
# would have no end.
IGNORED_OPTIONS: Final = frozenset({b"", b"close", b"keep-alive", b"accept-encoding", b"content-length"})
_COMMON_OPTIONS: Final = MappingProxyType(
    {
        b"keep-alive": frozenset[bytes](),
        b"close": frozenset[bytes](),
        b"Upgrade": frozenset({b"upgrade"}),
        b"upgrade": frozenset({b"upgrade"}),
    }
)
"""What the most common ``Connection`` headers list."""
_READABLE_CODINGS: Final = frozenset({b"gzip", b"x-gzip", b"identity"})
_ZERO_WEIGHT: Final = re.compile(rb"q[ \t]*=[ \t]*0(?:\.0{0,3})?", re.IGNORECASE)


def value_of(pairs: RawHeaders, lower_name: bytes) -> bytes | None:
    """Return the first value under a name, which is given in lower case."""
    size = len(lower_name)
    for name, value in pairs:
        if len(name) == size and name.lower() == lower_name:
            return value
    return None


def values_of(pairs: RawHeaders, lower_name: bytes) -> list[bytes]:
    """Return all values under a name, which is given in lower case."""
    size = len(lower_name)
    return [value for name, value in pairs if len(name) == size and name.lower() == lower_name]


_NUMBER: Final = re.compile(rb"[ \t]*[0-9]+(?:\.[0-9]+)?[ \t]*").fullmatch


def retry_after_of(pairs: RawHeaders, now: float | None = None) -> float | None:
    """Return how many seconds a response asks for before another try, or ``None``: it does not say.

    ``retry-after-ms`` comes first, as in the vendors' SDKs.  ``Retry-After`` may be a number of seconds or a
    date (RFC 9110 10.2.3), which counts from the ``Date`` of the response: clocks may differ.

    :param now: unix seconds, for a response without a date.
    """
    milliseconds, value = value_of(pairs, b"retry-after-ms"), value_of(pairs, b"retry-after")
    if milliseconds is not None and _NUMBER(milliseconds):
        return float(milliseconds) / 1000.0
    if value is None:
        return None
    if _NUMBER(value):
        return float(value)
    then, sent = _date(value), _date(value_of(pairs, b"date") or b"")
    since = now if sent is None else sent
    return None if then is None or since is None else max(then - since, 0.0)


def _date(value: bytes) -> float | None:
    """Return the unix seconds of a date in a header, or ``None`` where it is none."""
    try:
        return parsedate_to_datetime(value.decode("latin-1")).timestamp()
    except (ValueError, OverflowError):
        return None


def request_headers(
    pairs: RawHeaders, *, client: Family, target: Family, forward: frozenset[bytes] = frozenset()
) -> RawHeaders:
    """Return the pairs of a client's request that go upstream.

    A family's own headers go only from a client of that family to a provider of it.  ``Accept-Encoding`` is
    reduced to what metering reads, and says ``identity`` where the client sent none.

    :param forward: lower-case names that an operator adds; carriers of credentials and what speaks of the
        connection stay even then.
    """
    action_for = _ACTIONS[client if client is target else None]
    kept: RawHeaders = []
    dropped: frozenset[bytes] = frozenset()
    encodings = 0
    for pair in pairs:
        action = action_for(pair[0])
        if action == _FORWARD:
            kept.append(pair)
        elif action == _REDUCE:
            kept.append((pair[0], reduce_accept_encoding(pair[1])))
            encodings += 1
        elif action == _READ_NAMES:
            dropped |= connection_options(pair[1])
        elif forward and action == _DROP and pair[0].lower() in forward:
            kept.append(pair)
    if dropped:
        kept = [pair for pair in kept if pair[0].lower() not in dropped]
    if not encodings:
        kept.append((b"Accept-Encoding", reduce_accept_encoding(None)))
    return kept


def response_headers(pairs: RawHeaders) -> RawHeaders:
    """Return the pairs of an upstream's response that the client gets."""
    kept = [pair for pair in pairs if is_relayed(pair[0])]
    connection = values_of(pairs, b"connection")
    dropped = connection_options(b",".join(connection)) if connection else None
    return [pair for pair in kept if pair[0].lower() not in dropped] if dropped else kept


@lru_cache(maxsize=_CACHED_NAMES)
def reduce_accept_encoding(accept_encoding: bytes | None) -> bytes:
    """Return what of gzip and identity a client offered, as it put it; ``identity`` where nothing is left.

    A refusal (``q=0``) leaves nothing of that coding, and ``*`` offers gzip unless gzip is named (RFC 9110
    12.5.3).
    """
    if accept_encoding is None:
        return b"identity"
    offers = [offer.strip(b" \t") for offer in accept_encoding.split(b",")]
    names = [offer.partition(b";")[0].strip(b" \t").lower() for offer in offers]
    named_gzip = b"gzip" in names or b"x-gzip" in names
    left = []
    for name, offer in zip(names, offers, strict=True):
        if any(_ZERO_WEIGHT.fullmatch(weight.strip(b" \t")) for weight in offer.split(b";")[1:]):
            continue
        if name in _READABLE_CODINGS:
            left.append(offer)
        elif name == b"*" and not named_gzip:
            left.append(b"gzip" + offer[1:])
    return b", ".join(left) or b"identity"


def connection_options(connection: bytes) -> frozenset[bytes]:
    """Return the lower-case names of headers that a ``Connection`` header lists."""
    known = _COMMON_OPTIONS.get(connection)
    return options_of(connection) - IGNORED_OPTIONS if known is None else known


def options_of(connection: bytes) -> frozenset[bytes]:
    """Return all that a ``Connection`` header lists, in lower case."""
    if b"," not in connection:
        return frozenset((connection.strip(b" \t").lower(),))
    return frozenset([option.strip(b" \t") for option in connection.lower().split(b",")])


@lru_cache(maxsize=_CACHED_NAMES)
def is_relayed(name: bytes) -> bool:
    """Whether a line of a response goes on to the client, unless its ``Connection`` says otherwise."""
    lower = name.lower()
    return lower not in HOP_BY_HOP and lower not in _SERVER_HEADERS and lower not in _GATEWAY_HEADERS


def _action_for(name: bytes, family: Family | None) -> int:
    """Return what is done with a header, between a client and a provider of one family or of two."""
    lower = name.lower()
    if lower == b"connection":
        return _READ_NAMES
    if lower == b"accept-encoding":
        return _REDUCE
    if lower in _FOR_US or lower.startswith(_IAP_PREFIX):
        return _NEVER_FORWARD
    if lower in _FORWARDED or lower.startswith(_FORWARDED_PREFIXES):
        return _FORWARD
    if family is None:
        return _DROP
    row = FAMILIES[family]
    return _FORWARD if lower.startswith(row.own_prefix) or lower in row.neutral_headers else _DROP


def _cached_action_for(family: Family | None) -> Callable[[bytes], int]:
    return lru_cache(maxsize=_CACHED_NAMES)(lambda name: _action_for(name, family))


_ACTIONS: Final = MappingProxyType({family: _cached_action_for(family) for family in (None, *Family)})
