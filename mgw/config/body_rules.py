"""Rules that change request bodies on their way to a provider, and tokens in lists in headers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from math import isfinite
from types import MappingProxyType
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from mgw.config.checks import NAME, TEXT, checked_header_value, checked_name, checked_text, text_like
from mgw.config.environment import LoadContext
from mgw.config.problems import Path
from mgw.config.quoting import quote, unknown_value
from mgw.config.settings_base import (
    Documentation,
    EmptyIfNull,
    Omittable,
    Settings,
    UniqueList,
    check_with,
    defaults_of,
    expect,
    setting,
    wrong_type,
    wrong_value,
)
from mgw.nouns.member_paths import EACH, parse_path
from mgw.nouns.vocabulary import RuleDialect

PROTECTED: Final = frozenset({"model", "stream", "messages", "input", "contents", "prompt", "requests"})
"""What the gateway itself reads or a conversation consists of."""
CHANGES: Final = MappingProxyType(
    {"default": "minProperties", "set": "minProperties", "remove": "minItems", "cap": "minProperties"}
)
"""What a rule does, and the word of JSON schema for how much of it there is at least."""


def _one_or_more(check: Callable[[object], Any], words: str) -> PlainValidator:
    """Take one value or a list of them."""

    def validate(value: object) -> tuple[Any, ...]:
        values = value if isinstance(value, list | tuple) else [value]
        if not values:
            raise wrong_value(f"expected {words}, found an empty list")
        if not all(isinstance(one, str) for one in values):
            raise wrong_type(words)
        try:
            return tuple(dict.fromkeys(map(check, values)))
        except ValueError as error:
            raise wrong_value(str(error)) from None

    return PlainValidator(validate)


def _one_or_list(schema: dict[str, Any]) -> WithJsonSchema:  # Any: JSON
    return WithJsonSchema({"anyOf": [schema, {"type": "array", "items": schema, "minItems": 1}]})


def _dialect(text: Any) -> RuleDialect:  # Any: a string, as has been checked
    try:
        return RuleDialect(text)
    except ValueError:
        raise ValueError(unknown_value(text, RuleDialect, ", ".join(RuleDialect))) from None


def _model(text: Any) -> str:  # Any: as above
    return checked_name(text).lower()


def _client(text: Any) -> str:  # Any: as above
    return checked_text(text).lower()


Models = Annotated[
    tuple[str, ...], _one_or_more(_model, "a pattern of model ids, or a list of them"), _one_or_list(NAME)
]
Clients = Annotated[
    tuple[str, ...], _one_or_more(_client, "a pattern of clients, or a list of them"), _one_or_list(TEXT)
]
Dialects = Annotated[
    tuple[RuleDialect, ...],
    _one_or_more(_dialect, f"one of {', '.join(RuleDialect)}, or a list of them"),
    _one_or_list({"enum": [dialect.value for dialect in RuleDialect]}),
]


def _json(value: object) -> object:
    """Take a value that JSON has, without what the file remembers of its spelling."""
    if not _has_texts_as_names(value):
        raise wrong_value("a name in this value is no string, as in JSON: write it in quotes")
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
        return json.loads(text)
    except (TypeError, ValueError):  # also of what is no Unicode
        raise wrong_type("a value that JSON has") from None


def _has_texts_as_names(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(name, str) and _has_texts_as_names(one) for name, one in value.items())
    return not isinstance(value, list) or all(map(_has_texts_as_names, value))


def _number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise wrong_type("a number")
    return int(value) if isinstance(value, int) else float(value)


_JSON_TYPES: Final = ["string", "number", "boolean", "null", "object", "array"]
JsonValue = Annotated[object, PlainValidator(_json), WithJsonSchema({"type": _JSON_TYPES})]
CapNumber = Annotated[int | float, PlainValidator(_number), WithJsonSchema({"type": "number"})]
_NAME: Final = r"(?!(?:\[\])+(?:\.|$))(?:\\\.|[^.])+"
_PATH: Final = rf"{_NAME}(?:\.{_NAME})*"
_PROTECTED: Final = "|".join(sorted(PROTECTED))
CHANGED_PATH: Final = text_like(rf"(?!(?:{_PROTECTED})(?:\.|$))(?!.*\[\](?:\.|$)){_PATH}")
"""The path of a member that is set or lowered."""
REMOVED_PATH: Final = text_like(rf"(?!(?:{_PROTECTED})(?:\[\])*$){_PATH}")
PathText = Annotated[
    str, expect("the path of a member, such as metadata.user_id"), WithJsonSchema(REMOVED_PATH)
]


class BodyMatchSettings(Settings):
    """The requests that a rule applies to."""

    model: Omittable[Models] = setting(
        "Patterns for the id of the model that is sent to the provider", shown="all models"
    )
    dialect: Omittable[Dialects] = setting(
        "APIs in which the provider is asked: ``chat``, ``completions``, ``responses``, ``embeddings``, "
        "``messages`` or ``generate``",
        "It is that of the request to the provider, after any translation. ``embeddings`` includes those of "
        "Gemini.",
        shown="all",
    )
    client: Omittable[Clients] = setting(
        "Patterns for the name of the client, as in usage events", shown="all clients"
    )


class BodyRuleSettings(Settings):
    """One rule for request bodies."""

    match: EmptyIfNull[BodyMatchSettings] = setting(
        "Requests that the rule applies to",
        "Each setting is one value or a list. Patterns are those of a key's ``models``.",
        default=defaults_of(BodyMatchSettings),
        shown="all",
    )
    default: EmptyIfNull[dict[str, JsonValue]] = Field(
        default={},
        repr=False,
        json_schema_extra=Documentation(
            "Members to add if they are absent, by their paths",
            "A member that is ``null`` is not absent.",
            default="empty",
        ),
    )
    set: EmptyIfNull[dict[str, JsonValue]] = Field(
        default={},
        repr=False,
        json_schema_extra=Documentation("Members to replace or add, by their paths", default="empty"),
    )
    remove: UniqueList[PathText] = setting(
        "Paths of members to remove", "``name[]`` means every element of an array.", default=()
    )
    cap: EmptyIfNull[dict[str, CapNumber]] = setting(
        "Largest numbers, by the paths of members",
        "A larger number is lowered; anything else remains as it is.",
        default={},
    )


def _checked_token(text: str) -> str:
    if "," in text or not text.strip():
        raise ValueError(f"expected one element of a list, without a comma, found {quote(text)}")
    return checked_header_value(text)


_VISIBLE: Final = r"\x21-\x2b\x2d-\x7e\xa1-\xff"
TOKEN: Final = text_like(rf"[{_VISIBLE}](?:[ \xa0{_VISIBLE}]*[{_VISIBLE}])?")
Token = Annotated[
    str,
    expect("an element of a header's list (in quotes if YAML would read it as a number)"),
    check_with(_checked_token),
    WithJsonSchema(TOKEN),
]
TokenPattern = Annotated[
    str,
    expect("a pattern of elements such as context-management-*"),
    check_with(_checked_token),
    AfterValidator(str.lower),
    WithJsonSchema(TOKEN),
]


def check_body_rules(rules: Iterable[BodyRuleSettings], path: Path, context: LoadContext) -> None:
    """Note what keeps the rules of a provider or an alias from being applied."""
    for place, rule in enumerate(rules):
        here = (*path, place)
        if not any(getattr(rule, change) for change in CHANGES):
            context.report.add(here, "the rule does nothing: add default, set, remove or cap")
        for change in CHANGES:
            removes = change == "remove"
            for position, text in enumerate(getattr(rule, change)):
                reason = _why_refused(text, removes=removes)
                if reason is not None:
                    context.report.add((*here, change, position if removes else text), reason)


def _why_refused(text: str, *, removes: bool) -> str | None:
    """Say what is wrong with a path."""
    try:
        first, *rest = parse_path(text)
    except ValueError as error:
        return str(error)
    if not removes and EACH in rest:
        return "expected a path without []: only remove changes elements of arrays"
    if first in PROTECTED:
        if not [step for step in rest if step is not EACH]:
            return f"rules do not change {first}"
        if not removes:
            return f"rules do not change anything in {first}; they can only remove it"
    return None
