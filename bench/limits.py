"""Measure what limits of clients cost: ``python -m bench.limits [--rounds N] [--only WORDS]``.

Everything runs in this process, without a kernel but for the files: the time is that of the thread alone, in
the fastest of several rounds, so that a busy machine does not matter much.  Each row has what it may cost.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from time import thread_time
from typing import Any, Final, NamedTuple

from twisted.internet.task import Clock

from bench.machines import description
from mgw.clients.client import clients_of
from mgw.clients.limits import Limits, Permit, Taken
from mgw.clients.local_counts import LocalCounts
from mgw.config.load import parse
from mgw.dialects import client_side_of, dialect_of
from mgw.dialects.dialect import RequestContext
from mgw.exchange.answer_copy import AnswerCopy
from mgw.identity.key_rules import key_rules
from mgw.identity.keys_dir import KeysDirectory
from mgw.identity.limit_store import GATHER_SECONDS, LimitStore
from mgw.nouns.vocabulary import DialectName
from mgw.tokens.estimate import estimate_tokens
from mgw.tokens.hold import input_hold, output_hold
from tests.support.in_memory.cases import cases
from tests.support.in_memory.gateway import EDGE_KEY, MemoryGateway
from tests.support.in_memory.measure import count_calls, fastest
from tests.support.in_memory.work import work_of
from tests.support.usage import AtOnce

MIB: Final = 1024 * 1024
REQUESTS: Final = 100
FILES: Final = 1000
EVENTS: Final = 2000
_LINE: Final = "{:56} {:>22}   {}"
_CASE: Final = "relayed 1 kB"
_KEY: Final = f'{{{{name: alice, key: "{EDGE_KEY}", limits: [{{rows}}]}}}}'
_CONFIG: Final = """
providers: {{main: {{kind: openai, api_key: sk-bench}}}}
prices: {{rows: []}}
edge_auth: {{enabled: true, keys_dir: {folder}, keys: [{{name: alice, key: "{key}", limits: [{rows}]}}]}}
"""
MINUTE: Final = "{requests: 1000000000, per: minute}, {tokens: 1000000000, per: minute}, {in_flight: 1000}"
DURABLE: Final = (
    "{requests: 1000000000, per: day}, {tokens: 1000000000, per: month}, {usd: 5000000, per: month}"
)


class Result(NamedTuple):
    """One measurement."""

    name: str
    found: str
    aim: str


class Bench(NamedTuple):
    """How much is measured, and where its files are."""

    rounds: int
    folder: Path

    def best(self, act: Callable[[], object]) -> float:
        """Return the seconds of CPU that something takes, in the fastest round."""
        times = []
        for _ in range(self.rounds):
            gc.collect()
            began = thread_time()
            act()
            times.append(thread_time() - began)
        return min(times)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="bench.limits", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="the fastest of so many counts (10)")
    parser.add_argument("--only", default="", help="only rows with this in their name")
    options = parser.parse_args()
    print(_LINE.format("what limits of clients cost", "measured", "aim"))
    with tempfile.TemporaryDirectory(prefix="mgw-bench-") as name:
        bench = Bench(options.rounds, Path(name))
        for measure in (_requests, _durable, _holds, _estimates, _looks):
            for row in measure(bench):
                if options.only in row.name:
                    print(_LINE.format(*row), flush=True)
    facts = description()
    print(f"\n{facts['cores']} cores, {facts['cpu']}, Linux {facts['kernel']}, {facts['python']}")
    return 0


# Requests through the whole gateway -----------------------------------------------------------------------


def _requests(bench: Bench) -> Iterator[Result]:
    plain_us, plain_calls = _relayed(f'"{EDGE_KEY}"', bench)
    yield Result(
        "relayed request of 1 kB, no limits", f"{plain_us:.0f} µs, {plain_calls:.0f} calls", "89 calls"
    )
    limited_us, limited_calls = _relayed(_KEY.format(rows=MINUTE), bench)
    more = f"+{limited_us - plain_us:.0f} µs, +{limited_calls - plain_calls:.0f} calls"
    yield Result("… three rows of a minute and in flight", more, "as before")


def _relayed(key: str, bench: Bench) -> tuple[float, float]:
    """Return the microseconds and the calls of a request of a client."""
    gateway = MemoryGateway(key=key)
    with work_of(cases()[_CASE], gateway) as work:
        found = fastest(work, bench.rounds), count_calls(work)
    gateway.close()
    return found


# Rows that last -------------------------------------------------------------------------------------------


def _durable(bench: Bench) -> Iterator[Result]:
    limits = _limits(bench, DURABLE)
    for together in (1, 10, REQUESTS):
        clock = Clock()
        store = LimitStore(str(bench.folder / f"limits-{together}.db"), AtOnce(), clock)
        counts = LocalCounts(clock.seconds, store)

        def act(counts: LocalCounts = counts, clock: Clock = clock, together: int = together) -> None:
            for _ in range(REQUESTS // together):
                begun = [_begin(counts, limits) for _ in range(together)]
                for permit in begun:
                    counts.end(permit, Taken(1, 170, 2_000_000))
                clock.advance(GATHER_SECONDS)

        act()
        milliseconds = bench.best(act) / REQUESTS * 1000
        name = f"three durable rows, {together} requests a commit"
        yield Result(name, f"{milliseconds:.3f} ms a request", "0.2 ms a request")


def _limits(bench: Bench, rows: str) -> Limits:
    config = parse(_CONFIG.format(folder=bench.folder, key=EDGE_KEY, rows=rows), "mgw.yaml", {})
    (client,) = [one for one in clients_of(config.edge_auth) if one.name == "alice"]
    return client.limits


def _begin(counts: LocalCounts, limits: Limits) -> Permit:
    found: list[Any] = []  # Any: a permit
    begun: Any = counts.begin(limits, Taken(1, 300, 3_000_000))
    begun.addCallback(found.append)
    assert isinstance(found[0], Permit), "there is room"
    return found[0]


# What a request holds -------------------------------------------------------------------------------------


def _holds(bench: Bench) -> Iterator[Result]:
    places = dialect_of(DialectName.OPENAI_CHAT).answer_places
    for name, content in _contents():
        body = json.dumps({"max_tokens": 100, "messages": [{"role": "user", "content": content}]}).encode()

        def act(body: bytes = body) -> None:
            input_hold(body)
            output_hold(body, places, 4096)

        milliseconds = bench.best(act) * 1000 / (len(body) / MIB)
        yield Result(f"a hold, body of {name}", f"{milliseconds:.2f} ms per MiB", "2 ms per MiB")


def _contents() -> Iterator[tuple[str, Any]]:  # Any: JSON
    drawn = Random(1)
    yield "words", "the quick brown fox " * (MIB // 20)
    yield "base64", "".join(drawn.choices("ABCDEFGHabcdefgh0123+/", k=MIB))
    yield "runs just too short to be media", ("a" * 1023 + " ") * (MIB // 1024)
    yield "escapes", '\n"\\' * (MIB // 6)
    yield "small parts", [{"type": "text", "text": "hey"} for _ in range(MIB // 32)]


# Usage that is not told -----------------------------------------------------------------------------------


def _estimates(bench: Bench) -> Iterator[Result]:
    events = [_event(f"word{number} ") for number in range(EVENTS)]

    def copied() -> AnswerCopy:
        copy = AnswerCopy(DialectName.OPENAI_CHAT, "seed", in_pieces=False)
        copy.begin(b"text/event-stream", b"")
        for event in events:
            copy.add(event)
        return copy

    streaming = bench.best(copied) / EVENTS * 1e6
    yield Result("an estimate while streaming", f"{streaming:.2f} µs an event", "15 µs an event")
    times = []
    for _ in range(bench.rounds):
        copy = copied()
        began = thread_time()
        copy.estimate(1.0)
        times.append(thread_time() - began)
    at_end = min(times) * 1000
    yield Result(f"… at its end, {EVENTS:,} events", f"{at_end:.1f} ms", "30 ms, in a thread")
    for size in (MIB // 8, MIB):
        content = "the quick brown fox " * (size // 20)
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": content}]}).encode()
        context = RequestContext("m", raw_query=b"", drop_hosted_tools=True)

        def act(body: bytes = body, context: RequestContext = context) -> None:
            estimate_tokens(
                client_side_of(DialectName.OPENAI_CHAT).text.parse_request(body, context).request, 1.0
            )

        milliseconds = bench.best(act) * 1000
        yield Result(f"… of a request of {size // 1024} KiB", f"{milliseconds:.1f} ms", "30 ms, in a thread")


def _event(text: str) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    shown = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }
    return b"data: %b\n\n" % json.dumps(shown).encode()


# Files of keys --------------------------------------------------------------------------------------------


def _looks(bench: Bench) -> Iterator[Result]:
    folder = bench.folder / "keys.d"
    folder.mkdir()
    for number in range(FILES):
        digest = sha256(f"bench-{number}".encode()).hexdigest()
        (folder / f"key{number}.yaml").write_text(
            f"sha256: {digest}\nlimits: [{{requests: 10, per: minute}}]\n"
        )
    rules = key_rules(parse(_CONFIG.format(folder=folder, key=EDGE_KEY, rows=""), "mgw.yaml", {}))
    directory = KeysDirectory(str(folder), rules, pause=lambda _: None)
    directory.read_all()
    assert not directory.faults
    for _ in range(5):
        assert not directory.look()
    milliseconds = bench.best(directory.look) * 1000
    yield Result(f"a look at {FILES:,} files of keys", f"{milliseconds:.1f} ms", "5 ms, in a thread")


if __name__ == "__main__":
    sys.exit(main())
