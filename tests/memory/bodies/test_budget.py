"""The promises of mgw.bodies.budget."""

from __future__ import annotations

import pytest

from mgw.bodies.budget import BodyBudget, Reservation
from mgw.nouns.errors import GatewayError, Reason


def test_a_budget_that_is_used_up_refuses_for_a_second_and_says_where() -> None:
    budget = BodyBudget(10, place="on disk")
    budget.reserve(10)
    with pytest.raises(GatewayError, match="on disk") as caught:
        budget.reserve(1)
    assert (caught.value.reason, caught.value.retry_after) == (Reason.OVERLOADED, 1.0)
    assert budget.held == 10


def test_a_share_that_was_let_go_gives_nothing_back_twice() -> None:
    budget = BodyBudget(10)
    mine, other = Reservation(budget), Reservation(budget)
    mine.reserve(4)
    other.reserve(5)
    mine.release_all()
    mine.release(4)
    mine.release_all()
    assert budget.held == 5


def test_a_share_that_was_refused_holds_nothing() -> None:
    share = Reservation(BodyBudget(3))
    with pytest.raises(GatewayError):
        share.reserve(4)
    assert share.held == 0


def test_what_is_released_has_room_again_and_no_more_than_it() -> None:
    budget = BodyBudget(10)
    budget.reserve(10)
    budget.release(4)
    budget.reserve(4)
    with pytest.raises(GatewayError):
        budget.reserve(1)
    assert budget.held == 10


def test_a_share_releases_what_it_holds_and_not_what_others_do() -> None:
    budget = BodyBudget(10)
    mine, other = Reservation(budget), Reservation(budget)
    other.reserve(5)
    mine.reserve(5)
    mine.release(3)
    assert (mine.held, budget.held) == (2, 7)
    mine.release(3)
    assert (mine.held, budget.held) == (0, 5)


def test_shares_may_hold_all_that_there_is_and_no_more() -> None:
    budget = BodyBudget(10)
    mine, other = Reservation(budget), Reservation(budget)
    mine.reserve(9)
    other.reserve(1)
    with pytest.raises(GatewayError) as caught:
        other.reserve(1)
    assert caught.value.reason is Reason.OVERLOADED
    assert (other.held, budget.held) == (1, 10)
