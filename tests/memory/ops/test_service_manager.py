"""What systemd is told of the service."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from mgw.ops.service_manager import ServiceManager, find_service_manager

PID = 4711


def told(manager: ServiceManager) -> list[str]:
    found: list[str] = []
    manager.send = lambda message: found.append(message.decode())
    return found


def test_readiness_comes_with_one_line_of_status() -> None:
    manager = ServiceManager(Clock())
    said = told(manager)
    manager.ready("serves\nREADY=0")
    assert said == ["READY=1\nSTATUS=serves READY=0"]


def test_a_reload_tells_when_it_began() -> None:
    manager = ServiceManager(Clock(), monotonic_ns=lambda: 5_000_999)
    said = told(manager)
    manager.reloading()
    assert said == ["RELOADING=1\nMONOTONIC_USEC=5000"]


def test_a_stop_asks_for_the_time_that_it_takes() -> None:
    manager = ServiceManager(Clock())
    said = told(manager)
    manager.stopping(330.5)
    assert said == ["STOPPING=1\nEXTEND_TIMEOUT_USEC=375500000"]


def test_the_watchdog_is_fed_twice_within_its_time_from_readiness_on() -> None:
    clock = Clock()
    manager = ServiceManager(clock, watchdog_seconds=30.0)
    said = told(manager)
    clock.advance(60)
    assert not said
    manager.ready("serves")
    manager.ready("serves again")
    fed = said.count("WATCHDOG=1")
    clock.pump([15.0] * 4)
    assert said.count("WATCHDOG=1") == fed + 4
    manager.stop()
    clock.advance(60)
    assert said.count("WATCHDOG=1") == fed + 4
    assert not clock.getDelayedCalls()


def test_without_a_watchdog_there_is_no_timer() -> None:
    clock = Clock()
    manager = ServiceManager(clock)
    told(manager)
    manager.ready("serves")
    assert not clock.getDelayedCalls()


@pytest.mark.parametrize("is_abstract", [False, True])
def test_messages_arrive_at_the_socket_that_the_environment_names(tmp_path: Path, is_abstract: bool) -> None:
    name = f"@{tmp_path}/notify" if is_abstract else f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name.replace("@", "\0"))
        manager = find_service_manager(Clock(), {"NOTIFY_SOCKET": name}, PID)
        manager.ready("serves")
        assert listener.recv(1000) == b"READY=1\nSTATUS=serves"


def test_a_socket_that_has_gone_harms_nothing(tmp_path: Path) -> None:
    manager = find_service_manager(Clock(), {"NOTIFY_SOCKET": f"{tmp_path}/gone"}, PID)
    manager.ready("serves")


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "4711"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_that_of_this_process(environment: dict[str, str], seconds: float | None) -> None:
    manager = find_service_manager(Clock(), {"NOTIFY_SOCKET": "/run/notify", **environment}, PID)
    assert manager.watchdog_seconds == seconds


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1"}])
def test_without_a_service_manager_nothing_is_said(environment: dict[str, str]) -> None:
    clock = Clock()
    manager = find_service_manager(clock, {"WATCHDOG_USEC": "1000000", **environment}, PID)
    manager.ready("serves")
    manager.reloading()
    manager.stopping(1)
    assert manager.send is None
    assert not clock.getDelayedCalls()
