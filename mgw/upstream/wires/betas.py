"""Which of a client's betas reach Anthropic's models on other clouds.

Which model takes which beta is not documented there, and changes by the month.  So all names go on that the
operator's patterns (``betas``) let pass, and a refusal that is about betas says which of them the model does
not take (:data:`mgw.upstream.refused_words.REST_SECONDS`).

Sources: Anthropic's page "Tool search tool" for its header by platform; the wording of refusals is what
Bedrock and Vertex AI were seen to answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.canonical.reply import UpstreamError
from mgw.config.provider import Provider
from mgw.upstream.wires.wire import RequestEdits, VendorCall
from mgw.wire.headers import RawHeaders

ALL: Final = "*"
"""The pattern of every name."""
HEADERS: Final = frozenset({b"anthropic-beta", b"beta-beta"})
"""Where a client states its betas, in lower case."""
USER_PROFILE: Final = b"anthropic-user-profile-id"
"""Where a client says for whom it asks: Bedrock has a place for it in bodies, Vertex AI has none."""
VERSION_HEADERS: Final = frozenset({b"anthropic-version", b"beta-version"})
FIRST_VERSION: Final = "2023-06-01"
"""The version that each cloud has under a name of its own."""
VERSION: Final = "anthropic_version"
"""What is refused where a model takes no newer version: no beta has this name."""
OTHER_NAMES: Final = MappingProxyType({"advanced-tool-use-2025-11-20": "tool-search-tool-2025-10-19"})
"""The names that Anthropic has on other clouds for its own."""
_IS_VERSION: Final = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}").fullmatch
_WORD: Final = re.compile(r"[A-Za-z0-9_-]+")
_REFUSED: Final = 400


class Betas(Struct, frozen=True):
    """What becomes of a client's betas."""

    kept: tuple[str, ...]
    """The names that go on, in the client's order."""
    dropped: tuple[str, ...]
    """The others, as the client wrote them."""


def choose_betas(
    headers: RawHeaders,
    patterns: Sequence[str],
    refused: Set[str] = frozenset(),
    *,
    other_names: Mapping[str, str] = OTHER_NAMES,
    in_body: Set[str] | None = None,
) -> Betas:
    """Return which of the betas in some headers go on.

    :param patterns: of the names that the operator lets pass.
    :param refused: names that the model did not take of late.
    :param other_names: what the host calls some of them.
    :param in_body: the names that the body states, beside which no others go on; ``None``: it states none.
    """
    kept: dict[str, None] = {}
    dropped: dict[str, None] = {}
    for stated in _stated(headers):
        name = other_names.get(stated, stated)
        if in_body is not None:
            if name not in in_body and stated not in in_body:
                dropped[stated] = None
        elif name in refused or not _matches(name, patterns):
            dropped[stated] = None
        else:
            kept[name] = None
    return Betas(tuple(kept), tuple(dropped))


def with_betas(headers: RawHeaders, kept: Sequence[str]) -> RawHeaders:
    """Return the headers with these betas in place of those that they have."""
    left = [pair for pair in headers if pair[0].lower() not in HEADERS]
    return [*left, (b"anthropic-beta", ",".join(kept).encode("latin-1"))] if kept else left


def choose_in_headers(provider: Provider, _: VendorCall, __: bytes, headers: RawHeaders) -> RequestEdits:
    """Leave out the betas that the operator does not let pass, for hosts of Anthropic's own API."""
    betas = choose_betas(headers, provider.betas, other_names={})
    if betas.dropped:
        headers = with_betas(headers, betas.kept)
    return RequestEdits((), headers, dropped_names(betas))


def dropped_names(betas: Betas) -> tuple[str, ...]:
    """Return what did not go on, as usage events name it."""
    return tuple([f"anthropic-beta[{name}]" for name in betas.dropped])


def newer_version(headers: RawHeaders) -> str | None:
    """Return the version of the API that a client asks for, if it is newer than the first."""
    for name, value in headers:
        if name.lower() in VERSION_HEADERS:
            version = value.decode("latin-1").strip()
            return version if _IS_VERSION(version) and version > FIRST_VERSION else None
    return None


def refused_words(sent: tuple[str, ...], error: UpstreamError) -> frozenset[str]:
    """Return which of the betas and versions that were sent a refusal is about.

    One that is about betas and names none is about all of them.

    :param sent: with :data:`VERSION` for a newer version.
    """
    message = error.message
    if error.status != _REFUSED:
        return frozenset()
    if VERSION in message and VERSION in sent:
        return frozenset({VERSION})
    if "invalid beta flag" not in message and not (
        "anthropic-beta" in message and "Unexpected value" in message
    ):
        return frozenset()
    betas = frozenset(sent) - {VERSION}
    return betas.intersection(_WORD.findall(message)) or betas


def _stated(headers: RawHeaders) -> Iterable[str]:
    for header, value in headers:
        if header.lower() in HEADERS:
            for name in value.decode("latin-1").split(","):
                if stripped := name.strip():
                    yield stripped


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(pattern == ALL or fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)
