"""The place of a request among those that its client's limits count, where the answer comes late."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace
from twisted.internet.defer import Deferred

from mgw.clients.limits import LimitReached, Limits, Permit, RowState, Taken, Warnings
from mgw.exchange.client_place import ClientPlace
from mgw.nouns.errors import GatewayError, Reason
from mgw.usage.event import Outcome
from tests.memory.exchange.test_holds import ANSWER, Asked
from tests.support.counting import reached
from tests.support.translation import asked

REACHED = reached("max_in_flight", 1, 2.0)


class RecordingCounts:
    """Counts elsewhere, as far as a place calls them."""

    def __init__(self) -> None:
        self.ended: list[tuple[Permit, Taken]] = []

    def use(self, client: str, limits: Limits) -> None:
        raise AssertionError("no place does")

    def begin(self, limits: Limits, held: Taken) -> Permit:
        raise AssertionError("no place does")

    def find_full(self, limits: Limits) -> LimitReached | None:
        raise AssertionError("no place does")

    def end(self, permit: Permit, taken: Taken) -> Warnings:
        self.ended.append((permit, taken))
        return ()

    def add(self, limits: Limits, taken: Taken) -> None:
        raise AssertionError("no place does")

    def state(self) -> list[RowState]:
        raise AssertionError("no place does")

    def reset(self, holder: str, limit: str | None, amount: int) -> bool:
        raise AssertionError("no place does")

    def refusals(self) -> Mapping[tuple[str, str], int]:
        raise AssertionError("no place does")


@pytest.mark.parametrize(("outcome", "requests"), [(Outcome.CLIENT_ABORT, 1), (Outcome.REJECTED, 0)])
def test_a_permit_that_comes_after_the_end_is_given_back_at_once(outcome: Outcome, requests: int) -> None:
    counts, answer, permit = RecordingCounts(), Deferred[Permit | LimitReached](), Permit()
    place = ClientPlace(counts)
    place.wait(answer, None)
    place.end(None, outcome)
    assert counts.ended == []
    answer.callback(permit)
    assert counts.ended == [(permit, Taken(requests))]
    assert place.pending is None


def test_a_limit_is_told_of_until_the_request_has_ended() -> None:
    told: list[GatewayError] = []
    for has_ended in (False, True):
        answer = Deferred[Permit | LimitReached]()
        place = ClientPlace(RecordingCounts())
        place.wait(answer, told.append)
        if has_ended:
            place.end(None, Outcome.CLIENT_ABORT)
        answer.callback(REACHED)
    assert [error.reason for error in told] == [Reason.CLIENT_LIMIT]


def test_a_limit_that_is_known_at_once_is_raised() -> None:
    answer = Deferred[Permit | LimitReached]()
    answer.callback(REACHED)
    with pytest.raises(GatewayError, match="max_in_flight is 1"):
        ClientPlace(RecordingCounts()).wait(answer, None)


@pytest.mark.parametrize(("attempts", "requests"), [(0, 0), (1, 1)])
def test_a_request_that_the_gateway_ends_is_one_once_it_has_gone_upstream(
    attempts: int, requests: int
) -> None:
    gateway = Asked("{requests: 5, per: day}")
    gateway.ask(asked("gpt-b"))
    gateway.send(ANSWER)
    row = replace(gateway.pipeline.settled[-1], outcome=Outcome.REJECTED, attempts=attempts)
    counts = RecordingCounts()
    ClientPlace(counts, Permit()).end(row, Outcome.REJECTED)
    assert [taken.requests for _, taken in counts.ended] == [requests]
