"""What a token of an identity provider may cost beside a gateway key: calls of functions, and CPU time."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from time import thread_time, time
from typing import Final

import pytest

from mgw.clients.expired_tokens import ExpiredTokens
from mgw.clients.local_counts import LocalCounts
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.web.token_gate import make_token_gate
from tests.support.in_memory.cases import Case, cases
from tests.support.in_memory.gateway import EDGE_KEY, MemoryGateway
from tests.support.in_memory.measure import calls_by_function
from tests.support.in_memory.work import work_of
from tests.support.token_issuers import ISSUER, FakeKeys, TokenIssuer

CASES: Final = cases()
SETTINGS: Final = f'"{EDGE_KEY}"], jwt: [{{name: corp, issuer: {ISSUER}, audience: mgw, rules: [{{}}]}}'
KNOWN: Final = "relayed 1 kB"
NEW: Final = "relayed 1 kB, a new unknown header each"
ISSUED: Final = TokenIssuer()
MOST_SECONDS: Final = 0.0003
"""For a token that was never seen."""


def case_of(row: str, credential: str) -> Case:
    """Return a row whose requests have another credential."""
    case = CASES[row]
    assert isinstance(case, Case)
    key = EDGE_KEY.encode()
    return replace(case, request=lambda number: case.request(number).replace(key, credential.encode(), 1))


def calls_of(row: str, credential: str) -> dict[str, float]:
    gateway = MemoryGateway(key=SETTINGS)  # new for each: some calls are made by the turn
    gateway.use_issuer_keys(FakeKeys({"corp": ISSUED.key_set()}))
    try:
        with work_of(case_of(row, credential), gateway) as work:
            return calls_by_function(work)
    finally:
        gateway.close()


def more_calls(row: str) -> float:
    """Return how many calls more a request with a known token makes than one with a key."""
    token = ISSUED.token("ann", time() + 3600)
    with_key, with_token = calls_of(row, EDGE_KEY), calls_of(row, token)
    return sum(with_token.values()) - sum(with_key.values())


def test_a_token_in_a_known_head_costs_no_call() -> None:
    assert more_calls(KNOWN) < 0.5


def test_a_known_token_in_another_head_costs_three_calls() -> None:
    assert more_calls(NEW) < 3.5


@pytest.mark.parametrize("is_valid", [True, False])
def test_a_token_that_was_never_seen_takes_little_time(is_valid: bool) -> None:
    entry = {"name": "corp", "issuer": ISSUER, "audience": "mgw", "rules": [{}]}
    settings = EdgeAuthSettings.model_validate({"enabled": True, "jwt": [entry]})
    signer = ISSUED if is_valid else TokenIssuer()
    keys = FakeKeys({"corp": ISSUED.key_set()})
    gate = make_token_gate(settings, LocalCounts(lambda: 0.0), keys, ExpiredTokens())
    tokens = [signer.token(f"user-{number}", time() + 3600).encode() for number in range(50)]
    taken = []
    for token in tokens:
        began = thread_time()
        gate.find(token, sha256(token).digest())
        taken.append(thread_time() - began)
    assert sorted(taken)[len(taken) // 4] <= MOST_SECONDS
