"""The page "Try it" of a running gateway: who signs in sends requests as that client, nobody else does."""

from __future__ import annotations

import http.client
import json
import signal
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.certificates import Authority, issue
from tests.support.deployment import providers
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.simulator import start_simulator
from tests.support.waiting import WAIT_SECONDS

KEY, OTHER = "edge-canary-of-alice-1", "edge-canary-of-bob-1"
KEYS = f"""
edge_auth: {{enabled: true, keys: [{{name: alice, key: {KEY}}}, {{name: bob, key: {OTHER}}}]}}
hooks: {{jsonl: {{output: stdout}}}}
"""
MODES = {"one process": "", "workers": "workers: 2\n"}
CHAT, TRY = "/v1/chat/completions", "/v1/dashboard/try"
STREAMED = json.dumps({"model": "gpt-fast", "stream": True, "messages": [{"role": "user", "content": "hi"}]})


@dataclass
class Found:
    """A response."""

    status: int
    request_id: str | None
    body: bytes


class Browser:
    """A browser that is at the dashboard's page; each request is on a connection of its own."""

    def __init__(self, gateway: GatewayProcess, context: ssl.SSLContext | None = None) -> None:
        self.gateway, self.context = gateway, context
        self.origin = f"{'http' if context is None else 'https'}://127.0.0.1:{gateway.port}"
        self.cookies: dict[str, str] = {}

    def send(
        self, path: str, body: str = "", method: str = "POST", origin: str | None = "", **headers: str
    ) -> Found:
        """Send a request with the cookies; an empty origin is the page's own."""
        connection = self._connect()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent["Content-Type"] = "application/json"
        if origin is not None:
            sent["Origin"] = origin or self.origin
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        connection.request(method, path, body, sent)
        response = connection.getresponse()
        for stated in response.headers.get_all("Set-Cookie", []):
            name, _, value = stated.partition(";")[0].partition("=")
            self.cookies |= {name: value}
            if "Max-Age=0" in stated:
                del self.cookies[name]
        found = Found(response.status, response.headers["X-Gateway-Request-Id"], response.read())
        connection.close()
        return found

    def _connect(self) -> http.client.HTTPConnection:
        port = self.gateway.port
        if self.context is None:
            return http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
        return http.client.HTTPSConnection("127.0.0.1", port, timeout=WAIT_SECONDS, context=self.context)

    def sign_in(self, key: str = KEY) -> None:
        assert self.send("/ui/login", json.dumps({"key": key})).status == 204

    def begin(self) -> None:
        """Sign in and get the cookie with which a request may be sent."""
        self.sign_in()
        assert self.send(TRY).status == 204


@pytest.fixture(params=MODES.values(), ids=list(MODES))
def gateway(request: pytest.FixtureRequest) -> Iterator[GatewayProcess]:
    with (
        start_simulator() as simulator,
        start_gateway(providers(simulator.url) + KEYS + request.param) as gateway,
    ):
        yield gateway


def test_who_has_signed_in_sends_a_streamed_request_as_that_client(gateway: GatewayProcess) -> None:
    browser = Browser(gateway)
    browser.begin()
    for sent in range(4):  # each of several workers takes some
        response = browser.send(CHAT, STREAMED)
        assert response.status == 200
        assert response.body.endswith(b"data: [DONE]\n\n")
        event = gateway.events(sent + 1)[-1]
        assert (event["client"], event["stream"], event["status"]) == ("alice", True, "ok")
        assert event["request_id"] == response.request_id


def test_everybody_else_is_refused(gateway: GatewayProcess) -> None:
    browser = Browser(gateway)
    browser.begin()
    statuses = {
        "a page of another origin": browser.send(CHAT, STREAMED, origin="https://evil.example").status,
        "a form of another site": browser.send(CHAT, STREAMED, origin="null").status,
        "no page": browser.send(CHAT, STREAMED, origin=None).status,
        "another site's frame": browser.send(CHAT, STREAMED, Sec_Fetch_Site="cross-site").status,
        "reading": browser.send("/v1/models", method="GET").status,
        "metrics": browser.send("/metrics", method="GET").status,
        "another route": browser.send("/v1/embeddings", '{"model": "gpt-fast", "input": "a"}').status,
        "a wrong key beside it": browser.send(CHAT, STREAMED, Authorization="Bearer edge-canary-x").status,
    }
    assert statuses == dict.fromkeys(statuses, 401)
    assert browser.send(TRY, origin="https://evil.example").status == 403
    assert browser.send(CHAT, STREAMED).status == 200
    browser.send("/ui/logout")
    assert browser.cookies == {}
    assert browser.send(CHAT, STREAMED).status == 401
    assert browser.send(TRY).status == 401


def test_the_cookie_ends_with_its_key(gateway: GatewayProcess) -> None:
    browser = Browser(gateway)
    browser.begin()
    assert browser.send(CHAT, STREAMED).status == 200
    gateway.rewrite(gateway.config_file.read_text().replace(KEY, "edge-canary-of-alice-2"))
    gateway.signal(signal.SIGHUP)
    gateway.log(b"the configuration was reloaded: generation 2\n")
    assert browser.send(CHAT, STREAMED).status == 401


def test_under_tls_the_cookie_is_that_of_tls(ca: Authority) -> None:
    files = issue(ca, "localhost", "127.0.0.1")
    tls = f"tls: {{cert_file: {files.cert_file}, key_file: {files.key_file}}}\nworkers: 2\n"
    with start_simulator() as simulator, start_gateway(providers(simulator.url) + KEYS + tls) as gateway:
        browser = Browser(gateway, ssl.create_default_context(cafile=str(ca.ca_file)))
        browser.begin()
        assert set(browser.cookies) == {"__Host-mgw_dashboard", "__Host-mgw_try_it"}
        assert browser.send(CHAT, STREAMED).status == 200
        assert browser.send(CHAT, STREAMED, origin=browser.origin.replace("https", "http")).status == 401


def test_a_page_that_is_off_is_off_everywhere() -> None:
    with (
        start_simulator() as simulator,
        start_gateway(providers(simulator.url) + KEYS + "dashboard: {try_it: false}\n") as gateway,
    ):
        browser = Browser(gateway)
        browser.sign_in()
        assert browser.send(TRY).status == 404
        profiles = browser.send("/v1/dashboard/profiles", method="GET")
        assert "try_it" not in json.loads(profiles.body)


@pytest.mark.parametrize("more", ["", "workers: 2\n"], ids=["one process", "workers"])
def test_on_one_machine_without_keys_the_own_page_may_send_and_others_may_not(more: str) -> None:
    with (
        start_simulator() as simulator,
        start_gateway(providers(simulator.url) + "hooks: {jsonl: {output: stdout}}\n" + more) as gateway,
    ):
        browser = Browser(gateway)
        profiles = json.loads(browser.send("/v1/dashboard/profiles", method="GET").body)
        assert profiles["try_it"] == {"as": "anyone"}
        assert browser.send(CHAT, STREAMED).status == 200
        assert "client" not in gateway.event()
        assert browser.send(CHAT, STREAMED, origin="https://evil.example").status == 403
