"""What clients send that is translated or counted: messages, generateContent, embeddings and speech."""

from __future__ import annotations

from bench.shapes.shape import MESSAGES, shapes
from tests.support.repeated import MIB, repeated

_EMBED = "/v1/embeddings"
_GEMINI = "/v1beta/models/%s:generateContent"
_MESSAGES = b'{"model":"%b","max_tokens":9,"messages":['
_AGENT = (
    b'{"role":"assistant","content":[{"type":"text","text":"I look"},{"type":"tool_use","id":"t%d",'
    b'"name":"Read","input":{"path":"/a/b%d"}}]},{"role":"user","content":[{"type":"tool_result",'
    b'"tool_use_id":"t%d","content":"' + b"some text of a file, " * 100 + b'"}]},'
)
_BLOCKS = b'{"role":"user","content":[<<{"type":"text","text":"a"},>>{"type":"text","text":"a"}]}]}'
_CALL = b'{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"a":[<<0,>>0]}}]}]}'
_LAST_TURN = b'{"role":"user","content":"x"}]}'

TRANSLATED = (
    *shapes(
        MESSAGES,
        {
            **{
                f"messages to {name}: agent's history of {size // 1000} kB": repeated(
                    (_MESSAGES % model + b"<<" + _AGENT + b">>" + _LAST_TURN), size
                )
                for name, model in (("OpenAI", b"openai/m"), ("Gemini", b"gemini/m"))
                for size in (200_000, 1_000_000)
            },
            "messages to OpenAI: agent's history of 12 MiB": repeated(
                (_MESSAGES % b"openai/m" + b"<<" + _AGENT + b">>" + _LAST_TURN), 12 * MIB
            ),
            "messages to Gemini: agent's history of 12 MiB": repeated(
                (_MESSAGES % b"gemini/m" + b"<<" + _AGENT + b">>" + _LAST_TURN), 12 * MIB
            ),
            "messages to OpenAI: agent's history of 32 MiB": (
                _MESSAGES % b"openai/m" + b"<<" + _AGENT + b">>" + _LAST_TURN
            ),
            "messages to Gemini: blocks": (_MESSAGES % b"gemini/m" + _BLOCKS),
            "messages to OpenAI: 99,000 blocks": repeated(
                (_MESSAGES % b"openai/m" + _BLOCKS),
                most=99000,
            ),
            "messages to OpenAI: input of values": (_MESSAGES % b"openai/m" + _CALL),
            "messages to Gemini: system blocks": repeated(
                (
                    b'{"model":"gemini/m","max_tokens":9,"system":[<<{"type":"text","text":"a%d"},>>{"type":"text",'
                    b'"text":"a"}],"messages":[' + _LAST_TURN
                ),
                most=99000,
            ),
        },
    ),
    *shapes(
        _GEMINI % "openai/m",
        {
            "generateContent to OpenAI: parts": repeated(
                b'{"contents":[{"parts":[<<{"text":"a%d"},>>{"text":"a"}]}]}', most=99000
            ),
        },
    ),
    *shapes(
        _GEMINI % "anthropic/m",
        {
            "generateContent to Anthropic: calls and responses": repeated(
                (
                    b'{"contents":[<<{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},{"role":'
                    b'"user","parts":[{"functionResponse":{"name":"f","response":{}}}]},>>{"role":"user","parts":'
                    b'[{"text":"a"}]}]}'
                ),
                1600000,
            ),
            "generateContent to Anthropic: parallel calls": lambda: (
                b'{"contents":[{"role":"model","parts":['
                + b",".join([b'{"functionCall":{"name":"f","args":{}}}'] * 12000)
                + b']},{"role":"user","parts":['
                + b",".join([b'{"functionResponse":{"name":"f","response":{}}}'] * 12000)
                + b"]}]}"
            ),
            "generateContent to Anthropic: schema": repeated(
                (
                    b'{"contents":[{"parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[{"name":"f","parameters":'
                    b'{"type":"OBJECT","properties":{<<"p%d":{"type":"STRING","nullable":true},>>"z":{"type":"STRING"}}}}]}]}'
                ),
                most=90000,
            ),
        },
    ),
    *shapes(
        _GEMINI % "openai/m",
        {
            "generateContent to OpenAI: snake case": repeated(
                b'{"contents":[{"parts":[{"text":"a"}]}]<<,"k_%d":0>>}', most=300000
            ),
        },
    ),
    *shapes(
        "/v1/messages/count_tokens",
        {
            "count of tokens, estimated: words": (
                _MESSAGES % b"openai/m" + b'{"role":"user","content":"<<word and more, >>"}]}'
            ),
            "count of tokens, estimated: letters": (
                _MESSAGES % b"openai/m" + b'{"role":"user","content":"<<abcdefgh>>"}]}'
            ),
            "count of tokens, estimated: punctuation": (
                _MESSAGES % b"openai/m" + b'{"role":"user","content":"<<a.1 ->>"}]}'
            ),
            "count of tokens, estimated: other scripts": (
                _MESSAGES % b"openai/m" + b'{"role":"user","content":"<<' + "字é ".encode() + b'>>"}]}'
            ),
            "count of tokens, estimated: spaces": (
                _MESSAGES % b"openai/m" + b'{"role":"user","content":"<< >>"}]}'
            ),
            "count of tokens, estimated: input of values": (_MESSAGES % b"openai/m" + _CALL),
        },
    ),
    *shapes(
        _EMBED,
        {
            "embeddings to Gemini: 16 MiB of inputs": repeated(
                b'{"model":"gemini/m","encoding_format":"float","input":[<<"a",>>"a"]}', 16 * MIB
            ),
            "embeddings to Gemini: long title": lambda: (
                b'{"model":"gemini/m","encoding_format":"float","title":"%b","input":[%b"a"]}'
                % (b"t" * MIB, b'"a",' * 2000)
            ),
            "embeddings to Gemini: long model": lambda: (
                b'{"model":"gemini/%b","encoding_format":"float","input":[%b"a"]}'
                % (b"m" * MIB, b'"a",' * 2000)
            ),
            "embeddings to Gemini: 2,048 texts, 32 MiB": repeated(
                (b'{"model":"gemini/m","encoding_format":"float","input":[<<"' + b"x" * 16000 + b'",>>"a"]}'),
                most=2047,
            ),
        },
    ),
    *shapes(
        "/v1/audio/speech",
        {
            "speech to Gemini: long text": b'{"model":"gemini/m","voice":"alloy","input":"<<abcdefgh>>"}',
        },
    ),
)
