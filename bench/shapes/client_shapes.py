"""What a hostile or a very busy client sends."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

from bench.shapes.chat_shapes import TRANSLATED_CHAT
from bench.shapes.shape import CHAT, MESSAGES, USER, Shape, shapes, values
from bench.shapes.translated_shapes import TRANSLATED
from tests.support.repeated import LARGEST, MIB, repeated

_FORM = (("Content-Type", "multipart/form-data; boundary=b"),)


def _tag() -> bytes:
    from mgw.dialects.signatures import TAG

    return TAG.encode() + b"gAAAA"


def _needles() -> dict[str, bytes]:
    """What a search for the tag looks at more closely."""
    tag = _tag()[:8]
    return {
        "beginnings of the tag": tag[:-1],
        "ends of the tag": tag[1:],
        "first letters of the tag": tag[:1],
        "last letters of the tag": tag[-1:],
        "the tag, but for its middle": tag[:3] + b"x" + tag[4:],
        "letters of the tag in turn": b"".join(tag[at:] + tag[:at] for at in range(1, len(tag))),
        "the tag in a text": tag + b" ",
    }


_AGENT_TURNS = (
    b'{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function","function":{"name":"read",'
    b'"arguments":"{\\"path\\":\\"src/a.py\\",\\"limit\\":20}"}}]},{"role":"tool","tool_call_id":"c%d",'
    b'"content":"' + b'a line of \\"code\\",\\n' * 60 + b'"},'
)
_TO_OPENAI = USER % b"openai/m"
_PASSTHROUGH = (
    *values(_TO_OPENAI, "chat, same family", CHAT),
    *shapes(
        CHAT,
        {
            "chat, same family: one text": (_TO_OPENAI + b',"z":"<<abcdefgh>>"}'),
            "chat, same family: escapes": (_TO_OPENAI + b',"z":"<<\\\\\\">>"}'),
            "chat, same family: other keys": (_TO_OPENAI + b'<<,"k%d":0>>}'),
            "chat, same family: model repeated": b'{<<"model":"openai/m",>>"a":0}',
            "chat, same family: model repeated, no space left": b'{<<"model":0,>>"a":0}',
            "chat, same family: nested model": b'{"a":[<<{"model":"x"},>>{}],"\\u006dodel":"openai/m"}',
            "chat, same family: model in texts": (
                b'{"a":[<<"\\"model\\":\\"x\\"",>>""],"\\u006dodel":"openai/m"}'
            ),
            "chat, same family: lone surrogates": b'{"model":"openai/m","z":"<<\\ud800>>"}',
            "chat, same family: not UTF-8 at its end": (_TO_OPENAI + b',"z":"<<\xc3\xa9>>\xff"}'),
            "chat, same family: deep": lambda: (
                _TO_OPENAI + b',"z":' + b"[" * 16 * MIB + b"]" * 15 * MIB + b"}"
            ),
            "chat, same family: long number": (_TO_OPENAI + b',"z":<<1>>}'),
            "chat, same family: long model": b'{"model":"openai/<<m>>"}',
            "chat, same family: tagged history": (
                b'{"model":"openai/m","messages":[<<'
                + b'{"role":"assistant","content":"a","extra_content":{"google":{"thought_signature":"%b"}}},'
                % _tag()
                + b'>>{"role":"user","content":"x"}]}'
            ),
            **{
                f"chat, same family: {name}": _TO_OPENAI + b',"z":"<<' + unit + b'>>"}'
                for name, unit in _needles().items()
            },
            "chat, same family: model behind tags": (
                b'{"messages":[{"role":"user","content":"<<%b >>"}],"model":"openai/m"}' % _tag()
            ),
            "chat, same family: agent's history of 2 MiB, model last": repeated(
                b'{"messages":[<<' + _AGENT_TURNS + b'>>{"role":"user","content":"x"}],"model":"openai/m"}',
                2 * MIB,
            ),
        },
    ),
    *shapes(
        MESSAGES,
        {
            "messages, same family: tagged history": (
                b'{"model":"anthropic/m","max_tokens":5,"messages":[{"role":"assistant","content":[<<'
                + b'{"type":"thinking","thinking":"","signature":"%b"},{"type":"text","text":"a"},' % _tag()
                + b'>>{"type":"text","text":"a"}]},{"role":"user","content":"x"}]}'
            ),
        },
    ),
)


def _nested() -> list[Shape]:
    batches = "/v1/messages/batches"
    request = b'{"custom_id":"r%d","params":{"model":"anthropic/m","max_tokens":9,"messages":[' + (
        b'{"role":"user","content":"' + b"x" * 150 + b'"}]}},'
    )
    last = b'{"custom_id":"z","params":{"model":"anthropic/m"}}]}'
    path = "/v1beta/models/gemini/m:batchEmbedContents"
    return [
        *shapes(
            batches,
            {
                "batch: zeros": b'{"requests":[<<0,>>0]}',
                "batch: 1.5 MB of zeros": repeated(b'{"requests":[<<0,>>0]}', 1500000),
                "batch: arrays": b'{"requests":[<<[],>>[]]}',
                "batch: objects": b'{"requests":[<<{},>>{}]}',
                "batch: empty params": b'{"requests":[<<{"params":{}},>>{}]}',
                "batch: models": b'{"requests":[<<{"params":{"model":"anthropic/m"}},>>{}]}',
                "batch: other members": (
                    b'{"requests":[{"params":{<<' + b'"a":"%b",' % (b"x" * 120) + b'>>"b":0}}]}'
                ),
                "batch: 100,000 requests": repeated(
                    (b'{"requests":[<<' + request + b">>" + last), most=99999
                ),
            },
        ),
        *shapes(
            path,
            {
                "embeddings of a batch, same family": (
                    b'{"requests":[<<{"model":"models/gemini/m"},>>{"model":"models/gemini/m"}]}'
                ),
            },
        ),
    ]


def _coded() -> list[Shape]:
    chat = repeated(_TO_OPENAI + b',"z":"<<abcdefgh>>"}')
    headers = (("Content-Encoding", "gzip"),)

    def twice() -> bytes:
        inner = zlib.compressobj(0, zlib.DEFLATED, 31)
        return gzip.compress(
            inner.compress(repeated(b'{"z":"<<abcdefgh>>"}', LARGEST - MIB)()) + inner.flush()
        )

    def members() -> bytes:
        return gzip.compress(b" ") * (2 * MIB // 21)

    return [
        Shape("gzip: 32 MiB within", CHAT, lambda: gzip.compress(chat()), headers, counted=LARGEST),
        Shape(
            "gzip: zeros in an array",
            CHAT,
            lambda: gzip.compress(repeated(USER % b"anthropic/m" + b',"z":[<<[],>>0]}')()),
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
        *shapes(
            path,
            {
                "form: one file": (part + file + b"<<abcdefgh>>" + end),
                "form: line ends": (part + file + b"<<\r\n>>" + end),
                "form: almost boundaries": (part + file + b"<<\r\n-->>" + end),
                "form: lookalikes": (part + file + b"<<\r\n--b x>>" + end),
                "form: many parts": (part + b"<<" + small + b">>--b--\r\n"),
                "form: long head": (part + b"--b\r\n<<X: y\r\n>>" + end),
            },
            _FORM,
        ),
    ]


def _heads() -> list[Shape]:
    def chat() -> bytes:
        return b'{"model":"openai/m"}'

    return [
        Shape("head: parameters", CHAT + "?" + "a&" * 15_000, chat, counted=MIB),
        Shape("head: path", "/v1/" + "a/" * 15_000, chat, counted=MIB),
        Shape("head: escapes in the path", "/v1/models/" + "%41" * 10_000, chat, counted=MIB),
        Shape("head: many headers", CHAT, chat, tuple((f"x-{n}", "") for n in range(2000)), counted=MIB),
    ]


SHAPES = [*_PASSTHROUGH, *_nested(), *TRANSLATED_CHAT, *TRANSLATED, *_coded(), *_forms(), *_heads()]
