"""Clients that leave, at every moment of a request."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.client_faults import ABORTED, CHAT_EVENT, CHUNKED, NOT_SENT, close
from tests.support.ledger import Ledger
from tests.support.raw_client import RawClient, chat, request
from tests.support.raw_upstream import JSON
from tests.support.simulator import SimulatorProcess


def half_close(client: RawClient) -> None:
    """Leave by closing one direction, and see the gateway close the other."""
    client.half_close()
    client.incoming.rest()


LEAVING = {"close": close, "half close": half_close, "reset": RawClient.reset}
ways_to_leave = pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING.keys())
Leave = Callable[[RawClient], None]


STALLS = "gpt-1+sim-stall-body-after-2"


# It leaves


@ways_to_leave
def test_a_client_that_leaves_before_the_head_cancels_its_upstream_request(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess, leave: Leave
) -> None:
    client.send(chat("main/gpt-1+sim-stall-head"))
    simulator.wait_for("received")
    leave(client)
    simulator.wait_for("client_left")
    sent = {"provider": "main", "model": "main/gpt-1+sim-stall-head", "attempts": 1}
    event = ledger.one(**{**CHAT_EVENT, **ABORTED, **sent})
    assert len(event["key_hash"]) == 12
    (seen,) = simulator.requests()
    assert (seen.complete, seen.answered, seen.client_left) == (True, False, True)


@ways_to_leave
def test_a_client_that_leaves_in_mid_stream_cancels_its_upstream_request(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess, leave: Leave
) -> None:
    client.send(chat(f"main/{STALLS}", stream=True))
    assert client.incoming.until(b"\n\n\r\n") is not None
    leave(client)
    simulator.wait_for("client_left")
    event = ledger.one(
        **ABORTED, route="chat", provider="main", upstream_model=STALLS, stream=True, attempts=1
    )
    assert event["ttft_ms"] > 0


@ways_to_leave
@pytest.mark.parametrize("framing", [b"Content-Length: 5000", CHUNKED], ids=["counted", "chunked"])
def test_a_client_that_leaves_in_mid_upload_has_its_event_and_reaches_no_provider(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess, leave: Leave, framing: bytes
) -> None:
    client.send(request(None, JSON, framing) + (b"5\r\n" if framing is CHUNKED else b"") + b'{"mod')
    leave(client)
    ledger.one(**CHAT_EVENT, **ABORTED, **NOT_SENT)
    assert simulator.counters()["received"] == 0


@ways_to_leave
def test_a_client_that_leaves_in_its_head_leaves_no_event(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess, leave: Leave
) -> None:
    client.send(chat("main/gpt-1")[:60])
    leave(client)


@ways_to_leave
def test_a_client_that_leaves_takes_the_requests_behind_the_first_with_it(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess, leave: Leave
) -> None:
    client.send(chat("main/gpt-1+sim-stall-head") + chat("main/gpt-2") + chat("main/gpt-3"))
    simulator.wait_for("received")
    leave(client)
    simulator.wait_for("client_left")
    ledger.one(**CHAT_EVENT, **ABORTED, attempts=1)
    assert simulator.counters()["received"] == 1
