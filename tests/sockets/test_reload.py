"""SIGHUP: the file is read again, and nothing that runs is disturbed."""

from __future__ import annotations

import json
import os
import signal
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.certificates import authority, issue
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.operations import ask
from tests.support.raw_client import CHAT, RawClient, asking, chat, chunk
from tests.support.raw_upstream import (
    COMPLETION,
    JSON,
    STREAM_HEAD,
    RawUpstream,
    Turn,
    counted,
    start_upstream,
)
from tests.support.waiting import WAIT_SECONDS, wait_until

FIRST: Final = b'data: {"choices":[{"delta":{"content":"first"}}]}\n\n'
LAST: Final = b"data: [DONE]\n\n"


def configuration(upstream: RawUpstream, more: str = "") -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main}}
listen: 127.0.0.1:0
{more or "hooks: {jsonl: {output: stdout}}"}
"""


@pytest.fixture
def upstream() -> Iterator[RawUpstream]:
    with start_upstream() as process:
        yield process


@pytest.fixture
def gateway(upstream: RawUpstream) -> Iterator[GatewayProcess]:
    with start_gateway(configuration(upstream)) as process:
        yield process


def reload(gateway: GatewayProcess, text: str, generation: int = 2) -> None:
    """Have a gateway take a changed file."""
    gateway.rewrite(text)
    gateway.signal(signal.SIGHUP)
    gateway.log(b"the configuration was reloaded: generation %d\n" % generation)


def refused_reload(gateway: GatewayProcess, text: str) -> str:
    """Have a gateway refuse a changed file; return its log."""
    gateway.rewrite(text)
    gateway.signal(signal.SIGHUP)
    return gateway.log(b"the configuration was not reloaded; the previous one stays").decode()


def send(gateway: GatewayProcess, model: str, *headers: bytes) -> int:
    with RawClient(gateway.port) as client:
        client.send(chat(model, *headers))
        return client.read_response().status


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_new_aliases_and_edge_keys_work_and_the_removed_ones_do_not(
    gateway: GatewayProcess, upstream: RawUpstream
) -> None:
    keys = "hooks: {jsonl: {output: stdout}}\nedge_auth: {enabled: true, keys: [edge-canary-%d]}\n"
    reload(gateway, configuration(upstream, keys % 1 + "aliases: {quick: main/gpt-quick}"))
    assert send(gateway, "quick", b"x-api-key: edge-canary-1") == 200
    assert upstream.turns[-1].model() == "gpt-quick"
    reload(gateway, configuration(upstream, keys % 2), 3)
    assert send(gateway, "quick", b"x-api-key: edge-canary-2") == 200
    assert upstream.turns[-1].model() == "quick"
    assert send(gateway, "quick", b"x-api-key: edge-canary-1") == 401


def test_a_stream_in_flight_finishes_on_the_old_configuration_and_its_pool_closes(
    gateway: GatewayProcess, upstream: RawUpstream
) -> None:
    go_on = threading.Event()

    def held(turn: Turn) -> None:
        assert turn.body
        turn.send(STREAM_HEAD, chunk(FIRST))
        assert go_on.wait(WAIT_SECONDS)
        turn.send(chunk(LAST), chunk(b""))
        turn.wait_until_left()

    upstream.begin(held)
    with start_upstream() as second, RawClient(gateway.port) as client:
        client.send(chat("gpt-old", stream=True))
        assert client.incoming.until(FIRST) is not None
        reload(gateway, configuration(second))
        assert send(gateway, "gpt-new") == 200
        assert [turn.model() for turn in second.turns] == ["gpt-new"]
        assert upstream.left == 0
        go_on.set()
        assert client.incoming.until(b"0\r\n\r\n") is not None
        upstream.wait_until_left()
    events = gateway.events(2)
    assert {event["upstream_model"]: event["status"] for event in events} == {
        "gpt-new": "ok",
        "gpt-old": "ok",
    }


def test_an_idle_connection_of_the_old_configuration_is_closed(
    gateway: GatewayProcess, upstream: RawUpstream
) -> None:
    def respond(turn: Turn) -> None:
        assert turn.body
        turn.send(counted(COMPLETION, JSON))
        turn.wait_until_left()

    upstream.begin(respond)
    assert send(gateway, "gpt-1") == 200
    reload(gateway, configuration(upstream))
    upstream.wait_until_left()


def test_an_invalid_file_changes_nothing_and_is_told_in_the_log_and_the_metrics(
    gateway: GatewayProcess, upstream: RawUpstream
) -> None:
    text = configuration(upstream).replace("base_url", "base_ulr") + "aliases: {quick: nobody/gpt}\n"
    log = refused_reload(gateway, text)
    assert "mgw.yaml:3: providers.main.base_ulr: unknown key, did you mean base_url?" in log
    assert "mgw.yaml:7: aliases.quick: " in log
    assert gateway.metric("mgw_config_reload_ok ") == 0
    assert gateway.metric("mgw_config_reload_failures_total ") == 1
    assert gateway.metric("mgw_config_generation ") == 1
    assert send(gateway, "gpt-1") == 200
    reload(gateway, configuration(upstream))
    assert gateway.metric("mgw_config_reload_ok ") == 1


def test_a_file_that_is_gone_leaves_the_old_configuration(gateway: GatewayProcess) -> None:
    gateway.config_file.unlink()
    gateway.signal(signal.SIGHUP)
    log = gateway.log(b"the configuration was not reloaded").decode()
    assert "No such file" in gateway.log(b"No such file").decode(), log
    assert send(gateway, "gpt-1") == 200


def test_events_go_to_the_changed_file_and_all_of_the_former_are_in_the_other(
    upstream: RawUpstream, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    with start_gateway(configuration(upstream, f"hooks: {{jsonl: {{output: {first}}}}}")) as gateway:
        assert send(gateway, "before") == 200
        reload(gateway, configuration(upstream, f"hooks: {{jsonl: {{output: {second}}}}}"))
        assert send(gateway, "after") == 200
        assert gateway.stop() == 0
    assert [event["model"] for event in lines_of(first)] == ["before"]
    assert [event["model"] for event in lines_of(second)] == ["after"]


def test_an_output_that_cannot_be_opened_leaves_the_old_configuration(
    upstream: RawUpstream, tmp_path: Path
) -> None:
    file = tmp_path / "usage.jsonl"
    with start_gateway(configuration(upstream, f"hooks: {{jsonl: {{output: {file}}}}}")) as gateway:
        log = refused_reload(
            gateway, configuration(upstream, f"hooks: {{jsonl: {{output: {tmp_path}/no/such}}}}")
        )
        assert "hooks.jsonl.output" in log
        assert send(gateway, "still") == 200
        assert gateway.stop() == 0
    assert [event["model"] for event in lines_of(file)] == ["still"]


def test_a_rotation_loses_no_event_while_requests_go_on(upstream: RawUpstream, tmp_path: Path) -> None:
    file = tmp_path / "usage.jsonl"
    done = threading.Event()
    sent: list[int] = []

    def keep_asking(port: int) -> None:
        with RawClient(port) as client:
            while not done.is_set():
                client.send(chat("gpt-1"))
                sent.append(client.read_response().status)

    with start_gateway(configuration(upstream, f"hooks: {{jsonl: {{output: {file}}}}}")) as gateway:
        asking = threading.Thread(target=keep_asking, args=(gateway.port,))
        asking.start()
        for turn in range(1, 4):
            seen = len(sent)
            wait_until(lambda seen=seen: len(sent) > seen + 20, "requests to go on")  # type: ignore[misc]  # bound early
            file.rename(tmp_path / f"usage.jsonl.{turn}")
            gateway.signal(signal.SIGHUP)
            wait_until(file.exists, "the new file")
        done.set()
        asking.join()
        assert gateway.stop() == 0
    events = [event for path in tmp_path.glob("usage.jsonl*") for event in lines_of(path)]
    assert set(sent) == {200}
    assert len({event["request_id"] for event in events}) == len(events) == len(sent)


def test_a_changed_address_waits_for_a_restart_and_the_log_says_so(
    gateway: GatewayProcess, upstream: RawUpstream
) -> None:
    reload(gateway, configuration(upstream).replace("127.0.0.1:0", "127.0.0.1:1"))
    assert b"listen: 127.0.0.1:1 takes effect after a restart" in gateway.stderr.data
    assert send(gateway, "gpt-1") == 200


def test_a_change_of_the_limits_holds_for_new_requests(
    gateway: GatewayProcess, upstream: RawUpstream
) -> None:
    assert ask(gateway.port, CHAT, body=asking("m", filler="x" * 5000)).status == 200
    reload(gateway, configuration(upstream) + "max_body_bytes: 4096\n")
    assert ask(gateway.port, CHAT, body=asking("m", filler="x" * 5000)).status == 413


def serial(gateway: GatewayProcess, trust: Path) -> int:
    """Return the serial number of the certificate that the gateway shows."""
    context = ssl.create_default_context(cafile=str(trust))
    with (
        RawClient(gateway.port) as client,
        context.wrap_socket(client.socket, server_hostname="localhost") as tls,
    ):
        found = tls.getpeercert()
        client.socket = tls
    assert found is not None
    return int(str(found["serialNumber"]), 16)


def test_a_renewed_certificate_is_shown_after_sighup_and_a_broken_one_is_not(
    upstream: RawUpstream, tmp_path: Path
) -> None:
    by = authority(tmp_path)
    files = issue(by, "localhost", "127.0.0.1")
    tls = f"tls: {{cert_file: {files.cert_file}, key_file: {files.key_file}}}"
    text = configuration(upstream, tls)
    with start_gateway(text) as gateway:
        first = serial(gateway, by.ca_file)
        issue(by, "localhost", "127.0.0.1")  # the same files
        assert serial(gateway, by.ca_file) == first
        reload(gateway, text)
        second = serial(gateway, by.ca_file)
        assert second != first
        files.cert_file.write_text("no certificate")
        log = refused_reload(gateway, text)
        assert f"tls.cert_file: {files.cert_file} contains no PEM certificate" in log
        assert serial(gateway, by.ca_file) == second


@pytest.mark.parametrize("workers", [None, 2], ids=["one process", "workers"])
def test_a_pipe_or_an_endless_file_in_place_of_the_configuration_holds_nobody_up(
    upstream: RawUpstream, workers: int | None
) -> None:
    upstream.begin()
    more = "" if workers is None else f"workers: {workers}"
    with start_gateway(configuration(upstream, more)) as gateway:
        text = gateway.config_file.read_text()
        gateway.config_file.unlink()
        os.mkfifo(gateway.config_file)
        gateway.signal(signal.SIGHUP)
        assert b"not a regular file" in gateway.log(b"the configuration was not reloaded", WAIT_SECONDS)
        assert send(gateway, "gpt-1") == 200
        gateway.config_file.unlink()
        gateway.config_file.symlink_to("/dev/zero")
        gateway.signal(signal.SIGHUP)
        refused = b"the configuration was not reloaded"
        gateway.stderr.wait_for(lambda log: log.count(refused) == 2, WAIT_SECONDS, "the other refusal")
        assert send(gateway, "gpt-1") == 200
        gateway.config_file.unlink()
        (gateway.config_file.parent / "real.yaml").write_text(text)
        gateway.config_file.symlink_to("real.yaml")
        gateway.signal(signal.SIGHUP)
        gateway.log(b"the configuration was reloaded: generation 2\n")


def test_reloads_that_come_during_a_reload_are_one_more(gateway: GatewayProcess) -> None:
    for _ in range(20):
        gateway.signal(signal.SIGHUP)
    gateway.log(b"the configuration was reloaded: generation 2\n")
    gateway.rewrite("providers: {}")
    gateway.signal(signal.SIGHUP)
    gateway.log(b"the configuration was not reloaded")
