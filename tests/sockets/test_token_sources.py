"""Tokens that the gateway gets itself, end to end: every mode, over HTTP, streams and WebSockets.

The simulator issues the tokens and its providers want them.  Every secret contains ``canary``, and what the
gateway writes is searched for that and for tokens.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest
from websockets.sync.client import connect

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.google_keys import authorized_user, external_account, write_json
from tests.support.operations import ask
from tests.support.raw_client import CHAT, RawClient, asking, request
from tests.support.raw_upstream import start_upstream
from tests.support.simulator import SeenRequest, SimulatorProcess
from tests.support.waiting import WAIT_SECONDS, wait_until

MODES: Final = (
    "client",
    "basic",
    "refresh",
    "exchange",
    "asserted",
    "account",
    "user",
    "external",
    "machine",
)
FAULTS: Final = {
    "html": "token-html",
    "list": "token-list",
    "redirect": "token-redirect",
    "empty": "token-no-token",
    "mac": "token-mac",
    "fault": "status-500",
    "soon": "expires-soon",
    "cut": "truncate-after-5",
    "reset": "reset-before",
}
TOKEN: Final = b"sim-issued-"
"""How the simulator's tokens begin."""


def providers(url: str, folder: Path) -> str:
    """Return a provider of each mode, and one of each fault; all are the simulator."""
    token = folder / "subject"
    token.write_text("canary-subject\n")
    user = write_json(folder / "user.json", authorized_user(token_uri=f"{url}/oauth/token"))
    outside = write_json(
        folder / "outside.json", external_account(str(token), token_url=f"{url}/oauth/token")
    )
    at = f"token_url: '{url}/oauth/token'"
    secret = "client_id: mgw, client_secret: canary-secret"
    modes = {
        "client": f"auth: oauth2, oauth: {{{at}, {secret}, scopes: a}}",
        "basic": f"auth: oauth2, oauth: {{{at}, {secret}, client_auth: basic}}",
        "refresh": f"auth: oauth2, oauth: {{{at}, client_id: a, refresh_token: canary, scopes: sim-rotate}}",
        "exchange": f"auth: oauth2, oauth: {{{at}, grant: token_exchange, subject_token_file: {token}}}",
        "asserted": f"auth: oauth2, oauth: {{{at}, grant: jwt_bearer, assertion_file: {token}, body: json}}",
        "account": f"auth: service_account, service_account_file: {folder}/account.json",
        "user": f"auth: adc, service_account_file: {user}",
        "external": f"auth: adc, service_account_file: {outside}",
        "machine": "auth: adc",
        **{
            name: f"auth: oauth2, oauth: {{{at}, {secret}, scopes: sim-{word}}}"
            for name, word in FAULTS.items()
        },
        "slow": f"auth: oauth2, oauth: {{{at}, {secret}, scopes: sim-delay-1500}}",
    }
    lines = [f'  {name}: {{kind: openai, base_url: "{url}/v1", {auth}}}' for name, auth in modes.items()]
    return "providers:\n" + "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, simulator: SimulatorProcess) -> Path:
    folder = tmp_path_factory.mktemp("tokens")
    write_json(folder / "account.json", dict(simulator.service_account()))
    return folder


@pytest.fixture
def gateway(simulator: SimulatorProcess, folder: Path) -> Iterator[GatewayProcess]:
    """A gateway whose tokens have not been refused yet: a new one is not renewed for a further refusal."""
    environ = {"GCE_METADATA_HOST": f"127.0.0.1:{simulator.port}", "HOME": str(folder)}
    with start_gateway(providers(simulator.url, folder), environ) as process:
        yield process
        assert TOKEN not in process.stdout.data + process.stderr.data + process.get("/metrics")


@pytest.fixture(autouse=True)
def wanted(simulator: SimulatorProcess) -> Iterator[None]:
    """The simulator's providers want its tokens."""
    simulator.clear()
    simulator.tokens(required=True)
    yield
    simulator.tokens()


def chat(gateway: GatewayProcess, mode: str) -> None:
    answer = ask(gateway.port, CHAT, body=asking(f"{mode}/gpt-5"))
    assert answer.status == 200, answer.body
    assert answer.json()["choices"]


def stream(gateway: GatewayProcess, mode: str) -> None:
    answer = ask(gateway.port, CHAT, body=asking(f"{mode}/gpt-5", stream=True))
    assert answer.status == 200, answer.body
    assert answer.body.endswith(b"data: [DONE]\n\n")


def session(gateway: GatewayProcess, mode: str) -> None:
    url = f"ws://127.0.0.1:{gateway.port}/v1/realtime?model={mode}/gpt-realtime"
    with connect(url, compression=None, proxy=None) as connection:
        assert json.loads(connection.recv(WAIT_SECONDS))["type"] == "session.created"


WAYS: Final[dict[str, Callable[[GatewayProcess, str], None]]] = {
    "http": chat,
    "stream": stream,
    "websocket": session,
}


def to_provider(simulator: SimulatorProcess) -> list[SeenRequest]:
    """The requests for anything but tokens."""
    return [request for request in simulator.requests() if request.target.startswith("/v1/")]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gets_a_token_and_another_where_it_is_refused(
    gateway: GatewayProcess, simulator: SimulatorProcess, mode: str, way: str
) -> None:
    WAYS[way](gateway, mode)
    simulator.clear()
    WAYS[way](gateway, mode)
    assert len(to_provider(simulator)) == 1
    assert not simulator.token_requests(), "a token that is good is kept"

    simulator.revoke_tokens()
    simulator.clear()
    WAYS[way](gateway, mode)
    refused, taken = to_provider(simulator)
    assert (refused.status, taken.status) == (401, 101 if way == "websocket" else 200)
    assert refused.value("authorization") != taken.value("authorization")
    assert (refused.target, refused.body_sha256) == (taken.target, taken.body_sha256)
    assert [name for name, _ in refused.headers if name != "Sec-WebSocket-Key"] == [
        name for name, _ in taken.headers if name != "Sec-WebSocket-Key"
    ]
    assert len(simulator.token_requests()) == 1


def test_a_provider_that_refuses_every_token_costs_one_renewal(
    gateway: GatewayProcess, simulator: SimulatorProcess
) -> None:
    chat(gateway, "client")
    simulator.revoke_tokens()
    simulator.clear()
    chat(gateway, "client")
    for _ in range(5):
        simulator.revoke_tokens()
        assert ask(gateway.port, CHAT, body=asking("client/gpt-5")).status == 401
    assert len(simulator.token_requests()) == 1
    assert [request.status for request in to_provider(simulator)] == [401, 200, *[401] * 5]


def test_an_upload_on_disk_is_sent_again_exactly(
    gateway: GatewayProcess, simulator: SimulatorProcess
) -> None:
    chat(gateway, "client")
    simulator.revoke_tokens()
    simulator.clear()
    part = b'--b\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n'
    file = bytes(range(256)) * 16 * 1024  # 4 MiB, above what stays in memory
    body = part % (b"purpose", b"", b"batch") + part % (b"file", b'; filename="f"', file) + b"--b--\r\n"
    form = request(body, b"Content-Type: multipart/form-data; boundary=b", path="/v1/files?provider=client")
    with RawClient(gateway.port) as client:
        client.send(form)
        answer = client.read_response()
    assert answer.status == 200, answer.body
    refused, taken = to_provider(simulator)
    assert (refused.status, taken.status) == (401, 200)
    assert refused.body_sha256 == taken.body_sha256 == sha256(body).hexdigest()
    assert len(simulator.token_requests()) == 1


def test_an_event_names_the_identity_and_counts_both_attempts(
    gateway: GatewayProcess, simulator: SimulatorProcess
) -> None:
    for revoked in (False, False, True):
        if revoked:
            simulator.revoke_tokens()
        assert ask(gateway.port, CHAT, body=asking("client/gpt-counted")).status == 200

    def events() -> list[dict[str, Any]]:
        return [event for event in gateway.events() if event.get("upstream_model") == "gpt-counted"]

    wait_until(lambda: len(events()) == 3, "three events")
    _, kept, renewed = events()
    assert (kept["attempts"], renewed["attempts"]) == (1, 2)
    assert kept["key_hash"] == renewed["key_hash"]
    assert renewed["status"] == "ok"


def test_a_token_that_cannot_be_renewed_leaves_the_client_the_providers_own_401(
    gateway: GatewayProcess, simulator: SimulatorProcess
) -> None:
    chat(gateway, "client")
    simulator.revoke_tokens()
    simulator.tokens(required=True, words="sim-status-500")
    answer = ask(gateway.port, CHAT, body=asking("client/gpt-5"))
    assert (answer.status, answer.json()["error"]["code"]) == (401, "invalid_api_key")
    simulator.tokens(required=True)
    chat(gateway, "client")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_token_endpoint_that_fails_is_a_502_that_says_what_to_do(
    gateway: GatewayProcess, simulator: SimulatorProcess, fault: str
) -> None:
    answer = ask(gateway.port, CHAT, body=asking(f"{fault}/gpt-5"))
    error = answer.json()["error"]
    assert (answer.status, error["code"]) == (502, "credential_source_failed")
    assert error["message"].startswith("the provider's token endpoint ")
    assert TOKEN.decode() not in error["message"]
    assert not to_provider(simulator)


def test_a_failing_endpoint_fails_a_session_before_its_upgrade(gateway: GatewayProcess) -> None:
    answer = ask(
        gateway.port,
        "/v1/realtime?model=html/gpt-realtime",
        b"Upgrade: websocket",
        b"Connection: Upgrade",
        b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
        b"Sec-WebSocket-Version: 13",
    )
    assert (answer.status, answer.json()["error"]["code"]) == (502, "credential_source_failed")


def test_a_reload_between_waiting_requests_asks_for_no_second_token(
    gateway: GatewayProcess, simulator: SimulatorProcess, folder: Path
) -> None:
    """Half of the requests begin before the reload and half after it; all wait for the same slow token."""
    found: list[int] = []

    def one() -> None:
        found.append(ask(gateway.port, CHAT, body=asking("slow/gpt-5")).status)

    threads = [threading.Thread(target=one) for _ in range(40)]
    for thread in threads[:20]:
        thread.start()
    wait_until(lambda: len(simulator.token_requests()) == 1, "the request for a token")
    gateway.rewrite(
        providers(simulator.url, folder).replace("client_id: mgw,", "client_id: other,", 1)
        + "listen: 127.0.0.1:0\nhooks: {jsonl: {output: stdout}}\n"
    )
    gateway.signal(signal.SIGHUP)
    gateway.log(b"the configuration was reloaded")
    for thread in threads[20:]:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    assert found == [200] * 40
    assert len(simulator.token_requests()) == 1


def test_a_providers_proxy_leads_to_its_token_endpoint_too(simulator: SimulatorProcess) -> None:
    oauth = "token_url: 'http://idp.invalid/oauth/token', client_id: mgw, client_secret: canary-secret"
    with start_upstream() as proxy:
        proxy.begin(lambda turn: turn.tunnel_to(simulator.port))
        config = f"""
providers:
  inside:
    {{kind: openai, base_url: "http://provider.invalid/v1", proxy: "http://127.0.0.1:{proxy.port}",
     auth: oauth2, oauth: {{{oauth}}}}}
"""
        with start_gateway(config) as behind:
            chat(behind, "inside")
        assert [turn.target for turn in proxy.turns] == ["idp.invalid:80", "provider.invalid:80"]


def test_the_gateway_tells_where_tokens_come_from_without_asking(
    simulator: SimulatorProcess, folder: Path, tmp_path: Path
) -> None:
    from mgw.app.check import reader_of
    from mgw.app.credential_check import token_sources

    file = tmp_path / "mgw.yaml"
    file.write_text(providers(simulator.url, folder))
    told = token_sources(reader_of(str(file))())
    assert f"client: auth oauth2, tokens from {simulator.url}/oauth/token by client_credentials" in told
    assert any(line.startswith("account: auth service_account, service account robot@") for line in told)
    assert not [line for line in told if "canary" in line]
    assert not simulator.token_requests()
