"""The record of one exchange, which leaves exactly one usage event behind.

An :class:`Exchange` opens when the head of a request has passed edge auth on a route that is metered, and
settles once: when the response has been sent, or before that by whoever ends the request for a cause of its
own (a body over the limit, a client that leaves in mid-upload, the end of a drain).  Later calls of
:meth:`settle` find it settled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime

from mgw.canonical.reply import NO_USAGE, TokenUsage
from mgw.clients.client import Client
from mgw.clients.client_refusals import route_not_priced
from mgw.clients.limits import (
    ONE_REQUEST,
    Permit,
    Taken,
    Warnings,
    counts_money,
    counts_tokens,
    holds_estimates,
)
from mgw.config.prices import UnpricedRule
from mgw.credentials.provider import Credential
from mgw.credentials.signed_again import Again
from mgw.credentials.signing import Signing
from mgw.dialects.metering import subtract_usage
from mgw.dialects.refusal import word_of
from mgw.exchange.charge import charge_for
from mgw.exchange.client_place import ClientPlace
from mgw.exchange.offload import Offload, run_inline
from mgw.exchange.received import FIRST_SERVER_ERROR, Received, status_error
from mgw.exchange.untold import Estimates, Tokens, UntoldUsage, may_be_estimated
from mgw.exchange.upstream_time import UpstreamTime
from mgw.generation import Generation
from mgw.nouns.errors import CLIENT_CLOSED, Cause, GatewayError, Reason
from mgw.nouns.secret import Secret
from mgw.reactor.deadline import TimerWheel
from mgw.routing.resolve import Target, is_translated
from mgw.routing.route import Route, Treatment
from mgw.upstream.failure import UpstreamFailure
from mgw.usage.error_message import format_error_message
from mgw.usage.event import Outcome, SessionCounts, SettledExchange, limit_dropped_names
from mgw.usage.journal import ProviderFailure
from mgw.usage.limit_warnings import wait_for_warnings
from mgw.usage.prices import NO_CHARGE, SessionBill
from mgw.usage.trace_context import TraceContext

_OPERATOR_STATUSES = frozenset({401, 402, 403, 429})
"""Statuses that concern the operator of the gateway rather than the client."""
_OK = Outcome.OK
"""Bound here, as every request needs it: to look a member up in its Enum costs 0.1 us in Python 3.11."""
_UPSTREAM_REASONS = frozenset({Reason.UPSTREAM_BROKEN, Reason.UPSTREAM_TOO_SLOW, Reason.CREDENTIAL_SOURCE})


class Exchange(Struct, eq=False):
    """One request, from its head to the last byte of its response."""

    request_id: str
    route: Route
    generation: Generation
    clock: IReactorTime
    wheel: TimerWheel
    """The timer wheel of the clock."""
    wall: float
    """Unix seconds at which the head was complete."""
    client: Client | None = None
    """The client that owns the edge key; ``None`` where nobody needs one."""
    started: float = 0.0
    """The clock's time of the same."""
    target: Target | None = None
    asked_model: str | None = None
    key_hash: str | None = None
    credential: Credential | None = None
    """What was sent last, be it the client's own: nothing that is recorded repeats it."""
    signing: Signing | None = None
    """How that was signed; ``None``: it was not."""
    signed_again: tuple[Again, ...] = ()
    """Why it was signed and sent once more to its target."""
    attempts: int = 0
    given_up: int = 0
    """How many of the attempts came before the last retry or fallback."""
    http_status: int | None = None
    """The status that the client got, once it has got one."""
    stream: bool = False
    received: Received = field(default_factory=Received)
    """What has come of the provider's answer."""
    reserve: Callable[[int], None] = lambda _: None
    """Reserves memory for a body that is kept; raises ``OVERLOADED`` where there is none left."""
    offload: Offload = run_inline
    """Runs the work on a large body."""
    own_address: str | None = None
    """The gateway's own URL as the client knows it, where the response may have to hold it."""
    dropped_fields: Sequence[str] = ()
    """The client's paths of what a translation did not carry, where the operator observes them."""
    body_rules: int | None = None
    """How many of the operator's rules have changed the body; ``None``: none apply."""
    upstream_request_id: str | None = None
    characters: int | None = None
    """The length of the text that is to be spoken."""
    session: SessionCounts | None = None
    """What went through a realtime session, once it is over."""
    bill: SessionBill | None = None
    """What the responses of the session cost so far, where a row of prices fits."""
    trace: TraceContext | None = None
    """The client's, where a sink of usage events asks for it."""
    error: str | None = None
    """Why it did not end well; known once it is settled."""
    upstream_time: UpstreamTime | None = None
    """How long the provider was waited for, where responses say so."""
    is_unheld: bool = False
    """Whether it has to be counted yet, before it goes upstream: with an estimate of what it will come to."""
    place: ClientPlace | None = None
    """Its place among the requests of its client, where that has limits."""
    estimates: Estimates | None = None
    """Makes estimates of tokens; ``None``: nobody does."""
    untold: UntoldUsage | None = None
    """What its tokens are estimated by if they are not told, where a limit needs them."""
    settled: bool = False
    row: SettledExchange | None = None
    """What the usage event is made of; known once it is settled, unless a bug keeps it from being known."""
    is_row_pending: bool = False
    """Whether the row is not complete yet: its tokens are being estimated, or warnings are waited for."""
    on_row: Callable[[SettledExchange], None] | None = None
    """Called with the complete row, where that was pending as the request ended."""

    def __post_init__(self) -> None:
        self.started = self.clock.seconds()
        self.generation.in_use += 1
        if self.generation.server_timing:
            self.upstream_time = UpstreamTime(self.clock, self.started)

    def __repr__(self) -> str:  # what went wrong may quote a provider
        return f"Exchange({self.request_id!r})"

    def acquire_permit(self, on_limit: Callable[[GatewayError], None] | None = None) -> None:
        """Count the request among those of its client; :attr:`place` says whether to wait for that.

        :param on_limit: as in :meth:`ClientPlace.wait`.
        :raises GatewayError: ``CLIENT_LIMIT`` or ``CLIENT_BUDGET``, where it is known at once to be one too
            many.
        """
        client, route = self.client, self.route
        if client is None or client.counts is None or not route.is_request:
            return
        if route.hides_cost:
            self._check_route(client)
        if route.treatment is not Treatment.REALTIME and holds_estimates(client.limits):
            client.check_room()
            self.is_unheld = True
        else:
            self._begin(client, ONE_REQUEST, on_limit)
        if self.estimates is not None and counts_tokens(client.limits) and may_be_estimated(self.route):
            config = self.generation.config
            if config.edge_auth.estimate_untold:
                self.untold = UntoldUsage(self.estimates, self.route, self.request_id, config)

    def acquire_held(self, held: Taken) -> None:
        """Count the request now, which holds an estimate; :attr:`place` says whether to wait for that.

        :raises GatewayError: as :meth:`acquire_permit` does.
        """
        assert self.client is not None, "only limits hold estimates"
        self.is_unheld = False
        self._begin(self.client, held, None)

    def _begin(self, client: Client, held: Taken, on_limit: Callable[[GatewayError], None] | None) -> None:
        found = client.begin(held)
        assert client.counts is not None, "it has limits"
        if isinstance(found, Permit):
            self.place = ClientPlace(client.counts, found, zone=client.zone, limits=client.limits, held=held)
        elif found is not None:
            assert isinstance(found, Deferred), "counts of other processes answer with one"
            self.place = ClientPlace(client.counts, zone=client.zone, limits=client.limits, held=held)
            self.place.wait(found, on_limit)

    def _check_route(self, client: Client) -> None:
        settings = self.generation.config.prices
        is_allowed = settings is not None and settings.unpriced is UnpricedRule.ALLOW
        if not is_allowed and counts_money(client.limits, refusing=True):
            raise route_not_priced(self.route.path)

    def failed(self, error: Exception) -> None:
        """Settle: the request was refused or broke off, or there is a bug."""
        if isinstance(error, CancelledError):
            self.client_left()
        elif isinstance(error, GatewayError):
            self.refused(error)
        else:
            self.refused(GatewayError(Reason.INTERNAL, "a bug"))

    @property
    def is_restricted(self) -> bool:
        """Whether the client may use some models only."""
        return self.client is not None and bool(self.client.fits)

    @property
    def translated(self) -> bool:
        """Whether the response is the gateway's own, translated from another dialect."""
        return self.target is not None and is_translated(self.route, self.target)

    def now(self) -> float:
        """Return unix seconds."""
        return self.wall + self.clock.seconds() - self.started

    def client_left(self) -> None:
        """Settle: the client went away, before the end of its response unless it had all of it."""
        if self.settled:
            return
        received = self.received
        if received.handed_on is not None and received.handed_on.sent_last_event:
            received.fault = received.handed_on.fault()
            self.responded()
            return
        self.http_status = CLIENT_CLOSED
        self.settle(Outcome.CLIENT_ABORT, error=Cause.CLIENT_ABORT.value)

    def refused(self, error: GatewayError) -> None:
        """Settle: the gateway refused, or the upstream failed."""
        if self.settled:
            return
        word = word_of(error)
        if error.reason not in _UPSTREAM_REASONS:
            self.settle(Outcome.REJECTED, error.status, word)
            return
        ours = isinstance(error, UpstreamFailure) or error.reason is Reason.CREDENTIAL_SOURCE
        sentence = error.message if ours else error.message.partition(":")[0]  # behind it, the provider's
        self.received.error_message = self.readable_message(error)
        self._report_failure(word, sentence, error.detail)
        self.settle(Outcome.UPSTREAM_ERROR, error.status, word)

    def settle(self, outcome: Outcome, status: int | None = None, error: str | None = None) -> None:
        """Make what the one usage event is made of; nothing happens the second time.

        The request records it when it ends.  So whoever settles has it end before the reactor's next turn.

        :param status: the HTTP status to record where the client has got none yet.
        :param error: why it did not end well.
        """
        if self.settled:
            return
        self.settled = True
        self.error = error
        if self.http_status is None:
            self.http_status = status
        is_estimated = False
        try:
            row = self._settled(outcome)
            if self.place is not None or (self.route.counts_messages and self.client is not None):
                row = self._charged(row)
            self.row = row
            is_estimated = self.untold is not None and self._estimate(self.untold, row)
        finally:
            if self.place is not None and not is_estimated:
                self._end_place(self.place, outcome)
            self.generation.leave()

    def _estimate(self, untold: UntoldUsage, row: SettledExchange) -> bool:
        """Have those tokens estimated that are not told; return whether there are any."""
        self.untold, target = None, self.target
        assert target is not None or not untold.is_answered, "somebody has answered"
        if target is None:
            return False
        tokens = self.generation.models.row(target.upstream_model or "", target.family).tokens
        self.is_row_pending = True
        if not untold.estimate(row, target.asked_model or "", tokens, self._on_estimate):
            self.is_row_pending = False
            return False
        if self.is_row_pending and self.place is not None:  # else the estimate is known already
            self.place.leave(row)
        return True

    def _on_estimate(self, tokens: Tokens) -> None:
        """Complete the row: its tokens are known as far as they can be."""
        assert self.row is not None, "it is settled"
        tokens_in, tokens_out = tokens
        row = replace(self.row, tokens_in_estimated=tokens_in, tokens_out_estimated=tokens_out)
        self.row = row = self._charged(row)
        self.is_row_pending = False
        try:
            if self.place is not None:
                self._end_place(self.place, row.outcome)
        finally:
            self._tell_row()

    def _end_place(self, place: ClientPlace, outcome: Outcome) -> None:
        """Tell the limits of the end; the row waits for warnings that come from elsewhere."""
        found = place.end(self.row, outcome, self.now)
        if isinstance(found, Deferred):
            self.is_row_pending = self.row is not None
            wait_for_warnings(found, self.clock, self._on_warnings, self._log_warnings)
        elif found:
            assert isinstance(found, tuple), "else it is a Deferred"
            self._add_warnings(found)

    def _on_warnings(self, warnings: Warnings) -> None:
        self.is_row_pending = False
        try:
            self._add_warnings(warnings)
        finally:
            self._tell_row()

    def _add_warnings(self, warnings: Warnings) -> None:
        if warnings:
            self._log_warnings(warnings)
            if self.row is not None:
                self.row = replace(self.row, limit_warnings=warnings)

    def _log_warnings(self, warnings: Warnings) -> None:
        self.generation.limit_warnings.report(warnings, self.request_id, self.clock)

    def _tell_row(self) -> None:
        """Hand the row on, once, if it is complete and somebody waits for it."""
        on_row, row = self.on_row, self.row
        if on_row is not None and row is not None and not self.is_row_pending:
            self.on_row = None
            on_row(row)

    def _charged(self, row: SettledExchange) -> SettledExchange:
        """Return the row with what the client is charged, where its limits count that."""
        assert self.client is not None, "only limits are charged to"
        if not counts_money(self.client.limits):
            return row
        prices, held = self.generation.prices, 0 if self.place is None else self.place.held.nanodollars
        has_answer = self.received.first_byte_at is not None
        charged = charge_for(row, self.route, self.target, prices, held, has_answer=has_answer)
        return replace(row, charged=charged)

    def responded(self) -> None:
        """Settle: the client has its response, be it the provider's refusal."""
        status, fault = self.http_status, self.received.fault
        if fault is not None:
            status, error = fault.status, fault.error
        elif status is None or status < 400:
            self.settle(_OK)
            return
        else:
            error = status_error(status)
        if self.settled:
            return
        word = word_of(error)
        self.received.error_message = self.readable_message(error)
        if status >= FIRST_SERVER_ERROR or status in _OPERATOR_STATUSES:
            self._report_failure(word, error.message)
        self.settle(Outcome.UPSTREAM_ERROR, error=word)

    def readable_message(self, error: GatewayError) -> str | None:
        """Return what a provider's error says, as it may be shown; ``None`` also where it must not be."""
        said = error.provider_message
        if said is None or not self.generation.error_messages:
            return None
        return format_error_message(said, self.secrets())

    def bill_response(self, before: TokenUsage, now: TokenUsage) -> None:
        """Put on the bill what a session has taken since its last response, where there are prices.

        :param before: the counts of the session up to that one; ``now``: up to this one.
        """
        prices, target = self.generation.prices, self.target
        model = None if target is None else target.upstream_model
        if self.bill is None and prices is not None and target is not None and model is not None:
            self.bill = prices.open_bill(target.provider.name, model, self.wall)
        if self.bill is not None:
            self.bill.add(subtract_usage(before, now))

    def secrets(self) -> list[Secret]:
        """Return what nothing that is recorded may repeat."""
        sent = self.credential
        of_sent = [] if sent is None else [sent.value, sent.key, *sent.added]
        return self.generation.known_secrets() + of_sent

    def retarget(self, target: Target) -> None:
        """Go to another target, about which nothing is known yet."""
        self.target = target
        self.key_hash = self.upstream_request_id = None
        self.dropped_fields = ()
        self.body_rules = None
        self.signed_again = ()

    def attempt_failed(self, target: Target, error: Exception | None) -> None:
        """Note that another attempt follows one that went wrong, of which the client gets nothing.

        :param target: where that one went.
        :param error: what went wrong; ``None``: somebody else says it.
        """
        if isinstance(error, GatewayError):
            ours = isinstance(error, UpstreamFailure) or error.reason not in _UPSTREAM_REASONS
            sentence = error.message if ours else error.message.partition(":")[0]  # behind it, the provider's
            self.received.error_message = self.readable_message(error)
            self._report_failure(word_of(error), sentence, error.detail, target)
        if self.upstream_time is not None:
            self.upstream_time.end()
        self.given_up = self.attempts
        self.received = Received()

    def _report_failure(
        self, word: str, sentence: str, detail: str = "", target: Target | None = None
    ) -> None:
        target = target or self.target
        if target is not None:
            name, message = target.provider.name, self.received.error_message
            failure = ProviderFailure(name, word, sentence, detail, self.request_id, message)
            self.generation.failures.note(failure, self.clock)

    def _settled(self, outcome: Outcome) -> SettledExchange:
        now, started, target, received = self.clock.seconds(), self.started, self.target, self.received
        first, usage = received.first_byte_at, NO_USAGE
        if self.route.metered:  # a count consumes nothing (contract 7.3)
            if received.counted is not None:
                usage = received.counted
            elif received.handed_on is not None:
                usage = received.handed_on.usage()
        memo = self.generation.memo
        labels = memo.labels_for(self.route, target, self.asked_model, self.key_hash, self.client)
        charge = NO_CHARGE
        prices = self.generation.prices
        if prices is not None and self.route.metered:
            charge = prices.charge(labels, outcome, usage, self)
        return SettledExchange(
            labels,
            self.request_id,
            self.wall,
            outcome,
            (now - started) * 1000.0,
            self.http_status,
            None if first is None else (first - started) * 1000.0,
            usage,
            self.stream,
            self.attempts,
            limit_dropped_names(self.dropped_fields) if self.dropped_fields else None,
            self.error,
            received.error_message,
            self.upstream_request_id,
            self.session,
            charge.nanodollars,
            charge.unpriced,
            self.trace,
            usage.service_tier,
            charge.tier,
            body_rules=self.body_rules,
        )
