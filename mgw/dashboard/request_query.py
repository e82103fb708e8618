"""The query of ``GET /v1/dashboard/requests``: filters, the size of a page, and a cursor to the next one.

Times are half-open, ``since <= time < until``.  All other filters are exact, but for a class of statuses.
A cursor names the last event of a page, so later pages stay the same while new events arrive, and it works
after a restart.  It holds a checksum: one that was cut or made up is refused.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from msgspec import DecodeError
from msgspec.json import decode, encode

from mgw.dashboard.usage_query import parse_time, rfc3339
from mgw.nouns.errors import GatewayError, Reason
from mgw.usage.event_search import FILTERS, STATUS_HINT, EventSearch, Place, is_status

DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 500
PARAMETERS: Final = ("since", "until", "status", *FILTERS, "limit", "cursor")
_MAX_CURSOR_CHARS: Final = 1024
_CHECKSUM_BYTES: Final = 6
_PURPOSE: Final = b"mgw-cursor"


def parse_request_query(parameters: Mapping[str, str]) -> EventSearch:
    """Return what the parameters of a request ask for.

    :raises GatewayError: one of them is wrong, or there is no such parameter.
    """
    for name, value in parameters.items():
        if name not in PARAMETERS:
            raise _wrong(None, f"unknown parameter; expected one of {', '.join(PARAMETERS)}")
        if not value:
            raise _wrong(name, f"{name} must not be empty; leave it out to search for any value")
    status = parameters.get("status")
    if status is not None and not is_status(status):
        raise _wrong("status", f"status must be {STATUS_HINT}")
    since, until = (
        rfc3339(parse_time(name, parameters[name])) if name in parameters else None
        for name in ("since", "until")
    )
    if since is not None and until is not None and since >= until:
        raise _wrong("since", "since must be before until")
    return EventSearch(
        since=since,
        until=until,
        status=status,
        exact=tuple((column, parameters[name]) for name, column in FILTERS.items() if name in parameters),
        after=_place(parameters["cursor"]) if "cursor" in parameters else None,
        limit=_limit(parameters["limit"]) if "limit" in parameters else DEFAULT_LIMIT,
    )


def cursor_of(place: Place) -> str:
    """Return the cursor to what comes behind an event."""
    text = encode(place)
    return urlsafe_b64encode(_checksum(text) + text).rstrip(b"=").decode()


def _place(cursor: str) -> Place:
    try:
        if len(cursor) > _MAX_CURSOR_CHARS:
            raise ValueError
        found = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        place = Place(*decode(found[_CHECKSUM_BYTES:], type=tuple[str, str]))
        if cursor_of(place) != cursor:  # the checksum, and letters that are none of base64's, which it skips
            raise ValueError
    except (ValueError, DecodeError):
        message = "cursor must be the value of `next` in an earlier response; leave it out for the first page"
        raise _wrong("cursor", message) from None
    return place


def _checksum(text: bytes) -> bytes:
    return blake2b(text, digest_size=_CHECKSUM_BYTES, person=_PURPOSE).digest()


def _limit(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_LIMIT)) and int(text) <= MAX_LIMIT:
        return int(text)
    raise _wrong("limit", f"limit must be a whole number from 0 to {MAX_LIMIT}")


def _wrong(param: str | None, message: str) -> GatewayError:
    return GatewayError(Reason.MALFORMED, message, param=param)
