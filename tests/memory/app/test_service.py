"""The composition root on a reactor in memory: start, reload, drain and stop, without a process."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, Final

import pytest
from twisted.application.service import Application
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

import mgw.config.dashboard
from mgw.app.gateway import StartError
from mgw.app.service import GatewayService
from mgw.config.problems import ConfigError, Problem
from mgw.config.secrets import secrets_of
from mgw.config.settings import Config
from mgw.ops.logs import LogFile
from mgw.ops.reload_status import ReloadPhase
from mgw.web.channel import GatewayChannel
from tests.support.certificates import authority, issue
from tests.support.channels import channel_of, get, post
from tests.support.configs import THREE_FAMILIES, config
from tests.support.usage import ended_of, exchange
from tests.support.waiting import WAIT_SECONDS


class Reactor(MemoryReactorClock):
    """A reactor in memory that other threads may call, as the threads that write do."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's
        self._calls: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self.stops = 0

    def callFromThread(self, work: Callable[..., object], *arguments: object) -> None:
        self._calls.put(lambda: work(*arguments))

    def stop(self) -> None:
        self.stops += 1

    def turn(self) -> None:
        """Do the next thing that a thread has asked for."""
        self._calls.get(timeout=WAIT_SECONDS)()


@implementer(ILogObserver)
@dataclass
class Log:
    """The texts of what is logged."""

    lines: list[str] = field(default_factory=list)

    def __call__(self, event: LogEvent) -> None:
        self.lines.append(formatEvent(event))

    def has(self, words: str) -> bool:
        return any(words in line for line in self.lines)


@pytest.fixture
def log() -> Iterator[Log]:
    found = Log()
    globalLogPublisher.addObserver(found)
    yield found
    globalLogPublisher.removeObserver(found)


@pytest.fixture(autouse=True)
def same_signals() -> Iterator[None]:
    """Leave the handlers of the test run as they were."""
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@dataclass
class ServiceHarness:
    """A service that has started, and the file that it reads."""

    reactor: Reactor
    service: GatewayService
    settings: Config | ConfigError
    clients: list[GatewayChannel] = field(default_factory=list)

    def reload(self, settings: Config | ConfigError) -> None:
        self.settings = settings
        self.service.reloader.reload()
        self.finish_reload()

    def finish_reload(self) -> None:
        """Let clock and thread run until no reload is under way."""
        while self.service.reloader.is_reloading:
            self.reactor.turn()
            self.reactor.advance(0)

    def request(self, data: bytes) -> StringTransport:
        channel, transport = channel_of(self.service.gateway.channels), StringTransport()
        channel.makeConnection(transport)  # type: ignore[no-untyped-call]  # Twisted's
        self.clients.append(channel)
        channel.dataReceived(data)
        return transport

    def hang_up(self) -> None:
        """Let every client go."""
        while self.clients:
            self.clients.pop().connectionLost(Failure(ConnectionDone()))

    def stop(self) -> list[None]:
        """Begin to stop; the list has an entry once that is done."""
        done: list[None] = []
        _ = self.service.stopService().addCallback(done.append)
        return done

    def until(self, done: list[None]) -> None:
        """Let clock and threads run until a stop is done."""
        self.reactor.advance(0)
        while not done:
            self.reactor.turn()
            self.reactor.advance(0)


def made(settings: Config, log_file: LogFile | None = None) -> ServiceHarness:
    reactor = Reactor()

    def read_config() -> Config:
        if isinstance(harness.settings, ConfigError):
            raise harness.settings
        return harness.settings

    harness = ServiceHarness(reactor, GatewayService(settings, read_config, reactor, log_file), settings)
    return harness


def started(text: str = THREE_FAMILIES, log_file: LogFile | None = None) -> ServiceHarness:
    harness = made(config(text), log_file)
    harness.service.privilegedStartService()
    harness.service.startService()
    harness.reactor.run()  # type: ignore[no-untyped-call]  # Twisted's
    harness.reactor.stops = 0  # a run in memory ends by itself
    return harness


UPLOADING = post(b"{}", path="/v1/messages")[:-1]


@contextmanager
def ended(harness: ServiceHarness) -> Iterator[ServiceHarness]:
    """Stop the service behind a test, so that its threads end."""
    try:
        yield harness
    finally:
        done = harness.stop()
        harness.hang_up()
        harness.until(done)


def test_it_listens_where_the_configuration_says() -> None:
    harness = started(THREE_FAMILIES + "listen: 127.0.0.9:1234\n")
    with ended(harness):
        ((port, _, _, interface),) = harness.reactor.tcpServers
        assert (interface, port) == ("127.0.0.9", 1234)


def test_it_says_that_it_serves_only_once_the_reactor_runs(log: Log) -> None:
    harness = made(config())
    harness.service.privilegedStartService()
    harness.service.startService()
    with ended(harness):
        assert not log.has("mgw serves")
        harness.reactor.run()  # type: ignore[no-untyped-call]  # Twisted's
        assert log.has("mgw serves http://")


ON = "dashboard at http://localhost:1234/ui, for clients on this machine only: dashboard.keys is not set"
OFF = "the dashboard is off: to turn it on, set dashboard.enabled to true"


def said_of_the_dashboard(log: Log) -> list[str]:
    return [line for line in log.lines if "dashboard" in line]


def test_it_says_where_the_dashboard_is_once_it_serves(log: Log) -> None:
    with ended(started(THREE_FAMILIES + "listen: 127.0.0.9:1234\n")):
        assert said_of_the_dashboard(log) == [ON]


def test_it_says_that_the_dashboard_is_off(log: Log) -> None:
    with ended(started(THREE_FAMILIES + "dashboard: {enabled: false}\n")):
        assert said_of_the_dashboard(log) == [OFF]


def test_it_starts_without_a_dashboard_that_is_not_installed_and_warns_of_it(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mgw.config.dashboard, "NEEDED_PACKAGE", "a_package_that_nobody_has")
    with ended(started(THREE_FAMILIES + "# configurations are remembered by their text\n")) as harness:
        (warning,) = said_of_the_dashboard(log)
        assert warning.startswith(
            "the dashboard is not installed: it needs the package a_package_that_nobody"
        )
        assert warning.endswith("; the gateway runs without it")
        assert harness.request(get("/readyz")).value().startswith(b"HTTP/1.1 200 ")


def test_a_reload_says_where_the_dashboard_is_only_if_that_has_changed(log: Log) -> None:
    listen = THREE_FAMILIES + "listen: 127.0.0.9:1234\n"
    harness = started(listen)
    with ended(harness):
        harness.reload(config(listen + "drain_seconds: 5\n"))
        harness.reload(config(listen + "dashboard: {enabled: false}\n"))
        harness.reload(config(listen))
        assert said_of_the_dashboard(log) == [ON, OFF, ON]


def test_the_start_and_a_reload_warn_of_a_setting_that_was_removed(log: Log) -> None:
    text = THREE_FAMILIES + "express: false\n"
    harness = started(text)
    with ended(harness):
        harness.reload(config(text + "drain_seconds: 5\n"))
        assert len([line for line in log.lines if ": express: removed, " in line]) == 2
        assert harness.service.gateway.server.generation.number == 2


def test_a_reload_says_what_has_become_of_each_key_of_the_configuration(log: Log) -> None:
    def keys(*named: str) -> Config:
        listed = ", ".join(f"{{{one}}}" for one in named)
        return config(
            f"{THREE_FAMILIES}edge_auth: {{enabled: true, groups: {{ops: {{}}}}, keys: [{listed}]}}\n"
        )

    alice, bob, carol = (f"name: {name}, key: edge-canary-{name}" for name in ("alice", "bob", "carol"))
    harness = made(keys(alice, bob))
    harness.service.privilegedStartService()
    harness.service.startService()
    harness.reactor.run()  # type: ignore[no-untyped-call]  # Twisted's
    with ended(harness):
        harness.reload(keys(f"{bob}-2, groups: [ops], max_in_flight: 3, disabled: true", carol))
        harness.reload(keys(f"{bob}-2, groups: [ops], max_in_flight: 3, disabled: true", carol))
        assert [line for line in log.lines if line.startswith("key ")] == [
            "key alice: removed",
            "key bob: changed (rotated, disabled, limits, groups)",
            "key carol: added",
        ]
        assert not log.has("canary")


def test_a_second_reload_is_a_third_generation() -> None:
    harness = started()
    with ended(harness):
        harness.reload(config())
        harness.reload(config(THREE_FAMILIES + "drain_seconds: 5\n"))
        generation = harness.service.gateway.server.generation
        assert (generation.number, generation.config.drain_seconds) == (3, 5)


def test_a_reload_reaches_whatever_outlives_a_configuration() -> None:
    harness = started()
    with ended(harness):
        more = (
            "spool: {body_memory: 77}\ntimeouts: {client_idle: 7}\nedge_auth: {enabled: true, keys: [edge]}\n"
        )
        harness.reload(config(THREE_FAMILIES + more))
        assert harness.service.gateway.server.budget.max_bytes == 77
        assert harness.service.gateway.channels.limits.client_idle == 7
        assert harness.request(get("/v1/models")).value().startswith(b"HTTP/1.1 401 ")


def test_an_invalid_file_leaves_all_as_it_is(log: Log) -> None:
    harness = started()
    with ended(harness):
        before = harness.service.gateway.server.generation
        with pytest.raises(ConfigError) as wrong:
            config("providers: {}")
        harness.reload(wrong.value)
        assert harness.service.gateway.server.generation is before
        assert log.has("the configuration was not reloaded; the previous one stays")
        harness.reload(config())
        assert harness.service.gateway.server.generation.number == 2


def test_a_certificate_that_cannot_be_read_leaves_the_old_output_too(tmp_path: Path, log: Log) -> None:
    files = issue(authority(tmp_path), "localhost")
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    text = THREE_FAMILIES + f"tls: {{cert_file: {files.cert_file}, key_file: {files.key_file}}}\n"
    harness = started(text + f"hooks: {{jsonl: {{output: {old}}}}}\n")
    with ended(harness):
        files.cert_file.write_text("nothing")
        harness.reload(config(text + f"hooks: {{jsonl: {{output: {new}}}}}\n"))
        assert log.has("contains no PEM certificate")
        harness.request(post(b"{}", path="/v1/messages"))
    assert b'"http_status":400' in old.read_bytes()
    assert not new.exists()


def outcomes(file: Path) -> list[int]:
    """The statuses of the events in a file."""
    return [json.loads(line)["http_status"] for line in file.read_bytes().splitlines()]


def test_what_ended_before_a_reload_is_told_to_the_sinks_of_that_time(tmp_path: Path) -> None:
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    harness = started(THREE_FAMILIES + f"hooks: {{jsonl: {{output: {old}}}}}\n")
    with ended(harness):
        harness.request(post(b"{}", path="/v1/messages"))
        harness.reload(config(THREE_FAMILIES + f"hooks: {{jsonl: {{output: {new}}}}}\n"))
        harness.request(post(b"{}", path="/v1/messages"))
    assert outcomes(old) == [400]
    assert outcomes(new) == [400]


def test_rotation_and_stop_lose_no_event_and_repeat_none(tmp_path: Path) -> None:
    file, renamed = tmp_path / "usage.jsonl", tmp_path / "usage.jsonl.1"
    harness = started(THREE_FAMILIES + f"hooks: {{jsonl: {{output: {file}}}}}\n")
    with ended(harness):
        for number in range(100):
            harness.request(post(b"{}", path="/v1/messages"))
            if number == 70:
                file.rename(renamed)
                harness.service.reloader.reload()
                harness.finish_reload()
    assert len(outcomes(file) + outcomes(renamed)) == 100


def test_a_scrape_counts_what_has_just_ended() -> None:
    harness = started()
    with ended(harness):
        for _ in range(70):
            harness.request(post(b"{}", path="/v1/messages"))
        transport = harness.request(get("/metrics"))
        while not transport.value():
            harness.reactor.advance(0)
            if not transport.value():
                harness.reactor.turn()
        assert re.search(rb"\nmgw_requests_total\{[^}]*messages[^}]*\} 70\.0\n", transport.value())
        assert b'mgw_usage_events_total{sink="log"} 70.0\n' in transport.value()


@dataclass(slots=True)
class Stream(LogFile):
    """A process log that is kept in memory."""

    path: str | None = None
    written: list[str] = field(default_factory=list)

    def write(self, text: str) -> None:
        """Keep it."""
        self.written.append(text)


def test_the_log_forgets_no_secret_of_an_older_configuration() -> None:
    stream, application = Stream(), Application("mgw")
    harness = started(THREE_FAMILIES.replace("sk-main-0001", "an-older-word"), stream)
    with ended(harness):
        harness.service.gateway.take_over_log(application)
        harness.reload(config(THREE_FAMILIES.replace("sk-main-0001", "a-newer-word")))
        observer: Any = ILogObserver(application)
        observer({"log_format": "{a} and {b}", "a": "an-older-word", "b": "a-newer-word", "log_time": 0.0})
        assert "[redacted] and [redacted]" in stream.written[-1]


def test_every_secret_of_a_configuration_is_known() -> None:
    more = "edge_auth: {enabled: true, keys: [edge-1]}\n"
    text = THREE_FAMILIES.replace("api_key: sk-host-0002", "api_key: k2, headers: {set: {x-a: header-3}}")
    found = {secret.reveal() for secret in secrets_of(config(text + more))}
    assert found == {"edge-1", "sk-main-0001", "k2", "header-3", "sk-ant-0003", "AIza-0004", "sk-mute"}


def test_a_stop_with_nothing_in_flight_waits_for_no_clock() -> None:
    harness = started()
    harness.until(harness.stop())
    assert not harness.reactor.getDelayedCalls()


def test_a_stop_waits_for_what_is_in_flight() -> None:
    harness = started()
    transport = harness.request(UPLOADING)
    done = harness.stop()
    assert not done
    assert harness.service.gateway.server.draining
    harness.request(get("/healthz"))
    assert transport.value() == b""
    harness.reactor.advance(29)
    assert not done
    harness.hang_up()
    harness.until(done)


def test_a_stop_waits_for_the_rest_of_usage_events(tmp_path: Path) -> None:
    file = tmp_path / "usage.jsonl"
    harness = started(THREE_FAMILIES + f"hooks: {{jsonl: {{output: {file}}}}}\n")
    server = harness.service.gateway.server
    pending: Any = SimpleNamespace(on_row=None)  # Any: an exchange, as far as it is needed
    server.late_rows.add(pending, ended_of(exchange()), server.observer.record)
    done = harness.stop()
    harness.reactor.advance(0)
    assert not done
    pending.on_row(exchange(limit_warnings=("alice usd_total 1",)))
    harness.until(done)
    (line,) = file.read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["limit_warnings"] == ["alice usd_total 1"]


def test_a_drain_ends_with_its_time() -> None:
    harness = started(THREE_FAMILIES + "drain_seconds: 5\n")
    transport = harness.request(UPLOADING)
    done = harness.stop()
    harness.reactor.advance(4.9)
    assert transport.value() == b""
    harness.reactor.advance(0.2)
    assert transport.value().startswith(b"HTTP/1.1 503 ")
    assert harness.service.gateway.server.in_flight == 0
    harness.hang_up()
    harness.until(done)


def test_a_delay_of_the_drain_takes_requests_but_says_that_it_is_not_ready(log: Log) -> None:
    harness = started(THREE_FAMILIES + "drain_delay_seconds: 5\n")
    done = harness.stop()
    assert harness.request(get("/readyz")).value().startswith(b"HTTP/1.1 503 ")
    assert harness.request(UPLOADING).value() == b""
    harness.service.reloader.reload()
    assert log.has("the configuration was not reloaded: the gateway is stopping")
    harness.reactor.advance(4.9)
    assert not harness.service.gateway.server.draining
    harness.reactor.advance(0.2)
    assert harness.service.gateway.server.draining
    assert log.has("draining 1 requests")
    harness.hang_up()
    harness.until(done)


def test_asking_twice_ends_the_delay_of_the_drain_and_the_drain(log: Log) -> None:
    harness = started(THREE_FAMILIES + "drain_delay_seconds: 5\n")
    transport = harness.request(UPLOADING)
    done = harness.stop()
    harness.service.asked_to_stop()
    assert log.has("stopped again during the drain: aborting 1")
    harness.reactor.advance(0)
    assert transport.value().startswith(b"HTTP/1.1 503 ")
    harness.hang_up()
    harness.until(done)


def test_asking_twice_cuts_what_is_left(log: Log) -> None:
    harness = started()
    harness.service.asked_to_stop()
    assert harness.reactor.stops == 1
    transport = harness.request(UPLOADING)
    done = harness.stop()
    harness.service.asked_to_stop()
    assert harness.reactor.stops == 1
    assert log.has("stopped again during the drain: aborting 1")
    assert transport.value().startswith(b"HTTP/1.1 503 ")
    harness.hang_up()
    harness.until(done)


@pytest.mark.parametrize(("number", "stops"), [(signal.SIGTERM, 1), (signal.SIGINT, 1), (signal.SIGHUP, 0)])
def test_a_signal_acts_on_the_reactors_turn(number: signal.Signals, stops: int) -> None:
    harness = started()
    with ended(harness):
        handler: Any = signal.getsignal(number)
        handler(number, None)
        assert (harness.reactor.stops, harness.service.gateway.server.generation.number) == (0, 1)
        harness.reactor.turn()
        harness.finish_reload()
        assert (harness.reactor.stops, harness.service.gateway.server.generation.number) == (stops, 2 - stops)


def test_an_interrupt_that_the_shell_ignores_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with ended(started()):
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_start_that_fails_is_plain_to_python_and_to_twistd() -> None:
    error = StartError("mgw: why")
    assert isinstance(error, Exception)  # twistd tells the parent of a daemon, and removes the pid file
    assert error.code == "mgw: why"  # Python prints it and ends with 1


def test_a_provider_whose_ca_file_is_missing_stops_the_start() -> None:
    text = THREE_FAMILIES.replace("api_key: sk-main-0001", "api_key: k, ca_file: /no/such/file")
    with pytest.raises(ValueError, match=r"providers\.main\.ca_file: file not found: /no/such/file \(folder"):
        made(config(text))


LATER: Final = "takes effect after a restart"


def test_a_change_of_the_address_is_warned_about(log: Log) -> None:
    harness = started()
    with ended(harness):
        harness.reload(config())
        assert not log.has("restart")
        harness.reload(config(THREE_FAMILIES + "listen: 127.0.0.1:1\n"))
        assert log.has(f"listen: 127.0.0.1:1 {LATER}; until then the gateway listens on 127.0.0.1:8787")


def test_what_waits_for_a_restart_is_said_until_it_is_undone() -> None:
    """What counts is what the gateway has started with, not what the last reload said."""
    harness = started()
    with ended(harness):
        notes = []
        for changes in ("listen: 127.0.0.1:1\nworkers: 2\n", "listen: 127.0.0.1:1\n", ""):
            harness.reload(config(THREE_FAMILIES + changes))
            said = harness.service.status.reloads.status.notes
            notes.append([note.partition(";")[0].partition(": ")[2] for note in said])
        listen = f"listen: 127.0.0.1:1 {LATER}"
        assert notes == [[listen, f"workers: turning workers on {LATER}"], [listen], []]


def test_what_became_of_each_reload_is_told() -> None:
    harness = started()
    with ended(harness):
        reloads = harness.service.status.reloads
        harness.reload(config(THREE_FAMILIES + "listen: 127.0.0.1:1\n"))
        status = reloads.status
        assert (status.asked, status.answered, status.generation, status.problems) == (1, 1, 2, "")
        (note,) = status.notes
        assert note.startswith("mgw.yaml:17: listen: ")
        harness.reload(ConfigError((Problem("mgw.yaml", 3, "drain", "unknown key"),)))
        status = reloads.status
        assert (status.asked, status.answered, status.generation) == (2, 2, 2)
        assert (status.problems, status.notes) == ("mgw.yaml:3: drain: unknown key", ())
        harness.reload(config())
        assert (reloads.status.generation, reloads.status.problems) == (3, "")
    assert reloads.status.state is ReloadPhase.STOPPING


def test_a_stop_waits_for_the_output_that_a_reload_has_just_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    filling = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while os.write(filling, b"x" * 4096):
            pass
    harness = started(THREE_FAMILIES + f"hooks: {{jsonl: {{output: {pipe}}}}}\n")
    harness.request(post(b"{}", path="/v1/messages"))
    harness.reload(config(THREE_FAMILIES))
    done = harness.stop()
    harness.hang_up()
    for _ in range(2):  # the lines of the process log are written, and their output is closed
        harness.reactor.advance(0)
        harness.reactor.turn()
    harness.reactor.advance(0)
    assert not done
    os.close(filling)
    os.set_blocking(reading, True)
    while b"http_status" not in os.read(reading, 65536):
        pass
    harness.until(done)
    os.close(reading)


def test_a_reload_reads_in_a_thread_and_one_that_comes_meanwhile_follows() -> None:
    harness = started()
    with ended(harness):
        harness.settings = config(THREE_FAMILIES + "drain_seconds: 5\n")
        harness.service.reloader.reload()
        assert harness.service.gateway.server.generation.number == 1, "the reactor goes on"
        harness.settings = config(THREE_FAMILIES + "drain_seconds: 6\n")
        harness.service.reloader.reload()
        harness.service.reloader.reload()
        harness.finish_reload()
        generation = harness.service.gateway.server.generation
        assert (generation.number, generation.config.drain_seconds) == (3, 6)


def test_a_reload_that_is_under_way_at_the_stop_is_given_up() -> None:
    harness = started()
    harness.service.reloader.reload()
    done = harness.stop()
    harness.until(done)
    while harness.service.reloader.is_reloading:
        harness.reactor.turn()
        harness.reactor.advance(0)
    assert harness.service.gateway.server.generation.number == 1
