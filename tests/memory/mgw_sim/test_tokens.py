"""The token endpoint, the metadata server, and the routes that want what they issue."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import urlencode

import google.auth.crypt
import google.auth.jwt
import pytest
from twisted.internet.task import Clock

from mgw_sim.api import UnaryResponse
from mgw_sim.dispatcher import Dispatcher
from mgw_sim.http.parser import Head
from mgw_sim.recording import RecordedRequest, Recorder
from tests.memory.mgw_sim.client import result_of

FORM = (b"content-type", b"application/x-www-form-urlencoded")
FLAVOR = (b"metadata-flavor", b"Google")
METADATA = "/computeMetadata/v1/instance/service-accounts/default/token"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ASSERTION = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLIENT = {"grant_type": "client_credentials", "client_id": "c", "client_secret": "s"}


class Simulator:
    """The dispatcher, and a calendar."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self.dispatcher = Dispatcher(Clock(), Recorder(), lambda: self.now)

    def ask(
        self, method: str, target: str, body: bytes = b"", *headers: tuple[bytes, bytes]
    ) -> UnaryResponse:
        head = Head(method.encode(), target.encode(), b"HTTP/1.1", ((b"host", b"sim"), *headers))
        request = RecordedRequest(1, 1, head, bytearray(body), complete=True)
        answer, _ = result_of(self.dispatcher.answer(request))
        assert isinstance(answer, UnaryResponse)
        return answer

    def token(self, *headers: tuple[bytes, bytes], **form: str) -> tuple[int, Any]:
        answer = self.ask("POST", "/oauth/token", urlencode(form).encode(), FORM, *headers)
        return answer.status, json.loads(answer.body)

    def chat(self, token: str, model: str = "gpt-5") -> int:
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}]}).encode()
        headers = ((b"content-type", b"application/json"), (b"authorization", f"Bearer {token}".encode()))
        return self.ask("POST", "/v1/chat/completions", body, *headers).status


@pytest.fixture
def simulator() -> Simulator:
    return Simulator()


GRANTS: dict[str, dict[str, str]] = {
    "client": CLIENT,
    "refresh": {"grant_type": "refresh_token", "refresh_token": "r", "client_id": "c"},
    "exchange": {"grant_type": EXCHANGE, "subject_token": "t", "subject_token_type": "u"},
    "assertion": {"grant_type": ASSERTION, "assertion": "t"},
}


@pytest.mark.parametrize("form", GRANTS.values(), ids=GRANTS)
def test_each_grant_gives_a_token_that_is_good_for_an_hour(
    simulator: Simulator, form: dict[str, str]
) -> None:
    simulator.ask("PUT", "/_sim/tokens?required=on")
    status, token = simulator.token(**form)
    assert (status, token["token_type"], token["expires_in"]) == (200, "Bearer", 3600)
    assert simulator.chat(token["access_token"]) == 200
    assert simulator.chat("another") == 401
    simulator.now += 3600
    assert simulator.chat(token["access_token"]) == 401


REFUSED: dict[str, tuple[dict[str, str], int, str]] = {
    "no grant": ({}, 400, "unsupported_grant_type"),
    "password": ({"grant_type": "password"}, 400, "unsupported_grant_type"),
    "wrong secret": ({**CLIENT, "client_secret": "wrong"}, 401, "invalid_client"),
    "no secret": ({**CLIENT, "client_secret": ""}, 401, "invalid_client"),
    "no refresh token": ({"grant_type": "refresh_token"}, 400, "invalid_request"),
    "wrong refresh token": ({**GRANTS["refresh"], "refresh_token": "wrong-1"}, 400, "invalid_grant"),
    "no type": ({"grant_type": EXCHANGE, "subject_token": "t"}, 400, "invalid_request"),
    "wrong subject": ({**GRANTS["exchange"], "subject_token": "wrong"}, 400, "invalid_grant"),
    "wrong assertion": ({**GRANTS["assertion"], "assertion": "wrong"}, 400, "invalid_grant"),
    "unsigned": ({**GRANTS["assertion"], "assertion": "a.b.c"}, 400, "invalid_grant"),
    "misspelt fault": ({**CLIENT, "scope": "sim-tokn"}, 400, "invalid_scope"),
}


@pytest.mark.parametrize(("form", "status", "error"), REFUSED.values(), ids=REFUSED)
def test_what_a_token_endpoint_refuses(
    simulator: Simulator, form: dict[str, str], status: int, error: str
) -> None:
    found = simulator.token(**form)
    assert (found[0], found[1]["error"]) == (status, error)


def test_a_client_may_show_itself_in_a_header_and_in_one_way_only(simulator: Simulator) -> None:
    basic = (b"authorization", b"Basic " + base64.b64encode(b"c:s"))
    assert simulator.token(basic, grant_type="client_credentials")[0] == 200
    assert simulator.token(basic, **CLIENT)[1]["error"] == "invalid_request"


def test_a_field_stands_once(simulator: Simulator) -> None:
    body = urlencode([*CLIENT.items(), ("scope", "a"), ("scope", "b")]).encode()
    assert simulator.ask("POST", "/oauth/token", body, FORM).status == 400


def test_json_is_taken_too(simulator: Simulator) -> None:
    body, header = json.dumps(CLIENT).encode(), (b"content-type", b"application/json")
    assert simulator.ask("POST", "/oauth/token", body, header).status == 200
    assert simulator.ask("POST", "/oauth/token", b"[]", header).status == 400


def test_a_rotated_refresh_token_is_spent(simulator: Simulator) -> None:
    form = {**GRANTS["refresh"], "scope": "sim-rotate"}
    _, token = simulator.token(**form)
    assert simulator.token(**form)[1]["error"] == "invalid_grant"
    assert simulator.token(**{**form, "refresh_token": token["refresh_token"]})[0] == 200


@pytest.mark.parametrize(
    ("word", "expires"),
    [("none", "absent"), ("5", 5), ("0", 0), ("-5", -5), ("1e30", 1e30), ("soon", "soon")],
)
def test_how_long_a_token_lives_can_be_said(simulator: Simulator, word: str, expires: object) -> None:
    _, token = simulator.token(**CLIENT, scope=f"a sim-expires-{word}")
    assert token.get("expires_in", "absent") == expires


@pytest.mark.parametrize(
    ("word", "status", "body"),
    [
        ("sim-token-html", 200, b"<!doctype"),
        ("sim-token-list", 200, b"[]"),
        ("sim-token-redirect", 302, b""),
        ("sim-token-no-token", 200, b'{"token_type"'),
        ("sim-token-mac", 200, b'{"access_token"'),
        ("sim-status-500", 500, b'{"error":"server_error"'),
    ],
)
def test_what_goes_wrong_on_request(simulator: Simulator, word: str, status: int, body: bytes) -> None:
    in_scope = simulator.ask("POST", "/oauth/token", urlencode({**CLIENT, "scope": word}).encode(), FORM)
    simulator.ask("PUT", f"/_sim/tokens?words={word}")
    for_all = simulator.ask("POST", "/oauth/token", urlencode(CLIENT).encode(), FORM)
    for answer in (in_scope, for_all):
        assert answer.status == status
        assert answer.body.startswith(body)


def test_tokens_are_revoked_and_wanted_by_single_models(simulator: Simulator) -> None:
    _, token = simulator.token(**CLIENT)
    assert simulator.chat("anything") == 200
    assert simulator.chat("anything", "gpt-5+sim-issued") == 401
    assert simulator.chat(token["access_token"], "gpt-5+sim-issued") == 200
    simulator.ask("DELETE", "/_sim/tokens")
    assert simulator.chat(token["access_token"], "gpt-5+sim-issued") == 401


def test_an_assertion_of_its_account_is_verified(simulator: Simulator) -> None:
    file = json.loads(simulator.ask("GET", "/_sim/service-account").body)
    assert file["token_uri"] == "http://sim/oauth/token"
    crypt: Any = google.auth.crypt  # Any: it has no types
    jwt: Any = google.auth.jwt
    signer = crypt.RSASigner.from_service_account_info(file)
    good = {
        "iss": file["client_email"],
        "aud": file["token_uri"],
        "scope": "a",
        "iat": int(simulator.now),
        "exp": int(simulator.now) + 3600,
    }
    changes: list[dict[str, object]] = [
        {},
        {"aud": "http://other"},
        {"iss": "x"},
        {"exp": 5},
        {"exp": 1 << 40},
    ]
    found = []
    for change in changes:
        assertion = jwt.encode(signer, {**good, **change}).decode()
        found.append(simulator.token(grant_type=ASSERTION, assertion=assertion)[0])
    assert found == [200, 400, 400, 400, 400]
    head, _, signature = jwt.encode(signer, good).decode().rpartition(".")
    cut = f"{head}.{signature[:-4]}AAAA"
    assert simulator.token(grant_type=ASSERTION, assertion=cut)[0] == 400


def test_the_metadata_server_gives_tokens_to_those_who_say_its_flavor(simulator: Simulator) -> None:
    assert simulator.ask("GET", METADATA).status == 403
    answer = simulator.ask("GET", f"{METADATA}?scopes=a,b", b"", FLAVOR)
    assert json.loads(answer.body)["expires_in"] == 3600
    assert ("Metadata-Flavor", "Google") in answer.headers
    root = simulator.ask("GET", "/", b"", FLAVOR)
    assert (root.body, root.headers) == (b"computeMetadata/\n", (("Metadata-Flavor", "Google"),))
    assert json.loads(simulator.ask("GET", "/").body) == {"service": "mgw-sim"}
