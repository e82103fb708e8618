"""What a hostile or a very busy client sends."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

from bench.shapes.chat_shapes import TRANSLATED_CHAT
from bench.shapes.shape import CHAT, LARGEST, MESSAGES, MIB, USER, Shape, filled, numbered, values
from bench.shapes.translated_shapes import TRANSLATED

_FORM = (("Content-Type", "multipart/form-data; boundary=b"),)


def _tag() -> bytes:
    from mgw.dialects.signatures import TAG

    return TAG.encode() + b"gAAAA"


_TO_OPENAI = USER % b"openai/m"
_PASSTHROUGH = (
    *values(_TO_OPENAI, "chat, same family", CHAT),
    Shape("chat, same family: one text", CHAT, filled(_TO_OPENAI + b',"z":"', b"abcdefgh", b'"}')),
    Shape("chat, same family: escapes", CHAT, filled(_TO_OPENAI + b',"z":"', b'\\\\\\"', b'"}')),
    Shape("chat, same family: other keys", CHAT, numbered(_TO_OPENAI, b',"k%d":0', b"}")),
    Shape("chat, same family: model repeated", CHAT, filled(b"{", b'"model":"openai/m",', b'"a":0}')),
    Shape("chat, same family: model repeated, no space left", CHAT, filled(b"{", b'"model":0,', b'"a":0}')),
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
        "chat, same family: not UTF-8 at its end",
        CHAT,
        filled(_TO_OPENAI + b',"z":"', b"\xc3\xa9", b'\xff"}'),
    ),
    Shape(
        "chat, same family: deep",
        CHAT,
        lambda: _TO_OPENAI + b',"z":' + b"[" * 16 * MIB + b"]" * 15 * MIB + b"}",
    ),
    Shape("chat, same family: long number", CHAT, filled(_TO_OPENAI + b',"z":', b"1", b"}")),
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
)


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


def _coded() -> list[Shape]:
    chat = filled(USER % b"openai/m" + b',"z":"', b"abcdefgh", b'"}', LARGEST)
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
            lambda: gzip.compress(filled(USER % b"anthropic/m" + b',"z":[', b"[],", b"0]}")()),
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


SHAPES = [*_PASSTHROUGH, *_nested(), *TRANSLATED_CHAT, *TRANSLATED, *_coded(), *_forms(), *_heads()]
