"""One program's side: what it can translate, measured in a process of its own.

::

    python -m bench.translation.side ours|litellm|rosetta SAMPLES FILE

The interpreter is one that has the program installed.  The results go to FILE as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol

from bench.translation.tally import Tally, of_body, of_stream
from bench.translation.timing import samples, settle
from tests.support.talks import agent, chat, first_lines
from tests.support.wires import WIRES, answer, request, stream

SIDES = {
    "ours": "bench.translation.ours",
    "litellm": "bench.translation.litellm_side",
    "rosetta": "bench.translation.rosetta_side",
}
REQUEST = "request"
ANSWER = "answer"
STREAM = "stream"
TEXT_CHARACTERS = 1600
"""Of the streamed text: 400 chunks of four characters."""

Work = Callable[[], bytes]
"""From bytes to bytes, JSON included."""


class Side(Protocol):
    """What can be measured; ``None`` where a program has no such conversion."""

    version: str

    def request(self, client: str, provider: str, body: bytes) -> Work | None:
        """A client's request, told to a provider; where both are one wire, passed on."""

    def answer(self, client: str, provider: str, asked: bytes, body: bytes) -> Work | None:
        """A provider's whole answer to the request ``asked``, told to the client."""

    def stream(self, client: str, provider: str, asked: bytes, events: list[bytes]) -> Work | None:
        """The same in pieces, with one event in each read."""


class Item(NamedTuple):
    """One thing to measure."""

    case: str
    client: str
    provider: str
    what: str
    units: int
    """By what the time is divided: 1, or the events of the stream."""
    work: Work
    tally: Callable[[bytes], Tally]

    @property
    def key(self) -> str:
        """Its name in the results."""
        return key(self.case, self.client, self.provider, self.what)


def key(case: str, client: str, provider: str, what: str) -> str:
    """The name of one thing in the results."""
    return f"{case}: {client} > {provider}: {what}"


def items(side: Side) -> Iterator[Item]:
    """All that ``side`` can do with the cases."""
    for client in WIRES:
        for provider in WIRES:
            yield from _unary(side, client, provider)
            yield from _streams(side, client, provider)


def _unary(side: Side, client: str, provider: str) -> Iterator[Item]:
    for talk in (chat(), agent()):
        asked = request(client, talk)
        work = side.request(client, provider, asked)
        if work is not None:
            yield Item(talk.name, client, provider, REQUEST, 1, work, of_body)
        work = side.answer(client, provider, asked, answer(provider, talk))
        if work is not None:
            yield Item(talk.name, client, provider, ANSWER, 1, work, of_body)


def _streams(side: Side, client: str, provider: str) -> Iterator[Item]:
    cases = (("text", chat(), first_lines(chat(), TEXT_CHARACTERS)), ("calls", agent(), agent().answer))
    for name, talk, said in cases:
        asked, events = request(client, talk, stream=True), stream(provider, said)
        work = side.stream(client, provider, asked, events)
        if work is not None:
            yield Item(name, client, provider, STREAM, len(events), work, of_stream)


def main(name: str, count: int, to: Path) -> None:
    """Measure one side."""
    module = import_module(SIDES[name])
    side: Side = module.side()
    found = list(items(side))
    tallies: dict[str, Tally] = {}
    problems: dict[str, str] = {}
    for item in found:
        try:
            tallies[item.key] = item.tally(item.work())
        except Exception as problem:  # another program's, of whatever kind
            problems[item.key] = f"{type(problem).__name__}: {problem}"
    settle()
    measured = {
        item.key: [one / item.units for one in samples(item.work, count)]
        for item in found
        if item.key in tallies
    }
    result = {"version": side.version, "samples": measured, "tallies": tallies, "problems": problems}
    to.write_text(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
