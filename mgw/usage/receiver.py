"""Post to the receiver of a usage sink, and say what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct
from twisted.internet.defer import CancelledError
from twisted.internet.error import MessageLengthError
from twisted.internet.interfaces import IReactorTime

from mgw.nouns.errors import GatewayError, forget_frames
from mgw.reactor.treq_arguments import ExactURL, TimeLimit, as_reactor, headers_of
from mgw.reactor.treq_client import HTTPClient, ResponseFailed
from mgw.usage.outbox import Result, Verdict

MAX_RESPONSE_BYTES: Final = 64 * 1024
"""How much of an answer is read: enough for an error report, and for the connection to be used again."""


class Answer(Struct, frozen=True):
    """The answer of a receiver."""

    status: int
    body: bytes | None
    """The whole body, or ``None`` where it is larger than :data:`MAX_RESPONSE_BYTES`."""

    def __repr__(self) -> str:
        return f"Answer({self.status})"


@dataclass(slots=True, eq=False)
class Receiver:
    """A receiver of usage events over HTTP."""

    http: HTTPClient = field(repr=False)
    """treq's client, over an agent that returns whole responses of :data:`MAX_RESPONSE_BYTES` or less."""
    close: Callable[[], None] = field(repr=False)
    """Closes the connections of ``http``."""
    clock: IReactorTime = field(repr=False)
    seconds: float
    """How long one request may take, until its answer has arrived as a whole."""

    async def post(
        self, url: ExactURL, headers: Iterable[tuple[bytes, bytes]], body: bytes
    ) -> Answer | Result:
        """Post a body; where no answer comes, return the result that says why.

        Redirects are not followed.  Cancelling closes the connection.
        """
        limit = TimeLimit(self.clock)
        try:
            response = await self.http.request(
                "POST",
                url,
                headers=headers_of(headers),
                data=body,
                timeout=self.seconds,
                reactor=as_reactor(limit),
                allow_redirects=False,
            )
            return Answer(response.code, await response.content())
        except MessageLengthError as error:
            forget_frames(error)  # of all these errors: their frames hold the events
            return Answer(response.code, None)
        except CancelledError as error:
            if not limit.has_run_out:
                raise  # by whoever waits for the result, and not by treq's timer
            forget_frames(error)
            return Result(Verdict.RETRY, f"no answer within {self.seconds:g} s")
        except (GatewayError, ResponseFailed) as error:
            forget_frames(error)
            cause = error.cause if isinstance(error, GatewayError) else None
            return Result(Verdict.RETRY, "cannot be reached" if cause is None else f"failed ({cause.value})")
