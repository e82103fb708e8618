"""Whatever clients make up, the set of series of ``/metrics`` stays the same."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from typing import Final

import pytest

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.simulator import start_simulator
from tests.support.waiting import WAIT_SECONDS

KEY: Final = "edge-canary-alice"
INVENTED: Final = 10_000
THREADS: Final = 4
CHAT: Final = "/v1/chat/completions"


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    with start_simulator() as simulator:
        config = f"""
providers:
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary}}
  claude: {{kind: anthropic, base_url: "{simulator.url}/v1", api_key: sk-ant-canary}}
defaults: {{openai_dialect: main, anthropic_dialect: claude}}
edge_auth: {{enabled: true, keys: [{{name: alice, key: {KEY}}}]}}
"""
        with start_gateway(config) as process:
            yield process


class Inventor:
    """A client that makes up one thing in each request, which ends with the number of a thread."""

    def __init__(self, port: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._port = port
        self._connection = HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)

    def word(self) -> str:
        return "".join(self._random.choices(string.ascii_letters + string.digits, k=12))

    def ask(self, number: int) -> None:
        """Invent a model, a key, a path, a method, a provider or a user agent."""
        method, path, model, word = "POST", CHAT, "gpt-5", self.word()
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        match number % 7:
            case 0:
                model = word
            case 1:
                model = f"{word}/{word}"
            case 2:
                headers["Authorization"] = f"Bearer edge-canary-{word}"
            case 3:
                path = f"/{word}/{word}"
            case 4:
                method = word.upper()
            case 5:
                headers["X-Provider"] = word
            case 6:
                headers["User-Agent"] = f"{word}/{word}"
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}]})
        try:
            self._connection.request(method, path, body, headers)
            self._connection.getresponse().read()
        except (OSError, HTTPException):
            self._connection.close()  # the gateway had closed it

    def ask_often(self, count: int) -> None:
        for number in range(count):
            self.ask(number)
        self._connection.close()


def invent(gateway: GatewayProcess, count: int, seed: int) -> None:
    with ThreadPoolExecutor(THREADS) as threads:
        inventors = [Inventor(gateway.port, seed + number) for number in range(THREADS)]
        list(threads.map(lambda inventor: inventor.ask_often(count // THREADS), inventors))


def series(gateway: GatewayProcess) -> set[str]:
    page = gateway.get("/metrics", {"Authorization": f"Bearer {KEY}"}).decode()
    return {line.rpartition(" ")[0] for line in page.splitlines() if not line.startswith("#")}


@pytest.mark.slow
def test_ten_thousand_invented_names_add_no_series(gateway: GatewayProcess) -> None:
    invent(gateway, 15 * THREADS, seed=0)  # one and another of each kind
    before = series(gateway)
    invent(gateway, INVENTED, seed=1000)
    after = series(gateway)
    assert after == before
    requests = gateway.metric("mgw_requests_total{", {"Authorization": f"Bearer {KEY}"})
    rejections = gateway.metric("mgw_edge_rejections_total{", {"Authorization": f"Bearer {KEY}"})
    assert requests + rejections > INVENTED / 2, "they were requests"
