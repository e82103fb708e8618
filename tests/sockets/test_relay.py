"""What passes through is what came: bytes in both directions, at the reader's pace, in bounded memory."""

from __future__ import annotations

import gzip
import random
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.gateway import GatewayProcess
from tests.support.laws import examples
from tests.support.ledger import Ledger, event_of
from tests.support.raw_client import RawClient, chat, chunk, request
from tests.support.raw_upstream import EVENTS, JSON, STREAM_HEAD, RawUpstream, Script, Turn, counted
from tests.support.waiting import WAIT_SECONDS

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
MOST_MEMORY: Final = 40 * MIB
"""What one stream may add to the gateway's memory, whatever its length."""
MOST_UNREAD: Final = 24 * MIB
"""What may be under way while nobody reads: the kernel's buffers of two connections, and a little of ours."""
LARGE: Final = 64 * KIB


@pytest.fixture(scope="module")
def gateway_config(upstream: RawUpstream) -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary}}
  gem: {{kind: gemini, base_url: "{upstream.url}/v1beta", api_key: AIza-canary}}
defaults: {{openai_dialect: main, gemini_dialect: gem}}
aliases: {{fast: main/gpt-fast, quick: "main/gpt-\\"quick\\""}}
"""


@pytest.fixture
def ledger(gateway: GatewayProcess, upstream: RawUpstream) -> Iterator[Ledger]:
    upstream.begin()
    ledger = Ledger(gateway)
    yield ledger
    upstream.begin()
    ledger.balance("main/gpt-after")


def peak_memory(gateway: GatewayProcess) -> int:
    """Return the most bytes of memory that the gateway has ever had (``VmHWM``)."""
    lines = Path(f"/proc/{gateway.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * KIB for line in lines if line.startswith("VmHWM:"))


# Much, and slowly


def sized(size: int) -> bytes:
    """Return one event of a stream that measures ``size`` bytes."""
    start, end = b'data: {"choices":[{"index":0,"delta":{"content":"', b'"}}]}\n\n'
    return start + b"x" * (size - len(start) - len(end)) + end


DONE: Final = b"data: [DONE]\n\n"


def streaming(piece: bytes, times: int) -> Script:
    """Return what streams a piece so often, as fast as it is taken."""
    framed = chunk(piece)
    group = framed * max(1, MIB // len(framed))

    def script(turn: Turn) -> None:
        assert turn.body
        turn.send(STREAM_HEAD)
        whole, rest = divmod(times * len(framed), len(group))
        for _ in range(whole):
            turn.send(group)
        turn.send(group[:rest], chunk(DONE), chunk(b""))

    return script


def read_all(client: RawClient) -> int:
    """Read up to the last chunk, keeping nothing; return how many bytes it was."""
    buffer = bytearray(4 * MIB)
    view = memoryview(buffer)
    total, tail = 0, b""
    while tail != b"\r\n0\r\n\r\n":
        count = client.socket.recv_into(view)
        assert count, f"the stream ended after {total} bytes"
        total += count
        tail = (tail + bytes(view[max(0, count - 7) : count]))[-7:]
    return total


@pytest.mark.slow
def test_a_gigabyte_passes_in_bounded_memory(
    gateway: GatewayProcess, upstream: RawUpstream, ledger: Ledger
) -> None:
    ledger.balance("main/gpt-before")
    piece = sized(LARGE)
    upstream.begin(streaming(piece, GIB // LARGE))
    before = peak_memory(gateway)
    with RawClient(gateway.port) as client:
        client.send(chat("main/gpt-1", stream=True))
        assert read_all(client) >= GIB
    assert peak_memory(gateway) - before < MOST_MEMORY
    ledger.one(status="ok", http_status=200, stream=True)


@pytest.mark.parametrize("size", [100, LARGE], ids=["small events", "large events"])
def test_a_reader_that_stands_still_holds_its_provider_back(
    gateway: GatewayProcess, upstream: RawUpstream, ledger: Ledger, size: int
) -> None:
    ledger.balance("main/gpt-before")
    piece = sized(size)
    framed = chunk(piece)
    group = framed * max(1, LARGE // len(framed))
    held_back = threading.Event()
    pushed: list[int] = []

    def script(turn: Turn) -> None:
        assert turn.body
        turn.send(STREAM_HEAD)
        pushed.append(turn.push(group, silent_seconds=0.5))
        held_back.set()
        turn.send(group[len(group) - -pushed[0] % len(group) :], chunk(DONE), chunk(b""))

    upstream.begin(script)
    before = peak_memory(gateway)
    with RawClient(gateway.port) as client:
        client.send(chat("main/gpt-1", stream=True))
        assert held_back.wait(WAIT_SECONDS)
        assert pushed[0] < MOST_UNREAD
        assert peak_memory(gateway) - before < MOST_MEMORY
        response = client.read_response()  # and once it reads, nothing is missing
    times = -(-pushed[0] // len(group)) * (len(group) // len(framed))
    assert response.whole
    assert sha256(response.body).digest() == sha256(piece * times + DONE).digest()
    ledger.one(status="ok", http_status=200, stream=True)


def test_a_reader_that_stands_still_holds_up_nobody_else(
    gateway: GatewayProcess, upstream: RawUpstream, ledger: Ledger
) -> None:
    flooding = streaming(sized(LARGE), 1024)
    under_way = threading.Event()

    def script(turn: Turn) -> None:
        if turn.model() == "gpt-flood":
            under_way.set()
            flooding(turn)
        else:
            turn.send(counted(b"{}", JSON))

    upstream.begin(script)
    with RawClient(gateway.port, receive_buffer=4096) as still, RawClient(gateway.port) as client:
        still.send(chat("main/gpt-flood", stream=True))
        assert under_way.wait(WAIT_SECONDS)
        for _ in range(20):
            client.send(chat("main/gpt-1"))
            assert client.read_response().status == 200
    assert {event["model"] for event in ledger.take(21)} == {"main/gpt-1", "main/gpt-flood"}


# Answers, however they come

WORDS: Final = [b"\n", b"\r\n", b"data: ", b'{"usage":', b"\x00\xff", b"x" * 300, b"}"]
PIECES: Final[st.SearchStrategy[list[bytes]]] = st.lists(
    st.sampled_from(WORDS), min_size=3, max_size=40
) | st.just([])
CHUNKS: Final[st.SearchStrategy[list[int]]] = st.lists(
    st.sampled_from([1, 2, 3, 5, 17, 100]), min_size=15, max_size=60
) | st.just([])
WRITES: Final[st.SearchStrategy[list[int]]] = st.lists(
    st.sampled_from([1, 7, 50, 400, 2000]), min_size=2, max_size=60
) | st.just([])
FRAMINGS: Final = ("chunked", "counted", "until close", "HTTP/1.0")


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """Cut data into pieces of these sizes, and what is left."""
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [piece for piece in [*pieces, data] if piece]


def framed(body: bytes, framing: str, kind: bytes, chunks: list[int]) -> bytes:
    """Return an answer whose end is marked in one of the four ways."""
    if framing == "counted":
        return counted(body, kind)
    if framing == "chunked":
        head = b"\r\n".join([b"HTTP/1.1 200 OK", kind, b"Transfer-Encoding: chunked", b"", b""])
        return head + b"".join(chunk(piece) for piece in cut(body, chunks)) + chunk(b"")
    version = b"HTTP/1.0" if framing == "HTTP/1.0" else b"HTTP/1.1"
    return b"\r\n".join([version + b" 200 OK", kind, b"", body])


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # a failure shows the gateway's output
@examples(60)
@given(
    pieces=PIECES,
    framing=st.sampled_from(["chunked", *FRAMINGS]),
    kind=st.sampled_from([JSON, EVENTS, b"Content-Type: audio/wav", b"X-Kind: none"]),
    chunks=CHUNKS,
    writes=WRITES,
    packed=st.booleans(),
)
def test_whatever_pieces_an_answer_comes_in_the_client_gets_its_bytes(
    gateway: GatewayProcess,
    upstream: RawUpstream,
    pieces: list[bytes],
    framing: str,
    kind: bytes,
    chunks: list[int],
    writes: list[int],
    packed: bool,
) -> None:
    body = b"".join(pieces)
    if packed:
        body = gzip.compress(body)
        kind += b"\r\nContent-Encoding: gzip"
    response = framed(body, framing, kind, chunks)

    def script(turn: Turn) -> None:
        assert turn.body
        turn.send(*cut(response, writes))
        if framing not in ("chunked", "counted"):
            turn.close()

    upstream.begin(script)
    with RawClient(gateway.port) as client:
        client.send(chat("main/gpt-1", b"Accept-Encoding: gzip"))
        got = client.read_response()
        assert (got.status, got.whole, got.body) == (200, True, body)
    event = event_of(gateway, got)
    assert (event["http_status"], event["attempts"] in {1, 2}) == (200, True)
    assert event.get("error") in {None, "truncated"}  # an event stream of such bytes has no last event


# Requests, byte for byte

MODEL: Final = b'"fast"'
PROSE: Final = "naïve 🎉 ".encode() * 9000
BODIES: Final = {
    "plain": b'{"model":"fast","messages":[]}',
    "odd white space": b'\r\n\t {\n\t"model"\r :\n\n "fast"\t\n,\r"n" :\t1 }\n\n ',
    "the model last": b'{"messages":[{"role":"user","content":"\\"model\\":\\"fast\\""}],"model":"fast"}',
    "models further in": b'{"a":{"model":"fast2"},"model":"fast","b":[{"model":"other"}],"c":{"model":1}}',
    "numbers in any spelling": b'{"a":1e400,"b":-0.0,"c":1E+02,"d":12345678901234567890123,"model":"fast"}',
    "other keys twice": b'{"n":1,"n":2,"model":"fast","n":3,"n":null}',
    "escapes elsewhere": b'{"a":"\\u00e9\\/\\ud83c\\udf89\\ud800","model":"fast","\\u006d":"\\n"}',
    "raw UTF-8": b'{"a":"' + PROSE + b'","model":"fast"}',
    "a megabyte before": b'{"a":"' + b"x" * MIB + b'","model":"fast","b":[]}',
    "a megabyte behind": b'{"model":"fast","a":"' + b"y" * MIB + b'"}',
    "deeply nested": b'{"model":"fast","a":' + b"[" * 400 + b"]" * 400 + b"}",
    "empty keys": b'{"":"","model":"fast"," model":"x","model ":"y"}',
}


def sent_up(gateway: GatewayProcess, upstream: RawUpstream, *raw: bytes) -> bytes:
    """Send one request in these pieces; return its body as the provider got it."""
    upstream.begin()
    with RawClient(gateway.port) as client:
        for piece in raw:
            client.send(piece)
        assert client.read_response().status == 200
    (turn,) = upstream.turns
    return turn.body


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_request_goes_up_with_exactly_its_model_replaced(
    gateway: GatewayProcess, upstream: RawUpstream, ledger: Ledger, body: bytes
) -> None:
    assert body.count(MODEL) == 1
    expected = body.replace(MODEL, b'"gpt-fast"')
    assert sent_up(gateway, upstream, request(body, JSON)) == expected
    ledger.one(status="ok", model="fast", upstream_model="gpt-fast")


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param(b'{"model":"f\\u0061st"}', b'{"model":"gpt-fast"}', id="an escaped value"),
        pytest.param(b'{"mod\\u0065l":"fast"}', b'{"mod\\u0065l":"gpt-fast"}', id="an escaped key"),
        pytest.param(
            b'{"model":"slow","a":1,"model": "fast"}',
            b'{"model":"gpt-fast","a":1,"model": "gpt-fast"}',
            id="twice",
        ),
        pytest.param(b'{"model":"quick"}', b'{"model":"gpt-\\"quick\\""}', id="quotes in the new value"),
        pytest.param(b'{"model":"main/gpt-1" }', b'{"model":"gpt-1" }', id="a prefix"),
    ],
)
def test_a_model_is_found_in_any_spelling(
    gateway: GatewayProcess, upstream: RawUpstream, ledger: Ledger, sent: bytes, expected: bytes
) -> None:
    assert sent_up(gateway, upstream, request(sent, JSON)) == expected
    ledger.one(status="ok")


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_request_whose_model_stays_goes_up_byte_for_byte(
    gateway: GatewayProcess, upstream: RawUpstream, ledger: Ledger, body: bytes
) -> None:
    body = body.replace(MODEL, b'"gpt-as-is"')
    assert sent_up(gateway, upstream, request(body, JSON)) == body
    ledger.one(status="ok", model="gpt-as-is", upstream_model="gpt-as-is")


def test_a_packed_request_whose_model_stays_goes_up_packed(
    gateway: GatewayProcess, upstream: RawUpstream, ledger: Ledger
) -> None:
    packed = gzip.compress(b'{"model":"gpt-as-is"}')
    assert sent_up(gateway, upstream, request(packed, JSON, b"Content-Encoding: gzip")) == packed
    assert upstream.turns[0].value(b"content-encoding") == b"gzip"
    ledger.one(status="ok", model="gpt-as-is")


def test_a_body_that_nobody_needs_to_read_is_not_looked_at(
    gateway: GatewayProcess, upstream: RawUpstream, ledger: Ledger
) -> None:
    body = random.Random(7).randbytes(MIB)
    raw = request(body, JSON, path="/v1beta/models/gemini-1:generateContent")
    assert sent_up(gateway, upstream, raw) == body
    ledger.one(status="ok", model="gemini-1", route="generate_content")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("framing", ["counted", "chunked"])
def test_whatever_pieces_a_request_comes_in_the_provider_gets_its_bytes(
    gateway: GatewayProcess, upstream: RawUpstream, ledger: Ledger, seed: int, framing: str
) -> None:
    chance = random.Random(seed)
    body = BODIES["odd white space"].ljust(5000)

    def sizes(most: int) -> list[int]:
        return [chance.randint(1, most) for _ in range(40)]

    if framing == "counted":
        raw = request(body, JSON)
    else:
        raw = request(None, JSON, b"Transfer-Encoding: chunked")
        raw += b"".join(chunk(piece) for piece in cut(body, sizes(200))) + chunk(b"")
    expected = body.replace(MODEL, b'"gpt-fast"')
    assert sent_up(gateway, upstream, *cut(raw, sizes(150))) == expected
    ledger.one(status="ok", model="fast")
