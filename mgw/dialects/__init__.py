"""From wire format to canonical form and back.  Pure.

This module is the registry: a case for each dialect.  One is imported when it is first asked for, since
most gateways are asked in one or two of them: each costs 5 to 15 ms of CPU, and up to 1 MiB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from mgw.canonical.reply import UpstreamError
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
    "load_dialect",
    "provider_side_of",
]

T = TypeVar("T")


def load_dialect(name: DialectName) -> Dialect:
    """Import a dialect."""
    match name:
        case DialectName.OPENAI_CHAT:
            from mgw.dialects import openai

            return openai.CHAT
        case DialectName.OPENAI:
            from mgw.dialects import openai

            return openai.OTHERS
        case DialectName.OPENAI_RESPONSES:
            from mgw.dialects import responses

            return responses.DIALECT
        case DialectName.ANTHROPIC:
            from mgw.dialects import anthropic

            return anthropic.DIALECT
        case DialectName.GEMINI:
            from mgw.dialects import gemini

            return gemini.DIALECT


class _Late(dict[DialectName, T]):
    """What dialects bring, found when it is first asked for."""

    def __init__(self, find: Callable[[DialectName], T | None]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, name: DialectName) -> T:
        found = self._find(name)
        if found is None:
            raise KeyError(name)
        self[name] = found
        return found


class Registry:
    """Dialects by their names.

    :param load: returns a dialect; it is called once for each.
    """

    def __init__(self, load: Callable[[DialectName], Dialect]) -> None:
        self.dialects: Final[Mapping[DialectName, Dialect]] = _Late(load)
        self.clients: Final[Mapping[DialectName, ClientSide]] = _Late(self._find_client)
        """How clients are answered in a translation; those of a dialect without any, as their family is."""
        self.providers: Final[Mapping[DialectName, ProviderSide]] = _Late(self._find_provider)
        """How providers are asked, in the dialects that they are asked in."""

    def _find_client(self, name: DialectName) -> ClientSide | None:
        return self.dialects[name].client or self.dialects[text_dialect(name.family)].client

    def _find_provider(self, name: DialectName) -> ProviderSide | None:
        return self.dialects[name].provider


_REGISTRY: Final = Registry(load_dialect)
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
