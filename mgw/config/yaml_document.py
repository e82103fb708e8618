"""YAML text as plain values, with the place of each in the file.

PyYAML's composer gives nodes with marks; this module walks them once.  It takes what a configuration needs
(mappings with text keys, lists, scalars of YAML 1.1) and refuses the rest with a problem that names the line:
duplicate keys, tags, several documents, aliases that nest into something huge or into themselves.

What is wrong with a text that is no YAML is told in words that say what to change and where: PyYAML tells
where it gave up, which is seldom where the mistake is (a quote that nobody closed is noticed at the next
one).  Nothing of the text itself is quoted, since it may be a key.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import yaml

from mgw.config.problems import FIRST, SECRET_PLACES, Mark, Path, Report, is_among

MAX_CHARACTERS: Final = 1024 * 1024
MAX_VALUES: Final = 100_000
"""Texts, numbers, lists and mappings in a file; what an alias of YAML stands for counts with each use."""
MAX_DEPTH: Final = 32

Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]
"""What a file can say."""

_TAG: Final = "tag:yaml.org,2002:"
_NUMBERS: Final = frozenset({_TAG + "int", _TAG + "float"})
_TEXTS: Final = frozenset({_TAG + name for name in ("str", "timestamp", "value", "merge")})
_KEYS: Final = _TEXTS | {_TAG + "bool"}
"""YAML 1.1 reads ``off`` and its like as booleans; as a key it is the name of a setting."""
_WHERE_KEYS_STAND: Final = frozenset({("providers",), ("edge_auth",), ("dashboard",), ("listen",)})
_LONGEST_NUMBER: Final = 8
"""Characters; a longer number among providers may be a key in the wrong place."""


class _UnreadableFileError(Exception):
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
            raise _UnreadableFileError(f"nested deeper than {MAX_DEPTH} levels", mark_of(self.get_mark()))
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


@dataclass(slots=True)
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
            return "text" if node.value else "empty text"
        if is_among(path, SECRET_PLACES):
            return "a number" if node.tag in _NUMBERS else "something else"
        if path[:1] in _WHERE_KEYS_STAND and len(node.value) > _LONGEST_NUMBER:
            return "a number" if node.tag in _NUMBERS else "something else"
        return _found_plain(node)

    def lacks_blank(self, path: Path) -> bool:
        """Say whether the text at ``path`` would be a mapping with a blank behind its colon."""
        node = self._nodes.get(path)
        return isinstance(node, yaml.ScalarNode) and not node.style and ":" in node.value

    def walk(self, node: yaml.Node, path: Path) -> Value:
        """Return the value of a node and note where it and all below it stand."""
        mark = mark_of(node.start_mark)
        if len(self._nodes) >= MAX_VALUES:
            raise _UnreadableFileError(f"more than {MAX_VALUES} values", mark)
        if id(node) in self._above:
            raise _UnreadableFileError("an alias that contains itself", mark)
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
            self.report.add(path, "expected a plain mapping, found one with a tag")
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
            self.report.add(path, "expected text as a key, found a list or a mapping", at=mark)
            return None
        text = str(node.value)
        if node.tag == _TAG + "merge":
            self.report.add((*path, text), "merge keys are not supported: write the keys out", at=mark)
            return None
        if node.tag not in _KEYS:
            self.report.add((*path, text), "expected text as a key: put it in quotes", at=mark)
            return None
        return text

    def _list(self, node: yaml.Node, path: Path) -> Value:
        if node.tag != _TAG + "seq":
            self.report.add(path, "expected a plain list, found one with a tag")
        return [self.walk(item, (*path, index)) for index, item in enumerate(node.value)]

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Value:
        if node.tag in _TEXTS:
            return str(node.value)
        try:
            return _plain_value(node)
        except (ValueError, KeyError, IndexError, OverflowError):
            self.report.add(
                path, "expected a plain value, found one that its tag or its form makes unreadable"
            )
            return None


def read(text: str, report: Report) -> YamlDocument:
    """Read a YAML text; what is wrong with its form goes to ``report``, the value is what could be read."""
    document = YamlDocument(report)
    try:
        node = _compose(text)
        if node is not None:
            document.value = document.walk(node, ())
    except _UnreadableFileError as error:
        report.add((), error.message, at=error.mark)
    return document


def _compose(text: str) -> yaml.Node | None:
    if len(text) > MAX_CHARACTERS:
        raise _UnreadableFileError(f"longer than {MAX_CHARACTERS} characters", FIRST)
    loader = None
    try:
        loader = _Loader(text)
        return loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        words, mark = fault_of(error, text)
        raise _UnreadableFileError(f"not YAML: {words}", mark) from None
    except yaml.reader.ReaderError as error:
        words, mark = unreadable_character(text, int(error.position), int(error.character))
        raise _UnreadableFileError(f"not YAML: {words}", mark) from None
    except (
        yaml.YAMLError,
        ValueError,
        OverflowError,
    ):  # PyYAML hands absurd escapes and versions to int() and chr()
        mark = FIRST if loader is None else mark_of(loader.get_mark())
        raise _UnreadableFileError("not YAML: an escape or a number that cannot be read", mark) from None


def _plain_value(node: yaml.ScalarNode) -> bool | int | float | None:
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
            return float(constructor.construct_yaml_float(node))
    raise ValueError(text)


def _found_plain(node: yaml.ScalarNode) -> str:
    written = str(node.value)
    try:
        value = _plain_value(node)
    except (ValueError, KeyError, IndexError, OverflowError):
        return "something unreadable"
    said = str(value).lower() if isinstance(value, bool) else f"the number {value}"
    plain = written.lower() in ("true", "false") or not (isinstance(value, bool) or ":" in written)
    return said if plain else f"{said} (what YAML makes of {written} without quotes)"


_UTF_16: Final = ("\udcff\udcfe", "\udcfe\udcff", "\ufffe")
"""Its byte order marks, as bytes that are no UTF-8 are kept."""
_QUOTES: Final = frozenset({"'", '"'})
_NO_INDENT: Final = frozenset({"'<block mapping start>'", "'<block sequence start>'", "'-'", "'?'"})

_LINE_END: Final = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")  # YAML 1.1, 5.4
_NO_COLON: Final = 'expected "key: value", found no colon followed by a space'

Words = tuple[str, Mark]


def fault_of(error: yaml.MarkedYAMLError, text: str) -> Words:
    """Return what to change, and where."""
    problem, context = error.problem or "", error.context or ""
    mark = mark_of(error.problem_mark or error.context_mark)
    began = mark_of(error.context_mark or error.problem_mark)
    quote = began if "quoted scalar" in context else _open_quote(text, mark)
    if quote is not None and "escape" not in problem:
        return "the quote that opens here is not closed on this line", quote
    for wanted, words in _WORDS:
        if wanted in problem or wanted in context:
            return words(problem, mark, began, text)
    return "cannot be read from here on", mark


def unreadable_character(text: str, position: int, code: int) -> Words:
    """Say which character YAML does not take, or that the file has another encoding."""
    if text.startswith(_UTF_16) or "\x00" in text[:4]:
        return "the file is encoded as UTF-16: save it as UTF-8", FIRST
    line = text.count("\n", 0, position) + 1
    if 0xDC80 <= code <= 0xDCFF:
        return "a character that is not valid UTF-8 (is the file Latin-1?): save it as UTF-8", (line, 1)
    return f"the character U+{code:04X} is not allowed", (line, 1)


def mark_of(mark: yaml.Mark | yaml.error.Mark | None) -> Mark:
    """Return line and column, counted from 1."""
    return FIRST if mark is None else (mark.line + 1, mark.column + 1)


def _open_quote(text: str, mark: Mark) -> Mark | None:
    """Return where a quoted text begins that ends, over line breaks, on the line of the mistake."""
    found = None
    try:
        for token in yaml.scan(text, yaml.SafeLoader):
            if not isinstance(token, yaml.ScalarToken) or token.style not in _QUOTES:
                continue
            begin, end = mark_of(token.start_mark), mark_of(token.end_mark)
            if begin[0] < end[0] == mark[0]:
                found = begin
            if end[0] > mark[0]:
                break
    except (yaml.YAMLError, ValueError, OverflowError):
        pass  # it ends at the mistake, or at another one
    return found


def _cannot_start(problem: str, mark: Mark, began: Mark, text: str) -> Words:  # noqa: ARG001  the table's
    if "'\\t'" in problem:
        return "this line is indented with a tab, and YAML allows only spaces", mark
    return "a value that begins with @, ` or % needs quotes", mark


def _no_colon(problem: str, mark: Mark, began: Mark, text: str) -> Words:  # noqa: ARG001  the table's
    return _NO_COLON, began


def _no_block_end(problem: str, mark: Mark, began: Mark, text: str) -> Words:  # noqa: ARG001  the table's
    if any(problem.endswith(found) for found in _NO_INDENT):
        return "the indentation of this line does not match any line above it", mark
    return "unexpected text after the end of a value: put the whole value in quotes", mark


def _no_mapping(problem: str, mark: Mark, began: Mark, text: str) -> Words:  # noqa: ARG001  the table's
    lines = _LINE_END.split(text)
    line = lines[int(mark[0]) - 1]
    before = next((other for other in reversed(lines[: int(mark[0]) - 1]) if other.strip()), "")
    if _indent(line) > _indent(before) and not before.rstrip().endswith(":") and ":" in before:
        return "this line is indented more than the one above it, which already has a value", mark
    if _indent(line) == _indent(before) and ":" not in before:
        return _NO_COLON, (mark[0] - 1, began[1])
    return 'a second ": " on one line: put the value in quotes', mark


def _not_closed(problem: str, mark: Mark, began: Mark, text: str) -> Words:  # noqa: ARG001  the table's
    if "<stream end>" in problem or began[0] < mark[0]:
        return "the [ or { that opens here is not closed", began
    return 'expected "," or the closing bracket of a list or mapping', mark


def _said(words: str) -> Callable[[str, Mark, Mark, str], Words]:
    return lambda _problem, mark, _began, _text: (words, mark)


_WORDS: Final = (
    ("cannot start any token", _cannot_start),
    ("could not find expected ':'", _no_colon),
    ("expected <block end>", _no_block_end),
    ("mapping values are not allowed", _no_mapping),
    ("sequence entries are not allowed", _said('a list must begin on the line below its key, with "- "')),
    ("while parsing a flow", _not_closed),
    ("undefined alias", _said("an alias without an anchor: a value that begins with * needs quotes")),
    ("duplicate anchor", _said("an anchor that is already defined")),
    ("a single document", _said("a second document begins here: only one is allowed")),
    ("escape", _said("an escape sequence that YAML does not know: use single quotes")),
    ("tag", _said("a tag: a value that begins with ! needs quotes")),
    ("alias", _said("a value that begins with * needs quotes")),
    ("anchor", _said("a value that begins with & needs quotes")),
    ("block scalar", _said("expected a line break after | or >")),
    ("directive", _said("a value that begins with % needs quotes")),
    ("<document start>", _said("unexpected text before the first setting")),
)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
