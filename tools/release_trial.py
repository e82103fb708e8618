"""Install what was built into an empty environment and use it: commands, a request, the dashboard, files."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

from tools.release_build import pip_for, run

EXTRAS: Final = "otlp,redis"
"""What the Debian package has too."""
_START_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1
_BODY: Final = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}]}).encode()
_CONFIG: Final = """\
listen: "{address}"
providers:
  sim: {{kind: openai, base_url: "{simulator}/v1", api_key: simulated}}
defaults: {{openai_dialect: sim}}
"""
_WHERE: Final = "import mgw, pathlib; print(pathlib.Path(mgw.__file__).parent)"


class TrialFailed(Exception):  # noqa: N818  # read aloud: the trial failed
    """What was built does not do what it must."""


def install(archive: Path, environment: Path) -> Path:
    """Install an archive and what it needs into an environment with nothing else; return its Python."""
    run([sys.executable, "-m", "venv", "--without-pip", environment], archive.parent)
    python = environment / "bin/python"
    pip = pip_for(python)
    run([*pip, "install", "--quiet", f"{archive}[{EXTRAS}]"], archive.parent)
    run([*pip, "check"], archive.parent)
    return python


def try_out(python: Path, sources: Path, version: str, folder: Path) -> None:
    """Use what is installed in this environment.

    :raises TrialFailed: and ``ToolFailed``.
    """
    mgw = python.parent / "mgw"
    printed = run([mgw, "--version"], folder).strip()
    if printed != f"mgw {version}":
        raise TrialFailed(f"mgw --version prints {printed!r}, not {version}")
    _compare_files(Path(run([python, "-c", _WHERE], folder).strip()), sources)
    example = folder / "mgw-demo.yaml"
    example.write_text(run([mgw, "example", example.name], folder), encoding="utf-8")
    run([mgw, "check", "-c", example], folder)
    _send_requests(mgw, folder)


def try_package(package: Path, sources: Path) -> str | None:
    """Try the Debian package on a clean Debian 12 in a folder; return why that cannot be done here."""
    if os.geteuid() != 0:
        return "that needs root: run tools/try_package.sh with this file"
    if missing := [name for name in ("debootstrap", "curl") if shutil.which(name) is None]:
        return f"{' and '.join(missing)} cannot be found"
    run([sources / "tools/try_package.sh", package], sources)
    return None


def _compare_files(package: Path, sources: Path) -> None:
    """Hold the installed examples and the dashboard's files to the sources'."""
    for there, here in ((package / "etc", "etc"), (package / "dashboard/static", "mgw/dashboard/static")):
        for file in (path for path in (sources / here).rglob("*") if path.is_file()):
            installed = there / file.relative_to(sources / here)
            if not installed.is_file() or installed.read_bytes() != file.read_bytes():
                raise TrialFailed(f"{installed} is not as {here}/{installed.relative_to(there)}")


def _send_requests(mgw: Path, folder: Path) -> None:
    """Start the simulator and the gateway in front of it; ask for an answer and for the dashboard's page."""
    with _started([mgw, "sim", "--listen", "127.0.0.1:0"], folder / "sim.log") as log:
        simulator = _wait(lambda: _first_line(log), log)
        address = f"127.0.0.1:{_free_port()}"
        config = folder / "mgw.yaml"
        config.write_text(_CONFIG.format(address=address, simulator=simulator), encoding="utf-8")
        with _started([mgw, "run", "-c", config], folder / "gateway.log") as gateway_log:
            _wait(lambda: _asked(f"http://{address}/healthz"), gateway_log)
            answer = json.loads(_get(f"http://{address}/v1/chat/completions", _BODY))
            if not answer["choices"][0]["message"]["content"]:
                raise TrialFailed(f"the gateway answered {answer}")
            if b"<title>" not in _get(f"http://{address}/ui"):
                raise TrialFailed("/ui is no page")


@contextlib.contextmanager
def _started(command: list[str | Path], log: Path) -> Iterator[Path]:
    """Keep a program running, which prints into this file."""
    with log.open("wb") as printed:
        process = subprocess.Popen(  # noqa: S603  # what was just installed
            command, stdout=printed, stderr=subprocess.STDOUT, cwd=log.parent
        )
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(_START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise TrialFailed(f"{' '.join(map(str, command))} did not stop") from None


def _wait(found: Callable[[], str], log: Path) -> str:
    """Wait until something is not empty."""
    end, pause = time.monotonic() + _START_SECONDS, threading.Event()
    while time.monotonic() < end:
        if what := found():
            return what
        pause.wait(_POLL_SECONDS)
    raise TrialFailed(
        f"it did not start within {_START_SECONDS:.0f} s:\n{log.read_text(encoding='utf-8')[-2000:]}"
    )


def _first_line(log: Path) -> str:
    """Return the address that the simulator prints, or nothing yet."""
    line, newline, _ = log.read_text(encoding="utf-8").partition("\n")
    return line if newline else ""


def _asked(address: str) -> str:
    """Return the address if somebody answers there."""
    try:
        _get(address)
    except (URLError, OSError):
        return ""
    return address


def _get(address: str, body: bytes | None = None) -> bytes:
    """Send a request, a POST if there is a body; return the response's body."""
    request = Request(address, body, {"Content-Type": "application/json"})  # noqa: S310  # our own address
    with build_opener(ProxyHandler({})).open(request, timeout=_START_SECONDS) as response:
        content: bytes = response.read()
        return content


def _free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
