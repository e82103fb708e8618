"""Warnings about issuers of tokens: settings that are valid but probably a mistake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.jwt import JWT, JwtSettings
from mgw.config.problems import Path, dotted_path

_PUBLIC: Final = frozenset(
    {"https://accounts.google.com", "https://gitlab.com", "https://token.actions.githubusercontent.com"}
)
"""Issuers that sign tokens for anybody, with whatever audience is asked for."""


def identity_advice(edge_auth: EdgeAuthSettings) -> Iterator[str]:
    """Yield all of them."""
    if edge_auth.jwt and not edge_auth.enabled:
        yield "edge_auth.enabled: jwt is set, but edge auth is off, so no token is checked"
    for position, entry in enumerate(edge_auth.jwt):
        yield from _of_rules(entry, (*JWT, position, "rules"))


def _of_rules(entry: JwtSettings, path: Path) -> Iterator[str]:
    always = next((place for place, rule in enumerate(entry.rules) if rule.when is None), None)
    if always is None:
        return
    here = dotted_path((*path, always))
    if entry.issuer in _PUBLIC:
        yield f"{here}: admits everybody, since this issuer signs tokens for anybody: add when"
    if always + 1 < len(entry.rules):
        what = f"never applies, since {here} has no when and matches every token"
        yield f"{dotted_path((*path, always + 1))}: {what}"
