"""``mgw reload`` finds the gateway that is meant, signals no other process, and says what became of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from mgw.cli.reload import ReloadError, choose
from mgw.cli.reload import _reload as ask_to_reload
from mgw.cli.running import RunningGateway, find_gateways
from mgw.ops.reload_status import ReloadPhase
from tests.support.commands import MGW, run_mgw
from tests.support.fork_server import start_program
from tests.support.gateway import TWISTD, Collected, GatewayProcess, start_gateway
from tests.support.operations import ROOT, write_config
from tests.support.raw_client import RawClient, chat
from tests.support.raw_upstream import RawUpstream, start_upstream
from tests.support.supervised import Workers, holding
from tests.support.waiting import WAIT_SECONDS, wait_until

CONFIG: Final = """
providers:
  main: {kind: openai, base_url: "http://127.0.0.1:9/v1", api_key_env: MAIN_KEY}
listen: 127.0.0.1:0
hooks: {jsonl: {output: stdout}}
"""
ENVIRON: Final = {"MAIN_KEY": "sk-canary-of-the-gateway"}
NOT_RELOADED: Final = b"the configuration was not reloaded"


@pytest.fixture
def gateway() -> Iterator[GatewayProcess]:
    """One with a command line and an environment of its own, which forks of the tests do not show."""
    with start_gateway(CONFIG, ENVIRON, start=start_program) as process:
        yield process


def mgw_reload(*arguments: str, environ: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run the command; return its status, and what it printed and said."""
    done = run_mgw(["reload", *arguments], environ=environ)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_valid_file_is_reloaded_and_the_generation_is_said(gateway: GatewayProcess) -> None:
    file = str(gateway.config_file)
    for generation in (2, 3):
        said = mgw_reload(file)
        assert said == (0, f"reloaded {file}: generation {generation} (pid {gateway.process.pid})\n", "")
        assert b"reloaded: generation %d\n" % generation in gateway.stderr.data
    assert mgw_reload("-c", file, "--pid", str(gateway.process.pid))[0] == 0


def test_a_broken_file_is_reported_and_the_gateway_is_left_alone(gateway: GatewayProcess) -> None:
    file = gateway.config_file
    gateway.rewrite(f"{CONFIG}drain: 5\n")
    status, printed, said = mgw_reload(str(file))
    assert (status, printed) == (1, "")
    lines = said.splitlines()
    assert lines[0].startswith(f"{file}:6: drain: unknown key")
    assert lines[-1] == f"mgw reload: the gateway (pid {gateway.process.pid}) was left as it is"
    assert gateway.metric("mgw_config_reload_failures_total") == 0
    assert b"reloaded" not in gateway.stderr.data


def test_a_file_that_is_named_and_is_not_there_is_reported_too(gateway: GatewayProcess) -> None:
    gateway.rewrite(f"{CONFIG}tls: {{cert_file: /no/cert, key_file: /no/key}}\n")
    status, _, said = mgw_reload(str(gateway.config_file))
    assert status == 1
    assert "/no/cert" in said
    assert b"reloaded" not in gateway.stderr.data


def test_the_environment_is_that_of_the_gateway_and_not_of_the_prompt(gateway: GatewayProcess) -> None:
    gateway.rewrite(CONFIG.replace("MAIN_KEY", "OTHER_KEY"))
    status, _, said = mgw_reload(str(gateway.config_file), environ={"OTHER_KEY": "a-key-of-the-prompt"})
    assert status == 1
    assert "OTHER_KEY" in said
    assert "canary" not in said


def test_what_the_gateway_itself_rejects_is_said_with_its_reason(gateway: GatewayProcess) -> None:
    """The check ahead may see less than the gateway, or something else: it has its own word."""
    (found,) = [one for one in find_gateways().gateways if one.pid == gateway.process.pid]
    gateway.rewrite(f"{CONFIG}drain: 5\n")
    with pytest.raises(ReloadError) as refused:
        ask_to_reload(found, WAIT_SECONDS)
    assert str(refused.value).startswith(
        f"the gateway (pid {found.pid}) rejected the configuration and keeps the current one:\n"
        f"{gateway.config_file}:6: drain: unknown key"
    )
    gateway.log(NOT_RELOADED)


def test_what_needs_a_restart_is_a_warning(gateway: GatewayProcess) -> None:
    gateway.rewrite(CONFIG.replace("127.0.0.1:0", "127.0.0.2:0"))
    status, printed, _ = mgw_reload(str(gateway.config_file))
    assert status == 0
    warning = (
        "listen: 127.0.0.2:0 takes effect after a restart; until then the gateway listens on 127.0.0.1:0\n"
    )
    assert printed.startswith(f"warning: {gateway.config_file}:4: {warning}")


def test_two_gateways_with_one_file_are_listed_and_one_is_chosen_by_its_pid(gateway: GatewayProcess) -> None:
    file = gateway.config_file
    command = [TWISTD, "-n", "--pidfile=", "mgw", "-c", str(file)]
    another = start_program(command, file.parent, ENVIRON)
    assert another.stderr is not None
    log = Collected(another.stderr)
    try:
        log.wait_for(lambda data: b"mgw serves" in data, WAIT_SECONDS, "the other gateway")
        status, printed, said = mgw_reload(str(file))
        assert (status, printed) == (1, "")
        assert said.startswith("mgw reload: several gateways are running; choose one with --pid:\n")
        for pid in (gateway.process.pid, another.pid):
            assert f"\n{pid} " in said
        assert said.count(str(file)) == 2
        assert f"127.0.0.1:{gateway.port}\n" in said
        assert mgw_reload("--pid", str(another.pid))[0] == 0
        assert b"reloaded: generation 2" in log.data
        assert b"reloaded" not in gateway.stderr.data
    finally:
        another.terminate()
        another.wait(WAIT_SECONDS)


def test_a_file_that_no_gateway_uses_signals_none(gateway: GatewayProcess, tmp_path: Path) -> None:
    file = write_config(tmp_path, CONFIG)
    status, printed, said = mgw_reload(str(file))
    assert (status, printed) == (1, "")
    assert said.startswith(f"mgw reload: no running gateway was found with {file}; running are:\n")
    assert str(gateway.config_file) in said
    status, _, said = mgw_reload(str(file), "--pid", str(gateway.process.pid))
    assert status == 1
    assert f"no running gateway was found with pid {gateway.process.pid} with {file}" in said
    assert b"reloaded" not in gateway.stderr.data


SLEEP: Final = "import sys, time; print(flush=True); time.sleep(600)"
LIKE_A_GATEWAY: Final = """
import os, sys, time
from mgw.ops.reload_status import ReloadReporter
reporter = ReloadReporter()
reporter.publish(sys.argv[-1])
reporter.ready(1, [])
if os.fork():
    os.wait()
else:
    print(os.getpid(), flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("code", [SLEEP, LIKE_A_GATEWAY], ids=["called like one", "forked by one"])
def test_a_process_that_is_no_gateway_gets_no_signal(code: str, tmp_path: Path) -> None:
    file = tmp_path / "mgw.yaml"
    file.write_text(CONFIG)
    command = ["-c", code, "mgw", "run", str(file)]
    process = start_program(command, tmp_path, ENVIRON)
    assert process.stdout is not None
    line = Collected(process.stdout).wait_for(lambda data: b"\n" in data and data, WAIT_SECONDS, "its line")
    pid = int(line) if line.strip() else process.pid
    try:
        status, printed, said = mgw_reload("--pid", str(pid))
        assert (status, printed) == (1, "")
        assert said.startswith(f"mgw reload: no running gateway was found with pid {pid}")
        assert mgw_reload("--pid", str(os.getpid()))[0] == 1
        os.kill(pid, 0)
        assert process.poll() is None
    finally:
        for number in {pid, process.pid}:
            os.kill(number, signal.SIGKILL)
        process.wait(WAIT_SECONDS)


@pytest.fixture
def upstream() -> Iterator[RawUpstream]:
    with start_upstream() as process:
        yield process


def test_a_gateway_that_stops_is_not_signalled(upstream: RawUpstream) -> None:
    config = CONFIG.replace("http://127.0.0.1:9", upstream.url)
    with (
        start_gateway(config, ENVIRON, start=start_program) as gateway,
        holding(upstream) as go_on,
        RawClient(gateway.port) as client,
    ):
        client.send(chat("main/gpt-5"))
        wait_until(lambda: gateway.metric("mgw_requests_in_flight") == 1, "the request")
        gateway.signal(signal.SIGTERM)
        (found,) = [one for one in find_gateways().gateways if one.pid == gateway.process.pid]
        wait_until(lambda: found.refresh().state is ReloadPhase.STOPPING, "the drain")
        status, _, said = mgw_reload(str(gateway.config_file))
        assert (status, said) == (1, f"mgw reload: the gateway (pid {found.pid}) is stopping\n")
        go_on.set()
        assert client.read_response().status == 200


def test_a_gateway_that_ends_meanwhile_is_reported(
    gateway: GatewayProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = [one for one in find_gateways().gateways if one.pid == gateway.process.pid]
    monkeypatch.setattr(RunningGateway, "ask_to_reload", lambda self: os.kill(self.pid, signal.SIGKILL))
    with pytest.raises(ReloadError, match="exited before it was reloaded; see its log"):
        ask_to_reload(found, WAIT_SECONDS)
    gateway.process.wait(WAIT_SECONDS)
    monkeypatch.undo()
    with pytest.raises(ReloadError, match="has exited"):
        ask_to_reload(found, WAIT_SECONDS)


def test_one_that_does_not_answer_is_not_waited_for_without_end(gateway: GatewayProcess) -> None:
    gateway.process.send_signal(signal.SIGSTOP)
    try:
        status, _, said = mgw_reload(str(gateway.config_file), "--timeout", "0.2")
    finally:
        gateway.process.send_signal(signal.SIGCONT)
    assert status == 1
    assert "was asked to reload, but did not report the outcome within 0.2 s; see its log" in said


def test_of_a_gateway_with_workers_the_first_process_is_meant() -> None:
    with start_gateway(f"{CONFIG}workers: 2\n", ENVIRON, start=start_program) as gateway:
        workers, file = Workers(gateway), str(gateway.config_file)
        for pid in workers.pids.values():
            status, _, said = mgw_reload("--pid", str(pid))
            assert (status, said.partition(";")[0]) == (
                1,
                f"mgw reload: no running gateway was found with pid {pid}",
            )
        assert mgw_reload(file)[1] == f"reloaded {file}: generation 2 (pid {gateway.process.pid})\n"
        assert b"reloaded: generation 2" in gateway.stderr.data


def test_a_daemon_is_found_by_the_pid_that_it_has_in_the_end(tmp_path: Path) -> None:
    file = write_config(tmp_path, CONFIG)
    pid_file, log = tmp_path / "twistd.pid", tmp_path / "twistd.log"
    command = [TWISTD, f"--pidfile={pid_file}", f"--logfile={log}", "mgw", "-c", file.name]
    starting = start_program(command, tmp_path, ENVIRON)
    assert starting.wait(WAIT_SECONDS) == 0
    pid = int(pid_file.read_text())
    try:
        wait_until(lambda: log.exists() and b"mgw serves" in log.read_bytes(), "the daemon")
        assert mgw_reload(str(file))[:2] == (0, f"reloaded {file}: generation 2 (pid {pid})\n")
    finally:
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not pid_file.exists(), "its end")


AS_NOBODY: Final = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )


def can_run(*command: str) -> bool:
    return shutil.which(command[0]) is not None and run(*command).returncode == 0


needs_another_user = pytest.mark.skipif(
    not can_run(*AS_NOBODY, sys.executable, "-c", "import mgw.cli.reload"),
    reason="no other user can run Python here",
)
needs_namespaces = pytest.mark.skipif(
    not can_run("unshare", "--fork", "--pid", "--mount-proc", "true"), reason="no process namespaces here"
)


@needs_another_user
def test_without_permission_nothing_is_sent_and_sudo_is_advised() -> None:
    with running_alone("", ENVIRON) as (process, file, log):
        command = [*AS_NOBODY, sys.executable, *MGW, "reload", str(file)]
        done = run(*command)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"no running gateway was found with {file} that this user may reload; try again" in done.stderr
        assert f"pid {process.pid} of user " in done.stderr
        assert b"reloaded" not in log.data


@contextmanager
def running_alone(
    before: str, environ: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], Path, Collected]]:
    """Run ``mgw run`` in an interpreter of its own, behind another command if one is given."""
    with TemporaryDirectory(prefix="mgw-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        file = write_config(folder, CONFIG)
        command = [*before.split(), sys.executable, *MGW, "run", str(file)]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert process.stderr is not None
        log = Collected(process.stderr)
        try:
            log.wait_for(lambda data: b"mgw serves" in data, WAIT_SECONDS, "the gateway")
            yield process, file, log
        finally:
            process.kill()
            process.wait(WAIT_SECONDS)


@needs_namespaces
def test_alone_on_a_machine_no_gateway_or_the_only_one_needs_no_name() -> None:
    alone = ["unshare", "--fork", "--pid", "--mount-proc", sys.executable, *MGW, "reload"]
    done = run(*alone)
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "mgw reload: no running gateway was found; to start one: mgw run\n",
    )
    with running_alone("unshare --fork --pid --mount-proc --kill-child", ENVIRON) as (process, file, log):
        (inner,) = (ROOT / f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        inside = ["nsenter", f"--target={inner}", "--pid", "--mount", sys.executable, *MGW, "reload"]
        done = run(*inside)
        assert (done.returncode, done.stdout) == (0, f"reloaded {file}: generation 2 (pid 1)\n"), done.stderr
        assert b"reloaded: generation 2" in log.data
        status, _, said = mgw_reload("--pid", inner)
        assert (status, said) == (
            1,
            f"mgw reload: the gateway (pid {inner}) runs in a container: run mgw reload in there\n",
        )
        assert mgw_reload(str(file))[0] == 1, "in a container, the name means another file"


def test_the_only_one_is_chosen_without_a_name(gateway: GatewayProcess) -> None:
    found = find_gateways()
    found.gateways = [one for one in found.gateways if one.pid == gateway.process.pid]
    assert choose(found, None, None).pid == gateway.process.pid
