"""Elements of comma-separated headers (RFC 9110 5.6.1): some are cut, and some are added."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from mgw.wire.headers import RawHeaders

_ELEMENTS: Final = re.compile(rb'(?:"(?:[^"\\]|\\.)*"|[^,])++')
"""A comma within a quoted string parts nothing (RFC 9110 5.6.4)."""
_BLANKS: Final = b" \t"


def elements_of(value: bytes) -> list[bytes]:
    """Return the elements of a list, without those that are empty."""
    return [element for found in _ELEMENTS.findall(value) if (element := found.strip(_BLANKS))]


def remove_tokens(headers: RawHeaders, name: bytes, fits: Callable[[str], object]) -> RawHeaders:
    """Return the headers without the elements that fit; a line with none of them stays as it is.

    :param name: in lower case.
    :param fits: is asked for each element in lower case.
    """
    found: RawHeaders = []
    for pair in headers:
        if pair[0].lower() == name:
            elements = elements_of(pair[1])
            kept = [one for one in elements if not fits(one.decode("latin-1").lower())]
            if len(kept) < len(elements):
                if kept:
                    found.append((pair[0], b",".join(kept)))
                continue
        found.append(pair)
    return found


def add_tokens(headers: RawHeaders, name: bytes, tokens: Sequence[bytes]) -> RawHeaders:
    """Return the headers with those of the elements that they lack, behind the last line of that name.

    :param name: as it is spelled where there is none yet.
    """
    lower = name.lower()
    places = [place for place, (spelled, _) in enumerate(headers) if spelled.lower() == lower]
    stated = {element.lower() for place in places for element in elements_of(headers[place][1])}
    added = b",".join([token for token in tokens if token.lower() not in stated])
    if not added:
        return headers
    if not places:
        return [*headers, (name, added)]
    changed, last = list(headers), places[-1]
    spelled, value = headers[last]
    changed[last] = (spelled, b"%b,%b" % (value, added) if value.strip(_BLANKS) else added)
    return changed
