"""Habits of language that a program can find in the project's texts, and what to write instead.

``CONTRIBUTING.rst`` asks for plain English.  A table cannot read: a text without findings may need work.
But what the table has was corrected once, all over the texts, and does not come back.

``python -m tools.pages.language FILE...`` prints the findings of files.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

ROOT: Final = Path(__file__).resolve().parents[2]


class Habit(Struct, frozen=True):
    """An expression that the project's texts avoid."""

    pattern: str
    """A regular expression, without regard to case."""
    better: str
    example: str
    """A text in which it has to be found."""


HABITS: Final = (
    # How things are said to be, or not to be.
    Habit(
        r"\b(?:that|it|which|this|they) (?:is|are|was|were) no (?!(?:longer|more|fewer|less|such|other)\b)",
        "is not a",
        "a path that is no file",
    ),
    Habit(r"\b(?:is|are|was|were|be) away\b", "is unavailable, unreachable, down", "while Redis was away"),
    Habit(r"\bto be had\b", "could be obtained, is available", "if no token was to be had"),
    Habit(r"\bunder way\b", "in progress", "requests under way"),
    Habit(r"\bat hand\b", "available", "unless a newer token is at hand"),
    Habit(r"\bas good as\b", "almost, the same as", "it is as good as lost"),
    Habit(r"\bnext to nothing\b", "almost nothing", "it costs next to nothing"),
    Habit(r"\bis nothing but\b", "is only", "the body is nothing but blanks"),
    Habit(r"\bnot a few\b", "many", "not a few hosts refuse that"),
    Habit(r"\bis one's\b", "is your, is the user's", "the choice is one's own"),
    Habit(r"\bis what (?:is|was) \w+", "name the thing", "the model is what was asked for"),
    Habit(r"\bdearer\b", "more expensive", "a dearer model"),
    Habit(r"\bin vain\b", "without success", "it was tried in vain"),
    Habit(r"\bin earnest\b", "for real, in production", "to run it in earnest"),
    Habit(r"\bfor ever\b", "indefinitely", "it waits for ever"),
    Habit(r"\bas ever\b", "as before, unchanged", "requests pass through as ever"),
    Habit(r"\banew\b", "again", "the connection is opened anew"),
    Habit(r"\bwithin sight\b", "nearby, soon", "when the end is within sight"),
    Habit(r", be (?:it|the|they)\b", "whether", "every stream, be it translated or not"),
    # Things are not persons.
    Habit(r"\bwhose\b", "with, of which, that has", "a provider whose kind is openai"),
    Habit(r"\bwants\b", "requires, needs, expects", "the provider wants a key"),
    Habit(r"\btold\b", "reported, notified, configured", "unless told otherwise"),
    Habit(
        r"\btells? (?:of|when|where|whether)\b", "describes, says", "this page tells when it is translated"
    ),
    Habit(r"\bspeaks? of\b", "describes, mentions", "headers that speak of the body"),
    Habit(r"\bknows? of\b", "supports, lists", "a model that the table knows of"),
    Habit(
        r"\b(?:is|are|was|were) asked of\b", "is requested from, requests for", "what is asked of a provider"
    ),
    Habit(r"\bby (?:them|it)sel(?:f|ves)\b", "on its own, automatically", "clients retry by themselves"),
    Habit(r"\btakes? (?:it|them)sel(?:f|ves) off\b", "deregisters", "a worker takes itself off"),
    Habit(r"\bnobody's\b", "no one's, unknown", "a path that is nobody's"),
    Habit(r"\bby nobody\b", "by no one, not … at all", "a route that is served by nobody"),
    Habit(r"\bwhoever\b", "anyone who, the person who", "whoever asks"),
    Habit(r"\b(?:says?|said) nothing\b", "does not mention, has no effect", "a field that says nothing"),
    Habit(r"\bnothing is (?:said|told|under)\b", "nothing is reported", "nothing is said about it"),
    Habit(r"\bhas no (?:word|say)\b", "does not mention, cannot decide", "the row has no word on it"),
    Habit(r"\bwithout a word\b", "silently, without a message", "it stopped without a word"),
    Habit(r"\bgoes? without\b", "has no, is sent without", "the request goes without a key"),
    Habit(r"\bleft to you\b", "your responsibility", "what is left to you"),
    Habit(r"\bput right\b", "corrected", "the counts are put right"),
    Habit(
        r"\b(?:gateway|process|worker|program|child)(?:es|s)? (?:that )?(?:dies|died)\b",
        "crashes, exits",
        "a process that dies is replaced",
    ),
    # The words of the field.
    Habit(
        r"\b(?:accounts?|keys?|providers?|targets?) (?:that )?rests?\b", "is in cooldown", "an account rests"
    ),
    Habit(r"\bresting\b", "in cooldown", "resting accounts"),
    Habit(r"\bcool-downs?\b", "cooldown", "a cool-down of 60 s"),
    Habit(r"\bedge[ -]keys?\b", "gateway key", "it needs an edge key"),
    Habit(
        r"\b(?:comes?|came) to (?:its|their|an) end\b", "finishes, completes", "the stream came to its end"
    ),
    Habit(r"\brequests? (?:that )?(?:have |has |had )?ended\b", "completed", "requests that have ended"),
    Habit(r"\bfound (?:text|another)\b", "found a string; unknown value", "expected a number, found text"),
    Habit(r"\bper cent\b", "%, percent", "a few per cent"),
    # Old-fashioned or foreign.
    Habit(r"\bupon\b", "on", "upon a reload"),
    Habit(r"\bthere(?:of|by|in|upon)\b", "of it, as a result", "the file and the parts thereof"),
    Habit(r"\bwhereupon\b", "and then", "it fails, whereupon the next one is tried"),
    Habit(r"\bas soon as nothing\b", "once no … is left", "as soon as nothing runs"),
    Habit(r"\b(?:its|their|and the) like\b", "similar, related", "this header and its like"),
    Habit(
        r"\b(?:behaviour|colour|neighbour|favour|honour|licence|centre|grey|artefact|catalogue)"
        r"|\b(?:recogni|organi|initiali|normali|seriali|authori|summari|minimi)s(?:e[ds]?|ing|ation)\b"
        r"|\b(?:labell|modell|signall)(?:ed|ing)\b",
        "the American spelling",
        "the behaviour of neighbouring requests",
    ),
    # Chains.
    Habit(
        r"\bof (?:[\w'`]+ ){1,4}of (?:[\w'`]+ ){1,4}of\b",
        "compounds, or two sentences",
        "the size of the body of a request of a client",
    ),
    Habit(r"\blets? .{3,40} be \w+ed by\b", "say who does it", "let an account be evicted by others"),
)
_COMPILED: Final = tuple((re.compile(habit.pattern, re.IGNORECASE), habit) for habit in HABITS)

Line = int
Paragraphs = Iterator[tuple[Line, str]]


class Finding(Struct, frozen=True):
    """A habit that a text has."""

    line: Line
    found: str
    better: str
    context: str

    def __str__(self) -> str:
        return f"{self.line}: {self.found!r}, better: {self.better}: …{self.context}…"


def findings(name: str, text: str) -> list[Finding]:
    """Return what a file's text has of the habits; its name says how to read it."""
    found = []
    for line, paragraph in paragraphs_of(name, text):
        prose = " ".join(paragraph.split())
        for pattern, habit in _COMPILED:
            for match in pattern.finditer(prose):
                context = prose[max(0, match.start() - 40) : match.end() + 40]
                found.append(Finding(line, match[0], habit.better, context))
    return found


def paragraphs_of(name: str, text: str) -> Paragraphs:
    """Yield the prose of a file, and the line in which each piece begins."""
    match Path(name).suffix:
        case ".py":
            return _messages(text)
        case ".json":
            return _json_texts(text)
        case ".js":
            return _script_texts(text)
        case ".rst":
            return _paragraphs(_without_code(text))
    return _paragraphs(text)


_ITEM: Final = re.compile(r"(?:[-*]|\d+\.) ")
_GAP: Final = re.compile(r" {2,}")


def _paragraphs(text: str) -> Paragraphs:
    """Yield each paragraph and list item as one line: an expression may be wrapped, but not span cells."""
    held: list[str] = []
    begin = 1
    for number, line in enumerate((*text.split("\n"), ""), 1):
        words = line.strip().lstrip("#").strip()
        if held and (not words or _ITEM.match(words)):
            yield begin, " ".join(held)
            held = []
        if words:
            begin = begin if held else number
            held.append(_GAP.sub(" | ", words))


_LITERAL: Final = re.compile(r"``[^`]+``")
_BEFORE_CODE: Final = re.compile(r"::$|^\s*\.\. (?:code|code-block|parsed-literal)::")


def _without_code(text: str) -> str:
    """Empty the literal blocks and the inline literals of reStructuredText."""
    lines = []
    ends_at: int | None = None
    before = ""
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        if line.strip() and ends_at is not None and indent <= ends_at:
            ends_at = None
        if line.strip() and ends_at is None and _BEFORE_CODE.search(before):
            outer = len(before) - len(before.lstrip())
            ends_at = outer if indent > outer else None
        lines.append("" if ends_at is not None else line)
        before = line.rstrip() if line.strip() else before
    return _LITERAL.sub(lambda literal: "``…" + "\n" * literal[0].count("\n") + "``", "\n".join(lines))


def _messages(source: str) -> Paragraphs:
    """Yield the strings of a module that have several words and are not docstrings."""
    tree = ast.parse(source)
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            yield node.lineno, "".join(_piece(part) for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def _piece(part: ast.expr) -> str:
    return part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "{}"


def _json_texts(text: str) -> Paragraphs:
    """Yield the strings of a document that have several words; all in its first line."""
    waiting = [json.loads(text)]
    while waiting:
        match waiting.pop():
            case str() as value if " " in value:
                yield 1, value
            case dict() as members:
                waiting += members.values()
            case list() as elements:
                waiting += elements


_SCRIPT: Final = re.compile(
    r"""/\*.*?\*/|//[^\n]*|"(?P<double>(?:\\.|[^"\\\n])*)"|'(?P<single>(?:\\.|[^'\\\n])*)'|`(?P<template>(?:\\.|[^`\\])*)`""",
    re.DOTALL,
)


_PLACEHOLDER: Final = re.compile(r"\$\{[^}]*\}")


def _script_texts(text: str) -> Paragraphs:
    """Yield the strings of a script that have several words; comments are passed over."""
    for match in _SCRIPT.finditer(text):
        words = match["double"] or match["single"] or match["template"] or ""
        if " " in words:
            yield text.count("\n", 0, match.start()) + 1, _PLACEHOLDER.sub("{}", words)


def main(names: list[str]) -> int:
    """Print the findings of files."""
    count = 0
    for name in names:
        for finding in findings(name, Path(name).read_text(encoding="utf-8")):
            count += 1
            sys.stdout.write(f"{name}:{finding}\n")
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
