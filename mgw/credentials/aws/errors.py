"""What AWS calls an error: the name by which its SDKs know what to do.

Source: botocore's ``parsers.py``, for services that speak JSON.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import MsgspecError, Struct, field
from msgspec.json import decode

from mgw.wire.headers import RawHeaders, value_of

EXPIRED: Final = frozenset(
    {"ExpiredTokenException", "ExpiredToken", "UnrecognizedClientException", "InvalidClientTokenId"}
)
"""The keys are not, or no longer, good: others may be."""
SKEWED: Final = frozenset({"RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"})
"""The time of a signature is too far from the host's."""
MAYBE_SKEWED: Final = frozenset({"InvalidSignatureException", "SignatureDoesNotMatch", "AuthFailure"})
"""A signature is wrong, which its time may be the reason for."""
STATUSES: Final = frozenset({400, 403})
"""The statuses of all of them."""


class _Error(Struct):
    code: Any = None  # Any: whatever stands there
    type: Any = field(default=None, name="__type")  # Any: as above


def error_type(headers: RawHeaders, body: bytes) -> str | None:
    """Return the name of an error, without its namespace; ``None`` where it has none.

    :param body: as much of it as there is; of a body that is cut off nothing is read.
    """
    said = value_of(headers, b"x-amzn-errortype")
    name = _name_in(body) if said is None else said.decode("latin-1")
    if name is None:
        return None
    return name.partition(":")[0].rpartition("#")[2].strip() or None


def _name_in(body: bytes) -> str | None:
    try:
        error = decode(body, type=_Error)
    except (MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    return next((name for name in (error.code, error.type) if isinstance(name, str)), None)
