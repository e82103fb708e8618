"""Providers and their settings that are one level too high: one message for each mistake.

A provider without a name, or with settings that are not indented below it, is one problem, in place of one
for each of the lines.
"""

from __future__ import annotations

from typing import Final

from mgw.config.problems import Path, Report
from mgw.config.provider import Provider
from mgw.config.quoting import is_quotable, shown
from mgw.config.settings import Config
from mgw.config.settings_base import file_settings
from mgw.config.yaml_document import Value

_PROVIDERS: Final = "providers"


def without_misplaced(settings: dict[str, Value], report: Report) -> dict[str, Value]:
    """Return the settings of a file without those that stand a level too high, which are noted."""
    providers = settings.get(_PROVIDERS)
    if isinstance(providers, dict):
        return {**settings, _PROVIDERS: _without_settings(providers, report)}
    if providers is None:
        return _without_providers(settings, report)
    return settings


def _without_settings(providers: dict[str, Value], report: Report) -> dict[str, Value]:
    """Leave out settings of a provider among the names of providers, and a name that has none of its own."""
    known = file_settings(Provider)
    misplaced = [key for key, value in providers.items() if key in known and not isinstance(value, dict)]
    if not misplaced or "kind" not in misplaced:
        return providers
    empty = [name for name, value in providers.items() if value is None]
    where = f"indent it below {shown(empty[0])}" if empty and is_quotable(empty[0]) else _BELOW_A_NAME
    path: Path = (_PROVIDERS, misplaced[0])
    report.add(path, f"a setting of a provider, where the name of a provider is expected: {where}")
    return {name: value for name, value in providers.items() if name not in (*misplaced, *empty)}


_BELOW_A_NAME: Final = "write it below a name, as in main: {kind: openai, api_key_env: OPENAI_API_KEY}"


def _without_providers(settings: dict[str, Value], report: Report) -> dict[str, Value]:
    """Leave out providers that are not below ``providers``."""
    known = file_settings(Config)
    misplaced = [
        key
        for key, value in settings.items()
        if key not in known and isinstance(value, dict) and "kind" in value
    ]
    for key in misplaced:
        report.add((key,), f"a provider, which belongs below {_PROVIDERS}: indent it, with all its settings")
    if misplaced:
        report.note_misspelling((_PROVIDERS,))
    return {key: value for key, value in settings.items() if key not in misplaced}
