"""The text of a configuration file and the environment, turned into :class:`~mgw.config.model.Config`.

In three steps: the YAML with its positions, the shape of each block, what the settings ask of one another.
What a step finds wrong is noted and taken out, and the next goes on with the rest, so that an operator sees
all problems of a file at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pydantic import ValidationError

from mgw.config.absent import MESSAGE, NOT_AVAILABLE
from mgw.config.document import Document, Value, read
from mgw.config.fields import EXPECTED, REFUSED
from mgw.config.model import Config
from mgw.config.paths import Path, is_among
from mgw.config.problems import Report
from mgw.config.quoting import HIDDEN, near, nearest
from mgw.config.resolve import resolve
from mgw.config.scope import Scope
from mgw.config.written import WrittenFile, keys_of

_UNKNOWN_KEY: Final = "extra_forbidden"
_LIKE_A_SETTING: Final = re.compile(r"[a-z]+(?:[_-][a-z]+)*[0-9]?")
_SHAPES: Final = MappingProxyType(
    {"list_type": "a list", "dict_type": "a mapping", "model_type": "a mapping"}
)


def parse(
    text: str, name: str, environ: Mapping[str, str], route_names: frozenset[str] | None = None
) -> Config:
    """Read a configuration.

    :param text: the YAML.
    :param name: the file's name, for messages.
    :param environ: the environment, for ``*_env`` settings, the ``GATEWAY_*`` overrides and the place of
        the state directory.
    :param route_names: what ``routes.deny`` may name beside families; ``None``: anything.
    :raises ConfigError: with every problem of the file.
    """
    report = Report(name)
    document = read(text, report)
    if document.value is None:
        report.raise_if_any()
        report.add(
            ("providers",), "missing (the file is empty), expected at least one provider with its kind"
        )
    elif not isinstance(document.value, dict):
        report.add((), f"expected a mapping of settings, found {document.found(())}")
        report.raise_if_any()
    settings = document.value if isinstance(document.value, dict) else {}
    written = _shape(settings, document, report)
    providers = settings.get("providers")
    names = tuple(providers) if isinstance(providers, dict) else ()
    return resolve(written, Scope(report, environ, names, route_names))


def _shape(settings: dict[str, Value], document: Document, report: Report) -> WrittenFile:
    """Check each block by itself; what is wrong is noted and left out."""
    try:
        return WrittenFile.model_validate(settings)
    except ValidationError as error:
        faults = error.errors(include_input=False, include_url=False, include_context=False)
    sound: Value = settings
    for fault in faults:
        path: Path = fault["loc"]
        if not report.holds(path):
            named = _named(path) if fault["type"] == _UNKNOWN_KEY else None
            report.add(path, _words(fault["type"], fault["msg"], path, document), named=named)
        sound = _without(sound, path)
    return WrittenFile.model_validate(sound)


def _words(kind: str, message: str, path: Path, document: Document) -> str:
    if kind == REFUSED:
        return message
    if kind == EXPECTED and path not in document.report.marks:
        return f"missing, expected {message}"
    if kind == EXPECTED:
        return f"expected {message}, found {document.found(path)}"
    if kind == _UNKNOWN_KEY:
        if is_among(path, NOT_AVAILABLE):
            return MESSAGE
        return f"unknown key{nearest(str(path[-1]), keys_of(WrittenFile, path[:-1]))}"
    return f"expected {_SHAPES.get(kind, 'another value')}, found {document.found(path)}"


def _named(path: Path) -> Path:
    """Return the path of an unknown key, without a key that no setting could be named like."""
    last = str(path[-1])
    named = near(last, keys_of(WrittenFile, path[:-1])) or _LIKE_A_SETTING.fullmatch(last)
    return path if named else (*path[:-1], HIDDEN)


def _without(value: Value, path: Path) -> Value:
    """Copy a value but for the setting that ``path`` leads to; a list with a fault in it goes whole."""
    if not path or not isinstance(value, dict):
        return value
    head, *rest = path
    kept = {key: inner for key, inner in value.items() if key != head}
    if isinstance(head, str) and isinstance(value.get(head), dict) and rest:
        kept[head] = _without(value[head], tuple(rest))
    return kept
