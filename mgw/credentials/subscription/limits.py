"""How long an account is in cooldown, by what the provider says of its limit.

A reset that is far away is believed, since limits may be those of a week.  What says nothing gets the default
of the profile.

Source: RFC 9110 10.2.3 (``Retry-After``), RFC 3339.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite
from typing import Final

from mgw.config.profile import LimitsSettings, NoEntitlementSettings, ResetFormat
from mgw.wire.headers import RawHeaders, retry_after_of, value_of

MAX_REST_SECONDS: Final = 31 * 86400.0
"""The longest cooldown that is believed: a response that seems to ask for more was misread."""
MIN_REST_SECONDS: Final = 1.0


def cooldown_seconds(headers: RawHeaders, limits: LimitsSettings, now: float) -> float:
    """Return how long an account is in cooldown after a 429.

    :param now: unix seconds.
    """
    stated = retry_after_of(headers, now)
    seconds = None if stated is None else _checked(stated)
    for header in limits.reset_headers if seconds is None else ():
        value = value_of(headers, header.name.encode("latin-1"))
        if value is not None:
            seconds = _until(value.decode("latin-1").strip(), header.format, now)
        if seconds is not None:
            break
    return max(MIN_REST_SECONDS, limits.rest_seconds if seconds is None else seconds)


def means_no_entitlement(settings: NoEntitlementSettings, headers: RawHeaders, body: bytes) -> bool:
    """Whether a 403 means that an account may not use a model.

    :param body: what of it has come.
    """
    if settings.header is None and not settings.words:
        return True
    if settings.header is not None and value_of(headers, settings.header.encode("latin-1")) is not None:
        return True
    text = body.decode("utf-8", "replace").lower()
    return any(word in text for word in settings.words)


def _until(text: str, form: ResetFormat, now: float) -> float | None:
    try:
        if form is ResetFormat.RFC3339:
            moment = datetime.fromisoformat(text)
            return _checked((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now)
        number = float(text.removesuffix("s"))
        return _checked(number - now if form is ResetFormat.UNIX else number)
    except (ValueError, OverflowError):
        return None


def _checked(seconds: float) -> float | None:
    """Return how long a limit lasts from now; ``None`` where that cannot be meant."""
    return seconds if isfinite(seconds) and 0 <= seconds <= MAX_REST_SECONDS else None
