"""What is run, against which servers, and what is read from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.load import Streams, Unary, open_streams, streams, unary
from bench.processes import Server
from bench.ratios import sides

Run = Callable[[Server, Path], Unary | Streams]
OPEN = 5000
"""Streams that are open at a time, where there are many."""
OPENED_PER_SECOND = 1000
_UNKNOWN_HEADER = "x-bench-number"


@dataclass(frozen=True, slots=True)
class Step:
    """One load, the servers that it is put on in turn, and how often."""

    name: str
    servers: tuple[str, ...]
    run: Run
    rounds: int = 3


def _loaded(kib: int, *options: str) -> Run:
    return lambda server, folder: unary(server, folder, kib, 32, 2, *options)


def _alone(server: Server, folder: Path) -> Unary:
    return unary(server, folder, 1, 1, 1)


def _paced(server: Server, folder: Path) -> Streams:
    """100 streams of 50 chunks a second, for two seconds."""
    return streams(server, folder, 100, 100, 20)


def _slow(server: Server, folder: Path) -> Streams:
    """Many streams with a chunk a second each."""
    return streams(server, folder, OPEN, 6, 1000, OPENED_PER_SECOND)


def _beside_open_streams(server: Server, folder: Path) -> Unary:
    with open_streams(server, folder, OPEN, "-r", str(OPENED_PER_SECOND)):
        return unary(server, folder, 1, 32, 2)


_BOTH = (sides.NGINX, sides.GATEWAY)
_ALL = (sides.DIRECT, *_BOTH)
_TLS = (sides.TLS_NGINX, sides.TLS_GATEWAY)
_WIRES = (sides.TO_ANTHROPIC, sides.FROM_ANTHROPIC, sides.TO_GEMINI)
_RIVALS = (sides.GATEWAY, sides.LITELLM, sides.PORTKEY)
RIVALS, PACED_RIVALS = "rivals", "paced, rivals"
UNARY, ALONE, PACED, SLOW = "unary", "alone", "paced", "slow"
UNARY_TLS, PACED_TLS = "unary, TLS", "paced, TLS"
UNARY_4K, PACED_TRANSLATED = "unary, 4 kB", "paced, translated"
TRACED, UNKNOWN, BESIDE, LARGE = "traceparent", "unknown header", "beside open streams", "configured large"
STEPS = (
    Step(UNARY, _BOTH, _loaded(1)),
    Step(ALONE, _ALL, _alone),
    Step(PACED, _ALL, _paced),
    Step(UNARY_TLS, _TLS, _loaded(1)),
    Step(PACED_TLS, _TLS, _paced),
    Step(UNARY_4K, (*_BOTH, *_WIRES), _loaded(4), 2),
    Step(PACED_TRANSLATED, _WIRES, _paced, 2),
    Step(TRACED, _BOTH, _loaded(1, "traceparent"), 2),
    Step(UNKNOWN, _BOTH, _loaded(1, _UNKNOWN_HEADER), 2),
    Step(LARGE, (sides.GATEWAY, sides.ONE_ALIAS, sides.MANY_ALIASES, sides.MANY_KEYS), _loaded(1), 2),
    Step(RIVALS, _RIVALS, lambda server, folder: unary(server, folder, 1, 4, 6), 1),
    Step(PACED_RIVALS, _RIVALS, lambda server, folder: streams(server, folder, 5, 100, 20), 1),
    Step(SLOW, _ALL, _slow, 1),
    Step(BESIDE, (sides.GATEWAY,), _beside_open_streams, 1),
)
