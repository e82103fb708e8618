"""The whole system in one object: a request, from its plan to the last byte of its response.

::

    start ── permit ── plan ── credential ── send ── response ── relay ── end: settled, ``on_end`` called
                       ▲          ▲                    │
                       │          └── refused, stale ──┤
                       └───────── repeat, fall back ───┘

Where limits hold an estimate of what a request will come to, its permit follows the first plan instead
(:mod:`mgw.exchange.hold`).

A step is called, not awaited, where nothing waits.  What may wait is the client's permit where other
processes count too, the plan or digest of a large body, a credential, the connection and the response.

Two things lead to a second attempt without any setting, before the first byte to the client: a pooled
connection that turns out closed before any byte of a response came (for requests that create nothing, or
carry an ``Idempotency-Key``), and a credential that the upstream refuses while its source has another, or
signs otherwise now; after a 401 one other (contract 3.13).  The rest is in :mod:`mgw.exchange.attempts`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from mgw.bodies.source import BodySource
from mgw.credentials.provider import Credential
from mgw.credentials.signing import Signing
from mgw.dialects.refusal import AnswerError
from mgw.exchange.attempts import (
    Step,
    Trouble,
    attempts_for,
    key_for_fallback,
    trouble_of_early_break,
    trouble_of_error,
    trouble_of_response,
)
from mgw.exchange.body_digest import signing_of
from mgw.exchange.copied_channel import CopiedChannel
from mgw.exchange.credentials import another_credential, credentials_of, may_be_replaced, note_answer
from mgw.exchange.deployment import NamedRequest, name_deployment
from mgw.exchange.early_head import EarlyHead
from mgw.exchange.hold import admit
from mgw.exchange.planning import (
    plan_fallback,
    plan_for,
    plan_known,
    plan_without_refused,
    plan_without_thoughts,
)
from mgw.exchange.refusals import report_attempt
from mgw.exchange.response import (
    BufferedResponse,
    EarlyFailure,
    FullResponse,
    Plan,
    StreamingResponse,
    WholeResponse,
    complete_at_once,
    complete_response,
    note_error,
    send_full,
    send_whole,
)
from mgw.exchange.run_state import RunState
from mgw.exchange.stream_delivery import StreamDelivery
from mgw.exchange.translation import Translation
from mgw.nouns.errors import GatewayError
from mgw.routing.resolve import Target
from mgw.routing.route import Treatment
from mgw.upstream.client import UpstreamFailure, UpstreamResponse

_BAD_REQUEST: Final = 400
_UNAUTHORIZED: Final = 401
_COUNT: Final = Treatment.COUNT


class ExchangeRun(RunState):
    """One exchange under way; what is said at its end is in :class:`~mgw.exchange.run_state.RunState`."""

    __slots__ = ()

    def start(self, body: bytes | BodySource) -> None:
        """Begin; does not raise."""
        exchange, request = self._exchange, self._request
        assert request is not None
        if exchange.place is not None and exchange.place.pending is not None:
            self._wait(exchange.place.pending, partial(self._on_permit, body))
            return
        try:
            if request.deployment is not None:
                self._run(name_deployment(exchange, request, body), self._on_named)
                return
            if exchange.untold is not None and not exchange.untold.has_begun:
                exchange.untold.begin(request, body, exchange.reserve)
                self._channel = CopiedChannel(self._channel, exchange.untold)
            if exchange.generation.tries_again or exchange.is_unheld:
                self._body = body
            plan = plan_known(exchange, request, body)
            if plan is None:
                self._run(plan_for(exchange, request, body), self._on_plan)
            else:
                self._on_plan(plan)
        except Exception as error:
            self._fail(error)

    def cancel(self) -> None:
        """Stop everything, and settle as left by the client, unless that is settled otherwise."""
        if self._on_end is None:
            return
        self._on_end = None
        cancel, self._cancel = self._cancel, None
        if cancel is not None:
            cancel()
        self._end(None)
        self._exchange.client_left()

    def cut(self, error: GatewayError) -> bool:
        """End a response that has begun, with an error for the client; say whether there was one."""
        relay, early_head = self._relaying, self._early_head
        if self._on_end is None:
            return False
        if relay is not None and not relay.ended and relay.held_head is None:
            relay.cut(error)
            return True
        if early_head is None or not early_head.was_sent:
            return False
        cancel, self._cancel = self._cancel, None
        if cancel is not None:
            cancel()
        self._fail(error)
        return True

    # What the upstream calls.

    def on_response(self, response: UpstreamResponse) -> None:
        """Pass the response on, unless it refuses a credential of which there is another."""
        self._cancel = None
        self._is_sending = False
        self._response = response
        if self._exchange.untold is not None:
            self._exchange.untold.is_answered = response.status < _BAD_REQUEST
        if self._exchange.upstream_time is not None:
            self._exchange.upstream_time.end()
        if self._exchange.signing is not None:
            note_answer(self._exchange, self._exchange.signing, response.head)
        self._exchange.upstream_request_id = response.head.request_id
        try:
            if response.status >= _BAD_REQUEST:
                self._on_refusal(response)
            else:
                self._respond(response)
        except Exception as error:
            self._fail(error)

    def on_failure(self, error: Exception) -> None:
        """Try once more where a pooled connection was closed before anything came."""
        self._cancel = None
        self._is_sending = False
        assert self._credential is not None
        try:
            is_stale = isinstance(error, UpstreamFailure) and error.stale and not self._is_fresh
            if is_stale and self._creates_nothing():
                self._send(self._credential, fresh=True)
            else:
                self._on_no_response(error)
        except Exception as another:
            self._fail(another)

    # The steps.  What raises ends the run, in whoever called.

    def _on_permit(self, body: bytes | BodySource, error: Exception | None) -> None:
        if error is None:
            self.start(body)
        else:
            self._fail(error)

    def _on_named(self, named: NamedRequest) -> None:
        self._request, body = named
        self.start(body)

    def _on_plan(self, plan: Plan | FullResponse) -> None:
        if type(plan) is FullResponse:  # isinstance asks the metaclass of a Struct, at ten times the cost
            self._send_full(plan)
            return
        self._plan = plan
        generation, name = self._exchange.generation, plan.target.provider_name
        if self._early_head is not None:
            self._early_head.plan(plan)
        elif plan.early_stream is not None:
            self._early_head = EarlyHead(self._exchange, self._channel, plan.early_stream)
        self._upstream = generation.upstreams[name]
        credentials = generation.credentials[name]
        if generation.is_on_behalf or self._exchange.route.is_upload:
            assert self._request is not None
            credentials = credentials_of(self._exchange, self._request, name)
        self._credentials = credentials
        if generation.tries_again and self._attempts is None:
            self._attempts = attempts_for(
                self._exchange, plan.target, creates_nothing=self._creates_nothing()
            )
        if self._exchange.is_unheld:
            assert self._request is not None
            asking = admit(self._exchange, self._request, self._body, plan, self._attempts)
            self._run(asking, self._on_plan)
            return
        if self._attempts is None or not self._attempts.targets:
            self._body = b""
        self._authenticate(plan.target)

    def _authenticate(self, target: Target) -> None:
        credentials, request = self._credentials, self._request
        assert credentials is not None
        assert request is not None
        key = request.key
        model = None if self._exchange.route.treatment is _COUNT else target.upstream_model
        if self._attempts is not None and self._attempts.has_fallen_back:
            key = key_for_fallback(target, key)
        credential = credentials.ready(key, model)
        if credential is None:
            self._run(credentials.obtain(key, model), self._send, self._on_no_response)
        else:
            self._send(credential)

    def _on_no_response(self, error: Exception) -> None:
        self._try_again(trouble_of_error(error, self._attempts), partial(self._fail, error), error)

    def _on_no_other_credential(self, error: Exception) -> None:
        """The source knows more than the response says: when the first of its accounts has rested."""
        self._drop_response()
        self._on_no_response(error)

    def _send(self, credential: Credential, signing: Signing | None = None, *, fresh: bool = False) -> None:
        exchange, plan, upstream = self._exchange, self._plan, self._upstream
        assert plan is not None
        assert upstream is not None
        if credential.signer is not None and signing is None:
            found = signing_of(exchange, credential.signer, plan.body)
            if not isinstance(found, Signing):
                self._run(found, lambda signing: self._send(credential, signing, fresh=fresh))
                return
            signing = found
        exchange.key_hash = credential.key_hash or None
        exchange.credential, exchange.signing = credential, signing
        exchange.attempts += 1
        exchange.upstream_request_id = None
        self._credential = credential
        self._is_fresh = fresh
        self._is_sending = True
        if exchange.upstream_time is not None:
            exchange.upstream_time.begin()
        cancel = plan.send(credential, upstream, self, fresh=fresh, signing=signing)
        if self._is_sending:  # else the response is there already
            self._cancel = cancel

    def _on_refusal(self, response: UpstreamResponse) -> None:
        """Ask whether there is another credential, where this one may be what was refused."""
        credentials, credential, status = self._credentials, self._credential, response.status
        assert credentials is not None
        assert credential is not None
        if not may_be_replaced(credentials, credential, status, renewed=self._renewed):
            self._on_other_credential(None)
            return
        asking = another_credential(self._exchange, credentials, credential, response, renewed=self._renewed)
        self._run(asking, self._on_other_credential, self._on_no_other_credential)

    def _on_other_credential(self, another: Credential | None) -> None:
        response = self._response
        assert response is not None
        if another is None:
            self._ask_for_less(response, self._on_less)
            return
        self._renewed = self._renewed or response.status == _UNAUTHORIZED
        self._drop_response()
        self._send(another)

    def _on_less(self, other: Plan | None) -> None:
        """Send the request without what the host refuses of it, where that can be left out."""
        if other is not None:
            self._on_retry(other)
            return
        response = self._response
        assert response is not None
        trouble = trouble_of_response(response, self._attempts)
        self._try_again(trouble, partial(self._respond, response))

    def _respond(self, response: UpstreamResponse) -> None:
        plan = self._plan
        assert plan is not None
        attempts, early_head = self._attempts, self._early_head
        may_try_again = attempts is not None
        if early_head is None:
            client_response = plan.client_response(response, may_try_again=may_try_again)
        else:
            client_response = early_head.client_response(plan, response, may_try_again=may_try_again)
        if response.status >= _BAD_REQUEST and isinstance(plan, Translation) and plan.retry is not None:
            assert isinstance(client_response, BufferedResponse), "a refusal is no stream"
            planning = plan_without_thoughts(self._exchange, plan, plan.retry, response, client_response)
            self._run(planning, self._on_retry)
            return
        if type(client_response) is WholeResponse:
            self._forget_request()
            self._response = None
            if early_head is not None and early_head.was_sent:
                self._send_full(early_head.full_of(client_response))
                return
            send_whole(self._exchange, client_response, self._channel)
            self._succeed()
            return
        is_held = isinstance(client_response, StreamingResponse) and client_response.early_failure is not None
        may_send_less = plan.wired is not None and plan.wired.may_leave_out
        if not (is_held and (attempts is not None or may_send_less)):
            self._forget_request()  # a stream may last for hours, and nothing needs its request now
        if isinstance(client_response, StreamingResponse):
            self._relay(response, client_response)
            return
        full = complete_at_once(self._exchange, response, client_response)
        if full is None:
            self._run(complete_response(self._exchange, response, client_response), self._send_full)
        else:
            self._response = None
            self._send_full(full)

    def _on_retry(self, other: Plan | FullResponse) -> None:
        self._drop_response()
        self._on_plan(other)

    def _relay(self, response: UpstreamResponse, streaming: StreamingResponse) -> None:
        channel, early_head = self._channel, self._early_head
        delivery = StreamDelivery(self._exchange, channel, streaming, early_head, self._on_open)
        self._held_stream = None if delivery.early_failure is None else delivery
        relay = delivery.relay(response, self._on_relayed)
        self._cancel, self._relaying = relay.cancel, relay
        response.head.forget_lines()
        relay.start()

    def _on_open(self) -> None:
        self._held_stream = None
        self._forget_request()

    def _on_relayed(self, error: Exception | None) -> None:
        self._cancel = self._relaying = None
        held = self._held_stream
        early_failure = None if held is None else held.early_failure
        if error is None:
            self._succeed()
        elif held is None or early_failure is None or not isinstance(error, GatewayError):
            self._fail(error)
        else:
            try:
                self._ask_for_less(error, partial(self._on_early_break, held, early_failure, error))
            except Exception as another:
                self._fail(another)

    def _on_early_break(
        self, held: StreamDelivery, early_failure: EarlyFailure, error: GatewayError, less: Plan | None
    ) -> None:
        """Try again, or refuse, since the stream broke before it said anything.

        :param less: the request without what the host refuses of it.
        """
        if less is not None:
            self._held_stream = None
            self._on_retry(less)
            return
        said = error.error if isinstance(error, AnswerError) else early_failure.said()
        trouble = trouble_of_early_break(said, error, None if self._attempts is None else self._attempts.rule)
        self._try_again(trouble, partial(self._refuse_early, held, early_failure, error), error)

    def _ask_for_less(
        self, refusal: UpstreamResponse | GatewayError, then: Callable[[Plan | None], None]
    ) -> None:
        """Go on with the request without what a refusal is about; with ``None``: that is something else."""
        plan = self._plan
        wired = None if plan is None else plan.wired
        if plan is None or wired is None or not wired.may_leave_out:
            then(None)
        else:
            self._run(plan_without_refused(self._exchange, plan, wired, refusal), then)

    def _refuse_early(self, held: StreamDelivery, early_failure: EarlyFailure, error: GatewayError) -> None:
        self._forget_request()
        self._send_full(held.refuse(early_failure, error))

    def _send_full(self, full: FullResponse) -> None:
        if full.error is not None:
            note_error(self._exchange, full, full.error)
        early_head = self._early_head
        if early_head is not None and early_head.was_sent:
            sending = early_head.send_full(full)
        else:
            sending = send_full(self._exchange, full, self._channel)
        if sending is None:
            self._succeed()
        else:
            self._wait(sending, lambda _: self._succeed())

    # Another attempt.

    def _try_again(
        self, trouble: Trouble | None, give_up: Callable[[], None], error: Exception | None = None
    ) -> None:
        """Repeat the request, or send it to another target, where the table of attempts says so.

        :param give_up: what is done else.
        :param error: what went wrong, where no response says it.
        """
        attempts = self._attempts
        step = Step.GIVE_UP if attempts is None or trouble is None else attempts.next_step(trouble)
        if attempts is None or trouble is None or step is Step.GIVE_UP:
            give_up()
        elif step is Step.REPEAT:
            self._forget_attempt(error)
            seconds = attempts.begin_repetition(trouble, self._exchange.generation.chance())
            self._cancel = self._exchange.clock.callLater(seconds, self._repeat).cancel
        else:
            request = self._request
            assert request is not None, "it is kept for as long as there may be another attempt"
            planning = plan_fallback(self._exchange, request, self._body, attempts)
            self._run(planning, partial(self._fall_back, give_up, error))

    def _repeat(self) -> None:
        self._cancel = None
        assert self._plan is not None
        try:
            self._authenticate(self._plan.target)
        except Exception as error:
            self._fail(error)

    def _fall_back(
        self, give_up: Callable[[], None], error: Exception | None, plan: Plan | FullResponse | None
    ) -> None:
        if plan is None:
            give_up()
        else:
            self._forget_attempt(error)
            self._renewed = False
            self._on_plan(plan)

    def _forget_attempt(self, error: Exception | None) -> None:
        """Let go of a response that nobody gets; the log says why another attempt is made."""
        response, self._response = self._response, None
        self._held_stream = None
        if self._exchange.untold is not None:
            self._exchange.untold.is_answered = False
        assert self._plan is not None
        report_attempt(self._exchange, self._plan.target, response, error)
