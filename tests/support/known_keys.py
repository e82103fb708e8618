"""The keys that messages list, filled into expected texts: a new setting changes no table of mistakes."""

from __future__ import annotations

import re
from typing import Final

from mgw.config.settings import Config
from mgw.config.settings_base import known_keys

_PLACE: Final = re.compile(r"\{keys(?: of ([a-z_.0-9]+))?\}")


def fill_in_keys(text: str) -> str:
    """Replace ``{keys}`` by the settings at the top level, and ``{keys of hooks}`` by those of a block.

    An element of a list is ``0``, as in ``{keys of edge_auth.keys.0}``.
    """
    return _PLACE.sub(lambda found: ", ".join(known_keys(Config, _path(found[1] or ""))), text)


def _path(place: str) -> tuple[str, ...]:
    return tuple(place.split(".")) if place else ()
