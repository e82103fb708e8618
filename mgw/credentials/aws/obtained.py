"""Keys as AWS's services give them, and how long they are good.

``Expiration`` is a time of the calendar by the clock of whoever says it, which may be another than this
machine's.  What counts is how far it is from the ``Date`` of the same response.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from twisted.web.http_headers import Headers

from mgw.credentials.aws.keys import AwsKeys
from mgw.credentials.token_request import (
    MIN_SECONDS,
    USUAL_SECONDS,
    TokenResponse,
    parse_token_text,
)
from mgw.nouns.secret import Secret

MOST_SECONDS: Final = 36 * 3600.0
"""The longest life of a session at AWS: a response that says more, or has a wrong date, means this."""
_KEY_ID: Final = re.compile(r"[\w.+-]{1,128}", re.ASCII).fullmatch
"""What can stand in ``Credential=`` of a signature, which has ``/`` and ``,`` as its own marks."""
_MAX_DATE: Final = 64


def read_keys(
    fields: Mapping[str, object], token_name: str, headers: Headers, wall: Callable[[], float]
) -> TokenResponse:
    """Return the keys in a response, as what is renewed and lent to other processes.

    :param token_name: what the field is called that has the session's token.
    :param headers: of the response.
    :param wall: unix seconds, for a response without a date.
    :raises ValueError: some of it is missing or cannot be used; the text says what and repeats nothing.
    """
    key_id = fields.get("AccessKeyId")
    if not isinstance(key_id, str) or not _KEY_ID(key_id):
        raise ValueError("its AccessKeyId is missing or is not the id of a key")
    secret = parse_token_text(fields.get("SecretAccessKey"), "SecretAccessKey")
    token = parse_token_text(fields.get(token_name), token_name)
    seconds = _seconds_until(fields.get("Expiration"), headers, wall)
    return TokenResponse(secret, seconds, further=(Secret(key_id), token))


def keys_of(response: TokenResponse) -> AwsKeys:
    """Return the keys that :func:`read_keys` has read, here or in another process."""
    key_id, session_token = response.further
    return AwsKeys(key_id.reveal(), response.access_token, session_token)


def _seconds_until(expiration: object, headers: Headers, wall: Callable[[], float]) -> float:
    """Return how long keys are good; a moment where that is over: whoever gave them has no others."""
    if expiration is None:
        return USUAL_SECONDS
    try:
        if not isinstance(expiration, str) or len(expiration) > _MAX_DATE:
            raise ValueError("not a text")
        end = datetime.fromisoformat(expiration)
        until = (end if end.tzinfo is not None else end.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError("its Expiration is not a date and time") from None
    said_at = _date_of(headers)
    left = until - (wall() if said_at is None else said_at)
    return max(MIN_SECONDS, min(MOST_SECONDS, left))


def _date_of(headers: Headers) -> float | None:
    """Return when a response was made, by the clock of its host; one from a cache says nothing of now."""
    dates = headers.getRawHeaders(b"date", [])
    if len(dates) != 1 or headers.hasHeader(b"age"):
        return None
    try:
        return parsedate_to_datetime(dates[0].decode("latin-1")).timestamp()
    except (ValueError, OverflowError):
        return None
