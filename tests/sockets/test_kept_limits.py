"""What is used and held of limits, over a crash, a reload, and by several workers."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.commands import run_mgw
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.operations import ask
from tests.support.raw_client import CHAT, asking
from tests.support.raw_upstream import RawUpstream
from tests.support.redis_server import PASSWORD, RedisServer, needs_redis
from tests.support.supervised import Workers, alive, held_turns, holding
from tests.support.waiting import wait_until

KEY: Final = "edge-canary-of-alice"
HEAD: Final = f"Authorization: Bearer {KEY}".encode()
DASHBOARD: Final = "edge-canary-dashboard"
MONEY: Final = ("gateway", "usd_per_month")
REQUESTS: Final = ("gateway", "requests_per_day")
ALLOWED: Final = "{usd: 1000, per: month}, {requests: 100, per: day}"


def config_text(upstream: str, folder: Path, limits: str = ALLOWED, more: str = "") -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{upstream}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main}}
prices: {{rows: [{{model: "*", input: 1000, output: 1000}}]}}
limit_store: {folder}/limits.db
dashboard: {{enabled: true, keys: [{DASHBOARD}]}}
edge_auth:
  enabled: true
  reserve_output_tokens: 100
  limits: [{limits}]
  keys: [{{name: alice, key: {KEY}}}]
drain_seconds: 1
{more}
"""


def status(gateway: GatewayProcess, model: str = "gpt-1") -> int:
    return ask(gateway.port, CHAT, HEAD, body=asking(model)).status


def rows(gateway: GatewayProcess) -> dict[tuple[str, str], Any]:  # Any: JSON
    """Return the rows, as the command shows them."""
    done = run_mgw(["budget", "show", "--format", "json", "-c", str(gateway.config_file)])
    assert done.returncode == 0, done.stderr
    return {(row["holder"], row["limit"]): row for row in json.loads(done.stdout)}


def until(gateway: GatewayProcess, holds: Callable[[dict[tuple[str, str], Any]], bool], what: str) -> None:
    wait_until(lambda: holds(rows(gateway)), what)


@contextmanager
def requests_in_progress(
    gateway: GatewayProcess, upstream: RawUpstream, count: int
) -> Iterator[Callable[[], None]]:
    """Have so many requests in progress; gives what ends them, and waits for their ends."""
    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(count))
        go_on = stack.enter_context(holding(upstream))
        before = held_turns(upstream)
        for _ in range(count):
            threads.submit(status, gateway, "held")
        upstream.wait_for(lambda: held_turns(upstream) == before + count, "the requests")
        yield go_on.set


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_killed_gateway_held_counts_in_full_when_it_starts_again(
    upstream: RawUpstream, tmp_path: Path, workers: int
) -> None:
    more = f"workers: {workers}" if workers > 1 else ""
    text = config_text(upstream.url, tmp_path, more=more)
    with start_gateway(text) as gateway:
        pids = Workers(gateway).processes()
        with requests_in_progress(gateway, upstream, 3):
            before = rows(gateway)
            assert (before[REQUESTS]["used"], before[REQUESTS]["reserved"]) == (0, 3)
            gateway.process.kill()
            wait_until(lambda: not any(map(alive, pids)), "its processes to end")
    with start_gateway(text) as gateway:
        until(gateway, lambda found: not found[REQUESTS]["reserved"], "nothing to be reserved")
        after = rows(gateway)
        assert after[REQUESTS]["used"] == 3
        assert (after[MONEY]["used"], after[MONEY]["reserved"]) == (before[MONEY]["reserved"], 0)
        assert before[MONEY]["reserved"] >= 3 * 0.1
        gateway.log(b"] 3 requests of processes that are gone count in full with what they held")


def test_what_requests_of_all_workers_hold_is_shown(upstream: RawUpstream, tmp_path: Path) -> None:
    with start_gateway(config_text(upstream.url, tmp_path, more="workers: 2")) as gateway:
        workers = Workers(gateway)
        with ExitStack() as stack:
            for slot in (0, 1):
                with workers.only(slot):
                    end = stack.enter_context(requests_in_progress(gateway, upstream, 2))
            found = rows(gateway)
            shown = json.loads(gateway.get("/v1/dashboard/limits", {"Authorization": f"Bearer {DASHBOARD}"}))
            assert {(row["holder"], row["limit"]): row for row in shown["limits"]} == found
            assert (found[REQUESTS]["used"], found[REQUESTS]["reserved"]) == (0, 4)
            one = found[MONEY]["reserved"] / 4
            assert 0.1 <= one < 0.2
            end()
        until(gateway, lambda found: found[REQUESTS]["used"] == 4, "their ends")
        found = rows(gateway)
        assert [found[place]["reserved"] for place in (REQUESTS, MONEY)] == [0, 0]
        assert 0 < found[MONEY]["used"] < 4 * one


@pytest.mark.parametrize("has_redis", [False, pytest.param(True, marks=needs_redis)], ids=["file", "redis"])
@pytest.mark.parametrize("workers", ["", "workers: 2"])
def test_counts_outlive_a_reload_and_a_row_that_is_gone_its_absence(
    upstream: RawUpstream, tmp_path: Path, workers: str, has_redis: bool
) -> None:
    with ExitStack() as stack:
        more = workers
        if has_redis:
            redis = stack.enter_context(RedisServer())
            more += f"\nfleet: {{redis: {{url: 'unix://:{PASSWORD}@{redis.path}'}}}}"
        texts = [
            config_text(upstream.url, tmp_path, limits, more)
            for limits in (
                ALLOWED,
                "{usd: 1000, per: month}",
                "{usd: 900, per: month}, {requests: 3, per: day}",
            )
        ]
        gateway = stack.enter_context(start_gateway(texts[0]))
        if has_redis:
            gateway.log(b"limits are shared through Redis by")
        with requests_in_progress(gateway, upstream, 1) as end:
            assert status(gateway) == 200
            until(gateway, lambda found: found[REQUESTS]["used"] == 1, "one request to be counted")
            for number, text in enumerate(texts[1:], 2):
                gateway.rewrite(text)
                gateway.signal(signal.SIGHUP)
                wait_until(lambda: gateway.stderr.data.count(b"reloaded") >= number - 1, "the reload")  # noqa: B023
                if REQUESTS not in rows(gateway):
                    assert status(gateway) == 200, "in a row of a month alone"
            found = rows(gateway)
            assert (found[REQUESTS]["used"], found[REQUESTS]["reserved"], found[REQUESTS]["max"]) == (1, 1, 3)
            assert [status(gateway), status(gateway)] == [200, 429]
            end()
        until(gateway, lambda found: not found[REQUESTS]["reserved"], "the end of the first")
        found = rows(gateway)
        assert (found[REQUESTS]["used"], found[MONEY]["max"]) == (3, 900)
        assert found[MONEY]["reserved"] == 0
