"""The reference of settings in ``docs/configuration.rst``, from the classes that declare them.

The page says with a comment which settings stand where; everything between that comment and its end is
generated.  What kind of value a setting takes is what the loader's own message says it expected.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from mgw.config.field_types import SPEAKING
from mgw.config.settings import Config
from mgw.config.settings_base import block_in, documentation_of, file_settings, required_keys
from mgw.nouns.vocabulary import Family

_PART: Final = re.compile(r"^\.\. settings: (.+)\n(?:.*\n)*?\.\. end of settings$", re.MULTILINE)
_WIDTH: Final = 116
_EACH: Final = "[]"
"""The last step of the path to a list or a mapping of blocks, beside the paths to their settings."""
_BY_FAMILY: Final = MappingProxyType(
    {
        ("defaults",): tuple(f"{family}_dialect" for family in Family),
        ("translation", "voices"): SPEAKING,
    }
)
"""Mappings by family; the page explains the neutral spellings once."""
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_LITERAL: Final = re.compile(r"\b(?:true|false)\b|urn:")
_DESCRIBED_ELSEWHERE: Final = frozenset(
    {
        ("providers", "timeouts"),
        ("aliases", "body"),
        ("edge_auth", "keys", "limits"),
        ("edge_auth", "groups", "limits"),
        ("prices", "rows", "tiers"),
        ("prices", "rows", "service_tiers"),
    }
)
"""Blocks of which the page says where else their settings are described."""

_Path = tuple[str, ...]


class Entry(Struct, frozen=True):
    """One setting."""

    path: _Path
    block: type[BaseModel]
    key: str
    field: FieldInfo


def render(page: str, block: type[BaseModel] = Config, file: str = "docs/configuration.rst") -> str:
    """Return the page with its generated parts renewed.

    :param block: whose settings the page describes.
    :param file: the page's, for messages.

    :raises ValueError: where it names no setting, or leaves one out, or has one twice.
    """
    waiting = {entry.path: entry for entry in entries(block)}

    def part(match: re.Match[str]) -> str:
        found = []
        for name in match[1].split():
            path = tuple(name.split("."))
            below = [known for known in waiting if known[: len(path)] == path]
            if not below:
                raise ValueError(f"{file}: no setting is left at {name}")
            found += [_text(waiting.pop(known)) for known in below]
        return "\n\n".join([f".. settings: {match[1]}", *found, ".. end of settings"])

    text = _PART.sub(part, page)
    if waiting:
        names = ", ".join(map(".".join, waiting))
        raise ValueError(f"{file} leaves out {names}: name it in one of the lines '.. settings: ...'")
    return text


def entries(block: type[BaseModel], above: _Path = ()) -> Iterator[Entry]:
    """Yield every setting that is no block, and every list and mapping of blocks, as they are declared."""
    for key, field in file_settings(block).items():
        path = (*above, key)
        inner = block_in(field.annotation)
        if inner is None or path in _DESCRIBED_ELSEWHERE:
            yield Entry(path, block, key, field)
            continue
        is_one_of_several, settings = inner
        if is_one_of_several:
            yield Entry((*path, _EACH), block, key, field)
        yield from entries(settings, path)


def _text(entry: Entry) -> str:
    documentation = documentation_of(entry.field)
    default = f"; default {documentation.default}" if documentation.default else ""
    if entry.key in required_keys(entry.block):
        default = "; required"
    variable = f"The environment variable ``{documentation.variable}`` overrides it."
    sentences = [
        f"{_value_words(entry)}{default}.",
        f"{documentation.summary}.",
        documentation.details,
        variable if documentation.variable else "",
    ]
    words = " ".join(filter(None, sentences))
    body = textwrap.fill(words, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return f"{_names(entry)}\n{textwrap.indent(body, '    ')}"


def _names(entry: Entry) -> str:
    """Return the term: the path as the page shows it, below ``providers.<name>`` and in rows without them."""
    *above, key = (step for step in entry.path if step != _EACH)
    shown = [] if above[:2] == ["translation", "models"] else above[above[:1] == ["providers"] :]
    path = ".".join([*shown, key])
    names = [f"{path}.{name}" for name in _BY_FAMILY.get(entry.path, ())] or [path]
    return ", ".join(f"``{name}``" for name in names)


def _value_words(entry: Entry) -> str:
    """Say what value a setting takes."""
    words = _expected(entry.block, entry.key, _BY_FAMILY.get(entry.path, ())[:1]).replace("*", r"\*")
    first, *rest = re.split(r"(?<=one of )", words)
    if rest:
        values, comma, others = rest[0].partition(", or ")
        marked = _WORD.sub(lambda word: word[0] if word[0] == "or" else f"``{word[0]}``", values)
        words = first + marked + comma + _LITERAL.sub(r"``\g<0>``", others)
    words = re.sub(r"\b(true|false)\b", r"``\1``", words) if not rest else words
    return words[0].upper() + words[1:]


def _expected(block: type[BaseModel], key: str, below: tuple[str | int, ...]) -> str:
    """Ask the loader: hand it what no setting takes, and see what it says it expected there."""
    value: Any = object()  # Any: whatever the place takes
    for step in reversed(below):
        value = [value] if step == 0 else {step: value}
    try:
        block.model_validate({key: value})
    except ValidationError as error:
        for fault in error.errors(include_input=False, include_url=False, include_context=False):
            if fault["loc"] != (key, *below):
                continue
            if fault["type"] == "list_type":
                return f"list; each element: {_expected(block, key, (*below, 0))}"
            if fault["type"] == "dict_type":
                return f"mapping of names; each value: {_expected(block, key, (*below, 'openai'))}"
            return "a block of settings" if fault["type"] == "model_type" else fault["msg"]
    raise AssertionError(f"{key} takes anything")
