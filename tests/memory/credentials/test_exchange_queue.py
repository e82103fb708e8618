"""Exchanges at one endpoint: how many are in progress, who waits, and for how long."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from mgw.credentials import credentials_of
from mgw.credentials.exchange_queue import MAX_EXCHANGES, WAIT_SECONDS, ExchangeQueue
from mgw.credentials.on_behalf import OnBehalfOf
from mgw.credentials.token_request import TokenRequestError, TokenResponse
from mgw.nouns.errors import Reason
from mgw.nouns.secret import Secret
from tests.memory.credentials.test_on_behalf import EXCHANGE, caller, obtain, text_of
from tests.support.configs import config
from tests.support.deferreds import result_of
from tests.support.token_endpoints import TokenHosts


class Endpoint:
    """An endpoint that the test answers."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.queue = ExchangeQueue(self.clock)
        self.asked: list[tuple[int, Deferred[TokenResponse]]] = []
        self.results: dict[int, Any] = {}

    def exchange(self, number: int) -> Deferred[TokenResponse]:
        async def exchange() -> TokenResponse:
            waiting: Deferred[TokenResponse] = Deferred()
            self.asked.append((number, waiting))
            return await waiting

        running = Deferred.fromCoroutine(self.queue.run(exchange))
        _ = running.addBoth(lambda result: self.results.__setitem__(number, result))
        return running

    def answer(self, at: int = 0) -> int:
        number, waiting = self.asked.pop(at)
        waiting.callback(TokenResponse(Secret(str(number)), 60.0))
        return number


def test_exactly_so_many_exchanges_are_in_progress() -> None:
    endpoint = Endpoint()
    for number in range(MAX_EXCHANGES):
        _ = endpoint.exchange(number)
    assert len(endpoint.asked) == MAX_EXCHANGES
    _ = endpoint.exchange(MAX_EXCHANGES)
    assert len(endpoint.asked) == MAX_EXCHANGES
    endpoint.answer()
    assert endpoint.asked[-1][0] == MAX_EXCHANGES


@given(steps=st.lists(st.sampled_from(["come", "come", "come", "answer", "leave", "second"]), max_size=400))
def test_whoever_comes_first_goes_first_and_places_are_neither_lost_nor_made(steps: list[str]) -> None:
    endpoint, began, left = Endpoint(), [], set[int]()
    running: dict[int, Deferred[TokenResponse]] = {}
    for number in range(MAX_EXCHANGES - 2):
        _ = endpoint.exchange(number)
    began += [number for number, _ in endpoint.asked]
    count = MAX_EXCHANGES - 2
    for step in steps:
        if step == "come":
            running[count] = endpoint.exchange(count)
            count += 1
        elif step == "answer" and endpoint.asked:
            endpoint.answer()
        elif step == "leave":
            waiting = [one for one in running if one not in began and one not in endpoint.results]
            if waiting:
                left.add(waiting[0])
                running[waiting[0]].cancel()
        elif step == "second":
            endpoint.clock.advance(1)
        began += [number for number, _ in endpoint.asked if number not in began]
        waiting = [
            number for number in range(count) if number not in began and number not in endpoint.results
        ]
        assert began == sorted(began)
        assert len(endpoint.asked) == MAX_EXCHANGES or (not waiting and len(endpoint.asked) < MAX_EXCHANGES)
    while endpoint.asked:
        endpoint.answer()
    assert set(endpoint.results) == set(range(count))
    assert not endpoint.clock.getDelayedCalls()


def test_who_waits_too_long_is_told_and_the_reactor_goes_on_meanwhile() -> None:
    endpoint, turns = Endpoint(), list[int]()
    for number in range(MAX_EXCHANGES + 1000):
        _ = endpoint.exchange(number)
    endpoint.clock.advance(WAIT_SECONDS - 1)
    _ = endpoint.exchange(5000)
    assert not endpoint.results
    call_later = endpoint.clock.callLater

    def note(seconds: float, *work: Any) -> Any:  # Any: as Twisted's
        turns.append(len(endpoint.results))
        return call_later(seconds, *work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(endpoint.clock, "callLater", note)  # sees when the reactor has its turn
        endpoint.clock.advance(1)
    assert len(endpoint.results) == 1000
    assert max(after - before for before, after in pairwise([0, *turns, 1000])) <= 100
    error = endpoint.results[MAX_EXCHANGES].value
    assert isinstance(error, TokenRequestError)
    assert error.reason is Reason.CREDENTIAL_SOURCE
    endpoint.answer()
    assert endpoint.asked[-1][0] == 5000


def test_thousands_that_end_at_once_are_not_nested() -> None:
    endpoint = Endpoint()
    for number in range(MAX_EXCHANGES):
        _ = endpoint.exchange(number)

    async def fails() -> TokenResponse:
        raise TokenRequestError("no")

    running = [Deferred.fromCoroutine(endpoint.queue.run(fails)) for _ in range(5000)]
    endpoint.answer()
    for one in running:
        with pytest.raises(TokenRequestError):
            result_of(one)
    assert not endpoint.clock.getDelayedCalls()


def test_providers_with_one_endpoint_share_its_places() -> None:
    hosts = TokenHosts()
    lines = text_of(EXCHANGE).splitlines()
    text = "\n".join([*lines, lines[-1].replace("  p: ", "  q: ").replace("client_id: me", "client_id: you")])
    sources = [credentials_of(config(text).providers[name], hosts.sources) for name in "pq"]
    assert sources[0] is not sources[1]
    waiting = []
    for number in range(MAX_EXCHANGES):
        for found in sources:
            assert isinstance(found, OnBehalfOf)
            waiting.append(obtain(found.for_caller(caller(str(number)))))
    assert len(hosts.posts()) == MAX_EXCHANGES
    for number in range(2 * MAX_EXCHANGES):
        hosts.posts()[number].answer_token(f"t{number}")
    assert sorted(result_of(one).key.reveal() for one in waiting) == sorted(
        f"t{number}" for number in range(2 * MAX_EXCHANGES)
    )
