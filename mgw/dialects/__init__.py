"""Wire form to canonical form and back.  Pure.

This module is the registry: one line for each dialect.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.dialects import anthropic, gemini, openai
from mgw.dialects.dialect import Codec, Meter, ModelLister, ModelPage
from mgw.dialects.translator import Translator
from mgw.vocabulary import Dialect, Family

__all__ = [
    "Codec",
    "Meter",
    "ModelLister",
    "ModelPage",
    "Translator",
    "codec_of",
    "lister_of",
    "translator_of",
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


def translator_of(family: Family) -> Translator:
    """Return how providers of ``family`` are spoken to."""
    translator = _CODECS[_SPOKEN[family]].translator
    assert translator is not None, "every spoken dialect translates"
    return translator


def lister_of(family: Family) -> ModelLister:
    """Return how providers of ``family`` are asked for their models."""
    return _CODECS[_SPOKEN[family]].lister
