"""The limits of a client in its sessions, which may last for hours and cost something all the while.

A realtime session is one request.  What its responses come to counts as each of them is reported; when that
has used a row up, the session ends behind the message that said so (:class:`SessionLimits`).

Where a WebSocket stands for HTTP requests, as with Responses, each message that asks for a response is a
request instead (:class:`ResponseLimits`)::

    response.create ── counted, sent ──> in progress ── its last event: settled
          │    └── who counts is asked: it waits, and all that the client sends behind it
          └── no room: an error message; the socket stays

What a response comes to that does not say so, or whose end the client does not wait for, is estimated by what
was asked and by what has come of it, as it is for HTTP requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec import Struct
from twisted.internet.defer import Deferred

from mgw.canonical.reply import TokenUsage
from mgw.clients.client import Client
from mgw.clients.client_refusals import limit_refusal, model_not_priced
from mgw.clients.limits import (
    NOTHING,
    LimitReached,
    Limits,
    Permit,
    Taken,
    Unit,
    counts_tokens,
    holds_estimates,
)
from mgw.dialects import dialect_of
from mgw.dialects.dialect import ResponseStep, SessionMessages
from mgw.exchange.answer_copy import AnswerCopy
from mgw.exchange.exchange import Exchange
from mgw.exchange.target_resolution import has_known_price
from mgw.exchange.untold import Tokens
from mgw.nouns.errors import GatewayError, Reason
from mgw.realtime.messages import MAX_MESSAGE_BYTES, find_message_models
from mgw.routing.resolve import Target
from mgw.tokens.hold import input_hold, output_asked
from mgw.wire.media_types import EVENT_STREAM

_MOST_WAITING: Final = 1000
_PARTS: Final = frozenset({Unit.TOKEN, Unit.NANODOLLAR})


def spent(exchange: Exchange, usage: TokenUsage) -> Taken:
    """Return what the responses of a session have come to so far, in tokens and nanodollars.

    :param usage: the counts of the session.
    """
    tokens = (usage.tokens_in or 0) + (usage.tokens_out or 0)
    return Taken(0, tokens, 0 if exchange.bill is None else exchange.bill.nanodollars)


def _between(before: Taken, now: Taken) -> Taken:
    return Taken(0, now.tokens - before.tokens, now.nanodollars - before.nanodollars)


@dataclass(slots=True, eq=False, repr=False)
class SessionLimits:
    """Counts what a session comes to, and ends it when that has used a row up.

    :param on_full: ends it, with what the client is told.
    """

    exchange: Exchange
    on_full: Callable[[GatewayError], None]
    _told: Taken = NOTHING
    _rows: Limits = ()

    def __post_init__(self) -> None:
        assert self.exchange.place is not None, "it is counted"
        self._rows = tuple(
            [row for row in self.exchange.place.limits if row.limit.unit in _PARTS and row.refuses]
        )

    def on_usage(self, usage: TokenUsage) -> None:
        """Count what a response has come to.

        :param usage: the counts of the session by now.
        """
        place, now = self.exchange.place, spent(self.exchange, usage)
        assert place is not None, "it is counted"
        place.count(_between(self._told, now))
        self._told = now
        if self._rows:
            found = place.counts.begin(self._rows, NOTHING)
            if isinstance(found, Deferred):
                _ = found.addCallback(self._on_answer)
            else:
                assert isinstance(found, Permit | LimitReached), "counts of other processes answer with one"
                self._on_answer(found)

    def on_message(self, payload: bytes, usage: TokenUsage) -> None:
        """Look at a message of the provider's: single ones say nothing more."""

    def end(self) -> None:
        """The session is over: its place counts what is left."""

    def _on_answer(self, found: Permit | LimitReached) -> None:
        place = self.exchange.place
        assert place is not None, "it is counted"
        if isinstance(found, Permit):
            _ = place.counts.end(found, NOTHING)
        elif not found.is_only_held:  # what others hold may soon be free
            self.on_full(limit_refusal(found, place.zone))


class _Running(Struct, eq=False):
    """A response in progress, or one that was asked for."""

    target: Target | None
    tokens_in: int = 0
    """Those of the request, about."""
    tokens_held: int = 0
    """The most that the answer holds."""
    tokens_out: int = 0
    """What the answer may come to where the provider goes on with it without the client."""
    permit: Permit | None = None
    """``None``: it has not been admitted yet."""
    answer: AnswerCopy | None = None
    """What has come of it; ``None``: nothing has, or nothing is estimated."""
    is_begun: bool = False
    """Whether anything has come of it."""
    is_created: bool = False
    """Whether its first message has."""
    counted: Taken = NOTHING
    """What was counted of it as an error seemed to end it."""

    def take(self, payload: bytes) -> None:
        """Keep a message of its answer."""
        self.is_begun = True
        if self.answer is not None:
            self.answer.add(b"data: %b\n\n" % payload)

    def estimate(self, factor: float) -> Tokens:
        """Return about how many tokens there are; call it once, in any thread."""
        tokens = 0 if self.answer is None else self.answer.estimate(factor)
        return self.tokens_in, max(tokens, self.tokens_out)

    def estimate_roughly(self) -> Tokens:
        """Return the same at no cost."""
        tokens = 0 if self.answer is None else self.answer.estimate_roughly()
        return self.tokens_in, max(tokens, self.tokens_out)


@dataclass(slots=True, eq=False, repr=False)
class ResponseLimits:
    """Counts each response that a client asks for over one socket, and refuses those without room.

    :param client: whose limits these are.
    :param send: sends a message to the provider.
    :param refuse: tells the client that one of its messages was refused.
    :param give_up: ends the session.
    """

    exchange: Exchange
    client: Client
    messages: SessionMessages
    send: Callable[[bytes], None]
    refuse: Callable[[GatewayError], None]
    give_up: Callable[[GatewayError], None]
    _running: deque[_Running] = field(default_factory=deque)
    """Providers answer in order."""
    _cut: _Running | None = None
    """A response that an error has ended, unless that was about something else: then more of it comes."""
    _told: Taken = NOTHING
    _waiting: deque[bytes] = field(default_factory=deque)
    """What the client has sent behind the message that waits, which is the first of them."""
    _waiting_bytes: int = 0
    _is_over: bool = False

    def pass_message(self, payload: bytes) -> bytes | None:
        """Return a message that goes to the provider at once; ``None``: it does not, or not yet."""
        if self._waiting:
            self._keep(payload)
            return None
        if not self.messages.asks_response(payload):
            return payload
        asked = self._read(payload)
        try:
            found = self._ask(asked)
        except GatewayError as error:
            self.refuse(error)
            return None
        if isinstance(found, Permit):
            self._run(asked, found)
            return payload
        self._keep(payload)
        _ = found.addCallback(partial(self._on_answer, payload, asked))
        return None

    def on_usage(self, usage: TokenUsage) -> None:
        """The response whose last message tells this counts it."""

    def on_message(self, payload: bytes, usage: TokenUsage) -> None:
        """Settle the response that a message of the provider's ends.

        :param usage: the counts of the session by now.
        """
        step = self.messages.read_step(payload)
        is_response = step is not ResponseStep.REFUSED
        if is_response and step is not ResponseStep.OTHER:
            self._take(payload, step)
        if is_response and step is not ResponseStep.ENDS:
            return
        now = spent(self.exchange, usage)
        taken = _between(self._told, now)
        self._told = now
        if is_response and self._cut is not None:
            self._count_rest(self._cut, taken)
            self._cut = None
        elif self._running:
            running = self._running.popleft()
            if not is_response and running.is_begun:
                self._settle_roughly(running)
            elif is_response and taken == NOTHING:
                self._settle_estimated(running)
            else:
                self._settle(running, Taken(1, taken.tokens, taken.nanodollars))
        elif taken != NOTHING and self.client.counts is not None:
            self.client.counts.add(self.client.limits, taken)  # an error was taken for its end

    def end(self) -> None:
        """The session is over: what is in progress has come to what is known of it."""
        self._is_over = True
        self._waiting.clear()
        while self._running:
            self._settle_estimated(self._running.popleft())
        if self._cut is not None:
            self._count_rest(self._cut, self._priced(self._cut.target, *self._cut.estimate_roughly()))
            self._cut = None

    @property
    def reads_answers(self) -> bool:
        """Whether it has to see all messages of the provider's."""
        settings = self.exchange.generation.config.edge_auth
        return settings.estimate_untold and counts_tokens(self.client.limits)

    def _take(self, payload: bytes, step: ResponseStep) -> None:
        """Keep what has come of a response."""
        if step is ResponseStep.BEGINS:
            self._cut = None  # the error has ended it
            if self._running and self._running[0].is_created:
                self._settle_estimated(self._running.popleft())  # its last message was too long to be seen
        running = self._cut or (self._running[0] if self._running else None)
        if running is None:
            return
        running.is_created = running.is_created or step is ResponseStep.BEGINS
        if running.answer is None and self.reads_answers:
            running.answer = AnswerCopy(
                self.exchange.route.dialect, self.exchange.request_id, in_pieces=False
            )
            running.answer.begin(EVENT_STREAM, b"")
        running.take(payload)

    def _ask(self, asked: _Running) -> Permit | Deferred[Permit | LimitReached]:
        target = asked.target
        if target is not None and not has_known_price(self.exchange, target):
            raise model_not_priced(target.asked_model or "")
        held = Taken()
        if holds_estimates(self.client.limits):
            held = self._priced(target, asked.tokens_in, asked.tokens_held)
        found = self.client.begin(held)
        if isinstance(found, Permit):
            return found
        assert isinstance(found, Deferred), "counts of other processes answer with one"
        return found

    def _on_answer(self, payload: bytes, asked: _Running, found: Permit | LimitReached) -> None:
        assert self.client.counts is not None, "it has limits"
        if self._is_over:
            if isinstance(found, Permit):
                _ = self.client.counts.end(found, NOTHING)
            return
        waiting, self._waiting, self._waiting_bytes = self._waiting, deque(), 0
        waiting.popleft()
        if isinstance(found, LimitReached):
            self.refuse(limit_refusal(found, self.client.zone))
        else:
            self._run(asked, found)
            self.send(payload)
        for later in waiting:
            passed = self.pass_message(later)
            if passed is not None:
                self.send(passed)

    def _keep(self, payload: bytes) -> None:
        self._waiting.append(payload)
        self._waiting_bytes += len(payload)
        is_too_much = self._waiting_bytes > MAX_MESSAGE_BYTES or len(self._waiting) > _MOST_WAITING
        if len(self._waiting) > 1 and is_too_much:
            message = (
                f"more than {MAX_MESSAGE_BYTES} bytes or {_MOST_WAITING} messages wait for one of them to be "
                "counted"
            )
            self.give_up(GatewayError(Reason.OVERLOADED, message))

    def _settle_estimated(self, running: _Running) -> None:
        """Settle a response of which nothing is told, in the thread of the estimates."""
        exchange = self.exchange

        def then(tokens: Tokens) -> None:
            self._settle(running, self._priced(running.target, *tokens))

        if not self.reads_answers:
            self._settle(running, Taken())
        elif exchange.estimates is None or running.answer is None:
            then(running.estimate_roughly())
        else:
            model = None if running.target is None else running.target.upstream_model
            factor = exchange.generation.models.row(model or "", exchange.route.family).tokens
            exchange.estimates.run(partial(running.estimate, factor), running.estimate_roughly, then)

    def _settle_roughly(self, running: _Running) -> None:
        """Settle a response that has broken off, if more of it does not come."""
        found = (
            Taken() if running.answer is None else self._priced(running.target, *running.estimate_roughly())
        )
        self._settle(running, found)
        running.counted = found
        self._cut = running

    def _count_rest(self, running: _Running, taken: Taken) -> None:
        """Count what a response came to beyond what was counted of it."""
        counted, counts = running.counted, self.client.counts
        rest = Taken(
            0, max(0, taken.tokens - counted.tokens), max(0, taken.nanodollars - counted.nanodollars)
        )
        if rest != NOTHING and counts is not None:
            counts.add(self.client.limits, rest)

    def _settle(self, running: _Running, taken: Taken) -> None:
        assert self.client.counts is not None, "it has limits"
        assert running.permit is not None, "it was admitted"
        _ = self.client.counts.end(running.permit, taken)

    def _target(self, payload: bytes) -> Target | None:
        """Return where a response is asked for: from the session's provider, and from a model of its own."""
        target = self.exchange.target
        named = find_message_models(payload, self.exchange.route.models.paths)
        if target is None or not named:
            return target
        return Target(target.provider, named[-1].value, named[-1].value)

    def _read(self, payload: bytes) -> _Running:
        """Return what is asked for, as far as the limits need to know."""
        target, limits = self._target(payload), self.client.limits
        if not (holds_estimates(limits) or self.reads_answers):
            return _Running(target)
        usual = self.exchange.generation.config.edge_auth.reserve_output_tokens
        places = dialect_of(self.exchange.route.dialect).answer_places
        tokens_held, in_background = output_asked(payload, places, usual)
        return _Running(target, input_hold(payload), tokens_held, tokens_held if in_background else 0)

    def _run(self, asked: _Running, permit: Permit) -> None:
        asked.permit = permit
        self._running.append(asked)

    def _priced(self, target: Target | None, tokens_in: int | None, tokens_out: int | None) -> Taken:
        exchange, tokens_in, tokens_out = self.exchange, tokens_in or 0, tokens_out or 0
        prices, cost = exchange.generation.prices, None
        if prices is not None and target is not None and target.upstream_model is not None:
            provider, model = target.provider_name, target.upstream_model
            cost = prices.hold(provider, model, tokens_in, tokens_out, exchange.wall)
        return Taken(1, tokens_in + tokens_out, cost or 0)


Counting = SessionLimits | ResponseLimits
