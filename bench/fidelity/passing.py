"""Within an API: whether the provider receives the client's bytes, and the client the provider's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from bench.fidelity.corpus import MODEL, answers, requests
from bench.fidelity.sides import PATHS, Side
from bench.fidelity.upstream import ANSWERS, CHAT, CONTENTS, MESSAGES, RESPONSES, Provider

PROVIDERS: Final = {CHAT: "openai", RESPONSES: "openai", MESSAGES: "anthropic", CONTENTS: "gemini"}


@dataclass(slots=True)
class Passed:
    """What became of the bodies of one direction."""

    bodies: int = 0
    changed: int = 0
    lost: set[str] = field(default_factory=set)
    """Fields that the other side did not receive, by path."""
    failed: list[str] = field(default_factory=list)

    def compare(self, sent: bytes, got: bytes) -> None:
        """Count a body."""
        self.bodies += 1
        if sent == got:
            return
        self.changed += 1
        self.lost |= set(_fields(sent)) - set(_fields(got))


@dataclass(slots=True)
class Passing:
    """What a gateway does to the bytes of one wire."""

    requests: Passed = field(default_factory=Passed)
    whole: Passed = field(default_factory=Passed)
    streams: Passed = field(default_factory=Passed)


def passing(side: Side, upstream: Provider) -> dict[str, Passing]:
    """Send the corpus of each wire to a provider of the same API."""
    return {wire: _of_wire(side, upstream, wire) for wire in PATHS}


def _of_wire(side: Side, upstream: Provider, wire: str) -> Passing:
    found = Passing()
    for is_stream in (False, True):
        upstream.is_stream = is_stream
        received = found.streams if is_stream else found.whole
        written = requests(wire, is_stream=is_stream)
        for answer in answers(wire, is_stream=is_stream):
            upstream.answers[wire] = answer
            for body in written:
                _exchange(side, upstream, wire, body, answer, found.requests, received)
    upstream.is_stream, upstream.answers = False, dict(ANSWERS)
    return found


def _exchange(
    side: Side, upstream: Provider, wire: str, body: bytes, answer: bytes, sent: Passed, received: Passed
) -> None:
    model = side.model(PROVIDERS[wire])
    got = side.ask(wire, model, body.replace(MODEL, model.encode()), is_stream=upstream.is_stream)
    up = upstream.take()
    if up is None or got.status != 200:
        sent.failed.append(f"{wire}: {got.status} {got.body[:200]!r}")
        return
    sent.compare(body.replace(MODEL, b"m"), up.body)
    received.compare(answer, got.body)


def _fields(body: bytes) -> Iterator[str]:
    """Yield the path of every field of a body: of JSON, or of a stream's events."""
    try:
        yield from _paths(json.loads(body))
    except ValueError:
        for line in body.splitlines():
            if line.startswith(b"data:") and line[5:].lstrip().startswith(b"{"):
                yield from _paths(json.loads(line[5:]))


def _paths(value: object, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            here = f"{path}.{key}" if path else key
            yield here
            yield from _paths(inner, here)
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, f"{path}[]")
