"""Clients that pipeline, wait for 100 Continue or speak an HTTP of their own."""

from __future__ import annotations

import json

from tests.support.client_faults import CHAT_EVENT, CHUNKED, MAX_BODY, rejected
from tests.support.ledger import Ledger
from tests.support.raw_client import RawClient, asking, chat, chunk, request
from tests.support.raw_upstream import JSON, RawUpstream, counted
from tests.support.simulator import SimulatorProcess

# It asks for much at once


def test_pipelined_requests_are_answered_in_order(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess
) -> None:
    models = ["main/gpt-1+sim-delay-100", "main/gpt-2+sim-status-404", "main/gpt-3", "nobody/x", "main/gpt-4"]
    client.send(b"".join(chat(model) for model in models))
    responses = [client.read_response() for _ in models]
    assert [response.status for response in responses] == [200, 404, 200, 200, 200]
    events = ledger.take(len(models))
    assert [event["model"] for event in events] == models
    assert [response.value(b"x-gateway-request-id") for response in responses] == [
        event["request_id"].encode() for event in events
    ]
    assert [request.json()["model"] for request in simulator.requests()] == [
        event["upstream_model"] for event in events
    ]


def test_a_pipelined_stream_ends_before_the_next_answer_begins(client: RawClient, ledger: Ledger) -> None:
    client.send(chat("main/gpt-1+sim-chunk-delay-5", stream=True) + chat("main/gpt-2"))
    stream, after = client.read_response(), client.read_response()
    assert (stream.whole, stream.body.endswith(b"data: [DONE]\n\n")) == (True, True)
    assert after.json()["object"] == "chat.completion"
    assert [event["stream"] for event in ledger.take(2)] == [True, False]


def test_more_than_the_gateway_holds_may_be_pipelined(client: RawClient, ledger: Ledger) -> None:
    requests = [request(asking(f"main/gpt-{number}").ljust(30_000), JSON) for number in range(10)]
    client.send(b"".join(requests))
    assert [client.read_response().status for _ in requests] == [200] * 10
    assert [event["model"] for event in ledger.take(10)] == [f"main/gpt-{number}" for number in range(10)]


def test_one_connection_serves_many_requests(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess
) -> None:
    for model, status in [("gpt-1", 200), ("gpt-2+sim-status-500", 500), ("gpt-3", 200)]:
        client.send(chat(model))
        response = client.read_response()
        assert (response.status, response.value(b"connection")) == (status, None)
        outcome = "ok" if status == 200 else "upstream_error"
        ledger.one(status=outcome, http_status=status, model=model)
    client.send(request(b"{}", JSON))
    assert client.read_response().status == 400
    ledger.one(**rejected(400), route="chat")
    client.send(chat("gpt-4"))
    assert client.read_response().status == 200
    ledger.one(status="ok", http_status=200, model="gpt-4")


def test_a_client_that_wants_the_end_gets_it(client: RawClient, ledger: Ledger) -> None:
    client.send(chat("main/gpt-1", b"Connection: close"))
    response = client.read_response()
    assert (response.status, response.value(b"connection")) == (200, b"close")
    assert client.no_answer()
    ledger.one(status="ok", http_status=200)


# It speaks HTTP in a way of its own


def test_a_client_that_waits_for_it_is_told_to_continue(client: RawClient, ledger: Ledger) -> None:
    body = asking("main/gpt-1")
    head = request(body, JSON, b"Expect: 100-continue")[: -len(body)]
    client.send(head)
    assert client.incoming.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(body)
    response = client.read_response()
    assert (response.status, response.interim) == (200, [])
    ledger.one(status="ok", http_status=200)


def test_a_client_that_does_not_wait_for_it_is_served_as_well(client: RawClient, ledger: Ledger) -> None:
    client.send(chat("main/gpt-1", b"Expect: 100-continue"))
    response = client.read_response()
    assert (response.status, response.interim) in [(200, [100]), (200, [])]
    ledger.one(status="ok", http_status=200)


def test_a_client_that_waits_with_too_much_is_refused_instead(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess
) -> None:
    client.send(request(None, JSON, b"Expect: 100-continue", b"Content-Length: %d" % (MAX_BODY + 1)))
    response = client.read_response()
    assert (response.status, response.interim, response.value(b"connection")) == (413, [], b"close")
    ledger.one(**CHAT_EVENT | rejected(413))
    assert simulator.counters()["received"] == 0


def test_a_client_that_waits_at_an_unknown_path_is_refused_instead(client: RawClient, ledger: Ledger) -> None:
    client.send(request(None, b"Expect: 100-continue", b"Content-Length: 10", path="/v1/nothing"))
    response = client.read_response()
    assert (response.status, response.interim, response.value(b"connection")) == (404, [], b"close")


def test_a_client_of_http_1_0_gets_one_answer_and_the_end(client: RawClient, ledger: Ledger) -> None:
    client.send(chat("main/gpt-1", version="1.0"))
    response = client.read_response()
    assert (response.status, response.whole, response.value(b"connection")) == (200, True, b"close")
    assert client.no_answer()
    ledger.one(status="ok", http_status=200)


def test_a_client_of_http_1_0_may_keep_its_connection(client: RawClient, ledger: Ledger) -> None:
    for _ in range(2):
        client.send(chat("main/gpt-1", b"Connection: keep-alive", version="1.0"))
        response = client.read_response()
        assert (response.status, response.whole, response.value(b"connection")) == (200, True, b"keep-alive")
        ledger.one(status="ok", http_status=200)


def test_a_client_of_http_1_0_gets_a_stream_up_to_the_end_of_the_connection(
    client: RawClient, ledger: Ledger
) -> None:
    client.send(chat("main/gpt-1", b"Connection: keep-alive", version="1.0", stream=True))
    response = client.read_response()
    assert (response.value(b"transfer-encoding"), response.value(b"content-length")) == (None, None)
    assert response.body.endswith(b"data: [DONE]\n\n")
    assert (response.whole, response.value(b"connection")) == (True, b"close")
    ledger.one(status="ok", http_status=200, stream=True)


def test_a_broken_stream_does_not_look_whole_to_a_client_of_http_1_0(
    client: RawClient, ledger: Ledger
) -> None:
    client.send(chat("main/gpt-1+sim-reset-after-2", version="1.0", stream=True))
    response = client.read_response()
    assert (response.status, response.whole) == (200, False)
    ledger.one(status="upstream_error", http_status=200, stream=True)


def test_a_target_in_absolute_form_is_served(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess
) -> None:
    body = asking("main/gpt-1")
    client.send(request(body, JSON, path="http://gateway/v1/chat/completions"))
    assert client.read_response().status == 200
    (seen,) = simulator.requests()
    assert (seen.target, seen.value("host")) == (
        "/v1/chat/completions",
        simulator.url.removeprefix("http://"),
    )
    ledger.one(status="ok", http_status=200, route="chat")


def test_a_chunked_request_goes_up_with_a_length(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess
) -> None:
    body = asking("main/gpt-1")
    pieces = b"".join(chunk(body[at : at + 5]) for at in range(0, len(body), 5))
    client.send(request(None, JSON, CHUNKED) + pieces + b"0;ext=1\r\nX-Trailer: 1\r\n\r\n")
    assert client.read_response().status == 200
    (seen,) = simulator.requests()
    assert seen.body == asking("gpt-1")
    assert (seen.value("transfer-encoding"), seen.value("x-trailer")) == (None, None)
    ledger.one(status="ok", http_status=200)


# It asks for what has no body


def test_head_requests_have_heads_alone(client: RawClient, ledger: Ledger) -> None:
    for path in ("/", "/healthz", "/"):
        client.send(request(None, path=path, method="HEAD"))
        response = client.read_response("HEAD")
        assert (response.status, response.body) == (200, b"")
    client.send(chat("main/gpt-1"))
    assert client.read_response().status == 200
    ledger.one(status="ok", http_status=200)


def test_an_answer_with_odd_headers_is_one_answer(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    headers = (
        b"X-Empty:",
        b"X-Twice: 1",
        b"x-twice: 2",
        "X-Latin: é".encode("latin-1"),
        b"Connection: x-hop",
    )
    upstream.begin(lambda turn: turn.send(counted(b"{}", JSON, *headers, b"X-Hop: 1", b"Keep-Alive: 1")))
    client.send(chat("raw/gpt-1"))
    response = client.read_response()
    assert (response.values(b"x-empty"), response.values(b"x-twice")) == ([b""], [b"1", b"2"])
    assert response.value(b"x-latin") == "é".encode("latin-1")
    assert (response.value(b"x-hop"), response.value(b"keep-alive")) == (None, None)
    assert json.loads(response.body) == {}
    ledger.one(status="ok", http_status=200, provider="raw")
