"""YAML text as plain values, with the position of each.

PyYAML's composer gives nodes with marks; this module walks them once.  It takes what a configuration needs
(mappings with text keys, lists, scalars of YAML 1.1) and refuses the rest with a problem that names the line:
duplicate keys, tags, several documents, aliases that nest into something huge or into themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeVar

import yaml

from mgw.config.problems import FIRST, SECRET_PLACES, Mark, Path, Report, is_among
from mgw.config.yaml_faults import fault_of, mark_of, unreadable_character

T = TypeVar("T")

MAX_CHARACTERS: Final = 1024 * 1024
MAX_VALUES: Final = 100_000
"""Texts, numbers, lists and mappings in a file; what an alias of YAML stands for counts with each use."""
MAX_DEPTH: Final = 32


class WrittenFloat(float):
    """A number that a file states with a point, and its text: a float may not be able to hold all of it."""

    written: str

    def __new__(cls, number: float, written: str) -> Self:
        """Keep both."""
        made = super().__new__(cls, number)
        made.written = written
        return made


Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]
"""What a file can say."""

_TAG: Final = "tag:yaml.org,2002:"
_NUMBERS: Final = frozenset({_TAG + "int", _TAG + "float"})
_TYPED_TAGS: Final = frozenset({_TAG + name for name in ("null", "bool", "int", "float")})
_TEXTS: Final = frozenset({_TAG + name for name in ("str", "timestamp", "value", "merge")})
_KEYS: Final = _TEXTS | {_TAG + "bool"}
"""YAML 1.1 reads ``off`` and its like as booleans; as a key it is the name of a setting."""
_WHERE_KEYS_STAND: Final = frozenset({("providers",), ("edge_auth",), ("dashboard",), ("listen",)})
_LONGEST_NUMBER: Final = 8
"""Characters; a longer number among providers may be a key in the wrong place."""
_ODD_BLANKS: Final = frozenset("\u00a0\u2000\u2007\u2009\u200b\u202f\u3000\ufeff")
"""Characters that look like a space, or like nothing, and are part of a word in YAML."""
A_STRING: Final = "a string"
_NO_TAGS: Final = (
    "tags (!) are not supported: write the value itself, or its variable in a setting that ends in _env"
)


class UnreadableFileError(Exception):
    """The text is no YAML document that we take."""

    def __init__(self, message: str, mark: Mark) -> None:
        super().__init__(message)
        self.message = message
        self.mark = mark


class _Loader(yaml.SafeLoader):
    """The safe loader, but for a limit on nesting."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnreadableFileError(f"nested deeper than {MAX_DEPTH} levels", mark_of(self.get_mark()))
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


@dataclass(slots=True, eq=False, repr=False)
class YamlDocument:
    """What a file says, and how it said it."""

    report: Report
    value: Value = None
    _nodes: dict[Path, yaml.Node] = field(default_factory=dict)
    _above: set[int] = field(default_factory=set)

    def found(self, path: Path) -> str:
        """Describe the value at ``path`` without its text, and at a secret place without its number."""
        node = self._nodes.get(path)
        if isinstance(node, yaml.MappingNode):
            return "a mapping"
        if isinstance(node, yaml.SequenceNode):
            return "a list"
        if not isinstance(node, yaml.ScalarNode) or node.tag == _TAG + "null":
            return "nothing"
        if node.tag in _TEXTS:
            return A_STRING if node.value else "an empty string"
        if is_among(path, SECRET_PLACES):
            return "a number" if node.tag in _NUMBERS else "something else"
        if path[:1] in _WHERE_KEYS_STAND and len(node.value) > _LONGEST_NUMBER:
            return "a number" if node.tag in _NUMBERS else "something else"
        return _found_typed(node)

    def string(self, path: Path) -> tuple[str, bool] | None:
        """Return the string at ``path``, and whether there are quotes around it; ``None``: it is not one."""
        node = self._nodes.get(path)
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _TEXTS:
            return None
        return str(node.value), bool(node.style)

    def walk(self, node: yaml.Node, path: Path) -> Value:
        """Return the value of a node and note where it and all below it stand."""
        mark = mark_of(node.start_mark)
        if len(self._nodes) >= MAX_VALUES:
            raise UnreadableFileError(f"more than {MAX_VALUES} values", mark)
        if id(node) in self._above:
            raise UnreadableFileError("an alias that contains itself", mark)
        self._nodes[path] = node
        self.report.marks.setdefault(path, mark)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        self._above.add(id(node))
        value = self._mapping(node, path) if isinstance(node, yaml.MappingNode) else self._list(node, path)
        self._above.discard(id(node))
        return value

    def _mapping(self, node: yaml.MappingNode, path: Path) -> Value:
        if node.tag != _TAG + "map":
            self.report.add(path, f"expected a mapping without a tag; {_NO_TAGS}")
        found: dict[str, Value] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            if key is None:
                continue
            here = (*path, key)
            if key in found:
                first = int(self.report.marks[here][0])
                self.report.add(
                    here, f"duplicate key, first on line {first}", at=mark_of(key_node.start_mark)
                )
                continue
            self.report.marks[here] = mark_of(key_node.start_mark)
            found[key] = self.walk(value_node, here)
        return found

    def _key(self, node: yaml.Node, path: Path) -> str | None:
        mark = mark_of(node.start_mark)
        if not isinstance(node, yaml.ScalarNode):
            self.report.add(path, "expected a string as a key, found a list or a mapping", at=mark)
            return None
        text = str(node.value)
        odd = next((character for character in text if character in _ODD_BLANKS), None)
        if odd is not None:
            words = "looks like a space, but YAML does not read it as one: replace it with a space"
            self.report.add(path, f"the character U+{ord(odd):04X} {words}", at=mark)
            return None
        if node.tag == _TAG + "merge":
            self.report.add((*path, text), "merge keys are not supported: write the keys out", at=mark)
            return None
        if node.tag not in _KEYS:
            self.report.add((*path, text), "expected a string as a key: put it in quotes", at=mark)
            return None
        return text

    def _list(self, node: yaml.Node, path: Path) -> Value:
        if node.tag != _TAG + "seq":
            self.report.add(path, f"expected a list without a tag; {_NO_TAGS}")
        return [self.walk(item, (*path, index)) for index, item in enumerate(node.value)]

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Value:
        if node.tag in _TEXTS:
            return str(node.value)
        try:
            return _typed_value(node)
        except (ValueError, KeyError, IndexError, OverflowError):
            has_tag = node.tag not in _TYPED_TAGS
            self.report.add(path, _NO_TAGS if has_tag else "the value cannot be read: put it in quotes")
            return None


def read(text: str, report: Report, names: Callable[[], Collection[str]] = tuple) -> YamlDocument:
    """Read a YAML text; what is wrong with its form goes to ``report``, the value is what could be read.

    :param names: returns the names of settings, which a message may repeat.
    """
    document = YamlDocument(report)
    try:
        node = _compose(text, names)
        if node is not None:
            document.value = document.walk(node, ())
    except UnreadableFileError as error:
        report.add((), error.message, at=error.mark)
    return document


def note_fault(text: str, report: Report, names: Callable[[], Collection[str]] = tuple) -> None:
    """Note what is not YAML in a text of whatever length, without building anything of it.

    :param names: as for :func:`read`.
    """
    try:
        _parse(text, names, _skip)
    except UnreadableFileError as error:
        report.add((), error.message, at=error.mark)


def _skip(loader: Any) -> None:  # Any: PyYAML's parser has no types
    while loader.check_event():
        loader.get_event()


def _compose(text: str, names: Callable[[], Collection[str]]) -> yaml.Node | None:
    if len(text) > MAX_CHARACTERS:
        raise UnreadableFileError(f"longer than {MAX_CHARACTERS} characters", FIRST)
    return _parse(text, names, _Loader.get_single_node)


def _parse(text: str, names: Callable[[], Collection[str]], work: Callable[[_Loader], T]) -> T:
    """Return what ``work`` makes of a text.

    :raises UnreadableFileError: the text is not YAML.
    """
    loader = None
    try:
        loader = _Loader(text)
        return work(loader)
    except yaml.MarkedYAMLError as error:
        words, mark = fault_of(error, text, names())
        raise UnreadableFileError(f"not YAML: {words}", mark) from None
    except yaml.reader.ReaderError as error:
        words, mark = unreadable_character(text, int(error.position), int(error.character))
        raise UnreadableFileError(f"not YAML: {words}", mark) from None
    except (
        yaml.YAMLError,
        ValueError,
        OverflowError,
    ):  # PyYAML hands absurd escapes and versions to int() and chr()
        mark = FIRST if loader is None else mark_of(loader.get_mark())
        raise UnreadableFileError("not YAML: an escape or a number that cannot be read", mark) from None


def _typed_value(node: yaml.ScalarNode) -> bool | int | float | None:
    text = str(node.value)
    constructor = yaml.constructor.SafeConstructor()
    match node.tag.removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return bool(constructor.construct_yaml_bool(node))
        case "int":
            return int(constructor.construct_yaml_int(node))
        case "float":
            return WrittenFloat(constructor.construct_yaml_float(node), text)
    raise ValueError(text)


def _found_typed(node: yaml.ScalarNode) -> str:
    written = str(node.value)
    try:
        value = _typed_value(node)
    except (ValueError, KeyError, IndexError, OverflowError):
        return "something unreadable"
    said = str(value).lower() if isinstance(value, bool) else f"the number {value}"
    plain = written.lower() in ("true", "false") or not (isinstance(value, bool) or ":" in written)
    return said if plain else f"{said} (what YAML makes of {written} without quotes)"
