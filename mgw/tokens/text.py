"""Estimate a text's tokens in OpenAI's o200k_base, without its vocabulary.

Byte pair encoding first cuts a text into pieces by a pattern: a word with the character before it, at most
three digits, a run of punctuation, white space.  No token crosses from one piece into the next, so the tokens
of a text are those of its pieces, and most pieces are one token.  The pattern here cuts nearly like theirs;
what is left to guess is how many *more* tokens than one a piece has:

* A Latin word: ``exp`` of a sum of weights for its case, its length, what stands before it, its letters, its
  first and its last.  They come from a Poisson regression over program sources, manuals and the messages of
  programs in eighteen languages.  Words of one text resemble each other, so their sum is then drawn away from
  the middle (:func:`_in_context`): English becomes cheaper, Polish dearer.
* A word in another script: a straight line in its length.
* Punctuation: how often one character follows another.  Symbols and emoji: a price by block of Unicode.

``docs/token-estimate.rst`` says how far off this is, ``bench/tokens.py`` measures it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import exp
from typing import NamedTuple

MAX_READ_CHARS = 131_072
"""The characters that are read of a longer text, in blocks evenly spread: others must not wait for it."""
BLOCK_CHARS = 1_024


def estimate_text_tokens(texts: Sequence[str]) -> float:
    """Return about how many tokens of o200k_base these texts are, one beside the other."""
    size = sum(map(len, texts))
    if size > MAX_READ_CHARS:
        texts = list(_sample("\n".join(texts)))
    pieces: Counter[str] = Counter()
    for text in texts:
        pieces.update((_ASCII_PIECES if text.isascii() else _PIECES).findall(text))
    return _priced(pieces) * max(1.0, size / MAX_READ_CHARS)


_UPPER = "A-ZÀ-ÖØ-Þ"
_LOWER = "a-zªµºß-öø-ɏḀ-ỿ"
_HAN = "\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA = "\u3040-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_HANGUL = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff"
_OTHER = (  # letters and their marks, without the blocks' digits and punctuation
    "\u0250-\u037d\u037f-\u0386\u0388-\u0559\u0560-\u0588\u0591-\u05bd\u05bf-\u05c2\u05c4-\u05f2\u0610-\u061a"
    "\u0620-\u065f\u066e-\u06d3\u06d5-\u06ef\u06fa-\u06ff\u0710-\u0963\u0971-\u0e3e\u0e40-\u0e4e\u0e80-\u10fa"
    "\u10fc-\u10ff\u1200-\u1dff\u1f00-\u1fff\u2c00-\u2dff\ua000-\uabff\uff21-\uff3a\uff41-\uff5a"
)
_SPACE = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
# Possessive wherever two neighbours could share characters: no input makes them go back.
_ASCII_PIECES = re.compile(
    r"[^\r\nA-Za-z0-9]?+(?:[A-Z]*+[a-z]++|[A-Z]++)|[0-9]{1,3}| ?[^\sA-Za-z0-9]++[\r\n/]*+" + _SPACE
)
_PIECES = re.compile(
    rf"(?:[^\r\n\w]|_)?+(?:[{_UPPER}]*+[{_LOWER}]++|[{_UPPER}]++|[{_HAN}]++|[{_KANA}]++|[{_HANGUL}]++|[{_OTHER}]++)"
    rf"|\d{{1,3}}|[^\W_]| ?(?:[^\s\w]|_)++[\r\n/]*+{_SPACE}"
)


def _byte_table(weights: str) -> bytes:
    """Return the weight of each byte of a word in Latin-1, which has ``?`` for all other letters."""
    *letters, other, foreign = map(int, weights.split())
    table = bytearray([other]) * 256
    table[ord("a") : ord("z") + 1] = bytes(letters)
    table[ord("?")] = foreign
    return bytes(table)


# Hundredths of the exponent.  Letters: a to z, the other letters of Latin-1, all others.
_LETTERS = _byte_table("12 39 3 35 9 22 35 16 13 55 58 23 27 11 0 23 12 13 25 12 13 39 35 17 42 51 38 47")
_FIRSTS = _byte_table("26 25 16 5 24 29 54 30 16 35 38 38 26 57 53 31 70 33 16 25 41 18 0 112 19 61 50 102")
_LASTS = _byte_table(
    "119 71 95 3 44 68 29 52 133 103 54 61 64 48 114 92 168 48 44 41 129 105 41 95 0 100 104 127"
)
_LENGTH_WEIGHTS = "-456 -369 -262 -258 -210 -199 -182 -165 -152 -143 -142 -149 -157 -159 -167 -158"
_LENGTHS = tuple(map(int, _LENGTH_WEIGHTS.split()))
_LONGEST = len(_LENGTHS)
_BLANK, _NOTHING, _SIGN = range(3)  # what stands before a word, and for each of them:
_SMALL = (-152, -110, -54)
_CAPITALISED = (-123, -94, -13)
_CAPITALS = (-42, -26, 14)
_MIXED = (-24, 12, 20)


class _Script(NamedTuple):
    """What a word costs: ``slope`` for each character, and ``base`` by what stands before the word."""

    base: tuple[float, float, float]
    slope: float


_UNKNOWN = _Script((0.0, 0.0, 1.0), 1.5)
_SCRIPTS = (  # by the last code point of each stretch of Unicode
    (0x036F, _Script((0.0, 0.0, 1.0), 1.0)),  # phonetic letters, marks
    (0x03FF, _Script((0.2, 0.5, 1.6), 0.37)),  # Greek
    (0x052F, _Script((0.6, 0.9, 1.7), 0.21)),  # Cyrillic
    (0x058F, _Script((0.6, 0.9, 1.6), 0.26)),  # Armenian
    (0x05FF, _Script((0.25, 0.45, 1.1), 0.42)),  # Hebrew
    (0x08FF, _Script((0.45, 0.8, 1.7), 0.26)),  # Arabic
    (0x097F, _Script((0.35, 0.7, 1.2), 0.3)),  # Devanagari
    (0x09FF, _Script((0.3, 0.7, 1.3), 0.38)),  # Bengali
    (0x0DFF, _Script((0.6, 0.9, 1.6), 0.36)),  # the other Indic scripts
    (0x0E7F, _Script((0.3, 0.3, 0.9), 0.4)),  # Thai
    (0x109F, _UNKNOWN),
    (0x10FF, _Script((0.45, 0.8, 1.4), 0.28)),  # Georgian
    (0x1EFF, _UNKNOWN),
    (0x1FFF, _Script((0.2, 0.5, 1.6), 0.7)),  # old Greek
    (0x303F, _UNKNOWN),
    (0x30FF, _Script((0.5, 0.2, 1.2), 0.59)),  # kana
    (0x33FF, _UNKNOWN),
    (0x9FFF, _Script((0.6, 0.05, 0.95), 0.74)),  # Han
    (0xABFF, _UNKNOWN),
    (0xD7FF, _Script((0.65, 0.85, 1.6), 0.52)),  # Hangul
    (0x10FFFF, _UNKNOWN),
)
_ENDS = [end for end, _script in _SCRIPTS]
_SYMBOLS = (  # the same; what one sign costs in a run that is not of ASCII alone
    (0x7F, 0.6),
    (0x25FF, 1.0),
    (0x27BF, 1.4),
    (0x2FFF, 2.5),
    (0x30FF, 1.0),
    (0xFE0E, 2.0),
    (0xFFFF, 1.0),
    (0x10FFFF, 2.1),
)
_SYMBOL_ENDS = [end for end, _price in _SYMBOLS]


def _sample(text: str) -> Iterator[str]:
    blocks = MAX_READ_CHARS // BLOCK_CHARS
    for number in range(blocks):
        start = (len(text) - BLOCK_CHARS) * number // (blocks - 1)
        yield text[start : start + BLOCK_CHARS]


def _priced(pieces: Counter[str]) -> float:
    """The same piece has the same price wherever it stands; a text has a tenth as many kinds as pieces."""
    words, accented, surplus, total = 0, 0, 0.0, 0.0
    for piece, count in pieces.items():
        if piece[0].isalpha():
            letters, before = piece, _NOTHING
        elif piece[1:2].isalpha():
            letters, before = piece[1:], _BLANK if piece[0] == " " else _SIGN
        else:
            total += count * _unlettered(piece)
            continue
        if letters[0] < "\u0250" or "\u1e00" <= letters[0] <= "\u1eff":
            words += count
            if not letters.isascii():
                accented += count
            surplus += count * _word_surplus(letters, before)
        else:
            total += count * _foreign_word(letters, before)
    return total + words + _in_context(surplus, words, accented)


def _word_surplus(word: str, before: int) -> float:
    """How many tokens more than one a Latin word has, by itself."""
    size = len(word)
    if word.islower() or size == 1:
        case = _SMALL
    elif word[1:].islower():
        case = _CAPITALISED
    else:
        case = _CAPITALS if word.isupper() else _MIXED
    coded = word.lower().encode("latin-1", "replace")
    exponent = case[before] + _LENGTHS[min(size, _LONGEST) - 1] + _FIRSTS[coded[0]] + _LASTS[coded[-1]]
    exponent += sum(coded[:_LONGEST].translate(_LETTERS))
    return min(exp(min(exponent, 400) / 100) * max(1.0, size / 20), float(size - word.isascii()))


def _in_context(surplus: float, words: int, accented: int) -> float:
    """The surplus of a text's words, by what their mean says of it; about 0.2 is English, 1 Finnish.

    Twenty words of no language stand for what is not known of a short text.
    """
    foreign = (surplus + accented + 5.0) / (words + 20)
    return surplus * min(1.4, max(0.4, 0.4 + 6 * (foreign - 0.22)))


def _foreign_word(word: str, before: int) -> float:
    """How many tokens a word of a script other than Latin is."""
    script = _SCRIPTS[bisect_left(_ENDS, ord(word[0]))][1]
    return max(1.0, script.base[before] + script.slope * len(word))


def _unlettered(piece: str) -> float:
    """Digits, punctuation, symbols, white space."""
    if (len(piece) < 3 and piece.isascii()) or piece[-1].isdigit():
        return 1.0
    if piece.isspace():
        return 1.0 + len(piece) // 81
    signs = piece.strip(" \r\n")
    changes = sum(a != b for a, b in pairwise(signs))
    price = max(1.0, 0.62 * changes - 0.13) + len(signs) // 60
    if not signs.isascii():
        price = sum(_SYMBOLS[bisect_left(_SYMBOL_ENDS, ord(sign))][1] for sign in signs)
    return price
