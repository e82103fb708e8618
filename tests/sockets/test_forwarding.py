"""Requests of operators through a worker to the supervisor, over the sockets of both."""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse, IncompleteRead
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.threads import blockingCallFromThread

from mgw.app.late_app import LateApp
from mgw.app.service import GatewayService
from mgw.web.monitoring import Monitoring
from mgw.web.operations import Operations
from mgw.web.server_request import ServerRequest
from mgw.web.server_response import SLICE_BYTES, send_parts
from mgw.workers.forwarding import forwarding_to
from mgw.workers.internal_listener import InternalListener, WithoutAccessLines
from tests.support.configs import THREE_FAMILIES, config
from tests.support.reactor import in_reactor, running_reactor
from tests.support.waiting import WAIT_SECONDS, wait_until
from tests.support.web_servers import RecordingObserver, no_pause

KEY = "edge-canary-1"
CONFIG = THREE_FAMILIES + f"edge_auth: {{enabled: true, keys: [{KEY}]}}\n"
BEARER = {"Authorization": f"Bearer {KEY}"}
EVENTS = "/v1/dashboard/events"


def monitoring_of(service: GatewayService) -> Monitoring:
    """Return what answers to monitors."""
    monitoring = service.gateway.server.app
    assert isinstance(monitoring, Monitoring)
    return monitoring


def operations_of(service: GatewayService) -> Operations:
    """Return what else answers in place of a provider."""
    late = monitoring_of(service).others
    assert isinstance(late, LateApp)
    operations = late.app
    assert isinstance(operations, Operations)
    return operations


class Fleet:
    """A supervisor that listens for workers, and one worker that clients reach."""

    def __init__(self, directory: Path, user: int) -> None:
        reactor = running_reactor()
        self.supervisor, self.worker = (
            GatewayService(config(CONFIG), lambda: config(CONFIG), reactor, None) for _ in range(2)
        )
        self.supervisor_observer, self.observer = RecordingObserver(), RecordingObserver()
        self.supervisor.gateway.server.observer = WithoutAccessLines(self.supervisor_observer)
        self.worker.gateway.server.observer = self.observer
        self.listener = InternalListener(reactor, self.supervisor.gateway.server, [str(directory)], user)
        self.path = self.listener.start()
        forwarding = forwarding_to(reactor, self.path)
        monitoring_of(self.worker).metrics = forwarding.serve
        operations_of(self.worker).dashboard = forwarding.serve_page
        self._listening = reactor.listenTCP(0, self.worker.gateway.channels, interface="127.0.0.1")
        self.port: int = self._listening.getHost().port

    def ask(self, path: str, method: str = "GET", body: str | None = None, **headers: str) -> HTTPResponse:
        """Send a request on a connection of its own, which closes with the response."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        connection.request(method, path, body, {"Connection": "close", **headers})
        return connection.getresponse()

    def read(self, what: Callable[[], Any]) -> Any:
        """Return something that only the reactor's thread may look at."""
        return blockingCallFromThread(running_reactor(), what)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left of any request."""
        return bool(
            self.read(
                lambda: (
                    not (self.supervisor.gateway.server.in_flight or self.worker.gateway.server.in_flight)
                    and not (self.listener.channels.channels or self.worker.gateway.channels.channels)
                )
            )
        )

    async def stop(self) -> None:
        await self._listening.stopListening()
        self.worker.gateway.channels.abort()
        await self.worker.gateway.channels.stopped()
        await self.listener.stop()


@contextmanager
def running_fleet(directory: Path, user: int = os.geteuid()) -> Iterator[Fleet]:
    async def start() -> Fleet:
        return Fleet(directory, user)

    fleet = in_reactor(start)
    try:
        yield fleet
    finally:
        in_reactor(fleet.stop)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with running_fleet(tmp_path) as fleet:
        yield fleet
    assert list(tmp_path.iterdir()) == []


def test_metrics_and_the_dashboard_come_from_the_supervisor(fleet: Fleet) -> None:
    folder = Path(fleet.path).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert fleet.ask("/metrics").status == 401
    assert b"mgw_" in fleet.ask("/metrics", **BEARER).read()
    assert fleet.ask("/ui").status == 401
    signed = fleet.ask("/ui/login", "POST", f'{{"key": "{KEY}"}}')
    assert (signed.status, signed.read()) == (204, b"")
    cookie = (signed.getheader("Set-Cookie") or "").partition(";")[0]
    assert b"<html" in fleet.ask("/ui", Cookie=cookie).read()
    wait_until(lambda: fleet.is_idle, "the end of all connections")
    assert [line[1:] for line in fleet.observer.lines] == [
        *(("/metrics", 401), ("/metrics", 200), ("/ui", 401), ("/ui/login", 204), ("/ui", 200)),
    ]
    assert fleet.supervisor_observer.lines == []


def test_a_client_that_reads_nothing_holds_up_the_supervisor_and_not_memory(fleet: Fleet) -> None:
    pieces = 0
    size = 512 * SLICE_BYTES

    def pause() -> Awaitable[None]:
        nonlocal pieces
        pieces += 1
        return no_pause()

    async def send_much(request: ServerRequest) -> None:
        parts = [bytes(SLICE_BYTES)] * 512
        await send_parts(request.response, b"text/plain", parts, [], pause)

    monitoring_of(fleet.supervisor).metrics = send_much
    response = fleet.ask("/metrics", **BEARER)
    wait_until(lambda: is_stalled(fleet), "both to wait for the client")
    assert 0 < pieces < 128
    assert len(response.read()) == size


def is_stalled(fleet: Fleet) -> bool:
    """Whether both the worker and the supervisor have written as much as the next one takes."""

    def stalled() -> bool:
        (worker,), (supervisor,) = fleet.worker.gateway.channels._open, fleet.listener.channels._open
        return worker._client.is_full and supervisor._client.is_full

    return bool(fleet.read(stalled))


def test_a_client_that_leaves_its_events_is_gone_from_the_supervisor(fleet: Fleet) -> None:
    with closing(fleet.ask(EVENTS, **BEARER)) as events:
        assert events.readline() == b"retry: 2000\n"
        assert fleet.read(lambda: fleet.supervisor.gateway.server.in_flight) == 1
    wait_until(lambda: fleet.is_idle, "the supervisor to know")


def test_a_supervisor_that_dies_breaks_its_responses_and_is_missed(fleet: Fleet) -> None:
    with closing(fleet.ask(EVENTS, **BEARER)) as events:
        assert events.readline() == b"retry: 2000\n"
        fleet.read(fleet.listener.channels.abort)
        in_reactor(fleet.listener.stop)
        with pytest.raises(IncompleteRead):
            events.read()
    away = fleet.ask("/metrics", **BEARER)
    assert (away.status, away.getheader("Retry-After")) == (503, "1")
    assert b"overloaded" in away.read()


def test_processes_of_other_users_are_cut_off(tmp_path: Path) -> None:
    with running_fleet(tmp_path, os.geteuid() + 1) as fleet:
        assert fleet.ask("/ui").status == 503
        assert fleet.supervisor_observer.lines == []
