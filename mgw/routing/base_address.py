"""What is wrong with the base address of a client whose paths are nearly ours (contract 6.11).

OpenAI's SDKs take an address with ``/v1`` and add ``/chat/completions``; Anthropic's take the bare origin and
add ``/v1/messages``; Google's take the bare origin and add a version of their own.  Whoever mixes them up
asks for ``/v1/v1/messages`` or ``/chat/completions``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mgw.families import FAMILIES
from mgw.vocabulary import Family

_SLASHES: Final = re.compile(r"/{2,}")
_VERSIONED: Final = re.compile(r"(/(?:v1|v1beta|v1alpha|beta))(/.+)")
_VERB: Final = re.compile(r":[A-Za-z]+$")


def corrections(raw_path: str) -> Iterator[tuple[str, str]]:
    """Yield paths that may have been meant, each with what to do to the base address."""
    tidy = _SLASHES.sub("/", raw_path).rstrip("/")
    if tidy != raw_path:
        yield tidy, "remove the slash from the end of the base URL"
    versioned = _VERSIONED.fullmatch(tidy)
    if versioned is not None:
        yield versioned[2], f"remove {versioned[1]} from the end of the base URL"
    elif tidy:
        version = "/v1beta" if _VERB.search(tidy) else "/v1"
        yield version + tidy, f"add {version} to the end of the base URL"


def hint(raw_path: str, advice: str, family: Family) -> str:
    """Return what follows the words that a path is not served.

    :param raw_path: of those that :func:`corrections` yields, the one that is served.
    """
    return f", but it serves {raw_path}: {advice} ({FAMILIES[family].sdk_base})"
