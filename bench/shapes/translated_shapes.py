"""What clients send that is translated or counted: messages, generateContent, embeddings and speech."""

from __future__ import annotations

from bench.shapes.shape import MESSAGES, MIB, Shape, filled, numbered

_EMBED = "/v1/embeddings"
_GEMINI = "/v1beta/models/%s:generateContent"
_MESSAGES = b'{"model":"%b","max_tokens":9,"messages":['
_AGENT = (
    b'{"role":"assistant","content":[{"type":"text","text":"I look"},{"type":"tool_use","id":"t%d",'
    b'"name":"Read","input":{"path":"/a/b%d"}}]},{"role":"user","content":[{"type":"tool_result",'
    b'"tool_use_id":"t%d","content":"' + b"some text of a file, " * 100 + b'"}]},'
)
_LAST_TURN = b'{"role":"user","content":"x"}]}'

MESSAGES_SHAPES = (
    Shape(
        "messages to OpenAI: agent's history of 12 MiB",
        MESSAGES,
        numbered(_MESSAGES % b"openai/m", _AGENT, _LAST_TURN, 12 * MIB),
    ),
    Shape(
        "messages to Gemini: agent's history of 12 MiB",
        MESSAGES,
        numbered(_MESSAGES % b"gemini/m", _AGENT, _LAST_TURN, 12 * MIB),
    ),
    Shape(
        "messages to OpenAI: agent's history of 32 MiB",
        MESSAGES,
        numbered(_MESSAGES % b"openai/m", _AGENT, _LAST_TURN),
    ),
    Shape(
        "messages to Gemini: blocks",
        MESSAGES,
        filled(
            _MESSAGES % b"gemini/m" + b'{"role":"user","content":[',
            b'{"type":"text","text":"a"},',
            b'{"type":"text","text":"a"}]}]}',
        ),
    ),
    Shape(
        "messages to OpenAI: 99,000 blocks",
        MESSAGES,
        numbered(
            _MESSAGES % b"openai/m" + b'{"role":"user","content":[',
            b'{"type":"text","text":"a"},',
            b'{"type":"text","text":"a"}]}]}',
            most=99_000,
        ),
    ),
    Shape(
        "messages to OpenAI: input of values",
        MESSAGES,
        filled(
            _MESSAGES % b"openai/m"
            + b'{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"a":[',
            b"0,",
            b"0]}}]}]}",
        ),
    ),
    Shape(
        "messages to Gemini: system blocks",
        MESSAGES,
        numbered(
            b'{"model":"gemini/m","max_tokens":9,"system":[',
            b'{"type":"text","text":"a%d"},',
            b'{"type":"text","text":"a"}],"messages":[' + _LAST_TURN,
            most=99_000,
        ),
    ),
)
"""Anthropic's clients."""

GENERATE_CONTENT = (
    Shape(
        "generateContent to OpenAI: parts",
        _GEMINI % "openai/m",
        numbered(b'{"contents":[{"parts":[', b'{"text":"a%d"},', b'{"text":"a"}]}]}', most=99_000),
    ),
    Shape(
        "generateContent to Anthropic: calls and responses",
        _GEMINI % "anthropic/m",
        filled(
            b'{"contents":[',
            b'{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},'
            b'{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]},',
            b'{"role":"user","parts":[{"text":"a"}]}]}',
            1_600_000,
        ),
    ),
    Shape(
        "generateContent to Anthropic: parallel calls",
        _GEMINI % "anthropic/m",
        lambda: (
            b'{"contents":[{"role":"model","parts":['
            + b",".join([b'{"functionCall":{"name":"f","args":{}}}'] * 12_000)
            + b']},{"role":"user","parts":['
            + b",".join([b'{"functionResponse":{"name":"f","response":{}}}'] * 12_000)
            + b"]}]}"
        ),
    ),
    Shape(
        "generateContent to Anthropic: schema",
        _GEMINI % "anthropic/m",
        numbered(
            b'{"contents":[{"parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[{"name":"f","parameters":'
            b'{"type":"OBJECT","properties":{',
            b'"p%d":{"type":"STRING","nullable":true},',
            b'"z":{"type":"STRING"}}}}]}]}',
            most=90_000,
        ),
    ),
    Shape(
        "generateContent to OpenAI: snake case",
        _GEMINI % "openai/m",
        numbered(b'{"contents":[{"parts":[{"text":"a"}]}]', b',"k_%d":0', b"}", most=300_000),
    ),
)
"""Gemini's clients."""

COUNTS = (
    Shape(
        "count of tokens, estimated: words",
        "/v1/messages/count_tokens",
        filled(_MESSAGES % b"openai/m" + b'{"role":"user","content":"', b"word and more, ", b'"}]}'),
    ),
    Shape(
        "count of tokens, estimated: letters",
        "/v1/messages/count_tokens",
        filled(_MESSAGES % b"openai/m" + b'{"role":"user","content":"', b"abcdefgh", b'"}]}'),
    ),
    Shape(
        "count of tokens, estimated: punctuation",
        "/v1/messages/count_tokens",
        filled(_MESSAGES % b"openai/m" + b'{"role":"user","content":"', b"a.1 -", b'"}]}'),
    ),
    Shape(
        "count of tokens, estimated: other scripts",
        "/v1/messages/count_tokens",
        filled(_MESSAGES % b"openai/m" + b'{"role":"user","content":"', "字é ".encode(), b'"}]}'),
    ),
    Shape(
        "count of tokens, estimated: spaces",
        "/v1/messages/count_tokens",
        filled(_MESSAGES % b"openai/m" + b'{"role":"user","content":"', b" ", b'"}]}'),
    ),
    Shape(
        "count of tokens, estimated: input of values",
        "/v1/messages/count_tokens",
        filled(
            _MESSAGES % b"openai/m"
            + b'{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"a":[',
            b"0,",
            b"0]}}]}]}",
        ),
    ),
)
"""Counts that the gateway estimates."""

EMBEDDINGS = (
    Shape(
        "embeddings to Gemini: 16 MiB of inputs",
        _EMBED,
        filled(b'{"model":"gemini/m","encoding_format":"float","input":[', b'"a",', b'"a"]}', 16 * MIB),
    ),
    Shape(
        "embeddings to Gemini: long title",
        _EMBED,
        lambda: (
            b'{"model":"gemini/m","encoding_format":"float","title":"%b","input":[%b"a"]}'
            % (b"t" * MIB, b'"a",' * 2000)
        ),
    ),
    Shape(
        "embeddings to Gemini: long model",
        _EMBED,
        lambda: (
            b'{"model":"gemini/%b","encoding_format":"float","input":[%b"a"]}' % (b"m" * MIB, b'"a",' * 2000)
        ),
    ),
    Shape(
        "embeddings to Gemini: 2,048 texts, 32 MiB",
        _EMBED,
        numbered(
            b'{"model":"gemini/m","encoding_format":"float","input":[',
            b'"' + b"x" * 16_000 + b'",',
            b'"a"]}',
            most=2047,
        ),
    ),
    Shape(
        "speech to Gemini: long text",
        "/v1/audio/speech",
        filled(b'{"model":"gemini/m","voice":"alloy","input":"', b"abcdefgh", b'"}'),
    ),
)
"""Embeddings and speech."""

TRANSLATED = (*MESSAGES_SHAPES, *GENERATE_CONTENT, *COUNTS, *EMBEDDINGS)
