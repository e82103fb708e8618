"""Measure the token estimate against o200k_base: ``python -m bench.tokens [--write]``.

The texts are those of ``bench/corpus`` and the project's own sources.  The tokenizer is that of the package
``bpe-openai``, which brings the vocabulary along; nothing else needs it.  ``--write`` keeps its counts of the
corpus in ``bench/corpus/counts.json``, with which the tests compare.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import NamedTuple

from mgw.tokens.text import MAX_READ_CHARS, estimate_text_tokens

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "bench/corpus"
COUNTS = CORPUS / "counts.json"
TOKENIZER = "bpe-openai"
SAFE_CHARS = 50_000  # the tokenizer refuses long inputs
SOURCES = {"mgw (Python)": "mgw/**/*.py", "bench (C)": "bench/c/*.c"}


class Row(NamedTuple):
    """One kind of text."""

    name: str
    chars: int
    tokens: int
    estimate: int

    @property
    def error(self) -> float:
        """Per cent; positive where too many are estimated."""
        return 100 * (self.estimate / self.tokens - 1)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="tokens", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="save the tokenizer's counts for the tests")
    options = parser.parse_args()
    count = _tokenizer()
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(CORPUS.glob("*.txt"))}
    rows = [_row(name, text, count) for name, text in texts.items()]
    sources = [_row(name, _joined(pattern), count) for name, pattern in SOURCES.items()]
    total = Row("corpus", *map(sum, zip(*(row[1:] for row in rows), strict=True)))
    print(f"{TOKENIZER} {version(TOKENIZER)}, o200k_base; CPython {python_version()}\n")
    print(_table([*rows, total, *sources]))
    print(_speed(_joined(SOURCES["mgw (Python)"])))
    if options.write:
        kept = {row.name: {"chars": row.chars, "o200k_base": row.tokens} for row in rows}
        COUNTS.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def _tokenizer() -> Callable[[str], int]:
    try:
        tokenizers = import_module("bpe_openai")  # only here: the other measurements do without
    except ImportError:
        raise SystemExit(f"pip install {TOKENIZER}") from None
    encode = tokenizers.get_encoding("o200k_base").encode_ordinary
    return lambda text: sum(
        len(encode(text[start : start + SAFE_CHARS])) for start in range(0, len(text), SAFE_CHARS)
    )


def _joined(pattern: str) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(ROOT.glob(pattern)))


def _row(name: str, text: str, count: Callable[[str], int]) -> Row:
    return Row(name, len(text), count(text), round(estimate_text_tokens([text])))


def _table(rows: list[Row]) -> str:
    rule = "=" * 14 + ("  " + "=" * 9) * 4
    heads = f"{'text':14}{'chars':>11}{'o200k':>11}{'estimate':>11}{'error':>11}"
    lines = [f"{r.name:14}{r.chars:11}{r.tokens:11}{r.estimate:11}{r.error:+9.1f} %" for r in rows]
    return "\n".join([rule, heads, rule, *lines, rule])


def _speed(text: str) -> str:
    """Processor time, the least of ten rounds."""
    text = text[:MAX_READ_CHARS]
    taken = []
    for _ in range(10):
        start = time.process_time()
        estimate_text_tokens([text])
        taken.append(time.process_time() - start)
    return f"\n{len(text)} characters of Python take {min(taken) * 1e3:.1f} ms of processor time"


if __name__ == "__main__":
    main()
