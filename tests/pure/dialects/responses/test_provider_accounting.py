"""What clients say of other wires arrives at a provider that is asked through Responses, or is reported."""

from __future__ import annotations

from typing import Final

import pytest

from mgw.nouns.vocabulary import Family
from tools.translation.accounting import LEAST_TARGETS, TARGETS, Target, outcome, through_responses
from tools.translation.field_cases import CLIENTS, Client, cases
from tools.translation.tables import silent

OPENAI, HOST, LITTLE = (through_responses(target) for target in (*TARGETS[:2], LEAST_TARGETS[0]))
WAYS: Final = [
    pytest.param(client, target, id=f"{client.name} to {name}")
    for client in CLIENTS
    for name, target in (("openai", OPENAI), ("a host", HOST), ("a model that takes little", LITTLE))
    if (client.family is Family.OPENAI) is (target is HOST)  # nobody else of the family is asked so
]


@pytest.mark.parametrize(("client", "target"), WAYS)
def test_no_field_is_lost_in_silence(client: Client, target: Target) -> None:
    found = {case.path: silent(client, target, case, outcome(client, target, case)) for case in cases(client)}
    assert len(found) > 100
    assert {path: values for path, values in found.items() if values} == {}
