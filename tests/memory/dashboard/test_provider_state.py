"""Whether a provider works, by what became of requests; only what the provider itself has decided counts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from mgw.config.load import parse
from mgw.config.provider import Provider
from mgw.dashboard.provider_state import (
    HealthChange,
    HealthState,
    LastFailure,
    ObservedHealth,
    ProviderStates,
)
from mgw.usage.event import Outcome, SettledExchange
from tests.support.usage import exchange

START = 1_764_000_000.0
FAULTS: dict[str, dict[str, Any]] = {  # Any: fields of an event
    "refused": {"error": "refused_connection", "http_status": 502},
    "slow": {"error": "first_byte_timeout", "http_status": 504},
    "5xx": {"error": "upstream_5xx", "http_status": 500},
    "cut": {"error": "truncated", "http_status": 200},
    "rate": {"error": "upstream_4xx", "http_status": 429},
    "key": {"error": "upstream_4xx", "http_status": 401},
    "token": {"error": "credential", "http_status": 502},
}
SILENT: dict[str, dict[str, Any]] = {  # Any: as above
    "abort": {"status": Outcome.CLIENT_ABORT, "error": "client_abort", "http_status": 499},
    "rejected": {"status": Outcome.REJECTED, "error": "unsupported_modality", "http_status": 403},
    "estimated": {"status": Outcome.OK, "attempts": 0},
    "another": {"status": Outcome.OK, "provider": "another"},
    "nobody": {"status": Outcome.OK, "provider": None},
}
CLIENTS_OWN: dict[str, dict[str, Any]] = {  # Any: as above
    "404": {"status": Outcome.UPSTREAM_ERROR, "error": "upstream_4xx", "http_status": 404},
    "400": {"status": Outcome.UPSTREAM_ERROR, "error": "upstream_4xx", "http_status": 400},
    "large": {"status": Outcome.UPSTREAM_ERROR, "error": "limit", "http_status": 502},
}
CONFIG = """
providers:
  main: {kind: openai, api_key: sk-main-0001}
  keyless: {kind: openai}
  bearer: {kind: anthropic, auth: client_bearer}
"""


def providers() -> dict[str, Provider]:
    return dict(parse(CONFIG, "mgw.yaml", {}).providers)


class Watch:
    """The states of the providers, and what was told of them."""

    def __init__(self) -> None:
        self.told: list[HealthChange] = []
        self.states = ProviderStates(lambda: START, self.told.append)
        self.states.use(providers())

    def record(self, *rows: SettledExchange) -> None:
        self.states.record_rows(rows)

    def health(self, name: str = "main") -> ObservedHealth:
        health = self.states.health_of(name)
        assert health is not None
        return health


def success(**changes: Any) -> SettledExchange:  # Any: as above
    return exchange(**{"time": START, "latency_ms": 500.0, **changes})


def fault(name: str = "5xx", **changes: Any) -> SettledExchange:  # Any: as above
    return success(**{"status": Outcome.UPSTREAM_ERROR, **FAULTS[name], **changes})


def test_before_the_first_request_nothing_is_known() -> None:
    assert Watch().health() == ObservedHealth(HealthState.UNKNOWN, "2025-11-24T16:00:00.000Z")


def test_a_success_shows_that_it_works_and_when() -> None:
    watch = Watch()
    watch.record(success(), success(latency_ms=1500.0))
    assert watch.health() == ObservedHealth(
        HealthState.OK, "2025-11-24T16:00:00.500Z", last_success="2025-11-24T16:00:01.500Z"
    )
    assert watch.told == [HealthChange("2025-11-24T16:00:00.500Z", "main", HealthState.OK)]


@pytest.mark.parametrize("name", FAULTS)
def test_three_failures_in_a_row_show_that_it_fails(name: str) -> None:
    watch = Watch()
    watch.record(success(), fault(name), fault(name))
    assert watch.health().state is HealthState.OK
    watch.record(fault(name, latency_ms=2000.0))
    health, what = watch.health(), FAULTS[name]
    assert (health.state, health.since) == (HealthState.FAILING, "2025-11-24T16:00:02.000Z")
    assert health.last_failure == LastFailure("2025-11-24T16:00:02.000Z", what["error"], what["http_status"])
    assert watch.told[1:] == [
        HealthChange("2025-11-24T16:00:02.000Z", "main", HealthState.FAILING, what["error"])
    ]


def test_the_answer_has_no_figures_of_its_own() -> None:
    """Only what went upstream and came back counts here, so they would differ from those of ``usage``."""
    watch = Watch()
    watch.record(success(), fault(), success(**CLIENTS_OWN["404"]))
    assert set(to_builtins(watch.health())) == {"state", "since", "last_success", "last_failure"}


def test_a_success_between_failures_breaks_the_row() -> None:
    watch = Watch()
    watch.record(fault(), fault(), success(), fault(), fault())
    assert watch.health().state is HealthState.OK


def test_a_success_ends_the_failing_and_nothing_is_told_twice() -> None:
    watch = Watch()
    watch.record(*[fault()] * 10, *[success()] * 10)
    assert [change.state for change in watch.told] == [HealthState.FAILING, HealthState.OK]
    assert watch.told[1].error is None


@pytest.mark.parametrize("name", SILENT)
def test_what_the_provider_has_not_decided_says_nothing(name: str) -> None:
    watch = Watch()
    watch.record(fault(), fault(), success(**SILENT[name]))
    assert watch.health().state is HealthState.UNKNOWN
    watch.record(fault())
    assert watch.health().state is HealthState.FAILING


@pytest.mark.parametrize("name", CLIENTS_OWN)
def test_what_is_the_client_s_own_doing_is_decided_and_proves_nothing(name: str) -> None:
    watch = Watch()
    watch.record(fault(), fault(), success(**CLIENTS_OWN[name]))
    assert watch.health().state is HealthState.UNKNOWN
    watch.record(fault())
    assert watch.health().state is HealthState.FAILING


@pytest.mark.parametrize("name", ["keyless", "bearer"])
def test_a_credential_of_the_client_s_fails_no_provider(name: str) -> None:
    watch = Watch()
    watch.record(*[fault("key", provider=name)] * 5)
    assert watch.health(name).state is HealthState.UNKNOWN
    watch.record(*[fault("5xx", provider=name)] * 3)
    assert watch.health(name).state is HealthState.FAILING


def test_a_reload_keeps_what_is_known_of_those_that_stay_and_forgets_the_rest() -> None:
    watch = Watch()
    watch.record(success(), success(provider="bearer"))
    before, left = watch.health(), providers()
    del left["bearer"]
    watch.states.use(left)
    assert watch.health() == before
    watch.record(success(provider="bearer"))
    assert watch.states.health_of("bearer") is None
    watch.states.use(providers())
    assert watch.health("bearer").state is HealthState.UNKNOWN


@given(st.lists(st.sampled_from(["ok", *FAULTS, *SILENT, *CLIENTS_OWN])))
def test_the_state_is_that_of_the_last_three_that_count(names: list[str]) -> None:
    watch = Watch()
    kept = [name for name in names if name == "ok" or name in FAULTS]
    for name in names:
        watch.record(fault(name) if name in FAULTS else success(**{**SILENT, **CLIENTS_OWN}.get(name, {})))
    state = HealthState.UNKNOWN
    for end in range(1, len(kept) + 1):
        if kept[end - 1] == "ok":
            state = HealthState.OK
        elif end >= 3 and "ok" not in kept[end - 3 : end]:
            state = HealthState.FAILING
    health = watch.health()
    assert health.state is state
    assert (health.last_failure is None) is (kept.count("ok") == len(kept))
    assert (watch.told[-1].state if watch.told else HealthState.UNKNOWN) is state
