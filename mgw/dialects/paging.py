"""What model lists share: a number in a page's query, and reading an upstream's pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from msgspec.json import Decoder

from mgw.nouns.errors import GatewayError, Reason

LAST_SECOND: Final = 253402300799
"""9999-12-31T23:59:59Z, the last that RFC 3339 can say."""
_MOST_DIGITS = 9

T = TypeVar("T")


def parse_page_size(
    query: Mapping[str, str], name: str, *, default: int, highest: int | None, lowest: int = 1
) -> int:
    """Return the number that the query gives for ``name``, ``default`` where it gives none.

    :raises GatewayError: it is no decimal number, or out of its range; ``highest`` may be open.
    """
    text = query.get(name)
    if text is None:
        return default
    readable = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    if readable and int(text) >= lowest and (highest is None or int(text) <= highest):
        return int(text)
    span = f"from {lowest}" if highest is None else f"from {lowest} to {highest}"
    raise GatewayError(Reason.MALFORMED, f"{name} must be a whole number {span}", param=name)


def read_list(decoder: Decoder[T], body: bytes) -> T:
    """Return what an upstream's model list says.

    :raises ValueError: it is none.
    """
    try:
        return decoder.decode(body)
    except RecursionError:
        raise ValueError("a list that is nested too deeply") from None


def unix_seconds(seconds: float | None) -> int | None:
    """Return when a model was made; ``None`` for what says nothing, as 0 does, or is no moment."""
    return int(seconds) if seconds is not None and 1 <= seconds <= LAST_SECOND else None
