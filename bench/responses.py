"""What a translation costs a client of Responses, beside the same conversation of a chat client.

``python -m bench.responses`` takes a request of Codex (40 kB, 9 tools), and an answer with a thought, a text
and two calls in pieces of a few characters.  The chat client's request is the same conversation in chat.
For each kind of provider it tells the processor time of the request and of the stream, the medians of samples
that are taken in turn, and what a stream holds in memory at its end.  It fails where Responses cost more than
the allowed factor.
"""

from __future__ import annotations

import platform
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

from msgspec import Struct

from bench.table import Table, number, ratio
from bench.translation.timing import samples, settle
from mgw import __version__
from mgw.canonical.conversation import Conversation, Signature
from mgw.canonical.reply import (
    ArgumentsAdded,
    Began,
    CallBegan,
    CallEnded,
    Counted,
    Ended,
    ReplyEvent,
    StopReason,
    TextAdded,
    ThinkingAdded,
    ThinkingSigned,
    TokenUsage,
)
from mgw.dialects import client_side_of, provider_side_of
from mgw.dialects.dialect import Parsed, RenderOptions, ReplyContext, ReplyOptions, RequestContext
from mgw.dialects.models import Models
from mgw.dialects.openai.options import ChatReplyOptions
from mgw.nouns.vocabulary import DialectName, Family, Kind

REQUEST: Final = Path(__file__).resolve().parents[1] / "tests" / "golden" / "codex" / "second.json"
FACTOR: Final = 1.3
ROUNDS: Final = 30
_CHAT: Final = DialectName.OPENAI_CHAT
_RESPONSES: Final = DialectName.OPENAI_RESPONSES
_SEED: Final = "req_0123456789abcdef0123456789abcdef"
_PIECES: Final = 300
_EVENTS_IN_A_READ: Final = 4
Work = Callable[[], object]


class Provider(Struct, frozen=True):
    """A kind of provider, and the model that is asked."""

    dialect: DialectName
    kind: Kind
    model: str


PROVIDERS: Final = (
    Provider(DialectName.ANTHROPIC, Kind.ANTHROPIC, "claude-sonnet-5"),
    Provider(DialectName.GEMINI, Kind.GEMINI, "gemini-3-pro"),
    Provider(_CHAT, Kind.OPENAI_COMPAT, "deepseek-chat"),
)


class Client(Struct, frozen=True):
    """A client's request, and how its answer is written."""

    dialect: DialectName
    body: bytes
    options: ReplyOptions


def clients() -> tuple[Client, Client]:
    """Return the client of Responses, and the chat client with the same conversation."""
    parsed = _parse(_RESPONSES, REQUEST.read_bytes())
    chat = _render(parsed.request, Provider(_CHAT, Kind.OPENAI_COMPAT, "m"))
    return (
        Client(_RESPONSES, REQUEST.read_bytes(), parsed.reply_options),
        Client(_CHAT, chat, _parse(_CHAT, chat).reply_options),
    )


def request_work(client: Client, provider: Provider) -> Work:
    """Return the work of translating the request."""

    def work() -> None:
        _render(_parse(client.dialect, client.body).request, provider)

    return work


def stream_work(client: Client, provider: Provider) -> Work:
    """Return the work of translating the stream; it returns what it has made, to be looked at."""
    pieces = list(_wire(provider.dialect))
    reader, writer = (
        provider_side_of(provider.dialect).stream_reader,
        client_side_of(client.dialect).stream_writer,
    )
    context = ReplyContext(_SEED, provider.model, 1_790_000_000, client.options)

    def work() -> object:
        understood, told = reader(_SEED), writer(context)
        size = sum(len(told.write(understood.feed(piece))) for piece in pieces)
        size += len(told.write(understood.finish()))
        assert not told.broken
        return told, size, told.finish()

    return work


def held_bytes(work: Work) -> int:
    """Return what a stream holds when all has been written."""
    work()
    tracemalloc.start()
    kept = work()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept
    return held


def events(family: Family) -> Iterator[ReplyEvent]:
    """Yield an answer: a thought, a text and two calls."""
    yield Began("answer-1", "a-model")
    for index in range(_PIECES):
        yield ThinkingAdded(f"thought {index} ")
    yield ThinkingSigned(Signature(family, "c2lnbmF0dXJl" * 16))
    for index in range(_PIECES):
        yield TextAdded(f"word {index} ")
    for call in range(2):
        yield CallBegan(call, f"call_{call}", "exec_command")
        yield ArgumentsAdded(call, '{"cmd": "')
        for index in range(_PIECES // 4):
            yield ArgumentsAdded(call, f"ls {index} ")
        yield ArgumentsAdded(call, '"}')
        yield CallEnded(call)
    yield Counted(TokenUsage(12_000, 2_000, 8_000, 0, 600))
    yield Ended(StopReason.TOOL_USE)


def _wire(dialect: DialectName) -> Iterator[bytes]:
    options = ChatReplyOptions(include_usage=True)
    writer = client_side_of(dialect).stream_writer(ReplyContext(_SEED, "a-model", 1_790_000_000, options))
    written = [writer.write([event]) for event in events(dialect.family)]
    written.append(writer.finish())
    filled = [piece for piece in written if piece]
    for at in range(0, len(filled), _EVENTS_IN_A_READ):
        yield b"".join(filled[at : at + _EVENTS_IN_A_READ])


def _parse(dialect: DialectName, body: bytes) -> Parsed[Conversation]:
    asked = RequestContext("a-model", drop_hosted_tools=True)
    return client_side_of(dialect).text.parse_request(body, asked)


_MODELS: Final = Models()


def _render(conversation: Conversation, provider: Provider) -> bytes:
    row = _MODELS.row(provider.model, provider.dialect.family)
    options = RenderOptions(provider.model, provider.kind, row, max_tokens_field="max_tokens")
    return provider_side_of(provider.dialect).text.render_request(conversation, options).body


def main() -> int:
    """Measure, print, and return 1 where Responses cost too much."""
    responses, chat = clients()
    settle()
    print(
        f"mgw {__version__}, Python {platform.python_version()}, {platform.processor() or platform.machine()}"
    )
    table = Table(["provider", "what", "responses", "chat", "factor"])
    worst = 0.0
    for provider in PROVIDERS:
        spent = {}
        for what, make in (("request", request_work), ("stream", stream_work)):
            ours, theirs = make(responses, provider), make(chat, provider)
            pairs = [(samples(ours, 1)[0], samples(theirs, 1)[0]) for _ in range(ROUNDS)]
            spent[what] = [median(one) for one in zip(*pairs, strict=True)]
        spent["both"] = [sum(one) for one in zip(spent["request"], spent["stream"], strict=True)]
        worst = max(worst, spent["both"][0] / spent["both"][1])
        held = [held_bytes(stream_work(client, provider)) / 1024 for client in (responses, chat)]
        for what, two in {
            **{f"{name}, us": took for name, took in spent.items()},
            "memory, KiB": held,
        }.items():
            table.rows.append([provider.kind, what, *map(number, two), ratio(*two)])
    print(table.text())
    print(f"the most: {worst:.2f} times chat; {'kept' if worst <= FACTOR else 'MISSED'}: at most {FACTOR}")
    return int(worst > FACTOR)


if __name__ == "__main__":
    sys.exit(main())
