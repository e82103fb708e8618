"""Keys that come and go in files while gateways run: one process, and two workers behind a supervisor."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from hashlib import sha256
from http.client import HTTPConnection, IncompleteRead
from pathlib import Path
from typing import Final

import pytest

from tests.support.commands import run_mgw
from tests.support.deployment import providers
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_client import chunk
from tests.support.raw_upstream import STREAM_HEAD, Turn, start_upstream
from tests.support.simulator import SimulatorProcess, start_simulator
from tests.support.waiting import WAIT_SECONDS, wait_until

FIXED: Final = "edge-canary-fixed-0001"
CONNECTIONS: Final = 6
"""Enough for both workers to have some."""
SECONDS: Final = 2.0
BODY: Final = json.dumps({"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]})


@pytest.fixture(scope="module")
def simulator() -> Iterator[SimulatorProcess]:
    with start_simulator() as simulator:
        yield simulator


def config_text(url: str, directory: Path, more: str = "", groups: str = "{research: {}}") -> str:
    return (
        providers(url)
        + f"""
edge_auth:
  enabled: true
  keys_dir: {directory}
  groups: {groups}
  keys: [{{name: fixed, key: {FIXED}}}]
{more}
"""
    )


class Client:
    """A client with a connection that it keeps, and one head for all of its requests."""

    def __init__(self, gateway: GatewayProcess, key: str) -> None:
        self.connection = HTTPConnection("127.0.0.1", gateway.port, timeout=WAIT_SECONDS)
        self.headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def ask(self) -> tuple[int, str]:
        self.connection.request("POST", "/v1/chat/completions", BODY, self.headers)
        with closing(self.connection.getresponse()) as response:
            text = response.read().decode()
        # A refusal at the head may close the connection, on which the body still comes.
        assert response.status == 401 or self.connection.sock is not None, "the connection is kept"
        return response.status, text

    def status(self) -> int:
        return self.ask()[0]


def clients_of(gateway: GatewayProcess, key: str, stack: ExitStack) -> list[Client]:
    clients = [Client(gateway, key) for _ in range(CONNECTIONS)]
    for client in clients:
        stack.callback(client.connection.close)
    return clients


def mgw_key(*arguments: str) -> str:
    """Call ``mgw key``; return what it prints."""
    done = run_mgw(["key", *arguments])
    assert done.returncode == 0, done.stderr
    printed: bytes = done.stdout
    return printed.decode().strip()


def until(clients: list[Client], status: int) -> None:
    """Wait until all clients get a status, for as long as a change may take, and see that it stays so."""
    begun = time.monotonic()
    wait_until(lambda: all(client.status() == status for client in clients), f"all get {status}")
    assert time.monotonic() - begun < SECONDS + 1.0  # a look takes part of a second on a machine that is busy
    assert {client.status() for client in clients} == {status}


@pytest.mark.parametrize("workers", ["", "workers: 2"])
def test_a_key_is_added_and_revoked_while_its_clients_stay(
    simulator: SimulatorProcess, tmp_path: Path, workers: str
) -> None:
    with start_gateway(config_text(simulator.url, tmp_path, workers)) as gateway, ExitStack() as stack:
        file = str(gateway.config_file)
        assert {client.status() for client in clients_of(gateway, FIXED, stack)} == {200}
        key = mgw_key("add", "alice", "--group", "research", "-c", file)
        clients = clients_of(gateway, key, stack)
        until(clients, 200)
        gateway.log(b"key alice: added")
        mgw_key("revoke", "alice", "-c", file)
        until(clients, 401)
        assert "this gateway key is disabled" in clients[0].ask()[1]
        mgw_key("revoke", "alice", "--delete", "-c", file)
        wait_until(lambda: "has been removed" in clients[0].ask()[1], "the key is gone")
        assert b"key alice: removed" in gateway.log(b"removed")
        renewed = mgw_key("add", "alice", "-c", file)
        until(clients_of(gateway, renewed, stack), 200)
        assert {client.status() for client in clients} == {401}
        head = {"Authorization": f"Bearer {renewed}"}
        assert gateway.metric('mgw_keys{state="active"}', head) == 2
        assert gateway.metric("mgw_edge_rejections_total{", head) >= CONNECTIONS
        for secret in (key, renewed, sha256(key.encode()).hexdigest()):
            assert secret.encode() not in gateway.stderr.data + gateway.stdout.data


@pytest.mark.parametrize("workers", ["", "workers: 2"])
def test_a_rotated_key_is_valid_beside_the_new_one(
    simulator: SimulatorProcess, tmp_path: Path, workers: str
) -> None:
    before = mgw_key("add", "alice", "--dir", str(tmp_path))
    with start_gateway(config_text(simulator.url, tmp_path, workers)) as gateway, ExitStack() as stack:
        old = clients_of(gateway, before, stack)
        assert {client.status() for client in old} == {200}
        new = clients_of(gateway, mgw_key("rotate", "alice", "--dir", str(tmp_path)), stack)
        until(new, 200)
        assert {client.status() for client in old} == {200}
        newest = clients_of(
            gateway, mgw_key("rotate", "alice", "--overlap", "0", "--dir", str(tmp_path)), stack
        )
        until(newest, 200)
        assert {client.status() for client in (*old, *new)} == {401}


@pytest.mark.parametrize("workers", ["", "workers: 2"])
def test_a_key_expires_over_a_connection_that_stays(
    simulator: SimulatorProcess, tmp_path: Path, workers: str
) -> None:
    key, text = "edge-canary-short-0001", config_text(simulator.url, tmp_path, workers)
    with start_gateway(text) as gateway, ExitStack() as stack:
        ends = time.time() + 4.0
        moment = datetime.fromtimestamp(int(ends), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        beside = tmp_path / ".alice"
        beside.write_text(f"sha256: {sha256(key.encode()).hexdigest()}\nexpires: {moment}\n")
        beside.rename(tmp_path / "alice.yaml")
        clients = clients_of(gateway, key, stack)
        wait_until(lambda: all(client.status() == 200 for client in clients), "the key is there")
        seen: list[tuple[float, int]] = []

        def is_over() -> bool:
            began = time.time()
            status = clients[len(seen) % CONNECTIONS].status()
            seen.append((began, status))
            return status == 401

        wait_until(is_over, "the key expires")
        assert all(status == 401 for began, status in seen if began >= int(ends))
        assert all(status == 200 for began, status in seen[:-1])
        assert {client.status() for client in clients} == {401}
        assert gateway.log(b"key alice: expired").count(b"key alice: expired") == 1
        head = {"Authorization": f"Bearer {FIXED}"}
        assert gateway.metric('mgw_keys{state="expired"}', head) == 1
        assert gateway.metric('mgw_edge_rejections_total{reason="expired"}', head) >= CONNECTIONS


def test_workers_that_start_later_know_the_keys(simulator: SimulatorProcess, tmp_path: Path) -> None:
    first = mgw_key("add", "first", "--dir", str(tmp_path))
    gone = mgw_key("add", "gone", "--dir", str(tmp_path))
    with start_gateway(config_text(simulator.url, tmp_path, "workers: 2")) as gateway, ExitStack() as stack:
        second = mgw_key("add", "second", "--dir", str(tmp_path))
        mgw_key("revoke", "gone", "--delete", "--dir", str(tmp_path))
        gateway.log(b"key second: added")
        pids = [int(line.split(b"(pid ")[1].split(b")")[0]) for line in ready_lines(gateway)]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: len(ready_lines(gateway)) == 4, "both are replaced")
        for key, status in ((first, 200), (second, 200), (gone, 401)):
            assert {client.status() for client in clients_of(gateway, key, stack)} == {status}


def ready_lines(gateway: GatewayProcess) -> list[bytes]:
    return [line for line in gateway.stderr.data.splitlines() if b"is ready" in line and b"worker" in line]


@pytest.mark.parametrize("workers", ["", "workers: 2"])
def test_a_gateway_that_is_killed_starts_with_the_keys_that_are_there(
    simulator: SimulatorProcess, tmp_path: Path, workers: str
) -> None:
    key = mgw_key("add", "alice", "--dir", str(tmp_path))
    (tmp_path / "broken.yaml").write_text("sha256: 12\n")
    text = config_text(simulator.url, tmp_path, workers)
    with start_gateway(text) as gateway, ExitStack() as stack:
        assert Client(gateway, key).status() == 200
        gateway.process.kill()
        gateway.process.wait()
    mgw_key("revoke", "alice", "--dir", str(tmp_path))
    other = mgw_key("add", "bob", "--dir", str(tmp_path))
    with start_gateway(text) as gateway, ExitStack() as stack:
        assert {client.status() for client in clients_of(gateway, key, stack)} == {401}
        assert {client.status() for client in clients_of(gateway, other, stack)} == {200}
        assert b"broken.yaml:1: sha256: " in gateway.log(b"broken.yaml")
        assert gateway.metric("mgw_key_files_invalid", {"Authorization": f"Bearer {other}"}) == 1


@pytest.mark.parametrize("workers", ["", "workers: 2"])
def test_a_reload_rereads_the_files_and_takes_no_group_from_them(
    simulator: SimulatorProcess, tmp_path: Path, workers: str
) -> None:
    key = mgw_key("add", "alice", "--group", "research", "--dir", str(tmp_path))
    with start_gateway(config_text(simulator.url, tmp_path, workers)) as gateway, ExitStack() as stack:
        clients = clients_of(gateway, key, stack)
        assert {client.status() for client in clients} == {200}
        gateway.rewrite(config_text(simulator.url, tmp_path, f"{workers}\nlisten: 127.0.0.1:0", "{ops: {}}"))
        gateway.signal(signal.SIGHUP)
        assert b"alice.yaml names the group research" in gateway.log(b"was not reloaded")
        assert {client.status() for client in clients} == {200}
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        other = mgw_key("add", "bob", "--group", "ops", "--dir", str(elsewhere))
        gateway.rewrite(config_text(simulator.url, elsewhere, f"{workers}\nlisten: 127.0.0.1:0", "{ops: {}}"))
        gateway.signal(signal.SIGHUP)
        gateway.log(b"key alice: removed")
        until(clients, 401)
        until(clients_of(gateway, other, stack), 200)


@pytest.mark.parametrize("workers", ["", "workers: 2"])
def test_the_log_has_one_line_for_each_thing_that_becomes_of_a_key(
    simulator: SimulatorProcess, tmp_path: Path, workers: str
) -> None:
    """The processes of a service all know of each change, and one of them tells of it."""
    text = config_text(simulator.url, tmp_path, workers)
    secrets = [mgw_key("add", "alice", "--dir", str(tmp_path))]
    digests = [sha256(secrets[0].encode()).hexdigest()]
    file = tmp_path / "alice.yaml"

    def write(name: str, content: str) -> None:
        (tmp_path / ".new").write_text(content)
        (tmp_path / ".new").rename(tmp_path / name)

    with start_gateway(text) as gateway:
        secrets.append(mgw_key("rotate", "alice", "--dir", str(tmp_path)))
        gateway.log(b"key alice: changed (rotated)")
        edited = file.read_text() + "limits: [{requests: 9, per: day}]\ngroups: [research]\n"
        write("alice.yaml", edited)
        gateway.log(b"key alice: changed (limits, groups)")
        write("alice.yaml", edited + "groups: [nobody]\n")
        gateway.log(b"alice.yaml:")
        soon = datetime.fromtimestamp(int(time.time()) + 5, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        write("alice.yaml", f"{edited}expires: {soon}\n")
        gateway.log(b"key alice: expired")
        write("alice.yaml", f"{edited}expires: 2090-01-01\ndisabled: true\n")
        gateway.log(b"key alice: changed (disabled, expires)")
        write("alice.yaml", f"{edited}expires: 2090-01-01\n")
        gateway.log(b"key alice: changed (enabled)")
        file.unlink()
        gateway.log(b"key alice: removed")
        write("bob.yaml", f"sha256: {'b' * 64}\n")
        gateway.log(b"key bob: added")
        gateway.rewrite(gateway.config_file.read_text().replace("name: fixed", "models: ['*'], name: fixed"))
        gateway.signal(signal.SIGHUP)
        gateway.log(b"key fixed: changed (models)")
        lines = [line.partition("] ")[2] for line in gateway.stderr.data.decode().splitlines()]
    told = [line for line in lines if line.startswith("key ") or ".yaml:" in line]
    assert [line for line in told if "alice.yaml" not in line] == [
        "key alice: changed (rotated)",
        "key alice: changed (limits, groups)",
        "key alice: changed (expires)",
        "key alice: expired",
        "key alice: changed (disabled, expires)",
        "key alice: changed (enabled)",
        "key alice: removed",
        "key bob: added",
        "key fixed: changed (models)",
    ]
    assert len([line for line in told if "alice.yaml" in line]) == 1
    for secret in (*secrets, *digests, FIXED, "b" * 64):
        assert not any(secret in line for line in lines)


FIRST: Final = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"first"}}]}\n\n'


def hold(turn: Turn) -> None:
    """Begin a stream, and say nothing more until the gateway has left."""
    assert turn.body
    turn.send(STREAM_HEAD, chunk(FIRST))
    turn.wait_until_left()


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("workers", ["", "workers: 2"])
def test_streams_end_with_their_key(tmp_path: Path, workers: str, path: str) -> None:
    """One that passes through breaks off, and a translated one says why."""
    key = mgw_key("add", "alice", "--dir", str(tmp_path))
    with start_upstream() as upstream, ExitStack() as stack:
        upstream.begin(hold)
        text = config_text(upstream.url, tmp_path, f"  cut_revoked: true\n{workers}")
        gateway = stack.enter_context(start_gateway(text))
        connection = HTTPConnection("127.0.0.1", gateway.port, timeout=WAIT_SECONDS)
        stack.callback(connection.close)
        body = json.loads(BODY) | {"model": "openai/gpt-5", "max_tokens": 9, "stream": True}
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        assert response.status == 200
        assert response.readline()
        mgw_key("revoke", "alice", "--dir", str(tmp_path))
        if path == "/v1/messages":
            rest = response.read()
            assert b"event: error" in rest
            assert b"this gateway key is disabled" in rest
        else:
            with pytest.raises(IncompleteRead):
                response.read()
        event = gateway.event()
        assert (event["status"], event["error"], event["client"]) == ("rejected", "revoked", "alice")
        assert event["http_status"] == 200
