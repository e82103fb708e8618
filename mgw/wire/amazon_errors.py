"""What AWS calls an error: the name by which its SDKs know what to do.

It stands in a header of the response, else in its body.  Source: botocore's ``parsers.py``, for services that
speak JSON.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import MsgspecError, Struct, field
from msgspec.json import Decoder

from mgw.wire.headers import RawHeaders, value_of


class _Error(Struct, frozen=True):
    code: Any = None  # Any: whatever stands there
    type: Any = field(default=None, name="__type")  # Any: as above


_ERROR: Final = Decoder(_Error)


def error_type(headers: RawHeaders, body: bytes) -> str | None:
    """Return the name of an error, without its namespace; ``None`` where it has none.

    :param body: as much of it as there is; of a body that is cut off nothing is read.
    """
    said = value_of(headers, b"x-amzn-errortype")
    name = short_name(said.decode("latin-1")) if said else None
    return _name_in(body) if name is None else name


def short_name(name: str) -> str | None:
    """Return a name without its namespace and its address; ``None`` where nothing is left of it."""
    return name.partition(":")[0].rpartition("#")[2].strip() or None


def _name_in(body: bytes) -> str | None:
    try:
        error = _ERROR.decode(body)
    except (MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    names = (short_name(name) for name in (error.code, error.type) if type(name) is str)
    return next((name for name in names if name is not None), None)
