"""Rows that hold estimates, over sockets: many requests at once exceed none by more than one hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.support.deployment import Deployment, providers
from tests.support.gateway import start_gateway
from tests.support.simulator import SimulatorProcess, start_simulator

ALICE, BOB = (f"edge-canary-{name}-0002" for name in ("alice", "bob"))
TOKENS: Final = 3000
USD: Final = 0.03
RESERVED: Final = 500
CONFIG: Final = f"""
edge_auth:
  enabled: true
  reserve_output_tokens: {RESERVED}
  keys:
    - {{name: alice, key: {ALICE}, limits: [{{tokens: {TOKENS}, per: day, count: before}}]}}
    - {{name: bob, key: {BOB}, limits: [{{usd: {USD}, per: month}}, {{in_flight: 100}}]}}
prices: {{rows: [{{model: "gpt-*", input: 2, output: 10}}, {{model: "claude-*", input: 2, output: 10}}]}}
hooks: {{jsonl: {{output: stdout}}}}
"""
AT_ONCE: Final = 40


@pytest.fixture(scope="module")
def simulator() -> Iterator[SimulatorProcess]:
    with start_simulator() as simulator:
        yield simulator


@pytest.fixture(params=["", "workers: 2"], ids=["one process", "two workers"])
def deployment(
    simulator: SimulatorProcess, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Deployment]:
    more = f"limit_store: {tmp_path}/limits.db\n{request.param}\n"
    with start_gateway(f"{providers(simulator.url)}{CONFIG}{more}") as gateway:
        yield Deployment(simulator, gateway)


def ask(deployment: Deployment, key: str, path: str, body: Any) -> tuple[int, Any]:  # Any: JSON
    """Send a request; return the status and what was answered."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = Request(f"{deployment.gateway.url}{path}", json.dumps(body).encode(), headers)
    try:
        with urlopen(request) as response:
            return response.status, json.loads(response.read())
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def chat(deployment: Deployment, key: str, model: str = "gpt-5+sim-usage-90-400") -> tuple[int, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
    return ask(deployment, key, "/v1/chat/completions", body)


@pytest.mark.parametrize(("key", "code"), [(ALICE, "rate_limit_exceeded"), (BOB, "insufficient_quota")])
def test_many_at_once_stay_within_one_hold_of_the_row(deployment: Deployment, key: str, code: str) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda _: chat(deployment, key), range(AT_ONCE)))
    admitted = sum(status == 200 for status, _ in answers)
    refused = [answer["error"]["code"] for status, answer in answers if status != 200]
    assert admitted
    assert set(refused) <= {code, "rate_limit_exceeded"}, "estimates may be all that is in the way"
    events = deployment.events(AT_ONCE)
    tokens = sum(event.get("tokens_in", 0) + event.get("tokens_out", 0) for event in events)
    cost = sum(event.get("cost_usd", 0.0) for event in events)
    if key == ALICE:
        assert tokens <= TOKENS + RESERVED + 100
    else:
        assert cost <= USD + (RESERVED * 10 + 100 * 2) * 1e-6
    # What was held beyond what they took is free again, as are all places.
    more = 0
    while chat(deployment, key)[0] == 200:
        more += 1
    total = admitted + more
    assert total == (-(-TOKENS // 490) if key == ALICE else -(-30_000 // (90 * 2 + 400 * 10)))


def test_what_has_no_price_is_refused_in_every_dialect(deployment: Deployment) -> None:
    status, answer = chat(deployment, BOB, "o-9")
    assert (status, answer["error"]["code"]) == (403, "model_not_priced")
    status, answer = ask(
        deployment, BOB, "/v1/messages", {"model": "claude/other", "max_tokens": 9, "messages": []}
    )
    assert (status, answer["error"]["type"]) == (403, "permission_error")
    path = "/v1beta/models/gemini-x:generateContent"
    status, answer = ask(deployment, BOB, path, {"contents": [{"parts": [{"text": "hello"}]}]})
    assert (status, answer["error"]["status"]) == (403, "PERMISSION_DENIED")
    status, answer = ask(deployment, BOB, "/v1/batches", {"input_file_id": "file-1"})
    assert (status, answer["error"]["code"]) == (403, "route_not_priced")
    errors = [event["error"] for event in deployment.events(4)]
    assert sorted(errors) == ["model_not_priced"] * 3 + ["route_not_priced"]
