"""``make run`` and ``--demo``: what they print works as it is printed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.operations import ROOT, Daemon, start_twistd, twistd
from tests.support.patience import PATIENCE

DEMO = ROOT / "etc/mgw-demo.yaml"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def moved_config(folder: Path, port: int) -> Path:
    """Write the demonstration's own configuration with ports that are free."""
    text = DEMO.read_text(encoding="utf-8")
    assert "127.0.0.1:8787" in text
    assert "127.0.0.1:8788" in text
    file = folder / "mgw-demo.yaml"
    moved = text.replace("127.0.0.1:8787", "127.0.0.1:0").replace("127.0.0.1:8788", f"127.0.0.1:{port}")
    file.write_text(moved, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("demo")
    with start_twistd("mgw", "-c", str(moved_config(folder, free_port())), "--demo", folder=folder) as daemon:
        yield daemon


def printed_lines(demo: Daemon) -> list[str]:
    assert demo.stdout is not None
    data: bytes = demo.stdout.wait_for(
        lambda data: data.count(b"curl") == 3 and data, PATIENCE, "three requests"
    )
    return [line.strip() for line in data.decode().splitlines() if line.strip().startswith("curl ")]


def sent_by_curl(line: str) -> bytes:
    shell = subprocess.run(
        ["sh", "-c", f"{line} --fail --noproxy '*' --max-time 10"],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert shell.returncode == 0, shell.stderr
    return shell.stdout


def sent_without_curl(line: str) -> bytes:
    """Send what the line would, for where there is no curl."""
    _, _, url, _, header, _, body = shlex.split(line)
    name, _, value = header.partition(": ")
    with urllib.request.urlopen(
        urllib.request.Request(url, body.encode(), {name: value}), timeout=10
    ) as answer:
        content: bytes = answer.read()
    return content


@pytest.mark.parametrize(("number", "field"), [(0, "choices"), (1, "content"), (2, "candidates")])
def test_each_printed_request_is_answered_as_printed(demo: Daemon, number: int, field: str) -> None:
    line = printed_lines(demo)[number]
    body = json.loads(sent_by_curl(line) if shutil.which("curl") else sent_without_curl(line))
    assert "You said: Hello" in json.dumps(body[field])


def test_the_demonstrations_log_has_no_traceback(demo: Daemon) -> None:
    printed_lines(demo)
    assert demo.stderr is not None
    assert b"Traceback" not in demo.stderr.data


def test_a_port_in_use_by_another_is_told_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = twistd("mgw", "-c", str(moved_config(tmp_path, port)), "--demo", folder=tmp_path)
    assert done.status == 1
    assert f"mgw: the simulator cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_configuration_of_real_providers_is_no_demonstration(tmp_path: Path) -> None:
    file = tmp_path / "mgw.yaml"
    file.write_text("providers: {main: {kind: openai, api_key: sk-canary}}\nlisten: 127.0.0.1:0\n")
    done = twistd("mgw", "-c", str(file), "--demo", folder=tmp_path)
    assert done.status == 1
    assert "providers.main.base_url" in done.stderr
    assert "Traceback" not in done.stderr


def test_make_run_starts_the_demonstration_of_this_repository() -> None:
    made = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "--always-make", "run"],
        cwd=ROOT,
        env={**os.environ, "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    *_, last = made.stdout.splitlines()
    assert last.split()[-4:] == ["mgw", "-c", "etc/mgw-demo.yaml", "--demo"]
