"""Requests hold an estimate of limits from before they go upstream until their end, which replaces it."""

from __future__ import annotations

import gzip
import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred

from mgw.clients.limits import LimitReached, Limits, Permit, Taken
from mgw.clients.local_counts import LocalCounts, LocalPermit
from mgw.exchange.untold import Estimates
from mgw.nouns.errors import GatewayError, Reason
from mgw.tokens.hold import input_hold
from mgw.tokens.media_runs import TOKENS_A_RUN
from mgw.usage.event import Outcome
from tests.memory.exchange.test_prices import (
    ANSWERED,
    CHAT,
    CHAT_STREAM,
    CHAT_USAGE,
    COMPLETION,
    MESSAGES,
    PRICED,
    streamed,
)
from tests.memory.exchange.test_untold import Thread
from tests.support.deferreds import refusal_of
from tests.support.laws import examples
from tests.support.pipelines import Pipeline, RecordingChannel, answered
from tests.support.translation import MESSAGE, asked, said

CONFIG: Final = """
providers:
  main: {{kind: openai, base_url: "https://openai.example/v1", api_key: sk-main-0001}}
  host: {{kind: openai_compat, base_url: "https://host.example/v1", api_key: sk-host-0002}}
  claude: {{kind: anthropic, base_url: "https://anthropic.example/v1", api_key: sk-ant-0003}}
  gem: {{kind: gemini, base_url: "https://gemini.example/v1beta", api_key: AIza-0004}}
defaults: {{openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}}
aliases:
  both: [main/gpt-b, host/gpt-dear]
  unpriced-first: [host/unknown, main/gpt-b]
  unpriced-last: [main/gpt-b, host/unknown, host/gpt-dear]
  unpriced: [host/unknown, host/unheard]
edge_auth:
  enabled: true
  reserve_output_tokens: 1000
  keys: [{{name: alice, key: sk-alice-00000000000000000000, limits: [{limits}]}}]
prices:
  unpriced: {unpriced}
  rows:
    - {{model: gpt-dear, provider: host, input: 1000, output: 2000}}
    - {{model: "gpt-*", input: 2, output: 10}}
    - {{model: "claude-*", input: 3, output: 15}}
    - {{model: "gem-*", input: 1, output: 4}}
    - {{model: by-minute, per_minute: 0.006}}
    - {{model: tts-1, per_million_characters: 15}}
    - {{model: dall-e-3, per_image: 0.04}}
"""
USD: Final = "{usd: 1, per: month}"
TOKENS: Final = "{tokens: 10000, per: day, count: before}"
USAGE: Final = {"prompt_tokens": 7, "completion_tokens": 5}
ANSWER: Final = said({**COMPLETION, "usage": USAGE})
PRICE: Final = 7 * 2000 + 5 * 10_000
"""What the answer costs in nanodollars."""
TEXT: Final = "fox and dog " * 30


class Books(LocalCounts):
    """Counts that remember what was held and taken."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.held: list[Taken] = []
        self.taken: list[Taken] = []

    def begin(self, limits: Limits, held: Taken) -> Any:  # Any: as LocalCounts has it
        found = super().begin(limits, held)
        if isinstance(found, LocalPermit):
            self.held.append(held)
        return found

    def end(self, permit: Permit, taken: Taken) -> tuple[str, ...]:
        self.taken.append(taken)
        return super().end(permit, taken)

    def row(self, name: str) -> tuple[int, int]:
        """What of a row is used, and what is held."""
        states = self.state()
        assert isinstance(states, list)
        (found,) = [state for state in states if state.limit.name == name]
        return found.used, found.reserved


class Asked:
    """A gateway with one client that has limits, and its requests."""

    def __init__(self, limits: str = f"{USD}, {TOKENS}", unpriced: str = "refuse") -> None:
        self.books = Books()
        self.thread = Thread()
        text = CONFIG.format(limits=limits, unpriced=unpriced)
        self.pipeline = Pipeline(text, estimates=Estimates(self.thread), counts=self.books)

    def ask(
        self, body: bytes, path: str = CHAT, headers: Any = None
    ) -> tuple[RecordingChannel, Deferred[None]]:  # Any: lines of a head
        client, done = self.pipeline.ask(path, body, headers)
        return client, done

    def send(self, data: bytes) -> None:
        self.pipeline.connection.send(data)

    @property
    def charged(self) -> int | None:
        return self.pipeline.settled[-1].charged


@pytest.fixture
def gateway() -> Asked:
    return Asked()


def held_for(body: bytes, output: int, price_in: int = 2000, price_out: int = 10_000) -> Taken:
    tokens_in = input_hold(body)
    return Taken(1, tokens_in + output, tokens_in * price_in + output * price_out)


def test_a_request_holds_its_estimate_until_the_end_replaces_it(gateway: Asked) -> None:
    body = asked("gpt-b", max_tokens=50)
    gateway.ask(body)
    held = held_for(body, 50)
    assert gateway.books.held == [held]
    assert gateway.books.row("tokens_per_day") == (0, held.tokens)
    assert gateway.books.row("usd_per_month") == (0, held.nanodollars)
    gateway.send(ANSWER)
    assert gateway.books.taken == [Taken(1, 12, PRICE)]
    assert gateway.books.row("tokens_per_day") == (12, 0)
    assert gateway.books.row("usd_per_month") == (PRICE, 0)
    assert gateway.charged == PRICE


@pytest.mark.parametrize(
    ("path", "body", "output", "price_in", "price_out"),
    [
        (CHAT, asked("gpt-b"), 1000, 2000, 10_000),
        (CHAT, asked("gpt-b", n=3), 3000, 2000, 10_000),
        (CHAT, asked("claude/claude-x", max_completion_tokens=8), 8, 3000, 15_000),
        (MESSAGES, asked("claude-x", max_tokens=9000), 1000, 3000, 15_000),
        (MESSAGES, asked("main/gpt-b", max_tokens=9), 9, 2000, 10_000),
        ("/v1/responses", b'{"model":"gpt-b","input":"hi","max_output_tokens":20}', 20, 2000, 10_000),
        ("/v1/completions", b'{"model":"gpt-b","prompt":"hi","max_tokens":5,"n":2}', 10, 2000, 10_000),
        (
            "/v1beta/models/gem-x:generateContent",
            b'{"contents":[{"parts":[{"text":"hi"}]}],"generationConfig":{"maxOutputTokens":6}}',
            *(6, 1000, 4000),
        ),
    ],
)
def test_every_dialect_states_its_own_limit(
    gateway: Asked, path: str, body: bytes, output: int, price_in: int, price_out: int
) -> None:
    gateway.ask(body, path)
    assert gateway.books.held == [held_for(body, output, price_in, price_out)]


def test_media_hold_by_their_number(gateway: Asked) -> None:
    picture = "A" * 400_000
    gateway.ask(asked("gpt-b", max_tokens=1, user=picture))
    (held,) = gateway.books.held
    assert TOKENS_A_RUN < held.tokens < TOKENS_A_RUN + 100


def test_a_coded_body_holds_what_it_is_without_its_coding(gateway: Asked) -> None:
    body = asked("gpt-b", max_tokens=1, user="fox " * 1000)
    gateway.ask(gzip.compress(body), headers=[(b"Content-Encoding", b"gzip")])
    assert gateway.books.held == [held_for(body, 1)]


def test_an_alias_holds_what_its_dearest_target_costs(gateway: Asked) -> None:
    body = asked("both", max_tokens=5)
    client, _ = gateway.ask(body)
    held = held_for(body, 5, 1_000_000, 2_000_000)
    assert gateway.books.held == [held]
    gateway.send(answered(b"{}", b"503 Service Unavailable"))
    assert gateway.books.row("usd_per_month") == (0, held.nanodollars)
    gateway.send(said({**COMPLETION, "usage": USAGE}))
    assert client.status == 200
    assert gateway.books.held == [held]
    assert gateway.books.row("usd_per_month") == (7 * 1_000_000 + 5 * 2_000_000, 0)


@pytest.mark.parametrize(
    ("path", "body", "nanodollars"),
    [
        ("/v1/images/generations", b'{"model":"dall-e-3","prompt":"a fox","n":3}', 120_000_000),
        ("/v1/images/generations", b'{"model":"dall-e-3","prompt":"a fox"}', 40_000_000),
        ("/v1/audio/speech", b'{"model":"tts-1","voice":"x","input":"hello, fox"}', 150_000),
    ],
)
def test_what_is_counted_by_the_request_itself_holds_its_price_alone(
    gateway: Asked, path: str, body: bytes, nanodollars: int
) -> None:
    gateway.ask(body, path)
    assert gateway.books.held == [Taken(1, 0, nanodollars)]


def test_a_request_without_room_is_refused_and_goes_nowhere(gateway: Asked) -> None:
    gateway = Asked("{usd: 0.001, per: month}")
    gateway.ask(asked("gpt-b"))
    _, done = gateway.ask(asked("gpt-b"))
    error = refusal_of(done)
    assert (error.reason, error.status, error.is_final) == (Reason.CLIENT_LIMIT, 429, False)
    assert len(gateway.pipeline.endpoint.connections) == 1
    event = gateway.pipeline.event()
    assert (event.status, event.error) == (Outcome.REJECTED, "rate_limit_exceeded")


def test_all_rows_count_or_none() -> None:
    gateway = Asked("{usd: 0.001, per: month}, {requests: 100, per: day}, {in_flight: 10}")
    gateway.ask(asked("gpt-b"))
    for _ in range(3):
        refusal_of(gateway.ask(asked("gpt-b"))[1])
    assert gateway.books.row("requests_per_day") == (0, 1)
    assert gateway.books.in_flight("alice") == 1


def test_a_client_without_room_in_flight_is_refused_at_its_head() -> None:
    gateway = Asked(f"{USD}, {{in_flight: 1}}")
    gateway.ask(asked("gpt-b"))
    with pytest.raises(GatewayError) as refused:
        gateway.ask(asked("gpt-b"))
    assert refused.value.reason is Reason.CLIENT_LIMIT
    assert gateway.books.refusals() == {("alice", "max_in_flight"): 1}


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (answered(b'{"error":{"message":"no"}}', b"400 Bad Request"), 400),
        (answered(b'{"error":{"message":"no"}}', b"500 Internal Server Error"), 500),
    ],
)
def test_a_request_that_the_provider_refuses_comes_to_nothing(
    gateway: Asked, answer: bytes, status: int
) -> None:
    client, _ = gateway.ask(asked("gpt-b"))
    gateway.send(answer)
    assert client.status == status
    assert gateway.books.taken == [Taken(1, 0, 0)]
    assert gateway.charged == 0


def test_a_request_without_an_answer_comes_to_nothing(gateway: Asked) -> None:
    _, done = gateway.ask(asked("gpt-b"))
    gateway.pipeline.connection.reset()
    refusal_of(done)
    assert gateway.books.taken == [Taken(1, 0, 0)]


def test_a_client_that_leaves_pays_what_was_estimated(gateway: Asked) -> None:
    body = asked("gpt-b", stream=True, max_tokens=900)
    _, done = gateway.ask(body)
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-b"}
    text = {**chunk, "choices": [{"index": 0, "delta": {"content": TEXT}, "finish_reason": None}]}
    gateway.send(streamed(b"data: %b\n\n" % json.dumps(text).encode())[: -len(b"0\r\n\r\n")])
    done.cancel()
    event = gateway.pipeline.event()
    tokens_in, tokens_out = event.tokens_in_estimated, event.tokens_out_estimated
    assert tokens_in
    assert tokens_out
    assert tokens_out > 60
    assert (event.status, event.cost_usd) == (Outcome.CLIENT_ABORT, None)
    assert gateway.charged == tokens_in * 2000 + tokens_out * 10_000
    assert gateway.books.row("usd_per_month") == (gateway.charged, 0)


def test_a_stream_that_tells_nothing_is_charged_by_its_estimate_and_holds_until_then() -> None:
    gateway = Asked(f"{USD}, {TOKENS}, {{in_flight: 1}}")
    gateway.thread.is_waiting = True
    body = asked("gpt-b", stream=True, max_tokens=50)
    gateway.ask(body)
    untold = CHAT_STREAM.replace(json.dumps(CHAT_USAGE).encode(), b"null")
    gateway.send(streamed(untold))
    held = held_for(body, 50)
    assert gateway.books.row("usd_per_month") == (held.nanodollars, 0)
    assert gateway.books.row("tokens_per_day") == (held.tokens, 0)
    assert gateway.books.in_flight("alice") == 0
    gateway.thread.go_on()
    event = gateway.pipeline.event()
    tokens_in, tokens_out = event.tokens_in_estimated or 0, event.tokens_out_estimated or 0
    assert gateway.books.row("tokens_per_day") == (tokens_in + tokens_out, 0)
    assert gateway.books.row("usd_per_month") == (tokens_in * 2000 + tokens_out * 10_000, 0)


def test_what_a_provider_names_as_its_price_is_charged() -> None:
    gateway = Asked(unpriced="allow")
    gateway.ask(asked("host/unknown"))
    assert [held.nanodollars for held in gateway.books.held] == [0]
    gateway.send(said({**COMPLETION, "usage": {**USAGE, "cost": 0.25}}))
    assert gateway.books.row("usd_per_month") == (250_000_000, 0)


def test_an_unpriced_model_that_is_allowed_costs_nothing() -> None:
    gateway = Asked(unpriced="allow")
    gateway.ask(asked("host/unknown"))
    gateway.send(ANSWER)
    assert gateway.books.taken == [Taken(1, 12, 0)]


@pytest.mark.parametrize("model", ["host/unknown", "unpriced"])
def test_a_model_without_a_price_is_refused_before_anything_goes_out(gateway: Asked, model: str) -> None:
    for _ in range(2):  # the second one is known
        _, done = gateway.ask(asked(model))
        error = refusal_of(done)
        assert (error.reason, error.status) == (Reason.MODEL_NOT_PRICED, 403)
    assert gateway.pipeline.endpoint.connections == []
    assert gateway.books.held == []
    assert {event.error for event in gateway.pipeline.events} == {"model_not_priced"}


def test_an_alias_skips_targets_without_a_price(gateway: Asked) -> None:
    client, _ = gateway.ask(asked("unpriced-first"))
    assert b'"gpt-b"' in gateway.pipeline.received()[2]
    gateway.send(ANSWER)
    assert client.status == 200
    client, _ = gateway.ask(asked("unpriced-last"))
    gateway.send(answered(b"{}", b"503 Service Unavailable"))
    assert b'"gpt-dear"' in gateway.pipeline.received()[2]


def listed(*models: str) -> bytes:
    return json.dumps({"model": "host/gpt-b", "models": models, "messages": [], "max_tokens": 5}).encode()


def test_a_list_of_models_holds_what_the_dearest_costs_and_needs_all_prices(gateway: Asked) -> None:
    body = listed("gpt-a", "gpt-dear")
    gateway.ask(body)
    assert gateway.books.held == [held_for(body, 5, 1_000_000, 2_000_000)]
    error = refusal_of(gateway.ask(listed("gpt-a", "unknown"))[1])
    assert error.reason is Reason.MODEL_NOT_PRICED
    assert len(gateway.books.held) == 1


def test_rows_that_only_warn_refuse_no_model() -> None:
    gateway = Asked("{usd: 1, per: month, action: warn}")
    client, _ = gateway.ask(asked("host/unknown"))
    gateway.send(ANSWER)
    assert client.status == 200


def test_clients_without_rows_of_money_need_no_prices() -> None:
    gateway = Asked(TOKENS)
    gateway.ask(asked("host/unknown"))
    gateway.send(ANSWER)
    assert gateway.charged is None
    assert gateway.books.row("tokens_per_day") == (12, 0)


@pytest.mark.parametrize(("unpriced", "is_refused"), [("refuse", True), ("allow", False)])
def test_routes_that_hide_their_cost_are_refused_at_their_head(unpriced: str, *, is_refused: bool) -> None:
    gateway = Asked(unpriced=unpriced)
    body = b'{"input_file_id":"file-1","endpoint":"/v1/chat/completions","completion_window":"24h"}'
    if is_refused:
        with pytest.raises(GatewayError) as refused:
            gateway.ask(body, "/v1/batches")
        assert (refused.value.reason, refused.value.status) == (Reason.ROUTE_NOT_PRICED, 403)
        assert gateway.pipeline.endpoint.connections == []
    else:
        gateway.ask(body, "/v1/batches")
        assert gateway.books.held == [Taken(1, 0, 0)]


def test_other_requests_to_the_same_path_are_not_refused(gateway: Asked) -> None:
    gateway.pipeline.ask("/v1/batches", b"", method="GET")
    assert gateway.books.held == [Taken(1, 0, 0)]


def test_a_count_of_tokens_is_no_request_of_the_limits(gateway: Asked) -> None:
    gateway.ask(asked("claude-x"), "/v1/messages/count_tokens")
    gateway.send(said({"input_tokens": 9}))
    assert (gateway.books.held, gateway.books.taken) == ([], [])


def test_counts_that_answer_late_hold_up_the_request() -> None:
    gateway = Asked()
    late: Deferred[Permit | LimitReached] = Deferred()
    begin = gateway.books.begin
    gateway.books.begin = lambda *arguments: late.addCallback(lambda _: begin(*arguments))  # type: ignore[method-assign]
    client, _ = gateway.ask(asked("gpt-b"))
    assert gateway.pipeline.endpoint.connections == []
    late.callback(Permit())
    gateway.send(ANSWER)
    assert client.status == 200
    assert gateway.books.row("usd_per_month") == (PRICE, 0)


def test_a_client_that_leaves_while_counts_are_asked_leaves_nothing_held() -> None:
    gateway = Asked()
    late: Deferred[Permit | LimitReached] = Deferred()
    begin = gateway.books.begin
    gateway.books.begin = lambda *arguments: late.addCallback(lambda _: begin(*arguments))  # type: ignore[method-assign]
    _, done = gateway.ask(asked("gpt-b"))
    done.cancel()
    late.callback(Permit())
    assert gateway.pipeline.endpoint.connections == []
    assert gateway.books.row("usd_per_month") == (0, 0)
    assert gateway.books.taken == [Taken(1, 0, 0)]


ENDINGS: Final = {
    "told": (ANSWER, 12, PRICE),
    "refused": (answered(b"{}", b"400 Bad Request"), 0, 0),
    "from another family": (said(MESSAGE), 15, 10 * 3000 + 5 * 15_000),
}


@given(
    drawn=st.lists(st.sampled_from(["told", "refused", "from another family", "left", "broken"]), max_size=12)
)
@examples(60)
def test_nothing_is_held_once_all_have_ended_and_the_sum_of_what_they_took_is_used(drawn: list[str]) -> None:
    gateway = Asked()
    tokens = nanodollars = 0
    for ending in drawn:
        model = "claude/claude-x" if ending == "from another family" else "gpt-b"
        _, done = gateway.ask(asked(model, max_tokens=20))
        _ = done.addErrback(lambda _: None)
        if ending == "left":
            done.cancel()
        elif ending == "broken":
            for _ in range(2):  # a connection of before is replaced once
                gateway.pipeline.connection.reset()
        else:
            answer, more_tokens, more = ENDINGS[ending]
            gateway.send(answer.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            tokens, nanodollars = tokens + more_tokens, nanodollars + more
    assert gateway.books.row("tokens_per_day") == (tokens, 0) if drawn else True
    assert gateway.books.row("usd_per_month") == (nanodollars, 0) if drawn else True
    assert gateway.books.in_flight("alice") == 0


LIMITED: Final = """
edge_auth:
  enabled: true
  keys:
    - name: alice
      key: sk-alice-00000000000000000000
      limits: [{usd: 100, per: month}, {tokens: 1000000, per: day, count: before}]
"""


@given(drawn=st.lists(st.sampled_from(sorted(ANSWERED)), min_size=1, max_size=8))
@examples(60)
def test_what_every_dialect_is_told_is_what_counts_in_the_end(drawn: list[str]) -> None:
    books = Books()
    text = PRICED.replace("prices:\n", "prices:\n  unpriced: allow\n") + LIMITED
    pipeline = Pipeline(text, estimates=Estimates(Thread()), counts=books)
    total = 0.0
    for name in drawn:
        path, body, answer, cost = ANSWERED[name]
        pipeline.ask(path, body)
        assert books.row("usd_per_month")[1] == books.held[-1].nanodollars
        pipeline.connection.send(answer.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        total += round(cost)
    assert len(books.held) == len(drawn)
    assert books.row("usd_per_month") == (total, 0)
    tokens = sum(settled.counted_tokens for settled in pipeline.settled)
    assert books.row("tokens_per_day") == (tokens, 0)
    assert books.in_flight("alice") == 0
