"""The checks of single settings as patterns of a JSON schema, for editors.

A pattern never refuses what the loader takes; where the loader is stricter than a pattern can say (whether an
address exists), the pattern is the wider of the two.  They are written for the regular expressions of
ECMAScript, without flags, as the schema's standard demands.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from mgw.config.checks import CREDENTIAL_HEADERS, FRAMING_HEADERS
from mgw.config.listen import ENDPOINT_TYPES

Schema = dict[str, Any]  # Any: JSON

_CONTROL: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
_HOST: Final = r"(?:\[[^\]\s]+\]|[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_.])?)"
_PORT: Final = (
    "0*(?:[0-5]?[0-9]{1,4}|6(?:[0-4][0-9]{3}|5(?:[0-4][0-9]{2}|5(?:[0-2][0-9]|3[0-5]))))"  # up to 65535
)
_NO_DOT_SEGMENT: Final = r"(?!.*/\.\.?(?:/|$))"
_URL_PATH: Final = r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*)?"


def text_like(pattern: str) -> Schema:
    """Return the schema of a text with this pattern."""
    return {"type": "string", "pattern": f"^{pattern}$"}


def _in_any_case(names: Iterable[str]) -> str:
    return "|".join(
        "".join(f"[{letter}{letter.upper()}]" if letter.isalpha() else letter for letter in name)
        for name in sorted(names)
    )


TEXT: Final = text_like(f"[^{_CONTROL}]+")
NAME: Final = text_like(rf"[^\s{_CONTROL}]+")
VARIABLE: Final = text_like("[A-Za-z_][A-Za-z0-9_]*")
PROVIDER_NAME: Final = text_like("[A-Za-z0-9._-]+")
KEY: Final = text_like(r"[\x21-\x7e\xa1-\xff]+") | {
    "not": {"pattern": r"^(?:\$\{[^}]*\}|\$[A-Za-z_][A-Za-z0-9_]*|os\.environ/.*|<.*>)$"}
}
_NOT_EDITED: Final = _in_any_case(CREDENTIAL_HEADERS | FRAMING_HEADERS)
_OF_UPGRADES: Final = _in_any_case(["sec-websocket-"])
HEADER_NAME: Final = text_like(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+") | {
    "not": {"pattern": f"^(?:{_NOT_EDITED})$|^{_OF_UPGRADES}"}
}
HEADER_VALUE: Final = text_like(r"(?:[\x21-\x7e\xa1-\xff](?:[\x20-\x7e\xa0-\xff]*[\x21-\x7e\xa1-\xff])?)?")
ADDRESS: Final = text_like(f"{_NO_DOT_SEGMENT}[hH][tT][tT][pP][sS]?://{_HOST}(?::{_PORT}?)?{_URL_PATH}")
ABSOLUTE_PATH: Final = text_like(f"/[^{_CONTROL}]*")
NETWORK: Final = text_like("[0-9A-Fa-f:.]+(?:/[0-9]{1,3})?")
TARGET: Final = text_like(rf"[^/\s{_CONTROL}]+/[^\s{_CONTROL}]+")
LISTEN: Final = text_like(
    rf"(?:(?:{'|'.join(sorted(ENDPOINT_TYPES))}):\S(?:.*\S)?|(?:\[[^\]\s]+\]|[A-Za-z0-9](?:[A-Za-z0-9._-]*"
    r"[A-Za-z0-9])?)?:"
    f"{_PORT})"
)
