"""The running gateway: what a request and a chunk cost its process, relayed and translated, side by side.

One process serves all: which provider the model names decides whether its answer is relayed or translated.
The machinery is that of ``bench.run``: the load and the upstream on one core, the gateway on the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.load import NothingMeasuredError, Streams, Unary, streams, unary
from bench.measure import progress, wait_until_quiet
from bench.processes import Bench, DidNotStartError, Server
from bench.translation.wires import ANTHROPIC, CHAT, GEMINI, WIRES

PROVIDERS = {CHAT: "up/", ANTHROPIC: "messages/", GEMINI: "contents/"}
DIRECTIONS = tuple((client, provider) for client in WIRES for provider in WIRES)
Direction = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of everything."""

    rounds: int = 3
    unary_seconds: int = 2
    connections: int = 32
    kib: int = 4
    streams: int = 100
    paced_chunks: int = 200
    interval_ms: int = 10
    flat_streams: int = 64
    flat_chunks: int = 1000


@dataclass(slots=True)
class Found:
    """What one direction gave: a list with one entry for each round."""

    unary: list[Unary] = field(default_factory=list)
    paced: list[Streams] = field(default_factory=list)
    flat: list[Streams] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def measure(folder: Path, plan: Plan) -> dict[Direction, Found]:
    """Measure every direction in every round, so that a bad minute hits all of them."""
    found = {direction: Found() for direction in DIRECTIONS}
    with Bench(folder) as bench:
        try:
            gateway = bench.start("gateway")
        except DidNotStartError as problem:
            return {direction: Found(problems=[str(problem)]) for direction in DIRECTIONS}
        for direction in DIRECTIONS:
            unary(_asked(gateway, direction), folder, plan.kib, plan.connections, 1)
        for number in range(plan.rounds):
            for direction in DIRECTIONS:
                progress(f"round {number + 1} of {plan.rounds}: {' > '.join(direction)}")
                _round(_asked(gateway, direction), folder, plan, found[direction])
    return found


def _asked(gateway: Server, direction: Direction) -> Server:
    client, provider = direction
    return replace(gateway, name=" > ".join(direction), wire=client, model_prefix=PROVIDERS[provider])


def _round(server: Server, folder: Path, plan: Plan, found: Found) -> None:
    try:
        wait_until_quiet(server)
        found.unary.append(unary(server, folder, plan.kib, plan.connections, plan.unary_seconds))
        wait_until_quiet(server)
        found.paced.append(streams(server, folder, plan.streams, plan.paced_chunks, plan.interval_ms))
        wait_until_quiet(server)
        found.flat.append(streams(server, folder, plan.flat_streams, plan.flat_chunks, 0))
    except (NothingMeasuredError, OSError) as problem:
        found.problems.append(f"{type(problem).__name__}: {problem}")
