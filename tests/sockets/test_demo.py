"""``make run`` and ``--demo``: what they print works as it is printed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fork_server import start_program
from tests.support.operations import ROOT, Daemon, start_twistd, twistd
from tests.support.waiting import WAIT_SECONDS, wait_until

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
    arguments = ("mgw", "-c", str(moved_config(folder, free_port())), "--demo")
    with start_twistd(*arguments, folder=folder, start=start_program) as daemon:
        yield daemon


def printed_requests(demo: Daemon) -> list[str]:
    assert demo.stdout is not None
    data: bytes = demo.stdout.wait_for(
        lambda data: data.endswith(b"Ctrl-C to stop.\n\n") and data, WAIT_SECONDS, "three requests"
    )
    return re.findall(r"curl .*?\}'$", data.decode().replace("\\\n", ""), re.DOTALL | re.MULTILINE)


def sent_by_curl(line: str) -> bytes:
    shell = subprocess.run(
        ["sh", "-c", f"{line} --fail --noproxy '*' --max-time 10"],
        capture_output=True,
        timeout=WAIT_SECONDS,
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
    ) as response:
        content: bytes = response.read()
    return content


def test_a_field_that_a_translation_drops_is_named_in_the_response(demo: Daemon) -> None:
    _, _, url, *_ = shlex.split(printed_requests(demo)[0])
    body = {"model": "smart", "seed": 1, "messages": [{"role": "user", "content": "Hello"}]}
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=10) as response:
        assert response.headers["X-Gateway-Dropped-Fields"] == "seed"


@pytest.mark.parametrize(("number", "field"), [(0, "choices"), (1, "content"), (2, "candidates")])
def test_each_printed_request_is_answered_as_printed(demo: Daemon, number: int, field: str) -> None:
    line = printed_requests(demo)[number]
    body = json.loads(sent_by_curl(line) if shutil.which("curl") else sent_without_curl(line))
    assert "You said: Hello" in json.dumps(body[field])


def test_every_printed_request_and_other_media_have_a_cost(demo: Daemon) -> None:
    lines = printed_requests(demo)
    for line in lines:
        sent_without_curl(line)
    origin = lines[0].partition("http://")[2].partition("/")[0]

    def post(path: str, **body: object) -> None:
        content = {"Content-Type": "application/json"}
        with urllib.request.urlopen(
            urllib.request.Request(f"http://{origin}/v1/{path}", json.dumps(body).encode(), content),
            timeout=10,
        ) as response:
            response.read()

    post("embeddings", model="embed-demo", input="Hello")
    post("images/generations", model="image-demo", prompt="a cat")
    post("audio/speech", model="tts-demo", input="Hello", voice="alloy")
    post("chat/completions", model="fast", messages=[{"role": "user", "content": "Hello"}])
    with urllib.request.urlopen(f"http://{origin}/v1/dashboard/usage?by=model", timeout=10) as response:
        answer = json.load(response)
    assert [row["key"] for row in answer["groups"] if not row.get("cost_usd")] == []
    assert answer["totals"]["unpriced"] == 0
    with urllib.request.urlopen(f"http://{origin}/v1/dashboard/profiles", timeout=10) as response:
        assert json.load(response)["prices"] is True


def test_the_printed_dashboard_is_there(demo: Daemon) -> None:
    printed_requests(demo)
    assert demo.stdout is not None
    line = demo.stdout.wait_for(
        lambda data: [line for line in data.splitlines() if line.endswith(b"/ui")],
        WAIT_SECONDS,
        "the dashboard",
    )[0]
    with urllib.request.urlopen(line.decode().rpartition(" ")[2], timeout=10) as page:
        assert b"<title>" in page.read()


def test_what_is_printed_fits_a_terminal_of_eighty_columns(demo: Daemon) -> None:
    printed_requests(demo)
    assert demo.stdout is not None
    assert max(map(len, demo.stdout.data.decode().splitlines())) <= 80


def test_the_log_of_the_demonstration_is_about_its_requests(demo: Daemon) -> None:
    sent_without_curl(printed_requests(demo)[0])
    assert demo.stderr is not None
    lines: list[bytes] = demo.stderr.wait_for(
        lambda data: b"\nhttp " in data and data.splitlines(), WAIT_SECONDS, "the lines of a request"
    )
    assert {line.partition(b" ")[0] for line in lines} == {b"usage", b"http"}


def test_busy_ports_are_left_to_others_and_the_printed_requests_still_work(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        busy = one.getsockname()[1], other.getsockname()[1]
        file = moved_config(tmp_path, busy[0])
        file.write_text(file.read_text().replace("127.0.0.1:0", f"127.0.0.1:{busy[1]}"))
        with start_twistd("mgw", "-c", str(file), "--demo", folder=tmp_path) as demo:
            first, *_ = printed_requests(demo)
            assert json.loads(sent_without_curl(first))["choices"]
            assert demo.stdout is not None
            said = demo.stdout.data.decode()
            assert f"127.0.0.1:{busy[0]} is in use; the simulator listens on 127.0.0.1:" in said
            assert f"127.0.0.1:{busy[1]} is in use; the gateway listens on 127.0.0.1:" in said
            assert f"http://127.0.0.1:{busy[1]}/" not in said
            demo.process.send_signal(signal.SIGHUP)
            assert demo.stderr is not None
            demo.stderr.wait_for(lambda data: b"generation 2" in data, WAIT_SECONDS, "the reload")
            assert json.loads(sent_without_curl(first))["choices"]
            demo.process.send_signal(signal.SIGINT)
            assert demo.process.wait(WAIT_SECONDS) == 0
            assert b"Traceback" not in demo.stderr.data


def test_a_configuration_of_real_providers_is_no_demonstration(tmp_path: Path) -> None:
    file = tmp_path / "mgw.yaml"
    file.write_text("providers: {main: {kind: openai, api_key: sk-canary}}\nlisten: 127.0.0.1:0\n")
    done = twistd("mgw", "-c", str(file), "--demo", folder=tmp_path)
    assert done.status == 1
    assert "providers.main.base_url" in done.stderr
    assert "Traceback" not in done.stderr


FAKE_PYTHON = """#!/bin/sh
case "$1 $2" in
    "-c import"*) exit {old} ;;
    "--version ") echo "Python 3.9.9" ;;
    "-m venv") mkdir -p "$3/bin" && ln -s "$0" "$3/bin/python" ;;
    "-m pip") {pip} ;;
esac
"""


def install(folder: Path, pip: str = "true", *, old: bool = False) -> subprocess.Popen[str]:
    """Start to install into ``folder/env`` with a Python that only pretends."""
    python = folder / "python"
    python.write_text(FAKE_PYTHON.format(old=int(old), pip=pip))
    python.chmod(0o755)
    return subprocess.Popen(
        [str(ROOT / ".ci/install"), str(folder / "env"), str(python), "."],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_an_old_python_is_told_in_one_sentence_before_anything_is_made(tmp_path: Path) -> None:
    stdout, stderr = install(tmp_path, old=True).communicate(timeout=WAIT_SECONDS)
    assert stdout == ""
    assert stderr.splitlines() == [
        (
            f"mgw needs Python 3.11 or newer, and {tmp_path}/python is 3.9.9: name another one, as in "
            '"make run PYTHON=python3.12".'
        )
    ]
    assert not (tmp_path / "env").exists()


def test_an_installation_says_how_long_it_takes_and_is_whole(tmp_path: Path) -> None:
    made = install(tmp_path)
    stdout, stderr = made.communicate(timeout=WAIT_SECONDS)
    assert (made.returncode, stderr) == (0, "")
    assert "about a minute" in stdout
    assert [file.name for file in (tmp_path / "env").iterdir()] == ["bin"]


def test_an_installation_takes_the_pinned_versions_of_all_that_it_installs_and_of_what_builds_it(
    tmp_path: Path,
) -> None:
    stdout, stderr = install(tmp_path, 'echo "$PIP_CONSTRAINT and $PIP_BUILD_CONSTRAINT"').communicate(
        timeout=WAIT_SECONDS
    )
    assert stderr == ""
    assert stdout.splitlines()[-1] == "constraints.txt and constraints.txt"


def test_an_installation_that_fails_leaves_no_environment(tmp_path: Path) -> None:
    made = install(tmp_path, "exit 1")
    made.communicate(timeout=WAIT_SECONDS)
    assert made.returncode == 1
    assert not (tmp_path / "env").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_installation_that_is_interrupted_leaves_no_environment(
    tmp_path: Path, number: signal.Signals
) -> None:
    begun = tmp_path / "begun"
    made = install(tmp_path, f'touch "{begun}"; exec sleep 60')
    wait_until(begun.exists, "the installation to begin")
    os.killpg(made.pid, number)
    made.communicate(timeout=WAIT_SECONDS)
    assert made.returncode == 128 + number
    assert not (tmp_path / "env").exists()


def test_an_installation_that_was_killed_is_begun_anew(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    made = install(tmp_path, f'touch "{begun}"; exec sleep 60')
    wait_until(begun.exists, "the installation to begin")
    os.killpg(made.pid, signal.SIGKILL)
    made.communicate(timeout=WAIT_SECONDS)
    (tmp_path / "env/spoilt").touch()
    install(tmp_path).communicate(timeout=WAIT_SECONDS)
    assert [file.name for file in (tmp_path / "env").iterdir()] == ["bin"]


def test_an_environment_that_was_there_before_outlives_a_failure(tmp_path: Path) -> None:
    install(tmp_path).communicate(timeout=WAIT_SECONDS)
    install(tmp_path, "exit 1").communicate(timeout=WAIT_SECONDS)
    assert (tmp_path / "env/bin/python").exists()


SHOWN = """case "$3" in
    show) echo "Name: mgw"; echo "Author: {author}" ;;
    *) echo "$3 $*" >>"{calls}" ;;
esac"""


@pytest.mark.parametrize(
    ("author", "expected"), [("the mgw authors", ["uninstall", "install"]), ("Somebody", ["install"])]
)
def test_an_environment_with_the_distribution_under_its_old_name_is_rid_of_it_first(
    tmp_path: Path, author: str, expected: list[str]
) -> None:
    """Both would have the same files, so that removing the old one later would remove the new one."""
    calls = tmp_path / "calls"
    install(tmp_path).communicate(timeout=WAIT_SECONDS)
    again = install(tmp_path, SHOWN.format(author=author, calls=calls))
    again.communicate(timeout=WAIT_SECONDS)
    assert again.returncode == 0
    assert [line.split()[0] for line in calls.read_text(encoding="utf-8").splitlines()] == expected


def test_make_run_starts_the_demonstration_of_this_repository() -> None:
    made = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "--always-make", "run"],
        cwd=ROOT,
        env={**os.environ, "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=True,
    )
    *_, last = made.stdout.splitlines()
    assert last.split()[-4:] == ["mgw", "-c", "etc/mgw-demo.yaml", "--demo"]
