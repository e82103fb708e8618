"""Requests with subscription accounts: their headers and bodies, accounts in turn, and rests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

import pytest

from mgw.config.profile import CloakMode
from mgw.credentials.subscription.rewrite import BodyRewrite
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import Secret, key_hash
from mgw.wire.headers import RawHeaders
from tests.support.deferreds import refusal_of
from tests.support.pipelines import Pipeline, RecordingChannel, answered
from tests.support.subscriptions import PROFILE, SubscriptionPlay, profile

PROVIDERS = """
providers:
  claude: {kind: anthropic, base_url: "https://anthropic.example/v1", api_key: sk-ant-0003}
  main: {kind: openai, base_url: "https://openai.example/v1", api_key: sk-main-0001}
"""
NAMES = "tools: {exact: {shell: Bash}, prefix: x_}\n"
CLOAK = 'cloak: {client: ["vendor-cli/*"], headers: {X-App: cli}, system: ["You are it."]}\n'
MESSAGES = (
    b'{"model":"claude/m", "stream" : false,\n "system":"mine","tools":[{"name":"shell"},{"name":"read"}],'
    b'"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"shell"}]}]}'
)
SENT = (
    b'{"model":"m", "stream" : false,\n "system":[{"type":"text","text":"You are it."},'
    b'{"type":"text","text":"mine"}],"tools":[{"name":"Bash"},{"name":"x_read"}],'
    b'"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"Bash"}]}]}'
)
ANSWER = (
    b'{"id" : "msg_1","type":"message","role":"assistant","content":[{"type":"tool_use","id":"t1",'
    b'"name":"Bash","input":{"name":"Bash"}}],"stop_reason":"tool_use",'
    b'"usage":{"input_tokens":7,"output_tokens":5}}'
)
EVENTS = [
    (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message",'
        b'"role":"assistant","content":[],"model":"m","usage":{"input_tokens":7,"output_tokens":1}}}\n\n'
    ),
    (
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":'
        b'{"type":"tool_use","id":"t1","name":"Ba'
    ),
    b'sh","input":{}}}\n\n',
    (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":'
        b'{"type":"input_json_delta","partial_json":"{\\"name\\":\\"Bash\\"}"}}\n\n'
        b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    ),
    (
        b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"tool_use"},'
        b'"usage":{"output_tokens":5}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n'
    ),
]
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def rewriting(text: str = NAMES + CLOAK, provider: str = "claude") -> Pipeline:
    pipeline = Pipeline(PROVIDERS)
    pipeline.generation.rewrites = {provider: BodyRewrite(profile(PROFILE + text), CloakMode.AUTO)}
    return pipeline


def ask_messages(pipeline: Pipeline, headers: RawHeaders | None = None) -> RecordingChannel:
    return pipeline.ask("/v1/messages", MESSAGES, headers)[0]


def header(headers: RawHeaders, name: bytes) -> list[bytes]:
    return [value for key, value in headers if key.lower() == name]


def test_a_passed_request_has_other_names_and_is_the_same_otherwise() -> None:
    pipeline = rewriting()
    ask_messages(pipeline, [(b"Accept-Encoding", b"gzip, br"), (b"Range", b"bytes=0-1")])
    _, headers, body = pipeline.received()
    assert body == SENT
    assert header(headers, b"content-length") == [b"%d" % len(SENT)]
    assert header(headers, b"accept-encoding") == [b"identity"]
    assert not header(headers, b"range")


def test_the_vendors_own_client_is_not_cloaked_but_its_tools_are_renamed() -> None:
    pipeline = rewriting()
    ask_messages(pipeline, [(b"User-Agent", b"Vendor-CLI/1.0")])
    assert pipeline.received()[2] == SENT.replace(
        b'[{"type":"text","text":"You are it."},{"type":"text","text":"mine"}]', b'"mine"'
    )


def test_a_whole_answer_has_the_clients_names_and_is_metered() -> None:
    pipeline = rewriting()
    client = ask_messages(pipeline)
    pipeline.connection.send(answered(ANSWER))
    expected = ANSWER.replace(b'"name":"Bash","input"', b'"name":"shell","input"')
    assert (client.status, client.body, client.finished) == (200, expected, True)
    assert header(client.headers, b"content-length") == [b"%d" % len(expected)]
    assert header(client.headers, b"x-up") == [b"1"]
    assert (pipeline.event().tokens_in, pipeline.event().tokens_out) == (7, 5)


def test_a_stream_that_was_held_for_another_attempt_has_the_clients_names() -> None:
    pipeline = Pipeline(PROVIDERS + "retries: {attempts: 1}")
    pipeline.generation.rewrites = {"claude": BodyRewrite(profile(PROFILE + NAMES), CloakMode.AUTO)}
    client = ask_messages(pipeline)
    pipeline.connection.send(STREAM_HEAD)
    pieces = [*EVENTS[:4], *EVENTS[1:]]  # two calls, the first of which ends the waiting
    for piece in pieces:
        pipeline.connection.send(piece)
    pipeline.connection.close()
    assert client.body == b"".join(pieces).replace(b'"name":"Bash","input"', b'"name":"shell","input"')


def test_a_whole_answer_that_comes_in_pieces_has_them_as_well() -> None:
    pipeline = rewriting()
    client = ask_messages(pipeline)
    whole = answered(ANSWER)
    for piece in (whole[:200], whole[200:250], whole[250:]):
        pipeline.connection.send(piece)
    expected = ANSWER.replace(b'"name":"Bash","input"', b'"name":"shell","input"')
    assert (client.status, client.body, client.finished) == (200, expected, True)
    assert header(client.headers, b"content-length") == [b"%d" % len(expected)]
    assert pipeline.event().tokens_out == 5


def test_an_answer_without_a_tool_is_byte_for_byte_the_providers() -> None:
    pipeline = rewriting()
    client = ask_messages(pipeline)
    pipeline.connection.send(answered(b'{"content":[] , "x":"name"}'))
    assert client.body == b'{"content":[] , "x":"name"}'


def test_an_error_stays_as_it_is() -> None:
    pipeline = rewriting()
    client = ask_messages(pipeline)
    error = b'{"content":[{"type":"tool_use","name":"Bash"}]}'
    pipeline.connection.send(answered(error, b"400 Bad Request"))
    assert (client.status, client.body) == (400, error)


def test_a_stream_has_the_clients_names_however_it_is_cut() -> None:
    pipeline = rewriting()
    client = ask_messages(pipeline)
    pipeline.connection.send(STREAM_HEAD + EVENTS[0])
    assert client.body == EVENTS[0], "nothing waits that need not"
    pipeline.connection.send(EVENTS[1])
    for piece in EVENTS[2:]:
        pipeline.connection.send(piece)
    pipeline.connection.close()
    assert client.body == b"".join(EVENTS).replace(b'"name":"Bash","input"', b'"name":"shell","input"')
    assert client.finished
    assert (pipeline.event().tokens_in, pipeline.event().tokens_out) == (7, 5)
    assert pipeline.event().stream


def test_a_stream_pauses_with_its_client() -> None:
    pipeline = rewriting()
    client = ask_messages(pipeline)
    pipeline.connection.send(STREAM_HEAD + EVENTS[0])
    assert client.source is not None
    client.source.pause()
    pipeline.connection.send(b"".join(EVENTS[1:]))
    assert client.body == EVENTS[0]
    client.source.resume()
    assert b'"name":"shell"' in client.body


def test_a_stream_that_breaks_ends_visibly_broken() -> None:
    pipeline = rewriting()
    client = ask_messages(pipeline)
    pipeline.connection.send(STREAM_HEAD.replace(b"Connection: close", b"Content-Length: 9999") + EVENTS[0])
    pipeline.connection.close()
    assert client.aborted
    assert not header(client.headers, b"content-length"), "its length would be another"


CHAT: dict[str, Any] = {
    "model": "claude/m",
    "messages": [
        {"role": "system", "content": "mine"},
        {"role": "user", "content": "x"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "t0", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "t0", "content": "y"},
    ],
    "tools": [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in ("shell", "read")
    ],
}


def test_a_translated_request_has_other_names_and_its_answer_the_clients() -> None:
    pipeline = rewriting()
    client, _ = pipeline.ask(body=json.dumps(CHAT).encode())
    sent = json.loads(pipeline.received()[2])
    assert [tool["name"] for tool in sent["tools"]] == ["Bash", "x_read"]
    assert [block["text"] for block in sent["system"]] == ["You are it.", "mine"]
    calls = [block["name"] for turn in sent["messages"] for block in turn["content"] if "name" in block]
    assert calls == ["x_read"]
    pipeline.connection.send(answered(ANSWER))
    (call,) = json.loads(client.body)["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "shell"
    assert json.loads(call["function"]["arguments"]) == {"name": "Bash"}


def test_a_translated_stream_has_the_clients_names() -> None:
    pipeline = rewriting()
    client, _ = pipeline.ask(body=json.dumps({**CHAT, "stream": True}).encode())
    pipeline.connection.send(STREAM_HEAD)
    for piece in EVENTS:
        pipeline.connection.send(piece)
    pipeline.connection.close()
    events = [json.loads(line[6:]) for line in client.body.splitlines() if line.startswith(b"data: {")]
    calls = [
        call
        for event in events
        for choice in event["choices"]
        for call in choice["delta"].get("tool_calls", [])
    ]
    assert [call["function"]["name"] for call in calls if "name" in call["function"]] == ["shell"]


def test_a_messages_request_that_is_translated_for_a_chat_host_is_renamed_there() -> None:
    pipeline = rewriting(provider="main")
    body = {**json.loads(MESSAGES), "model": "main/m", "max_tokens": 5}
    body["messages"] = [{"role": "user", "content": "x"}]
    client, _ = pipeline.ask("/v1/messages", json.dumps(body).encode())
    sent = json.loads(pipeline.received()[2])
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["Bash", "x_read"]
    assert [turn["content"] for turn in sent["messages"]][:2] == ["You are it.", "mine"]
    call = {"id": "t1", "type": "function", "function": {"name": "x_read", "arguments": "{}"}}
    choice = {"message": {"role": "assistant", "tool_calls": [call]}, "finish_reason": "tool_calls"}
    answer = {"choices": [choice]}
    pipeline.connection.send(answered(json.dumps(answer).encode()))
    assert [block["name"] for block in json.loads(client.body)["content"]] == ["read"]


def test_a_large_body_is_rewritten_elsewhere() -> None:
    offloaded: list[Callable[[], object]] = []
    pipeline = rewriting()
    inline = pipeline.offload

    def offload(work: Any) -> Any:  # Any: of Offload
        offloaded.append(work)
        return inline(work)

    pipeline = replaced(pipeline, offload=offload)
    pipeline.generation.rewrites = {"claude": BodyRewrite(profile(PROFILE + NAMES), CloakMode.AUTO)}
    large = json.dumps({"model": "claude/m", "x": "y" * 100_000, "tools": [{"name": "shell"}]}).encode()
    pipeline.ask("/v1/messages", large)
    assert len(offloaded) == 1
    assert pipeline.received()[2].endswith(b'"tools": [{"name": "Bash"}]}')


def test_requests_to_other_providers_stay_as_they_are() -> None:
    pipeline = rewriting()
    for _ in range(2):
        pipeline.ask(body=b'{"model":"main/m","messages":[],"tools":[{"function":{"name":"shell"}}]}')
    assert pipeline.received()[2] == b'{"model":"m","messages":[],"tools":[{"function":{"name":"shell"}}]}'


# Accounts.


@pytest.fixture
def play(tmp_path: Path) -> SubscriptionPlay:
    play = SubscriptionPlay(tmp_path)
    for name in ("a", "b"):
        play.put(name, expires_at=None)
    return play


ALIAS = """
  spare: {kind: anthropic, base_url: "https://spare.example/v1", api_key: sk-ant-0004}
aliases:
  smart: [claude/m, spare/n]
"""


def pooled(play: SubscriptionPlay, more: str = "") -> Pipeline:
    pipeline = Pipeline(PROVIDERS + more.lstrip("\n"), clock=play.clock)
    pipeline.generation.credentials = {
        **pipeline.generation.credentials,
        "claude": play.source(["a", "b"]),
    }
    return pipeline


def tokens(pipeline: Pipeline) -> list[bytes]:
    """The tokens that requests were sent with, in order."""
    found = []
    for connection in pipeline.endpoint.connections:
        lines = connection.received.split(b"\r\n")
        found += [line.partition(b": Bearer ")[2] for line in lines if line.startswith(b"Authorization")]
    return found


LIMITED = answered(b"{}", b"429 Too Many Requests").replace(b"X-Up: 1", b"Retry-After: 40")


def test_a_limited_account_is_left_for_another_before_the_client_hears_of_it(play: SubscriptionPlay) -> None:
    pipeline = pooled(play)
    client = ask_messages(pipeline)
    pipeline.connection.send(LIMITED)
    pipeline.connection.send(answered(ANSWER))
    assert (client.status, client.body) == (200, ANSWER)
    assert tokens(pipeline) == [b"token-of-a", b"token-of-b"]
    sent = [connection.received for connection in pipeline.endpoint.connections]
    assert b"".join(sent).count(MESSAGES.replace(b"claude/m", b"m")) == 2, "byte for byte the same"
    event = pipeline.event()
    assert (event.attempts, event.key_hash) == (2, key_hash("b")), "the account that answered"


def test_where_all_rest_the_next_target_of_an_alias_is_asked(play: SubscriptionPlay) -> None:
    pipeline = pooled(play, ALIAS)
    client, _ = pipeline.ask("/v1/messages", MESSAGES.replace(b"claude/m", b"smart"))
    pipeline.connection.send(LIMITED)
    pipeline.connection.send(LIMITED)
    assert not client.started
    pipeline.connection.send(answered(ANSWER))
    assert (client.status, client.body) == (200, ANSWER)
    event = pipeline.event()
    assert (event.provider, event.upstream_model, event.attempts) == ("spare", "n", 3)
    assert event.key_hash == key_hash(Secret("sk-ant-0004"))
    again, _ = pipeline.ask("/v1/messages", MESSAGES.replace(b"claude/m", b"smart"))
    pipeline.connection.send(answered(ANSWER))
    assert again.status == 200
    assert len(tokens(pipeline)) == 2, "nothing more was sent with the accounts"


def test_where_all_rest_nothing_is_sent_and_the_client_is_told_when(play: SubscriptionPlay) -> None:
    pipeline = pooled(play)
    client, done = pipeline.ask("/v1/messages", MESSAGES)
    pipeline.connection.send(LIMITED)
    play.clock.advance(10)
    pipeline.connection.send(LIMITED)
    error = refusal_of(done)
    assert (error.reason, error.retry_after) == (Reason.NO_ACCOUNT, 30.0)
    assert not client.started
    before = sum(connection.received.count(b"POST") for connection in pipeline.endpoint.connections)
    again = refusal_of(pipeline.ask("/v1/messages", MESSAGES)[1])
    assert isinstance(again, GatewayError)
    assert again.reason is Reason.NO_ACCOUNT
    after = sum(connection.received.count(b"POST") for connection in pipeline.endpoint.connections)
    assert after == before == 2


def test_a_count_that_is_limited_leaves_the_accounts_alone(play: SubscriptionPlay) -> None:
    pipeline = pooled(play)
    client, _ = pipeline.ask("/v1/messages/count_tokens", MESSAGES)
    pipeline.connection.send(LIMITED)
    assert client.status == 429
    source: Any = pipeline.generation.credentials["claude"]
    assert source.pool.cooldowns.counts_by_name("ab") == {"a": 0, "b": 0}


def test_a_count_is_answered_while_all_accounts_rest(play: SubscriptionPlay) -> None:
    pipeline = pooled(play)
    source: Any = pipeline.generation.credentials["claude"]
    for name in ("a", "b"):
        source.pool.cooldowns.begin(name, "m", 60)
    client, _ = pipeline.ask("/v1/messages/count_tokens", MESSAGES)
    pipeline.connection.send(answered(b'{"input_tokens":3}'))
    assert client.status == 200


def test_a_403_is_judged_by_the_body_that_came_with_it(play: SubscriptionPlay) -> None:
    play.text += "limits: {no_entitlement: {words: [not entitled]}}\n"
    pipeline = pooled(play)
    client = ask_messages(pipeline)
    pipeline.connection.send(answered(b'{"error":"You are not ENTITLED"}', b"403 Forbidden"))
    pipeline.connection.send(answered(b'{"error":"blocked"}', b"403 Forbidden"))
    assert (client.status, client.body) == (403, b'{"error":"blocked"}')
    assert pipeline.event().attempts == 2


FORBIDDEN = answered(b'{"error":"You are not ENTITLED"}', b"403 Forbidden")
BODY_OF_FORBIDDEN = FORBIDDEN.index(b"{")


@pytest.mark.parametrize("cut", [BODY_OF_FORBIDDEN, BODY_OF_FORBIDDEN + 20, len(FORBIDDEN) - 1])
def test_a_403_is_judged_by_a_body_that_comes_later(play: SubscriptionPlay, cut: int) -> None:
    play.text += "limits: {no_entitlement: {words: [not entitled]}}\n"
    pipeline = pooled(play)
    client = ask_messages(pipeline)
    pipeline.connection.send(FORBIDDEN[:cut])
    assert len(tokens(pipeline)) == 1
    pipeline.connection.send(FORBIDDEN[cut:])
    assert len(set(tokens(pipeline))) == 2
    pipeline.connection.send(answered(ANSWER))
    assert client.status == 200


def test_a_403_whose_body_breaks_off_is_handed_on_and_breaks_off(play: SubscriptionPlay) -> None:
    play.text += "limits: {no_entitlement: {words: [not entitled]}}\n"
    pipeline = pooled(play)
    client = ask_messages(pipeline)
    pipeline.connection.send(FORBIDDEN[: BODY_OF_FORBIDDEN + 5])
    pipeline.connection.reset()
    assert client.aborted or client.status == 502
    assert pipeline.event().status == "upstream_error"
    assert len(tokens(pipeline)) == 1


def test_a_client_that_leaves_while_a_403_is_judged_ends_its_request(play: SubscriptionPlay) -> None:
    play.text += "limits: {no_entitlement: {words: [not entitled]}}\n"
    pipeline = pooled(play)
    client, leave = pipeline.ask("/v1/messages", MESSAGES)
    pipeline.connection.send(FORBIDDEN[:BODY_OF_FORBIDDEN])
    leave.cancel()
    assert pipeline.connection.aborted
    assert not client.finished


def test_headers_of_the_profile_are_sent(play: SubscriptionPlay) -> None:
    play.text += "headers: {merge: {anthropic-beta: [ours]}}\n" + CLOAK
    pipeline = pooled(play)
    for _ in range(2):
        ask_messages(pipeline, [(b"anthropic-beta", b"theirs")])
        _, headers, _ = pipeline.received()
        assert header(headers, b"anthropic-beta") == [b"ours,theirs"]
        assert header(headers, b"x-app") == [b"cli"]
        assert header(headers, b"x-api-key") == []


def test_no_token_is_in_an_event(play: SubscriptionPlay) -> None:
    pipeline = pooled(play)
    ask_messages(pipeline)
    pipeline.connection.send(answered(ANSWER))
    assert "token-of" not in repr(pipeline.event())
    assert "token-of" not in repr(pipeline.generation.credentials)


def test_an_error_that_repeats_the_token_does_not_reach_the_client(play: SubscriptionPlay) -> None:
    pipeline = pooled(play)
    client = ask_messages(pipeline)
    pipeline.connection.send(answered(b'{"error":"bad token-of-a"}', b"400 Bad Request"))
    assert client.body == b'{"error":"bad **********"}'
