"""Issuers that answer wrongly or not at all, at a gateway with two workers: one issuer for each way.

:mod:`tests.support.outages` shows ten minutes of each with a clock in hand.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from tests.support.crowds import Crowd
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.idp import Idp
from tests.support.raw_client import RawClient, chat
from tests.support.simulator import SimulatorProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

WATCHER: Final = "watcher-canary-0001"
AT_ONCE: Final = ("away", "closed", "garbage", "empty", "redirect")
"""After these, fetches are tried again within seconds."""
LATE: Final = ("hang", "drip")
STATES: Final = (*AT_ONCE, *LATE)
BODY: Final = {"model": "sim/gpt-5", "messages": [{"role": "user", "content": "hi"}]}


def config_text(url: str, idps: dict[str, Idp]) -> str:
    entries = "".join(
        f"    - {{name: {state}, issuer: {idp.issuer}, audience: mgw, rules: [{{}}]}}\n"
        for state, idp in idps.items()
    )
    return f"""
workers: 2
providers: {{sim: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary}}}}
defaults: {{openai_dialect: sim}}
edge_auth:
  enabled: true
  keys: [{WATCHER}]
  jwt:
{entries}"""


@pytest.fixture
def idps(simulator: SimulatorProcess) -> Iterator[dict[str, Idp]]:
    found = {state: Idp(simulator.url, f"outage-{state}") for state in STATES}
    yield found
    for idp in found.values():
        idp.set_state("ok")  # whatever waits at it goes on


def ask(gateway: GatewayProcess, token: str) -> tuple[int, str, float]:
    """Return the status of a response, its text, and how many seconds it took."""
    began = time.monotonic()
    with RawClient(gateway.port) as client:
        client.send(chat("sim/gpt-5", f"Authorization: Bearer {token}".encode()))
        response = client.read_response()
    return response.status, response.body.decode(), time.monotonic() - began


def failed(gateway: GatewayProcess, state: str) -> float:
    line = f'mgw_jwks_fetches_total{{issuer="{state}",result="failed"}}'
    return gateway.metric(line, {"Authorization": f"Bearer {WATCHER}"})


def test_known_keys_open_the_gate_and_new_ones_when_the_issuer_is_back(
    simulator: SimulatorProcess, idps: dict[str, Idp]
) -> None:
    with start_gateway(config_text(simulator.url, idps)) as gateway:
        for state in STATES:
            gateway.log(f"issuer {state}: keys added: ".encode())
        known = {state: idp.token(sub="ann") for state, idp in idps.items()}
        for idp in idps.values():
            idp.set_state("rotate", keep_old=True)
        new = {state: idp.token(sub="bob") for state, idp in idps.items()}
        for state, idp in idps.items():
            idp.set_state(state)
        with ThreadPoolExecutor(len(STATES)) as pool:
            found = dict(zip(STATES, pool.map(lambda state: ask(gateway, new[state]), STATES), strict=True))
        for state, (status, text, seconds) in found.items():
            assert (status, "invalid_token" in text) == (401, True), state
            assert seconds > 4.5 or state in AT_ONCE, (state, seconds)
            crowd = Crowd([gateway.port], [known[state]], BODY, connections=4)
            assert set(crowd.send(8)) == {200}, state
        for state in AT_ONCE:
            gateway.log(f"issuer {state}: the keys could not be fetched: ".encode())
            assert failed(gateway, state) >= 1
            idps[state].set_state("ok")
        for state in AT_ONCE:
            wait_until(lambda: ask(gateway, new[state])[0] == 200, f"the new key of {state}")  # noqa: B023  used at once
            assert ask(gateway, known[state])[0] == 200
        assert gateway.stop() == 0
        assert b"eyJ" not in gateway.stderr.data + gateway.stdout.data


def test_a_gateway_that_starts_meanwhile_says_so(simulator: SimulatorProcess, idps: dict[str, Idp]) -> None:
    tokens = {state: idp.token(sub="ann") for state, idp in idps.items()}
    for state, idp in idps.items():
        idp.set_state(state)
    with start_gateway(config_text(simulator.url, idps)) as gateway:
        with ThreadPoolExecutor(len(STATES)) as pool:
            found = dict(
                zip(STATES, pool.map(lambda state: ask(gateway, tokens[state]), STATES), strict=True)
            )
        assert {status for status, _, _ in found.values()} == {503}
        assert all("identity_provider_unavailable" in text for _, text, _ in found.values())
        assert max(seconds for _, _, seconds in found.values()) < 10
        assert ask(gateway, WATCHER)[0] == 200
        for state in AT_ONCE:
            idps[state].set_state("ok")
        for state in AT_ONCE:
            wait_until(lambda: ask(gateway, tokens[state])[0] == 200, f"the keys of {state}")  # noqa: B023  used at once
