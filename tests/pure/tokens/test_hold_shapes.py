"""To find what a request holds takes little time, whatever stands where a number is expected.

What is measured is the CPU time of the process, so that a busy machine fails no test.
"""

from __future__ import annotations

from time import process_time
from typing import Final

import pytest

from mgw.dialects import dialect_of
from mgw.nouns.vocabulary import DialectName
from mgw.tokens.hold import input_hold, output_asked, output_hold

MIB: Final = 2**20
MOST_MS: Final = 250.0
USUAL: Final = 4096
CHAT: Final = dialect_of(DialectName.OPENAI_CHAT).answer_places
GEMINI: Final = dialect_of(DialectName.GEMINI).answer_places
RESPONSES: Final = dialect_of(DialectName.OPENAI_RESPONSES).answer_places
SHAPES: Final = {
    "an array of arrays": lambda: b'{"max_tokens":[' + b"[]," * (3 * MIB) + b"1]}",
    "an array of objects": lambda: b'{"n":[' + b"{}," * (3 * MIB) + b"1]}",
    "a long number": lambda: b'{"max_tokens":' + b"9" * (8 * MIB) + b"}",
    "a long text of digits": lambda: b'{"max_tokens":"' + b"9" * (8 * MIB) + b'"}',
    "an array within the configuration": lambda: (
        b'{"generationConfig":{"maxOutputTokens":[' + b"[]," * (3 * MIB) + b"1]}}"
    ),
    "a number many times": lambda: b"{" + b'"max_tokens":1,' * (MIB // 2) + b'"x":1}',
    "nothing but brackets": lambda: b"[" * (8 * MIB),
    "runs of almost enough base64": lambda: (b"A" * 1023 + b'"') * (8 * 1024),
}


@pytest.mark.parametrize("name", SHAPES)
def test_no_request_is_looked_at_for_long(name: str) -> None:
    body = SHAPES[name]()
    before = process_time()
    input_hold(body)
    output_hold(body, CHAT, USUAL)
    output_hold(body, GEMINI, USUAL)
    assert (process_time() - before) * 1000 < MOST_MS


@pytest.mark.parametrize("name", ["an array of arrays", "a long number", "a long text of digits"])
def test_what_is_too_long_for_a_number_states_none(name: str) -> None:
    assert output_hold(SHAPES[name](), CHAT, USUAL) == USUAL


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        (b'{"background":true,"max_output_tokens":9}', (9, True)),
        (b'{"background" : true }', (USUAL, True)),
        (b'{"back\\u0067round":true}', (USUAL, True)),
        (b'{"background":false}', (USUAL, False)),
        (b'{"background":[true]}', (USUAL, False)),
        (b'{"metadata":{"background":true}}', (USUAL, False)),
        (b"no JSON", (USUAL, False)),
    ],
)
def test_one_look_says_how_much_is_asked_and_whether_it_goes_on(body: bytes, asked: tuple[int, bool]) -> None:
    assert output_asked(body, RESPONSES, USUAL) == asked
