"""One row per family: everything that differs between their clients outside their dialects.

What follows from the kind of a provider stands in :mod:`mgw.nouns.kinds`.

Sources: contract 3.2 (carriers of credentials), contract 4.13 (which family a request is of), contract 5.5.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.nouns.vocabulary import NEUTRAL_HEADERS, VERSION_HEADERS, DialectName, Family

AUTHORIZATION: Final = b"authorization"


class FamilyRow(Struct, frozen=True):
    """What a family implies.  Names of headers are in lower case."""

    family: Family
    title: str
    """What people call it, as the owner of something."""
    dialect: DialectName
    """The dialect of what has no row in the route table."""
    text_dialect: DialectName
    """The dialect in which conversations of its clients are translated."""
    signature_letter: str
    """Stands for it in a tagged signature (contract 8.10)."""
    own_prefix: bytes
    """How the names of the family's own headers begin."""
    neutral_headers: frozenset[bytes]
    """Further names of the family's own headers."""
    sign_headers: frozenset[bytes]
    """Headers that only clients of the family send."""
    sign_prefixes: tuple[bytes, ...]
    """How the names of others such begin; empty where :attr:`sign_headers` are all."""
    key_headers: frozenset[bytes]
    """The headers that may carry a client's credential."""
    key_schemes: frozenset[bytes]
    """Schemes of ``Authorization`` before a credential, in lower case."""
    key_parameter: bytes | None
    """The parameter of the query that carries a credential."""
    sdk_base: str
    """What the base address of its SDKs must be."""
    route_prefix: str
    """What begins the names of its vendor's resources in the route table."""
    path_sign: re.Pattern[str] | None = None
    """Paths that only its clients ask for, with a row or without."""
    version_headers: frozenset[bytes] = frozenset()
    """Headers in which a client states its version of the API."""
    request_id_header: bytes | None = None
    """The header in which its SDKs look for the id of a request."""
    id_characters: str = ""
    """What the ids of its models may hold in a path, beside unreserved characters and ``/``."""
    has_verbs: bool = False
    """Whether a colon begins a verb in its paths."""
    has_speech: bool = False
    """It has speech of its own, with voices of its own (contract 4.7, 4.25)."""
    kind_key_headers: frozenset[bytes] = frozenset()
    """Those of :attr:`key_headers` that belong to one kind of provider, and are looked at last."""


_BOTH: Final = frozenset({AUTHORIZATION, b"x-api-key"})
_BEARER: Final = frozenset({b"bearer"})
_AZURE: Final = frozenset({b"api-key"})
"""What the Azure clients of OpenAI's SDKs send."""

FAMILIES: Final = MappingProxyType(
    {
        row.family: row
        for row in (
            FamilyRow(
                Family.ANTHROPIC,
                title="Anthropic's",
                dialect=DialectName.ANTHROPIC,
                text_dialect=DialectName.ANTHROPIC,
                signature_letter="a",
                own_prefix=b"anthropic-",
                neutral_headers=frozenset(NEUTRAL_HEADERS[Family.ANTHROPIC]),
                sign_headers=VERSION_HEADERS,
                sign_prefixes=(),
                key_headers=_BOTH,
                key_schemes=_BEARER,
                key_parameter=None,
                sdk_base="Anthropic's SDKs need the gateway's address without a path",
                route_prefix="anthropic_",
                version_headers=VERSION_HEADERS,
                request_id_header=b"request-id",
            ),
            FamilyRow(
                Family.GEMINI,
                title="Gemini's",
                dialect=DialectName.GEMINI,
                text_dialect=DialectName.GEMINI,
                signature_letter="g",
                own_prefix=b"x-goog-",
                neutral_headers=frozenset(NEUTRAL_HEADERS[Family.GEMINI]),
                sign_headers=frozenset({b"x-goog-api-key", b"x-goog-api-client"}),
                sign_prefixes=(),
                key_headers=_BOTH | {b"x-goog-api-key"},
                key_schemes=_BEARER | {b"token"},
                key_parameter=b"key",
                sdk_base="Google's SDKs need the gateway's address without a path, and add the version",
                route_prefix="gemini_",
                path_sign=re.compile(r"^/(?:upload/)?(?:v1beta|v1alpha|ws)(?:/|$)|(?::|%3[Aa])[a-zA-Z]+$"),
                has_verbs=True,
                has_speech=True,
            ),
            FamilyRow(
                Family.OPENAI,
                title="OpenAI's",
                dialect=DialectName.OPENAI,
                text_dialect=DialectName.OPENAI_CHAT,
                signature_letter="o",
                own_prefix=b"openai-",
                neutral_headers=frozenset(NEUTRAL_HEADERS[Family.OPENAI]),
                sign_headers=frozenset(NEUTRAL_HEADERS[Family.OPENAI]),
                sign_prefixes=(b"openai-",),
                key_headers=_BOTH | _AZURE,
                key_schemes=_BEARER,
                key_parameter=None,
                sdk_base="OpenAI's SDKs need the gateway's address followed by /v1",
                route_prefix="",
                request_id_header=b"x-request-id",
                id_characters=":",  # of fine-tuned models
                has_speech=True,
                kind_key_headers=_AZURE,
            ),
        )
    }
)
"""Every family's row, in the order in which the signs of a client are looked for."""


def text_dialect(family: Family) -> DialectName:
    """Return the dialect in which the conversations of a family's clients are translated."""
    return FAMILIES[family].text_dialect


UNSAID: Final = Family.OPENAI
"""The family of a request that says nothing of it."""
KEY_HEADERS: Final = frozenset[bytes]().union(*(row.key_headers for row in FAMILIES.values()))
"""What carries a client's credential in any family."""


def shown_family(raw_query: bytes | None, names: frozenset[bytes]) -> Family | None:
    """Return the family that a client shows itself to be of, by the names of its headers and its query."""
    for row in FAMILIES.values():
        if not row.sign_headers.isdisjoint(names):
            return row.family
        if row.key_parameter is not None and _has(raw_query, row.key_parameter):
            return row.family
        if row.sign_prefixes and any(name.startswith(row.sign_prefixes) for name in names):
            return row.family
    return None


def _has(raw_query: bytes | None, parameter: bytes) -> bool:
    """Whether a query has a parameter, spelled without escapes."""
    begin = parameter + b"="
    return raw_query is not None and (raw_query.startswith(begin) or b"&" + begin in raw_query)
