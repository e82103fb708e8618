"""Messages about unknown keys: the key that was meant, its block, or the keys that are allowed.

A key is named only where a setting could be named like that, since a credential may stand there by mistake.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from functools import cache
from types import MappingProxyType
from typing import Final

from pydantic import BaseModel

from mgw.config.examples import BLOCKS, example_of
from mgw.config.key_file import KeyFileSettings
from mgw.config.other_words import meant_by
from mgw.config.prices import PriceFile
from mgw.config.problems import SECRET_PLACES, Path, Report, is_among
from mgw.config.quoting import HIDDEN, nearest_word
from mgw.config.settings import Config
from mgw.config.settings_base import Settings, block_in, file_settings, known_keys

LITELLM: Final = frozenset(
    {
        *("callback_settings", "context_window_fallbacks", "default_fallbacks", "environment_variables"),
        *("fallbacks", "general_settings", "guardrails", "litellm_params", "litellm_settings", "mcp_servers"),
        *("model_group_alias", "model_info", "model_list", "model_name", "router_settings"),
    }
)
"""Keys of LiteLLM's ``config.yaml``; none of them is a setting here."""
LITELLM_PAGE: Final = "docs/coming-from-litellm.rst"

MOST_LISTED: Final = 12
"""Keys of a block that are listed beside one that was probably meant."""
_MOST_PLACES: Final = 2
_SHORTEST_MISPLACED: Final = 5
"""Characters; shorter keys (``name``, ``url``) mean something else in each block."""
_VERY_CLOSE: Final = 0.8
_LIKE_A_SETTING: Final = re.compile(r"[a-z]+(?:[_-][a-z]+)*[0-9]?")
_LIKE_A_SETTING_BESIDE_KEYS: Final = re.compile(r"(?=.{1,24}$)[a-z]+(?:_[a-z]+)*")
_TOP: Final = "at the top level"
_PLACES_IN_CONFIG: Final[Mapping[type[Settings], Path]] = MappingProxyType(
    {Config: (), PriceFile: ("prices",), KeyFileSettings: ("edge_auth", "keys", 0)}
)
"""Where what a file holds would be in the configuration."""
_NAME: Final = "<name>"


def note_unknown_key(path: Path, report: Report, block: type[Settings]) -> None:
    """Note that ``path``, taken from ``block``, ends with a key that nobody knows."""
    above, last = path[:-1], str(path[-1])
    known = known_keys(block, above)
    before, colon, _ = last.partition(":")
    if colon and before in known:
        report.add(path, f'put a space after "{before}:"', named=above)
        report.note_misspelling((*above, before))
        return
    if last in LITELLM:
        report.add(path, _of_litellm(last), names_setting=True)
        if last == "model_list":
            report.note_misspelling(("providers",))
        return
    meant = meant_by(last, (*_PLACES_IN_CONFIG[block], *above)) if block in _PLACES_IN_CONFIG else None
    if meant is None:
        meant = _meant(last, known, places_of(block).get(last, ()))
    if meant is None:
        named = path if _is_like_a_setting(path) else (*above, HIDDEN)
        report.add(path, f"unknown key{_allowed_keys(above, known)}", named=named, names_setting=True)
        return
    words = f"unknown key, did you mean {meant}?" if meant in known else f"unknown key{meant}"
    if meant in known:
        report.note_misspelling((*above, meant))
    if 1 < len(known) <= MOST_LISTED:
        words += f" (allowed: {', '.join(known)})"
    report.add(path, words, names_setting=True)


def _meant(key: str, known: tuple[str, ...], places: tuple[str, ...]) -> str | None:
    """Return the setting that was meant, or in words where this one belongs."""
    near = nearest_word(key, known)
    if near is not None and (not places or _is_very_close(key, near)):
        return near
    if places and len(places) <= _MOST_PLACES and len(key) >= _SHORTEST_MISPLACED:
        return f" at this place: it belongs {' or '.join(places)}"
    return None


def _allowed_keys(above: Path, known: tuple[str, ...]) -> str:
    if not known:
        return ""
    words = f"; allowed keys: {', '.join(known)}"
    example = example_of(above, BLOCKS) if "set" in known else None
    return words if example is None else f"{words} (a header to send goes below set, as in {example})"


def _of_litellm(key: str) -> str:
    instead = "write a list of targets in aliases; " if key.endswith("fallbacks") else ""
    return f"this is LiteLLM's, not a setting of mgw: {instead}see {LITELLM_PAGE}"


def _is_very_close(key: str, meant: str) -> bool:
    return SequenceMatcher(None, key.lower(), meant).ratio() >= _VERY_CLOSE


def _is_like_a_setting(path: Path) -> bool:
    beside_keys = is_among(path[:-1], SECRET_PLACES)
    pattern = _LIKE_A_SETTING_BESIDE_KEYS if beside_keys else _LIKE_A_SETTING
    return pattern.fullmatch(str(path[-1])) is not None


@cache  # of two classes: the configuration and a profile
def places_of(block: type[Settings]) -> dict[str, tuple[str, ...]]:
    """Return where each setting belongs, by its name, the outermost places first."""
    found: dict[str, list[str]] = {}
    _add_places(block, (), found)
    return {key: tuple(sorted(places, key=_depth)) for key, places in found.items()}


def _depth(place: str) -> int:
    return 0 if place == _TOP else 1 + place.count(".")


def _add_places(block: type[BaseModel], above: tuple[str, ...], found: dict[str, list[str]]) -> None:
    for key, field in file_settings(block).items():
        found.setdefault(key, []).append(f"in {'.'.join(above)}" if above else _TOP)
        inner = block_in(field.annotation)
        if inner is not None:
            among, kind = inner
            several = (_NAME,) if among and key in ("providers", "profiles") else ()
            _add_places(kind, (*above, key, *several), found)
