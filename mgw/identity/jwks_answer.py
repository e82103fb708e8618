"""What an issuer answers when its keys are looked for: its discovery document, and how long keys are good.

Sources: OpenID Connect Discovery 1.0, 4 (the document); RFC 8725 3.8 (the issuer must be ours); RFC 9111 5.2
(``Cache-Control``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from mgw.config.checks import checked_jwks_url

USUAL_SECONDS: Final = 3600.0
"""After how long keys are fetched again whose answer does not say."""
SHORTEST_SECONDS: Final = 300.0
LONGEST_SECONDS: Final = 86400.0

_MAX_AGE: Final = re.compile(rb'[ \t]*max-age[ \t]*=[ \t]*"?([+-]?)([0-9]+)"?[ \t]*', re.IGNORECASE)


def seconds_until_next(cache_control: Iterable[bytes]) -> float:
    """Return after how long keys are fetched again, by the ``Cache-Control`` fields of their answer.

    Of several ``max-age`` the first counts (RFC 9111 4.2.1).
    """
    for field in cache_control:
        for directive in field.split(b","):
            found = _MAX_AGE.fullmatch(directive)
            if found is not None:
                sign, digits = found.groups()
                seconds = 0.0 if sign == b"-" else float(digits)
                return min(max(seconds, SHORTEST_SECONDS), LONGEST_SECONDS)
    return USUAL_SECONDS


def jwks_uri_in(document: bytes, issuer: str) -> str:
    """Return where a discovery document says that the keys are.

    :param issuer: whose document it must be.
    :raises ValueError: it is none, or another issuer's; the text repeats nothing of it.
    """
    try:
        fields = msgspec.json.decode(document)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise ValueError("it is not a JSON object")
    named = fields.get("issuer")
    if named != issuer:
        is_slash = isinstance(named, str) and named.rstrip("/") == issuer.rstrip("/")
        more = ": only one of them ends with a /" if is_slash else ""
        raise ValueError(f"its issuer is not exactly the one in the configuration{more}")
    uri = fields.get("jwks_uri")
    if not isinstance(uri, str):
        raise ValueError("it has no jwks_uri")
    try:
        return checked_jwks_url(uri)
    except ValueError:
        raise ValueError("its jwks_uri is not an https:// address") from None
