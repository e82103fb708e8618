"""Post spans and metrics to an OpenTelemetry collector, encoded in a thread (OTLP over HTTP).

Source: opentelemetry.io/docs/specs/otlp, "OTLP/HTTP Response": what each status means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from mgw import __version__
from mgw.reactor.daemon_threads import SerialRunner
from mgw.reactor.treq_arguments import ExactURL
from mgw.usage.operation_metrics import OperationMetrics
from mgw.usage.outbox import DELIVERED, Result, Verdict
from mgw.usage.receiver import Receiver

if TYPE_CHECKING:
    from mgw.usage.otlp_encoder import OtlpEncoder

TIMEOUT_SECONDS: Final = 10.0
"""How long one request may take, its response included."""
_RETRYABLE: Final = frozenset({429, 502, 503, 504})
_USUAL_HEADERS: Final = (
    (b"Content-Type", b"application/x-protobuf"),
    (b"User-Agent", f"mgw/{__version__}".encode()),
)

T = TypeVar("T")


def _load_encoder(instance_id: str) -> OtlpEncoder:
    from mgw.usage.otlp_encoder import OtlpEncoder  # a second of imports, so it is done in the thread

    return OtlpEncoder(instance_id)


@dataclass(slots=True, eq=False)
class Collector:
    """What a collector is sent, what its answers mean, and the thread that encodes."""

    receiver: Receiver
    clock: IReactorTime = field(repr=False)
    runner: SerialRunner = field(repr=False)
    """The thread that encodes."""
    endpoint: str = field(repr=False)
    """The base address, to which the path of each signal is added."""
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    """The operator's own headers."""
    instance_id: str
    """A name that no other sink has, so that the collector keeps the numbers of several gateways apart."""
    _encoder: OtlpEncoder | None = field(default=None, repr=False)
    """The encoder, which the thread makes and alone uses."""

    def deliver(self, key: str, lines: list[bytes]) -> Deferred[Result]:
        """Post a batch of spans; cancelling closes the connection."""
        return Deferred.fromCoroutine(self._deliver(key, lines))

    def send_metrics(self, metrics: OperationMetrics, since: float, now: float) -> Deferred[Result]:
        """Post the metrics; cancelling closes the connection."""
        return Deferred.fromCoroutine(self._send_metrics(metrics, since, now))

    def close(self) -> None:
        """Close the connections, and let the thread end."""
        self.runner.stop()
        self.receiver.close()

    async def _deliver(self, key: str, lines: list[bytes]) -> Result:
        encoded = await self._in_thread(lambda encoder: encoder.encode_lines(lines))
        if isinstance(encoded, Exception):
            return Result(Verdict.RETRY, f"cannot be encoded ({type(encoded).__name__})")
        lost, result = encoded.unreadable, DELIVERED
        if encoded.body:
            result = await self._post("/v1/traces", encoded.body, _idempotency_key(key))
            if result.verdict is not Verdict.DELIVERED:
                return result
            lost += result.lost
        reason = result.reason if result.lost else "stored events cannot be read"
        return Result(Verdict.DELIVERED, reason, lost) if lost else DELIVERED

    async def _send_metrics(self, metrics: OperationMetrics, since: float, now: float) -> Result:
        points = metrics.points()
        body = await self._in_thread(lambda encoder: encoder.encode_points(points, since, now))
        if isinstance(body, Exception):
            return Result(Verdict.RETRY, f"cannot be encoded ({type(body).__name__})")
        return await self._post("/v1/metrics", body)

    async def _post(self, path: str, body: bytes, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Result:
        all_headers = (*_USUAL_HEADERS, *self.headers, *headers)
        answer = await self.receiver.post(ExactURL(self.endpoint + path), all_headers, body)
        if isinstance(answer, Result):
            return answer
        status = answer.status
        if 200 <= status < 300:
            return await self._accepted(answer.body)
        if status < 400 or status in _RETRYABLE:
            return Result(Verdict.RETRY, f"the receiver returned status {status}")
        return Result(Verdict.REFUSED, f"the receiver returned status {status}")

    async def _accepted(self, body: bytes | None) -> Result:
        """Read how many spans were refused; metrics have their count in the same place."""
        if not body:
            return DELIVERED
        refused = await self._in_thread(lambda encoder: encoder.rejected(body))
        if isinstance(refused, Exception) or refused <= 0:  # it is not said how many
            return DELIVERED
        return Result(
            Verdict.DELIVERED, f"the receiver rejected {refused} spans or points of a batch", refused
        )

    def _in_thread(self, work: Callable[[OtlpEncoder], T]) -> Deferred[T | Exception]:
        done: Deferred[T | Exception] = Deferred()

        def encode_it() -> T:
            if self._encoder is None:
                self._encoder = _load_encoder(self.instance_id)
            return work(self._encoder)

        try:
            self.runner.run(encode_it, done.callback)
        except OSError as error:  # the system gives no thread
            self.clock.callLater(0, done.callback, error)
        return done


def _idempotency_key(key: str) -> tuple[tuple[bytes, bytes], ...]:
    """Say that a batch may be sent again, so that it can go over a connection that the receiver may close."""
    return ((b"Idempotency-Key", key.encode("ascii")),)
