"""``mgw reload``: have a running gateway reread its configuration file, and report the result.

The file is checked first, with the environment of the gateway: a file that it would reject anyway is reported
without disturbing it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from mgw.app.check import find_problems, read_or_tell, reader_of
from mgw.cli.output import write_rows
from mgw.cli.running import Processes, RunningGateway, find_gateways
from mgw.ops.reload_status import ReloadPhase, ReloadStatus

_STEP_SECONDS: Final = 0.05
_BY_HAND: Final = "reload it with: systemctl reload mgw, or: kill -HUP PID"


class ReloadError(Exception):
    """It was not reloaded; the text says why, and what to do."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.description = (
        "Check the configuration file of a running gateway, reload it, and report the\n"
        "outcome. If the file has problems, the gateway is left alone."
    )
    parser.add_argument(
        "config_argument",
        metavar="FILE",
        nargs="?",
        help="the configuration file of the gateway (default: the only running gateway)",
    )
    parser.add_argument("-c", "--config", metavar="FILE", help="the configuration file, as an option")
    parser.add_argument("--pid", type=int, help="the process id of the gateway, if several are running")
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        default=120.0,
        help="how long to wait for the outcome (default: %(default)g)",
    )


def run(said: argparse.Namespace) -> int:
    """Reload a gateway; return the exit status."""
    try:
        gateway = choose(_find(), said.config, said.pid)
        if not _has_valid_file(gateway):
            raise ReloadError(f"the gateway (pid {gateway.pid}) was left as it is")
        status = _reload(gateway, said.timeout)
    except ReloadError as error:
        sys.stderr.write(f"mgw reload: {error}\n")
        return 1
    for note in status.notes:
        sys.stdout.write(f"warning: {note}\n")
    sys.stdout.write(f"reloaded {status.file}: generation {status.generation} (pid {gateway.pid})\n")
    return 0


def _find() -> Processes:
    try:
        return find_gateways()
    except (OSError, AttributeError):  # no /proc, or no pidfd_open(2)
        raise ReloadError(f"running gateways can be found on Linux only; {_BY_HAND}") from None


def choose(found: Processes, file: str | None, pid: int | None) -> RunningGateway:
    """Return the gateway that is meant.

    :raises ReloadError: there is none, or more than one.
    """
    gateways = found.gateways
    if pid is not None:
        gateways = [gateway for gateway in gateways if gateway.pid == pid]
    if file is not None:
        gateways = [gateway for gateway in gateways if _is_same(file, gateway)]
    if len(gateways) > 1:
        raise ReloadError(f"several gateways are running; choose one with --pid:\n{_table(gateways)}")
    if not gateways:
        raise ReloadError(_nothing(found, file, pid))
    (gateway,) = gateways
    if gateway.is_contained:
        raise ReloadError(f"the gateway (pid {gateway.pid}) runs in a container: run mgw reload in there")
    if gateway.status.state is ReloadPhase.STOPPING:
        raise ReloadError(f"the gateway (pid {gateway.pid}) is stopping")
    return gateway


def _is_same(file: str, gateway: RunningGateway) -> bool:
    """Whether a gateway uses this file; names in a container mean other files."""
    if gateway.is_contained:
        return False
    try:
        return os.path.samefile(file, gateway.status.file)
    except OSError:
        return Path(file).absolute() == Path(gateway.status.file)


def _nothing(found: Processes, file: str | None, pid: int | None) -> str:
    """Say why no gateway can be chosen, and what can be done."""
    wanted = [f"with pid {pid}" if pid is not None else "", f"with {file}" if file is not None else ""]
    sentence = " ".join(filter(None, ["no running gateway was found", *wanted]))
    concealed = [one for one in found.concealed if pid in (None, one.pid)]
    if concealed:
        whom = ", ".join(f"pid {one.pid} of user {one.user}" for one in concealed)
        return f"{sentence} that this user may reload; try again with sudo (there is {whom})"
    if found.gateways:
        return f"{sentence}; running are:\n{_table(found.gateways)}"
    return f"{sentence}; to start one: mgw run {file or ''}".rstrip()


def _table(gateways: Sequence[RunningGateway]) -> str:
    rows = [
        [
            str(gateway.pid),
            gateway.status.file + (" (in a container)" if gateway.is_contained else ""),
            " ".join(gateway.status.addresses),
        ]
        for gateway in gateways
    ]
    return write_rows("table", ("pid", "file", "address"), rows).rstrip("\n")


def _has_valid_file(gateway: RunningGateway) -> bool:
    """Check the file as the gateway will read it, and print what is wrong with it."""
    environ = gateway.environment()
    folder = gateway.folder()
    if folder is not None:
        with suppress(OSError):
            os.chdir(folder)  # which relative names in the file refer to
    known = os.environ if environ is None else environ
    config = read_or_tell(reader_of(gateway.status.file, known), "mgw reload")
    if config is None:
        return False
    problems, _ = find_problems(config, known)
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    return not problems


def _reload(gateway: RunningGateway, seconds: float) -> ReloadStatus:
    """Ask the gateway to reload, and wait until it has.

    :raises ReloadError: it did not; the text says why.
    """
    asked = gateway.refresh().asked
    try:
        gateway.ask_to_reload()
    except ProcessLookupError:
        raise ReloadError(f"the gateway (pid {gateway.pid}) has exited") from None
    except PermissionError:
        raise ReloadError(f"this user may not signal pid {gateway.pid}; try: sudo mgw reload") from None
    for status in _statuses(gateway, seconds):
        if status.answered <= asked and status.state is not ReloadPhase.STOPPING:
            continue
        if status.state is ReloadPhase.STOPPING:
            raise ReloadError(f"the gateway (pid {gateway.pid}) is stopping, and was not reloaded")
        if status.problems:
            raise ReloadError(
                f"the gateway (pid {gateway.pid}) rejected the configuration and keeps the current one:"
                f"\n{status.problems}"
            )
        return status
    raise ReloadError(
        f"the gateway (pid {gateway.pid}) was asked to reload, but did not report the outcome within "
        f"{seconds:g} s; see its log"
    )


def _statuses(gateway: RunningGateway, seconds: float) -> Iterator[ReloadStatus]:
    """Yield what the gateway says of itself, until the time is over.

    :raises ReloadError: it has ended.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if gateway.ends_within(_STEP_SECONDS):
            raise ReloadError(f"the gateway (pid {gateway.pid}) exited before it was reloaded; see its log")
        yield gateway.refresh()
