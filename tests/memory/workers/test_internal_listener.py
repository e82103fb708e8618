"""Where the socket for workers lies: private, with a path that fits, and gone when its process is."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from twisted.internet.error import CannotListenError
from twisted.internet.testing import MemoryReactorClock

from mgw.workers.internal_listener import (
    MAX_PATH_BYTES,
    InternalListener,
    make_socket_path,
    remove_stale,
    socket_directories,
)
from tests.support.web_servers import WebServerHarness

NO_PROCESS = 2**22 + 1
"""Above the highest number that Linux gives to a process."""


def made_by(process: int, directory: Path) -> Path:
    """Make what a process leaves behind."""
    made = directory / f"mgw-hub-{process}-abc"
    made.mkdir()
    return made


def bound(made: Path) -> socket.socket:
    """Bind the socket in a directory."""
    found = socket.socket(socket.AF_UNIX)
    found.bind(str(made / "http"))
    return found


def test_the_directory_is_the_users_alone(tmp_path: Path) -> None:
    path = Path(make_socket_path(str(tmp_path)))
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.parent.parent == tmp_path
    assert not path.exists()


def listener(directories: list[str]) -> InternalListener:
    reactor = MemoryReactorClock()
    return InternalListener(reactor, WebServerHarness().server, directories)


def test_a_path_that_is_too_long_goes_elsewhere(tmp_path: Path) -> None:
    long = tmp_path / ("x" * MAX_PATH_BYTES)
    long.mkdir()
    with TemporaryDirectory() as short:
        path = listener([str(long), str(tmp_path / "absent"), short]).start()
        assert path.startswith(short)
    assert list(long.iterdir()) == []


@pytest.mark.parametrize(
    ("runtime", "first"),
    [("/run/mgw", "/run/mgw"), ("/run/mgw:/run/more", "/run/mgw"), ("run", "/spool"), ("", "/spool")],
)
def test_the_directory_that_systemd_clears_comes_first(runtime: str, first: str) -> None:
    assert socket_directories("/spool", {"RUNTIME_DIRECTORY": runtime})[0] == first


def test_without_a_place_it_says_why(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot create a socket for the workers: .*absent: No such file"):
        listener([str(tmp_path / "absent")]).start()


def test_a_place_that_takes_no_sockets_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise CannotListenError(None, None, OSError(1, "no sockets here"))

    found = listener([str(tmp_path)])
    monkeypatch.setattr(found.reactor, "listenUNIX", refuse)
    with pytest.raises(ValueError, match="no sockets here"):
        found.start()
    assert list(tmp_path.iterdir()) == []


def test_what_a_dead_process_has_left_is_removed(tmp_path: Path) -> None:
    bound(made_by(NO_PROCESS, tmp_path)).close()
    bound(made_by(os.getpid(), tmp_path)).close()  # in a container each has the number of the one before
    remove_stale(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_use_or_of_others_stays(tmp_path: Path) -> None:
    heard = bound(made_by(NO_PROCESS, tmp_path))
    heard.listen()
    bound(made_by(os.getppid(), tmp_path)).close()
    (tmp_path / "mgw-hub-notes-of-mine").mkdir()
    (tmp_path / f"mgw-hub-{NO_PROCESS + 1}-file").write_text("")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / f"mgw-hub-{NO_PROCESS + 2}-link").symlink_to(elsewhere)
    before = set(tmp_path.iterdir())
    remove_stale(str(tmp_path))
    assert set(tmp_path.iterdir()) == before
    heard.close()


def test_a_directory_that_is_not_there_holds_nothing_stale(tmp_path: Path) -> None:
    remove_stale(str(tmp_path / "absent"))


class UnixTransport:
    """A connection of this process."""

    def __init__(self, handle: socket.socket) -> None:
        self._handle = handle
        self.is_aborted = False

    def getHandle(self) -> socket.socket:
        return self._handle

    def abortConnection(self) -> None:
        self.is_aborted = True


@pytest.mark.parametrize("others", [0, 1])
def test_the_user_that_the_service_has_become_may_connect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """``twistd --uid`` changes the user when the service has been made."""
    made, user = listener([str(tmp_path)]), os.geteuid() + others
    monkeypatch.setattr("os.geteuid", lambda: user)
    near, far = socket.socketpair()
    with near, far:
        connection, transport = made.connection(), UnixTransport(near)
        connection.makeConnection(transport)  # type: ignore[no-untyped-call]  # Twisted's
        assert transport.is_aborted == bool(others)
        connection.connectionLost()
