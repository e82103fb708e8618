"""What the head of a translated answer says of the translation (contract 8.4, 8.26, 8.27)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from mgw.families import FAMILIES
from mgw.usage.event import ELLIPSIS
from mgw.vocabulary import Family
from mgw.wire.headers import RawHeaders

MAX_NAMES: Final = 64
MAX_BYTES: Final = 4096
_VISIBLE: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in ",%")
_MORE: Final = quote(ELLIPSIS)
_ROOM: Final = MAX_BYTES - len(f", {_MORE}")

ESTIMATED: Final = (b"X-Gateway-Estimated", b"true")
"""Marks a token count that no provider was asked for."""


def report_headers(
    client: Family, request_id: str, dropped: Sequence[str] = (), marked: Sequence[str] = ()
) -> RawHeaders:
    """Return the headers of a translated answer.

    :param dropped: names of fields that did not arrive; empty where the operator does not observe them.
    :param marked: the targets that got an automatic cache breakpoint.
    """
    headers: RawHeaders = []
    name = FAMILIES[client].request_id_header
    if name is not None:
        headers.append((name, request_id.encode()))
    if dropped:
        headers.append((b"X-Gateway-Dropped-Fields", names(dropped)))
    if marked:
        headers.append((b"X-Gateway-Cache-Auto", ", ".join(marked).encode()))
    return headers


def names(dropped: Sequence[str]) -> bytes:
    """Return the value of ``X-Gateway-Dropped-Fields``: at most 64 names and 4 KiB, then an ellipsis."""
    kept: list[str] = []
    size = 0
    for name in dropped:
        encoded = quote(name, safe=_VISIBLE, errors="replace")
        size += len(encoded) + 2
        if len(kept) == MAX_NAMES or size > _ROOM:
            kept.append(_MORE)
            break
        kept.append(encoded)
    return ", ".join(kept).encode()
