"""A reload of a configuration with thousands of entries holds nobody up."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from mgw.config.prices import MAX_ROWS
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.operations import ask
from tests.support.raw_client import RawClient, chat, request
from tests.support.raw_upstream import RawUpstream, start_upstream

PROVIDERS: Final = 1_000
ALIASES: Final = 3_000
KEYS: Final = 2_500
EDGE_KEY: Final = "key-of-whoever-looks"


def large_config(upstream: str, more: str = "") -> str:
    """Return a configuration as large as they come: providers, aliases and keys by the thousand.

    :param upstream: address of the provider of alias ``now``.
    :param more: settings behind it.
    """
    return "\n".join(_lines(upstream)) + f"\n{more}\n"


def _lines(upstream: str) -> Iterator[str]:
    yield "listen: 127.0.0.1:0"
    yield "providers:"
    yield f"  main: {{kind: openai, base_url: '{upstream}/v1', api_key: sk-canary}}"
    for number in range(PROVIDERS - 1):
        address = f"https://host{number}.example/v1"
        key = _key(f"p{number}")
        yield f"  p{number}: {{kind: openai_compat, base_url: '{address}', api_key: {key}, models: [a, b]}}"
    yield "aliases:"
    yield "  now: main/gpt-1"
    for number in range(ALIASES - 1):
        first = number % (PROVIDERS - 1)
        yield f"  alias{number}: [p{first}/m{number}, p{(first + 1) % (PROVIDERS - 1)}/m{number}]"
    yield "edge_auth:"
    yield "  enabled: true"
    yield "  keys:"
    yield f"    - {{name: looker, key: {EDGE_KEY}}}"
    for number in range(KEYS - 1):
        models = f"[alias{number}, 'p{number % 100}/*']"
        limits = f"requests_per_minute: 100, models: {models}"
        yield f"    - {{name: c{number}, key: {_key(f'k{number}')}, {limits}}}"
    yield "prices:"
    yield "  rows:"
    for number in range(200):
        yield f"    - {{model: 'm{number}*', input: 1, output: 2}}"


def _key(name: str) -> str:
    return f"sk-{sha256(name.encode()).hexdigest()}"


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


@pytest.mark.slow
@pytest.mark.parametrize("tail", ["", "  - {model: 'm, input: 1}\n"], ids=["good", "a mistake at its end"])
def test_a_reload_of_the_largest_file_of_prices_holds_nobody_up(
    upstream: RawUpstream, tmp_path: Path, tail: str
) -> None:
    prices = tmp_path / "prices.yaml"
    rows = [
        f"  - {{model: 'vendor/m{number}', input: 1.25, cache_read: 0.125, output: {number % 50}.5, "
        f"tiers: [{{above: 200000, input: 2.5, output: 20}}], service_tiers: {{flex: {{input: 0.5}}}}}}"
        for number in range(MAX_ROWS - 1)
    ]
    prices.write_text("\n".join(["rows:", *rows, ""]))
    settings = f"""
listen: 127.0.0.1:0
providers:
  main: {{kind: openai, base_url: '{upstream.url}/v1', api_key: sk-canary}}
prices: {{file: {prices}}}
"""
    with start_gateway(settings) as gateway:
        assert ask(gateway.port, "/healthz").status == 200
        with prices.open("a") as file:
            file.write(tail or "  - {model: gpt-1, input: 1}\n")
        gateway.signal(signal.SIGHUP)
        done = b"not YAML: " if tail else b"the configuration was reloaded: generation 2\n"
        assert longest_look(gateway, lambda: done in gateway.stderr.data) < LONGEST
