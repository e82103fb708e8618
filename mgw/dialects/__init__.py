"""Wire form to canonical form and back.  Pure.

This module is the registry: one line for each dialect.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.dialects import anthropic, gemini, openai
from mgw.dialects.dialect import ClientSide, Codec, Meter, ModelLister, ModelPage, ProviderSide
from mgw.vocabulary import Dialect, Family

__all__ = [
    "ClientSide",
    "Codec",
    "Meter",
    "ModelLister",
    "ModelPage",
    "ProviderSide",
    "client_side_of",
    "codec_of",
    "lister_of",
    "provider_side_of",
]

_CODECS: Final = MappingProxyType(
    {
        Dialect.OPENAI_CHAT: openai.CHAT,
        Dialect.OPENAI_RESPONSES: openai.RESPONSES,
        Dialect.OPENAI: openai.OTHERS,
        Dialect.ANTHROPIC: anthropic.CODEC,
        Dialect.GEMINI: gemini.CODEC,
    }
)

_SPOKEN: Final = MappingProxyType(
    {
        Family.OPENAI: Dialect.OPENAI_CHAT,
        Family.ANTHROPIC: Dialect.ANTHROPIC,
        Family.GEMINI: Dialect.GEMINI,
    }
)
"""The dialect in which a provider of each family is asked, whatever the client speaks."""


def codec_of(dialect: Dialect) -> Codec:
    """Return what ``dialect`` brings."""
    return _CODECS[dialect]


def client_side_of(family: Family) -> ClientSide:
    """Return how clients of ``family`` are answered across families."""
    client = _CODECS[_SPOKEN[family]].client
    assert client is not None, "every spoken dialect translates"
    return client


def provider_side_of(family: Family) -> ProviderSide:
    """Return how providers of ``family`` are asked across families."""
    provider = _CODECS[_SPOKEN[family]].provider
    assert provider is not None, "every spoken dialect translates"
    return provider


def lister_of(family: Family) -> ModelLister:
    """Return how providers of ``family`` are asked for their models."""
    return _CODECS[_SPOKEN[family]].lister
