"""Wire form to canonical form and back.  Pure.

This module is the registry: one line for each dialect.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.dialects import anthropic, gemini, openai
from mgw.dialects.dialect import Codec, Meter
from mgw.vocabulary import Dialect

__all__ = ["Codec", "Meter", "codec_of"]

_CODECS: Final = MappingProxyType(
    {
        Dialect.OPENAI_CHAT: openai.CHAT,
        Dialect.OPENAI_RESPONSES: openai.RESPONSES,
        Dialect.OPENAI: openai.OTHERS,
        Dialect.ANTHROPIC: anthropic.CODEC,
        Dialect.GEMINI: gemini.CODEC,
    }
)


def codec_of(dialect: Dialect) -> Codec:
    """Return what ``dialect`` brings."""
    return _CODECS[dialect]
