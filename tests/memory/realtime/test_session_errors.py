"""Why a provider ended a session, or refused one, in its own words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.memory.exchange.test_failures import warnings
from tests.support.configs import THREE_FAMILIES
from tests.support.memory_sessions import (
    FIRST_MESSAGE,
    LIVE,
    REALTIME,
    RESPONSES,
    SETUP,
    SessionHarness,
    closing,
    opened,
    spoken,
)

SAID = "The session has expired"
OFF = f"{THREE_FAMILIES}\nhooks: {{error_messages: false}}\n"
REFUSAL = json.dumps({"error": {"message": SAID, "param": "canary"}, "request": "canary"}).encode()
REFUSED = b"HTTP/1.1 403 No\r\nContent-Length: %d\r\n\r\n%b" % (len(REFUSAL), REFUSAL)


def message(**fields: Any) -> bytes:
    return spoken(json.dumps(fields).encode())


ERROR = message(type="error", event_id="e", error={"type": "x", "code": "y", "message": SAID})
FAILED = message(
    type="response.failed", response={"error": {"code": "x", "message": SAID}, "input": "canary"}
)
DELTA = message(type="response.text.delta", delta='"error" canary')


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ([ERROR, closing(4001)], SAID),
        ([ERROR + closing(4001, b"less")], SAID),
        ([FAILED, closing(1011)], SAID),
        ([ERROR, DELTA, closing(4001)], None),
        ([ERROR, DELTA, closing(4001, b"too slow")], "too slow"),
        ([DELTA, closing(1008, b"no such model")], "no such model"),
        ([closing(1011)], None),
    ],
    ids=["error", "at once", "failed", "went on", "went on, reason", "reason", "nothing"],
)
def test_an_error_that_ends_a_session_says_why(sent: list[bytes], said: str | None) -> None:
    with warnings() as heard:
        harness = opened()
        for one in sent:
            harness.provider.send(one)
        harness.leave()
        harness.turn()
    event = harness.event
    assert (event.status, event.error) == ("upstream_error", "upstream_error_event")
    assert event.error_message == said
    [warning] = [line for line in heard if "upstream_error_event" in line]
    assert ("" if said is None else f': "{said}" (provider=') in warning
    assert "canary" not in f"{event} {warning}"


def test_an_error_before_a_lost_connection_says_why() -> None:
    harness = opened()
    harness.provider.send(ERROR)
    harness.provider.reset()
    harness.turn()
    assert (harness.event.error, harness.event.error_message) == ("truncated", SAID)


def test_an_error_in_a_session_that_ends_well_is_not_told() -> None:
    harness = opened()
    harness.provider.send(ERROR)
    harness.provider.send(closing(1000, b"bye"))
    harness.leave()
    harness.turn()
    assert (harness.event.status, harness.event.error_message) == ("ok", None)


@pytest.mark.parametrize(
    ("path", "first"), [(REALTIME, b""), (RESPONSES, FIRST_MESSAGE), (f"{LIVE}?key=edge", SETUP)]
)
@pytest.mark.parametrize("text", [THREE_FAMILIES, OFF], ids=["on", "off"])
def test_a_refused_upgrade_says_why(path: str, first: bytes, text: str) -> None:
    with warnings() as heard:
        harness = SessionHarness(path, text)
        if first:
            harness.channel.dataReceived(first)
        harness.provider.send(REFUSED)
        harness.turn()
    event = harness.event
    assert (event.status, event.error) == ("upstream_error", "upstream_4xx")
    assert event.error_message == (SAID if text is THREE_FAMILIES else None)
    assert any(SAID in line for line in heard) is (text is THREE_FAMILIES)
    assert "canary" not in f"{event} {heard}"


def test_the_close_of_a_session_is_not_kept_where_the_operator_says_so() -> None:
    harness = opened(OFF)
    harness.provider.send(ERROR + closing(4001, b"no"))
    harness.leave()
    harness.turn()
    assert (harness.event.error, harness.event.error_message) == ("upstream_error_event", None)


def test_a_refusal_before_the_next_target_is_warned_about_with_its_message() -> None:
    text = """
providers:
  one: {kind: openai, base_url: "https://one.example/v1", api_key: sk-1}
  two: {kind: openai, base_url: "https://two.example/v1", api_key: sk-4}
defaults: {openai_dialect: one}
aliases: {both: [one/a, two/b]}
retries: {attempts: 0}
edge_auth: {enabled: true, keys: [edge]}
"""
    with warnings() as heard:
        harness = SessionHarness("/v1/realtime?model=both", text)
        harness.provider.send(REFUSED.replace(b"403 No", b"503 Busy"))
        harness.switch()
        harness.leave()
        harness.turn()
    assert any(f'status 503: "{SAID}" (provider=one error=upstream_5xx' in line for line in heard)
    assert harness.event.error_message is None
