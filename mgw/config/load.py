"""Turn the text of a configuration file and the environment into a ``Config``.

In three steps: the YAML with its positions, the shape of each block, what the settings ask of one another.
What a step finds wrong is noted and taken out, and the next goes on with the rest, so that an operator sees
all problems of a file at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from os import PathLike
from types import MappingProxyType
from typing import Final, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mgw.config.auths import GOOGLE_FILE_VARIABLE
from mgw.config.aws_profiles import ReadFile, read_shared_file
from mgw.config.environment import CERT_VARIABLE, KEY_VARIABLE, LISTEN_VARIABLE, LoadContext
from mgw.config.examples import BLOCKS, LISTS, example_of
from mgw.config.key_file import NOT_IN_KEY_FILES, KeyFileSettings, check_key_file
from mgw.config.misplaced import without_misplaced
from mgw.config.normalize import normalize
from mgw.config.places import Places, places_in
from mgw.config.prices import MAX_ROWS, PriceFile, PriceRowSettings, check_row
from mgw.config.problems import Path, Report
from mgw.config.profile import Profile, normalize_profile
from mgw.config.removed_settings import without_removed
from mgw.config.settings import Config
from mgw.config.settings_base import (
    FROM_FILE,
    UNKNOWN_KEY,
    WRONG_TYPE,
    WRONG_VALUE,
    Settings,
    file_settings,
    known_keys,
)
from mgw.config.unknown_keys import note_unknown_key, places_of
from mgw.config.value_hints import list_hint, mapping_hint, value_hint
from mgw.config.yaml_document import MAX_CHARACTERS, Value, YamlDocument, note_fault, read
from mgw.config.yaml_items import NotListedError, read_items
from mgw.reactor.regular_file import read_regular_file

S = TypeVar("S", bound=Settings)
T = TypeVar("T")

MAX_FILE_BYTES: Final = 4 * MAX_CHARACTERS
"""No character takes more than four bytes."""
MAX_PRICE_FILE_BYTES: Final = 3 * MAX_FILE_BYTES
"""A file of prices; each of the most rows may have some 600 bytes."""

_OVERRIDES: Final = MappingProxyType(
    {
        "listen": LISTEN_VARIABLE,
        "tls.cert_file": CERT_VARIABLE,
        "tls.key_file": KEY_VARIABLE,
        GOOGLE_FILE_VARIABLE: GOOGLE_FILE_VARIABLE,
    }
)
"""What is from an environment variable where it is set, by its name in messages."""
_SETTINGS: Final = f"providers: {BLOCKS['providers',]}"
_ABSENT: Final = object()
_SHAPES: Final = MappingProxyType(
    {"list_type": "a list", "dict_type": "a mapping of names", "model_type": "a mapping"}
)


def read_text(path: str | PathLike[str], max_bytes: int = MAX_FILE_BYTES) -> str:
    """Return the text of a file of settings, for the functions below; bytes that are no UTF-8 are kept.

    :raises OSError: it cannot be read, is no regular file, or is far too large.
    """
    return read_regular_file(path, max_bytes).decode("utf-8", "surrogateescape")


def parse(
    text: str,
    name: str,
    environ: Mapping[str, str],
    route_names: frozenset[str] | None = None,
    read_file: ReadFile = read_shared_file,
) -> Config:
    """Read a configuration.

    :param text: the YAML.
    :param name: the file's name, for messages.
    :param environ: the environment, for ``*_env`` settings, the ``GATEWAY_*`` overrides and the place of
        the state directory.
    :param route_names: what ``routes.deny`` may name beside families; ``None``: anything.
    :param read_file: reads the shared files of AWS's tools, where the region of a profile is needed.
    :raises ConfigError: with every problem of the file.
    """
    report = Report(name)
    document = read(text, report, setting_names)
    if document.value is None:
        report.raise_if_any()
        report.add(("providers",), "missing (the file is empty), expected at least one provider with a kind")
    elif not isinstance(document.value, dict):
        report.add((), f'expected a mapping of settings, as in "{_SETTINGS}", found {document.found(())}')
        report.raise_if_any()
    stated = document.value if isinstance(document.value, dict) else {}
    stated, removed = without_removed(stated)
    settings = without_misplaced(stated, report)
    config = _shape(settings, document, Config)
    providers = stated.get("providers")
    unknown = report.has_problem_below(("providers",)) and not isinstance(providers, dict)
    names = None if unknown else tuple(providers) if isinstance(providers, dict) else ()
    profiles = settings.get("profiles")
    known = tuple(profiles) if isinstance(profiles, dict) else ()
    known_profiles = None if report.has_problem_below(("profiles",)) and not known else known
    loaded = normalize(config, LoadContext(report, environ, names, known_profiles, route_names, read_file))
    variables = {path: variable for path, variable in _OVERRIDES.items() if environ.get(variable)}
    places = places_in(name, report.marks, frozenset({*file_settings(Config), *removed}), variables)
    return loaded.model_copy(update={"places": places, "removed": removed})


def parse_profile(text: str, name: str, environ: Mapping[str, str]) -> Profile:
    """Read a profile of subscription credentials; arguments and errors are those of :func:`parse`."""
    report = Report(name)
    document = read(text, report, setting_names)
    profile = _shape(_settings_in(document), document, Profile)
    return normalize_profile(profile, LoadContext(report, environ, None))


def parse_prices(text: str, name: str, providers: Iterable[str] | None) -> tuple[PriceRowSettings, ...]:
    """Read a file of prices; errors are those of :func:`parse`.

    :param text: the YAML.
    :param name: the file's name, for messages.
    :param providers: the names that rows may state; ``None``: any.
    """
    return parse_each_price(text, name, providers, lambda row: row)


def parse_each_price(
    text: str, name: str, providers: Iterable[str] | None, make: Callable[[PriceRowSettings], T]
) -> tuple[T, ...]:
    """Read a file of prices, and keep of each row what ``make`` makes of it; see :func:`parse_prices`."""
    report = Report(name)
    context = LoadContext(report, {}, None if providers is None else tuple(providers))
    made: list[T] = []

    def on_row(place: int, value: Value, document: YamlDocument) -> None:
        row = _shape_price(value, place, document)
        if row is not None:
            check_row(row, ("rows", place), context)
            made.append(make(row))

    try:
        document = read_items(text, "rows", MAX_ROWS, report, on_row)
    except NotListedError:
        made.clear()
        report = Report(name)
        context = LoadContext(report, {}, context.provider_names)
        note_fault(text, report, setting_names)
        report.raise_if_any()
        document = read(text, report, setting_names)
    rows = _shape(_settings_in(document), document, PriceFile).rows
    if rows is None and not report.has_problem_below(("rows",)):
        report.add(("rows",), "missing, expected a list of prices")
    for place, row in enumerate(rows or ()):  # those that were not handed on
        check_row(row, ("rows", place), context)
        made.append(make(row))
    report.raise_if_any()
    return tuple(made)


def _shape_price(value: Value, place: int, document: YamlDocument) -> PriceRowSettings | None:
    """Check a row by itself; what is wrong with it is noted, and it is left out."""
    try:
        return PriceRowSettings.model_validate(value, context=FROM_FILE)
    except ValidationError as error:
        for fault in _faults_of(error):
            _note_fault(fault, ("rows", place, *fault["loc"]), document, PriceFile)
        return None


def parse_key_file(text: str, name: str, file: str, config: Config | None) -> tuple[KeyFileSettings, Places]:
    """Read a key file; errors are those of :func:`parse`.

    :param text: the YAML.
    :param name: the name of the key, which the file has its name from.
    :param file: the file's name, for messages.
    :param config: the configuration that the key belongs to; ``None``: nobody knows which groups there are.
    :returns: the key, and where its settings stand.
    """
    report = Report(file)
    document = read(text, report, setting_names)
    settings = dict(_settings_in(document))
    for setting, why in NOT_IN_KEY_FILES.items():
        if settings.pop(setting, _ABSENT) is not _ABSENT:
            report.add((setting,), why)
    key = _shape(settings, document, KeyFileSettings).model_copy(update={"name": name})
    check_key_file(key, config, report)
    report.raise_if_any()
    return key, places_in(file, report.marks, frozenset(file_settings(KeyFileSettings)), {})


def _settings_in(document: YamlDocument) -> dict[str, Value]:
    """Return the settings of a file that stands beside the main one."""
    report = document.report
    if isinstance(document.value, dict):
        return document.value
    if document.value is not None or not report.has_problem_below(()):
        report.add((), f"expected a mapping of settings, found {document.found(())}")
    report.raise_if_any()
    return {}


def _shape(settings: dict[str, Value], document: YamlDocument, block: type[S]) -> S:
    """Check each block by itself; what is wrong is noted and left out."""
    try:
        return block.model_validate(settings, context=FROM_FILE)
    except ValidationError as error:
        faults = _faults_of(error)
    sound: Value = settings
    for fault in faults:
        sound = _without(sound, fault["loc"])
        _note_fault(fault, fault["loc"], document, block)
    return block.model_validate(sound, context=FROM_FILE)


def _faults_of(error: ValidationError) -> list[ErrorDetails]:
    """Return what is wrong, unknown keys first: what they may mean is not missing."""
    return sorted(error.errors(include_input=False, include_url=False, include_context=False), key=_known)


def _note_fault(fault: ErrorDetails, path: Path, document: YamlDocument, block: type[Settings]) -> None:
    report = document.report
    if report.has_problem_at(path) or (report.is_misspelled(path) and path not in report.marks):
        return
    if fault["type"] == UNKNOWN_KEY:
        note_unknown_key(path, report, block)
    else:
        report.add(path, _words(fault["type"], fault["msg"], path, document, block))


def _words(kind: str, message: str, path: Path, document: YamlDocument, block: type[Settings]) -> str:
    string = document.string(path)
    if kind == WRONG_VALUE:
        return message + ("" if string is None else value_hint(string[0], "", quoted=string[1]))
    if kind == WRONG_TYPE and path not in document.report.marks:
        return f"missing, expected {message}"
    found = document.found(path)
    if kind == WRONG_TYPE:
        hint = "" if string is None else value_hint(string[0], message, quoted=string[1])
        return f"expected {message}, found {found}{hint}"
    hint = "" if string is None or string[1] else _shape_hint(kind, string[0], path, block)
    return f"expected {_shape_words(kind, path)}, found {found}{hint}"


def _shape_words(kind: str, path: Path) -> str:
    """Say which shape is expected, with an example where there is one."""
    shape = _SHAPES.get(kind, "another value")
    example = example_of(path, LISTS if kind == "list_type" else BLOCKS)
    return shape if example is None else f"{shape} such as {example}"


def _shape_hint(kind: str, text: str, path: Path, block: type[Settings]) -> str:
    if kind == "list_type":
        return list_hint(text)
    if ":{" in str(path[-1]):
        return " (put a space after the colon)"
    return mapping_hint(text, known_keys(block, path), takes_names=kind == "dict_type")


def _known(fault: ErrorDetails) -> bool:
    """Put unknown keys first: what they may mean is not missing."""
    return fault["type"] != UNKNOWN_KEY


@cache
def setting_names() -> Collection[str]:
    """Return the names of all settings, of the configuration and of files beside it."""
    return frozenset(places_of(Config)) | frozenset(places_of(Profile)) | frozenset(places_of(PriceFile))


def _without(value: Value, path: Path) -> Value:
    """Copy a value but for the setting that ``path`` leads to; a list with a fault in it goes whole."""
    if not path or not isinstance(value, dict):
        return value
    head, *rest = path
    kept = {key: inner for key, inner in value.items() if key != head}
    if isinstance(head, str) and isinstance(value.get(head), dict) and rest:
        kept[head] = _without(value[head], tuple(rest))
    return kept
