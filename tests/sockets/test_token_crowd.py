"""Fifty identities at once: each event is its sender's, and whoever is refused leaves none.

``python -m tests.support.token_crowd`` does the same with a hundred thousand requests.
"""

from __future__ import annotations

import pytest

from tests.support.simulator import start_simulator
from tests.support.token_crowd import KEYS, PEOPLE, run_crowd

pytestmark = pytest.mark.slow


def test_each_event_has_the_client_whose_request_it_was() -> None:
    with start_simulator() as simulator:
        result = run_crowd(simulator.url, 3000)
    assert not result.problems, result.problems[:5]
    assert set(result.clients.values()) == {
        *(f"corp:user{number}" for number in range(PEOPLE)),
        *(f"{name}{number}" for name in ("key", "filed") for number in range(KEYS)),
    }
    kinds = ("token 200", "short token 200", "short token 401", "key 200", "key of a file 200", "no rule 403")
    assert all(result.statuses[kind] for kind in kinds), result.statuses
