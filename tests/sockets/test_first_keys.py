"""Tokens that come before the keys of their issuer, to gateways that run."""

from __future__ import annotations

import http.client
import json
from typing import Final

import pytest

from tests.support.deployment import providers
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.idp import Idp
from tests.support.simulator import SimulatorProcess
from tests.support.waiting import WAIT_SECONDS

EDGE: Final = "edge-canary-fixed-0001"
BODY: Final = json.dumps({"model": "openai/m", "messages": [{"role": "user", "content": "hi"}]})


def config_of(idp: Idp, rest: str) -> str:
    corp = f"{{name: corp, issuer: '{idp.issuer}', audience: mgw, rules: [{{}}]}}"
    edge_auth = f"edge_auth: {{enabled: true, keys: [{EDGE}], jwt: [{corp}]}}"
    return f"{providers(idp.url)}\n{edge_auth}\n{rest}\n"


def ask(gateway: GatewayProcess, token: str) -> tuple[int, str | None]:
    """Return the status of a request, and after how long it may be tried again."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=WAIT_SECONDS)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request("POST", "/v1/chat/completions", BODY, headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status, response.getheader("Retry-After")


@pytest.mark.parametrize("workers", ["", "workers: 2"])
def test_a_request_waits_for_the_first_keys_of_its_issuer(simulator: SimulatorProcess, workers: str) -> None:
    idp = Idp(simulator.url, f"first-{len(workers)}")
    token = idp.token()
    idp.set_state("slow", seconds=1)
    with start_gateway(config_of(idp, workers)) as gateway:
        assert b"keys added" not in gateway.stderr.data
        assert ask(gateway, token) == (200, None)
        gateway.log(b"issuer corp: keys added")


@pytest.mark.parametrize("workers", ["", "workers: 2"])
def test_without_keys_a_token_is_refused_at_once(simulator: SimulatorProcess, workers: str) -> None:
    idp = Idp(simulator.url, f"away-{len(workers)}")
    token = idp.token()
    idp.set_state("away")
    with start_gateway(config_of(idp, workers)) as gateway:
        gateway.log(b"issuer corp: the keys could not be fetched")
        for _ in range(4):
            assert ask(gateway, token) == (503, "5")
        idp.set_state("ok")
        gateway.log(b"issuer corp: keys added")
        assert ask(gateway, token) == (200, None)
