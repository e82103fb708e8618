"""Who may use the dashboard of a running gateway, and what it never tells, over sockets."""

from __future__ import annotations

import http.client
import json
import signal
import ssl
from pathlib import Path

import pytest

from tests.support.certificates import Authority, issue
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_client import RawClient
from tests.support.waiting import WAIT_SECONDS

KEY = "dashboard-canary-key-1"
OTHER = "dashboard-canary-key-2"
PATH = "/v1/dashboard/requests"
PROVIDERS = """
providers:
  main:
    {kind: openai, base_url: "http://127.0.0.1:9/v1", api_key: sk-canary,
     headers: {set: {X-Team: team-canary}}, proxy: "http://user:pass-canary@127.0.0.1:9"}
  claude: {kind: anthropic, api_key: sk-ant-canary}
  open: {kind: openai_compat, base_url: "http://127.0.0.1:9/v1", auth: none}
  file: {kind: openai_compat, base_url: "http://127.0.0.1:9/v1", auth: token_file, token_file: TOKEN_FILE}
  renewed:
    kind: openai_compat
    base_url: "http://127.0.0.1:9/v1"
    auth: oauth2
    oauth:
      {token_url: "http://127.0.0.1:9/token", client_id: id, client_secret: secret-canary,
       refresh_token: refresh-canary, extra: {code: form-canary}}
"""


def ask(
    gateway: GatewayProcess, path: str, method: str = "GET", body: str | None = None, **headers: str
) -> http.client.HTTPResponse:
    """Send a request on a connection of its own; underscores in names of headers are hyphens."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=WAIT_SECONDS)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    return connection.getresponse()


def sign_in(gateway: GatewayProcess, key: str = KEY) -> str:
    response = ask(gateway, "/ui/login", "POST", json.dumps({"key": key}))
    assert response.status == 204
    cookie: str = response.headers["Set-Cookie"].partition(";")[0]
    return cookie


def test_no_answer_and_no_line_has_a_credential(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("token-canary")
    config = PROVIDERS.replace("TOKEN_FILE", str(token_file)) + f"dashboard: {{keys: [{KEY}]}}\n"
    with start_gateway(config) as gateway:
        chat = json.dumps({"model": "file/m", "messages": [{"role": "user", "content": "prompt-canary"}]})
        ask(gateway, "/v1/chat/completions", "POST", chat, Content_Type="application/json").read()
        ask(gateway, f"/ui?key={KEY}", x_api_key="wrong-canary").read()
        cookie = sign_in(gateway)
        for name in ("profiles", "usage", "requests", "sessions", "logs", "openapi.json", "oauth/nobody"):
            found = ask(gateway, f"/v1/dashboard/{name}", Cookie=cookie).read()
            assert found.startswith(b"{")
            assert b"canary" not in found, name
        profiles = json.loads(ask(gateway, "/v1/dashboard/profiles", Cookie=cookie).read())
        modes = {one["name"]: one["credentials"]["mode"] for one in profiles["providers"]}
        assert modes == {
            "main": "api_key",
            "claude": "api_key",
            "open": "none",
            "file": "token_file",
            "renewed": "oauth2",
        }


def test_a_session_ends_with_its_key_and_with_its_user() -> None:
    config = PROVIDERS.partition("  file:")[0]
    with start_gateway(f"{config}dashboard: {{keys: [{KEY}, {OTHER}]}}\n") as gateway:
        mine, yours = sign_in(gateway), sign_in(gateway, OTHER)
        assert ask(gateway, PATH, Cookie=mine).status == ask(gateway, PATH, Cookie=yours).status == 200
        gateway.rewrite(f"{config}dashboard: {{keys: [{OTHER}]}}\nlisten: 127.0.0.1:0\n")
        gateway.signal(signal.SIGHUP)
        gateway.log(b"the configuration was reloaded: generation 2\n")
        assert ask(gateway, PATH, Cookie=mine).status == 401
        assert ask(gateway, PATH, Cookie=yours).status == 200
        foreign = ask(gateway, "/ui/logout", "POST", Cookie=yours, Origin="https://evil.example")
        assert foreign.status == 403
        assert ask(gateway, "/ui/logout", "POST", Cookie=yours).status == 204
        assert ask(gateway, PATH, Cookie=yours).status == 401


UPGRADE = (
    b"Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
HEADS = {
    "itself": (b"GET /ui HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
    "a host that was rebound": (b"GET /ui HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
    "an absolute target": (b"GET http://evil.example/ui HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "two hosts": (b"GET /ui HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400),
    "HTTP/1.0": (b"GET /ui HTTP/1.0\r\nHost: localhost\r\n\r\n", 401),
    "no host": (b"GET /ui HTTP/1.0\r\n\r\n", 401),
    "a path above": (b"GET /ui/%2e%2e/ui HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "a path with a parameter": (b"GET /ui/..;/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    "two slashes": (b"GET /v1/dashboard//requests HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    "an encoded letter": (b"GET /v1/dashboard/%72equests HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    "a proxy's word of its client": (
        b"GET /ui HTTP/1.1\r\nHost: localhost\r\nX-Envoy-External-Address: 192.0.2.1\r\n\r\n",
        401,
    ),
    "a slash at its end": (b"GET /ui/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 308),
    "an upgrade": (
        b"GET /ui HTTP/1.1\r\nHost: localhost\r\n" + UPGRADE + b"\r\n",
        426,
    ),
    "a large body": (b"POST /ui/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65537\r\n\r\n", 413),
}


@pytest.mark.parametrize("more", ["", "workers: 2\n"], ids=["one process", "workers"])
def test_without_keys_every_other_way_to_say_it_is_refused(more: str) -> None:
    with start_gateway(PROVIDERS.partition("  file:")[0] + more) as gateway:
        gateway.log(f"dashboard at http://127.0.0.1:{gateway.port}/ui\n".encode())
        found = {}
        for name, (head, _) in HEADS.items():
            with RawClient(gateway.port) as client:
                client.send(head)
                found[name] = client.read_response("GET").status
        assert found == {name: status for name, (_, status) in HEADS.items()}


@pytest.mark.parametrize("more", ["", "workers: 2\n"], ids=["one process", "workers"])
def test_who_asks_for_a_dashboard_that_is_off_is_told_so(more: str) -> None:
    reason = "the dashboard is off: to turn it on, set dashboard.enabled to true"
    with start_gateway(
        f"{PROVIDERS.partition('  file:')[0]}{more}dashboard: {{enabled: false}}\n"
    ) as gateway:
        gateway.log(f"{reason}\n".encode())
        for path in ("/ui", "/ui/", "/ui/assets/page.js", "/v1/dashboard", PATH):
            response = ask(gateway, path)
            message = json.loads(response.read())["error"]["message"]
            assert (response.status, message) == (404, f"no such endpoint: {path}; {reason}")


def test_the_cookie_is_for_tls_alone_where_there_is_tls(ca: Authority) -> None:
    files = issue(ca, "localhost", "127.0.0.1")
    tls = f"tls: {{cert_file: {files.cert_file}, key_file: {files.key_file}}}\n"
    config = f"{PROVIDERS.partition('  file:')[0]}dashboard: {{keys: [{KEY}]}}\n"
    with start_gateway(config + tls) as gateway:
        context = ssl.create_default_context(cafile=str(ca.ca_file))
        connection = http.client.HTTPSConnection(
            "127.0.0.1", gateway.port, timeout=WAIT_SECONDS, context=context
        )
        connection.request("POST", "/ui/login", json.dumps({"key": KEY}))
        cookie = connection.getresponse().headers["Set-Cookie"]
        connection.close()  # or the gateway waits for that at its end
    assert cookie.startswith("__Host-mgw_dashboard=")
    assert cookie.split("; ")[1:] == ["Max-Age=43200", "Path=/", "HttpOnly", "SameSite=Strict", "Secure"]
