"""Estimate the tokens of a request that cannot be read as a conversation: of its text, and of media in it.

A run of 1,024 or more characters of base64 is taken for a medium.  The search looks at each byte, in pieces,
since it lets no other thread run; of the text only so much is read as an estimate needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mgw.tokens.media_runs import BYTES_A_TOKEN, RUN_BYTES, TOKENS_A_RUN, find_runs
from mgw.tokens.text import estimate_text_tokens

_PIECE_BYTES: Final = 2**20
_READ_BYTES: Final = 128 * 1024
"""How much of the text of each piece is read."""
_SAMPLES: Final = 64
_SAMPLE_BYTES: Final = 256
_WORD: Final = re.compile(rb"[A-Za-z0-9+/_=-]*+")


def estimate_unparsed(text: bytes, factor: float = 1.0) -> int:
    """Return about how many tokens a text has, with the media in it.

    :param factor: as for :func:`mgw.tokens.estimate.estimate_tokens`.
    """
    texts: list[bytes] = []
    runs = size = 0
    for piece in _cut_between_words(text):
        rest, found = _take_runs_out(piece)
        texts.append(rest[:_READ_BYTES])
        runs += found
        size += len(rest)
    tokens = estimate_text_tokens([text.decode("utf-8", "replace") for text in texts])
    return round(tokens * factor * size / max(1, sum(map(len, texts)))) + runs * TOKENS_A_RUN


def guess_unparsed(text: bytes) -> int:
    """Return the same by some short pieces of the text, at hardly any cost."""
    step = max(1, len(text) // _SAMPLES)
    samples = [text[at : at + _SAMPLE_BYTES] for at in range(0, len(text), step)]
    words = sum(1 for sample in samples if _WORD.fullmatch(sample) is None or len(text) < RUN_BYTES)
    size = len(text) * words // max(1, len(samples))
    return size // BYTES_A_TOKEN + (TOKENS_A_RUN if words < len(samples) else 0)


def _cut_between_words(text: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(text):
        word = _WORD.match(text, at + _PIECE_BYTES)
        end = len(text) if word is None else word.end()
        yield text[at:end]
        at = end


def _take_runs_out(text: bytes) -> tuple[bytes, int]:
    """Return a text without its runs of base64, and how many there were."""
    kept: list[bytes] = []
    end = runs = 0
    for start, behind in find_runs(text):
        kept.append(text[end:start])
        runs, end = runs + 1, behind
    return (b"".join([*kept, text[end:]]) if runs else text), runs
