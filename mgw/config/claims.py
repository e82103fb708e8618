"""Claims of tokens in settings: how they are named, and what they are compared with.

A claim is a name at the top of a token's claims or, where it begins with ``/``, a JSON Pointer (RFC 6901).
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Annotated, Final

from pydantic import PlainValidator, WithJsonSchema

from mgw.config.checks import TEXT, checked_text, text_like
from mgw.config.settings_base import NotEmpty, check_with, expect, wrong_type, wrong_value

_WRONG_ESCAPE: Final = re.compile("~(?![01])")

ClaimValue = str | bool | int | float


def checked_claim(text: str) -> str:
    """Take the name of a claim, or the JSON Pointer to one."""
    checked_text(text)
    if text.startswith("/") and _WRONG_ESCAPE.search(text):
        raise ValueError(
            "expected a JSON Pointer, because it begins with /: in a pointer, write ~0 for ~ and ~1 for / "
            "(RFC 6901)"
        )
    return text


def _values(given: object) -> tuple[ClaimValue, ...]:
    """Take a value of a claim, or a list of values of which one has to fit."""
    values = given if isinstance(given, list | tuple) else [given]
    if not values:
        raise wrong_value("expected at least one value, found an empty list")
    return tuple(map(_value, values))


def _value(given: object) -> ClaimValue:
    if isinstance(given, str):
        try:
            return checked_text(given)
        except ValueError as error:
            raise wrong_value(str(error)) from None
    if isinstance(given, bool | int):
        return given
    if isinstance(given, float) and isfinite(given):
        return float(given)  # without the text in the file
    raise wrong_type("a string, true, false, a number, or a list of these")


CLAIM: Final = text_like(r"(?:/(?!.*~(?:[^01]|$))|[^/])[^\x00-\x1f\x7f-\x9f\u2028\u2029]*")
_SCALARS: Final = [TEXT, {"type": ["boolean", "number"]}]
_VALUES: Final = {"anyOf": [*_SCALARS, {"type": "array", "items": {"anyOf": _SCALARS}, "minItems": 1}]}

ClaimName = Annotated[
    str,
    expect("the name of a claim, or a JSON Pointer such as /realm_access/roles"),
    check_with(checked_claim),
    WithJsonSchema(CLAIM),
]
Conditions = Annotated[
    dict[str, Annotated[tuple[ClaimValue, ...], PlainValidator(_values)]],
    NotEmpty("claim", "to match every token, leave when out"),
    WithJsonSchema(
        {"type": "object", "minProperties": 1, "propertyNames": CLAIM, "additionalProperties": _VALUES}
    ),
]
"""Claims, with values of which one has to fit: texts are patterns, all others are compared as they are.
Whoever has the whole rule checks the names."""
