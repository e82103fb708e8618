"""The settings of translation, from what is written to what is meant."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from mgw.config.blocks import Written
from mgw.config.checks import checked_text
from mgw.config.fields import FAMILY_SPELLINGS, SPEAKING
from mgw.config.paths import Path
from mgw.config.quoting import nearest
from mgw.config.scope import Scope
from mgw.config.translation import AutoBreakpoints, Caching, ModelRow, StreamKeepalive, Translation
from mgw.config.written_translation import (
    WrittenCaching,
    WrittenModelRow,
    WrittenStreamKeepalive,
    WrittenTranslation,
)
from mgw.vocabulary import Family

_TARGETS: Final = MappingProxyType(
    {spelling: family for spelling, family in FAMILY_SPELLINGS.items() if family in SPEAKING}
)


def stated_in(written: Written | None) -> dict[str, Any]:  # Any: settings by name
    """Return what a block says, without what it leaves to the defaults."""
    return {} if written is None else {key: value for key, value in written if value is not None}


def resolve_translation(written: WrittenTranslation | None, scope: Scope) -> Translation:
    """Resolve how requests are told in another dialect."""
    stated = stated_in(written)
    rows = tuple(map(_model_row, stated.pop("models", ())))
    voices = _voices(stated.pop("voices", {}), scope)
    return Translation(**stated, models=rows, voices=voices)


def resolve_caching(written: WrittenCaching | None) -> Caching:
    """Resolve prompt caching."""
    stated = stated_in(None if written is None else written.auto_breakpoints)
    if "targets" in stated:
        stated["targets"] = frozenset(stated["targets"])
    return Caching(auto_breakpoints=AutoBreakpoints(**stated))


def resolve_keepalive(written: WrittenStreamKeepalive | None) -> StreamKeepalive | None:
    """Resolve signs of life in streams; ``None``: there are none."""
    return None if written is None else StreamKeepalive(**stated_in(written))


def _model_row(written: WrittenModelRow) -> ModelRow:
    stated = stated_in(written) | {"match": written.match.lower()}
    if written.efforts is not None:
        stated["efforts"] = tuple(dict.fromkeys(written.efforts))
    return ModelRow(**stated)


def _voices(written: dict[str, dict[str, str] | None], scope: Scope) -> dict[Family, dict[str, str]]:
    found: dict[Family, dict[str, str]] = {}
    spelled: dict[Family, str] = {}
    for spelling, names in written.items():
        path: Path = ("translation", "voices", spelling)
        family = FAMILY_SPELLINGS.get(spelling)
        if family is None:
            scope.report.add(path, f"unknown key{nearest(spelling, _TARGETS)}")
        elif family not in SPEAKING:
            scope.report.add(path, f"{family} does not support speech, expected {' or '.join(SPEAKING)}")
        elif family in spelled:
            scope.report.add(path, f"another spelling of {spelled[family]}, which is also set: keep only one")
        else:
            spelled[family] = spelling
            found[family] = _voice_names(names or {}, path, scope)
    return found


def _voice_names(names: dict[str, str], path: Path, scope: Scope) -> dict[str, str]:
    for asked in names:
        try:
            checked_text(asked)
        except ValueError as error:
            scope.report.add((*path, asked), f"as a voice: {error}")
    return names
