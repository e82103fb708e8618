"""Warnings about body rules that are valid but probably a mistake.

Source: Claude Code's page on gateways: it sends the beta ``context-management-…`` together with the field
``context_management``, and Anthropic's API refuses either of them without the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import translate
from typing import Final

from mgw.config.body_rules import BodyRuleSettings
from mgw.config.problems import Path, dotted_path
from mgw.config.provider import Provider
from mgw.config.settings import Config
from mgw.nouns.kinds import has_betas
from mgw.nouns.vocabulary import Family, Kind, RuleDialect

_HEADERS: Final = ("anthropic-beta", "beta-beta")
_BETA: Final = "context-management-2025-06-27"
_BETAS: Final = "context-management-*"
_FIELD: Final = "context_management"
_REFUSED: Final = "Claude Code sends both, and either alone is refused with 400"


def body_advice(config: Config) -> Iterator[str]:
    """Yield them, provider by provider, then alias by alias."""
    for name, provider in config.providers.items():
        if provider.row.family is not Family.ANTHROPIC:
            continue
        place: Path = ("providers", name)
        has_rule = _removes_field(provider.body)
        if provider.kind is Kind.BEDROCK and _cuts_beta(provider):
            where = dotted_path((*place, "headers", "remove_tokens"))
            yield f"{where}: kind bedrock sends no anthropic-beta, so nothing is removed: use betas"
            continue
        if has_rule and not _removes_beta(provider):
            yield f"{dotted_path((*place, 'body'))}: removes {_FIELD} {_but_not_beta(place)}"
        if _cuts_beta(provider) and not has_rule and not _aliases_remove_field(config, name):
            where = dotted_path((*place, "headers", "remove_tokens"))
            body = dotted_path((*place, "body"))
            yield f"{where}: removes {_BETAS} but {body} does not remove {_FIELD}: {_REFUSED}"
    for name, alias in config.own_aliases.items():
        if _removes_field(alias.body):
            for provider in _providers_of(config, alias.targets):
                if provider.row.family is Family.ANTHROPIC and not _removes_beta(provider):
                    where = dotted_path(("aliases", name, "body"))
                    yield f"{where}: removes {_FIELD} {_but_not_beta(('providers', provider.name))}"


def _but_not_beta(place: Path) -> str:
    where = dotted_path((*place, "headers", "remove_tokens"))
    return f"but {where} does not remove {_BETAS} from anthropic-beta: {_REFUSED}"


def _providers_of(config: Config, targets: Iterable[str]) -> list[Provider]:
    names = dict.fromkeys(target.partition("/")[0] for target in targets)
    return [config.providers[name] for name in names]


def _aliases_remove_field(config: Config, provider: str) -> bool:
    """Whether each alias that leads to a provider, of which there are some, has the rule in its place."""
    found = [
        alias
        for alias in config.own_aliases.values()
        if any(target.partition("/")[0] == provider for target in alias.targets)
    ]
    return bool(found) and all(_removes_field(alias.body) for alias in found)


def _removes_field(rules: Iterable[BodyRuleSettings]) -> bool:
    return any(
        _FIELD in rule.remove and (rule.match.dialect is None or RuleDialect.MESSAGES in rule.match.dialect)
        for rule in rules
    )


def _cuts_beta(provider: Provider) -> bool:
    tokens = provider.headers.remove_tokens
    return any(_fit(patterns) for header, patterns in tokens.items() if header.lower() in _HEADERS)


def _removes_beta(provider: Provider) -> bool:
    """Whether the beta does not go upstream, by whatever setting."""
    headers = provider.headers
    whole = {*headers.remove, *(name.lower() for name in headers.set)}
    is_chosen = has_betas(provider.row) and not _fit(provider.betas)
    return _cuts_beta(provider) or _HEADERS[0] in whole or is_chosen


def _fit(patterns: Iterable[str]) -> bool:
    return any(re.match(translate(pattern.lower()), _BETA) for pattern in patterns)
