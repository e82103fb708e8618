"""Warnings about issuers of tokens: settings that are valid but probably a mistake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from mgw.config.claims import ClaimValue
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.jwt import JWT, JwtSettings
from mgw.config.problems import Path, dotted_path
from mgw.config.quoting import quote, redact

_PUBLIC: Final = frozenset(
    {"https://accounts.google.com", "https://gitlab.com", "https://token.actions.githubusercontent.com"}
)
"""Issuers that sign tokens for anybody, with whatever audience is asked for."""
_MOST_COMPARED: Final = 100
"""Of an issuer with more rules, the first are compared with each other."""
_WILDCARDS: Final = frozenset("*?[")


def identity_advice(edge_auth: EdgeAuthSettings) -> Iterator[str]:
    """Yield all of them."""
    if edge_auth.jwt and not edge_auth.enabled:
        yield "edge_auth.enabled: jwt is set, but edge auth is off, so no token is checked"
    for position, entry in enumerate(edge_auth.jwt):
        path = (*JWT, position)
        yield from _of_rules(entry, (*path, "rules"))
        yield from _of_names(entry, path)


def _of_rules(entry: JwtSettings, path: Path) -> Iterator[str]:
    yield from _of_values(entry, path)
    always = next((place for place, rule in enumerate(entry.rules) if rule.when is None), None)
    yield from _of_covered(entry, path, always)
    if always is None:
        return
    here = dotted_path((*path, always))
    if entry.issuer in _PUBLIC:
        yield f"{here}: admits everybody, since this issuer signs tokens for anybody: add when"
    if always + 1 < len(entry.rules):
        what = f"never applies, since {here} has no when and matches every token"
        yield f"{dotted_path((*path, always + 1))}: {what}"


def _of_covered(entry: JwtSettings, path: Path, end: int | None) -> Iterator[str]:
    """Say which rules before one without ``when`` never apply, since an earlier one has their tokens."""
    conditions = [rule.when or {} for rule in entry.rules[:end][:_MOST_COMPARED]]
    for place, later in enumerate(conditions):
        found = next((at for at, earlier in enumerate(conditions[:place]) if _covers(earlier, later)), None)
        if found is not None:
            where, earlier = dotted_path((*path, place, "when")), dotted_path((*path, found))
            yield f"{where}: this rule never applies, since {earlier} matches all of its tokens"


def _covers(earlier: Mapping[str, Sequence[ClaimValue]], later: Mapping[str, Sequence[ClaimValue]]) -> bool:
    """Whether all tokens that the later conditions match are matched by the earlier ones."""
    return earlier.keys() <= later.keys() and all(
        any(_includes(wider, value) for wider in values)
        for claim, values in earlier.items()
        for value in later[claim]
    )


def _includes(wider: ClaimValue, value: ClaimValue) -> bool:
    if isinstance(wider, str) and isinstance(value, str) and _WILDCARDS.isdisjoint(value):
        return fnmatchcase(value, wider)
    return isinstance(wider, bool) == isinstance(value, bool) and wider == value


def _of_values(entry: JwtSettings, path: Path) -> Iterator[str]:
    """Warn of the end of an address where a pattern is meant: the whole claim has to match."""
    for position, rule in enumerate(entry.rules):
        for claim, values in (rule.when or {}).items():
            ends = [value for value in values if isinstance(value, str) and value.startswith("@")]
            if ends:
                where, end = dotted_path((*path, position, "when", claim)), ends[0]
                yield f"{where}: {quote(end)} matches this text alone: did you mean {quote(f'*{end}')}?"


def _of_names(entry: JwtSettings, path: Path) -> Iterator[str]:
    """Warn of names of claims that look like the way to a claim in another one."""
    named: list[tuple[Path, str]] = [((*path, "client"), entry.client)]
    named += [((*path, "tags", tag), claim) for tag, claim in entry.tags.items()]
    for position, rule in enumerate(entry.rules):
        named += [((*path, "rules", position, "when", claim), claim) for claim in rule.when or ()]
    for where, claim in named:
        separator = "/" if "/" in claim else "."
        outer, found, inner = claim.rpartition(separator)
        if found and outer and inner and not claim.startswith("/") and "://" not in claim:
            meant = f"/{claim.replace(separator, '/')}, which is {inner} in {outer}"
            yield redact(f"{dotted_path(where)}: {claim} is the name of one claim: did you mean {meant}?")
