"""The JSON of a price list, with its numbers as they are written.

A number becomes a :class:`~decimal.Decimal`, never a float.  The list comes from somewhere else, so it is
read within bounds: its size, its depth, and the digits of each number.
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Final, NoReturn

MAX_LIST_BYTES: Final = 8 * 1024 * 1024
"""Bytes of a price list; LiteLLM's has less than half."""
MAX_DIGITS: Final = 64
"""Characters of a number."""
_SIZES: Final = range(-100, 100)
"""Powers of ten that a number other than zero may have."""

Json = None | bool | Decimal | str | list["Json"] | dict[str, "Json"]
"""A value of the document."""


class PriceListError(Exception):
    """A price list cannot be used; the text says why."""


def read_document(content: bytes) -> dict[str, Json]:
    """Return the object that a price list is.

    :raises PriceListError: it is none, or too large.
    """
    if len(content) > MAX_LIST_BYTES:
        raise PriceListError(f"larger than {MAX_LIST_BYTES} bytes")
    try:
        found: Json = json.loads(
            content.decode("utf-8-sig"),
            parse_float=_number,
            parse_int=_number,
            parse_constant=_refuse,
            object_pairs_hook=_object,
        )
    except UnicodeDecodeError:
        raise PriceListError("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise PriceListError(f"not JSON: {error.msg} on line {error.lineno}") from None
    except RecursionError:
        raise PriceListError("nested too deep") from None
    if not isinstance(found, dict):
        raise PriceListError("not a JSON object")
    return found


def number_in(text: str) -> Decimal | None:
    """Return the number that a text is; ``None``: it is none, or one out of bounds."""
    try:
        number = Decimal(text) if len(text) <= MAX_DIGITS else None
    except InvalidOperation:
        return None
    if number is None or not number.is_finite() or (number and number.adjusted() not in _SIZES):
        return None
    return number or Decimal(0)  # a zero may have an exponent of any size


def _number(text: str) -> Decimal:
    number = number_in(text)
    if number is None:
        raise PriceListError(f"a number is out of bounds: {text[:MAX_DIGITS]}")
    return number


def _refuse(name: str) -> NoReturn:
    raise PriceListError(f"not JSON: {name} is not a number")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        known: set[str] = set()
        for name, _ in pairs:
            if name in known:
                raise PriceListError(f"duplicate key {name[:MAX_DIGITS]!r}")
            known.add(name)
    return found
