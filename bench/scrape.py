"""Measure how long a large page of metrics holds the gateway::

    python -m bench.scrape [--providers 40] [--scrapes 20]

A gateway gets a request on each of some fifty routes for each provider, and is then scraped over a socket by
another process.  Told are the size of the page, the longest turn of the reactor during each scrape, in CPU
time of its thread (the first, which meets rows that were never rendered; then median and worst),
and the same for as long without any scrape.
"""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, Final

from mgw.app.service import GatewayService
from mgw.config.load import parse
from mgw.nouns.vocabulary import DialectName
from mgw.ops.logs import LogFile
from mgw.routing.route import Treatment
from mgw.routing.routes import ROUTES

_HOST: Final = "127.0.0.1"
_QUIET_SECONDS: Final = 0.05


class _Provider(BaseHTTPRequestHandler):
    """Answers everything."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one write

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def play_the_others(pipe: Connection, providers: int, scrapes: int) -> None:
    """Be the provider, the clients and the scraper; tell the port, and when a scrape begins and ends."""
    server = ThreadingHTTPServer((_HOST, 0), _Provider)
    Thread(target=server.serve_forever, daemon=True).start()
    pipe.send(server.server_port)
    client = HTTPConnection(_HOST, pipe.recv())
    for path in _paths():
        for number in range(providers):
            client.request("GET", f"{path}?provider=p{number}")
            answer = client.getresponse()
            answer.read()
            if answer.status != 200:
                raise SystemExit(f"{path} was answered with {answer.status}")
    for _ in range(scrapes):
        pipe.send(0)
        time.sleep(_QUIET_SECONDS)
        pipe.send(1)
        client.request("GET", "/metrics")
        pipe.send(len(client.getresponse().read()))
    pipe.send(None)


def _paths() -> list[str]:
    return [
        route.path
        for route in ROUTES
        if route.dialect is DialectName.OPENAI
        and route.method == "GET"
        and route.treatment is Treatment.RELAY
        and "{" not in route.path
    ]


class _Turns:
    """Measures the turns of a reactor, and follows what the other process tells."""

    def __init__(self, reactor: Any, pipe: Connection) -> None:  # Any: a reactor has no one type
        self._reactor = reactor
        self._pipe = pipe
        self._told: int | None = None
        self._last = time.thread_time()
        self._longest = 0.0
        self.quiet: list[float] = []
        self.scraping: list[float] = []
        self.page_bytes = 0

    def turn(self) -> None:
        """One turn more has passed."""
        now = time.thread_time()
        self._longest = max(self._longest, now - self._last)
        if self._pipe.poll() and not self._read():
            return
        self._last = time.thread_time()
        self._reactor.callLater(0, self.turn)

    def _read(self) -> bool:
        told = self._pipe.recv()
        if told is None:
            self._reactor.stop()
            return False
        if told == 1:
            self.quiet.append(self._longest)
        elif told:
            self.scraping.append(self._longest)
            self.page_bytes = told
        self._longest = 0.0
        return True


def main() -> None:
    """Measure, and print."""
    parser = ArgumentParser(description="How long a page of metrics holds the gateway.")
    parser.add_argument("--providers", type=int, default=40)
    parser.add_argument("--scrapes", type=int, default=20)
    options = parser.parse_args()
    pipe, theirs = get_context("spawn").Pipe()
    others = get_context("spawn").Process(
        target=play_the_others, args=(theirs, options.providers, options.scrapes), daemon=True
    )
    others.start()
    from twisted.internet import reactor  # here, since importing it installs one

    with TemporaryDirectory() as folder:
        url = f"http://{_HOST}:{pipe.recv()}/v1"
        names = "\n".join(
            f'  p{number}: {{kind: openai, base_url: "{url}", api_key: bench-key}}'
            for number in range(options.providers)
        )
        text = (
            f"providers:\n{names}\nlisten: {_HOST}:0\nspool: {{dir: {folder}}}\n"
            f"hooks: {{jsonl: {{output: {folder}/events}}}}\n"
        )
        config = parse(text, "mgw.yaml", {})
        service = GatewayService(config, lambda: config, reactor, LogFile(os.devnull))
        service.privilegedStartService()
        service.startService()
        turns = _Turns(reactor, pipe)

        def begin() -> None:
            if not service.addresses:
                reactor.callLater(0.01, begin)  # type: ignore[attr-defined]  # Twisted types its reactor as a module
                return
            pipe.send(int(service.addresses[0].rpartition(":")[2]))
            turns.turn()

        reactor.callLater(0, begin)  # type: ignore[attr-defined]  # as above
        reactor.run()  # type: ignore[attr-defined]  # as above
    print(f"page: {turns.page_bytes / 1e6:.1f} MB")
    print(f"longest turn of the first scrape: {turns.scraping[0] * 1e3:.2f} ms")
    for name, found in (("scraped", turns.scraping[1:]), ("quiet", turns.quiet[1:])):
        print(f"longest turn, {name}: median {median(found) * 1e3:.2f} ms, worst {max(found) * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
