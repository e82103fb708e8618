"""Requests on behalf of callers, end to end: two people, an identity provider, hosts that want its tokens."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from websockets.sync.client import connect

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.idp import Idp
from tests.support.operations import ask, twistd, write_config
from tests.support.raw_client import RawClient, RawResponse, chat
from tests.support.simulator import SimulatorProcess
from tests.support.supervised import Workers
from tests.support.waiting import WAIT_SECONDS, wait_until

EDGE: Final = "edge-canary-0001"
PEOPLE: Final = ("ann@example.com", "bob@example.com")
ISSUED: Final = "sim-idp-"
"""How exchanged tokens begin."""
MODEL: Final = "main/gpt-5+sim-issued"


def config_of(idp: Idp, more: str = "") -> str:
    oauth = (
        f"auth: oauth2, oauth: {{token_url: '{idp.issuer}/token', client_id: gateway, "
        "client_secret: canary-secret, "
    )
    return f"""
providers:
  main: {{kind: openai, base_url: "{idp.url}/v1", {oauth} grant: token_exchange, subject_token: client}}}}
  entra: {{kind: openai, base_url: "{idp.url}/v1", {oauth} grant: jwt_bearer, assertion: client,
    scopes: "api://models/.default", extra: {{requested_token_use: on_behalf_of}}}}}}
edge_auth:
  enabled: true
  keys: [{EDGE}]
  jwt: [{{name: corp, issuer: "{idp.issuer}", audience: mgw, client: email, rules: [{{}}]}}]
health_checks: {{enabled: true}}
{more}
"""


@pytest.fixture
def idp(simulator: SimulatorProcess) -> Iterator[Idp]:
    simulator.clear()
    found = Idp(simulator.url)
    yield found
    found.forget()


def wait_for_keys(gateway: GatewayProcess, idp: Idp, slots: tuple[int, ...] = ()) -> None:
    """Wait until each process has the keys of the issuer."""
    head = f"Authorization: Bearer {token_of(idp, PEOPLE[0])}".encode()

    def has_keys() -> bool:
        return ask(gateway.port, "/v1/models", head).status == 200

    if not slots:
        wait_until(has_keys, "the keys of the issuer")
    for slot in slots:
        with Workers(gateway).only(slot):
            wait_until(has_keys, f"the keys of the issuer in worker {slot}")


@pytest.fixture(params=[(), (0, 1)], ids=["alone", "workers"])
def gateway(idp: Idp, request: pytest.FixtureRequest) -> Iterator[GatewayProcess]:
    with start_gateway(config_of(idp, "workers: 2" if request.param else "")) as running:
        wait_for_keys(running, idp, request.param)
        yield running
    written = running.stderr.data + running.stdout.data
    assert ISSUED.encode() not in written
    assert b"eyJ" not in written


def token_of(idp: Idp, person: str) -> str:
    return idp.token(sub=person.partition("@")[0], email=person)


def asked(gateway: GatewayProcess, token: str, model: str = MODEL) -> RawResponse:
    with RawClient(gateway.port) as client:
        client.send(chat(model, b"Authorization: Bearer " + token.encode()))
        return client.read_response()


def subjects(idp: Idp) -> list[str | None]:
    return [exchange["subject"] for exchange in idp.exchanges()]


def credentials(simulator: SimulatorProcess) -> list[str]:
    """Return the tokens that the hosts were shown, in order."""
    return [(request.value("authorization") or "").partition(" ")[2] for request in simulator.requests()]


def of_person(person: str) -> str:
    return person.partition("@")[0]


def test_each_person_has_a_token_of_their_own(
    simulator: SimulatorProcess, idp: Idp, gateway: GatewayProcess
) -> None:
    tokens = {person: token_of(idp, person) for person in PEOPLE}
    with RawClient(gateway.port) as one, RawClient(gateway.port) as other:
        clients = dict(zip(PEOPLE, (one, other), strict=True))
        for _ in range(6):  # by turns, over connections that are kept
            for person, client in clients.items():
                client.send(chat(MODEL, f"Authorization: Bearer {tokens[person]}".encode()))
                assert client.read_response().status == 200
    shown = credentials(simulator)
    assert len(shown) == 12
    for at, credential in enumerate(shown):
        person = of_person(PEOPLE[at % 2])
        assert credential.startswith(f"{ISSUED}{idp.name}-{person}-"), "the other's, or none"
    assert 2 <= len(idp.exchanges()) <= 4, "one for each person, in each worker"
    for exchange in idp.exchanges():
        assert exchange["form"]["subject_token"] in tokens.values()
        assert (exchange["client_id"], exchange["error"]) == ("gateway", None)
    events = [event for event in gateway.events(12) if event["client"]]
    assert {event["client"] for event in events} == {f"corp:{person}" for person in PEOPLE}
    assert len({event["key_hash"] for event in events}) == 1


def test_on_behalf_of_as_entra_does_it(
    simulator: SimulatorProcess, idp: Idp, gateway: GatewayProcess
) -> None:
    for person in PEOPLE:
        assert asked(gateway, token_of(idp, person), "entra/gpt-5+sim-issued").status == 200
    forms = [exchange["form"] for exchange in idp.exchanges()]
    assert {form["requested_token_use"] for form in forms} == {"on_behalf_of"}
    assert {form["scope"] for form in forms} == {"api://models/.default"}
    assert subjects(idp) == [of_person(person) for person in PEOPLE]


def test_a_gateway_key_gets_a_401_and_a_probe_finds_the_provider_well(
    idp: Idp, gateway: GatewayProcess
) -> None:
    refused = asked(gateway, EDGE)
    assert (refused.status, refused.json()["error"]["code"]) == (401, "no_provider_key")
    assert b"a token of an identity provider" in refused.body
    health = gateway.get("/v1/health/providers", {"Authorization": f"Bearer {EDGE}"})
    assert b'{"status":"ok"' in health
    assert idp.exchanges() == []


def test_a_token_that_the_host_refuses_is_exchanged_again_once(
    simulator: SimulatorProcess, idp: Idp, gateway: GatewayProcess
) -> None:
    token = token_of(idp, PEOPLE[0])
    with RawClient(gateway.port) as client:  # one connection, one worker
        head = f"Authorization: Bearer {token}".encode()
        client.send(chat(MODEL, head))
        assert client.read_response().status == 200
        simulator.revoke_tokens()
        client.send(chat(MODEL, head))
        assert client.read_response().status == 200
        assert len(idp.exchanges()) == 2
        before = simulator.counters()["received"]
        client.send(chat("main/gpt-5+sim-status-401", head))
        assert client.read_response().status == 401
        assert (simulator.counters()["received"] - before, len(idp.exchanges())) == (1, 2)


def test_an_endpoint_that_refuses_or_is_down_is_told_to_the_caller(idp: Idp, gateway: GatewayProcess) -> None:
    token = token_of(idp, PEOPLE[0])
    idp.set_state("ok", error="interaction_required")
    refused = asked(gateway, token)
    assert (refused.status, refused.json()["error"]["code"]) == (401, "no_provider_key")
    assert b"interaction_required" in refused.body
    assert token.encode() not in refused.body
    idp.set_state("away", paths=["token"])
    failed = asked(gateway, token)
    assert (failed.status, failed.json()["error"]["code"]) == (502, "credential_source_failed")
    idp.set_state("ok")
    assert asked(gateway, token).status == 200
    gateway.log(b"the token of a caller could not be exchanged")


def test_a_session_is_opened_on_behalf_of_its_caller(
    simulator: SimulatorProcess, idp: Idp, gateway: GatewayProcess
) -> None:
    for person in PEOPLE:
        headers = {"Authorization": f"Bearer {token_of(idp, person)}"}
        url = f"ws://127.0.0.1:{gateway.port}/v1/realtime?model=main/gpt-realtime%2Bsim-issued"
        with connect(url, additional_headers=headers, open_timeout=WAIT_SECONDS) as session:
            session.recv(WAIT_SECONDS)
    assert [credential.split("-")[-2] for credential in credentials(simulator)] == ["ann", "bob"]


def test_tokens_are_kept_by_a_reload(idp: Idp, gateway: GatewayProcess) -> None:
    token = token_of(idp, PEOPLE[0])
    with RawClient(gateway.port) as client:
        head = f"Authorization: Bearer {token}".encode()
        client.send(chat(MODEL, head))
        assert client.read_response().status == 200
        more = "" if b"worker" not in gateway.stderr.data else "workers: 2"
        gateway.rewrite(config_of(idp, more).replace("health_checks: {enabled: true}", "listen: 127.0.0.1:0"))
        gateway.signal(signal.SIGHUP)
        key = {"Authorization": f"Bearer {EDGE}"}
        wait_until(lambda: gateway.metric("mgw_config_generation ", key) == 2, "the reload")
        client.send(chat(MODEL, head))
        assert client.read_response().status == 200
    assert len(idp.exchanges()) == 1


def test_each_worker_exchanges_for_itself(idp: Idp) -> None:
    with start_gateway(config_of(idp, "workers: 2")) as gateway:
        wait_for_keys(gateway, idp, (0, 1))
        workers, tokens = Workers(gateway), [token_of(idp, person) for person in PEOPLE]
        for slot in (0, 1):
            with workers.only(slot):
                for token in (*tokens, *tokens):
                    assert asked(gateway, token).status == 200
            assert subjects(idp) == [of_person(person) for person in PEOPLE] * (slot + 1)


def test_check_says_whose_tokens_are_exchanged(idp: Idp, tmp_path: Path) -> None:
    file = write_config(tmp_path, config_of(idp))
    done = twistd("mgw", "-c", str(file), "--check", folder=tmp_path)
    assert done.status == 0
    where = f"auth oauth2, tokens from {idp.issuer}/token by"
    assert f"main: {where} token_exchange, exchanged for each caller's own token" in done.stdout
    assert f"entra: {where} jwt_bearer, exchanged for each caller's own token" in done.stdout
    assert "canary" not in done.stdout
