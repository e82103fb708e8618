"""With ``log.format: json`` every line of standard error is one JSON object, from startup to exit."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.gateway import TWISTD, GatewayProcess, start_gateway
from tests.support.operations import start_twistd, write_config
from tests.support.raw_client import RawClient, chat, request
from tests.support.raw_sessions import close_frame, handshake
from tests.support.raw_upstream import COMPLETION, JSON, STREAM_HEAD, RawUpstream, Turn, counted
from tests.support.realtime import closed_port
from tests.support.supervised import Workers
from tests.support.waiting import WAIT_SECONDS, wait_until

KEY: Final = b"Authorization: Bearer edge-canary-1"
CONFIG: Final = """
log: {{format: json, requests: {requests}}}
providers:
  main: {{kind: openai_compat, base_url: "{url}/v1", api_key: sk-canary}}
  gone: {{kind: openai_compat, base_url: "http://127.0.0.1:{closed}/v1", api_key: sk-canary}}
  live: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main}}
edge_auth: {{enabled: true, keys: [edge-canary-1]}}
listen: 127.0.0.1:0
hooks: {{jsonl: {{output: stdout}}}}
"""
EVENTS: Final = [b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n', b"data: [DONE]\n\n"]
Line = dict[str, Any]  # Any: JSON
workers = pytest.mark.parametrize("processes", ["", "workers: 2\n"], ids=["one process", "workers"])


def answer(turn: Turn) -> None:
    """Respond as the model says."""
    if turn.value(b"upgrade"):
        turn.switch_protocols()
        turn.closed = True
    elif turn.model() == "stream":
        pieces = [b"%x\r\n%s\r\n" % (len(event), event) for event in EVENTS]
        turn.send(STREAM_HEAD, *pieces, b"0\r\n\r\n")
    elif turn.model() == "broken":
        turn.send(counted(b'{"error":{"message":"no"}}', JSON, status=500))
    elif turn.model() == "slow":
        turn.wait_until_left()
    else:
        turn.send(counted(COMPLETION, JSON))


def send_all(gateway: GatewayProcess) -> Counter[str]:
    """Send requests of all ends; return how many there are with and without a usage event."""
    asked = [
        chat("gpt-1", KEY),
        chat("stream", KEY, stream=True),
        chat("broken", KEY),
        chat("gone/gpt-1", KEY),
        chat("größe \x9b\u2028", KEY),
        chat("gpt-1"),  # no key
        request(None, KEY, path="/v1/models", method="GET"),
        request(None, KEY, path="/nowhere/\x9b\xff%00", method="GET"),
        request(None, KEY, path="/healthz", method="GET"),
        request(b"{", KEY, path="/v1/chat/completions"),
    ]
    for one in asked:
        with RawClient(gateway.port) as client:
            client.send(one)
            client.read_response("GET" if one.startswith(b"GET") else "POST")
    with RawClient(gateway.port) as client:
        client.send(b"\x16\x03\x01 no HTTP\r\n\r\n")
        client.read_response()
    with RawClient(gateway.port) as client:
        client.send(chat("slow", KEY))
        gateway.stderr.wait_for(partial(has_requests, 6), WAIT_SECONDS, "the others")
        client.reset()
    with RawClient(gateway.port) as client:
        client.send(handshake("/v1/realtime?model=live/m-1", "edge-canary-1"))
        client.incoming.head()
        client.send(close_frame(1000))
        client.incoming.rest()
    return Counter(usage=8, http=4)


def lines_of(data: bytes) -> list[Line]:
    """Read every line of standard error."""
    assert data.endswith(b"\n")
    found = []
    for line in data[:-1].split(b"\n"):
        assert line.decode().isprintable()
        found.append(json.loads(line))
    for one in found:
        assert one["kind"] in {"usage", "http", "log"}
        assert one["time"].endswith("Z")
        assert one["level"] in {"info", "warn", "error", "critical"}
    return found


def stop(gateway: GatewayProcess) -> list[Line]:
    assert gateway.stop() == 0
    return lines_of(gateway.stderr.whole(WAIT_SECONDS))


@workers
def test_one_writes_exactly_one_line_of_json_for_each_request(processes: str, upstream: RawUpstream) -> None:
    upstream.begin(answer)
    config = CONFIG.format(url=upstream.url, closed=closed_port(), requests="one") + processes
    with start_gateway(config) as gateway:
        wanted = send_all(gateway)
        events = {event["request_id"]: event for event in gateway.events(wanted["usage"])}
        lines = stop(gateway)
    requests = [line for line in lines if line["kind"] != "log"]
    assert Counter(line["kind"] for line in requests) == wanted
    assert max(Counter(line["request_id"] for line in requests).values()) == 1
    for line in requests:
        if line["kind"] == "usage":
            said = {name: line[name] for name in line if name not in {"level", "kind", "method", "path"}}
            assert said == events.pop(line["request_id"])
            assert line["method"] in {"POST", "GET"}
            assert line["path"] in {"/v1/chat/completions", "/v1/realtime"}
    assert not events
    assert {line["status"] for line in requests if line["kind"] == "usage"} == {
        *("ok", "upstream_error", "rejected", "client_abort")
    }


@workers
def test_a_reload_changes_format_and_lines(processes: str, upstream: RawUpstream) -> None:
    upstream.begin(answer)
    both = CONFIG.format(url=upstream.url, closed=closed_port(), requests="both") + processes
    with start_gateway(both) as gateway, RawClient(gateway.port) as client:
        for number, log in enumerate(("", "log: {format: json, requests: none}"), start=2):
            client.send(chat("gpt-1", KEY))
            assert client.read_response().status == 200
            gateway.stderr.wait_for(partial(has_requests, number - 1), WAIT_SECONDS, "its lines")
            gateway.rewrite(both.replace("log: {format: json, requests: both}", log))
            gateway.signal(signal.SIGHUP)
            gateway.log(b"the configuration was reloaded: generation %d" % number)
        client.send(chat("gpt-1", KEY))
        assert client.read_response().status == 200
        gateway.events(3)
        assert gateway.stop() == 0
        data = gateway.stderr.whole(WAIT_SECONDS)
    json_lines = [line for line in data.splitlines() if line.startswith(b"{")]
    found = Counter(json.loads(line)["kind"] for line in json_lines)
    assert (found["usage"], found["http"]) == (1, 1)
    assert data.count(b"\nusage ") == data.count(b"\nhttp ") == 1
    assert b"#info] the configuration was reloaded: generation 2\n" in data
    lines_of(data[data.rindex(b"\n{", 0, data.index(b"reloaded: generation 3")) + 1 :])


@workers
def test_messages_are_json_from_startup_to_exit(processes: str, upstream: RawUpstream) -> None:
    upstream.begin(answer)
    config = CONFIG.format(url=upstream.url, closed=closed_port(), requests="both") + processes
    with start_gateway(config) as gateway:
        gateway.rewrite("providers: {main: {kind: nothing}}\nproviders: 1\n")
        gateway.signal(signal.SIGHUP)
        gateway.log(b"the configuration was not reloaded")
        with RawClient(gateway.port) as client:
            client.send(chat("gone/gpt-1", KEY))
            assert client.read_response().status == 502
        gateway.log(b"refused the connection")
        if processes:
            killed = Workers(gateway).kill(0)
            Workers(gateway).wait_for_replacement(0, killed)
        lines = stop(gateway)
    messages = [line["message"] for line in lines if line["kind"] == "log"]
    assert messages[0].startswith("twistd ")
    assert messages[-1] == "Server Shut Down."
    (refused,) = (line for line in lines if "refused the connection" in line.get("message", ""))
    assert refused["level"] == "warn"
    assert refused["logger"] == "mgw.usage.journal"
    assert ("worker" in refused) is bool(processes)


def test_why_it_cannot_start_is_json(tmp_path: Path, upstream: RawUpstream) -> None:
    config = CONFIG.format(url=upstream.url, closed=closed_port(), requests="both")
    with start_gateway(config) as gateway:
        busy = config.replace("127.0.0.1:0", f"127.0.0.1:{gateway.port}")
        second = tmp_path / "mgw.yaml"
        second.write_text(busy, encoding="utf-8")
        status, data = run([TWISTD, "-n", "--pidfile=", "mgw", "-c", str(second)])
    assert status == 1
    (line,) = (line for line in lines_of(data) if line["level"] != "info")
    assert "Address already in use" in line["message"]


def test_a_log_file_that_cannot_be_opened_is_json(tmp_path: Path) -> None:
    file = write_config(tmp_path, CONFIG.format(url="http://127.0.0.1:1", closed=2, requests="both"))
    status, data = run([TWISTD, "-n", "--pidfile=", "--logfile", "/no/such/log", "mgw", "-c", str(file)])
    assert status == 1
    (line,) = lines_of(data)
    assert line["message"].startswith("mgw: the log file ")
    assert line["level"] == "critical"


def test_a_log_file_is_json_and_so_is_the_new_one_after_sighup(upstream: RawUpstream, tmp_path: Path) -> None:
    upstream.begin(answer)
    log, old = tmp_path / "mgw.log", tmp_path / "mgw.log.1"
    file = write_config(tmp_path, CONFIG.format(url=upstream.url, closed=closed_port(), requests="one"))
    with start_twistd("--logfile", str(log), "mgw", "-c", str(file), folder=tmp_path) as daemon:
        wait_until(lambda: log.exists() and b"mgw serves" in log.read_bytes(), "the gateway to serve")
        port = log.read_bytes().partition(b"mgw serves http://127.0.0.1:")[2].partition(b'"')[0]
        with RawClient(int(port)) as client:
            client.send(chat("before", KEY))
            assert client.read_response().status == 200
            wait_until(lambda: b'"before"' in log.read_bytes(), "its line")
            log.rename(old)
            daemon.process.send_signal(signal.SIGHUP)
            wait_until(lambda: log.exists() and b"generation 2" in log.read_bytes(), "the new log")
            client.send(chat("after", KEY))
            assert client.read_response().status == 200
        daemon.process.terminate()
        assert daemon.process.wait(WAIT_SECONDS) == 0
    for path, model in ((old, "before"), (log, "after")):
        (line,) = (line for line in lines_of(path.read_bytes()) if line["kind"] == "usage")
        assert (line["model"], line["path"]) == (model, "/v1/chat/completions")
    assert daemon.stderr is not None
    assert daemon.stderr.data == b""


def has_requests(count: int, data: bytes) -> bool:
    return data.count(b"chat/completions") >= count


def run(command: list[str]) -> tuple[int, bytes]:
    """Run a program to its end; return its status and what it wrote to standard error."""
    done = subprocess.run(command, capture_output=True, timeout=WAIT_SECONDS, check=False)
    return done.returncode, done.stderr
