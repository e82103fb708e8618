"""What can go wrong on request: words of a model's name, or headers.

A model name is cut at ``+``, ``.``, ``/`` and blanks (what ``+`` is in a query); each piece that begins with
``sim-`` is a word of this table, with its number after it: ``gpt-5+sim-delay-500+sim-status-429``.  A header
``x-sim-delay: 500`` says the same.  A word that is not in the table is refused, since a misspelt fault would
be a test that tests nothing.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

WORDS: Final[Mapping[str, int]] = {
    "status": 1,
    "retry-after": 1,
    "no-retry-after": 0,
    "flaky": 2,
    "key": 1,
    "delay": 1,
    "chunk-delay": 1,
    "chunks": 1,
    "big": 1,
    "cut": 1,
    "stall-head": 0,
    "stall-body-after": 1,
    "reset-before": 0,
    "reset-after": 1,
    "truncate-after": 1,
    "error-in-stream-after": 1,
    "odd-error": 0,
    "error-code": 1,
    "drop-last": 1,
    "garbage": 0,
    "garbage-after": 1,
    "1xx": 0,
    "close-after": 0,
    "http10": 0,
    "gzip": 0,
    "force-gzip": 0,
    "refuse": 0,
    "block": 1,
    "stop": 1,
    "usage": 1,
    "untold": 0,
    "noise": 0,
    "unknown": 0,
    "cached": 1,
    "cache-write": 1,
    "cache-1h": 1,
    "audio": 2,
    "searches": 1,
    "served": 1,
    "geo": 1,
    "reasoning": 0,
    "interleave": 0,
    "no-ids": 0,
    "unsigned": 0,
    "lenient": 0,
    "template-strict": 0,
    "too-long": 0,
    "strict-signatures": 0,
    "size": 1,
    "models": 1,
    "close": 2,
    "close-reason": 1,
    "no-close": 0,
    "bad-frame": 1,
    "bad-accept": 0,
    "ping": 1,
    "no-read": 0,
    "echo": 0,
    "deflate": 0,
    "go-away": 1,
    "issued": 0,
    "token": 1,
    "expires": 1,
    "rotate": 0,
    "aws": 1,
    "frame-cut": 1,
    "frame-crc": 0,
    "exception": 1,
    "pad": 0,
}
"""Each word with how many values follow it.  docs/simulator.rst explains them."""
TEXT_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "key": (),
    "stop": (),
    "block": (),
    "usage": ("each", "last", "none"),
    "served": (),
    "geo": (),
    "error-code": (),
    "close-reason": (),
    "bad-frame": (
        "rsv",
        "opcode",
        "masked",
        "big-control",
        "cut-control",
        "continuation",
        "interrupted",
        "utf8",
        "length",
        "close-length",
    ),
    "ping": (),
    "token": ("html", "list", "redirect", "no-token", "mac"),
    "expires": (),
    "aws": (),
    "exception": (),
}
"""Words whose value is a name and not a number; where there are names here, it is one of them."""


_COUNTS: Final = re.compile(r"usage-(\d+)-(\d+)")
"""How many tokens an answer says that it read and wrote; other values of ``usage`` say where it says so."""


class UnknownFaultError(ValueError):
    """A word after ``sim-`` that means nothing here."""


class Faults(Struct, frozen=True):
    """The words of one request, each with its values as text."""

    words: dict[str, tuple[str, ...]] = {}

    def __contains__(self, word: str) -> bool:
        return word in self.words

    def number(self, word: str, *, place: int = 0) -> int | None:
        """A word's value, or None where the word was not said."""
        values = self.words.get(word)
        return int(values[place]) if values else None

    def counts(self, tokens_in: int, tokens_out: int) -> tuple[int, int]:
        """The tokens that an answer tells: its own, or those that were asked for."""
        stated = self.words.get("counts")
        return (tokens_in, tokens_out) if stated is None else (int(stated[0]), int(stated[1]))

    def text(self, word: str) -> str | None:
        """A word's value as it was written, or None."""
        values = self.words.get(word)
        return values[0] if values else None

    @property
    def usage(self) -> str | None:
        """How usage is told; ``none``: not at all."""
        return "none" if "untold" in self.words else self.text("usage")


def read_faults(model: str, headers: Iterable[tuple[str, str]]) -> Faults:
    """Gather the words of a model name and of ``x-sim-`` headers (names in lower case).

    Raises UnknownFaultError for a word or a number that is not understood.
    """
    words: dict[str, tuple[str, ...]] = {}
    for piece in re.split(r"[+./ ]", model) if "sim-" in model else ():
        if piece.startswith("sim-"):
            word, values = _parse_word(piece[4:])
            words[word] = values
    for name, value in headers:
        if name.startswith("x-sim-"):
            text = name[6:] if WORDS.get(name[6:]) == 0 else f"{name[6:]}-{value.strip()}"
            word, values = _parse_word(text)
            words[word] = values
    return Faults(words)


def _parse_word(text: str) -> tuple[str, tuple[str, ...]]:
    counts = _COUNTS.fullmatch(text)
    if counts is not None:
        return "counts", counts.groups()
    for word, count in WORDS.items():
        rest = text.removeprefix(word)
        if rest == text or (rest and not rest.startswith("-")):
            continue
        values = tuple(rest[1:].split("-")) if rest else ()
        if word in TEXT_WORDS:
            values = (rest[1:],) if rest[1:] in (TEXT_WORDS[word] or (rest[1:],)) and rest[1:] else ()
        elif not all(value.isdigit() for value in values):
            continue
        if len(values) == count:
            return word, values
    raise UnknownFaultError(f"unknown simulator fault sim-{text}; expected one of {', '.join(WORDS)}")
