"""The gateway's own routes, its log lines, and outputs that fail: what an operator relies on day by day."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.fork_server import Start, fork_program, start_program
from tests.support.gateway import TWISTD, Collected, GatewayProcess, start_gateway
from tests.support.operations import ROOT, Daemon, ask, cpu_of_children, start_twistd, write_config
from tests.support.raw_client import CHAT, RawClient, RawResponse, asking, chat, request
from tests.support.simulator import SimulatorProcess
from tests.support.waiting import WAIT_SECONDS, wait_until

KEY: Final = b"x-api-key: edge-canary-1"
USER_AGENT: Final = b"User-Agent: any"
ANTHROPIC: Final = b"anthropic-version: 2023-06-01"
GOOGLE: Final = b"x-goog-api-client: genai"
SERVES: Final = re.compile(rb"mgw serves http://127\.0\.0\.1:(\d+)")


def plain(simulator: SimulatorProcess, more: str = "") -> str:
    return f"""
providers: {{main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary}}}}
defaults: {{openai_dialect: main}}
{more}
"""


# Who may ask for what


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("path", "body"),
    [("/", {"service": "mgw"}), ("/healthz", {"status": "ok"}), ("/readyz", {"status": "ready"})],
)
def test_liveness_readiness_and_the_root_are_open(
    gateway: GatewayProcess, method: str, path: str, body: dict[str, str]
) -> None:
    response = ask(gateway.port, path, method=method)
    assert response.status == 200
    assert int(response.value(b"content-length") or 0) == len(json.dumps(body, separators=(",", ":")))
    if method == "GET":
        assert response.json() == body


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ["/metrics", "/v1/models", "/v1/models/fast", "/v1beta/models"])
def test_metrics_and_the_catalog_want_a_key(gateway: GatewayProcess, method: str, path: str) -> None:
    without = ask(gateway.port, path, method=method)
    assert without.status == 401
    assert without.value(b"www-authenticate") == b'Bearer realm="mgw"'
    assert ask(gateway.port, path, KEY, method=method).status == 200


def test_a_head_answer_leaves_the_connection_usable(gateway: GatewayProcess) -> None:
    with RawClient(gateway.port) as client:
        client.send(request(None, KEY, path="/v1/models", method="HEAD"))
        assert client.read_response("HEAD").status == 200
        client.send(chat("fast", KEY))
        assert client.read_response().status == 200


def shape(response: RawResponse) -> str:
    """Name the dialect of a refusal."""
    body = response.json()
    if body.get("type") == "error":
        return "anthropic"
    return "gemini" if "status" in body["error"] else "openai"


@pytest.mark.parametrize(
    ("path", "header", "dialect"),
    [
        ("/v1/nothing", USER_AGENT, "openai"),
        ("/nothing", USER_AGENT, "openai"),
        ("/v1/images", USER_AGENT, "openai"),
        ("/v1/messages/nothing", USER_AGENT, "anthropic"),
        ("/v1/nothing", ANTHROPIC, "anthropic"),
        ("/v1beta/nothing", USER_AGENT, "gemini"),
        ("/v1beta/models/m:generateImages", USER_AGENT, "gemini"),
        ("/v1/nothing", GOOGLE, "gemini"),
    ],
)
def test_an_unknown_route_is_not_found_in_the_dialect_that_the_path_suggests(
    gateway: GatewayProcess, path: str, header: bytes, dialect: str
) -> None:
    response = ask(gateway.port, path, KEY, header, body=b"{}")
    assert (response.status, shape(response)) == (404, dialect)
    assert response.json()["error"]["message"] == f"no such endpoint: {path}"
    response = ask(gateway.port, path, header, body=b"{}")
    assert (response.status, shape(response)) == (401, dialect)


@pytest.mark.parametrize(
    ("method", "path", "allow", "dialect"),
    [
        ("DELETE", CHAT, b"GET, POST, HEAD", "openai"),
        ("DELETE", "/v1/messages", b"POST", "anthropic"),
        ("PUT", "/v1beta/models/m:generateContent", b"POST", "gemini"),
        ("POST", "/metrics", b"GET, HEAD", "openai"),
        ("POST", "/healthz", b"GET, HEAD", "openai"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(
    gateway: GatewayProcess, method: str, path: str, allow: bytes, dialect: str
) -> None:
    response = ask(gateway.port, path, KEY, method=method, body=b"")
    assert (response.status, response.value(b"allow"), shape(response)) == (405, allow, dialect)


# What the log says


def log_line(gateway: GatewayProcess, word: bytes, needle: bytes) -> str:
    pattern = re.compile(rb"^" + word + rb" [^\n]*" + re.escape(needle) + rb"[^\n]*\n", re.MULTILINE)
    found = gateway.stderr.wait_for(pattern.search, WAIT_SECONDS, f"a {word!r} line with {needle!r}")
    line: str = found[0].decode()
    return line


def id_of(response: RawResponse) -> bytes:
    return response.value(b"x-gateway-request-id") or b"?"


def test_a_usage_line_carries_what_the_contract_names(gateway: GatewayProcess) -> None:
    response = ask(gateway.port, CHAT, KEY, body=asking("fast"))
    line = log_line(gateway, b"usage", id_of(response))
    tokens = response.json()["usage"]["prompt_tokens"]
    for field in ("status=200", "outcome=ok", "provider=main", "model=fast", f"tokens_in={tokens}"):
        assert f" {field} " in line


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (CHAT, b"{", 400),
        ("/v1/responses", asking("smart"), 400),
        ("/v1/nothing", b"{}", 404),
        ("/readyz", b"", 405),
    ],
)
def test_a_refusal_has_its_access_line(gateway: GatewayProcess, path: str, body: bytes, status: int) -> None:
    response = ask(gateway.port, path, KEY, body=body)
    line = log_line(gateway, b"http", id_of(response))
    assert f" status={status} method=POST path={path} " in line


def test_what_is_no_http_has_its_access_line(gateway: GatewayProcess) -> None:
    before = gateway.metric("mgw_malformed_requests_total ", {"x-api-key": "edge-canary-1"})
    with RawClient(gateway.port) as client:
        client.send(b"nonsense\r\n\r\n")
        response = client.read_response()
    assert response.status == 400
    assert " status=400 method=- path=- " in log_line(gateway, b"http", id_of(response))
    after = gateway.metric("mgw_malformed_requests_total ", {"x-api-key": "edge-canary-1"})
    assert after == before + 1


def test_a_query_is_in_no_line(gateway: GatewayProcess) -> None:
    response = ask(gateway.port, f"{CHAT}?page=quite-unusual", KEY, body=b"{")
    log_line(gateway, b"http", id_of(response))
    assert b"quite-unusual" not in gateway.stderr.data


def test_health_and_metrics_are_asked_without_a_line(gateway: GatewayProcess) -> None:
    for path in ("/healthz", "/metrics", "/metrics?name=x"):
        assert ask(gateway.port, path, KEY).status == 200
    last = ask(gateway.port, "/readyz")
    assert last.status == 200
    log_line(gateway, b"http", b"path=/readyz")
    assert b"path=/healthz" not in gateway.stderr.data
    assert b"path=/metrics" not in gateway.stderr.data


def test_a_model_with_blanks_and_line_feeds_does_not_break_a_line(gateway: GatewayProcess) -> None:
    response = ask(gateway.port, CHAT, KEY, body=asking('a b"\nusage status=200'))
    line = log_line(gateway, b"usage", id_of(response))
    assert r'model="a b\"\nusage status=200"' in line


# Outputs


def test_an_output_that_is_full_is_told_and_counted_and_harms_no_request(simulator: SimulatorProcess) -> None:
    with start_gateway(plain(simulator, "hooks: {jsonl: {output: /dev/full}}")) as gateway:
        with RawClient(gateway.port) as client:
            for _ in range(20):
                client.send(chat("gpt-1"))
                assert client.read_response().status == 200
            gateway.log(b"usage events to /dev/full: cannot write: No space left on device")
            client.send(chat("gpt-1"))
            assert client.read_response().status == 200
        assert gateway.metric('mgw_usage_sink_errors_total{sink="jsonl"}') >= 1
        assert gateway.metric('mgw_usage_events_total{sink="jsonl"}') == 21
        assert gateway.metric('mgw_usage_events_total{sink="log"}') == 21
        assert gateway.stop() == 1, "they are lost"


@contextmanager
def serving(
    simulator: SimulatorProcess,
    folder: Path,
    *arguments: str,
    stdout: int = subprocess.PIPE,
    start: Start = fork_program,
    status: int = 0,
) -> Iterator[tuple[Daemon, int]]:
    """Start a gateway whose standard output is something special; yield it and its port.

    :param status: with which it ends: 1 where it could not write all of its events.
    """
    file = write_config(folder, plain(simulator, "hooks: {jsonl: {output: stdout}}"))
    command = (*arguments, "mgw", "-c", str(file))
    with start_twistd(*command, folder=folder, stdout=stdout, start=start) as daemon:
        assert daemon.stderr is not None
        found = daemon.stderr.wait_for(SERVES.search, WAIT_SECONDS, "the gateway to serve")
        yield daemon, int(found[1])
        daemon.process.terminate()
        assert daemon.process.wait(WAIT_SECONDS) == status
        assert b"Traceback" not in daemon.stderr.data


def test_a_reader_of_standard_output_that_has_gone_harms_no_request(
    simulator: SimulatorProcess, tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with serving(simulator, tmp_path, stdout=writing, status=1) as (daemon, port):
        os.close(writing)
        assert ask(port, CHAT, body=asking("gpt-1")).status == 200
        assert daemon.stderr is not None
        daemon.stderr.wait_for(
            lambda data: b"usage events to stdout: cannot write: Broken pipe" in data, 10, "the report"
        )
        assert b'mgw_usage_sink_errors_total{sink="jsonl"} 0.0' not in ask(port, "/metrics").body
        assert ask(port, CHAT, body=asking("gpt-1")).status == 200


def test_a_reader_of_standard_output_that_sleeps_makes_no_request_wait(
    simulator: SimulatorProcess, tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    try:
        with serving(simulator, tmp_path, stdout=writing) as (_, port), RawClient(port) as client:
            os.close(writing)
            for _ in range(300):  # each event is some 400 bytes, and the pipe holds 64 KiB
                client.send(chat("gpt-1"))
                assert client.read_response().status == 200
            with Path(f"/proc/self/fd/{reading}").open("rb", buffering=0) as waiting:
                assert len(waiting.read(65536)) > 30_000  # pieces of odd sizes leave gaps in its pages
            Collected(
                os.fdopen(os.dup(reading), "rb")
            )  # or the stop would wait its five seconds for a reader
    finally:
        os.close(reading)


def test_the_file_of_events_is_its_owners_alone_and_complete_after_a_stop(
    simulator: SimulatorProcess, tmp_path: Path
) -> None:
    file = tmp_path / "usage.jsonl"
    with start_gateway(plain(simulator, f"hooks: {{jsonl: {{output: {file}}}}}")) as gateway:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        with RawClient(gateway.port) as client:
            for _ in range(50):
                client.send(chat("gpt-1"))
                assert client.read_response().status == 200
        assert gateway.stop() == 0
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 50


def test_all_lines_go_to_the_log_file_and_to_a_new_one_after_sighup(
    simulator: SimulatorProcess, tmp_path: Path
) -> None:
    log, old = tmp_path / "mgw.log", tmp_path / "mgw.log.1"
    file = write_config(tmp_path, plain(simulator))
    with start_twistd("--logfile", str(log), "mgw", "-c", str(file), folder=tmp_path) as daemon:
        wait_until(
            lambda: log.exists() and SERVES.search(log.read_bytes()) is not None, "the gateway to serve"
        )
        found = SERVES.search(log.read_bytes())
        assert found is not None
        port = int(found[1])
        assert ask(port, CHAT, body=asking("before")).status == 200
        wait_until(lambda: b"\nusage " in log.read_bytes(), "the usage line")
        log.rename(old)
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: log.exists() and b"generation 2" in log.read_bytes(), "the new log")
        assert ask(port, CHAT, body=asking("after")).status == 200
        daemon.process.terminate()
        assert daemon.process.wait(WAIT_SECONDS) == 0
    assert b" model=before " in old.read_bytes()
    assert b" model=after " in log.read_bytes()
    assert b" model=after " not in old.read_bytes()
    assert daemon.stdout is not None
    assert daemon.stderr is not None
    assert (daemon.stdout.data, daemon.stderr.data) == (b"", b"")


# The process


def test_a_daemon_that_cannot_start_says_why_in_its_log(tmp_path: Path) -> None:
    file = write_config(
        tmp_path, "providers: {main: {kind: openai, api_key: sk-canary}}\nlisten: 192.0.2.1:0\n"
    )
    log = tmp_path / "mgw.log"
    done = subprocess.run(
        [TWISTD, f"--pidfile={tmp_path}/pid", "--logfile", str(log), "mgw", "-c", str(file)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    wait_until(
        lambda: b":2: listen: cannot listen on 192.0.2.1:0: Cannot assign" in log.read_bytes(), "the reason"
    )


def test_a_daemon_serves_and_stops(simulator: SimulatorProcess, tmp_path: Path) -> None:
    file = write_config(tmp_path, plain(simulator, f"hooks: {{jsonl: {{output: {tmp_path}/usage.jsonl}}}}"))
    log, pid = tmp_path / "twistd.log", tmp_path / "twistd.pid"
    done = subprocess.run(
        [TWISTD, f"--pidfile={pid}", "mgw", "-c", file.name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    number = int(pid.read_text())
    try:
        wait_until(lambda: SERVES.search(log.read_bytes()) is not None, "the daemon to serve")
        found = SERVES.search(log.read_bytes())
        assert found is not None
        port = int(found[1])
        assert ask(port, CHAT, body=asking("gpt-1")).status == 200
        os.kill(number, signal.SIGHUP)
        wait_until(lambda: b"generation 2" in log.read_bytes(), "the reload")
    finally:
        os.kill(number, signal.SIGTERM)
    wait_until(lambda: not pid.exists(), "the end")
    assert len((tmp_path / "usage.jsonl").read_text().splitlines()) == 1
    assert b"\nusage " in log.read_bytes()
    assert b"Traceback" not in log.read_bytes()


def test_a_start_takes_seconds_at_most(simulator: SimulatorProcess, tmp_path: Path) -> None:
    began = cpu_of_children()
    with serving(simulator, tmp_path, start=start_program) as (_, port):
        assert ask(port, "/healthz").status == 200
    assert cpu_of_children() - began < 3  # of CPU, stop included; measured: 0.8
