"""The processes of a run: each on its core, none of them longer alive than the run."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from string import Template
from types import TracebackType

from bench.machines import NGINX, ROOT

HERE = Path(__file__).resolve().parent
LOAD_CORE = 0
PROXY_CORE = 1
START_LIMIT = 20.0


class DidNotStartError(Exception):
    """A process ended, or did not answer in time; the text is the end of what it wrote."""


@dataclass(slots=True)
class Server:
    """A process that answers HTTP on ``port``."""

    name: str
    process: subprocess.Popen[bytes]
    port: int
    start_seconds: float
    model_prefix: str = ""
    wire: str = "chat"
    """What its clients speak."""
    more_headers: tuple[str, ...] = ()
    """Lines that its clients send beside the usual ones."""
    path_prefix: str = ""
    """What stands before the paths that its clients ask."""
    command: tuple[str, ...] = ()
    """How it was started."""

    @property
    def pid(self) -> int:
        """The process whose time and memory count."""
        return self.process.pid

    def stop(self) -> None:
        """End the process: asked first, killed when it does not listen."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


Command = Callable[[Path, dict[str, str], tuple[str, ...]], list[str]]
"""Returns a command for a folder, what templates are filled with, and options."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a server is started, and how it is asked whether it has."""

    command: Command
    health: str = "/healthz"
    limit_seconds: float = START_LIMIT
    options: tuple[str, ...] = ()
    model_prefix: str = ""
    healthy: int = 200
    """What it answers then."""
    tells_port: bool = False
    """Whether it chooses its port, and prints its address."""


@dataclass(slots=True)
class Bench:
    """A folder for the run, the compiled programs in it, and the servers that it started."""

    folder: Path
    programs: tuple[str, ...] = ("upstream", "streams")
    """The upstream, which is started, and the clients, as they are named in ``bench/c``."""
    upstream_port: int = 0
    tree: str = ""
    """The checkout with the source of the gateways, if another one than this."""
    servers: list[Server] = field(default_factory=list)

    def __enter__(self) -> Bench:
        for program in self.programs:
            source = HERE / "c" / f"{program}.c"
            subprocess.run(["gcc", "-O2", "-o", self.folder / program, source], check=True)
        command = pinned(LOAD_CORE, str(self.folder / self.programs[0]))
        upstream = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert upstream.stdout is not None
        with upstream.stdout as said:
            self.upstream_port = int(said.readline())
        self.servers.append(Server("direct", upstream, self.upstream_port, 0.0))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_all()

    def stop_all(self) -> None:
        """End all servers, with all that they have to write."""
        while self.servers:
            self.servers.pop().stop()

    def start(self, name: str, *options: str, label: str = "", **fill: str) -> Server:
        """Start one of the proxies and wait until it answers.

        :param options: twistd's.
        :param label: of one that runs beside another of its name, with files in a folder of its own.
        :param fill: what its configuration says other than usual.
        """
        launch = Launch(COMMANDS[name], options=options, model_prefix="up/" if name == "gateway" else "")
        return self.launch(name, launch, label, **fill)

    def launch(self, name: str, launch: Launch, label: str = "", **fill: str) -> Server:
        """Start a server and wait until it answers; the arguments are those of :meth:`start`."""
        port, folder = free_port(), self.folder / label
        folder.mkdir(exist_ok=True)
        filled = {**USUAL, "temp": str(folder), "port": str(port), "upstream_port": str(self.upstream_port)}
        filled["tree"] = self.tree
        command = launch.command(folder, filled | fill, launch.options)
        began, core = time.perf_counter(), int(fill.get("core", PROXY_CORE))
        server = run_server(label or name, pinned(core, *command), folder, port)
        server.model_prefix = launch.model_prefix
        self.servers.append(server)
        if launch.tells_port:
            server.port = _told_port(server, folder / f"{server.name}.out", launch.limit_seconds)
        wait_until_answers(server, began, folder, launch.health, launch.limit_seconds, launch.healthy)
        return server

    def stop(self, server: Server) -> None:
        """End a server before the others."""
        server.stop()
        self.servers.remove(server)


def run_server(name: str, command: list[str], folder: Path, port: int) -> Server:
    """Run a command in its folder, which gets what it writes."""
    with (folder / f"{name}.out").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder, env=environment())
    return Server(name, process, port, 0.0, command=tuple(command))


@contextmanager
def serving(
    name: str,
    command: list[str],
    folder: Path,
    port: int,
    health: str = "/healthz",
    limit_seconds: float = START_LIMIT,
) -> Iterator[Server]:
    """Run a server on no core of its own, and end it with the block.

    :raises DidNotStartError: it does not answer; the text has the end of what it wrote.
    """
    began, server = time.perf_counter(), run_server(name, command, folder, port)
    try:
        wait_until_answers(server, began, folder, health, limit_seconds)
        yield server
    finally:
        server.stop()


@contextmanager
def serving_gateway(folder: Path, config: str | None = None, **fill: str) -> Iterator[Server]:
    """Serve ``bench/mgw.yaml``, or another configuration, with ``twistd`` on no core of its own.

    :param fill: what stands in place of names such as ``$upstream_port``; ``$port`` is filled in anyway.
    :raises DidNotStartError: it does not answer; the text has the end of its log.
    """
    port = free_port()
    filled = {**USUAL, "temp": str(folder), "port": str(port), **fill}
    command = gateway_command(folder, filled, ())
    if config is not None:
        (folder / "mgw.yaml").write_text(Template(config).safe_substitute(filled))
    with serving("gateway", command, folder, port) as server:
        yield server


def environment() -> dict[str, str]:
    """This process's environment; compiled modules are kept, as those of an installed package are."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(ROOT)}


def gateway_command(folder: Path, fill: dict[str, str], options: tuple[str, ...]) -> list[str]:
    """Serve with everything on, by ``twistd`` as an operator would.

    :param fill: with ``python`` for another interpreter than this one, which has the gateway installed, and
        with ``tree`` for another checkout of the gateway than this one.
    """
    config = written(folder / "mgw.yaml", fill)
    python = fill.get("python", sys.executable)
    twistd = str(Path(python).with_name("twistd"))
    log = f"--logfile={folder / 'mgw.log'}"
    source = ["env", f"PYTHONPATH={tree}"] if (tree := fill.get("tree")) else []
    return [*source, python, twistd, "-n", "--pidfile=", log, *options, "mgw", "-c", str(config)]


def nginx_command(folder: Path, fill: dict[str, str], _: tuple[str, ...]) -> list[str]:
    """Serve by Debian's nginx, with nothing of its own outside the run's folder."""
    config = written(folder / "nginx.conf", fill)
    return [NGINX, "-p", str(folder), "-e", str(folder / "nginx-error.log"), "-c", str(config)]


def klein_command(folder: Path, fill: dict[str, str], _: tuple[str, ...]) -> list[str]:
    """Serve by ``klein_proxy.py``."""
    return [sys.executable, "-m", "bench.klein_proxy", fill["port"], fill["upstream_port"]]


USUAL = {
    "scheme": "http",
    "ca_file": "",
    "other_keys": "",
    "aliases": "",
    "listen_tls": "",
    "verify_tls": "",
    "upgrade": 'proxy_set_header Connection "";',
    "upload": "proxy_request_buffering off;",
    "download": "proxy_buffering off;",
}
"""What the templates of ``mgw.yaml`` and ``nginx.conf`` are filled with where nothing else is asked for."""
COMMANDS = {"gateway": gateway_command, "nginx": nginx_command, "klein+treq": klein_command}


def pinned(core: int, *command: str) -> list[str]:
    """The command on one core, and ended by the kernel should this process die."""
    return ["setpriv", "--pdeathsig", "TERM", "taskset", "-c", str(core), *command]


def written(path: Path, fill: dict[str, str]) -> Path:
    """The template of that name, filled in and written."""
    path.write_text(Template((HERE / path.name).read_text()).safe_substitute(fill))
    return path


def need(*programs: str) -> None:
    """End with a sentence if one of these programs is not there.

    :raises SystemExit: with the names of those that are missing.
    """
    missing = [Path(program).name for program in programs if which(program) is None]
    if missing:
        install = "apt install gcc nginx-light util-linux wrk (docs/performance.rst)"
        sys.exit(f"missing: {', '.join(missing)}; on Debian: {install}")


def bound_run(seconds: int, *, on_one_core: bool = True) -> None:
    """Keep this process, which makes the load, to its core, and have it end with what it started.

    :param on_one_core: whether the load has a core of its own; otherwise it runs on all of them.
    """
    if on_one_core:
        os.sched_setaffinity(0, {LOAD_CORE})
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGALRM, _end)
    signal.alarm(seconds)


def _end(number: int, frame: object) -> None:
    sys.exit(f"ended by {signal.Signals(number).name}")


def free_port() -> int:
    """A port of the loopback address that nobody has now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _told_port(server: Server, said: Path, limit_seconds: float) -> int:
    until = time.monotonic() + limit_seconds
    while time.monotonic() < until and server.process.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:(\d+)", said.read_text(errors="replace"))
        if found:
            return int(found[1])
        time.sleep(0.05)
    raise DidNotStartError(
        f"{server.name} did not tell its port:\n{said.read_text(errors='replace')[-1500:]}"
    )


def wait_until_answers(
    server: Server,
    began: float,
    folder: Path,
    health: str = "/healthz",
    limit_seconds: float = START_LIMIT,
    healthy: int = 200,
) -> None:
    """Ask for its health until it answers, and note how long that took."""
    while time.perf_counter() - began < limit_seconds and server.process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=limit_seconds)
        try:
            connection.request("GET", health)
            if connection.getresponse().status == healthy:
                server.start_seconds = time.perf_counter() - began
                return
        except OSError:
            time.sleep(0.002)
        finally:
            connection.close()
    logs = (folder / f"{server.name}.out", folder / "mgw.log")
    said = "\n".join(log.read_text(errors="replace")[-1500:] for log in logs if log.exists())
    raise DidNotStartError(f"{server.name} did not answer {health}:\n{said}")
