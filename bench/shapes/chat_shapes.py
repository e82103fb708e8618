"""What clients send to chat that is translated for Anthropic and Gemini."""

from __future__ import annotations

from bench.shapes.shape import CHAT, USER, shapes, values
from tests.support.repeated import MIB, repeated

_TO_ANTHROPIC, _TO_GEMINI = USER % b"anthropic/m", USER % b"gemini/m"
_BEFORE_TOOLS = b'{"model":"%b","tools":['
_TOOL = b'{"type":"function","function":{"name":"f%d","parameters":{"type":"object","properties":{}}}},'
_CALLS = (
    b'{"role":"assistant","tool_calls":[{"id":"c%d","type":"function","function":{"name":"f",'
    b'"arguments":"{}"}}]},{"role":"tool","tool_call_id":"c%d","content":"a"},'
)
_IMAGE = b'{"type":"image_url","image_url":{"url":"data:image/png;base64,%b"}},' % (b"A" * 400_000)
_SAY = b'{"model":"%b","messages":[{"role":"user","content":"'
_LAST_TURN = b'{"role":"user","content":"x"}]}'
_LONG_NAME = b"n" * MIB

TRANSLATED_CHAT = (
    *values(_TO_ANTHROPIC, "chat to Anthropic", CHAT),
    *values(_TO_GEMINI, "chat to Gemini", CHAT),
    *shapes(
        CHAT,
        {
            "chat to Anthropic: unknown keys": (_TO_ANTHROPIC + b'<<,"k%d":0>>}'),
            "chat to Anthropic: unknown keys of messages": _SAY % b"anthropic/m" + b'x"<<,"k%d":0>>}]}',
            "chat to Anthropic: messages with unknown keys": (
                b'{"model":"anthropic/m","messages":[<<{"role":"user","content":"x","k%d":0},>>' + _LAST_TURN
            ),
            "chat to Gemini: short messages": (
                b'{"model":"gemini/m","messages":[<<{"role":"user","content":"a"},>>' + _LAST_TURN
            ),
            "chat to Anthropic: 100,000 short messages": repeated(
                (b'{"model":"anthropic/m","messages":[<<{"role":"user","content":"a"},>>' + _LAST_TURN),
                most=99000,
            ),
            "chat to Gemini: 49,000 turns": repeated(
                (
                    b'{"model":"gemini/m","messages":[<<{"role":"user","content":"a"},{"role":"assistant","content":'
                    b'"b"},>>' + _LAST_TURN
                ),
                most=49000,
            ),
            "chat to Anthropic: 49,000 system turns": repeated(
                (
                    b'{"model":"anthropic/m","messages":[<<{"role":"user","content":"a"},{"role":"system","content":'
                    b'"b"},>>' + _LAST_TURN
                ),
                most=49000,
            ),
        },
    ),
    *shapes(
        CHAT,
        {
            "chat to Anthropic: tool loops, 3.3 MiB": repeated(
                (b'{"model":"anthropic/m","messages":[<<' + _CALLS + b">>" + _LAST_TURN), 3500000
            ),
            "chat to Gemini: tool loops, 3.3 MiB": repeated(
                (b'{"model":"gemini/m","messages":[<<' + _CALLS + b">>" + _LAST_TURN), 3500000
            ),
            "chat to Gemini: calls of one id": repeated(
                (b'{"model":"gemini/m","messages":[<<' + _CALLS.replace(b"%d", b"") + b">>" + _LAST_TURN),
                3500000,
            ),
            "chat to Gemini: one call, many results": repeated(
                (
                    b'{"model":"gemini/m","messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"%b","arguments":"{}"}}]},'
                    % (b"n" * 60000)
                    + b'<<{"role":"tool","tool_call_id":"c","content":""},>>'
                    + _LAST_TURN
                ),
                1 * MIB,
            ),
            "chat to Gemini: many calls at once": lambda: (
                _SAY % b"gemini/m"
                + b'a"},{"role":"assistant","tool_calls":['
                + b",".join(
                    b'{"id":"c%d","type":"function","function":{"name":"f","arguments":"{}"}}' % number
                    for number in range(20000)
                )
                + b"]},"
                + b",".join(
                    b'{"role":"tool","tool_call_id":"c%d","content":"a"}' % number for number in range(20000)
                )
                + b"]}"
            ),
            "chat to Anthropic: many calls at once, reversed": lambda: (
                _SAY % b"anthropic/m"
                + b'a"},{"role":"assistant","tool_calls":['
                + b",".join(
                    b'{"id":"c%d","type":"function","function":{"name":"f","arguments":"{}"}}' % number
                    for number in range(20000)
                )
                + b"]},"
                + b",".join(
                    b'{"role":"tool","tool_call_id":"c%d","content":"a"}' % number
                    for number in range(19999, -1, -1)
                )
                + b"]}"
            ),
            "chat to Anthropic: long tool name, many calls": repeated(
                (
                    b'{"model":"anthropic/m","tools":[{"type":"function","function":{"name":"%b"}}],"messages":['
                    % _LONG_NAME
                    + b"<<"
                    + _CALLS.replace(b"%d", b"")
                    + b">>"
                    + _LAST_TURN
                ),
                4 * MIB,
            ),
            "chat to Gemini: many tools": (
                _BEFORE_TOOLS % b"gemini/m"
                + b"<<"
                + _TOOL
                + b">>"
                + _TOOL[:-1].replace(b"%d", b"z")
                + b'],"messages":['
                + _LAST_TURN
            ),
            "chat to Anthropic: 20,000 tools": repeated(
                (
                    _BEFORE_TOOLS % b"anthropic/m"
                    + b"<<"
                    + _TOOL
                    + b">>"
                    + _TOOL[:-1].replace(b"%d", b"z")
                    + b'],"messages":['
                    + _LAST_TURN
                ),
                most=20000,
            ),
            "chat to Anthropic: 20,000 tools with odd names": repeated(
                (
                    _BEFORE_TOOLS % b"anthropic/m"
                    + b"<<"
                    + _TOOL.replace(b"f%d", b"f %d")
                    + b">>"
                    + _TOOL[:-1].replace(b"%d", b"z")
                    + b'],"messages":['
                    + _LAST_TURN
                ),
                most=20000,
            ),
            "chat to Anthropic: large schema": repeated(
                (
                    b'{"model":"anthropic/m","tools":[{"type":"function","function":{"name":"f","parameters":{"type":'
                    b'"object","properties":{<<"p%d":{"type":"string"},>>"z":{"type":"string"}}}}}],"messages":'
                    b"[" + _LAST_TURN
                ),
                most=90000,
            ),
            "chat to Gemini: strict answer schema": repeated(
                (
                    b'{"model":"gemini/m","messages":[{"role":"user","content":"x"}],"response_format":{"type":'
                    b'"json_schema","json_schema":{"name":"a","strict":true,"schema":{"type":"object","properties":'
                    b'{<<"p%d":{"type":"string"},>>"z":{"type":"string"}}}}}}'
                ),
                most=90000,
            ),
            "chat to Anthropic: deep schema": lambda: (
                b'{"model":"anthropic/m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":'
                + b'{"type":"object","properties":{"a":' * 400
                + b"{}"
                + b"}}" * 400
                + b"}}]}"
            ),
        },
    ),
    *shapes(
        CHAT,
        {
            "chat to Gemini: one text": _SAY % b"gemini/m" + b'<<abcdefgh>>"}]}',
            "chat to Gemini: one text with an emoji": _SAY % b"gemini/m"
            + b'\xf0\x9f\x98\x80<<abcdefgh>>"}]}',
            "chat to Anthropic: text of escapes": _SAY % b"anthropic/m" + b'<<\\n>>"}]}',
            "chat to Anthropic: text of brackets": _SAY % b"anthropic/m" + b'<<{[,>>"}]}',
            "chat to Anthropic: text of spaces": _SAY % b"anthropic/m" + b'<<  \\n>>"}]}',
            "chat to Gemini: images in base64": (
                b'{"model":"gemini/m","messages":[{"role":"user","content":[<<'
                + _IMAGE
                + b'>>{"type":"text","text":"x"}]}]}'
            ),
            "chat to Gemini: broken base64": (
                b'{"model":"gemini/m","messages":[{"role":"user","content":[{"type":"image_url","image_url":'
                b'{"url":"data:image/png;base64,<<=A>>"}}]}]}'
            ),
            "chat to Gemini: tool result of JSON": (
                b'{"model":"gemini/m","messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function",'
                b'"function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"{'
                b'\\"a\\":[<<[],>>0]}"}]}'
            ),
            "chat to Gemini: arguments of JSON": (
                b'{"model":"gemini/m","messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function",'
                b'"function":{"name":"f","arguments":"{\\"a\\":[<<{},>>0]}"}}]},{"role":"tool","tool_call_id":'
                b'"c","content":"a"}]}'
            ),
            "chat to Anthropic: stops": (_TO_ANTHROPIC + b',"stop":[<<"a",>>"a"]}'),
            "chat to Gemini: thoughts": repeated(
                (
                    b'{"model":"gemini/m","messages":[{"role":"assistant","content":"a","reasoning_details":[<<{'
                    b'"type":"reasoning.text","text":"a"},>>{"type":"reasoning.text","text":"a"}]},'
                    + _LAST_TURN
                ),
                3 * MIB,
            ),
        },
    ),
)
