"""Usage events to an HTTP endpoint, in batches that arrive at least once (``hooks.webhook``)."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from twisted.internet.defer import Deferred, TimeoutError  # noqa: A004  Twisted's own name
from twisted.internet.interfaces import IReactorTime
from twisted.web.client import ResponseFailed
from twisted.web.iweb import IAgent

from mgw import __version__
from mgw.config.hooks import WebhookSettings
from mgw.nouns.errors import GatewayError, forget_frames
from mgw.nouns.secret import Secret
from mgw.reactor.own_requests import OwnRequest, send_request
from mgw.usage.outbox import DELIVERED, Outbox, OutboxOptions, Result, Verdict
from mgw.usage.sinks import SinkTools

MAX_RESPONSE_BYTES: Final = 64 * 1024
"""How much of an answer is read, so that the connection can be used again; nothing of it is looked at."""
_USUAL_HEADERS: Final = (
    (b"Content-Type", b"application/json"),
    (b"User-Agent", f"mgw/{__version__}".encode()),
)


@dataclass(slots=True)
class Webhook:
    """The receiver, and how it is told."""

    agent: IAgent = field(repr=False)
    clock: IReactorTime = field(repr=False)
    url: bytes = field(repr=False)
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    secret: Secret | None
    timeout_seconds: float
    wall: Callable[[], float]
    """Unix seconds."""

    def deliver(self, key: str, lines: list[bytes]) -> Deferred[Result]:
        """Post a batch; cancelling closes the connection."""
        return Deferred.fromCoroutine(self._deliver(self.request(key, lines)))

    def request(self, key: str, lines: Sequence[bytes]) -> OwnRequest:
        """Return the request with a batch: the same for the same batch, but for the time that is signed."""
        body = b"[" + b",".join([line[:-1] for line in lines]) + b"]"
        headers = [*_USUAL_HEADERS, *self.headers, (b"Idempotency-Key", key.encode("ascii"))]
        if self.secret is not None:
            headers += [
                (b"X-Gateway-Signature", signature(self.secret, body)),
                (b"X-Gateway-Signature-256", timed_signature(self.secret, int(self.wall()), key, body)),
            ]
        return OwnRequest("POST", self.url, tuple(headers), body)

    async def _deliver(self, request: OwnRequest) -> Result:
        sending = Deferred.fromCoroutine(send_request(self.agent, request, MAX_RESPONSE_BYTES, self.clock))
        try:
            response = await sending.addTimeout(self.timeout_seconds, self.clock)
        except TimeoutError as error:
            forget_frames(error)
            return Result(Verdict.RETRY, f"no answer within {self.timeout_seconds:g} s")
        except (GatewayError, ResponseFailed) as error:
            forget_frames(error)  # they hold the events
            cause = error.cause if isinstance(error, GatewayError) else None
            return Result(Verdict.RETRY, "cannot be reached" if cause is None else f"failed ({cause.value})")
        if 200 <= response.status < 300:
            return DELIVERED
        if response.status == 410:
            return Result(Verdict.REFUSED, "the receiver returned status 410; dropping a batch")
        return Result(Verdict.RETRY, f"the receiver returned status {response.status}")


def signature(secret: Secret, body: bytes) -> bytes:
    """Return ``X-Gateway-Signature``."""
    return b"sha256=" + hmac.digest(secret.reveal().encode(), body, "sha256").hex().encode()


def timed_signature(secret: Secret, now: int, key: str, body: bytes) -> bytes:
    """Return ``X-Gateway-Signature-256``, by which a receiver knows an old batch that somebody sends again.

    :param now: Unix seconds.
    :param key: the batch's ``Idempotency-Key``.
    """
    signed = b"%d.%b.%b" % (now, key.encode("ascii"), body)
    digest = hmac.digest(secret.reveal().encode(), signed, "sha256")
    return b"t=%d,v1=%b" % (now, digest.hex().encode())


@dataclass(slots=True)
class WebhookSink:
    """A usage sink that posts; :mod:`mgw.usage.outbox` states its rules."""

    outbox: Outbox
    close_connections: Callable[[], None] = field(repr=False)
    name: str = "webhook"

    @property
    def errors(self) -> int:
        """How many tries failed."""
        return self.outbox.errors

    @property
    def dropped(self) -> int:
        """How many events were lost: refused with 410, or too old for the room on the disk."""
        return self.outbox.dropped

    @property
    def waiting(self) -> int:
        """How many events are not delivered yet, in memory and on disk."""
        return self.outbox.waiting

    def record_lines(self, lines: Sequence[bytes]) -> None:
        """Take lines, which are posted within ``flush_seconds``."""
        self.outbox.record_lines(lines)

    def flush(self) -> None:
        """Post what waits."""
        self.outbox.flush()

    def reopen(self) -> None:
        """Do nothing: its files are its own."""

    def close(self) -> Deferred[None]:
        """Post what waits, and store what cannot be posted."""
        return self.outbox.close().addCallback(lambda _: self.close_connections())


def open_sink(settings: WebhookSettings, tools: SinkTools) -> WebhookSink:
    """Begin to post to ``hooks.webhook``; whether the receiver is there is not asked."""
    agent, close_connections = tools.new_agent(settings.timeout_seconds)
    headers = tuple(
        (name.encode("ascii"), value.reveal().encode("latin-1"))
        for name, value in settings.headers.items()
        if isinstance(value, Secret)  # as all are that have been loaded
    )
    webhook = Webhook(
        agent,
        tools.reactor,
        settings.url.encode("ascii"),
        headers,
        settings.secret,
        settings.timeout_seconds,
        tools.wall,
    )
    options = OutboxOptions(settings.batch_max, settings.flush_seconds, save_first=True)
    outbox = tools.outbox("webhook", webhook.deliver, options)
    outbox.start()
    return WebhookSink(outbox, close_connections)
