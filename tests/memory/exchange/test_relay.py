"""From the upstream's body to the client: its pace, and what becomes of a bug on the way."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from mgw.canonical.reply import NO_USAGE, TokenUsage
from mgw.exchange.chunk_lane import EventLookers
from mgw.exchange.received import Fault
from mgw.exchange.relay import Relay
from mgw.exchange.response_channel import Producer
from mgw.exchange.silence import Silence
from mgw.nouns.errors import GatewayError, Reason
from mgw.reactor.deadline import TimerWheel
from mgw.usage.event import Outcome
from tests.support.pipelines import Pipeline, RecordedExchange, RecordingChannel, answered
from tests.support.upstreams import ProviderConnection, UpstreamHarness, memory_upstream, outcome_of, post


class BugError(Exception):
    """What a filter should never raise."""


@dataclass
class Filter:
    """A filter that passes everything on, and raises where it is told to."""

    feeding: bool = False
    finishing: bool = False
    is_incomplete: bool = False
    failing: bool = False
    ended: bool = False
    finished: bool = False
    complete: bool = False
    sent_last_event: bool = False

    def fault(self) -> Fault | None:
        return None

    def feed(self, data: bytes) -> bytes:
        if self.feeding:
            raise BugError
        return data

    def finish(self) -> bytes:
        if self.finishing:
            raise BugError
        if self.is_incomplete:
            raise GatewayError(Reason.UPSTREAM_BROKEN, "something is missing")
        return b""

    def fail(self, error: GatewayError) -> bytes | None:
        if self.failing:
            raise BugError
        return None

    def usage(self) -> TokenUsage:
        return NO_USAGE

    def keepalive(self) -> bytes:
        return b"~"

    def event_lookers(self) -> EventLookers | None:
        return None


class FullClient(RecordingChannel):
    """A client that takes nothing when it is told whom to pause."""

    def register(self, source: Producer) -> None:
        super().register(source)
        source.pause()


class CountingClient(RecordingChannel):
    """A client that counts how often it is sent something in the middle of a body."""

    writes = 0

    def write(self, data: bytes) -> None:
        super().write(data)
        self.writes += 1


class Run:
    """A relay between an upstream and a client, both in memory, and its exchange."""

    def __init__(
        self,
        body_filter: Filter,
        client: RecordingChannel | None = None,
        says: bytes = b"",
        keepalive_seconds: float | None = None,
    ) -> None:
        self.harness: UpstreamHarness = memory_upstream()
        self.client = client or RecordingChannel()
        self.errors: list[BaseException] = []
        pipeline = Pipeline()
        self.events = pipeline.events
        matched = pipeline.generation.table.match("POST", "/v1/chat/completions", None, [])
        exchange = RecordedExchange(
            "r",
            matched.route,
            pipeline.generation,
            self.harness.clock,
            TimerWheel(self.harness.clock),
            0.0,
            record=pipeline.record,
        )
        opened = outcome_of(self.harness.upstream.open(post()))
        self.connection.send(says or answered(b"0123456789")[:-5])

        self.exchange = exchange
        exchange.http_status = 200
        silence = None
        if keepalive_seconds is not None:
            silence = Silence(exchange.wheel, keepalive_seconds)
            silence.begin()
        self.relay = Relay(exchange, opened.response, body_filter, self.client, self._on_end, silence)
        self.relay.start()

    def _on_end(self, error: Exception | None) -> None:
        if error is None:
            self.exchange.responded()
        else:
            self.exchange.failed(error)
            self.errors.append(error)

    @property
    def connection(self) -> ProviderConnection:
        return self.harness.connection


def test_a_client_that_is_full_from_the_beginning_holds_the_upstream_back() -> None:
    run = Run(Filter(), FullClient())
    assert run.connection.paused
    assert run.client.source is not None
    run.client.source.resume()
    assert not run.connection.paused
    run.connection.send(b"56789")
    assert run.client.body == b"0123456789"
    assert run.client.finished


def test_a_body_that_is_whole_already_names_nobody_to_pause() -> None:
    run = Run(Filter(), FullClient(), answered())
    assert run.client.finished
    assert run.client.source is None


@pytest.mark.parametrize("bug", [Filter(feeding=True), Filter(feeding=True, failing=True)])
def test_a_bug_in_a_filter_ends_the_exchange_and_the_upstream(bug: Filter) -> None:
    run = Run(bug)
    assert run.errors
    assert run.connection.aborted
    assert not run.client.finished
    (event,) = run.events
    assert event.status is Outcome.REJECTED


def test_a_bug_at_the_end_of_a_body_ends_the_exchange() -> None:
    run = Run(Filter(finishing=True))
    run.connection.send(b"56789")
    assert isinstance(run.errors[0], BugError)
    assert (run.client.body, run.client.finished) == (b"0123456789", False)
    (event,) = run.events
    assert event.status is Outcome.REJECTED


def test_the_last_piece_goes_out_with_the_end_that_came_with_it() -> None:
    client = CountingClient()
    run = Run(Filter(), client)
    run.connection.send(b"567")
    run.connection.send(b"89")
    assert (client.body, client.writes, client.finished) == (b"0123456789", 2, True)
    assert not run.errors


def test_the_last_piece_goes_out_before_what_shows_that_the_body_broke() -> None:
    run = Run(Filter(is_incomplete=True))
    run.connection.send(b"56789")
    assert (run.client.body, run.client.aborted, run.client.finished) == (b"0123456789", True, False)


def test_a_bug_while_a_body_breaks_ends_the_exchange() -> None:
    run = Run(Filter(failing=True))
    run.connection.reset()
    assert isinstance(run.errors[0], BugError)
    assert not run.client.finished
    assert len(run.events) == 1


def test_a_silent_provider_leaves_the_client_with_signs_of_life() -> None:
    run = Run(Filter(), keepalive_seconds=15.0)
    begun = run.client.body
    run.harness.clock.advance(14.9)
    assert run.client.body == begun
    run.harness.clock.advance(0.2)
    assert run.client.body == begun + b"~"
    run.harness.clock.advance(15.1)
    assert run.client.body == begun + b"~~"


def test_a_piece_puts_the_next_sign_of_life_off() -> None:
    run = Run(Filter(), keepalive_seconds=15.0)
    run.harness.clock.advance(14.0)
    run.connection.send(b"5")
    run.harness.clock.advance(14.0)
    assert b"~" not in run.client.body


def test_a_client_that_does_not_read_gets_no_signs_of_life() -> None:
    run = Run(Filter(), FullClient(), keepalive_seconds=15.0)
    run.harness.clock.advance(100.0)
    assert b"~" not in run.client.body


def test_signs_of_life_do_not_stop_the_limits_of_a_silent_provider() -> None:
    run = Run(Filter(), keepalive_seconds=15.0)
    for _ in range(40):
        run.harness.clock.advance(15.0)
    assert run.client.aborted
    assert run.events[0].status is Outcome.UPSTREAM_ERROR


@pytest.mark.parametrize("ends", ["end", "cancel", "break"])
def test_no_timer_outlives_the_stream(ends: str) -> None:
    run = Run(Filter(), keepalive_seconds=15.0)
    if ends == "end":
        run.connection.send(b"56789")
    elif ends == "cancel":
        run.relay.cancel()
    else:
        run.connection.reset()
    written = run.client.body
    run.harness.clock.advance(20.0)
    assert run.client.body == written
