"""The page "Try it" sends requests as the client that has signed in, and nobody else can use its cookie."""

from __future__ import annotations

import json
import re
from hashlib import sha256

import pytest

from mgw.clients.try_it import SECONDS, make_token
from mgw.http.head_key import key_of_head
from tests.support.configs import THREE_FAMILIES
from tests.support.dashboards import AWAY, HERE, Address, DashboardHarness, Response
from tests.support.pipelines import Pipeline, answered
from tests.support.web_servers import settled

EDGE, OTHER = "canary-edge-key-12345", "canary-edge-key-67890"
DASHBOARD_KEY = "canary-dashboard-key"
CLOSED = THREE_FAMILIES + (
    f"edge_auth: {{enabled: true, keys: [{{name: alice, key: {EDGE}}}, {{name: bob, key: {OTHER}}}]}}\n"
)
LIMITED = CLOSED.replace("{name: alice, ", "{name: alice, requests_per_minute: 1, ")
CHAT, TRY, PROFILES = "/v1/chat/completions", "/v1/dashboard/try", "/v1/dashboard/profiles"
BODY = b'{"model":"fast","messages":[]}'
OWN = "Origin: http://gw.example"
OTHER_SITE = "Origin: https://evil.example"


class Gateway(DashboardHarness):
    """A gateway with its dashboard, and a provider that answers."""

    def __init__(self, text: str = CLOSED, peer: Address = AWAY) -> None:
        super().__init__(text, peer)
        self.server.wall = lambda: self.wall + self.clock.seconds()
        self.server.use(self.generation)

    def reload(self, text: str) -> None:
        """Use another configuration with the same provider."""
        self.server.use(Pipeline(text, self.clock, self.pipeline.endpoint).generation)
        self.switch.follow()

    def begin(self, key: str = EDGE, *headers: str) -> str:
        """Sign in, ask for the cookie, and return it as a header."""
        session = self.sign_in(key).cookie
        response = self.ask(TRY, f"Cookie: {session}", *(headers or (OWN,)), method="POST")
        assert response.status == 204, response.body
        return f"Cookie: {response.cookie}"

    def post(self, *headers: str, path: str = CHAT, method: str = "POST", body: bytes = BODY) -> Response:
        """Send a request to a model."""
        self.connect()
        lines = [f"{method} {path} HTTP/1.1", "Host: gw.example", "Content-Type: application/json", *headers]
        self.send("\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode("latin-1") + body)
        for connection in self.pipeline.endpoint.connections:
            if not connection.over and connection.received:
                connection.send(answered())
                connection.close()
        return Response(self.received())


ROUTES = {
    "chat": CHAT,
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "generate_content": "/v1beta/models/gem%2Fgemini-x:generateContent",
    "stream_generate_content": "/v1beta/models/gem%2Fgemini-x:streamGenerateContent?alt=sse",
    "count_tokens": "/v1beta/models/gem%2Fgemini-x:countTokens",
    "messages_count_tokens": "/v1/messages/count_tokens",
}


@pytest.mark.parametrize(("route", "path"), ROUTES.items())
def test_the_page_is_the_client_that_has_signed_in(route: str, path: str) -> None:
    gateway = Gateway()
    model = {"messages": b"smart", "messages_count_tokens": b"smart"}.get(route, b"fast")
    cookie = gateway.begin()
    gateway.post(cookie, OWN, path=path, body=BODY.replace(b"fast", model))
    (event,) = gateway.observer.events
    assert (event.client, event.route) == ("alice", route)
    assert event.status != "rejected"
    assert settled(gateway) == (0, 0, 0)


def test_nothing_of_the_cookie_goes_to_the_provider_or_into_a_line() -> None:
    gateway = Gateway()
    cookie = gateway.begin()
    gateway.post(cookie, OWN)
    (connection,) = gateway.pipeline.endpoint.connections
    assert b"mgw_try_it" not in connection.received
    assert cookie.rpartition("-")[2].encode() not in connection.received
    assert cookie.rpartition("-")[2] not in repr(gateway.observer)


def test_the_cookie_is_for_scripts_of_nobody_and_ends_soon() -> None:
    gateway = Gateway()
    session = gateway.sign_in(EDGE).cookie
    response = gateway.ask(TRY, f"Cookie: {session}", OWN, method="POST")
    assert re.fullmatch(
        r"mgw_try_it=[0-9a-f]{12}-1800000060-[0-9a-f]{64}; Max-Age=60; Path=/; HttpOnly; SameSite=Strict",
        response.headers["set-cookie"],
    )
    assert (response.headers["cache-control"], response.body) == ("no-store", b"")
    assert EDGE not in response.headers["set-cookie"]


OUTSIDERS: dict[str, tuple[list[str], dict[str, str]]] = {
    "a page of another origin": ([OTHER_SITE], {}),
    "a page of another port": (["Origin: http://gw.example:3000"], {}),
    "a form of another site": (["Origin: null", "Content-Type: text/plain"], {}),
    "no page": ([], {}),
    "two origins": ([OWN, OTHER_SITE], {}),
    "the same twice": ([OWN, OWN], {}),
    "a frame of another site": ([OWN, "Sec-Fetch-Site: cross-site"], {}),
    "a page of a neighbouring host": ([OWN, "Sec-Fetch-Site: same-site"], {}),
    "a wrong key beside it": ([OWN, "Authorization: Bearer wrong-key-1"], {}),
    "a key of another family beside it": ([OWN, "x-goog-api-key: AIza-1"], {}),
    "a key in the query beside it": ([OWN], {"path": ROUTES["generate_content"] + "?key=AIza-1"}),
    "reading": ([OWN], {"method": "GET", "path": "/v1/models"}),
    "metrics": ([OWN], {"method": "GET", "path": "/metrics"}),
    "embeddings": ([OWN], {"path": "/v1/embeddings"}),
    "images": ([OWN], {"path": "/v1/images/generations"}),
    "files": ([OWN], {"path": "/v1/files"}),
    "a batch": ([OWN], {"path": "/v1/messages/batches"}),
    "removing an answer": ([OWN], {"method": "DELETE", "path": "/v1/responses/resp_1"}),
    "another method": ([OWN], {"method": "GET"}),
    "no such path": ([OWN], {"path": "/v1/nothing"}),
}


@pytest.mark.parametrize(("headers", "target"), OUTSIDERS.values(), ids=OUTSIDERS)
def test_the_cookie_opens_nothing_else(headers: list[str], target: dict[str, str]) -> None:
    gateway = Gateway()
    cookie = gateway.begin()
    refused = gateway.post(
        cookie, *headers, path=target.get("path", CHAT), method=target.get("method", "POST")
    )
    assert refused.status == 401
    assert b"canary" not in refused.body
    assert gateway.pipeline.endpoint.connections == []
    assert gateway.observer.rejections == 1
    assert gateway.post(cookie, OWN).status == 200


def test_who_keeps_the_cookie_has_it_for_a_minute() -> None:
    gateway = Gateway()
    cookie = gateway.begin()
    gateway.clock.advance(SECONDS - 1)
    assert gateway.post(cookie, OWN).status == 200
    gateway.clock.advance(1)
    assert gateway.post(cookie, OWN).status == 401


def test_no_head_with_the_cookie_is_remembered() -> None:
    gateway = Gateway()
    cookie = gateway.begin()
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: gw.example\r\n{cookie}\r\n{OWN}\r\nContent-Length: 9\r\n\r\n".encode()
    )
    for _ in range(3):
        gateway.connect()
        gateway.send(head)
        gateway.leave()
    key = key_of_head(head)
    assert key is not None
    assert gateway.server.find_head(key[0]) is None
    gateway.clock.advance(SECONDS)
    gateway.connect()
    gateway.send(head)
    assert gateway.status() == 401


ENDINGS = {
    "its key is removed": CLOSED.replace(EDGE, "canary-edge-key-new"),
    "the page is off": CLOSED + "dashboard: {try_it: false}\n",
    "the dashboard is off": CLOSED + "dashboard: {enabled: false}\n",
    "the dashboard is denied": CLOSED + "routes: {deny: [dashboard]}\n",
}


@pytest.mark.parametrize("text", ENDINGS.values(), ids=ENDINGS)
def test_the_cookie_ends_with(text: str) -> None:
    gateway = Gateway()
    cookie = gateway.begin()
    gateway.reload(text)
    assert gateway.post(cookie, OWN).status == 401


def test_limits_that_a_key_gets_meanwhile_hold_for_the_page() -> None:
    gateway = Gateway()
    cookie = gateway.begin()
    gateway.reload(LIMITED)
    assert [gateway.post(cookie, OWN).status for _ in range(2)] == [200, 429]


def test_a_key_beside_the_cookie_says_who_it_is() -> None:
    gateway = Gateway()
    gateway.post(gateway.begin(), OWN, f"Authorization: Bearer {OTHER}")
    (event,) = gateway.observer.events
    assert event.client == "bob"


def test_a_password_for_a_proxy_in_front_is_no_key() -> None:
    gateway = Gateway()
    assert gateway.post(gateway.begin(), OWN, "Authorization: Basic dXNlcjpwYXNz").status == 200
    (connection,) = gateway.pipeline.endpoint.connections
    assert b"dXNlcjpwYXNz" not in connection.received


def test_a_cookie_of_another_server_beside_it_does_no_harm() -> None:
    gateway = Gateway()
    cookie = gateway.begin().removeprefix("Cookie: ")
    assert gateway.post(f"Cookie: a=b; mgw_try_it=x; {cookie}", OWN).status == 200
    assert gateway.post("Cookie: a=b", f"Cookie: {cookie}", OWN).status == 200
    assert gateway.post(f"cookie: a=b; __Host-{cookie}", OWN).status == 401


BEHIND_TLS = CLOSED + "public_url: https://ai.example/mgw\n"


def test_behind_a_proxy_with_tls_the_cookie_is_that_of_tls() -> None:
    gateway = Gateway(BEHIND_TLS)
    own = "Origin: https://ai.example"
    login = gateway.ask("/ui/login", own, method="POST", body=b'{"key":"%b"}' % EDGE.encode())
    response = gateway.ask(TRY, f"Cookie: {login.cookie}", own, method="POST")
    assert response.headers["set-cookie"].startswith("__Host-mgw_try_it=")
    assert response.headers["set-cookie"].endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
    assert gateway.post(f"Cookie: {response.cookie}", own).status == 200
    plain = response.cookie.removeprefix("__Host-")
    assert gateway.post(f"Cookie: {plain}", own).status == 401


ASKS: dict[str, tuple[str, list[str], int]] = {
    "no session": (CLOSED, [OWN], 401),
    "a key and no session": (CLOSED, [OWN, f"Authorization: Bearer {EDGE}"], 401),
    "a page of another origin": (CLOSED, ["SESSION", OTHER_SITE], 403),
    "no origin": (CLOSED, ["SESSION"], 403),
    "another site": (CLOSED, ["SESSION", "Origin: null"], 403),
    "a page that is off": (CLOSED + "dashboard: {try_it: false}\n", ["SESSION", OWN], 404),
    "a key of the dashboard": (CLOSED + f"dashboard: {{keys: [{EDGE}-d]}}\n", ["SESSION", OWN], 401),
}


@pytest.mark.parametrize(("text", "headers", "status"), ASKS.values(), ids=ASKS)
def test_who_gets_no_cookie(text: str, headers: list[str], status: int) -> None:
    gateway = Gateway(text)
    session = gateway.sign_in(f"{EDGE}-d" if "-d]" in text else EDGE).cookie
    stated = [f"Cookie: {session}" if name == "SESSION" else name for name in headers]
    response = gateway.ask(TRY, *stated, method="POST")
    assert response.status == status
    assert "set-cookie" not in response.headers
    assert set(json.loads(response.body)) == {"error"}


def test_it_is_asked_for_with_post() -> None:
    gateway = Gateway()
    session = gateway.sign_in(EDGE).cookie
    assert gateway.ask(TRY, f"Cookie: {session}", OWN).status == 405


def test_who_signs_out_loses_the_cookie_and_gets_no_other() -> None:
    gateway = Gateway()
    session = f"Cookie: {gateway.sign_in(EDGE).cookie}"
    gateway.ask("/ui/logout", session, OWN, method="POST")
    assert b"Set-Cookie: mgw_try_it=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict\r\n" in gateway.received()
    assert gateway.ask(TRY, session, OWN, method="POST").status == 401


WHO: dict[str, tuple[str, Address, bool, dict[str, str] | None]] = {
    "a named key": (CLOSED, AWAY, True, {"as": "client", "client": "alice"}),
    "a key in a header": (CLOSED, AWAY, False, {"as": "key"}),
    "the dashboard has keys": (CLOSED + f"dashboard: {{keys: [{EDGE}-d]}}\n", AWAY, True, {"as": "key"}),
    "no edge auth": (THREE_FAMILIES, HERE, False, {"as": "anyone"}),
    "no edge auth, beyond loopback": (THREE_FAMILIES + "listen: :8787\n", HERE, False, None),
    "off": (CLOSED + "dashboard: {try_it: false}\n", AWAY, True, None),
}


@pytest.mark.parametrize(("text", "peer", "signs_in", "found"), WHO.values(), ids=WHO)
def test_the_page_learns_whom_it_sends_as(
    text: str, peer: Address, signs_in: bool, found: dict[str, str] | None
) -> None:
    gateway, key = Gateway(text, peer), f"{EDGE}-d" if "-d]" in text else EDGE
    header = f"Cookie: {gateway.sign_in(key).cookie}" if signs_in else f"x-api-key: {key}"
    answer = gateway.ask(PROFILES, header, host="localhost" if peer is HERE else "gw.example")
    assert json.loads(answer.body).get("try_it") == found


def test_a_key_without_a_name_has_that_of_its_events() -> None:
    gateway = Gateway(THREE_FAMILIES + f"edge_auth: {{enabled: true, keys: [{EDGE}]}}\n")
    gateway.post(gateway.begin(), OWN)
    (event,) = gateway.observer.events
    session = gateway.sign_in(EDGE).cookie
    said = json.loads(gateway.ask(PROFILES, f"Cookie: {session}").body)["try_it"]
    assert said == {"as": "client", "client": event.client}


def test_who_reads_the_digest_of_a_key_in_the_configuration_can_sign_nothing() -> None:
    digest = sha256(EDGE.encode())
    keys = f'edge_auth: {{enabled: true, keys: [{{name: a, sha256: "{digest.hexdigest()}"}}]}}\n'
    gateway = Gateway(THREE_FAMILIES + keys)
    session = f"Cookie: {gateway.sign_in(EDGE).cookie}"
    assert json.loads(gateway.ask(PROFILES, session).body)["try_it"] == {"as": "key"}
    assert gateway.ask(TRY, session, OWN, method="POST").status == 401
    for known in (digest.digest(), digest.hexdigest().encode(), b""):
        token = make_token(known, gateway.wall).decode().partition("-")[2]
        for cookie in (f"{digest.hexdigest()[:12]}-{token}", make_token(known, gateway.wall).decode()):
            assert gateway.post(f"Cookie: mgw_try_it={cookie}", OWN).status == 401
    assert gateway.post(f"Authorization: Bearer {EDGE}", OWN).status == 200


def test_without_edge_auth_the_page_needs_no_cookie() -> None:
    gateway = Gateway(THREE_FAMILIES, HERE)
    response = gateway.ask(TRY, "Origin: http://localhost", method="POST", host="localhost")
    assert (response.status, "set-cookie" in response.headers) == (204, False)
