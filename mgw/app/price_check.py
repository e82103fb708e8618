"""What ``mgw check`` and the log say of models without a price.

Clients under a limit on money get 403 for these.  So their patterns of models are looked at as well: one that
no row of prices can match, or a provider for which there is no row at all.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.key_settings import NamedKeySettings
from mgw.config.limit_rows import LimitRowSettings
from mgw.config.prices import UnpricedRule
from mgw.config.problems import dotted_path
from mgw.config.quoting import quote, redact
from mgw.config.settings import Config
from mgw.usage.prices import PriceTable

MOST_NAMED: Final = 5
"""So many models of a provider, and patterns of clients, are named."""
MOST_PATTERNS: Final = 1_000
"""Of clients with more, the first are enough."""
_WILDCARD: Final = re.compile(r"[*?\[\]]")
_ANY: Final = "*"


def price_warnings(
    config: Config, prices: PriceTable, wall: float, file_keys: Iterable[NamedKeySettings] = ()
) -> list[str]:
    """Return a sentence for each provider with models, and each pattern of clients, that have no price.

    :param wall: Unix seconds.
    :param file_keys: the keys of key files.
    """
    patterns = _patterns_under_budgets(config.edge_auth, file_keys)
    are_refused = config.prices is not None and config.prices.unpriced is UnpricedRule.REFUSE
    is_budgeted = are_refused and bool(patterns)
    effect = "these requests have no cost_usd"
    if is_budgeted:
        effect += ", and clients under a limit on usd get 403"
    reach = _Reach(config, prices, wall, list(patterns)[:MOST_PATTERNS])
    missing = {name: reach.without_price(name, named) for name, named in reach.models()}
    found = [
        f"prices: no row matches {_listed(models)} of {_provider(name)}, so {effect}"
        for name, models in missing.items()
        if models
    ]
    if is_budgeted:
        found += _of_patterns(reach, {name for name, models in missing.items() if models})
    return found


def _of_patterns(reach: _Reach, told: set[str]) -> Iterator[str]:
    """Say which providers and patterns no row can match, but for providers of which something was said."""
    effect = "so clients under a limit on usd get 403 for them"
    for name, patterns in reach.impossible().items():
        if name in told:
            continue
        like = "" if _ANY in patterns else f" like {_listed(map(quote, patterns))}"
        yield f"prices: no row is for a model{like} of {_provider(name)}, {effect}"


def _provider(name: str) -> str:
    return dotted_path(("providers", name))


def _listed(names: Iterable[str]) -> str:
    every = [redact(name) for name in names]
    more = f" and {len(every) - MOST_NAMED} more" if len(every) > MOST_NAMED else ""
    return ", ".join(every[:MOST_NAMED]) + more


def _patterns_under_budgets(
    settings: EdgeAuthSettings, file_keys: Iterable[NamedKeySettings]
) -> dict[str, None]:
    """Return the patterns of models of clients whose requests a limit on money may refuse."""
    if not settings.enabled:
        return {}
    is_for_all = _refuses_by_money(settings.limits)
    budgeted = {name for name, group in settings.groups.items() if _refuses_by_money(group.limits)}
    found: dict[str, None] = {}
    if is_for_all and len(settings.named) < len(settings.keys):
        found[_ANY] = None
    for key in (*settings.named, *file_keys):
        if is_for_all or _refuses_by_money(key.limits) or not budgeted.isdisjoint(key.groups):
            found.update(dict.fromkeys(_patterns_of(key, settings)))
    for rule in (rule for entry in settings.jwt for rule in entry.rules):
        if is_for_all or not budgeted.isdisjoint(rule.groups):
            found.update(dict.fromkeys(_patterns_of_groups(rule.groups, settings)))
    return found


def _refuses_by_money(rows: Iterable[LimitRowSettings]) -> bool:
    return any(row.usd is not None and row.refuses for row in rows)


def _patterns_of(key: NamedKeySettings, settings: EdgeAuthSettings) -> Iterable[str]:
    """Return the patterns of models that a key may use; those of its groups only where it has none itself."""
    return _patterns_of_groups(key.groups, settings) if key.models is None else key.models


def _patterns_of_groups(groups: Iterable[str], settings: EdgeAuthSettings) -> Iterable[str]:
    """Return the patterns of models that the members of groups may use."""
    of_groups = [settings.groups[name].models for name in groups if name in settings.groups]
    if not of_groups or any(models is None for models in of_groups):
        return (_ANY,)
    return [pattern for models in of_groups for pattern in models or ()]


@dataclass(slots=True, eq=False, repr=False)
class _Reach:
    """Which models of which providers the configuration and patterns of clients name."""

    config: Config
    prices: PriceTable
    wall: float
    patterns: list[str]
    """Those of clients under limits on money."""
    _providers: Mapping[str, str] = field(init=False)
    """The names of providers by these in lower case, as patterns are compared."""

    def __post_init__(self) -> None:
        self._providers = {name.lower(): name for name in self.config.providers}

    def models(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each provider with the models that aliases and patterns without wildcards name."""
        named: dict[str, list[str]] = {name: [] for name in self.config.providers}
        for several in self.config.aliases.values():
            for target in several:
                owner, _, model = target.partition("/")
                named.setdefault(owner, []).append(model)
        for owners, pattern in self._places():
            if not _WILDCARD.search(pattern) and not any(self._has_price(name, pattern) for name in owners):
                named[owners[0]].append(pattern)
        yield from ((name, named[name]) for name in self.config.providers)

    def impossible(self) -> dict[str, list[str]]:
        """Return by provider the patterns with wildcards that no row of prices can match."""
        rows, found = _RowStarts(self.prices, int(self.wall // 86_400)), dict[str, list[str]]()
        for owners, pattern in self._places():
            wildcard = _WILDCARD.search(pattern)
            start = "" if wildcard is None else pattern[: wildcard.start()]
            if wildcard is not None and not any(rows.may_match(name, start) for name in owners):
                found.setdefault(owners[0], []).append(pattern)
        return found

    def without_price(self, name: str, models: Iterable[str]) -> list[str]:
        """Return those of a provider's models that have no price, and of these others."""
        named: dict[str, str] = {}
        for model in (*self.config.providers[name].models, *models):
            named.setdefault(model.lower(), model)
        return [model for model in named.values() if not self._has_price(name, model)]

    def _has_price(self, provider: str, model: str) -> bool:
        return self.prices.row(provider, model, self.wall) is not None

    def _places(self) -> Iterator[tuple[Sequence[str], str]]:
        """Yield the providers to one of which each pattern leads, with what is left of the pattern."""
        defaults = list(dict.fromkeys(self.config.defaults.values()))
        aliases = {alias.lower() for alias in self.config.aliases}
        for pattern in self.patterns:
            first, slash, rest = pattern.partition("/")
            if pattern in (_ANY, "*/*"):
                yield from (([name], _ANY) for name in self.config.providers)
            elif slash and first in self._providers:
                yield [self._providers[first]], rest
            elif not slash and defaults and pattern not in aliases:
                yield defaults, pattern


class _RowStarts:
    """What rows of prices begin with before their first wildcard, by provider."""

    def __init__(self, prices: PriceTable, day: int) -> None:
        self._whole: dict[str | None, set[str]] = {}
        self._patterns: dict[str | None, set[str]] = {}
        for row in prices.rows:
            if row.holds_on(day):
                wildcard = _WILDCARD.search(row.match)
                place, start = (self._whole, row.match)
                if wildcard is not None:
                    place, start = self._patterns, row.match[: wildcard.start()]
                place.setdefault(row.provider, set()).add(start)
        self._sorted = {
            name: sorted(self._whole.get(name, set()) | self._patterns.get(name, set()))
            for name in self._whole.keys() | self._patterns.keys()
        }

    def may_match(self, provider: str, start: str) -> bool:
        """Whether a row may match a model that begins so; ``False``: none does."""
        return any(self._may_match(name, start) for name in (None, provider))

    def _may_match(self, name: str | None, start: str) -> bool:
        starts = self._sorted.get(name, [])
        place = bisect_left(starts, start)
        if place < len(starts) and starts[place].startswith(start):
            return True
        patterns = self._patterns.get(name, set())
        return any(start[:length] in patterns for length in range(len(start)))
