"""The command ``mgw``, as an operator at a terminal or an init system calls it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mgw import __version__
from tests.support.commands import MGW, run_mgw
from tests.support.fork_server import Process, Start, fork_program, start_program
from tests.support.gateway import Collected
from tests.support.operations import ROOT, ask, twistd, write_config
from tests.support.waiting import WAIT_SECONDS, wait_until

VALID = """
providers:
  main: {kind: openai, base_url: "https://openai.example/v1", api_key: sk-canary}
defaults: {openai_dialect: main}
"""
SERVES = re.compile(rb"mgw serves http://127\.0\.0\.1:(\d+)")
ADDRESS = re.compile(rb"^http://127\.0\.0\.1:(\d+)\n")


def mgw(
    *arguments: str, folder: Path = ROOT, start: Start = fork_program
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    done = run_mgw(arguments, folder=folder, start=start)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@contextmanager
def running(
    *arguments: str, folder: Path, start: Start = fork_program
) -> Iterator[tuple[Process, Collected, Collected]]:
    """Run a command that serves; it is ended at the end of the block."""
    process = start([*MGW, *arguments], folder, {})
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        yield process, Collected(process.stdout), Collected(process.stderr)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(WAIT_SECONDS)


def test_the_version_is_printed() -> None:
    done = mgw("--version", start=start_program)
    assert (done.returncode, done.stdout) == (0, f"mgw {__version__}\n")


@pytest.mark.parametrize("arguments", [(), ("serve",), ("run", "--nonsense"), ("sim", "--listen", "here")])
def test_what_is_no_command_exits_with_2_and_says_so(arguments: tuple[str, ...]) -> None:
    done = mgw(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "mgw" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_check_says_what_twistd_says(tmp_path: Path) -> None:
    for text in (VALID, VALID + "drain_seconds: soon\n"):
        file = write_config(tmp_path, text)
        by_twistd = twistd("mgw", "-c", str(file), "--check", folder=tmp_path)
        done = mgw("check", "-c", str(file), folder=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (
            by_twistd.status,
            by_twistd.stdout,
            by_twistd.stderr,
        )


def test_the_example_is_the_one_that_is_shipped_and_passes_the_check(tmp_path: Path) -> None:
    example = mgw("example").stdout
    assert example == (ROOT / "etc/mgw.yaml").read_text(encoding="utf-8")
    file = tmp_path / "mgw.yaml"
    file.write_text(example, encoding="utf-8")
    done = mgw("check", "mgw.yaml", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("the configuration is valid\n")


@pytest.mark.parametrize("name", ["grafana-dashboard.json", "prometheus-alerts.yaml", "prices.example.yaml"])
def test_the_other_files_that_are_shipped_can_be_printed(name: str) -> None:
    assert mgw("example", name).stdout == (ROOT / "etc" / name).read_text(encoding="utf-8")


def test_the_configurations_of_balancers_can_be_printed() -> None:
    shipped = (ROOT / "etc/deployment/haproxy.cfg").read_text(encoding="utf-8")
    assert mgw("example", "haproxy.cfg").stdout == shipped


def test_a_file_that_is_not_shipped_is_answered_with_those_that_are() -> None:
    done = mgw("example", "../setup.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the files are envoy.yaml, grafana-dashboard.json, haproxy.cfg, " in done.stderr


def test_the_schema_is_the_one_that_is_shipped() -> None:
    assert mgw("schema").stdout == (ROOT / "etc/mgw.schema.json").read_text(encoding="utf-8")


def test_run_serves_in_the_foreground_and_leaves_nothing_behind(tmp_path: Path) -> None:
    file = write_config(tmp_path, VALID)
    folder = tmp_path / "home"
    folder.mkdir()
    with running("run", "-c", str(file), folder=folder, start=start_program) as (process, stdout, stderr):
        port = int(stderr.wait_for(SERVES.search, WAIT_SECONDS, "the gateway to serve")[1])
        assert f"mgw {__version__} started (Python {sys.version.split()[0]}".encode() in stderr.data
        page = f"dashboard at http://127.0.0.1:{port}/ui\n".encode()
        stderr.wait_for(lambda data: page in data, WAIT_SECONDS, "the address of the dashboard")
        metrics = ask(port, "/metrics").body.decode()
        [build] = re.findall(r"^mgw_build_info{(.*)} 1\.0$", metrics, re.MULTILINE)
        assert f'version="{__version__}"' in build
        assert not list(folder.iterdir())
        process.terminate()
        assert process.wait(WAIT_SECONDS) == 0
    assert not list(folder.iterdir())
    assert stdout.data == b""
    assert b"Traceback" not in stderr.data


def test_run_starts_in_a_folder_that_is_gone(tmp_path: Path) -> None:
    file = write_config(tmp_path, VALID)
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f'rmdir "{gone}" && exec "{sys.executable}" -m mgw.cli.main run -c "{file}"'
    process = subprocess.Popen(
        ["sh", "-c", command],
        cwd=gone,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    stderr = Collected(process.stderr)
    try:
        stderr.wait_for(SERVES.search, WAIT_SECONDS, "the gateway to serve")
    finally:
        process.terminate()
    assert process.wait(WAIT_SECONDS) == 0
    assert b"Traceback" not in stderr.data


def test_run_logs_to_a_file_where_one_is_named(tmp_path: Path) -> None:
    file, log = write_config(tmp_path, VALID), tmp_path / "mgw.log"
    with running("run", str(file), "--log-file", str(log), folder=tmp_path) as (process, _, stderr):
        wait_until(lambda: log.exists() and SERVES.search(log.read_bytes()) is not None, "the log")
        process.terminate()
        assert process.wait(WAIT_SECONDS) == 0
    assert stderr.data == b""


def test_run_with_no_file_says_so_in_one_line(tmp_path: Path) -> None:
    done = mgw("run", "-c", f"{tmp_path}/no.yaml", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        f"mgw: configuration file not found: {tmp_path}/no.yaml; to create one: mgw example > mgw.yaml\n"
    )


def test_sim_serves_a_provider_and_says_where(tmp_path: Path) -> None:
    with running("sim", "--listen", "127.0.0.1:0", folder=tmp_path) as (process, stdout, stderr):
        port = int(stdout.wait_for(ADDRESS.search, WAIT_SECONDS, "the address")[1])
        chat = b'{"model": "gpt-demo", "messages": [{"role": "user", "content": "Hi"}]}'
        assert ask(port, "/v1/chat/completions", b"Authorization: Bearer any", body=chat).status == 200
        process.terminate()
        assert process.wait(WAIT_SECONDS) == 0
    assert stderr.data == b""
    assert not list(tmp_path.iterdir())
