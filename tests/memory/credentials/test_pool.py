"""The order of accounts, and their rests."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from twisted.internet.task import Clock

from mgw.credentials.subscription import pool as module
from mgw.credentials.subscription.pool import AccountPool, Cooldowns
from tests.support.laws import examples


@dataclass
class Fixture:
    clock: Clock = field(default_factory=Clock)
    pool: AccountPool = field(init=False)

    def __post_init__(self) -> None:
        self.pool = AccountPool(("a", "b", "c"), Cooldowns(self.clock.seconds))


def always(_: str) -> bool:
    return True


def test_accounts_take_turns() -> None:
    pool = Fixture().pool
    assert [pool.pick(always, "m") for _ in range(5)] == ["a", "b", "c", "a", "b"]


def test_an_account_that_rests_for_one_model_is_used_for_another() -> None:
    fixture = Fixture()
    fixture.pool.cooldowns.begin("a", "m", 60)
    assert fixture.pool.pick(always, "m") == "b"
    assert [fixture.pool.pick(always, "n") for _ in range(2)] == ["c", "a"]


def test_a_count_does_not_mind_the_rest_of_a_model() -> None:
    fixture = Fixture()
    for name in "abc":
        fixture.pool.cooldowns.begin(name, "m", 60)
    assert fixture.pool.pick(always, "m") is None
    assert fixture.pool.pick(always, None) == "a"


def test_an_account_that_rests_as_a_whole_is_used_for_nothing_until_its_token_is_another() -> None:
    fixture = Fixture()
    fixture.pool.cooldowns.begin("a", None, 60)
    assert [fixture.pool.pick(always, None), fixture.pool.pick(always, "m")] == ["b", "c"]
    fixture.pool.cooldowns.end("a")
    assert fixture.pool.pick(always, "m") == "a"


def test_a_rest_ends_with_its_time_and_a_shorter_one_does_not_cut_it() -> None:
    fixture = Fixture()
    fixture.pool.cooldowns.begin("a", "m", 60)
    fixture.pool.cooldowns.begin("a", "m", 5)
    fixture.clock.advance(59)
    assert fixture.pool.cooldowns.remaining("a", "m") == 1
    fixture.clock.advance(1)
    assert fixture.pool.cooldowns.remaining("a", "m") is None


def test_the_number_of_rests_is_bounded_and_those_that_are_over_go_first(monkeypatch: object) -> None:
    fixture = Fixture()
    for number in range(module.MAX_RESTS):
        fixture.pool.cooldowns.begin("a", f"m{number}", 10 + number)
    fixture.pool.cooldowns.begin("b", "m", 5)
    assert fixture.pool.cooldowns.remaining("a", "m0") is None
    assert fixture.pool.cooldowns.remaining("a", "m1") == 11
    fixture.clock.advance(6)
    fixture.pool.cooldowns.begin("c", "m", 5)
    assert fixture.pool.cooldowns.remaining("a", "m1") == 5
    assert fixture.pool.cooldowns.counts_by_name("abc") == {"a": module.MAX_RESTS - 1, "b": 0, "c": 1}


class PoolLaw(RuleBasedStateMachine):
    """Any answers, beside a model of the rests that is as plain as can be."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.names = ("a", "b", "c")
        self.pool = AccountPool(self.names, Cooldowns(self.clock.seconds))
        self.until: dict[tuple[str, str | None], float] = {}
        self.unusable: set[str] = set()

    def left(self, name: str, model: str | None) -> float:
        keys = [(name, None), (name, model)]
        return max(self.until.get(key, 0.0) for key in keys) - self.clock.seconds()

    @rule(seconds=st.integers(1, 50))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(name=st.sampled_from("abc"), model=st.sampled_from(["m", "n", None]), seconds=st.integers(1, 100))
    def rest(self, name: str, model: str | None, seconds: int) -> None:
        self.pool.cooldowns.begin(name, model, seconds)
        until = self.clock.seconds() + seconds
        self.until[name, model] = max(until, self.until.get((name, model), 0.0))

    @rule(name=st.sampled_from("abc"))
    def lose_or_find(self, name: str) -> None:
        self.unusable ^= {name}

    @rule(model=st.sampled_from(["m", "n", None]))
    def send(self, model: str | None) -> None:
        usable = [name for name in self.names if name not in self.unusable]
        awake = [name for name in usable if self.left(name, model) <= 0]
        picked = self.pool.pick(lambda name: name in usable, model)
        if awake:
            assert picked in awake
        else:
            assert picked is None
            waits = [self.left(name, model) for name in usable]
            assert self.pool.soonest(lambda name: name in usable, model) == min(waits, default=None)

    @invariant()
    def turns_are_fair(self) -> None:
        everybody = [AccountPool(self.names, Cooldowns(self.clock.seconds))] if not self.until else []
        assert all([pool.pick(always, "m") for _ in range(3)] == ["a", "b", "c"] for pool in everybody)


PoolLaw.TestCase.settings = settings(examples(100), stateful_step_count=30)
TestPoolLaw = PoolLaw.TestCase
