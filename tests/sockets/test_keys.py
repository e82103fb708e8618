"""Keys reach the provider and nobody else: no log, event, metric or error body shows one.

Every key here holds the word ``canary``.
"""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.gateway import CANARY, Collected, GatewayProcess, start_gateway
from tests.support.operations import ask, start_twistd, write_config
from tests.support.raw_client import CHAT, RawClient, RawResponse, asking
from tests.support.raw_upstream import RawUpstream, Turn, start_upstream
from tests.support.simulator import SimulatorProcess
from tests.support.waiting import WAIT_SECONDS, wait_until

EDGE: Final = b"x-api-key: edge-canary-1"
MESSAGES: Final = "/v1/messages"

CONTENT: Final = "/v1beta/models/gem/g:generateContent"
SERVES: Final = re.compile(rb"mgw serves http://127\.0\.0\.1:(\d+)")

CARRIERS: Final = (
    b"Authorization: Bearer wrong-canary",
    b"Authorization: Token wrong-canary",
    b"Authorization: Basic d3JvbmctY2FuYXJ5Cg== canary",
    b"Authorization: canary",
    b"Proxy-Authorization: Bearer wrong-canary",
    b"x-api-key: wrong-canary",
    b"x-goog-api-key: wrong-canary",
    b"Cookie: session=wrong-canary",
    b"openai-organization: wrong-canary",
)
QUERIES: Final = (
    "key=wrong-canary",
    "key=edge-canary-1",
    "k%65y=edge%2Dcanary%2D1",
    "alt=sse&key=wrong-canary&key=edge-canary-2",
    "access_token=wrong-canary",
    "mgw=wrong-canary",
)
BODIES: Final = (
    b'{"model": "gpt", "messages": [{"role": "user", "content": "sk-canary',
    b'{"model": ["sk-canary"]}',
    b'{"model": {"key": "sk-canary"}}',
    b'{"api_key": "sk-canary"}',
    b'"sk-canary"',
    b"sk-canary=1&key=canary",
    b"\xff\xfe sk-canary",
)
_MESSAGES_HEAD: Final = b"POST /v1/messages HTTP/1.1\r\nHost: g\r\nx-api-key: edge-canary-1\r\n"
MALFORMED: Final = (
    b"GET /v1/models?key=wrong-canary HTTP/9.9\r\nHost: g\r\n\r\n",
    b"GET /v1/models?key=wrong-canary\r\n\r\n",
    b"GET /v1/models?key=wrong-canary HTTP/1.1\r\n\r\n",
    b"GET /v1/models?key=wrong canary HTTP/1.1\r\nHost: g\r\n\r\n",
    b"GET http://user:wrong-canary@elsewhere/v1/models?key=wrong-canary HTTP/1.1\r\nHost: g\r\n\r\n",
    b"GET wrong-canary HTTP/1.1\r\nHost: g\r\n\r\n",
    b"CONNECT wrong-canary:443 HTTP/1.1\r\nHost: g\r\n\r\n",
    b"Authorization: Bearer wrong-canary\r\n\r\n",
    b"wrong-canary\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: g\r\nx api key: wrong-canary\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: g\r\nx-api-key: wrong\x00canary\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: g\r\nx-api-key: wrong\r\n canary\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: wrong-canary\r\nHost: wrong-canary\r\n\r\n",
    b"POST /v1/messages HTTP/1.1\r\nHost: g\r\nContent-Length: wrong-canary\r\n\r\n",
    b"POST /v1/messages HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: wrong-canary\r\n\r\n",
    _MESSAGES_HEAD + b"Transfer-Encoding: chunked\r\n\r\nwrong-canary\r\n",
    _MESSAGES_HEAD + b"Content-Encoding: wrong-canary\r\nContent-Length: 2\r\n\r\n{}",
    b"GET /v1/models HTTP/1.1\r\nHost: g\r\nx-api-key: " + b"canary" * 20000 + b"\r\n\r\n",
)
FAILING: Final = (
    "main/sim-reset-before",
    "main/sim-garbage",
    "main/sim-status-500",
    "gone/x",
    "loud/x",
    "lost/x",
)


def configuration(simulator: SimulatorProcess, loud: RawUpstream, folder: Path) -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        unused = server.getsockname()[1]
    return f"""
providers:
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary-openai}}
  claude: {{kind: anthropic, base_url: "{simulator.url}/v1", api_key: sk-ant-canary}}
  gem: {{kind: gemini, base_url: "{simulator.url}/v1beta", api_key: AIza-canary}}
  gone: {{kind: openai, base_url: "http://127.0.0.1:{unused}/v1", api_key: sk-canary}}
  loud: {{kind: openai, base_url: "{loud.url}/v1", api_key: sk-canary}}
  lost: {{kind: openai, base_url: "{simulator.url}/v1", token_file: "{folder}/token"}}
defaults: {{openai_dialect: main, anthropic_dialect: claude}}
edge_auth: {{enabled: true, keys: [edge-canary-1, edge-canary-2]}}
"""


def garbage(turn: Turn) -> None:
    """Answer with what is no HTTP, and repeats the key."""
    turn.send(b"HTTP/1.1 sk-canary\r\nBearer sk-canary\r\n\r\n")
    turn.close()


@pytest.fixture(scope="module")
def loud() -> Iterator[RawUpstream]:
    with start_upstream() as upstream:
        upstream.begin(garbage)
        yield upstream


@pytest.fixture
def text(simulator: SimulatorProcess, loud: RawUpstream, tmp_path: Path) -> str:
    (tmp_path / "token").write_text("two canary words")
    return configuration(simulator, loud, tmp_path)


def raw(port: int, data: bytes) -> RawResponse:
    with RawClient(port) as client:
        client.send(data)
        return client.read_response()


def refusals_of(port: int) -> list[RawResponse]:
    """Send keys in every place, right ones and wrong ones; return what the gateway said itself."""
    content = b'{"contents": []}'
    found = []
    for carrier in CARRIERS:
        found += [ask(port, path, carrier, body=b"{}") for path in (CHAT, MESSAGES, CONTENT, "/v1/nothing")]
        found.append(ask(port, "/metrics", carrier))
    for query in QUERIES:
        found += [
            ask(port, f"{path}?{query}", body=content) for path in (CHAT, MESSAGES, CONTENT, "/nothing")
        ]
        found += [ask(port, f"{path}?{query}") for path in ("/healthz", "/readyz", "/", "/v1/models")]
    for body in BODIES:
        found += [ask(port, path, EDGE, body=body) for path in (CHAT, MESSAGES)]
    found += [raw(port, data) for data in MALFORMED]
    found += [ask(port, CHAT, EDGE, body=asking(model)) for model in FAILING]
    found += [ask(port, CHAT, EDGE, body=asking("claude/claude-1"))]
    return found


def test_no_key_is_in_what_the_gateway_says_or_writes_to_its_streams(text: str) -> None:
    with start_gateway(text) as gateway:
        responses = refusals_of(gateway.port)
        metrics = gateway.get("/metrics", {"x-api-key": "edge-canary-1"})
        events = gateway.events(len(FAILING))
        assert gateway.stop() == 0  # searches both streams
    assert not [response for response in responses if CANARY in response.body.lower()]
    assert CANARY not in metrics
    assert {event["status"] for event in events} >= {"upstream_error", "rejected"}
    assert {400, 401, 404, 431, 500, 502} <= {response.status for response in responses}


def test_no_key_is_in_the_log_file_or_the_file_of_events(text: str, tmp_path: Path) -> None:
    log, usage = tmp_path / "mgw.log", tmp_path / "usage.jsonl"
    file = write_config(tmp_path, text + f"hooks: {{jsonl: {{output: {usage}}}}}\n")
    with start_twistd("--logfile", str(log), "mgw", "-c", str(file), folder=tmp_path) as daemon:
        wait_until(
            lambda: log.exists() and SERVES.search(log.read_bytes()) is not None, "the gateway to serve"
        )
        found = SERVES.search(log.read_bytes())
        assert found is not None
        responses = refusals_of(int(found[1]))
        daemon.process.terminate()
        assert daemon.process.wait(WAIT_SECONDS) == 0
    assert usage.read_bytes().count(b"\n") > len(FAILING)
    assert log.read_bytes().count(b"\nhttp ") > len(responses) // 2
    for file in (log, usage):
        at = file.read_bytes().find(CANARY)
        assert at < 0, file.read_bytes()[max(0, at - 300) : at + 60]
    assert b"Traceback" not in log.read_bytes()


def test_the_configurations_problems_show_no_key(text: str) -> None:
    with start_gateway(text) as gateway:
        wrong = text.replace("api_key: sk-canary-openai", "api_key: [sk-canary]")
        wrong = wrong.replace("keys: [edge-canary-1, edge-canary-2]", "keys: {edge-canary-1: edge-canary-2}")
        wrong = wrong.replace('base_url: "http://', 'base_url: "http://user:canary@', 1)
        misplaced = "kind: sk-canary-one, auth: sk-canary-two, sk-canary-six: 1"
        wrong = wrong.replace("kind: anthropic", misplaced, 1).replace("gem:", "sk-canary-three:")
        gateway.rewrite(wrong)
        gateway.signal(signal.SIGHUP)
        gateway.log(b"providers.claude.auth: unknown value; expected one of")
        gateway.rewrite(f"{wrong}listen: *sk-canary\n")
        gateway.signal(signal.SIGHUP)
        gateway.log(b"an alias without an anchor")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_the_search_for_keys_finds_one(tmp_path: Path, stream: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", f"import sys; print('the key is sk-canary', file=sys.{stream})"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    leaking = GatewayProcess(process, tmp_path, Collected(process.stdout), Collected(process.stderr))
    getattr(leaking, stream).wait_for(lambda data: b"canary" in data, WAIT_SECONDS, "the key")
    with pytest.raises(AssertionError, match=f"a key is in {stream}"):
        leaking.stop()
