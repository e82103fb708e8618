"""HAProxy, nginx and Envoy in front of gateways, each with the configuration that is shipped for it.

Of the shipped file only addresses, certificates and places of files are changed, and how often gateways are
asked whether they are ready.
"""

from __future__ import annotations

import re
import shutil
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.support.certificates import Authority, issue
from tests.support.raw_client import Incoming, RawClient
from tests.support.tls_front import trusting
from tests.support.waiting import WAIT_SECONDS, wait_until

SHIPPED: Final = Path(__file__).resolve().parents[2] / "etc" / "deployment"
GATEWAYS: Final = ("10.0.0.11", "10.0.0.12")
"""Where the shipped files look for gateways."""


@dataclass(frozen=True)
class Program:
    """How a balancer is used.

    :param file: its shipped configuration.
    :param changes: what is replaced in it, by what; ``{…}`` stands for a value of this test.
    :param whole: what the configuration stands in; ``{shipped}`` stands for the shipped part.
    :param check: its arguments that check a configuration.
    :param run: its arguments that run in the foreground.
    """

    name: str
    file: str
    changes: Sequence[tuple[str, str]]
    whole: str
    check: Sequence[str]
    run: Sequence[str]


_NGINX: Final = """daemon off;
pid {folder}/pid;
error_log {folder}/log;
worker_processes 1;
events {{ worker_connections 256; }}
http {{
access_log off;
client_body_temp_path {folder}/body;
proxy_temp_path {folder}/proxy;
fastcgi_temp_path {folder}/fastcgi;
uwsgi_temp_path {folder}/uwsgi;
scgi_temp_path {folder}/scgi;
{shipped}
}}
"""
PROGRAMS: Final = {
    program.name: program
    for program in (
        Program(
            "haproxy",
            "haproxy.cfg",
            [
                ("bind :443", "bind 127.0.0.1:{port}"),
                ("/etc/haproxy/certs/gateway.pem", "{both}"),
                ("/run/haproxy/admin.sock", "{folder}/admin"),
                ("inter 1s fall 2 rise 2 slowstart 10s", "inter 100ms fall 2 rise 2"),
            ],
            "{shipped}",
            ["-c", "-f", "{config}"],
            ["-db", "-f", "{config}"],
        ),
        Program(
            "nginx",
            "nginx.conf",
            [
                ("listen 443", "listen 127.0.0.1:{port}"),
                ("/etc/nginx/certs/gateway.pem", "{cert}"),
                ("/etc/nginx/certs/gateway.key", "{key}"),
            ],
            _NGINX,
            ["-t", "-e", "{folder}/log", "-c", "{config}"],
            ["-e", "{folder}/log", "-c", "{config}"],
        ),
        Program(
            "envoy",
            "envoy.yaml",
            [
                ("address: 0.0.0.0, port_value: 443", "address: 127.0.0.1, port_value: {port}"),
                ("/etc/envoy/certs/gateway.pem", "{cert}"),
                ("/etc/envoy/certs/gateway.key", "{key}"),
                (" interval: 1s", " interval: 0.1s"),
            ],
            "{shipped}",
            ["--mode", "validate", "-c", "{config}"],
            ["--concurrency", "1", "--disable-hot-restart", "-l", "warning", "-c", "{config}"],
        ),
    )
}


class SecureClient(RawClient):
    """A client's connection over TLS to ``localhost``."""

    def __init__(self, port: int, ca: Authority) -> None:
        super().__init__(port)
        self.socket: ssl.SSLSocket = trusting(ca).wrap_socket(self.socket, server_hostname="localhost")
        self.incoming = Incoming(self.socket)


@dataclass
class Balancer:
    """A running balancer, which speaks TLS with a certificate for ``localhost``."""

    program: Program
    port: int
    folder: Path
    process: subprocess.Popen[bytes]
    ca: Authority

    def connect(self) -> SecureClient:
        """Connect a client."""
        return SecureClient(self.port, self.ca)

    def take_out(self, gateway_port: int) -> None:
        """Send a gateway no more requests: nginx has to be told, the others ask ``/readyz`` themselves."""
        if self.program.name != "nginx":
            return
        file, server = self.folder / self.program.file, f"server 127.0.0.1:{gateway_port} "
        before = file.read_text(encoding="utf-8")
        assert before.count(server) == 1
        file.write_text(before.replace(server, f"{server} down "), encoding="utf-8")
        old = _children(self.process.pid)
        self.process.send_signal(signal.SIGHUP)
        wait_until(lambda: bool(_children(self.process.pid) - old), "nginx to read its configuration")
        wait_until(
            lambda: all(_is_leaving(child) for child in old), "its old processes to take no more requests"
        )


def _children(pid: int) -> set[str]:
    return set(Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split())


def _is_leaving(pid: str) -> bool:
    try:
        return b"shutting down" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return True


def program_or_skip(name: str) -> tuple[Program, str]:
    """Return a program and its path; skip the test where it is not installed."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if path is None:
        pytest.skip(f"{name} is not installed")
    return PROGRAMS[name], path


def write_balancer_config(
    program: Program, folder: Path, port: int, ca: Authority, gateways: Sequence[int]
) -> Path:
    """Write the shipped configuration with the addresses of a test."""
    issued = issue(ca, "localhost")
    both = folder / "both.pem"
    both.write_bytes(issued.cert_file.read_bytes() + issued.key_file.read_bytes())
    values = {
        "port": str(port),
        "cert": str(issued.cert_file),
        "key": str(issued.key_file),
        "both": str(both),
        "folder": str(folder),
    }
    text = (SHIPPED / program.file).read_text(encoding="utf-8")
    for before, after in program.changes:
        assert text.count(before) == 1, before
        text = text.replace(before, after.format(**values))
    for host, gateway in zip(GATEWAYS, gateways, strict=True):
        address = re.compile(rf"^([^#\n]*){re.escape(host)}(:|, port_value: )8787", re.MULTILINE)
        text, count = address.subn(rf"\g<1>127.0.0.1\g<2>{gateway}", text)
        assert count == 1, host
    file = folder / program.file
    file.write_text(program.whole.format(shipped=text, **values), encoding="utf-8")
    return file


def check_config(name: str, folder: Path, ca: Authority) -> None:
    """Have a program check its shipped configuration."""
    program, path = program_or_skip(name)
    file = write_balancer_config(program, folder, 8443, ca, (8787, 8788))
    arguments = [argument.format(config=file, folder=folder) for argument in program.check]
    checked = subprocess.run([path, *arguments], capture_output=True, timeout=WAIT_SECONDS, check=False)
    said = (checked.stdout + checked.stderr).decode()
    assert checked.returncode == 0, said
    assert "warning" not in said.lower(), said


@contextmanager
def start_balancer(name: str, folder: Path, ca: Authority, gateways: Sequence[int]) -> Iterator[Balancer]:
    """Start a program in front of two gateways on this machine, ready; skip if it is not installed."""
    program, path = program_or_skip(name)
    port = _free_port()
    file = write_balancer_config(program, folder, port, ca, gateways)
    arguments = [argument.format(config=file, folder=folder) for argument in program.run]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen([path, *arguments], stdout=said, stderr=said)
    balancer = Balancer(program, port, folder, process, ca)
    try:
        wait_until(lambda: _answers(port) or process.poll() is not None, f"{name} to listen")
        assert process.poll() is None, (folder / "said").read_text(encoding="utf-8")
        wait_until(lambda: _is_ready(balancer), f"{name} to know its gateways")
        yield balancer
    finally:
        process.terminate()
        try:
            process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_ready(balancer: Balancer) -> bool:
    with balancer.connect() as client:
        client.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return client.read_response("GET").status == 200


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
