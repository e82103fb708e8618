"""Usage events to an HTTP endpoint, in batches that arrive at least once (``hooks.webhook``)."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from twisted.internet.defer import Deferred

from mgw import __version__
from mgw.config.hooks import WebhookSettings
from mgw.nouns.secret import Secret
from mgw.reactor.treq_arguments import ExactURL
from mgw.usage.outbox import DELIVERED, Outbox, OutboxOptions, Result, Verdict
from mgw.usage.receiver import Receiver
from mgw.usage.sinks import SinkTools

_USUAL_HEADERS: Final = (
    (b"Content-Type", b"application/json"),
    (b"User-Agent", f"mgw/{__version__}".encode()),
)


@dataclass(slots=True)
class Webhook:
    """What is posted to the receiver, and what its answers mean."""

    receiver: Receiver
    url: ExactURL = field(repr=False)
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    """The operator's own headers."""
    secret: Secret | None
    """The key of the signatures; ``None``: nothing is signed."""
    wall: Callable[[], float]
    """Returns Unix seconds."""

    def deliver(self, key: str, lines: list[bytes]) -> Deferred[Result]:
        """Post a batch; cancelling closes the connection."""
        return Deferred.fromCoroutine(self._deliver(key, lines))

    async def _deliver(self, key: str, lines: list[bytes]) -> Result:
        body = b"[" + b",".join([line[:-1] for line in lines]) + b"]"
        answer = await self.receiver.post(self.url, self._headers(key, body), body)
        if isinstance(answer, Result):
            return answer
        if 200 <= answer.status < 300:
            return DELIVERED
        if answer.status == 410:
            return Result(Verdict.REFUSED, "the receiver returned status 410; dropping a batch")
        return Result(Verdict.RETRY, f"the receiver returned status {answer.status}")

    def _headers(self, key: str, body: bytes) -> list[tuple[bytes, bytes]]:
        headers = [*_USUAL_HEADERS, *self.headers, (b"Idempotency-Key", key.encode("ascii"))]
        if self.secret is not None:
            headers += [
                (b"X-Gateway-Signature", signature(self.secret, body)),
                (b"X-Gateway-Signature-256", timed_signature(self.secret, int(self.wall()), key, body)),
            ]
        return headers


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
    receiver: Receiver
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
        return self.outbox.close().addCallback(lambda _: self.receiver.close())


def open_sink(settings: WebhookSettings, tools: SinkTools) -> WebhookSink:
    """Begin to post to ``hooks.webhook``; whether the receiver is there is not asked."""
    receiver = tools.receiver(settings.timeout_seconds)
    headers = tuple(
        (name.encode("ascii"), value.reveal().encode("latin-1"))
        for name, value in settings.headers.items()
        if isinstance(value, Secret)  # as all are that have been loaded
    )
    webhook = Webhook(receiver, ExactURL(settings.url), headers, settings.secret, tools.wall)
    options = OutboxOptions(settings.batch_max, settings.flush_seconds, save_first=True)
    outbox = tools.outbox("webhook", webhook.deliver, options)
    outbox.start()
    return WebhookSink(outbox, receiver)
