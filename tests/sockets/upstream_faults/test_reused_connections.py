"""Kept connections to providers that close, fail, or say more than they were asked."""

from __future__ import annotations

import threading

import pytest

from tests.support.ledger import Ledger
from tests.support.raw_client import RawClient
from tests.support.raw_upstream import COMPLETION, JSON, RawUpstream, Script, Turn, complete, counted
from tests.support.upstream_faults import KEPT, ask, close_at_once, close_in_the_head, told, upstream_error
from tests.support.waiting import WAIT_SECONDS


def closing_reused(turn: Turn) -> None:
    """Close each connection when its second request comes."""
    assert turn.body
    if turn.number == 1:
        turn.send(counted(COMPLETION, JSON))
    else:
        turn.close()


def resetting_reused(turn: Turn) -> None:
    assert turn.body
    if turn.number == 1:
        turn.send(counted(COMPLETION, JSON))
    else:
        turn.reset()


@pytest.mark.parametrize("script", [closing_reused, resetting_reused], ids=["closed", "reset"])
def test_a_connection_that_closes_as_it_is_reused_costs_the_client_nothing(
    client: RawClient, ledger: Ledger, upstream: RawUpstream, script: Script
) -> None:
    upstream.begin()
    ask(client, "kept/gpt-1")
    ledger.take()
    upstream.begin(script)
    response = ask(client, "kept/gpt-2")
    assert (response.status, response.body) == (200, COMPLETION)
    ledger.one(status="ok", http_status=200, attempts=2, upstream_model="gpt-2", tokens_out=3)
    stale, fresh = upstream.turns
    assert stale.body == fresh.body
    assert (stale.number, fresh.number) == (2, 1) or stale.connection != fresh.connection


def test_a_second_failure_is_not_hidden(client: RawClient, ledger: Ledger, upstream: RawUpstream) -> None:
    upstream.begin()
    ask(client, "kept/gpt-1")
    ledger.take()
    upstream.begin(close_at_once)
    told(ask(client, "kept/gpt-1"), 502)
    upstream_error(ledger, 502, **KEPT, attempts=2)
    assert len(upstream.turns) == 2


def test_a_reused_connection_that_had_begun_to_answer_is_not_tried_again(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    upstream.begin()
    ask(client, "kept/gpt-1")
    ledger.take()
    upstream.begin(close_in_the_head)
    told(ask(client, "kept/gpt-1"), 502)
    upstream_error(ledger, 502, **KEPT, attempts=1)
    assert len(upstream.turns) == 1


def test_an_answer_before_the_body_was_taken_reaches_the_client(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    refusal = b'{"error":{"message":"too large","type":"x","param":null,"code":null}}'

    def early(turn: Turn) -> None:
        turn.send(counted(refusal, JSON, b"Connection: close", status=413))
        turn.wait_until_left()
        turn.closed = True

    upstream.begin(early)
    response = ask(client, "kept/gpt-1", padding="x" * 8_000_000)
    assert (response.status, response.body, response.whole) == (413, refusal, True)
    upstream_error(ledger, 413, **KEPT)
    upstream.wait_until_left()


def test_an_early_answer_on_a_kept_connection_does_not_mix_requests_up(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    answered = threading.Event()

    def early(turn: Turn) -> None:
        turn.send(counted(b"{}", JSON, status=429))
        assert answered.wait(WAIT_SECONDS)  # it reads nothing of the body before
        turn.wait_until_left()
        turn.closed = True

    upstream.begin(early)
    assert ask(client, "kept/gpt-1", padding="x" * 8_000_000).status == 429
    answered.set()
    upstream_error(ledger, 429, **KEPT)
    upstream.wait_until_left()
    upstream.begin()
    assert ask(client, "kept/gpt-1").body == COMPLETION
    ledger.one(status="ok", http_status=200)


def test_bytes_behind_an_answer_reach_nobody(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    def poisoning(turn: Turn) -> None:
        """Send a second answer that nobody has asked for."""
        assert turn.body
        turn.send(counted(COMPLETION, JSON) + counted(b"poison", JSON))
        turn.closed = True

    upstream.begin(poisoning)
    assert ask(client, "kept/gpt-1").body == COMPLETION
    upstream.begin()
    assert [ask(client, "kept/gpt-1").body for _ in range(3)] == [COMPLETION] * 3
    assert [event["status"] for event in ledger.take(4)] == ["ok"] * 4
    assert all(event["attempts"] == 1 for event in ledger.gateway.events()[-4:])


def test_what_a_provider_says_unasked_reaches_nobody(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    heard = threading.Event()

    def late(turn: Turn) -> None:
        """Answer, and again when the client has its answer."""
        complete(turn)
        assert heard.wait(WAIT_SECONDS)
        turn.send(counted(b"late", JSON))
        turn.wait_until_left()
        turn.closed = True

    upstream.begin(late)
    assert ask(client, "kept/gpt-1").body == COMPLETION
    heard.set()
    upstream.wait_until_left()
    upstream.begin()
    assert ask(client, "kept/gpt-2").body == COMPLETION
    assert [event["status"] for event in ledger.take(2)] == ["ok"] * 2
