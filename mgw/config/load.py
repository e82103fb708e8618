"""The text of a configuration file and the environment, turned into :class:`~mgw.config.model.Config`.

In three steps: the YAML with its positions, the shape of each block, what the settings ask of one another.
What a step finds wrong is noted and taken out, and the next goes on with the rest, so that an operator sees
all problems of a file at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mgw.config.blocks import EXPECTED, FROM_FILE, REFUSED, UNKNOWN_KEY, written
from mgw.config.document import Document, Value, read
from mgw.config.environment import Scope
from mgw.config.model import Config
from mgw.config.paths import NOT_AVAILABLE, NOT_AVAILABLE_MESSAGE, Path, is_among
from mgw.config.problems import Report
from mgw.config.quoting import HIDDEN, near, nearest
from mgw.config.resolve import resolve

_NO_BLANK: Final = "put a space after the colon"
_LIKE_A_SETTING: Final = re.compile(r"[a-z]+(?:[_-][a-z]+)*[0-9]?")
_SHAPES: Final = MappingProxyType(
    {"list_type": "a list", "dict_type": "a mapping", "model_type": "a mapping"}
)

_EXAMPLES: Final[Mapping[Path, str]] = MappingProxyType(
    {
        ("providers",): 'a mapping of names, such as "main: {kind: openai, api_key_env: OPENAI_API_KEY}"',
        ("aliases",): 'a mapping of names, such as "fast: main/gpt-5.4-mini"',
    }
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
        report.add(("providers",), "missing (the file is empty), expected at least one provider with a kind")
    elif not isinstance(document.value, dict):
        report.add((), f"expected a mapping of settings, found {document.found(())}")
        report.raise_if_any()
    settings = document.value if isinstance(document.value, dict) else {}
    config = _shape(settings, document, report)
    providers = settings.get("providers")
    unknown = report.spoiled(("providers",)) and not isinstance(providers, dict)
    names = None if unknown else tuple(providers) if isinstance(providers, dict) else ()
    return resolve(config, Scope(report, environ, names, route_names))


def _shape(settings: dict[str, Value], document: Document, report: Report) -> Config:
    """Check each block by itself; what is wrong is noted and left out."""
    try:
        return Config.model_validate(settings, context=FROM_FILE)
    except ValidationError as error:
        faults = error.errors(include_input=False, include_url=False, include_context=False)
    sound: Value = settings
    for fault in sorted(faults, key=_known):
        path: Path = fault["loc"]
        sound = _without(sound, path)
        if report.holds(path) or (report.is_misspelled(path) and path not in report.marks):
            continue
        if fault["type"] == UNKNOWN_KEY:
            _unknown(path, report)
        else:
            report.add(path, _words(fault["type"], fault["msg"], path, document))
    return Config.model_validate(sound, context=FROM_FILE)


def _words(kind: str, message: str, path: Path, document: Document) -> str:
    if kind == REFUSED:
        return message
    if kind == EXPECTED and path not in document.report.marks:
        return f"missing, expected {message}"
    if kind == EXPECTED:
        return f"expected {message}, found {document.found(path)}"
    shape = _EXAMPLES.get(path) or _SHAPES.get(kind, "another value")
    found = document.found(path)
    hint = f" ({_NO_BLANK})" if found == "text" and "mapping" in shape and document.lacks_blank(path) else ""
    return f"expected {shape}, found {found}{hint}"


def _known(fault: ErrorDetails) -> bool:
    """Put unknown keys first: what they may mean is not missing."""
    return fault["type"] != UNKNOWN_KEY


def _unknown(path: Path, report: Report) -> None:
    """Note an unknown key: by its name, if a setting could be named like that."""
    if is_among(path, NOT_AVAILABLE):
        report.add(path, NOT_AVAILABLE_MESSAGE)
        return
    above, last = path[:-1], str(path[-1])
    known = keys_of(Config, above)
    meant = near(last, known)
    named = path if meant or _LIKE_A_SETTING.fullmatch(last) else (*above, HIDDEN)
    report.add(path, f"unknown key{nearest(last, known)}", named=named)
    if meant:
        report.misspelled((*above, meant))


def _without(value: Value, path: Path) -> Value:
    """Copy a value but for the setting that ``path`` leads to; a list with a fault in it goes whole."""
    if not path or not isinstance(value, dict):
        return value
    head, *rest = path
    kept = {key: inner for key, inner in value.items() if key != head}
    if isinstance(head, str) and isinstance(value.get(head), dict) and rest:
        kept[head] = _without(value[head], tuple(rest))
    return kept


def keys_of(block: type[BaseModel], path: tuple[str | int, ...]) -> tuple[str, ...]:
    """Return the keys that are known where ``path``, taken from ``block``, leads."""
    if not path:
        return tuple(written(block))
    head, *rest = path
    setting = written(block).get(str(head))
    inner = None if setting is None else _block_in(setting.annotation)
    if inner is None:
        return ()
    among, kind = inner
    return keys_of(kind, tuple(rest[1:] if among else rest))


def _block_in(
    annotation: Any,
) -> tuple[bool, type[BaseModel]] | None:  # Any: an annotation has no type of its own
    """Find the block that an annotation holds, and whether it is one of several, in a mapping or a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return False, annotation
    found = [inner for part in getattr(annotation, "__args__", ()) if (inner := _block_in(part)) is not None]
    if not found:
        return None
    among, kind = found[0]
    return among or getattr(annotation, "__origin__", None) in (dict, tuple), kind
