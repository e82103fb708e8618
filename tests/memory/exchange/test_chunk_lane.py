"""Chunks that go out as the bytes that they came in: nothing else differs from the ordinary way.

Only a read that is one whole chunk, behind others, takes the short way.  A chunk whose size line comes before
takes the ordinary one, and what the client, the event and the connections have of both is compared.
"""

from __future__ import annotations

import itertools
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from httptools import HttpResponseParser
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.error import ConnectionLost
from twisted.python.failure import Failure

from mgw.dialects import dialect_of
from mgw.dialects.last_event import LastEvent
from mgw.dialects.stream_end import StreamEnd
from mgw.exchange.chunk_lane import ChunkLane
from mgw.exchange.passing_filters import ErrorFilter, PassthroughFilter
from mgw.nouns.vocabulary import DialectName
from mgw.wire.encodings import Gunzip
from tests.support.in_memory.gateway import EDGE_KEY, MemoryGateway
from tests.support.in_memory.reactor import MemoryConnection
from tests.support.laws import examples
from tests.support.passing_streams import CHAT, COMPLETIONS, GEMINI, MESSAGES, RESPONSES, Stream, head
from tests.support.pipelines import RecordingChannel

KEEPALIVE: Final = "stream_keepalive: {interval: 15, passthrough: true}\n"
FAMILIES: Final = {
    "chat": ("up", "chat", CHAT),
    "completions": ("up", "chat", COMPLETIONS),
    "messages": ("claude", "anthropic", MESSAGES),
    "responses": ("up", "chat", RESPONSES),
    "gemini": ("google", "gemini", GEMINI),
}
LAST: Final = b"0\r\n\r\n"
PAUSE: Final = None
GONE: Final = ("close", "reset", "leave")


@dataclass
class Witness:
    """What a client reads, as another parser sees it."""

    body: bytes = b""
    complete: bool = False

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.complete = True


@dataclass(frozen=True)
class Seen:
    """What came of one stream."""

    status: int
    body: bytes
    complete: bool
    closed: bool
    event: dict[str, Any]
    reused: bool
    """Whether another request took the same connections on both sides."""


@dataclass
class Desk:
    """A gateway in memory, its provider and its clients."""

    folder: Path
    settings: str = ""
    gateway: MemoryGateway = field(init=False)
    _read: int = 0
    _open: list[MemoryConnection] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gateway = MemoryGateway(self.folder, self.settings)

    def close(self) -> None:
        """Stop, though a test has failed in the middle of a stream."""
        for connection in self._open:
            lose(connection)
        self.gateway.close()

    def events(self) -> list[dict[str, Any]]:
        """Return the events since the last time."""
        for _ in range(2):  # to the writer, and from it to the file
            self.gateway.reactor.turn(1.0)
        with (self.folder / "usage.jsonl").open("rb") as file:
            file.seek(self._read)
            lines = file.read()
        self._read += len(lines)
        return [json.loads(line) for line in lines.splitlines()]

    def begin(self, name: str, version: bytes = b"1.1") -> tuple[MemoryConnection, MemoryConnection]:
        """Have a new client ask; return it, and the provider's new connection."""
        client = self.gateway.connect()
        client.receive(asked(name, version))
        self.gateway.reactor.turn(0.05)
        provider = self.gateway.provider(FAMILIES[name][1])
        assert provider.take()
        self._open += client, provider
        return client, provider

    def see(self, name: str, says: bytes, reads: list[bytes | None], ending: str, version: bytes) -> Seen:
        """Relay a stream whose body comes in these reads; ``None`` has the client pause, or go on."""
        self.events()
        client, provider = self.begin(name, version)
        provider.receive(says)
        paused = False
        for read in reads:
            if read is not PAUSE:
                provider.receive(read)
                continue
            paused = not paused
            (client.protocol.pauseProducing if paused else client.protocol.resumeProducing)()
        if paused:
            client.protocol.resumeProducing()
        said = client.take()
        if ending != "none":
            lose(client if ending == "leave" else provider, reset=ending == "reset")
        events = self.events()
        if not events:  # the framing has swallowed the end
            lose(provider)
            events = self.events()
        said += client.take()
        try:
            (event,) = events
            return self._seen(name, client, provider, said, event)
        finally:
            self.part(name)

    def _seen(
        self,
        name: str,
        client: MemoryConnection,
        provider: MemoryConnection,
        said: bytes,
        event: dict[str, Any],
    ) -> Seen:
        witness = Witness()
        parser = HttpResponseParser(witness)
        parser.feed_data(said)
        closed, reused = client.transport.closing, False
        if witness.complete and is_open(client) and is_open(provider):
            client.receive(asked(name, b"1.1"))
            self.gateway.reactor.turn()
            reused = bool(provider.take())
        kept = {key: event.get(key) for key in ("status", "http_status", "error", "stream", "attempts")}
        tokens = {key: value for key, value in event.items() if "token" in key or "cache" in key}
        return Seen(parser.get_status_code(), witness.body, witness.complete, closed, kept | tokens, reused)

    def part(self, name: str) -> None:
        """Close what is open, so that the next stream has connections of its own."""
        for connection in (*self._open, self.gateway.provider(FAMILIES[name][1])):
            lose(connection)
        self._open.clear()
        self.events()


def is_open(connection: MemoryConnection) -> bool:
    return connection.transport.protocol is not None and not connection.transport.closing


def lose(connection: MemoryConnection, *, reset: bool = False) -> None:
    """Have the other side close a connection, if nobody has."""
    if connection.transport.protocol is None:
        return
    if reset:
        connection.transport.protocol = None
        connection.protocol.connectionLost(Failure(ConnectionLost()))
    else:
        connection.close()


def asked(name: str, version: bytes) -> bytes:
    """Return the request for a stream."""
    prefix, _, stream = FAMILIES[name]
    body = stream.body.replace(b'"model": "m"', b'"model": "%b/m"' % prefix.encode())
    path = stream.path.replace("/models/m:", f"/models/{prefix}%2Fm:").encode()
    query = b"" if stream.query is None else b"?" + stream.query
    return (
        b"POST %b%b HTTP/%b\r\nHost: gateway\r\nX-Api-Key: %b\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (path, query, version, EDGE_KEY.encode(), len(body), body)
    )


@pytest.fixture(scope="module", params=["", KEEPALIVE], ids=["plain", "keep-alives"])
def desk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    desk = Desk(tmp_path_factory.mktemp("lane"), request.param)
    yield desk
    desk.close()


WORDS: Final = (
    *(b"Hello", b"", b"[DONE]", b"message_stop", b"error", b"x" * 300, b"\\\\", b"response.completed"),
    b'","usage":{"prompt_tokens":3,"completion_tokens":7},"more":"',  # words to one who looks at their ends
    b'","finish_reason":"stop","more":"',
)


def pieces_of(stream: Stream) -> st.SearchStrategy[bytes]:
    """Draw what may stand in one chunk: events that say another word, mostly."""
    word = st.sampled_from(WORDS)
    said = word.map(
        lambda word: stream.words.replace(b'an \\"error\\" of mine', word).replace(b"so far", word)
    )
    parts = [
        *stream.silent,
        stream.finish,
        stream.rest,
        *stream.errors,
        *stream.heartbeats,
        b": x\n\n",
        b"data: ",
    ]
    return st.one_of(said, said, said, st.sampled_from([part for part in parts if part]))


@st.composite
def bodies(draw: st.DrawFn, stream: Stream) -> bytes:
    """Draw the text of a stream: often a good one, seldom a strange one."""
    pieces = draw(st.lists(pieces_of(stream), max_size=8))
    ends = draw(st.sampled_from([stream.finish + stream.rest, stream.errors[0], b"", stream.finish]))
    return b"".join(stream.silent) + stream.words + b"".join(pieces) + ends


@st.composite
def framed(draw: st.DrawFn, text: bytes) -> list[bytes]:
    """Draw the chunks of a text; most end where an event does."""
    ends = [place + 2 for place in range(len(text)) if text.startswith(b"\n\n", place)]
    if draw(st.booleans()):
        ends += draw(st.lists(st.integers(1, max(1, len(text))), max_size=4))
    found, start = [], 0
    size_line = draw(st.sampled_from([b"%x\r\n", b"%x\r\n", b"%X\r\n", b"0%x\r\n", b"%x;a=b\r\n"]))
    for end in sorted({*ends, len(text)}):
        if start < end:
            found.append(size_line % (end - start) + text[start:end] + b"\r\n")
            start = end
    last = draw(st.sampled_from([LAST, LAST, LAST, b"", b"0\r\nX: y\r\n\r\n", LAST + b"behind"]))
    return [*found, last] if last else found


@st.composite
def spoiled(draw: st.DrawFn, chunks: list[bytes]) -> list[bytes]:
    """Draw a fault in one place of the framing."""
    if not chunks or draw(st.integers(0, 3)):
        return chunks
    at = draw(st.integers(0, len(chunks) - 1))
    chunk = chunks[at]
    fault = draw(
        st.sampled_from(
            [b"1" + chunk, chunk[1:], chunk[:-2], chunk[:-1], chunk + b"x", b"+" + chunk, b" " + chunk,
             b"\r\n" + chunk, chunk[:-2] + b"\n\n", b"-1\r\n\r\n", chunk[:-1] + b"\r"]
        )
    )  # fmt: skip
    return [*chunks[:at], fault, *chunks[at + 1 :]]


@st.composite
def reads_of(draw: st.DrawFn, chunks: list[bytes]) -> list[bytes | None]:
    """Draw how chunks are read: most one by one, some together, some in two; and where a client pauses."""
    reads: list[bytes | None] = []
    held = b""
    for chunk in chunks:
        held += chunk
        how = draw(st.integers(0, 9))
        if how == 0:
            continue
        if how == 1:
            cut = draw(st.integers(0, len(held)))
            reads += [read for read in (held[:cut], held[cut:]) if read]
        else:
            reads.append(held)
        held = b""
        if how == 2:
            reads.append(PAUSE)
    return [*reads, held] if held else reads


def slowed(reads: list[bytes | None]) -> list[bytes | None]:
    """Return reads that give the same pieces, none of which is a whole chunk: the size lines come before."""
    slow: list[bytes | None] = []
    for read in reads:
        chunk = None if read is None else re.fullmatch(rb"([0-9a-fA-F]+\r\n)(.*)\r\n", read, re.DOTALL)
        if chunk is None or int(chunk[1], 16) != len(chunk[2]):
            slow.append(read)
        else:
            slow += chunk[1], chunk[2] + b"\r\n"
    return slow


@pytest.mark.parametrize("name", FAMILIES)
@given(data=st.data())
@examples(40)
def test_the_short_way_and_the_ordinary_one_are_the_same_to_all(
    desk: Desk, name: str, data: st.DataObject
) -> None:
    stream = FAMILIES[name][2]
    text = data.draw(bodies(stream), "text")
    coding: tuple[bytes, ...] = ()
    if data.draw(st.integers(0, 7), "coded") == 0:
        text, coding = gzipped(text), (b"Content-Encoding: gzip",)
    chunks = data.draw(spoiled(data.draw(framed(text))), "chunks")
    ending = data.draw(st.sampled_from(["none", *GONE]), "ending")
    version = data.draw(st.sampled_from([b"1.1", b"1.1", b"1.0"]), "version")
    reads = data.draw(reads_of(chunks), "reads")
    says = head(stream.content_type, *coding)
    if ending == "none" and not b"".join(chunks).endswith(LAST):
        ending = "close"
    seen = desk.see(name, says, reads, ending, version)
    assert seen == desk.see(name, says, slowed(reads), ending, version)


COUNTED: Final = (
    b'}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2,"totalTokenCount":5}}\n\n'
)
"""How the last event of Gemini ends, as Google has it: its reason is far from its end."""


@pytest.mark.parametrize("name", FAMILIES)
@given(data=st.data())
@examples(80)
def test_the_event_does_not_depend_on_how_a_stream_is_cut(desk: Desk, name: str, data: st.DataObject) -> None:
    stream = FAMILIES[name][2]
    words, finish = stream.words, stream.finish.replace(b"}]}\n\n", COUNTED) + stream.rest
    said = [finish, finish + words, finish + words + finish, finish + finish, words, stream.errors[0]]
    text = b"".join(stream.silent) + words + data.draw(st.sampled_from(said), "text")
    step = data.draw(st.sampled_from([7, 11, 40, 200]), "step")
    places = range(data.draw(st.integers(1, step), "first cut"), len(text), step)
    ending = data.draw(st.sampled_from(["leave", *GONE]), "ending")
    says = head(stream.content_type)
    pieces = [text[start:stop] for start, stop in itertools.pairwise([0, *places, len(text)])]
    cut, whole = (
        desk.see(name, says, [b"%x\r\n%b\r\n" % (len(one), one) for one in read], ending, b"1.1")
        for read in (pieces, [text])
    )
    assert (cut.event, cut.body) == (whole.event, whole.body)


def gzipped(text: bytes) -> bytes:
    coder = zlib.compressobj(wbits=31)
    return coder.compress(text) + coder.flush()


DIALECTS: Final = {
    "chat": DialectName.OPENAI_CHAT,
    "completions": DialectName.OPENAI_CHAT,
    "messages": DialectName.ANTHROPIC,
    "responses": DialectName.OPENAI_RESPONSES,
    "gemini": DialectName.GEMINI,
}


def filter_of(name: str, *, has_known_end: bool) -> PassthroughFilter:
    dialect = dialect_of(DIALECTS[name])
    end = StreamEnd(dialect.stream_events) if has_known_end else None
    return PassthroughFilter(
        dialect.meter(b"text/event-stream", end), None, LastEvent(dialect.stream_events.last), end
    )


def known(body_filter: PassthroughFilter) -> tuple[object, ...]:
    """What a filter knows, up to the bytes that it keeps."""
    lookers = body_filter.event_lookers()
    assert lookers is not None
    meter, last_event = lookers
    events = meter.is_open, last_event.seen, last_event.passed, last_event.went_on, last_event.tail
    judged = body_filter.complete, body_filter.finished, body_filter.sent_last_event
    return (*judged, repr(body_filter.fault()), body_filter.usage(), *events)


@pytest.mark.parametrize("name", FAMILIES)
@given(data=st.data(), has_known_end=st.booleans())
def test_a_filter_that_chunks_pass_by_knows_all_that_one_knows_to_which_they_are_fed(
    name: str, data: st.DataObject, has_known_end: bool
) -> None:
    stream = FAMILIES[name][2]
    text = data.draw(bodies(stream), "text")
    ends = {place + 2 for place in range(len(text)) if text.startswith(b"\n\n", place)}
    cuts = data.draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=12), "cuts")
    places = sorted(ends | cuts if data.draw(st.booleans()) else cuts)
    fed, passed = (filter_of(name, has_known_end=has_known_end) for _ in range(2))
    client = RecordingChannel()
    lookers = passed.event_lookers()
    assert lookers is not None
    lane = ChunkLane(client, passed, *lookers, None)
    first = True
    for start, stop in itertools.pairwise([0, *places, len(text)]):
        piece = text[start:stop]
        if not piece:
            continue
        fed.feed(piece)
        if first or not lane.pass_chunk(b"4\r\n%b\r\n" % piece, 3, 3 + len(piece)):
            client.write(passed.feed(piece))
        first = False
        assert known(passed) == known(fed)
    assert client.body == text
    for body_filter in (fed, passed):
        body_filter.finish()
    assert known(passed) == known(fed)


def test_an_error_that_may_repeat_a_credential_is_always_looked_at() -> None:
    lookers = filter_of("chat", has_known_end=False).event_lookers()
    assert lookers is not None
    assert ErrorFilter(lookers[0], None, lookers[1]).event_lookers() is None


def test_a_coded_stream_is_always_decoded() -> None:
    lookers = filter_of("chat", has_known_end=False).event_lookers()
    assert lookers is not None
    assert PassthroughFilter(lookers[0], Gunzip(1000), lookers[1]).event_lookers() is None


def begun(desk: Desk, name: str, version: bytes = b"1.1") -> tuple[MemoryConnection, MemoryConnection]:
    """A stream of which the client has the beginning."""
    stream = FAMILIES[name][2]
    client, provider = desk.begin(name, version)
    text = b"".join(stream.silent) + stream.words
    provider.receive(head(stream.content_type) + b"%x\r\n%b\r\n" % (len(text), text))
    assert client.take()
    return client, provider


WORD: Final = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n'


@pytest.mark.parametrize("line", [b"%x\r\n", b"%X\r\n"])
def test_chunks_with_nothing_to_look_at_go_out_as_they_came(desk: Desk, line: bytes) -> None:
    client, provider = begun(desk, "chat")
    for word in (b"Hello", b"x" * 300, b"", b"[ DONE ]"):
        text = WORD % word
        provider.receive(line % len(text) + text + b"\r\n")
        assert client.written == [line % len(text) + text + b"\r\n"]
        client.take()
    desk.part("chat")


def test_a_client_without_chunks_gets_their_content(desk: Desk) -> None:
    client, provider = begun(desk, "chat", b"1.0")
    text = WORD % b"Hello"
    for _ in range(3):
        provider.receive(b"%x\r\n%b\r\n" % (len(text), text))
    assert client.take() == text * 3
    desk.part("chat")


def test_a_client_that_left_gets_nothing_more(desk: Desk) -> None:
    client, provider = begun(desk, "chat")
    lose(client)
    text = WORD % b"Hello"
    provider.receive(b"%x\r\n%b\r\n" % (len(text), text))
    assert (client.take(), provider.transport.closing) == (b"", True)
    desk.part("chat")


@pytest.mark.parametrize("desk", [KEEPALIVE], indirect=True)
def test_keep_alives_stand_between_events_and_only_in_silence(desk: Desk) -> None:
    client, provider = begun(desk, "chat")
    text = WORD % b"Hello"
    for _ in range(4):  # no silence is long enough
        desk.gateway.reactor.turn(14.0)
        provider.receive(b"%x\r\n%b\r\n" % (len(text), text))
    assert client.take() == b"%x\r\n%b\r\n" % (len(text), text) * 4
    desk.gateway.reactor.turn(14.0)
    assert client.take() == b""
    desk.gateway.reactor.turn(1.1)
    assert client.take() == b"8\r\n: ping\n\n\r\n"
    provider.receive(b"6\r\ndata: \r\n")  # an event has begun
    assert client.take() == b"6\r\ndata: \r\n"
    desk.gateway.reactor.turn(20.0)
    assert client.take() == b""
    desk.part("chat")


def test_a_stream_that_is_drained_away_writes_nothing_behind_its_break(desk: Desk) -> None:
    client, provider = begun(desk, "chat")
    client.protocol.abort()
    text = WORD % b"Hello"
    provider.receive(b"%x\r\n%b\r\n" % (len(text), text))
    assert client.take() == b""
    lose(client)
    desk.part("chat")
