"""What a hostile or a broken provider answers."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable

from bench.shapes.shape import CHAT, HEAD, MESSAGES, Shape, whole
from tests.support.repeated import MIB, repeated

_STREAM = b"text/event-stream"
_CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LARGEST_ANSWER = 64 * MIB
_ALL = {
    "Anthropic's answer to chat": (CHAT, b"anthropic"),
    "Gemini's answer to chat": (CHAT, b"gemini"),
    "OpenAI's answer to messages": (MESSAGES, b"openai"),
}
_WHOLE = {
    b"anthropic": (
        (
            b'{"id":"m","type":"message","role":"assistant","model":"m","stop_reason":"end_turn",'
            b'"usage":{"input_tokens":1,"output_tokens":1},"content":['
        ),
        b'{"type":"text","text":"a"}',
        b"]}",
    ),
    b"gemini": (b'{"candidates":[{"content":{"parts":[', b'{"text":"a"}', b']},"finishReason":"STOP"}]}'),
    b"openai": (
        b'{"id":"c","object":"chat.completion","model":"m","choices":[',
        b'{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}',
        b"]}",
    ),
}
_EVENT = {
    b"anthropic": b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":'
    b'{"type":"text_delta","text":"%b"}}\n\n',
    b"gemini": b'data: {"candidates":[{"content":{"parts":[{"text":"%b"}]}}]}\n\n',
    b"openai": b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n',
}
_BEGIN = {
    b"anthropic": b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message",'
    b'"role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":'
    b'{"type":"text","text":""}}\n\n',
    b"gemini": b"",
    b"openai": b"",
}


def _ask(path: str, provider: bytes, *, stream: bool = False) -> Callable[[], bytes]:
    more = b',"stream":true' if stream else b""
    more += b',"max_tokens":9' if path == MESSAGES else b""
    return lambda: b'{"model":"%b/m","messages":[{"role":"user","content":"x"}]%b}' % (provider, more)


def _answered(
    body: Callable[[], bytes], status: int = 200, more: bytes = b""
) -> Callable[[], Iterable[bytes]]:
    return lambda: whole(body(), status, more=more)


def _streamed(pieces: Callable[[], Iterable[bytes]]) -> Callable[[], Iterable[bytes]]:
    return lambda: [HEAD % (200, _STREAM, b""), *pieces()]


_Row = tuple[str, Callable[[], Iterable[bytes]], int]
"""What a shape is called, what the provider answers, and the size that memory is compared with."""


def _shapes(title: str, path: str, ask: Callable[[], bytes], rows: Iterable[_Row]) -> list[Shape]:
    return [Shape(f"{title}: {name}", path, ask, answer=answer, counted=size) for name, answer, size in rows]


def _wholes(title: str, path: str, provider: bytes) -> list[Shape]:
    before, item, after = _WHOLE[provider]
    size = LARGEST_ANSWER - MIB
    units = {"zeros": b"0,", "arrays": b"[],", "objects": b"{},", "texts": b'"a",'}
    start, _, rest = item.rpartition(b'"a"')
    unknown = before + item + after[:-1] + b',"z":['
    bomb = _answered(lambda: gzip.compress(bytes(512 * MIB)), more=b"Content-Encoding: gzip\r\n")
    rows: list[_Row] = [
        *(
            (name, _answered(repeated(unknown + b"<<" + unit + b">>" + unit[:-1] + b"]}", size)), size)
            for name, unit in units.items()
        ),
        ("items", _answered(repeated(before + b"<<" + item + b",>>" + item + after, size)), size),
        ("20,000 items", _answered(lambda: before + (item + b",") * 19_999 + item + after), 8 * MIB),
        ("one text", _answered(repeated(before + start + b'"<<abcdefgh>>"' + rest + after, size)), size),
        ("deep", _answered(repeated(before + b"<<[>>]", size)), size),
        ("error of values", _answered(repeated(b'{"error":[<<[],>>0]}', size), 400), size),
        (
            "error of one text",
            _answered(repeated(b'{"error":{"message":"<<abcdefgh>>"}}', size), 400),
            size,
        ),
        ("gzip of 512 MiB", bomb, LARGEST_ANSWER),
    ]
    return _shapes(title, path, _ask(path, provider), rows)


def _streams(title: str, path: str, provider: bytes) -> list[Shape]:
    event, begin = _EVENT[provider], _BEGIN[provider]
    size = LARGEST_ANSWER - MIB
    rows: list[_Row] = [
        ("event without end", _streamed(lambda: [begin + b"data: ", b"x" * (size + 9 * MIB)]), size),
        (
            "lines without end",
            _streamed(lambda: [begin, b"data: x\n" * (size // 8), b"data: \n" * 2 * MIB]),
            size,
        ),
        ("small events", _streamed(lambda: [begin, (event % b"a") * 100_000]), 8 * MIB),
        ("one large event", _streamed(lambda: [begin, event % (b"abcdefgh" * (31 * MIB // 8))]), 31 * MIB),
        (
            "event of values",
            _streamed(lambda: [begin, b'data: {"z":[', b"[]," * (31 * MIB // 3), b"0]}\n\n"]),
            31 * MIB,
        ),
        ("empty lines", _streamed(lambda: [begin, b"\n" * size]), 8 * MIB),
        ("pieces of a byte", lambda: [_CHUNKED, b"6\r\ndata: \r\n" + b"1\r\nx\r\n" * 4 * MIB], 8 * MIB),
    ]
    return _shapes(f"{title}, streamed", path, _ask(path, provider, stream=True), rows)


def _zipped(unit: bytes, times: int, kind: bytes = b"application/json") -> Callable[[], Iterable[bytes]]:
    return lambda: whole(gzip.compress(unit * times), 200, kind, b"Content-Encoding: gzip\r\n")


def _large_event(unit: bytes) -> bytes:
    """Return an event of 4 MiB that ends with its usage."""
    return b'data: {"x":"%b","usage":{"prompt_tokens":1}}\n\n' % (unit * (4 * MIB // len(unit)))


def _metered() -> list[Shape]:
    ask, streamed = _ask(CHAT, b"openai"), _ask(CHAT, b"openai", stream=True)
    usage = b'data: {"usage":{"prompt_tokens":1}}\n\n'
    values = b'{"usage":{"a":[<<[],>>0]}}'
    rows: list[tuple[str, Callable[[], bytes], Callable[[], Iterable[bytes]]]] = [
        ("gzip of 512 MiB", ask, _zipped(b"\0", 512 * MIB)),
        ("gzip of usage", streamed, _zipped(usage, 2_000_000, _STREAM)),
        ("usage", streamed, _streamed(lambda: [usage * 1_000_000])),
        ("event without end", streamed, _streamed(lambda: [b"data: " + b'"usage"' * 8 * MIB])),
        ("images in events", streamed, _streamed(lambda: [_large_event(b"iVBORw0KGgoAAAAN") * 16])),
        ("escaped marks in events", streamed, _streamed(lambda: [_large_event(b'\\"') * 16])),
        ("words in events", streamed, _streamed(lambda: [_large_event(b"word, and \\n more ") * 16])),
        ("8 MiB of values", ask, _answered(repeated(values, 8 * MIB - 1))),
        ("64 MiB of values", ask, _answered(repeated(values, 64 * MIB))),
        ("pieces of a byte", streamed, lambda: [_CHUNKED, b"1\r\nx\r\n" * 4 * MIB]),
    ]
    return [
        *(
            Shape(f"metered: {name}", CHAT, body, answer=answer, counted=8 * MIB)
            for name, body, answer in rows
        ),
        Shape(
            "results_url: 16 MiB of values",
            "/v1/messages/batches",
            lambda: b"",
            (("anthropic-version", "2023-06-01"),),
            answer=_answered(repeated(b'{"data":[<<{},>>0]}', 15 * MIB)),
            counted=15 * MIB,
            method="GET",
        ),
    ]


def _embeddings() -> list[Shape]:
    vector = b'{"values":[%b]}' % b",".join([b"-0.0123456789"] * 768)
    size = LARGEST_ANSWER - MIB
    ask = b'{"model":"gemini/m","encoding_format":"float","input":["a","b"]}'
    rows: list[_Row] = [
        ("2,048 of 768", _answered(lambda: b'{"embeddings":[%b]}' % b",".join([vector] * 2048)), size // 3),
        ("zeros", _answered(repeated(b'{"embeddings":[{"values":[<<0,>>0]}]}', size)), size),
        ("vectors", _answered(repeated(b'{"embeddings":[<<{},>>{}]}', size)), size),
        ("other values", _answered(repeated(b'{"embeddings":[{"values":[1]}],"z":[<<[],>>0]}', size)), size),
    ]
    return _shapes("embeddings' answer", "/v1/embeddings", lambda: ask, rows)


def _relayed() -> list[Shape]:
    """Large answers that are relayed and metered, ordinary ones first."""
    numbers = b"-0.022915341,0.0014823675,-0.009184301,0.031457219,"
    vector = b'{"object":"embedding","index":0,"embedding":[%b0.5]},' % (numbers * 400)
    vectors = b'{"object":"list","data":[<<%b>>%b],"usage":{"prompt_tokens":9}}' % (vector, vector[:-1])
    image = b'{"created":1,"data":[{"b64_json":"<<iVBORw0KGgoAAAAN>>"}],"usage":{"input_tokens":9}}'
    text = b'{"choices":[{"message":{"content":"<<%b>>"}}],"usage":{"prompt_tokens":9}}'
    array = b'{"data":[<<%b>>0],"usage":{"prompt_tokens":9}}'
    rows: dict[str, tuple[str, bytes, int]] = {
        "embeddings, 1 MiB": ("/v1/embeddings", vectors, MIB),
        "embeddings, 64 MiB": ("/v1/embeddings", vectors, LARGEST_ANSWER),
        "one image, 20 MiB": ("/v1/images/generations", image, 20 * MIB),
        "one image, 64 MiB": ("/v1/images/generations", image, LARGEST_ANSWER),
        "words, 1 MiB": (CHAT, text % b"word, and \\n more ", MIB),
        "words": (CHAT, text % b"word, and \\n more ", LARGEST_ANSWER),
        "escapes": (CHAT, text % b"\\u00fc", LARGEST_ANSWER),
        "escaped marks": (CHAT, text % b'\\"', LARGEST_ANSWER),
        "escaped marks, 8 MiB": (CHAT, text % b'\\"', 8 * MIB - 1),
        "texts of 1 kB": (CHAT, array % (b'"%b",' % (b"a" * 1024)), LARGEST_ANSWER),
        "texts just too short": (CHAT, array % (b'"%b",' % (b"a" * 1000)), 8 * MIB - 1),
        "arrays of 1 kB": (CHAT, array % (b"[%b0]," % (b"1," * 512)), LARGEST_ANSWER),
        "braces in an array": (CHAT, array % b"{},", LARGEST_ANSWER),
        "brackets in a text": (CHAT, text % b"[0,", LARGEST_ANSWER),
        "blanks": (CHAT, array % b"        ", LARGEST_ANSWER),
    }
    return [
        Shape(
            f"metered, relayed: {name}",
            path,
            _ask(path, b"openai"),
            answer=_answered(repeated(answer, size)),
            counted=size,
        )
        for name, (path, answer, size) in rows.items()
    ]


def _lists() -> list[Shape]:
    models = b'{"data":[<<{"id":"a"},>>{"id":"a"}]}'
    answers = {
        "values": repeated(b'{"data":[<<[],>>0]}', 4 * MIB - 1),
        "models": repeated(models, 4 * MIB - 1),
        "64 MiB": repeated(models, 64 * MIB),
    }
    return [
        Shape(
            f"live list: {name}",
            "/v1/models?live=1",
            lambda: b"",
            answer=_answered(body),
            counted=8 * MIB,
            method="GET",
        )
        for name, body in answers.items()
    ]


SHAPES = [
    *(shape for title, (path, provider) in _ALL.items() for shape in _wholes(title, path, provider)),
    *(shape for title, (path, provider) in _ALL.items() for shape in _streams(title, path, provider)),
    *_metered(),
    *_relayed(),
    *_embeddings(),
    *_lists(),
]
