"""A reload of a configuration with thousands of entries holds nobody up."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.large_config import EDGE_KEY, large_config
from tests.support.operations import ask
from tests.support.raw_client import RawClient, chat, request
from tests.support.raw_upstream import RawUpstream, start_upstream

LONGEST: Final = 0.25
"""Seconds for which one look may have to wait."""
LOOK: Final = request(None, path="/healthz", method="GET")


@pytest.fixture
def upstream() -> Iterator[RawUpstream]:
    with start_upstream() as process:
        yield process


def longest_look(gateway: GatewayProcess, is_over: Callable[[], bool]) -> float:
    """Look again and again until something is over; return how long the slowest answer took."""
    longest = 0.0
    with RawClient(gateway.port) as client:
        while not is_over():
            began = time.monotonic()
            client.send(LOOK)
            assert client.read_response("GET").status == 200
            longest = max(longest, time.monotonic() - began)
            time.sleep(0.002)
    return longest


@pytest.mark.slow
@pytest.mark.parametrize("workers", [None, 1], ids=["one process", "workers"])
def test_a_reload_of_a_large_configuration_holds_nobody_up(
    upstream: RawUpstream, workers: int | None
) -> None:
    upstream.begin()
    more = "" if workers is None else f"workers: {workers}"
    with start_gateway(large_config(upstream.url, more)) as gateway:
        assert ask(gateway.port, "/healthz").status == 200  # all that is said of the start has been said
        gateway.signal(signal.SIGHUP)
        done = b"the configuration was reloaded: generation 2\n"
        assert longest_look(gateway, lambda: done in gateway.stderr.data) < LONGEST
        with RawClient(gateway.port) as client:
            client.send(chat("now", b"Authorization: Bearer " + EDGE_KEY.encode()))
            assert client.read_response().status == 200
