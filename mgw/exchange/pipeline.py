"""The system as one object: one request, from its plan to the last byte of its response.

::

    start ── plan ── credential ── send ── response ── relay ── end: settled, ``on_end`` called
                         ▲                    │
                         └── refused, stale ──┘

A step is called, not awaited, where nothing waits.  What may wait is the plan of a large body, a credential,
the connection and the response; each begins the next step when it is there.

Two things lead to a second attempt before the first byte to the client: a pooled connection that turns out
closed before any byte of a response came (for requests that create nothing, or carry an ``Idempotency-Key``),
and a credential that the upstream refuses while its source has another; after a 401 one other (contract
3.13).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mgw.bodies.source import BodySource
from mgw.credentials.provider import Credential, CredentialProvider, Refusal
from mgw.credentials.static import OptionalCredential
from mgw.errors import GatewayError
from mgw.exchange.exchange import IS_REQUEST_ID, Exchange
from mgw.exchange.offload import maybe_offload, run_until_waiting
from mgw.exchange.planning import plan_for, plan_known
from mgw.exchange.relay import HeldHead, Relay
from mgw.exchange.request import ClientRequest, ResponseChannel
from mgw.exchange.response import (
    BufferedResponse,
    EarlyFailure,
    FullResponse,
    Plan,
    StreamingResponse,
    WholeResponse,
    complete_at_once,
    complete_response,
    read_body,
    send_full,
    send_head,
    send_whole,
)
from mgw.exchange.translation import Translation, TranslationBuilder
from mgw.upstream.client import Upstream, UpstreamFailure, UpstreamResponse
from mgw.wire.headers import value_of
from mgw.wire.target import query_value

T = TypeVar("T")

_BAD_REQUEST: Final = 400
_UNAUTHORIZED: Final = 401


async def serve(
    exchange: Exchange, request: ClientRequest, body: bytes | BodySource, channel: ResponseChannel
) -> None:
    """Answer a request, and leave its usage event behind.

    :raises GatewayError: a refusal that the caller says in the client's dialect if nothing was sent yet.
    """

    def on_end(error: Exception | None) -> None:
        if error is None:
            ended.callback(None)
        else:
            ended.errback(error)

    run = ExchangeRun(exchange, request, channel, on_end)
    ended: Deferred[None] = Deferred(lambda _: run.cancel())
    run.start(body)
    await ended


class ExchangeRun:
    """One exchange under way.

    :param on_end: called once, unless the run is cancelled: with ``None``, or what went wrong.  That is a
        refusal, which the caller says if nothing was sent yet, or a bug.  The exchange is settled by then.
    """

    __slots__ = (
        "_cancel",
        "_channel",
        "_credential",
        "_credentials",
        "_early_failure",
        "_exchange",
        "_is_fresh",
        "_is_sending",
        "_on_end",
        "_plan",
        "_renewed",
        "_request",
        "_response",
        "_upstream",
    )

    def __init__(
        self,
        exchange: Exchange,
        request: ClientRequest,
        channel: ResponseChannel,
        on_end: Callable[[Exception | None], None],
    ) -> None:
        self._exchange = exchange
        self._request: ClientRequest | None = request
        self._channel = channel
        self._on_end: Callable[[Exception | None], None] | None = on_end
        self._plan: Plan | None = None
        self._credentials: CredentialProvider | None = None
        self._credential: Credential | None = None
        self._renewed = False
        self._upstream: Upstream | None = None
        self._is_sending = self._is_fresh = False
        self._response: UpstreamResponse | None = None
        self._early_failure: EarlyFailure | None = None
        self._cancel: Callable[[], None] | None = None

    def start(self, body: bytes | BodySource) -> None:
        """Begin; does not raise."""
        exchange, request = self._exchange, self._request
        assert request is not None
        try:
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

    # What the upstream calls.

    def on_response(self, response: UpstreamResponse) -> None:
        """Pass the response on, unless it refuses a credential of which there is another."""
        self._cancel = None
        self._is_sending = False
        self._response = response
        request_id = response.head.request_id
        if request_id is not None and IS_REQUEST_ID(request_id):
            self._exchange.upstream_request_id = request_id.decode("ascii")
        credentials, credential = self._credentials, self._credential
        assert credentials is not None
        assert credential is not None
        try:
            status = response.status
            is_refusal = status >= _BAD_REQUEST and credentials.refusable(status)
            if is_refusal and not (self._renewed and status == _UNAUTHORIZED):
                target = self._exchange.target
                model = None if target is None else target.upstream_model
                refusal = Refusal(status, response.headers, model)
                self._run(credentials.refused(credential, refusal), self._on_other_credential)
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
            stale = isinstance(error, UpstreamFailure) and error.stale
            if stale and not self._is_fresh and self._is_repeatable():
                self._send(self._credential, fresh=True)
            else:
                self._fail(error)
        except Exception as another:
            self._fail(another)

    # The steps.  What raises ends the run, in whoever called.

    def _on_plan(self, plan: Plan | FullResponse) -> None:
        if isinstance(plan, FullResponse):
            self._send_full(plan)
            return
        self._plan = plan
        generation, name = self._exchange.generation, plan.target.provider.name
        self._upstream = generation.upstreams[name]
        assert self._request is not None
        credentials, key = generation.credentials[name], self._request.key
        if self._exchange.route.is_upload:
            credentials = self._upload_credentials(credentials)
        self._credentials = credentials
        model = plan.target.upstream_model
        credential = credentials.ready(key, model)
        if credential is None:
            self._run(credentials.obtain(key, model), self._send)
        else:
            self._send(credential)

    def _upload_credentials(self, credentials: CredentialProvider) -> CredentialProvider:
        """Return the credentials of an upload, whose chunks need none: their URL is enough."""
        assert self._request is not None
        is_chunk = query_value(self._request.raw_query, "upload_id")
        return OptionalCredential(credentials) if is_chunk else credentials

    def _send(self, credential: Credential, *, fresh: bool = False) -> None:
        exchange, plan, upstream = self._exchange, self._plan, self._upstream
        assert plan is not None
        assert upstream is not None
        exchange.key_hash = credential.key_hash or None
        exchange.attempts += 1
        exchange.upstream_request_id = None
        self._credential = credential
        self._is_fresh = fresh
        self._is_sending = True
        cancel = plan.send(credential, upstream, self, fresh=fresh)
        if self._is_sending:  # else the response is there already
            self._cancel = cancel

    def _on_other_credential(self, another: Credential | None) -> None:
        response = self._response
        assert response is not None
        if another is None:
            self._respond(response)
            return
        self._renewed = self._renewed or response.status == _UNAUTHORIZED
        self._response = None
        response.cancel()
        self._send(another)

    def _respond(self, response: UpstreamResponse) -> None:
        plan = self._plan
        assert plan is not None
        client_response = plan.client_response(response)
        if response.status == _BAD_REQUEST and isinstance(plan, Translation) and plan.retry is not None:
            assert isinstance(client_response, BufferedResponse), "a refusal is no stream"
            self._run(self._without_thoughts(plan, plan.retry, response, client_response), self._on_retry)
            return
        self._forget_request()  # a stream may last for hours, and nothing needs its request now
        if isinstance(client_response, WholeResponse):
            self._response = None
            send_whole(self._exchange, client_response, self._channel)
            self._succeed()
            return
        if isinstance(client_response, StreamingResponse):
            self._relay(response, client_response)
            return
        full = complete_at_once(self._exchange, response, client_response)
        if full is None:
            self._run(complete_response(self._exchange, response, client_response), self._send_full)
        else:
            self._response = None
            self._send_full(full)

    async def _without_thoughts(
        self,
        plan: Translation,
        builder: TranslationBuilder,
        response: UpstreamResponse,
        refused: BufferedResponse,
    ) -> Plan | FullResponse:
        """Return the same request without thoughts if it was refused for them, else the response."""
        exchange = self._exchange
        body = await read_body(exchange, response, refused.max_bytes)
        if not plan.is_refused_for_thoughts(response.status, body):
            return refused.complete(body)
        other = await maybe_offload(exchange.offload, builder.build_without_thoughts, large=builder.is_large)
        builder.record_findings()
        exchange.first_byte_at = None  # that was of a response which nobody gets
        return other

    def _on_retry(self, other: Plan | FullResponse) -> None:
        response, self._response = self._response, None
        assert response is not None
        response.cancel()
        self._on_plan(other)

    def _relay(self, response: UpstreamResponse, streaming: StreamingResponse) -> None:
        exchange, channel, held_head = self._exchange, self._channel, None
        self._early_failure = early_failure = streaming.early_failure
        if early_failure is None:
            send_head(exchange, streaming, channel)
        else:
            send = partial(send_head, exchange, streaming, channel)
            held_head = HeldHead(send, early_failure.awaits_first_event)
        relay = Relay(
            exchange,
            response,
            streaming.body_filter,
            channel,
            self._on_relayed,
            streaming.keepalive_seconds,
            held_head,
        )
        self._cancel = relay.cancel
        response.head.forget_lines()
        relay.start()

    def _on_relayed(self, error: Exception | None) -> None:
        self._cancel = None
        early_failure = self._early_failure
        if error is None:
            self._succeed()
        elif early_failure is None or self._channel.started or not isinstance(error, GatewayError):
            self._fail(error)
        else:
            try:
                refusal = early_failure.refuse(error)
                self._exchange.early_failure = error
                self._send_full(refusal)
            except Exception as another:
                self._fail(another)

    def _send_full(self, full: FullResponse) -> None:
        sending = send_full(self._exchange, full, self._channel)
        if sending is None:
            self._succeed()
        else:
            self._wait(sending, lambda _: self._succeed())

    # Waiting, and the end.

    def _run(self, coroutine: Coroutine[Deferred[Any], Any, T], then: Callable[[T], None]) -> None:
        """Go on with what a coroutine returns, at once if it need not wait."""
        result = run_until_waiting(coroutine)
        if isinstance(result, Deferred):
            self._wait(result, then)
        else:
            then(result)

    def _wait(self, deferred: Deferred[T], then: Callable[[T], None]) -> None:
        def proceed(result: T) -> None:
            self._cancel = None
            if self._on_end is not None:
                then(result)

        self._cancel = deferred.cancel
        _ = deferred.addCallback(proceed).addErrback(self._on_waiting_failed)

    def _on_waiting_failed(self, failure: Failure) -> None:
        error = failure.value
        assert isinstance(error, Exception), "what ends the process does not end here"
        self._fail(error)

    def _succeed(self) -> None:
        self._exchange.responded()
        self._end(None)

    def _fail(self, error: Exception) -> None:
        if self._on_end is not None:
            self._exchange.failed(error)
            self._end(error)

    def _end(self, error: Exception | None) -> None:
        """Let go of everything, and then say so; an upstream's response that was not read is cut off."""
        on_end, self._on_end = self._on_end, None
        if self._request is not None:
            self._forget_request()
        self._cancel = self._early_failure = None
        response, self._response = self._response, None
        if response is not None:
            response.cancel()
        if on_end is not None:
            on_end(error)

    def _forget_request(self) -> None:
        self._plan = self._request = self._upstream = self._credentials = self._credential = None

    def _is_repeatable(self) -> bool:
        request = self._request
        assert request is not None
        if self._exchange.route.repeatable:
            return True
        return value_of(request.headers, b"idempotency-key") is not None
