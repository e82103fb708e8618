"""What groups give to their clients: which models they may use, tags and a priority."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import translate
from functools import lru_cache

from mgw.config.edge_auth import EdgeAuthSettings
from mgw.nouns.vocabulary import Priority

Matcher = Callable[[str], object]


def matchers_of(
    models: tuple[str, ...] | None, groups: Sequence[str], settings: EdgeAuthSettings
) -> tuple[Matcher, ...]:
    """Return what has to fit a model: a client's own patterns, and those of its groups together.

    :param models: ``None``: it has no patterns of its own.
    """
    found = [] if models is None else [_matcher(models)]
    stated = [settings.groups[name].models for name in groups]
    of_groups = [patterns for patterns in stated if patterns is not None]
    if groups and len(of_groups) == len(groups):
        found.append(
            _matcher(tuple(dict.fromkeys(pattern for patterns in of_groups for pattern in patterns)))
        )
    return tuple(found)


def tags_of(
    groups: Iterable[str], own: Mapping[str, str], settings: EdgeAuthSettings
) -> tuple[tuple[str, str], ...]:
    """Return the tags of groups and of a client itself; of one name, the last has precedence."""
    tags: dict[str, str] = {}
    for name in groups:
        tags |= settings.groups[name].tags
    return tuple({**tags, **own}.items())


def highest_priority(groups: Iterable[str], settings: EdgeAuthSettings) -> Priority:
    """Return the highest priority that one of these groups states."""
    stated = {settings.groups[name].priority for name in groups}
    return next((priority for priority in Priority if priority in stated), Priority.INTERACTIVE)


@lru_cache(maxsize=8_192)
def _matcher(patterns: tuple[str, ...]) -> Matcher:
    """Return whether one of these patterns fits a text; a reload compiles them in a thread first."""
    if not patterns:
        return never
    return re.compile("|".join(map(translate, patterns))).match


def never(_: str) -> None:
    """Return ``None``: no model fits."""
