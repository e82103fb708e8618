"""What clients send to chat that is translated for Anthropic and Gemini."""

from __future__ import annotations

from bench.shapes.shape import CHAT, MIB, USER, Shape, filled, numbered, values

_TO_ANTHROPIC, _TO_GEMINI = USER % b"anthropic/m", USER % b"gemini/m"
_BEFORE_TOOLS = b'{"model":"%b","tools":['
_TOOL = b'{"type":"function","function":{"name":"f%d","parameters":{"type":"object","properties":{}}}},'
_CALLS = (
    b'{"role":"assistant","tool_calls":[{"id":"c%d","type":"function","function":{"name":"f",'
    b'"arguments":"{}"}}]},{"role":"tool","tool_call_id":"c%d","content":"a"},'
)
_IMAGE = b'{"type":"image_url","image_url":{"url":"data:image/png;base64,%b"}},' % (b"A" * 400_000)
_LAST_TURN = b'{"role":"user","content":"x"}]}'
_LONG_NAME = b"n" * MIB

CONVERSATIONS = (
    *values(_TO_ANTHROPIC, "chat to Anthropic", CHAT),
    *values(_TO_GEMINI, "chat to Gemini", CHAT),
    Shape("chat to Anthropic: unknown keys", CHAT, numbered(_TO_ANTHROPIC, b',"k%d":0', b"}")),
    Shape(
        "chat to Anthropic: unknown keys of messages",
        CHAT,
        numbered(b'{"model":"anthropic/m","messages":[{"role":"user","content":"x"', b',"k%d":0', b"}]}"),
    ),
    Shape(
        "chat to Anthropic: messages with unknown keys",
        CHAT,
        numbered(
            b'{"model":"anthropic/m","messages":[',
            b'{"role":"user","content":"x","k%d":0},',
            _LAST_TURN,
        ),
    ),
    Shape(
        "chat to Gemini: short messages",
        CHAT,
        filled(b'{"model":"gemini/m","messages":[', b'{"role":"user","content":"a"},', _LAST_TURN),
    ),
    Shape(
        "chat to Anthropic: 100,000 short messages",
        CHAT,
        numbered(
            b'{"model":"anthropic/m","messages":[', b'{"role":"user","content":"a"},', _LAST_TURN, most=99_000
        ),
    ),
    Shape(
        "chat to Gemini: 49,000 turns",
        CHAT,
        numbered(
            b'{"model":"gemini/m","messages":[',
            b'{"role":"user","content":"a"},{"role":"assistant","content":"b"},',
            _LAST_TURN,
            most=49_000,
        ),
    ),
    Shape(
        "chat to Anthropic: 49,000 system turns",
        CHAT,
        numbered(
            b'{"model":"anthropic/m","messages":[',
            b'{"role":"user","content":"a"},{"role":"system","content":"b"},',
            _LAST_TURN,
            most=49_000,
        ),
    ),
)
"""Turns: many, short, unknown."""

TOOLS = (
    Shape(
        "chat to Anthropic: tool loops, 3.3 MiB",
        CHAT,
        numbered(b'{"model":"anthropic/m","messages":[', _CALLS, _LAST_TURN, 3_500_000),
    ),
    Shape(
        "chat to Gemini: tool loops, 3.3 MiB",
        CHAT,
        numbered(b'{"model":"gemini/m","messages":[', _CALLS, _LAST_TURN, 3_500_000),
    ),
    Shape(
        "chat to Gemini: calls of one id",
        CHAT,
        filled(b'{"model":"gemini/m","messages":[', _CALLS.replace(b"%d", b""), _LAST_TURN, 3_500_000),
    ),
    Shape(
        "chat to Gemini: one call, many results",
        CHAT,
        filled(
            b'{"model":"gemini/m","messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function",'
            b'"function":{"name":"%b","arguments":"{}"}}]},' % (b"n" * 60_000),
            b'{"role":"tool","tool_call_id":"c","content":""},',
            _LAST_TURN,
            1 * MIB,
        ),
    ),
    Shape(
        "chat to Gemini: many calls at once",
        CHAT,
        lambda: (
            b'{"model":"gemini/m","messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":['
            + b",".join(
                b'{"id":"c%d","type":"function","function":{"name":"f","arguments":"{}"}}' % number
                for number in range(20_000)
            )
            + b"]},"
            + b",".join(
                b'{"role":"tool","tool_call_id":"c%d","content":"a"}' % number for number in range(20_000)
            )
            + b"]}"
        ),
    ),
    Shape(
        "chat to Anthropic: many calls at once, reversed",
        CHAT,
        lambda: (
            b'{"model":"anthropic/m","messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":['
            + b",".join(
                b'{"id":"c%d","type":"function","function":{"name":"f","arguments":"{}"}}' % number
                for number in range(20_000)
            )
            + b"]},"
            + b",".join(
                b'{"role":"tool","tool_call_id":"c%d","content":"a"}' % number
                for number in range(19_999, -1, -1)
            )
            + b"]}"
        ),
    ),
    Shape(
        "chat to Anthropic: long tool name, many calls",
        CHAT,
        filled(
            b'{"model":"anthropic/m","tools":[{"type":"function","function":{"name":"%b"}}],"messages":['
            % _LONG_NAME,
            _CALLS.replace(b"%d", b""),
            _LAST_TURN,
            4 * MIB,
        ),
    ),
    Shape(
        "chat to Gemini: many tools",
        CHAT,
        numbered(
            _BEFORE_TOOLS % b"gemini/m",
            _TOOL,
            _TOOL[:-1].replace(b"%d", b"z") + b'],"messages":[' + _LAST_TURN,
        ),
    ),
    Shape(
        "chat to Anthropic: 20,000 tools",
        CHAT,
        numbered(
            _BEFORE_TOOLS % b"anthropic/m",
            _TOOL,
            _TOOL[:-1].replace(b"%d", b"z") + b'],"messages":[' + _LAST_TURN,
            most=20_000,
        ),
    ),
    Shape(
        "chat to Anthropic: 20,000 tools with odd names",
        CHAT,
        numbered(
            _BEFORE_TOOLS % b"anthropic/m",
            _TOOL.replace(b"f%d", b"f %d"),
            _TOOL[:-1].replace(b"%d", b"z") + b'],"messages":[' + _LAST_TURN,
            most=20_000,
        ),
    ),
    Shape(
        "chat to Anthropic: large schema",
        CHAT,
        numbered(
            b'{"model":"anthropic/m","tools":[{"type":"function","function":{"name":"f","parameters":'
            b'{"type":"object","properties":{',
            b'"p%d":{"type":"string"},',
            b'"z":{"type":"string"}}}}}],"messages":[' + _LAST_TURN,
            most=90_000,
        ),
    ),
    Shape(
        "chat to Gemini: strict answer schema",
        CHAT,
        numbered(
            b'{"model":"gemini/m","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema",'
            b'"json_schema":{"name":"a","strict":true,"schema":{"type":"object","properties":{',
            b'"p%d":{"type":"string"},',
            b'"z":{"type":"string"}}}}}}',
            most=90_000,
        ),
    ),
    Shape(
        "chat to Anthropic: deep schema",
        CHAT,
        lambda: (
            b'{"model":"anthropic/m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":'
            + b'{"type":"object","properties":{"a":' * 400
            + b"{}"
            + b"}}" * 400
            + b"}}]}"
        ),
    ),
)
"""Tools, their calls and their schemas."""

TEXTS = (
    Shape(
        "chat to Gemini: one text",
        CHAT,
        filled(b'{"model":"gemini/m","messages":[{"role":"user","content":"', b"abcdefgh", b'"}]}'),
    ),
    Shape(
        "chat to Gemini: one text with an emoji",
        CHAT,
        filled(
            b'{"model":"gemini/m","messages":[{"role":"user","content":"\xf0\x9f\x98\x80',
            b"abcdefgh",
            b'"}]}',
        ),
    ),
    Shape(
        "chat to Anthropic: text of escapes",
        CHAT,
        filled(b'{"model":"anthropic/m","messages":[{"role":"user","content":"', b"\\n", b'"}]}'),
    ),
    Shape(
        "chat to Anthropic: text of brackets",
        CHAT,
        filled(b'{"model":"anthropic/m","messages":[{"role":"user","content":"', b"{[,", b'"}]}'),
    ),
    Shape(
        "chat to Anthropic: text of spaces",
        CHAT,
        filled(b'{"model":"anthropic/m","messages":[{"role":"user","content":"', b"  \\n", b'"}]}'),
    ),
    Shape(
        "chat to Gemini: images in base64",
        CHAT,
        filled(
            b'{"model":"gemini/m","messages":[{"role":"user","content":[',
            _IMAGE,
            b'{"type":"text","text":"x"}]}]}',
        ),
    ),
    Shape(
        "chat to Gemini: broken base64",
        CHAT,
        filled(
            b'{"model":"gemini/m","messages":[{"role":"user","content":[{"type":"image_url","image_url":'
            b'{"url":"data:image/png;base64,',
            b"=A",
            b'"}}]}]}',
        ),
    ),
    Shape(
        "chat to Gemini: tool result of JSON",
        CHAT,
        filled(
            b'{"model":"gemini/m","messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function",'
            b'"function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"{\\"a\\":[',
            b"[],",
            b'0]}"}]}',
        ),
    ),
    Shape(
        "chat to Gemini: arguments of JSON",
        CHAT,
        filled(
            b'{"model":"gemini/m","messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function",'
            b'"function":{"name":"f","arguments":"{\\"a\\":[',
            b"{},",
            b'0]}"}}]},{"role":"tool","tool_call_id":"c","content":"a"}]}',
        ),
    ),
    Shape("chat to Anthropic: stops", CHAT, filled(_TO_ANTHROPIC + b',"stop":[', b'"a",', b'"a"]}')),
    Shape(
        "chat to Gemini: thoughts",
        CHAT,
        filled(
            b'{"model":"gemini/m","messages":[{"role":"assistant","content":"a","reasoning_details":[',
            b'{"type":"reasoning.text","text":"a"},',
            b'{"type":"reasoning.text","text":"a"}]},' + _LAST_TURN,
            3 * MIB,
        ),
    ),
)
"""Texts, images and thoughts."""

TRANSLATED_CHAT = (*CONVERSATIONS, *TOOLS, *TEXTS)
