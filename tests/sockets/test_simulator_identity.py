"""The simulator's identity providers, over real sockets, with the client that other tests use."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from tests.support.idp import Idp
from tests.support.simulator import SimulatorProcess, start_simulator
from tests.support.waiting import WAIT_SECONDS


@pytest.fixture(scope="module")
def simulator() -> Iterator[SimulatorProcess]:
    with start_simulator() as started:
        yield started


@pytest.fixture
def idp(simulator: SimulatorProcess, request: pytest.FixtureRequest) -> Idp:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return Idp(simulator.url, name)


def ask(simulator: SimulatorProcess, path: str, form: dict[str, str] | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", simulator.port, timeout=WAIT_SECONDS)
    try:
        if form is None:
            connection.request("GET", path)
        else:
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            connection.request("POST", path, urlencode(form), kind)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def path_of(idp: Idp, below: str) -> str:
    return f"/sim/idp/{idp.name}/{below}"


def test_a_client_finds_the_keys(simulator: SimulatorProcess, idp: Idp) -> None:
    _, document = ask(simulator, path_of(idp, ".well-known/openid-configuration"))
    said = json.loads(document)
    assert (said["issuer"], said["jwks_uri"]) == (idp.issuer, f"{idp.issuer}/jwks")
    assert [key["kid"] for key in idp.key_set()["keys"]] == idp.seen()["kids"]
    assert idp.token(sub="ann").count(".") == 2
    assert idp.count("jwks") == 1


ANSWERS = {"away": (503, b"{"), "garbage": (200, b"<"), "redirect": (302, b"")}


@pytest.mark.parametrize("state", ["closed", *ANSWERS])
def test_trouble(simulator: SimulatorProcess, idp: Idp, state: str) -> None:
    idp.set_state(state)
    if state == "closed":
        with pytest.raises(ConnectionError):
            ask(simulator, path_of(idp, "jwks"))
    else:
        status, body = ask(simulator, path_of(idp, "jwks"))
        assert (status, body[:1]) == {"away": (503, b"{"), "garbage": (200, b"<"), "redirect": (302, b"")}[
            state
        ]
    idp.set_state("ok")
    assert len(idp.key_set()["keys"]) == 5
    assert idp.count("jwks") == 2


def test_a_client_that_hangs_is_seen(simulator: SimulatorProcess, idp: Idp) -> None:
    idp.set_state("hang")
    connection = http.client.HTTPConnection("127.0.0.1", simulator.port, timeout=WAIT_SECONDS)
    try:
        connection.request("GET", path_of(idp, "jwks"))
        idp.wait_for("jwks")
    finally:
        connection.close()


def test_a_flawed_token_is_not_exchanged(simulator: SimulatorProcess, idp: Idp) -> None:
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "client_id": "mgw"}
    path = path_of(idp, "token")
    status, given = ask(simulator, path, {**form, "assertion": idp.token(sub="ann")})
    assert (status, json.loads(given)["access_token"]) == (200, f"sim-idp-{idp.name}-ann-1")
    status, given = ask(simulator, path, {**form, "assertion": idp.flawed_token("bad-signature")})
    assert (status, json.loads(given)["error"]) == (400, "invalid_grant")
    assert [exchange["subject"] for exchange in idp.exchanges()] == ["ann", None]
    idp.forget()
    assert idp.exchanges() == []


def test_no_request_counts_as_one_to_a_vendor(simulator: SimulatorProcess, idp: Idp) -> None:
    idp.key_set()
    idp.token()
    assert simulator.requests() == []
    assert not any(simulator.counters().values())
