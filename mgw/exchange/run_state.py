"""What the run of one exchange holds, and how it lets go of it."""

from __future__ import annotations

from collections.abc import Callable

from mgw.bodies.source import BodySource
from mgw.credentials.provider import Credential, CredentialProvider
from mgw.exchange.attempts import Attempts, creates_nothing
from mgw.exchange.early_head import EarlyHead
from mgw.exchange.exchange import Exchange
from mgw.exchange.relay import Relay
from mgw.exchange.response import Plan
from mgw.exchange.response_channel import ResponseChannel
from mgw.exchange.stream_delivery import StreamDelivery
from mgw.exchange.waiting import WaitingRun
from mgw.memo.client_request import ClientRequest
from mgw.upstream.client import Upstream, UpstreamResponse


class RunState(WaitingRun):
    """The state of a run.

    :param on_end: called once, unless the run is cancelled: with ``None``, or what went wrong.  That is a
        refusal, which the caller says if nothing was sent yet, or a bug.  The exchange is settled by then.
    """

    __slots__ = (
        *("_attempts", "_body", "_channel", "_credential", "_credentials", "_early_head", "_exchange"),
        *("_held_stream", "_is_fresh", "_is_sending", "_plan", "_renewed", "_request", "_response"),
        *("_relaying", "_upstream"),
    )

    def __init__(
        self,
        exchange: Exchange,
        request: ClientRequest,
        channel: ResponseChannel,
        on_end: Callable[[Exception | None], None],
    ) -> None:
        self._on_end = on_end
        self._cancel = None
        self._exchange = exchange
        self._request: ClientRequest | None = request
        self._channel = channel
        self._plan: Plan | None = None
        self._credentials: CredentialProvider | None = None
        self._credential: Credential | None = None
        self._renewed = False
        self._upstream: Upstream | None = None
        self._is_sending = self._is_fresh = False
        self._response: UpstreamResponse | None = None
        self._relaying: Relay | None = None
        """What hands a body on at the moment."""
        self._held_stream: StreamDelivery | None = None
        """A stream of which the client has nothing yet."""
        self._early_head: EarlyHead | None = None
        """``None``: the client hears nothing before an answer."""
        self._attempts: Attempts | None = None
        """``None``: nothing is configured that leads to another."""
        self._body: bytes | BodySource = b""
        """The body as the client sent it, for as long as it may go to another target."""

    def _succeed(self) -> None:
        self._exchange.responded()
        self._end(None)

    def _fail(self, error: Exception) -> None:
        if self._on_end is not None:
            if self._early_head is not None:
                self._early_head.fail(error)
            self._exchange.failed(error)
            self._end(error)

    def _end(self, error: Exception | None) -> None:
        """Let go of everything, and then say so; an upstream's response that was not read is cut off.

        It is said whatever goes wrong: the usage event waits for it.
        """
        on_end, self._on_end = self._on_end, None
        if self._request is not None:
            self._forget_request()
        self._cancel = self._held_stream = self._relaying = None
        early_head, self._early_head = self._early_head, None
        response, self._response = self._response, None
        try:
            if early_head is not None:
                early_head.close()
            if response is not None:
                response.cancel()
        finally:
            if on_end is not None:
                on_end(error)

    def _forget_request(self) -> None:
        self._plan = self._request = self._upstream = self._credentials = self._credential = None
        self._attempts = None
        self._body = b""

    def _creates_nothing(self) -> bool:
        assert self._request is not None
        return creates_nothing(self._exchange.route, self._request)

    def _drop_response(self) -> None:
        response, self._response = self._response, None
        assert response is not None
        response.cancel()
