"""Reloads of a gateway with several workers: all of them use the new configuration, or none does."""

from __future__ import annotations

import os
import resource
import signal
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.certificates import Authority, issue
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.operations import ask
from tests.support.raw_client import RawClient, chat
from tests.support.raw_upstream import RawUpstream
from tests.support.supervised import HEALTH, Load, Workers, alive, held_turns, holding
from tests.support.waiting import WAIT_SECONDS, wait_until

RELOADS: Final = int(os.environ.get("MGW_RELOADS", "5"))
NOT_RELOADED: Final = b"the configuration was not reloaded"


def configuration(upstream: RawUpstream, model: str = "gpt-1", workers: int = 2, more: str = "") -> str:
    return f"""
workers: {workers}
providers:
  main: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main}}
aliases: {{now: main/{model}}}
listen: 127.0.0.1:0
hooks: {{jsonl: {{output: stdout}}}}
{more}
"""


@pytest.fixture
def gateway(upstream: RawUpstream) -> Iterator[GatewayProcess]:
    upstream.begin()
    with start_gateway(configuration(upstream)) as process:
        yield process


@pytest.fixture
def workers(gateway: GatewayProcess) -> Workers:
    return Workers(gateway)


def reload(gateway: GatewayProcess, text: str, generation: int) -> None:
    """Have a gateway take a changed file."""
    gateway.rewrite(text)
    gateway.signal(signal.SIGHUP)
    gateway.log(b"the configuration was reloaded: generation %d\n" % generation)


def models_of_workers(workers: Workers, upstream: RawUpstream, slots: tuple[int, ...] = (0, 1)) -> list[str]:
    """Return what each worker understands by an alias."""
    found = []
    for slot in slots:
        seen = len(upstream.turns)
        with workers.connect(slot) as client:
            client.send(chat("now"))
            assert client.read_response().status == 200
        (model,) = {turn.model() for turn in upstream.turns[seen:]} - {"gpt-1-of-the-load"}
        found.append(model)
    return found


def test_reloads_under_load_lose_nothing_and_reach_all_workers(
    workers: Workers, upstream: RawUpstream
) -> None:
    gateway = workers.gateway
    load = Load(gateway.port, model="gpt-1-of-the-load")
    with load.running():
        for generation in range(2, RELOADS + 2):
            load.wait_for_more(10)
            reload(gateway, configuration(upstream, f"gpt-{generation}"), generation)
            assert models_of_workers(workers, upstream) == [f"gpt-{generation}"] * 2
        gateway.rewrite("workers: 2\nproviders: nonsense\n")
        gateway.signal(signal.SIGHUP)
        gateway.log(NOT_RELOADED)
        assert models_of_workers(workers, upstream) == [f"gpt-{RELOADS + 1}"] * 2
    assert load.failed == []
    count = len(load.answered) + 2 * (RELOADS + 1)
    assert gateway.metric("mgw_requests_total") == count
    ids = [event["request_id"] for event in gateway.events(count) if event["model"] == load.model]
    assert sorted(ids) == sorted(load.answered)
    assert gateway.metric("mgw_worker_restarts_total") == 0


@contextmanager
def without_more_files(pid: int) -> Iterator[None]:
    """Let a process open no more files within the block."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def test_what_one_worker_cannot_use_no_worker_keeps(
    workers: Workers, upstream: RawUpstream, tmp_path: Path
) -> None:
    gateway = workers.gateway
    prices = tmp_path / "prices.yaml"
    prices.write_text("rows: []\n")
    gateway.rewrite(configuration(upstream, "gpt-2", more=f"prices: {{file: {prices}}}"))
    with without_more_files(workers.pids[1]):
        gateway.signal(signal.SIGHUP)
        log = gateway.log(NOT_RELOADED).decode()
        assert f"a worker cannot use it: prices.file: {prices} cannot be read: Too many open files" in log
    wait_until(lambda: models_of_workers(workers, upstream) == ["gpt-1"] * 2, "both to go back")
    assert gateway.metric("mgw_config_reload_failures_total") == 1
    reload(gateway, configuration(upstream, "gpt-3"), 2)
    assert models_of_workers(workers, upstream) == ["gpt-3"] * 2


def test_workers_that_cannot_go_back_serve_on_and_the_next_reload_reaches_all(
    workers: Workers, upstream: RawUpstream, tmp_path: Path
) -> None:
    gateway, before = workers.gateway, tmp_path / "before.yaml"
    before.write_text("rows: []\n")
    reload(gateway, configuration(upstream, "gpt-2", more=f"prices: {{file: {before}}}"), 2)
    before.unlink()
    prices = tmp_path / "prices.yaml"
    prices.write_text("rows: []\n")
    gateway.rewrite(configuration(upstream, "gpt-3", more=f"prices: {{file: {prices}}}"))
    said = f"a worker could not return to the previous configuration: prices.file: file not found: {before}"
    with without_more_files(workers.pids[1]):
        gateway.signal(signal.SIGHUP)
        gateway.stderr.wait_for(lambda log: log.count(said.encode()) == 2, WAIT_SECONDS, "both")
    assert models_of_workers(workers, upstream) == ["gpt-3", "gpt-2"]
    reload(gateway, configuration(upstream, "gpt-4"), 3)
    assert models_of_workers(workers, upstream) == ["gpt-4"] * 2


def test_a_reload_starts_workers_and_has_others_end_in_order(workers: Workers, upstream: RawUpstream) -> None:
    gateway = workers.gateway
    reload(gateway, configuration(upstream, "gpt-2", workers=3), 2)
    wait_until(lambda: workers.pids.keys() == {0, 1, 2}, "a third worker")
    assert models_of_workers(workers, upstream, (0, 1, 2)) == ["gpt-2"] * 3
    assert gateway.metric('mgw_workers{state="serving"}') == 3
    with holding(upstream) as go_on, workers.connect(2) as client:
        client.send(chat("held"))
        upstream.wait_for(lambda: held_turns(upstream) == 1, "the request")
        dismissed = [workers.pids[1], workers.pids[2]]
        reload(gateway, configuration(upstream, "gpt-3", workers=1), 3)
        wait_until(lambda: not alive(dismissed[0]), "one worker to end")
        wait_until(lambda: gateway.metric('mgw_workers{state="draining"}') == 1, "its end to be counted")
        assert models_of_workers(workers, upstream, (0,)) == ["gpt-3"]
        go_on.set()
        assert client.read_response().status == 200
    wait_until(lambda: not alive(dismissed[1]), "the other to end")
    assert ask(gateway.port, "/readyz").status == 200
    gateway.events(5)
    assert gateway.metric("mgw_requests_total") == 5


def test_a_renewed_certificate_is_shown_by_all_workers(upstream: RawUpstream, ca: Authority) -> None:
    files = issue(ca, "localhost")
    more = f"tls: {{cert_file: {files.cert_file}, key_file: {files.key_file}}}"
    context = ssl.create_default_context(cafile=str(ca.ca_file))
    with start_gateway(configuration(upstream, more=more)) as gateway:
        workers = Workers(gateway)

        def serial(slot: int) -> object:
            with (
                workers.only(slot),
                RawClient(gateway.port) as client,
                context.wrap_socket(client.socket, server_hostname="localhost") as tls,
            ):
                tls.sendall(HEALTH)
                assert tls.recv(100).startswith(b"HTTP/1.1 200 ")
                certificate = tls.getpeercert()
            assert certificate is not None
            return certificate["serialNumber"]

        before = {serial(0), serial(1)}
        assert len(before) == 1
        issue(ca, "localhost")  # in the same files
        reload(gateway, configuration(upstream, more=more), 2)
        after = {serial(0), serial(1)}
        assert len(after) == 1
        assert after != before
