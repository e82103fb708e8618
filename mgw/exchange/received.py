"""What has come of a provider's answer, and what went wrong in it."""

from __future__ import annotations

from typing import Final, Protocol

from msgspec import Struct

from mgw.canonical.reply import TokenUsage, UpstreamError
from mgw.nouns.errors import Cause, GatewayError, Reason

FIRST_SERVER_ERROR: Final = 500


def stream_error(error: UpstreamError) -> GatewayError:
    """Return the error of a stream that the provider ended with its own.

    A variable of whoever raises it would hold itself by its traceback.
    """
    found = GatewayError(Reason.UPSTREAM_BROKEN, "the upstream ended its stream with an error")
    return found.because(Cause.UPSTREAM_ERROR_EVENT).quoting(error.own_message)


def status_error(status: int, provider_message: str | None = None) -> GatewayError:
    """Return what a provider's refusal is for whoever is told why the exchange did not end well."""
    error = GatewayError(Reason.UPSTREAM_BROKEN, f"the provider returned status {status}")
    cause = Cause.UPSTREAM_4XX if status < FIRST_SERVER_ERROR else Cause.UPSTREAM_5XX
    return error.because(cause).quoting(provider_message)


class Fault(Struct, frozen=True):
    """What went wrong in a response that the client got all the same."""

    error: GatewayError
    status: int
    """The HTTP status that it stands for, which the client need not have got."""


class HandedOn(Protocol):
    """A stream that is handed on."""

    @property
    def sent_last_event(self) -> bool:
        """Whether the client's stream has had its last event."""
        ...

    def fault(self) -> Fault | None:
        """Return what the bytes that passed say went wrong."""
        ...

    def usage(self) -> TokenUsage:
        """Return the counts seen so far."""
        ...


class Received(Struct, eq=False):
    """What is known of the answer to one attempt; the next attempt begins with nothing."""

    first_byte_at: float | None = None
    """The clock's time of the first byte that the client got of it."""
    counted: TokenUsage | None = None
    """What it took, once that is known."""
    handed_on: HandedOn | None = None
    """What is known of a stream while it is handed on."""
    fault: Fault | None = None
    """What went wrong in it, though the client got all of it."""
    error_message: str | None = None
    """How the provider said why it did not end well, as an event may have it."""

    def __repr__(self) -> str:  # what the provider says stays out
        return "Received()"
