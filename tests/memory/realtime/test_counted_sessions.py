"""Limits on tokens and money in sessions: counted as responses end, and a full row ends or refuses."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from typing import Any, Final

import pytest
from twisted.internet.defer import Deferred

from mgw.clients.client import clients_of
from mgw.clients.limits import Limits, Permit, Taken
from mgw.clients.local_counts import LocalCounts
from mgw.exchange.answer_copy import AnswerCopy
from mgw.exchange.untold import Estimates
from mgw.realtime.messages import MAX_MESSAGE_BYTES
from mgw.realtime.sessions import SESSIONS
from mgw.tokens.hold import input_hold
from mgw.tokens.text import estimate_text_tokens
from mgw.usage.event import Outcome
from tests.memory.exchange.test_untold import Thread
from tests.support.configs import THREE_FAMILIES
from tests.support.memory_sessions import REALTIME, RESPONSES, SessionHarness, spoken
from tests.support.raw_sessions import close_frame, frame

KEY: Final = "sk-alice-00000000000000000000"
CONFIG: Final = (
    THREE_FAMILIES
    + """
edge_auth:
  enabled: true
  reserve_output_tokens: 100
  keys: [{name: alice, key: sk-alice-00000000000000000000, limits: [LIMITS]}]
prices: {rows: [{model: "m*", provider: main, input: 4, output: 16}]}
"""
)
DAY: Final = "{tokens: 50, per: day}"
CREATE: Final = frame(0x81, b'{"type":"response.create","model":"main/m","input":"hi"}')
LATER: Final = frame(0x81, b'{"type":"response.create","model":"main/m","input":"hi","max_output_tokens":9}')


def told(tokens_in: int, tokens_out: int, kind: str = "response.done") -> bytes:
    usage = {"input_tokens": tokens_in, "output_tokens": tokens_out}
    return spoken(json.dumps({"type": kind, "response": {"usage": usage}}).encode())


class Session(SessionHarness):
    """A session of a client with limits."""

    def __init__(self, limits: str, path: str = REALTIME, settings: str = "") -> None:
        text = CONFIG.replace("LIMITS", limits).replace("enabled: true", f"enabled: true\n  {settings}")
        super().__init__(path, text, KEY, estimates=Estimates(Thread()))

    def open(self) -> Session:
        self.switch()
        assert self.take_head().startswith(b"HTTP/1.1 101 ")
        return self

    def open_duplex(self, first: bytes = CREATE) -> Session:
        assert self.take_head().startswith(b"HTTP/1.1 101 ")
        self.channel.dataReceived(first)
        self.switch()
        return self

    def row(self, name: str) -> tuple[int, int]:
        """What of a row is used, and what is held."""
        states = self.counts.state()
        assert isinstance(states, list)
        (found,) = [state for state in states if state.limit.name == name]
        return found.used, found.reserved

    def sent(self) -> list[Any]:
        """The messages that the provider has been sent since the last time."""
        return [json.loads(seen.payload) for seen in self.provider_frames()]

    def errors(self) -> list[tuple[Any, Any, Any]]:
        """The status, type and code of each error that the client has been sent since the last time."""
        found = [json.loads(seen.payload) for seen in self.client_frames()]
        return [
            (one["status"], one["error"]["type"], one["error"]["code"])
            for one in found
            if one["type"] == "error"
        ]


def test_tokens_and_costs_count_as_each_response_ends() -> None:
    session = Session(f"{DAY}, {{usd: 1, per: month}}, {{requests: 5, per: day}}").open()
    assert session.row("requests_per_day") == (0, 1)
    session.provider.send(told(10, 5))
    assert session.row("tokens_per_day") == (15, 0)
    assert session.row("usd_per_month") == (10 * 4000 + 5 * 16_000, 0)
    session.provider.send(told(1, 1))
    assert session.row("tokens_per_day") == (17, 0)
    session.leave()
    assert session.row("tokens_per_day") == (17, 0)
    assert session.row("usd_per_month") == (11 * 4000 + 6 * 16_000, 0)
    assert session.row("requests_per_day") == (1, 0)
    assert session.counts.in_flight("alice") == 0
    assert session.event.cost_usd == pytest.approx((11 * 4 + 6 * 16) * 1e-6)


@pytest.mark.parametrize(
    ("limits", "word"),
    [
        (DAY, "rate_limit_exceeded"),
        ("{tokens: 50, per: minute}", "rate_limit_exceeded"),
        ("{usd: 0.0005, per: month}", "insufficient_quota"),
    ],
)
def test_a_session_that_uses_a_row_up_ends_behind_that_message(limits: str, word: str) -> None:
    session = Session(f"{limits}, {{requests: 5, per: day}}").open()
    session.provider.send(told(20, 5))
    assert len(session.client_frames()) == 1
    session.provider.send(told(20, 30))
    message, end = session.client_frames()
    assert json.loads(message.payload)["response"]["usage"]["output_tokens"] == 30
    assert (end.code, end.payload[2:]) == (1008, word.encode())
    assert session.provider_frames()[-1].code == 1008
    session.channel.dataReceived(close_frame(1008))
    session.clock.advance(5)
    session.turn()
    assert (session.event.status, session.event.error) == (Outcome.REJECTED, word)
    assert session.event.tokens_out == 35
    assert session.row("requests_per_day") == (1, 0)
    assert session.counts.in_flight("alice") == 0
    assert session.is_free()


def test_a_row_that_only_warns_ends_no_session() -> None:
    session = Session("{tokens: 5, per: day, action: warn}").open()
    session.provider.send(told(20, 5))
    assert len(session.client_frames()) == 1
    assert session.row("tokens_per_day") == (25, 0)


def test_a_session_of_a_model_without_a_price_is_refused() -> None:
    session = Session("{usd: 1, per: month}", "/v1/realtime?model=main/unpriced")
    assert session.received().startswith(b"HTTP/1.1 403 ")
    assert b"model_not_priced" in session.received()
    assert session.pipeline.endpoint.connections == []


def test_each_response_that_is_asked_for_is_a_request() -> None:
    session = Session("{requests: 2, per: day}, {in_flight: 1}, {tokens: 900, per: day}", RESPONSES)
    session.open_duplex()
    assert session.row("requests_per_day") == (0, 1)
    assert [one["type"] for one in session.sent()] == ["response.create"]
    session.channel.dataReceived(LATER)
    assert session.errors() == [(429, "rate_limit_error", "rate_limit_exceeded")]
    assert session.sent() == []
    session.provider.send(told(10, 5, "response.completed"))
    assert session.row("tokens_per_day") == (15, 0)
    session.client_frames()
    session.channel.dataReceived(LATER)
    assert len(session.sent()) == 1
    session.provider.send(told(1, 1, "response.incomplete"))
    assert session.row("requests_per_day") == (2, 0)
    session.client_frames()
    session.channel.dataReceived(LATER)
    assert session.errors() == [(429, "rate_limit_error", "rate_limit_exceeded")]
    session.channel.dataReceived(frame(0x81, b'{"type":"response.cancel"}'))
    assert session.sent() == [{"type": "response.cancel"}]
    session.leave()
    assert session.row("tokens_per_day") == (17, 0)
    assert session.counts.in_flight("alice") == 0


def test_a_budget_holds_for_each_response_and_refuses_the_next_one() -> None:
    session = Session("{usd: 0.001, per: month}, {tokens: 1000, per: day, count: before}", RESPONSES)
    session.open_duplex()
    tokens_in = -(-len(b'{"type":"response.create","model":"m","input":"hi"}') // 4)
    assert session.row("tokens_per_day") == (0, tokens_in + 100)
    assert session.row("usd_per_month") == (0, tokens_in * 4000 + 100 * 16_000)
    session.channel.dataReceived(LATER)
    assert session.errors() == [(429, "rate_limit_error", "rate_limit_exceeded")]
    session.provider.send(told(7, 3, "response.completed"))
    assert session.row("usd_per_month") == (7 * 4000 + 3 * 16_000, 0)
    session.leave()
    assert session.row("usd_per_month") == (7 * 4000 + 3 * 16_000, 0)


def test_an_error_in_place_of_a_response_frees_its_place() -> None:
    session = Session("{in_flight: 1}", RESPONSES).open_duplex()
    session.provider.send(spoken(b'{"type":"error","status":400,"error":{"message":"no"}}'))
    assert session.counts.in_flight("alice") == 0
    session.provider.send(told(10, 5, "response.completed"))


def test_a_response_in_progress_at_the_end_costs_its_input() -> None:
    session = Session("{tokens: 1000, per: day}, {in_flight: 1}", RESPONSES).open_duplex()
    session.leave()
    assert session.row("tokens_per_day")[0] > 5
    assert session.counts.in_flight("alice") == 0


TEXT: Final = "The quick brown fox jumps over the lazy dog. " * 20
OUT: Final = round(estimate_text_tokens([TEXT]))
CREATED: Final = spoken(b'{"type":"response.created","response":{"id":"resp_1","model":"m"}}')
COMPLETED: Final = spoken(b'{"type":"response.completed","response":{"id":"resp_1","status":"completed"}}')
REFUSED: Final = spoken(b'{"type":"error","status":400,"error":{"message":"no"}}')
TOKENS: Final = "{tokens: 100000, per: day}, {in_flight: 1}, {requests: 9, per: day}"


def words(text: str = TEXT, at: str = "response.output_text.delta") -> bytes:
    delta = {"item_id": "m" * 150, "output_index": 0, "content_index": 0, "type": at, "delta": text}
    return spoken(json.dumps(delta).encode())


def used(session: Session) -> int:
    return session.row("tokens_per_day")[0]


def test_a_response_that_is_left_counts_what_has_come_of_it() -> None:
    session = Session(f"{TOKENS}, {{usd: 1, per: month}}", RESPONSES).open_duplex()
    session.provider.send(CREATED + words(TEXT[:400]) + words(TEXT[400:]))
    session.leave()
    assert used(session) == pytest.approx(13 + OUT, abs=5)
    assert session.row("usd_per_month") == (13 * 4000 + (used(session) - 13) * 16_000, 0)
    assert session.row("requests_per_day") == (1, 0)
    assert session.counts.in_flight("alice") == 0


def test_a_response_whose_end_tells_nothing_is_estimated() -> None:
    session = Session(TOKENS, RESPONSES).open_duplex()
    session.provider.send(CREATED + words() + COMPLETED)
    assert used(session) == pytest.approx(13 + OUT, abs=5)
    assert session.counts.in_flight("alice") == 0


def test_nothing_is_estimated_where_that_is_off() -> None:
    session = Session(TOKENS, RESPONSES, "estimate_untold: false").open_duplex()
    session.provider.send(CREATED + words() + COMPLETED)
    assert session.row("requests_per_day") == (1, 0)
    assert used(session) == 0


def test_an_error_about_something_else_lets_nothing_go_uncounted() -> None:
    session = Session(TOKENS, RESPONSES).open_duplex()
    session.provider.send(CREATED + words() + REFUSED)
    assert used(session) > OUT // 2
    session.provider.send(words() + told(10, 5000, "response.completed"))
    assert used(session) == 5010
    session.client_frames()
    session.channel.dataReceived(LATER)
    session.provider.send(CREATED + words() + REFUSED)
    first = used(session)
    session.provider.send(words() + words())
    session.leave()
    assert used(session) > first + OUT
    assert session.row("requests_per_day") == (2, 0)


def test_an_error_that_ends_a_response_leaves_the_next_one_to_itself() -> None:
    session = Session(TOKENS, RESPONSES).open_duplex()
    session.provider.send(CREATED + REFUSED)
    session.client_frames()
    before = used(session)
    session.channel.dataReceived(LATER)
    session.provider.send(CREATED + told(10, 5, "response.completed"))
    assert used(session) == before + 15
    assert session.counts.in_flight("alice") == 0


@pytest.mark.parametrize("more", [b"", CREATED])
def test_what_goes_on_in_the_background_counts_what_it_may_come_to(more: bytes) -> None:
    create = b'{"type":"response.create","model":"main/m","input":"hi","background":true}'
    session = Session(TOKENS, RESPONSES).open_duplex(frame(0x81, create))
    session.provider.send(more)
    session.leave()
    assert used(session) == input_hold(create.replace(b"main/", b"")) + 100


@pytest.mark.parametrize(
    "message",
    [
        frame(0x82, b'\n{"type":"response.create","model":"m"}'),
        frame(0x82, b'\xef\xbb\xbf{"type":"response.create","model":"m"}'),
        frame(0x82, '{"type":"response.create","model":"m"}'.encode("utf-16")),
        frame(0x81, b'{"typ\\u0065":"response.create","model":"m"}'),
        frame(0x01, b'{"type":"respon') + frame(0x80, b'se.create","model":"m"}'),
    ],
)
def test_no_form_of_a_message_goes_round_the_limits(message: bytes) -> None:
    session = Session("{in_flight: 1}", RESPONSES).open_duplex()
    session.sent()
    session.channel.dataReceived(message)
    assert session.provider_frames() == []
    assert session.errors() == [(429, "rate_limit_error", "rate_limit_exceeded")]


def test_a_session_without_a_model_has_no_price() -> None:
    session = Session("{usd: 1, per: month}", "/v1/live/sessions")
    assert session.received().startswith(b"HTTP/1.1 403 ")
    assert b"names no model" in session.received()


def test_a_model_without_a_price_is_refused_and_the_socket_stays() -> None:
    session = Session("{usd: 1, per: month}", RESPONSES).open_duplex()
    session.sent()
    session.channel.dataReceived(frame(0x81, b'{"type":"response.create","model":"unpriced"}'))
    assert session.errors() == [(403, "invalid_request_error", "model_not_priced")]
    assert session.sent() == []


class LateAnswers:
    """Counts that answer when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting: list[tuple[Deferred[Any], Callable[[], Any]]] = []
        begin = LocalCounts.begin

        def late(counts: LocalCounts, limits: Limits, held: Taken) -> Any:  # Any: as LocalCounts has it
            if limits[0].holder == SESSIONS:
                return begin(counts, limits, held)
            answer: Deferred[Any] = Deferred()
            self.waiting.append((answer, lambda: begin(counts, limits, held)))
            return answer

        monkeypatch.setattr(LocalCounts, "begin", late)

    def go_on(self) -> None:
        answer, begin = self.waiting.pop(0)
        answer.callback(begin())


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> LateAnswers:
    return LateAnswers(monkeypatch)


TWO_A_DAY: Final = "{requests: 2, per: day}, {in_flight: 5}"
OTHER: Final = frame(0x81, b'{"type":"response.cancel"}')


def test_what_is_sent_behind_a_message_that_waits_keeps_its_order(answers: LateAnswers) -> None:
    session = Session(TWO_A_DAY, RESPONSES)
    session.open_duplex(CREATE + OTHER + LATER + OTHER + LATER + OTHER)
    assert session.sent() == []
    answers.go_on()
    assert [one["type"] for one in session.sent()] == ["response.create", "response.cancel"]
    answers.go_on()
    assert [one["type"] for one in session.sent()] == ["response.create", "response.cancel"]
    answers.go_on()
    assert [one["type"] for one in session.sent()] == ["response.cancel"]
    assert session.errors() == [(429, "rate_limit_error", "rate_limit_exceeded")]


def test_an_answer_behind_the_end_leaves_nothing_counted(answers: LateAnswers) -> None:
    session = Session(TWO_A_DAY, RESPONSES)
    session.open_duplex()
    session.leave()
    answers.go_on()
    assert session.row("requests_per_day") == (0, 0)
    assert session.counts.in_flight("alice") == 0


@pytest.mark.usefixtures("answers")
def test_no_more_than_some_bytes_wait() -> None:
    session = Session(TWO_A_DAY, RESPONSES)
    session.open_duplex()
    payload = b'{"type":"x","y":"%b"}' % (b"z" * (MAX_MESSAGE_BYTES // 2))
    half = b"\x81\xff" + len(payload).to_bytes(8, "big") + bytes(4) + payload
    session.channel.dataReceived(half)
    assert session.client_frames() == []
    session.channel.dataReceived(half)
    assert session.client_frames()[-1].code == 1013


@pytest.mark.usefixtures("answers")
def test_no_more_than_some_messages_wait() -> None:
    session = Session(TWO_A_DAY, RESPONSES)
    session.open_duplex(CREATE + OTHER * 999)
    assert session.client_frames() == []
    session.channel.dataReceived(OTHER)
    assert session.client_frames()[-1].code == 1013


def test_a_response_that_has_not_begun_keeps_no_reader_of_its_answer() -> None:
    session = Session("{tokens: 100000, per: day}", RESPONSES).open_duplex(CREATE * 50)
    gc.collect()
    assert not [one for one in gc.get_objects() if isinstance(one, AnswerCopy)]
    session.provider.send(CREATED)
    assert len([one for one in gc.get_objects() if isinstance(one, AnswerCopy)]) == 1


@pytest.mark.parametrize("tokens", [10, 900])
def test_counts_that_answer_behind_the_end_of_a_session_change_nothing(
    answers: LateAnswers, tokens: int
) -> None:
    session = Session(f"{DAY}, {{in_flight: 1}}")
    answers.go_on()
    session.open()
    session.provider.send(told(tokens, 0) + told(tokens, 0))
    assert len(answers.waiting) == 2
    session.leave()
    answers.go_on()
    answers.go_on()
    assert session.row("tokens_per_day") == (2 * tokens, 0)
    assert session.counts.in_flight("alice") == 0
    assert session.event.status is Outcome.CLIENT_ABORT
    assert session.is_free()


def test_a_session_whose_client_leaves_before_it_is_admitted_leaves_nothing_counted(
    answers: LateAnswers,
) -> None:
    session = Session("{requests: 5, per: day}, {in_flight: 1}")
    session.leave()
    answers.go_on()
    assert session.row("requests_per_day")[1] == 0
    assert session.counts.in_flight("alice") == 0


def test_responses_behind_one_another_are_settled_one_by_one() -> None:
    session = Session("{requests: 9, per: day}, {in_flight: 3}, {tokens: 100000, per: day}", RESPONSES)
    session.open_duplex(CREATE + LATER + LATER)
    session.provider.send(CREATED + words() + told(10, 5, "response.completed"))
    assert (session.counts.in_flight("alice"), used(session)) == (2, 15)
    session.provider.send(REFUSED)
    assert (session.counts.in_flight("alice"), used(session)) == (1, 15)
    session.provider.send(CREATED + words())
    session.leave()
    assert session.counts.in_flight("alice") == 0
    assert used(session) == pytest.approx(15 + OUT + 20, abs=6)
    assert session.row("requests_per_day") == (3, 0)


def test_a_response_that_begins_ends_the_one_before_it() -> None:
    session = Session("{requests: 9, per: day}, {in_flight: 3}, {tokens: 100000, per: day}", RESPONSES)
    session.open_duplex(CREATE + LATER)
    session.provider.send(CREATED + words())
    assert session.counts.in_flight("alice") == 2
    session.provider.send(CREATED)
    assert session.counts.in_flight("alice") == 1
    assert used(session) == pytest.approx(13 + OUT, abs=5)
    session.provider.send(told(10, 5, "response.completed"))
    assert session.counts.in_flight("alice") == 0
    assert used(session) == pytest.approx(13 + OUT + 15, abs=5)


@pytest.mark.parametrize("limits", ["{tokens: 500, per: day, count: before}", "{usd: 0.001, per: month}"])
def test_a_row_that_others_only_hold_ends_no_session(limits: str) -> None:
    session = Session(limits).open()
    (client,) = clients_of(session.generation.config.edge_auth, session.counts)
    held = Taken(1, 600, 2_000_000)
    permit = session.counts.begin(client.limits, held)
    assert isinstance(permit, Permit)
    session.provider.send(told(10, 5))
    assert len(session.client_frames()) == 1
    session.counts.end(permit, held)
    session.provider.send(told(1, 1))
    assert session.client_frames()[-1].code == 1008
