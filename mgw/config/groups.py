"""Groups of clients, which share models, limits, tags and a priority, and what keys have of these."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Final

from pydantic import WithJsonSchema

from mgw.config.checks import NAME, TEXT, checked_name, checked_text, text_like
from mgw.config.field_types import ModelPattern, OneOf
from mgw.config.limit_rows import LimitRowSettings, check_limit_rows
from mgw.config.problems import Path, Report
from mgw.config.quoting import is_quotable, listed, nearest_word, quote
from mgw.config.settings_base import (
    EmptyIfNull,
    ListOf,
    Omittable,
    Settings,
    UniqueList,
    check_with,
    expect,
    setting,
)
from mgw.nouns.vocabulary import Priority

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_LABELS: Final = frozenset({"none", "other"})
"""What metrics say of requests without a named key."""
HOLDER_NAME: Final = text_like(_NAME.pattern) | {"not": {"enum": sorted(_LABELS)}}
MAX_TAGS: Final = 16
MAX_TAG_CHARACTERS: Final = 256
GROUPS: Final[Path] = ("edge_auth", "groups")


def checked_holder_name(text: str) -> str:
    """Take the name of a key or of a group."""
    if not _NAME.fullmatch(text):
        raise ValueError(
            "expected a name of at most 64 letters, digits, '.', '_' and '-' that does not begin with '.' "
            f"or '-', found {quote(text)}"
        )
    if text in _LABELS:
        raise ValueError(f"expected another name: metrics use {text} for requests without a named key")
    return text


def _checked_tag(text: str) -> str:
    if len(text) > MAX_TAG_CHARACTERS:
        raise ValueError(f"expected at most {MAX_TAG_CHARACTERS} characters, found {len(text)}")
    return checked_text(text)


GroupName = Annotated[
    str,
    expect("the name of a group (in quotes if YAML would read it as a number)"),
    WithJsonSchema(HOLDER_NAME),
]
"""A name that some group has to have; whoever knows the groups checks it."""
TagValue = Annotated[
    str,
    expect("a string (in quotes if YAML would read it as a number)"),
    check_with(_checked_tag),
    WithJsonSchema(TEXT | {"maxLength": MAX_TAG_CHARACTERS}),
]
Tags = Annotated[
    EmptyIfNull[dict[str, TagValue]],
    WithJsonSchema(
        {
            "type": ["object", "null"],
            "propertyNames": NAME,
            "maxProperties": MAX_TAGS,
            "additionalProperties": TEXT | {"maxLength": MAX_TAG_CHARACTERS},
        }
    ),
]
PriorityName = Annotated[Priority, OneOf()]


class GroupSettings(Settings):
    """What the clients in a group have in common."""

    models: Omittable[UniqueList[ModelPattern]] = setting(
        "Patterns for the models that the group may use, as in a key's ``models``",
        "A client in several groups may use what at least one of them allows. If its key has ``models`` as "
        "well, a model must match both.",
        shown="all models",
    )
    limits: ListOf[LimitRowSettings] = setting(
        "Limits on what the clients in the group use together, or with ``each``, separately",
        "Each row has the settings of ``edge_auth.limits``.",
        default=(),
    )
    tags: Tags = setting(
        "Names and values that usage events of the group's clients contain",
        f"At most {MAX_TAGS}; a value has at most {MAX_TAG_CHARACTERS} characters. If several groups of a "
        "client have a tag of the same name, the last of them in the key's list applies.",
        default={},
    )
    priority: Omittable[PriorityName] = setting(
        "Priority of the group's requests where requests wait",
        "For a client in several groups, the highest applies.",
    )


def check_groups(groups: Mapping[str, GroupSettings], report: Report) -> None:
    """Note what is wrong with groups."""
    for name, group in groups.items():
        here = (*GROUPS, name)
        try:
            checked_holder_name(name)
        except ValueError as error:
            report.add(here, f"as a group: {error}")
        check_limit_rows(group.limits, (*here, "limits"), report)
        check_tags(group.tags, (*here, "tags"), report)


def check_tags(tags: Mapping[str, str], path: Path, report: Report) -> None:
    """Note what is wrong with tags, but for their values."""
    if len(tags) > MAX_TAGS:
        report.add(path, f"expected at most {MAX_TAGS} tags, found {len(tags)}")
    for name in tags:
        try:
            checked_name(name)
        except ValueError as error:
            report.add((*path, name), f"as a tag: {error}")


def check_group_names(names: Collection[str], path: Path, known: Collection[str], report: Report) -> None:
    """Note which of these names no group has.

    A name is repeated only beside one that it resembles: else it may be a key.
    """
    if report.has_problem_at(GROUPS):
        return
    for position, name in enumerate(names):
        if name in known or report.has_problem_below((*GROUPS, name)):
            continue
        near = nearest_word(name, filter(is_quotable, known))
        what = "no group has this name" if near is None else f"no group is named {quote(name)}"
        guess = "" if near is None else f", did you mean {near}?"
        report.add((*path, position), f"{what}{guess} (known: {listed(known) or 'none'})")
