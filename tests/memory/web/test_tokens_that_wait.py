"""Requests whose tokens cannot be checked yet: the first keys of an issuer, and several tokens in a head."""

from __future__ import annotations

import gc
from types import FrameType

import pytest

from mgw.nouns.token_flaw import TokenFlaw
from tests.memory.web.test_tokens import TokenHarness, ask, challenge, waiting
from tests.support.pipelines import answered


def starting() -> tuple[TokenHarness, bytes]:
    """A gateway that has no keys yet, and a request with a token."""
    harness = TokenHarness()
    harness.keys.known.clear()
    harness.keys.is_first = True
    request = ask(harness.token(role="guest"))
    harness.connect()
    return harness, request


def test_a_token_waits_for_the_first_keys() -> None:
    harness, request = starting()
    harness.channel.dataReceived(request)
    assert not harness.received()
    harness.keys.is_first = False
    harness.keys.known["corp"] = harness.issuer.key_set()
    harness.keys.asked[0].callback(None)
    harness.connection.send(answered())
    assert harness.status() == 200
    assert harness.event.client == "corp:ann"


@pytest.mark.parametrize("is_under_way", [True, False])
def test_without_them_it_is_refused_and_may_come_again(is_under_way: bool) -> None:
    harness, request = starting()
    harness.channel.dataReceived(request)
    harness.keys.is_first = is_under_way  # after five seconds, it may still be
    harness.keys.asked[0].callback(None)
    response = harness.received()
    assert response.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nRetry-After: 5\r\n" in response
    assert challenge(response) is None
    assert harness.observer.flaws == [("corp", TokenFlaw.KEYS_UNAVAILABLE)]
    assert harness.observer.reasons == ["token"]


def test_without_a_first_fetch_it_is_refused_at_once() -> None:
    harness, request = starting()
    harness.keys.is_first = False
    harness.channel.dataReceived(request)
    assert harness.status() == 503


@pytest.mark.parametrize("is_first", [True, False])
def test_a_token_that_fails_does_not_end_the_wait_for_another(is_first: bool) -> None:
    harness, _ = waiting()
    expired = f"x-api-key: {harness.issuer.token('bob', 1.0, number=0)}"
    token = harness.token(role="guest")
    lines = (expired, f"Authorization: Bearer {token}")
    first, second = lines if is_first else lines[::-1]
    carrier, _, value = first.partition(": ")
    harness.channel.dataReceived(ask(value, second, carrier=f"{carrier}: "))
    assert not harness.received()
    harness.keys.known["corp"] = harness.issuer.key_set()
    harness.keys.asked[0].callback(None)
    harness.connection.send(answered())
    assert harness.event.client == "corp:ann"


def wait_and_end(end: str) -> None:
    harness, request = waiting()
    harness.channel.dataReceived(request)
    if end == "drain":
        harness.server.drain()
    if end == "leave":
        harness.leave()
    if end == "key":
        harness.keys.known["corp"] = harness.issuer.key_set()
    harness.keys.asked[0].callback(None)
    if end == "key":
        harness.connection.send(answered())
    harness.observer.events.clear()


def frames_left() -> int:
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return sum(isinstance(one, FrameType) for one in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


@pytest.mark.parametrize("end", ["key", "no key", "drain", "leave"])
def test_a_request_that_has_waited_leaves_nothing_to_the_collector(end: str) -> None:
    wait_and_end(end)  # what is imported and remembered
    frames_left()
    gc.disable()
    try:
        wait_and_end(end)
        assert frames_left() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("end", ["drain", "leave"])
def test_nobody_keeps_a_request_that_waits_no_more(end: str) -> None:
    harness, request = waiting()
    harness.channel.dataReceived(request)
    (asked,) = harness.keys.asked
    assert not asked.called
    if end == "drain":
        harness.server.drain()
    else:
        harness.leave()
    assert asked.called
    assert harness.received().count(b"HTTP/1.1 ") == (end == "drain")
