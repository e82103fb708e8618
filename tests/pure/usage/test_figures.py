"""The figures of reports: each request is in one of four, and SQL finds what has no price and no usage."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mgw.config.prices import PriceRowSettings
from mgw.nouns.vocabulary import Modality
from mgw.routing.routes import ROUTES
from mgw.usage.event import NANODOLLARS, Outcome, UsageEvent
from mgw.usage.figures import FIGURES
from mgw.usage.labels import consumes
from mgw.usage.price_row import Unpriced
from mgw.usage.prices import PriceTable
from mgw.usage.record import encode
from mgw.usage.usage_sums import SUMS, sum_expression, time_value
from mgw.usage.usage_table import COLUMNS, UsageTable
from tests.support.prices import Measures
from tests.support.usage import event, settled_as

ALL = frozenset(COLUMNS)
ROWS = [(route.name, route.modality.value, route.metered) for route in ROUTES]
PRICES = PriceTable(
    [
        PriceRowSettings.model_validate({"model": "gpt-*", "input": 1, "output": 2}),
        PriceRowSettings.model_validate({"model": "free", "input": 0, "output": 0}),
    ]
)
counts = st.none() | st.integers(0, 1000)


EXPRESSIONS = {
    **{name: sum_expression(name, ALL) for name in SUMS},
    **{name: f"sum({time_value(name, ALL)})" for name in ("latency_ms", "ttft_ms")},
}


def sums_of(events: list[UsageEvent], table: UsageTable) -> dict[str, Any]:
    """What SQL makes of events; Any: numbers."""
    table.add([encode(each) for each in events])
    with closing(sqlite3.connect(table.path, isolation_level=None)) as connection:
        row = connection.execute(f"SELECT {', '.join(EXPRESSIONS.values())} FROM usage_events").fetchone()
        connection.execute("DELETE FROM usage_events")  # a new file takes ten times as long
    return dict(zip(EXPRESSIONS, row, strict=True))


drawn_events = st.builds(
    lambda row, **fields: event(route=row[0], modality=row[1], **fields),
    st.sampled_from([row for row in ROWS if row[1] != "platform"]) | st.sampled_from(ROWS),
    provider=st.sampled_from(["main", "main", None]),
    upstream_model=st.sampled_from(["gpt-5", "free", "unheard", None]),
    status=st.sampled_from(Outcome),
    stream=st.none() | st.booleans(),
    tokens_in=counts,
    tokens_out=counts,
    session_minutes=st.none() | st.floats(0, 60),
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UsageTable]:
    """An empty table, which every test leaves empty."""
    opened = UsageTable(str(tmp_path_factory.mktemp("figures") / "usage.db"))
    opened.open()
    yield opened
    opened.close()


@given(st.lists(drawn_events, max_size=8))
def test_what_has_no_price_is_what_the_price_table_says_of_it(
    table: UsageTable, events: list[UsageEvent]
) -> None:
    """With prices, the figure is the sum of ``mgw_unpriced_requests_total``."""
    metered = {name: is_metered for name, _, is_metered in ROWS}
    kept, unpriced = [], 0
    for number, each in enumerate(events):
        settled, cost = settled_as(each), None
        if metered[each.route]:  # else nobody asks the table, as the exchange does not
            charge = PRICES.charge(
                settled.labels, each.status, settled.usage, Measures(session=settled.session)
            )
            cost = charge.nanodollars
            unpriced += charge.unpriced is not None
        kept.append(
            replace(each, request_id=str(number), cost_usd=None if cost is None else cost / NANODOLLARS)
        )
    assert sums_of(kept, table)["unpriced"] == unpriced


@given(st.lists(drawn_events, max_size=8))
def test_the_four_figures_add_up_to_the_requests(table: UsageTable, events: list[UsageEvent]) -> None:
    found = sums_of([replace(each, request_id=str(n)) for n, each in enumerate(events)], table)
    assert sum(found[name] for name in FIGURES.values()) == found["requests"] == len(events)
    for outcome, name in FIGURES.items():
        assert found[name] == sum(each.status is outcome for each in events)


STREAMS = {
    "a chat stream without usage": ({}, 1),
    "one with usage": ({"tokens_out": 0}, 0),
    "one that broke off": ({"status": Outcome.UPSTREAM_ERROR}, 0),
    "one that its client left": ({"status": Outcome.CLIENT_ABORT}, 0),
    "a response that is no stream": ({"stream": False}, 0),
    "a count": ({"route": "count_tokens"}, 0),
    "a file": ({"route": "files_content", "modality": "platform"}, 0),
    "one of the gateway": ({"provider": None}, 0),
}


@pytest.mark.parametrize(("changes", "uncounted"), STREAMS.values(), ids=STREAMS)
def test_answered_streams_without_usage_are_uncounted(
    table: UsageTable, changes: dict[str, Any], uncounted: int
) -> None:
    found = sums_of([event(**{"tokens_in": None, "tokens_out": None, **changes})], table)
    assert found["uncounted"] == uncounted


SESSIONS = {
    "ended well": Outcome.OK,
    "lost by the provider": Outcome.UPSTREAM_ERROR,
    "left by the client": Outcome.CLIENT_ABORT,
}


@pytest.mark.parametrize("status", SESSIONS.values(), ids=SESSIONS)
def test_a_session_is_unpriced_however_it_ended(table: UsageTable, status: Outcome) -> None:
    session = event(
        modality="realtime",
        transport="websocket",
        session_minutes=1.5,
        status=status,
        upstream_model="unheard",
        stream=None,
    )
    settled = settled_as(session)
    charge = PRICES.charge(settled.labels, status, settled.usage, Measures(session=settled.session))
    assert charge.unpriced is Unpriced.PRICE
    assert sums_of([session], table)["unpriced"] == 1


def test_times_are_those_of_answered_http_requests(table: UsageTable) -> None:
    events = [event(request_id="ok", latency_ms=250.0, ttft_ms=20.0)]
    events += [
        event(request_id=status, status=status, latency_ms=1.0, ttft_ms=1.0)
        for status in Outcome
        if status is not Outcome.OK
    ]
    events.append(event(request_id="session", transport="websocket", latency_ms=1.0, ttft_ms=1.0))
    found = sums_of(events, table)
    assert (found["latency_ms"], found["ttft_ms"]) == (250_000, 20_000)


def test_routes_of_one_name_are_metered_or_not() -> None:
    """The event has the name alone."""
    known: dict[str, bool] = {}
    for name, modality, is_metered in ROWS:
        if modality != Modality.PLATFORM:
            assert known.setdefault(name, is_metered) is is_metered
            assert consumes("main", modality, name) is is_metered
