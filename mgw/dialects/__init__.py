"""From wire format to canonical form and back.  Pure.

This module is the registry: one line for each dialect.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from mgw.canonical.reply import UpstreamError
from mgw.dialects import anthropic, gemini, openai, responses
from mgw.dialects.dialect import ClientSide, Dialect, Meter, ModelLister, ModelPage, ProviderSide
from mgw.nouns.families import FAMILIES
from mgw.nouns.vocabulary import DialectName, Family

__all__ = [
    "ClientSide",
    "Dialect",
    "Meter",
    "ModelLister",
    "ModelPage",
    "ProviderSide",
    "client_side_of",
    "dialect_of",
    "error_reader_of",
    "lister_of",
    "provider_side_of",
]

_DIALECTS: Final = MappingProxyType(
    {
        DialectName.OPENAI_CHAT: openai.CHAT,
        DialectName.OPENAI_RESPONSES: responses.DIALECT,
        DialectName.OPENAI: openai.OTHERS,
        DialectName.ANTHROPIC: anthropic.DIALECT,
        DialectName.GEMINI: gemini.DIALECT,
    }
)


def dialect_of(name: DialectName) -> Dialect:
    """Return what the dialect of this name brings."""
    return _DIALECTS[name]


_CLIENTS: Final = MappingProxyType(
    {
        name: row.client or _DIALECTS[FAMILIES[name.family].provider_dialect].client
        for name, row in _DIALECTS.items()
    }
)


def client_side_of(dialect: DialectName) -> ClientSide:
    """Return how clients that use a dialect are answered in a translation."""
    client = _CLIENTS[dialect]
    assert client is not None, "every family has a dialect that translates"
    return client


def provider_side_of(dialect: DialectName) -> ProviderSide:
    """Return how providers are asked in a dialect."""
    provider = _DIALECTS[dialect].provider
    assert provider is not None, "providers are asked in dialects that translate"
    return provider


def error_reader_of(family: Family) -> Callable[[int, bytes], UpstreamError]:
    """Return what reads the refusals of providers of ``family``: status and body, whatever that is."""
    return provider_side_of(FAMILIES[family].provider_dialect).parse_error


def lister_of(family: Family) -> ModelLister:
    """Return how providers of ``family`` are asked for their models."""
    return _DIALECTS[FAMILIES[family].provider_dialect].lister
