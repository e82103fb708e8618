"""What a hostile or a very busy client sends."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

from bench.shapes.shape import CHAT, LARGEST, MESSAGES, MIB, Shape, filled, numbered

_FORM = (("Content-Type", "multipart/form-data; boundary=b"),)
_USER = b'{"model":"%b","messages":[{"role":"user","content":"x"}]'
_EMBED = "/v1/embeddings"
_GEMINI = "/v1beta/models/%s:generateContent"


def _values(prefix: bytes, kind: str, path: str, after: bytes = b"]}") -> list[Shape]:
    """Arrays of small values under a key that nobody knows."""
    units = {
        "arrays": b"[],",
        "objects": b"{},",
        "zeros": b"0,",
        "texts": b'"a",',
        "nested objects": b'{"a":{"a":{}}},',
    }
    return [
        Shape(f"{kind}: {name}", path, filled(prefix + b',"z":[', unit, unit[:-1] + after))
        for name, unit in units.items()
    ]


def _passthrough() -> list[Shape]:
    chat = _USER % b"openai/m"
    return [
        *_values(chat, "chat, same family", CHAT),
        Shape("chat, same family: one text", CHAT, filled(chat + b',"z":"', b"abcdefgh", b'"}')),
        Shape("chat, same family: escapes", CHAT, filled(chat + b',"z":"', b'\\\\\\"', b'"}')),
        Shape("chat, same family: other keys", CHAT, numbered(chat, b',"k%d":0', b"}")),
        Shape("chat, same family: model repeated", CHAT, filled(b"{", b'"model":"openai/m",', b'"a":0}')),
        Shape(
            "chat, same family: model repeated, no space left", CHAT, filled(b"{", b'"model":0,', b'"a":0}')
        ),
        Shape(
            "chat, same family: nested model",
            CHAT,
            filled(b'{"a":[', b'{"model":"x"},', b'{}],"\\u006dodel":"openai/m"}'),
        ),
        Shape(
            "chat, same family: model in texts",
            CHAT,
            filled(b'{"a":[', b'"\\"model\\":\\"x\\"",', b'""],"\\u006dodel":"openai/m"}'),
        ),
        Shape(
            "chat, same family: lone surrogates",
            CHAT,
            filled(b'{"model":"openai/m","z":"', b"\\ud800", b'"}'),
        ),
        Shape(
            "chat, same family: not UTF-8 at its end", CHAT, filled(chat + b',"z":"', b"\xc3\xa9", b'\xff"}')
        ),
        Shape(
            "chat, same family: deep",
            CHAT,
            lambda: chat + b',"z":' + b"[" * 16 * MIB + b"]" * 15 * MIB + b"}",
        ),
        Shape("chat, same family: long number", CHAT, filled(chat + b',"z":', b"1", b"}")),
        Shape("chat, same family: long model", CHAT, filled(b'{"model":"openai/', b"m", b'"}')),
        Shape(
            "chat, same family: tagged history",
            CHAT,
            numbered(
                b'{"model":"openai/m","messages":[',
                b'{"role":"assistant","content":"a","extra_content":{"google":{"thought_signature":"%b"}}},'
                % _tag(),
                b'{"role":"user","content":"x"}]}',
            ),
        ),
        Shape(
            "messages, same family: tagged history",
            MESSAGES,
            filled(
                b'{"model":"anthropic/m","max_tokens":5,"messages":[{"role":"assistant","content":[',
                b'{"type":"thinking","thinking":"","signature":"%b"},{"type":"text","text":"a"},' % _tag(),
                b'{"type":"text","text":"a"}]},{"role":"user","content":"x"}]}',
            ),
        ),
    ]


def _tag() -> bytes:
    from mgw.dialects.signatures import TAG

    return TAG.encode() + b"gAAAA"


def _nested() -> list[Shape]:
    batches = "/v1/messages/batches"
    request = b'{"custom_id":"r%d","params":{"model":"anthropic/m","max_tokens":9,"messages":[' + (
        b'{"role":"user","content":"' + b"x" * 150 + b'"}]}},'
    )
    last = b'{"custom_id":"z","params":{"model":"anthropic/m"}}]}'
    path = "/v1beta/models/gemini/m:batchEmbedContents"
    return [
        Shape("batch: zeros", batches, filled(b'{"requests":[', b"0,", b"0]}")),
        Shape("batch: 1.5 MB of zeros", batches, filled(b'{"requests":[', b"0,", b"0]}", 1_500_000)),
        Shape("batch: arrays", batches, filled(b'{"requests":[', b"[],", b"[]]}")),
        Shape("batch: objects", batches, filled(b'{"requests":[', b"{},", b"{}]}")),
        Shape("batch: empty params", batches, filled(b'{"requests":[', b'{"params":{}},', b"{}]}")),
        Shape(
            "batch: models",
            batches,
            filled(b'{"requests":[', b'{"params":{"model":"anthropic/m"}},', b"{}]}"),
        ),
        Shape(
            "batch: other members",
            batches,
            filled(b'{"requests":[{"params":{', b'"a":"%b",' % (b"x" * 120), b'"b":0}}]}'),
        ),
        Shape("batch: 100,000 requests", batches, numbered(b'{"requests":[', request, last, most=99_999)),
        Shape(
            "embeddings of a batch, same family",
            path,
            filled(b'{"requests":[', b'{"model":"models/gemini/m"},', b'{"model":"models/gemini/m"}]}'),
        ),
    ]


def _translated() -> list[Shape]:
    chat_a, chat_g = _USER % b"anthropic/m", _USER % b"gemini/m"
    messages = b'{"model":"%b","max_tokens":9,"messages":['
    tools = b'{"model":"%b","tools":['
    tool = b'{"type":"function","function":{"name":"f%d","parameters":{"type":"object","properties":{}}}},'
    calls = (
        b'{"role":"assistant","tool_calls":[{"id":"c%d","type":"function","function":{"name":"f",'
        b'"arguments":"{}"}}]},{"role":"tool","tool_call_id":"c%d","content":"a"},'
    )
    agent = (
        b'{"role":"assistant","content":[{"type":"text","text":"I look"},{"type":"tool_use","id":"t%d",'
        b'"name":"Read","input":{"path":"/a/b%d"}}]},{"role":"user","content":[{"type":"tool_result",'
        b'"tool_use_id":"t%d","content":"' + b"some text of a file, " * 100 + b'"}]},'
    )
    image = b'{"type":"image_url","image_url":{"url":"data:image/png;base64,%b"}},' % (b"A" * 400_000)
    end = b'{"role":"user","content":"x"}]}'
    long_name = b"n" * MIB
    return [
        *_values(chat_a, "chat to Anthropic", CHAT),
        *_values(chat_g, "chat to Gemini", CHAT),
        Shape("chat to Anthropic: unknown keys", CHAT, numbered(chat_a, b',"k%d":0', b"}")),
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
                end,
            ),
        ),
        Shape(
            "chat to Gemini: short messages",
            CHAT,
            filled(b'{"model":"gemini/m","messages":[', b'{"role":"user","content":"a"},', end),
        ),
        Shape(
            "chat to Anthropic: 100,000 short messages",
            CHAT,
            numbered(
                b'{"model":"anthropic/m","messages":[', b'{"role":"user","content":"a"},', end, most=99_000
            ),
        ),
        Shape(
            "chat to Gemini: 49,000 turns",
            CHAT,
            numbered(
                b'{"model":"gemini/m","messages":[',
                b'{"role":"user","content":"a"},{"role":"assistant","content":"b"},',
                end,
                most=49_000,
            ),
        ),
        Shape(
            "chat to Anthropic: 49,000 system turns",
            CHAT,
            numbered(
                b'{"model":"anthropic/m","messages":[',
                b'{"role":"user","content":"a"},{"role":"system","content":"b"},',
                end,
                most=49_000,
            ),
        ),
        Shape(
            "chat to Anthropic: tool loops, 3.3 MiB",
            CHAT,
            numbered(b'{"model":"anthropic/m","messages":[', calls, end, 3_500_000),
        ),
        Shape(
            "chat to Gemini: tool loops, 3.3 MiB",
            CHAT,
            numbered(b'{"model":"gemini/m","messages":[', calls, end, 3_500_000),
        ),
        Shape(
            "chat to Gemini: calls of one id",
            CHAT,
            filled(b'{"model":"gemini/m","messages":[', calls.replace(b"%d", b""), end, 3_500_000),
        ),
        Shape(
            "chat to Gemini: one call, many results",
            CHAT,
            filled(
                b'{"model":"gemini/m","messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function",'
                b'"function":{"name":"%b","arguments":"{}"}}]},' % (b"n" * 60_000),
                b'{"role":"tool","tool_call_id":"c","content":""},',
                end,
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
                % long_name,
                calls.replace(b"%d", b""),
                end,
                4 * MIB,
            ),
        ),
        Shape(
            "chat to Gemini: many tools",
            CHAT,
            numbered(tools % b"gemini/m", tool, tool[:-1].replace(b"%d", b"z") + b'],"messages":[' + end),
        ),
        Shape(
            "chat to Anthropic: 20,000 tools",
            CHAT,
            numbered(
                tools % b"anthropic/m",
                tool,
                tool[:-1].replace(b"%d", b"z") + b'],"messages":[' + end,
                most=20_000,
            ),
        ),
        Shape(
            "chat to Anthropic: 20,000 tools with odd names",
            CHAT,
            numbered(
                tools % b"anthropic/m",
                tool.replace(b"f%d", b"f %d"),
                tool[:-1].replace(b"%d", b"z") + b'],"messages":[' + end,
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
                b'"z":{"type":"string"}}}}}],"messages":[' + end,
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
                image,
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
        Shape("chat to Anthropic: stops", CHAT, filled(chat_a + b',"stop":[', b'"a",', b'"a"]}')),
        Shape(
            "chat to Gemini: thoughts",
            CHAT,
            filled(
                b'{"model":"gemini/m","messages":[{"role":"assistant","content":"a","reasoning_details":[',
                b'{"type":"reasoning.text","text":"a"},',
                b'{"type":"reasoning.text","text":"a"}]},' + end,
                3 * MIB,
            ),
        ),
        Shape(
            "messages to OpenAI: agent's history of 12 MiB",
            MESSAGES,
            numbered(messages % b"openai/m", agent, end, 12 * MIB),
        ),
        Shape(
            "messages to Gemini: agent's history of 12 MiB",
            MESSAGES,
            numbered(messages % b"gemini/m", agent, end, 12 * MIB),
        ),
        Shape(
            "messages to OpenAI: agent's history of 32 MiB",
            MESSAGES,
            numbered(messages % b"openai/m", agent, end),
        ),
        Shape(
            "messages to Gemini: blocks",
            MESSAGES,
            filled(
                messages % b"gemini/m" + b'{"role":"user","content":[',
                b'{"type":"text","text":"a"},',
                b'{"type":"text","text":"a"}]}]}',
            ),
        ),
        Shape(
            "messages to OpenAI: 99,000 blocks",
            MESSAGES,
            numbered(
                messages % b"openai/m" + b'{"role":"user","content":[',
                b'{"type":"text","text":"a"},',
                b'{"type":"text","text":"a"}]}]}',
                most=99_000,
            ),
        ),
        Shape(
            "messages to OpenAI: input of values",
            MESSAGES,
            filled(
                messages % b"openai/m"
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
                b'{"type":"text","text":"a"}],"messages":[' + end,
                most=99_000,
            ),
        ),
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
        Shape(
            "count of tokens, estimated: words",
            "/v1/messages/count_tokens",
            filled(messages % b"openai/m" + b'{"role":"user","content":"', b"word and more, ", b'"}]}'),
        ),
        Shape(
            "count of tokens, estimated: letters",
            "/v1/messages/count_tokens",
            filled(messages % b"openai/m" + b'{"role":"user","content":"', b"abcdefgh", b'"}]}'),
        ),
        Shape(
            "count of tokens, estimated: punctuation",
            "/v1/messages/count_tokens",
            filled(messages % b"openai/m" + b'{"role":"user","content":"', b"a.1 -", b'"}]}'),
        ),
        Shape(
            "count of tokens, estimated: other scripts",
            "/v1/messages/count_tokens",
            filled(messages % b"openai/m" + b'{"role":"user","content":"', "字é ".encode(), b'"}]}'),
        ),
        Shape(
            "count of tokens, estimated: spaces",
            "/v1/messages/count_tokens",
            filled(messages % b"openai/m" + b'{"role":"user","content":"', b" ", b'"}]}'),
        ),
        Shape(
            "count of tokens, estimated: input of values",
            "/v1/messages/count_tokens",
            filled(
                messages % b"openai/m"
                + b'{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"a":[',
                b"0,",
                b"0]}}]}]}",
            ),
        ),
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
                b'{"model":"gemini/%b","encoding_format":"float","input":[%b"a"]}'
                % (b"m" * MIB, b'"a",' * 2000)
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
    ]


def _coded() -> list[Shape]:
    chat = filled(_USER % b"openai/m" + b',"z":"', b"abcdefgh", b'"}', LARGEST)
    headers = (("Content-Encoding", "gzip"),)

    def twice() -> bytes:
        inner = zlib.compressobj(0, zlib.DEFLATED, 31)
        return gzip.compress(
            inner.compress(filled(b'{"z":"', b"abcdefgh", b'"}', LARGEST - MIB)()) + inner.flush()
        )

    def members() -> bytes:
        return gzip.compress(b" ") * (2 * MIB // 21)

    return [
        Shape("gzip: 32 MiB within", CHAT, lambda: gzip.compress(chat()), headers, counted=LARGEST),
        Shape(
            "gzip: zeros in an array",
            CHAT,
            lambda: gzip.compress(filled(_USER % b"anthropic/m" + b',"z":[', b"[],", b"0]}")()),
            headers,
            counted=LARGEST,
        ),
        Shape(
            "gzip: 512 MiB within", CHAT, lambda: gzip.compress(bytes(512 * MIB)), headers, counted=LARGEST
        ),
        Shape("gzip in gzip", CHAT, twice, (("Content-Encoding", "gzip, gzip"),), counted=LARGEST),
        Shape("gzip: many members", CHAT, members, headers),
        Shape("zstd: 32 MiB within", CHAT, _zstd(chat), (("Content-Encoding", "zstd"),), counted=LARGEST),
        Shape("br: 32 MiB within", CHAT, _br(chat), (("Content-Encoding", "br"),), counted=LARGEST),
    ]


def _zstd(body: Callable[[], bytes]) -> Callable[[], bytes]:
    import zstandard

    return lambda: zstandard.compress(body())


def _br(body: Callable[[], bytes]) -> Callable[[], bytes]:
    import brotli  # type: ignore[import-untyped]  # it ships no types

    return lambda: brotli.compress(body(), quality=1)  # type: ignore[no-any-return]  # as above


def _forms() -> list[Shape]:
    path = "/v1/audio/transcriptions"
    part = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nopenai/m\r\n'
    file = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    small = b'--b\r\nContent-Disposition: form-data; name="a%d"\r\n\r\nx\r\n'
    end = b"\r\n--b--\r\n"
    return [
        Shape("form: one file", path, filled(part + file, b"abcdefgh", end), _FORM),
        Shape("form: line ends", path, filled(part + file, b"\r\n", end), _FORM),
        Shape("form: almost boundaries", path, filled(part + file, b"\r\n--", end), _FORM),
        Shape("form: lookalikes", path, filled(part + file, b"\r\n--b x", end), _FORM),
        Shape("form: many parts", path, numbered(part, small, b"--b--\r\n"), _FORM),
        Shape("form: long head", path, filled(part + b"--b\r\n", b"X: y\r\n", end), _FORM),
    ]


def _heads() -> list[Shape]:
    chat = (
        filled(b'{"model":"openai/m","messages":[]}', b"", b"", 40)
        if False
        else (lambda: b'{"model":"openai/m"}')
    )
    return [
        Shape("head: parameters", CHAT + "?" + "a&" * 15_000, chat, counted=MIB),
        Shape("head: path", "/v1/" + "a/" * 15_000, chat, counted=MIB),
        Shape("head: escapes in the path", "/v1/models/" + "%41" * 10_000, chat, counted=MIB),
        Shape("head: many headers", CHAT, chat, tuple((f"x-{n}", "") for n in range(2000)), counted=MIB),
    ]


SHAPES = [*_passthrough(), *_nested(), *_translated(), *_coded(), *_forms(), *_heads()]
