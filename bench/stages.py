"""Measure what each stage of a stream costs: ``python -m bench.stages [--streams N] [--rounds N]``.

The gateway runs in this process, on an ordinary reactor, between plain sockets that play its clients and its
provider.  All streams go through a stage together.  Only the gateway's turns count: the time of this thread,
the kernel's included, and of several rounds the least.
"""

from __future__ import annotations

import argparse
import gc
import os
import select
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from time import sleep, thread_time
from typing import Any, Final

from twisted.internet.epollreactor import EPollReactor

from bench.processes import free_port
from mgw.app.service import GatewayService
from mgw.config.load import parse
from mgw.ops.logs import LogFile
from mgw.reactor.twisted_fast.event_loop import EventLoop
from tests.support.in_memory.cases import StreamCase, cases
from tests.support.in_memory.gateway import EDGE_KEY
from tests.support.in_memory.reactor import LinesAtOnce

_CONFIG: Final = """
listen: "127.0.0.1:{port}"
providers:
  up: {{kind: openai_compat, base_url: "http://127.0.0.1:{provider}/v1", api_key: bench-upstream-key}}
edge_auth: {{enabled: true, keys: ["{key}"]}}
hooks:
  jsonl: {{output: "{events}"}}
"""
_MOST_TURNS: Final = 20_000
_REST_SECONDS: Final = 0.05
"""For what is written down later, between two rounds."""
_READ_BYTES: Final = 64 * 1024

Sockets = list[socket.socket]


class StuckError(Exception):
    """The streams did not come through a stage."""


class StreamStages:
    """A gateway, and streams that go through it stage by stage."""

    def __init__(self, streams: int, case: StreamCase) -> None:
        self._streams = streams
        self._case = case
        self.microseconds: dict[str, float] = {}
        """The least time of a stream in each stage."""
        self._reactor: Any = EPollReactor()  # Any: it has more than its interfaces
        self._reactor.running = True
        self._provider = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._port = free_port()
        numbers = {"port": self._port, "provider": self._provider.getsockname()[1]}
        text = _CONFIG.format(**numbers, key=EDGE_KEY, events=os.devnull)
        config = parse(text, "mgw.yaml", {})
        log = LogFile(os.devnull)
        self._service = GatewayService(config, lambda: config, self._reactor, log, LinesAtOnce)
        before = signal.getsignal(signal.SIGHUP)
        self._service.privilegedStartService()
        self._service.startService()
        signal.signal(signal.SIGHUP, before)
        EventLoop(self._reactor).use(fast=True)

    def run(self) -> None:
        """Take as many streams as there are from the first stage to the last."""
        count, case, service = self._streams, self._case, self._service
        clients = [socket.create_connection(("127.0.0.1", self._port)) for _ in range(count)]
        self._measure("a client is accepted", lambda: service.gateway.channels.channels == count)
        provider: Sockets = []
        _send(clients, case.request)
        self._measure("request, sent on a new connection", lambda: self._has_requests(provider))
        _send(provider, case.opening)
        self._measure("head of the response and first chunk", lambda: _all_readable(clients))
        _send(provider, case.chunk)
        self._measure("a chunk", lambda: _all_readable(clients))
        _send(provider, case.ending)
        self._measure("last chunk and records", lambda: service.gateway.server.in_flight == 0)
        _close(clients)
        self._measure("the client closes", lambda: service.gateway.channels.channels == 0)
        for connection in provider:
            connection.shutdown(socket.SHUT_WR)
        self._measure("the provider closes", lambda: _all_readable(provider))
        _close(provider)
        sleep(_REST_SECONDS)
        self._turn()
        gc.collect()

    def _measure(self, stage: str, is_over: Callable[[], bool]) -> None:
        """Turn the reactor until a stage is over, and note what the turns took."""
        spent = 0.0
        for _ in range(_MOST_TURNS):
            begun = thread_time()
            self._turn()
            spent += thread_time() - begun
            if is_over():
                break
        else:
            raise StuckError(stage)
        each = spent / self._streams * 1e6
        self.microseconds[stage] = min(each, self.microseconds.get(stage, each))

    def _turn(self) -> None:
        self._reactor.runUntilCurrent()
        self._reactor.doIteration(0)

    def _has_requests(self, provider: Sockets) -> bool:
        """Accept the gateway's connections; say whether a request has come on each."""
        while len(provider) < self._streams and _is_readable(self._provider):
            provider.append(self._provider.accept()[0])
        return len(provider) == self._streams and _all_readable(provider)


def _send(sockets: Sockets, data: bytes) -> None:
    """Read what has come, and send the same on each."""
    for one in sockets:
        with suppress(BlockingIOError):
            while one.recv(_READ_BYTES, socket.MSG_DONTWAIT):
                pass
        one.sendall(data)


def _close(sockets: Sockets) -> None:
    for one in sockets:
        one.close()


def _is_readable(one: socket.socket) -> bool:
    return _all_readable([one])


def _all_readable(sockets: Sockets) -> bool:
    poll = select.poll()
    for one in sockets:
        poll.register(one, select.POLLIN)
    return len(poll.poll(0)) == len(sockets)


def main() -> None:
    """Print what each stage takes."""
    parser = argparse.ArgumentParser(prog="bench.stages", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--streams", type=int, default=400, help="how many at once")
    parser.add_argument("--rounds", type=int, default=5, help="the fastest counts")
    options = parser.parse_args()
    case = cases()["chunk, relayed"]
    assert isinstance(case, StreamCase)
    stages = StreamStages(options.streams, case)
    gc.collect()
    gc.freeze()
    gc.disable()
    for _ in range(options.rounds):
        stages.run()
    for stage, microseconds in stages.microseconds.items():
        print(f"{stage:40} {microseconds:8.1f} us")


if __name__ == "__main__":
    main()
