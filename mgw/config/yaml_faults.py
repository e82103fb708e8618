"""Messages about text that is not valid YAML: what to change, and where.

PyYAML reports where it gave up, which is seldom where the mistake is (an unclosed quote is noticed at the
next one).  Of the text itself only names of settings are repeated, since anything else may be a key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Final

import yaml

from mgw.config.problems import FIRST, Mark

_UTF_16: Final = ("\udcff\udcfe", "\udcfe\udcff", "\ufffe")
"""The byte order marks of UTF-16, as bytes that are no UTF-8 are kept."""
_QUOTES: Final = frozenset({"'", '"'})
_NO_INDENT: Final = frozenset({"'<block mapping start>'", "'<block sequence start>'", "'-'", "'?'"})

_LINE_END: Final = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")  # YAML 1.1, 5.4
_NO_COLON: Final = 'expected "key: value", found no colon followed by a space'

_SIGNS_OF_NO_SPACE: Final = ("mapping values are not allowed", "could not find expected ':'")
_JOINED: Final = re.compile(r"[ \xa0]*(?:- )?([a-z][a-z0-9_]*):(?=[^ \t])")
_LINES_BACK: Final = 3
_TOML: Final = re.compile(r"\[\[?[A-Za-z0-9_.\"-]+\]?\]\s*")

Words = tuple[str, Mark]


def fault_of(error: yaml.MarkedYAMLError, text: str, names: Collection[str] = ()) -> Words:
    """Return what to change, and where.

    :param names: names of settings, which may be repeated.
    """
    problem, context = error.problem or "", error.context or ""
    mark = mark_of(error.problem_mark or error.context_mark)
    began = mark_of(error.context_mark or error.problem_mark)
    quote = began if "quoted scalar" in context else _open_quote(text, mark)
    if quote is not None and "escape" not in problem:
        return "the quote that opens here is not closed on this line", quote
    if any(sign in problem for sign in _SIGNS_OF_NO_SPACE):
        joined = _without_space(text, mark, names)
        if joined is not None:
            return joined
    for wanted, words in _WORDS:
        if wanted in problem or wanted in context:
            return words(problem, mark, began, text)
    return "cannot be read from here on", mark


def _without_space(text: str, mark: Mark, names: Collection[str]) -> Words | None:
    """Return the line on which the name of a setting is joined to its value, at the mistake or just above."""
    lines = _LINE_END.split(text)
    for number in range(int(mark[0]), max(int(mark[0]) - _LINES_BACK, 0), -1):
        joined = _JOINED.match(lines[number - 1]) if number <= len(lines) else None
        if joined is not None and joined[1] in names:
            return f'put a space after "{joined[1]}:"', (number, joined.start(1) + 1)
    return None


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
    if _indent(line) >= _indent(before) and ":" not in before:
        return _NO_COLON, (mark[0] - 1, began[1])
    return 'a second ": " on one line: put the value in quotes', mark


def _not_closed(problem: str, mark: Mark, began: Mark, text: str) -> Words:  # noqa: ARG001  the table's
    if "<stream end>" in problem or began[0] < mark[0]:
        return "the [ or { that opens here is not closed", began
    return 'expected "," or the closing bracket of a list or mapping', mark


def _no_start(problem: str, mark: Mark, began: Mark, text: str) -> Words:  # noqa: ARG001  the table's
    toml = next(
        (number for number, line in enumerate(_LINE_END.split(text), 1) if _TOML.fullmatch(line)), None
    )
    if toml is not None:
        return "this looks like TOML: write the settings as YAML, as in etc/mgw.yaml", (toml, 1)
    return "unexpected text before the first setting", mark


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
    ("<document start>", _no_start),
)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
