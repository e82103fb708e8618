"""Which rules change the body of a request, and what they make of it.

The rules of a configuration are compiled once.  Which of them apply to a request follows from its route, its
target, its client and the dialect in which the provider is asked; that is remembered for the next one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import translate
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.config.body_rules import BodyRuleSettings
from mgw.config.settings import Config
from mgw.nouns.member_paths import MemberPath, parse_path
from mgw.nouns.vocabulary import DialectName, Modality, RuleDialect
from mgw.routing.resolve import Target
from mgw.routing.route import Route, Treatment
from mgw.wire.edited_json import EditedObject
from mgw.wire.json_spans import apply_edits

MAX_KNOWN: Final = 4096
"""For how many models, clients and dialects it is remembered which rules apply."""
MAX_KNOWN_CHARS: Final = 256
"""For longer names of models it is not."""
_MODELS: Final = "models/"
_OTHERS: Final = MappingProxyType(
    {
        "completions": RuleDialect.COMPLETIONS,
        "beta_completions": RuleDialect.COMPLETIONS,
        "complete": RuleDialect.COMPLETIONS,
        "moderations": None,
    }
)
"""Routes for texts whose requests are in none of the dialects that conversations have."""
Fits = Callable[[str], object]
Change = tuple[Callable[[EditedObject, MemberPath, bytes], bool], MemberPath, bytes]
"""What becomes of a member, and a value as JSON."""


class BodyRule(Struct, frozen=True, eq=False):
    """One rule."""

    models: Fits | None
    """Whether a pattern fits a model, in lower case; ``None``: it applies to all."""
    dialects: frozenset[RuleDialect]
    """Those that it applies to; none: all."""
    clients: Fits | None
    removals: tuple[MemberPath, ...]
    changes: tuple[Change, ...]
    """What follows, in order."""

    def __repr__(self) -> str:  # values may be anything
        return "BodyRule()"

    def applies(self, model: str | None, dialect: RuleDialect | None, client: str | None) -> bool:
        """Whether the rule applies to a request."""
        return (
            (not self.dialects or dialect in self.dialects)
            and (self.models is None or (model is not None and bool(self.models(model.lower()))))
            and (self.clients is None or (client is not None and bool(self.clients(client.lower()))))
        )


class MatchingRules(Struct, frozen=True, eq=False):
    """The rules that apply to a request, at least one, in their order."""

    rules: tuple[BodyRule, ...]

    def apply(self, body: bytes) -> tuple[bytes, int]:
        """Return a body as the rules have it, and how many of them change it; unchanged, the same object.

        :raises GatewayError: ``MALFORMED`` for what is no JSON object, and for one with too many parts.
        """
        found = EditedObject(body)
        changed = 0
        for rule in self.rules:
            changes = False
            for path in rule.removals:
                changes = found.remove(path) or changes
            for change, path, value in rule.changes:
                changes = change(found, path, value) or changes
            changed += changes
        return (apply_edits(body, found.edits()), changed) if changed else (body, 0)


_Known = tuple[str, str | None, str | None, str, DialectName | None, str | None]


class BodyRules:
    """The rules of a configuration."""

    def __init__(self, config: Config) -> None:
        self._of_alias = {
            name: _compile(alias.body) for name, alias in config.own_aliases.items() if alias.body
        }
        self._of_provider = {
            name: _compile(provider.body) for name, provider in config.providers.items() if provider.body
        }
        every = [*self._of_alias.values(), *self._of_provider.values()]
        self._names_clients = any(rule.clients is not None for rules in every for rule in rules)
        self._known: dict[_Known, MatchingRules | None] = {}

    @classmethod
    def of(cls, config: Config) -> BodyRules | None:
        """Return the rules of a configuration; ``None``: it has none."""
        found = cls(config)
        return found if found._of_alias or found._of_provider else None

    def find(
        self, route: Route, target: Target, client: str | None, translated: DialectName | None = None
    ) -> MatchingRules | None:
        """Return the rules for a request; ``None``: its body stays as it is.

        :param client: its name in usage events.
        :param translated: the dialect that the request is translated into; ``None``: it is passed on.
        """
        name, asked, model = target.provider_name, target.asked_model, target.upstream_model
        key = name, asked, model, route.name, translated, client if self._names_clients else None
        try:
            return self._known[key]
        except KeyError:
            found = self._find(route, target, client, translated)
        if len(asked or "") <= MAX_KNOWN_CHARS:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[key] = found
        return found

    def _find(
        self, route: Route, target: Target, client: str | None, translated: DialectName | None
    ) -> MatchingRules | None:
        if not _has_rules(route):
            return None
        dialect = asked_dialect(route, translated)
        alias = (target.asked_model or "").removeprefix(_MODELS)
        rules = *self._of_alias.get(alias, ()), *self._of_provider.get(target.provider_name, ())
        model = None if target.upstream_model is None else target.upstream_model.removeprefix(_MODELS)
        found = tuple(rule for rule in rules if rule.applies(model, dialect, client))
        if route.treatment is Treatment.COUNT:
            found = tuple(only_removing(rule) for rule in found if rule.removals)
        return MatchingRules(found) if found else None


def only_removing(rule: BodyRule) -> BodyRule:
    """Return what a rule does when tokens are counted, where fields for an answer would be refused."""
    return BodyRule(rule.models, rule.dialects, rule.clients, rule.removals, ())


def asked_dialect(route: Route, translated: DialectName | None) -> RuleDialect | None:
    """Return the dialect in which a provider is asked; ``None``: it has no name in rules.

    :param translated: as in :meth:`BodyRules.find`.
    """
    if route.modality is Modality.EMBEDDING:
        return RuleDialect.EMBEDDINGS
    if translated is None and route.name in _OTHERS:
        return _OTHERS[route.name]
    return (translated or route.dialect).in_rules


def _has_rules(route: Route) -> bool:
    """Whether bodies of a route are changed: JSON for texts and embeddings."""
    return route.method == "POST" and route.modality in (Modality.TEXT, Modality.EMBEDDING)


def _compile(rules: Iterable[BodyRuleSettings]) -> tuple[BodyRule, ...]:
    return tuple(map(_compile_rule, rules))


def _compile_rule(rule: BodyRuleSettings) -> BodyRule:
    return BodyRule(
        _matcher(rule.match.model),
        frozenset(rule.match.dialect or ()),
        _matcher(rule.match.client),
        tuple(map(parse_path, rule.remove)),
        (
            *_changes(EditedObject.default, rule.default),
            *_changes(EditedObject.put, rule.set),
            *_changes(EditedObject.cap, rule.cap),
        ),
    )


def _changes(
    change: Callable[[EditedObject, MemberPath, bytes], bool], values: Mapping[str, object]
) -> Iterator[Change]:
    for path, value in values.items():
        yield change, parse_path(path), _compact(value)


def _compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _matcher(patterns: tuple[str, ...] | None) -> Fits | None:
    return None if patterns is None else re.compile("|".join(map(translate, patterns))).match
