"""Workers leave clients to those that have fewer, but never for long."""

from __future__ import annotations

import os

from twisted.internet.task import Clock

from mgw.workers.client_balance import LONGEST_PAUSE, PAUSE_SECONDS, ClientBalance, ClientNumbers


class Ports:
    """Remembers whether clients are accepted."""

    def __init__(self) -> None:
        self.is_open = True
        self.pauses = 0

    def pause(self) -> None:
        assert self.is_open
        self.is_open = False
        self.pauses += 1

    def resume(self) -> None:
        assert not self.is_open
        self.is_open = True


def balances(clock: Clock, count: int) -> tuple[ClientNumbers, list[ClientBalance], list[Ports]]:
    numbers, ports = ClientNumbers(), [Ports() for _ in range(count)]
    workers = [ClientBalance(numbers, slot, clock, one.pause, one.resume) for slot, one in enumerate(ports)]
    for worker in workers:
        worker.begin()
    return numbers, workers, ports


def test_a_worker_that_is_alone_never_pauses() -> None:
    clock = Clock()
    _, (worker,), (ports,) = balances(clock, 1)
    for clients in range(1, 200):
        worker.count(clients)
    assert not ports.pauses
    assert not clock.getDelayedCalls()


def test_who_has_two_clients_more_than_another_looks_away_for_a_moment() -> None:
    clock = Clock()
    _, (first, _), (ports, others) = balances(clock, 2)
    first.count(1)
    assert ports.is_open
    first.count(2)
    assert not ports.is_open
    assert others.is_open
    clock.advance(2 * PAUSE_SECONDS)
    assert ports.is_open, "the other one may hang"
    first.count(3)
    clock.advance(2 * PAUSE_SECONDS)
    assert not ports.is_open
    clock.advance(PAUSE_SECONDS)
    assert ports.is_open
    assert ports.pauses == 2


def test_no_lead_is_too_long_to_take_the_next_client_soon() -> None:
    clock = Clock()
    _, (first, _), (ports, _) = balances(clock, 2)
    first.count(5_000)
    assert not ports.is_open
    clock.advance(LONGEST_PAUSE)
    assert ports.is_open


def test_a_client_that_goes_ends_the_pause_and_begins_none() -> None:
    clock = Clock()
    _, (first, _), (ports, _) = balances(clock, 2)
    first.count(1)
    first.count(2)
    first.count(1)
    assert ports.is_open
    assert not clock.getDelayedCalls()
    first.count(2)
    clock.advance(LONGEST_PAUSE)
    first.count(9)
    clock.advance(LONGEST_PAUSE)
    first.count(8)
    assert ports.is_open, "it still has more than the other, but nobody has come"


def test_of_many_clients_a_small_part_is_no_lead() -> None:
    clock = Clock()
    _, (first, second), (ports, _) = balances(clock, 2)
    second.count(160)
    first.count(170)
    assert ports.is_open
    first.count(171)
    assert not ports.is_open


def test_a_worker_that_has_gone_is_not_waited_for() -> None:
    clock = Clock()
    numbers, (first, second), (ports, _) = balances(clock, 2)
    numbers.remove(second.slot)
    first.count(50)
    assert ports.is_open


def test_who_stops_leaves_the_count_and_pauses_no_more() -> None:
    clock = Clock()
    _, (first, second), (ports, others) = balances(clock, 2)
    first.count(2)
    first.stop()
    assert ports.is_open
    assert not clock.getDelayedCalls()
    first.count(9)
    assert ports.is_open
    second.count(9)
    assert others.is_open, "nobody else takes clients"


def test_forks_share_the_numbers() -> None:
    numbers = ClientNumbers()
    numbers.set(0, 7)
    pid = os.fork()
    if not pid:
        numbers.set(0, 3)
        os._exit(0)
    os.waitpid(pid, 0)
    assert numbers.least() == 3
