"""One row per provider kind: what follows from the kind and from nothing else.

Sources: specification 2.2 (default capabilities), decisions part 3 (key headers and required headers).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.vocabulary import Capability, Family, Kind


class KindRow(Struct, frozen=True):
    """What a provider kind implies."""

    kind: Kind
    family: Family
    capabilities: frozenset[Capability]
    """On by default."""
    key_header: bytes
    """The header that carries a static key, in the vendor's spelling."""
    key_prefix: bytes
    """What stands before the key in that header."""
    required_headers: tuple[tuple[bytes, bytes], ...] = ()
    """Sent when the client sent no header of that name."""
    version_segments: tuple[str, ...] = ()
    """Endings of a base address that are usual for the kind; ``--check`` warns about others."""


_ALL: Final = frozenset(Capability)
_TEXT: Final = frozenset({Capability.TEXT})

KINDS: Final = MappingProxyType(
    {
        row.kind: row
        for row in (
            KindRow(Kind.OPENAI, Family.OPENAI, _ALL, b"Authorization", b"Bearer ", (), ("/v1",)),
            KindRow(Kind.OPENAI_COMPAT, Family.OPENAI, _TEXT, b"Authorization", b"Bearer ", (), ("/v1",)),
            KindRow(
                Kind.ANTHROPIC,
                Family.ANTHROPIC,
                _TEXT,
                b"x-api-key",
                b"",
                ((b"anthropic-version", b"2023-06-01"),),
                ("/v1",),
            ),
            KindRow(
                Kind.GEMINI, Family.GEMINI, _ALL, b"x-goog-api-key", b"", (), ("/v1beta", "/v1", "/v1alpha")
            ),
        )
    }
)
"""Every kind's row."""
