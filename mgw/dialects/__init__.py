"""From wire format to canonical form and back.  Pure.

This module is the registry: one line for each dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.canonical.reply import UpstreamError
from mgw.dialects import anthropic, gemini, openai, responses
from mgw.dialects.dialect import ClientSide, Dialect, Meter, ModelLister, ModelPage, ProviderSide
from mgw.nouns.families import text_dialect
from mgw.nouns.vocabulary import DialectName

__all__ = [
    "ClientSide",
    "Dialect",
    "Meter",
    "ModelLister",
    "ModelPage",
    "ProviderSide",
    "Registry",
    "client_side_of",
    "dialect_of",
    "error_reader_of",
    "provider_side_of",
    "register",
]

SHIPPED: Final = (
    openai.CHAT,
    openai.OTHERS,
    responses.DIALECT,
    anthropic.DIALECT,
    gemini.DIALECT,
)
"""Every dialect."""


class Registry(Struct, frozen=True):
    """Dialects by their names."""

    dialects: Mapping[DialectName, Dialect]
    clients: Mapping[DialectName, ClientSide]
    """How clients are answered in a translation: those of a dialect without any, as their family's are."""
    providers: Mapping[DialectName, ProviderSide]
    """How providers are asked, in the dialects that they are asked in."""


def register(dialects: Iterable[Dialect]) -> Registry:
    """Return the registry of these dialects."""
    rows = {dialect.name: dialect for dialect in dialects}
    clients = {name: row.client or rows[text_dialect(name.family)].client for name, row in rows.items()}
    return Registry(
        MappingProxyType(rows),
        MappingProxyType({name: client for name, client in clients.items() if client is not None}),
        MappingProxyType({name: row.provider for name, row in rows.items() if row.provider is not None}),
    )


_REGISTRY: Final = register(SHIPPED)
# What is asked of every request is a lookup and no call.
dialect_of: Final = _REGISTRY.dialects.__getitem__
"""Returns what the dialect of this name brings."""
client_side_of: Final = _REGISTRY.clients.__getitem__
"""Returns how clients that use a dialect are answered in a translation."""
provider_side_of: Final = _REGISTRY.providers.__getitem__
"""Returns how providers are asked in a dialect."""


def error_reader_of(dialect: DialectName) -> Callable[[int, bytes], UpstreamError]:
    """Return what reads the refusals of providers that are asked in a dialect: status and body, whatever
    that is.
    """
    return provider_side_of(dialect).parse_error
