"""A request that failed leaves nothing of its body behind, though nobody collects garbage."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from mgw.nouns.errors import forget_frames
from tests.support.channels import post
from tests.support.web_servers import WebServerHarness

pytestmark = pytest.mark.usefixtures("heads")

KEY = "x-api-key: edge"
JSON = "Content-Type: application/json"
PATH = "/v1/chat/completions"
LARGE = 8 * 1024 * 1024


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    tracemalloc.start()
    yield
    tracemalloc.stop()
    gc.enable()


def malformed(harness: WebServerHarness) -> None:
    harness.send(post(b"{" + b"x" * LARGE, KEY, JSON, path=PATH))


def refused(harness: WebServerHarness) -> None:
    harness.send(post(b'{"model":"claude/","x":"' + b"x" * LARGE + b'"}', KEY, JSON, path=PATH))


def reset_by_the_provider(harness: WebServerHarness) -> None:
    harness.pipeline.endpoint.full = True
    harness.send(post(b'{"model":"fast","x":"' + b"x" * LARGE + b'"}', KEY, JSON, path=PATH))
    harness.connection.reset()
    harness.pipeline.endpoint.connections.clear()


def left_by_the_client(harness: WebServerHarness) -> None:
    harness.pipeline.endpoint.full = True
    harness.send(post(b'{"model":"fast","x":"' + b"x" * LARGE + b'"}', KEY, JSON, path=PATH))
    harness.leave()
    harness.pipeline.endpoint.settle()
    harness.pipeline.endpoint.connections.clear()


def refused_by_its_dialect(harness: WebServerHarness) -> None:
    messages = b'{"role":"nobody"},{"role":"user","content":"' + b"x" * LARGE + b'"}'
    harness.send(post(b'{"model":"smart","messages":[' + messages + b"]}", KEY, JSON, path=PATH))


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize(
    "happens", [malformed, refused, refused_by_its_dialect, reset_by_the_provider, left_by_the_client]
)
def test_the_body_of_a_failed_request_goes_with_it(happens: Callable[[WebServerHarness], None]) -> None:
    harness = WebServerHarness()
    before, _ = tracemalloc.get_traced_memory()
    happens(harness)
    after, _ = tracemalloc.get_traced_memory()
    assert after - before < LARGE / 8


def test_errors_in_a_circle_are_left_alone() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__context__, second.__context__ = second, first
    forget_frames(first)
    assert (first.__traceback__, second.__traceback__) == (None, None)
