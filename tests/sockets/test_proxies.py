"""Providers behind an HTTP proxy, over real sockets: what goes through it, and what happens when it fails."""

from __future__ import annotations

import asyncio
import signal
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.support.certificates import Authority
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.ledger import Ledger
from tests.support.operations import ask, twistd, write_config
from tests.support.raw_client import RawClient, RawResponse, chat
from tests.support.raw_upstream import COMPLETION, JSON, RawUpstream, Turn, counted, start_upstream
from tests.support.simulator import SimulatorProcess
from tests.support.tls_front import start_tls_front

PASSWORD: Final = "proxy-canary-1"
BASIC: Final = b64encode(f"me:{PASSWORD}".encode())
AUTHORIZED: Final = b"Basic " + BASIC
KEY: Final = b"x-api-key: edge-canary-1"
OPENED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
LIMIT: Final = 0.3
"""Seconds for connecting, where a test waits for their end."""


@pytest.fixture(scope="module")
def proxy() -> Iterator[RawUpstream]:
    """An HTTP proxy that does what a test's script says."""
    with start_upstream() as running:
        yield running


@pytest.fixture(scope="module")
def tls_port(upstream: RawUpstream, ca: Authority) -> Iterator[int]:
    """The provider again, with TLS."""
    with start_tls_front(upstream.port, ca) as port:
        yield port


@pytest.fixture(scope="module")
def proxy_tls_port(proxy: RawUpstream, ca: Authority) -> Iterator[int]:
    """The proxy again, with TLS."""
    with start_tls_front(proxy.port, ca) as port:
        yield port


@pytest.fixture(scope="module")
def gateway_config(
    upstream: RawUpstream,
    proxy: RawUpstream,
    tls_port: int,
    proxy_tls_port: int,
    ca: Authority,
) -> str:
    by = f"me:{PASSWORD}@127.0.0.1"
    plain, secure = (
        f'proxy: "http://{by}:{proxy.port}"',
        f'proxy: "https://me:{PASSWORD}@localhost:{proxy_tls_port}"',
    )
    common = f'kind: openai, api_key: sk-canary, ca_file: "{ca.ca_file}"'
    return f"""
providers:
  main: {{{common}, base_url: "http://provider.invalid/v1", {plain}}}
  plain: {{{common}, base_url: "http://provider.invalid/v1", {plain}}}
  safe: {{{common}, base_url: "https://localhost:{tls_port}/v1", {plain}}}
  twice: {{{common}, base_url: "https://localhost:{tls_port}/v1", {secure}}}
  outer: {{{common}, base_url: "http://provider.invalid/v1", {secure}}}
  other: {{{common}, base_url: "https://other.invalid/v1", {plain}}}
  hasty: {{{common}, base_url: "http://provider.invalid/v1", {plain}, timeouts: {{connect: {LIMIT}}}}}
  single: {{{common}, base_url: "http://provider.invalid/v1", {plain}, max_connections: 1}}
  kept: {{{common}, base_url: "{upstream.url}/v1"}}
defaults: {{openai_dialect: main}}
health_checks: {{enabled: true}}
edge_auth: {{enabled: false}}
"""  # fmt: skip


def answer_once(turn: Turn) -> None:
    """Answer with a whole completion, and close: the next request needs a new tunnel."""
    assert turn.body is not None
    turn.send(counted(COMPLETION, JSON, b"Connection: close"))
    turn.close()


@pytest.fixture(scope="module")
def open_tunnel(upstream: RawUpstream, tls_port: int) -> Callable[[Turn], None]:
    """What a proxy does that knows the provider by several names."""

    def script(turn: Turn) -> None:
        turn.tunnel_to(upstream.port if turn.target == "provider.invalid:80" else tls_port)

    return script


@pytest.fixture
def ledger(
    gateway: GatewayProcess, upstream: RawUpstream, proxy: RawUpstream, open_tunnel: Callable[[Turn], None]
) -> Iterator[Ledger]:
    upstream.begin(answer_once)
    proxy.begin(open_tunnel)
    ledger = Ledger(gateway)
    yield ledger
    upstream.begin()
    ledger.balance("kept/gpt-after")
    for text in (gateway.stdout.data, gateway.stderr.data, gateway.get("/metrics")):
        assert BASIC not in text


def asked(gateway: GatewayProcess, model: str, **fields: Any) -> RawResponse:
    with RawClient(gateway.port) as client:
        client.send(chat(model, **fields))
        return client.read_response()


def refusal(gateway: GatewayProcess, ledger: Ledger, model: str, status: int, error: str) -> str:
    """Ask, be refused, and return what the client was told."""
    response = asked(gateway, model)
    assert response.status == status, response
    assert b"canary" not in response.body
    assert BASIC not in response.body
    ledger.one(status="upstream_error", http_status=status, error=error)
    message: str = response.json()["error"]["message"]
    return message


@pytest.mark.parametrize("model", ["plain/m", "safe/m", "twice/m", "outer/m"])
def test_requests_go_through_and_share_a_tunnel(
    gateway: GatewayProcess,
    ledger: Ledger,
    proxy: RawUpstream,
    upstream: RawUpstream,
    tls_port: int,
    model: str,
) -> None:
    upstream.begin()
    secure = model in ("safe/m", "twice/m")
    sent = 0
    while len(proxy.turns) == sent:  # until one finds a connection that has settled
        response = asked(gateway, model)
        assert (response.status, response.body) == (200, COMPLETION)
        sent += 1
        assert sent < 500
    ledger.take(sent)
    authority = f"localhost:{tls_port}" if secure else "provider.invalid:80"
    for turn in proxy.turns:
        assert (turn.method, turn.target) == ("CONNECT", authority)
        assert turn.headers == [(b"Host", authority.encode()), (b"Proxy-Authorization", AUTHORIZED)]
    for turn in upstream.turns:
        assert turn.value(b"proxy-authorization") is None
        assert turn.value(b"authorization") == b"Bearer sk-canary"


def test_large_bodies_go_through(gateway: GatewayProcess, ledger: Ledger, upstream: RawUpstream) -> None:
    answer = b"x" * 3_000_000

    def echo_size(turn: Turn) -> None:
        assert len(turn.body) > 2_000_000
        turn.send(counted(answer, JSON, b"Connection: close"))
        turn.close()

    upstream.begin(echo_size)
    response = asked(gateway, "twice/m", user="y" * 2_000_000)
    assert (response.status, response.whole, len(response.body)) == (200, True, len(answer))
    ledger.one(status="ok")


def test_the_health_and_the_lists_of_models_go_the_same_way(
    gateway: GatewayProcess, ledger: Ledger, proxy: RawUpstream, upstream: RawUpstream
) -> None:
    models = counted(b'{"object":"list","data":[{"id":"m-1"}]}', JSON, b"Connection: close")
    upstream.begin(says(models))
    health: Any = ask(gateway.port, "/v1/health/providers").json()
    assert {each["name"]: each["status"] for each in health["providers"]}["main"] == "ok"
    lists: Any = ask(gateway.port, "/v1/models?live=1").json()
    assert "main/m-1" in [each["id"] for each in lists["data"]]
    assert len([turn for turn in proxy.turns if turn.target == "provider.invalid:80"]) >= 2
    assert "/v1/models" in [turn.target for turn in upstream.turns]


def test_the_certificate_is_that_of_the_provider(gateway: GatewayProcess, ledger: Ledger) -> None:
    message = refusal(gateway, ledger, "other/m", 502, "tls")
    assert message == "provider other has a certificate that is not valid for its host name"


def says(*pieces: bytes) -> Callable[[Turn], None]:
    def script(turn: Turn) -> None:
        turn.send(*pieces)
        turn.close()

    return script


REFUSED: Final = "provider main cannot be reached: its proxy "


@pytest.mark.parametrize(
    ("script", "error", "said"),
    [
        (
            says(b"HTTP/1.1 407 canary\r\nProxy-Authenticate: Basic realm=canary\r\n\r\ncanary"),
            "refused_connection",
            "refused to connect to it: 407 (its user name or password is missing or wrong)",
        ),
        (
            says(b"HTTP/1.1 403 No\r\nContent-Length: 6\r\n\r\ncanary"),
            "refused_connection",
            "refused to connect to it: 403 (it does not allow this host or port)",
        ),
        (says(b"HTTP/1.1 503 No\r\n\r\n"), "refused_connection", "refused to connect to it: 503"),
        (says(b"220 canary ESMTP\r\n"), "not_http", "sent something that is not HTTP"),
        (says(b"HTTP/1.1 200 OK\r\nX: \x00\r\n\r\n"), "not_http", "sent something that is not HTTP"),
        (
            says(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\ncanary"),
            "unreadable",
            "sent unsolicited data",
        ),
        (
            says(*[b"HTTP/1.1 102 Processing\r\n\r\n"] * 2000),
            "unreadable",
            "sent more than 32768 bytes without opening a tunnel",
        ),
        (says(b"HTTP/1.1 200 Conn"), "reset", "closed the connection before it could be used"),
        (says(), "reset", "closed the connection before it could be used"),
        (Turn.reset, "reset", "closed the connection before it could be used"),
    ],
    ids=[
        *("407", "403", "503", "garbage", "control", "body", "interim", "half", "nothing", "reset"),
    ],
)
def test_a_proxy_that_opens_no_tunnel_is_a_502_in_our_words(
    gateway: GatewayProcess,
    ledger: Ledger,
    proxy: RawUpstream,
    upstream: RawUpstream,
    open_tunnel: Callable[[Turn], None],
    script: Callable[[Turn], None],
    error: str,
    said: str,
) -> None:
    proxy.begin(script)
    assert refusal(gateway, ledger, "main/m", 502, error) == REFUSED + said
    assert not upstream.turns
    proxy.begin(open_tunnel)
    assert asked(gateway, "main/m").status == 200
    ledger.one(status="ok")


def test_interim_responses_are_skipped(
    gateway: GatewayProcess, ledger: Ledger, proxy: RawUpstream, upstream: RawUpstream
) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\nX: y\r\n\r\n"
    proxy.begin(lambda turn: turn.tunnel_to(upstream.port, interim + b"HTTP/1.0 200 OK\r\n\r\n"))
    assert asked(gateway, "main/m").status == 200
    ledger.one(status="ok")


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 Conn", b"HTTP/1.1 102 Processing\r\n\r\n"])
def test_a_slow_proxy_is_a_504_and_is_left(
    gateway: GatewayProcess, ledger: Ledger, proxy: RawUpstream, begun: bytes
) -> None:
    def stall(turn: Turn) -> None:
        turn.send(begun)
        turn.wait_until_left()

    proxy.begin(stall)
    message = refusal(gateway, ledger, "hasty/m", 504, "connect_timeout")
    assert message == f"provider hasty did not accept a connection through its proxy within {LIMIT:g} s"
    proxy.wait_until_left()


def test_a_client_that_leaves_ends_the_attempt_and_frees_its_slot(
    gateway: GatewayProcess, ledger: Ledger, proxy: RawUpstream, upstream: RawUpstream
) -> None:
    proxy.begin(Turn.wait_until_left)
    with RawClient(gateway.port) as client:
        client.send(chat("single/m"))
        proxy.wait_for(lambda: bool(proxy.turns), "the gateway to ask")
    proxy.wait_until_left()
    ledger.one(status="client_abort")
    proxy.begin(lambda turn: turn.tunnel_to(upstream.port))
    assert asked(gateway, "single/m").status == 200
    ledger.one(status="ok")


def test_the_log_says_where_it_went_wrong(
    gateway: GatewayProcess, ledger: Ledger, proxy: RawUpstream
) -> None:
    proxy.begin(says(b"HTTP/1.1 502 Bad\r\n\r\n"))
    refusal(gateway, ledger, "single/m", 502, "refused_connection")
    log = gateway.log(b"provider single cannot be reached: its proxy refused to connect to it: 502")
    assert b"through the proxy 127.0.0.1:%d" % proxy.port in log


@pytest.mark.parametrize("through_tls", [False, True])
def test_sessions_go_through(
    simulator: SimulatorProcess, proxy: RawUpstream, ca: Authority, proxy_tls_port: int, through_tls: bool
) -> None:
    proxy.begin(lambda turn: turn.tunnel_to(simulator.port))
    scheme, port = ("https", proxy_tls_port) if through_tls else ("http", proxy.port)
    text = f"""
providers:
  main:
    kind: openai
    base_url: "http://provider.invalid/v1"
    api_key: sk-canary
    ca_file: "{ca.ca_file}"
    proxy: "{scheme}://me:{PASSWORD}@localhost:{port}"
"""

    async def run(port: int) -> None:
        url = f"ws://127.0.0.1:{port}/v1/realtime?model=main/sim-echo"
        async with connect(url, proxy=None) as session:
            await session.recv()
            await session.send("hello")
            assert await session.recv() == "hello"

    with start_gateway(text) as gateway:
        asyncio.run(run(gateway.port))
        assert gateway.event()["status"] == "ok"
    assert [turn.target for turn in proxy.turns] == ["provider.invalid:80"]
    assert simulator.requests()[-1].value("authorization") == "Bearer sk-canary"


@pytest.mark.parametrize(
    ("script", "status", "error"),
    [
        (says(b"HTTP/1.1 407 canary\r\n\r\n"), 502, "refused_connection"),
        (says(b"canary"), 502, "not_http"),
        (says(), 502, "reset"),
        (Turn.wait_until_left, 504, "connect_timeout"),
    ],
    ids=["407", "garbage", "nothing", "slow"],
)
def test_a_session_whose_proxy_fails_is_refused(
    gateway: GatewayProcess,
    ledger: Ledger,
    proxy: RawUpstream,
    script: Callable[[Turn], None],
    status: int,
    error: str,
) -> None:
    proxy.begin(script)

    async def run() -> None:
        url = f"ws://127.0.0.1:{gateway.port}/v1/realtime?model=hasty/m"
        with pytest.raises(InvalidStatus) as caught:
            await connect(url, proxy=None)
        assert caught.value.response.status_code == status
        assert b"canary" not in (caught.value.response.body or b"")

    asyncio.run(run())
    ledger.one(error=error, http_status=status, transport="websocket")


def test_a_proxy_with_a_wrong_certificate_is_not_trusted(upstream: RawUpstream, proxy_tls_port: int) -> None:
    text = f"""
providers:
  main:
    kind: openai
    base_url: "http://provider.invalid/v1"
    api_key: sk-canary
    proxy: "https://me:{PASSWORD}@localhost:{proxy_tls_port}"
"""
    with start_gateway(text) as gateway:
        response = asked(gateway, "main/m")
        assert response.status == 502
        assert "its proxy is not trusted" in response.json()["error"]["message"]
        assert gateway.event()["error"] == "tls"


def test_the_proxies_of_the_process_are_not_looked_at_and_a_reload_takes_another(
    upstream: RawUpstream, proxy: RawUpstream
) -> None:
    proxy.begin(lambda turn: turn.tunnel_to(upstream.port))
    upstream.begin()
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
    environ = dict.fromkeys(names, proxy.url) | {"OUR_PROXY": f"http://me:{PASSWORD}@127.0.0.1:{proxy.port}"}
    text = f'providers: {{main: {{kind: openai, api_key: sk-canary, base_url: "{upstream.url}/v1"}}}}\n'
    with start_gateway(text, environ) as gateway:
        assert asked(gateway, "main/m").status == 200
        assert not proxy.turns
        listening = f"listen: 127.0.0.1:{gateway.port}\nhooks: {{jsonl: {{output: stdout}}}}\n"
        gateway.rewrite(text.replace('/v1"', '/v1", proxy_env: OUR_PROXY') + listening)
        gateway.signal(signal.SIGHUP)
        gateway.log(b"reload")
        assert asked(gateway, "main/m").status == 200
        assert [turn.value(b"proxy-authorization") for turn in proxy.turns] == [AUTHORIZED]


def test_check_and_its_errors_show_no_password(tmp_path: Path) -> None:
    text = (
        f'providers: {{main: {{kind: openai, api_key: sk-canary, proxy: "http://me:{PASSWORD}@h:3128"}}}}\n'
    )
    for proxy, status in (("@h:3128", 0), ("@h", 1), ("/@h:3128", 1)):
        file = write_config(tmp_path, text.replace("@h:3128", proxy))
        done = twistd("mgw", "-c", str(file), "--check", folder=tmp_path)
        assert done.status == status
        assert "canary" not in done.stdout + done.stderr
        assert BASIC.decode() not in done.stdout + done.stderr
