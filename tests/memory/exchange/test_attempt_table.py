"""The table of what follows an attempt that went wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.reply import UpstreamError
from mgw.config.resilience import MAX_ATTEMPTS, RetriesSettings
from mgw.exchange.attempts import (
    MAX_PAUSE,
    Attempts,
    Step,
    Trouble,
    trouble_of_early_break,
    trouble_of_error,
    trouble_of_status,
)
from mgw.nouns.errors import Cause, GatewayError, Reason
from mgw.nouns.vocabulary import Family
from mgw.routing.resolve import Resolver
from mgw.upstream.failure import Phase, upstream_broken, upstream_too_slow
from tests.support.configs import config

RULE = RetriesSettings(attempts=1)
RESOLVER = Resolver(
    config(
        """
providers:
  main: {kind: openai, base_url: "https://a.example/v1", api_key: sk-a, retries: {attempts: 1}}
  claude: {kind: anthropic, base_url: "https://b.example/v1", api_key: sk-b, retries: {attempts: 2}}
defaults: {openai_dialect: main}
aliases: {both: [main/a, claude/b], three: [main/a, claude/b, main/c]}
"""
    )
)
TARGETS = RESOLVER.fallbacks(RESOLVER.resolve("both", Family.OPENAI))
BROKEN = GatewayError(Reason.UPSTREAM_BROKEN, "broke")

NOT_BEGUN = Trouble(may_have_begun=False)
BEGUN = Trouble(may_have_begun=True)
FIRST_BYTE = Trouble(may_have_begun=True, is_worth_repeating=False)
OURS = Trouble(may_have_begun=False, is_worth_repeating=False)


def broken(phase: Phase) -> GatewayError:
    return upstream_broken("main", "broke", phase, Cause.RESET)


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        pytest.param(broken(Phase.CONNECT), NOT_BEGUN, id="no connection"),
        pytest.param(broken(Phase.SENT), BEGUN, id="reset before an answer"),
        pytest.param(broken(Phase.HEAD), BEGUN, id="reset within the head"),
        pytest.param(
            upstream_too_slow("main", "slept", Phase.CONNECT, Cause.CONNECT_TIMEOUT), NOT_BEGUN, id="connect"
        ),
        pytest.param(
            upstream_too_slow("main", "slept", Phase.SENT, Cause.FIRST_BYTE_TIMEOUT),
            FIRST_BYTE,
            id="first byte",
        ),
        pytest.param(GatewayError(Reason.CREDENTIAL_SOURCE, "none"), OURS, id="no token"),
        pytest.param(GatewayError(Reason.NO_ACCOUNT, "all rest"), OURS, id="no account"),
        pytest.param(GatewayError(Reason.OVERLOADED, "full"), OURS, id="no slot"),
        pytest.param(GatewayError(Reason.MALFORMED, "no"), None, id="the client's mistake"),
        pytest.param(GatewayError(Reason.NO_PROVIDER_KEY, "none"), None, id="no key"),
        pytest.param(ZeroDivisionError(), None, id="a bug"),
    ],
)
def test_what_an_error_means(error: Exception, trouble: Trouble | None) -> None:
    assert trouble_of_error(error, Attempts(RULE, True, TARGETS)) == trouble
    assert trouble_of_error(error, None) == trouble


def test_a_later_target_without_a_key_is_not_the_last() -> None:
    state = Attempts(RULE, True, TARGETS)
    state.begin_fallback()
    assert trouble_of_error(GatewayError(Reason.NO_PROVIDER_KEY, "none"), state) == OURS


@pytest.mark.parametrize("status", [429, 503, 529])
def test_a_status_that_says_that_nothing_was_done(status: int) -> None:
    assert trouble_of_status(status, 3.0, RULE) == Trouble(may_have_begun=False, retry_after=3.0)


@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_status_that_says_nothing_of_what_was_done(status: int) -> None:
    assert trouble_of_status(status, None, RULE) == BEGUN


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 408, 501, 599])
def test_every_other_status_is_the_clients(status: int) -> None:
    assert trouble_of_status(status, None, RULE) is None


def test_the_operator_says_which_statuses_count() -> None:
    rule = RetriesSettings(attempts=1, statuses=frozenset({418}))
    assert trouble_of_status(418, None, rule) == BEGUN
    assert trouble_of_status(503, None, rule) is None


def test_an_error_in_place_of_the_first_event_counts_as_its_status() -> None:
    said = UpstreamError(529, "overloaded", retry_after=2.0)
    assert trouble_of_early_break(said, BROKEN, RULE) == Trouble(may_have_begun=False, retry_after=2.0)
    assert trouble_of_early_break(UpstreamError(400, "bad"), BROKEN, RULE) is None
    assert trouble_of_early_break(None, BROKEN, RULE) == BEGUN
    assert trouble_of_early_break(None, GatewayError(Reason.UPSTREAM_TOO_SLOW, "x"), RULE) == FIRST_BYTE
    assert trouble_of_early_break(None, GatewayError(Reason.INTERNAL, "a bug"), RULE) is None


@pytest.mark.parametrize("creates_nothing", [True, False])
@pytest.mark.parametrize("has_fallback", [True, False])
@pytest.mark.parametrize("attempts", [0, 1])
@pytest.mark.parametrize(
    ("trouble", "repeats", "falls_back"),
    [
        pytest.param(NOT_BEGUN, True, True, id="nothing was done"),
        pytest.param(BEGUN, True, True, id="something may have been done"),
        pytest.param(FIRST_BYTE, False, True, id="no first byte"),
        pytest.param(OURS, False, True, id="nothing to send with"),
        pytest.param(Trouble(False, retry_after=MAX_PAUSE), True, True, id="a pause"),
        pytest.param(Trouble(False, retry_after=MAX_PAUSE + 1), False, True, id="a long pause"),
        pytest.param(None, False, False, id="the client's"),
    ],
)
def test_each_row_of_the_table(
    trouble: Trouble | None,
    repeats: bool,
    falls_back: bool,
    attempts: int,
    has_fallback: bool,
    creates_nothing: bool,
) -> None:
    state = Attempts(RetriesSettings(attempts=attempts), creates_nothing, TARGETS if has_fallback else ())
    allowed = creates_nothing or (trouble is not None and not trouble.may_have_begun)
    expected = Step.GIVE_UP
    if allowed and repeats and attempts:
        expected = Step.REPEAT
    elif allowed and falls_back and has_fallback:
        expected = Step.FALL_BACK
    assert state.next_step(trouble) is expected


def test_pauses_double_up_to_eight_seconds_and_half_of_each_is_chance() -> None:
    for chance, factor in ((0.0, 0.5), (1.0, 1.0)):
        state = Attempts(RetriesSettings(attempts=MAX_ATTEMPTS), True, ())
        pauses = [state.begin_repetition(NOT_BEGUN, chance) for _ in range(7)]
        assert pauses == [factor * whole for whole in (0.5, 1, 2, 4, 8, 8, 8)]
    assert state.begin_repetition(Trouble(False, retry_after=20.0), 0.0) == 20.0


def test_each_target_has_the_attempts_of_its_provider() -> None:
    state = Attempts(RULE, True, RESOLVER.fallbacks(RESOLVER.resolve("three", Family.OPENAI)))
    steps: list[object] = []
    while (step := state.next_step(NOT_BEGUN)) is not Step.GIVE_UP:
        if step is Step.REPEAT:
            state.begin_repetition(NOT_BEGUN, 0.0)
            steps.append("again")
        else:
            steps.append(state.begin_fallback().upstream_model)
    assert steps == ["again", "b", "again", "again", "c", "again"]


@given(
    attempts=st.integers(0, MAX_ATTEMPTS),
    creates_nothing=st.booleans(),
    troubles=st.lists(
        st.none() | st.builds(Trouble, st.booleans(), st.booleans(), st.none() | st.floats(0, 100)),
        max_size=40,
    ),
)
def test_no_request_is_tried_without_end(
    attempts: int, creates_nothing: bool, troubles: list[Trouble | None]
) -> None:
    state = Attempts(RetriesSettings(attempts=attempts), creates_nothing, TARGETS)
    tried = 1
    for trouble in troubles:
        step = state.next_step(trouble)
        if step is Step.GIVE_UP or trouble is None:
            break
        if trouble.may_have_begun:
            assert creates_nothing
        if step is Step.REPEAT:
            assert 0.25 <= state.begin_repetition(trouble, 0.5) <= MAX_PAUSE
        else:
            state.begin_fallback()
        tried += 1
    assert tried <= 1 + attempts + len(TARGETS) * (1 + 2)
