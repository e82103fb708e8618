"""Wire form to canonical form and back.  Pure.

This module is the registry: one line for each dialect.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.dialects import anthropic, gemini, openai
from mgw.dialects.dialect import ClientSide, Dialect, Meter, ModelLister, ModelPage, ProviderSide
from mgw.families import FAMILIES
from mgw.vocabulary import DialectName, Family

__all__ = [
    "ClientSide",
    "Dialect",
    "Meter",
    "ModelLister",
    "ModelPage",
    "ProviderSide",
    "client_side_of",
    "dialect_of",
    "lister_of",
    "provider_side_of",
]

_DIALECTS: Final = MappingProxyType(
    {
        DialectName.OPENAI_CHAT: openai.CHAT,
        DialectName.OPENAI_RESPONSES: openai.RESPONSES,
        DialectName.OPENAI: openai.OTHERS,
        DialectName.ANTHROPIC: anthropic.DIALECT,
        DialectName.GEMINI: gemini.DIALECT,
    }
)


def dialect_of(name: DialectName) -> Dialect:
    """Return what the dialect of this name brings."""
    return _DIALECTS[name]


def client_side_of(family: Family) -> ClientSide:
    """Return how clients of ``family`` are answered across families."""
    client = _DIALECTS[FAMILIES[family].provider_dialect].client
    assert client is not None, "every family has a dialect that translates"
    return client


def provider_side_of(family: Family) -> ProviderSide:
    """Return how providers of ``family`` are asked across families."""
    provider = _DIALECTS[FAMILIES[family].provider_dialect].provider
    assert provider is not None, "every family has a dialect that translates"
    return provider


def lister_of(family: Family) -> ModelLister:
    """Return how providers of ``family`` are asked for their models."""
    return _DIALECTS[FAMILIES[family].provider_dialect].lister
