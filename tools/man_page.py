"""The list of settings in the manual page of the configuration file."""

from __future__ import annotations

import json
import textwrap
from typing import Any, Final

from mgw.config.schema import schema_text

BEGIN: Final = ".. begin of the settings (generated)\n"
END: Final = ".. end of the settings\n"
_WIDTH: Final = 100


def render(page: str) -> str:
    """Return the page with a list of the settings at the top level of the file."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    document = json.loads(schema_text())
    entries = [_entry(name, value, document) for name, value in document["properties"].items()]
    return f"{before}{BEGIN}\n{''.join(entries)}{END}{after}"


def _entry(name: str, value: dict[str, Any], document: dict[str, Any]) -> str:  # Any: JSON schema
    text = " ".join(value.get("description", "").split())
    inner = _settings_of(value, document)
    if inner:
        text = f"{text} Settings: {', '.join(f'``{word}``' for word in inner)}."
    body = textwrap.fill(
        text, _WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False
    )
    return f"``{name}``\n{body}\n\n"


def _settings_of(value: dict[str, Any], document: dict[str, Any]) -> list[str]:
    """Return the names of the settings in a block."""
    for choice in value.get("anyOf", [value]):
        inner = choice.get("additionalProperties")
        for part in (choice, inner if isinstance(inner, dict) else {}):
            if "$ref" in part:
                return list(document["$defs"][part["$ref"].rpartition("/")[2]]["properties"])
    return []
