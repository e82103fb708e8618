"""Texts in front of the system prompt."""

from __future__ import annotations

import pytest

from mgw.dialects import dialect_of
from mgw.dialects.system_prompt import prepend_system
from mgw.nouns.vocabulary import DialectName
from mgw.wire.json_spans import apply_edits

CHAT, MESSAGES, RESPONSES = DialectName.OPENAI_CHAT, DialectName.ANTHROPIC, DialectName.OPENAI_RESPONSES
A, B = '{"type":"text","text":"A"}', '{"type":"text","text":"B\\n"}'
SYSTEM = '{"role":"system","content":"A"},{"role":"system","content":"B\\n"}'


@pytest.mark.parametrize(
    ("dialect", "body", "expected"),
    [
        (MESSAGES, '{ "model":"m"}', f'{{"system":[{A},{B}], "model":"m"}}'),
        (
            MESSAGES,
            '{"system" : "s\\u0041" ,"m":1}',
            f'{{"system" : [{A},{B},{{"type":"text","text":"s\\u0041"}}] ,"m":1}}',
        ),
        (MESSAGES, '{"system":"","m":1}', f'{{"system":[{A},{B}],"m":1}}'),
        (MESSAGES, '{"system":null,"m":1}', f'{{"system":[{A},{B}],"m":1}}'),
        (MESSAGES, '{"system":[ {"x":1}]}', f'{{"system":[{A},{B}, {{"x":1}}]}}'),
        (MESSAGES, '{"system":[ ]}', f'{{"system":[{A},{B} ]}}'),
        (MESSAGES, '{"system":[]}', f'{{"system":[{A},{B}]}}'),
        (CHAT, '{"messages": [{"role":"user"}]}', f'{{"messages": [{SYSTEM},{{"role":"user"}}]}}'),
        (CHAT, '{"messages":[]}', f'{{"messages":[{SYSTEM}]}}'),
        (CHAT, '{"messages":"x"}', '{"messages":"x"}'),
        (CHAT, '{"model":"x"}', '{"model":"x"}'),
        (RESPONSES, '{"input":"x"}', '{"instructions":"A\\n\\nB\\n","input":"x"}'),
        (RESPONSES, '{"instructions": "s\\"" }', '{"instructions": "A\\n\\nB\\n\\n\\ns\\"" }'),
        (RESPONSES, '{"instructions":null}', '{"instructions":"A\\n\\nB\\n"}'),
        (MESSAGES, "{}", "{}"),
        (MESSAGES, "[1]", "[1]"),
    ],
)
def test_texts_stand_in_front_and_all_else_stays(dialect: DialectName, body: str, expected: str) -> None:
    raw, rewriting = body.encode(), dialect_of(dialect).rewriting
    assert rewriting is not None
    assert apply_edits(raw, prepend_system(rewriting.prepend_system, raw, ["A", "B\n"])).decode() == expected
