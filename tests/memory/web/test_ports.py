"""Listening sockets that another process has opened."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure

from mgw.web.listener import listen_error
from mgw.web.ports import ListeningSocket, Ports
from tests.support.configs import THREE_FAMILIES, config
from tests.support.deferreds import result_of


def test_the_file_of_an_inherited_unix_socket_is_left_alone(tmp_path: Path) -> None:
    """Its permissions say who may connect, and other workers accept from it when one has stopped."""
    path = tmp_path / "mgw.sock"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
        path.chmod(0o600)
        made.listen()
        made.setblocking(False)
        reactor = MemoryReactorClock()
        ports = Ports(reactor)

        ports.adopt([ListeningSocket(made.fileno(), socket.AF_UNIX)], config(THREE_FAMILIES), Factory())

        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert len(reactor.getReaders()) == 1

        stopped = Deferred.fromCoroutine(ports.stop())
        reactor.advance(1)
        result_of(stopped)

        assert reactor.getReaders() == []
        assert path.is_socket()


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EADDRINUSE, "another process listens there; ss -ltnp shows which"),
        (errno.EADDRNOTAVAIL, "no network interface of this machine has this address"),
        (errno.EACCES, "ports below 1024 need root or CAP_NET_BIND_SERVICE"),
    ],
)
def test_why_a_port_cannot_be_opened_says_what_to_do(number: int, hint: str) -> None:
    error = CannotListenError("127.0.0.1", 80, OSError(number, os.strerror(number)))
    assert listen_error(Failure(error)) == f"{os.strerror(number)} ({hint})"
    assert listen_error(Failure(OSError(errno.EIO, "Input/output error"))) == "Input/output error"
