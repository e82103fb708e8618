"""How a call to a provider can fail, and how far it had progressed.

Whoever sends decides by the phase whether the same bytes may be sent again (contract 2.13).
"""

from __future__ import annotations

from enum import Enum

from mgw.nouns.errors import Cause, GatewayError, Reason


class Phase(Enum):
    """How far an upstream request had come when it failed."""

    CONNECT = "connect"
    """No byte of the request was sent."""
    SENT = "sent"
    """The request was written, wholly or in part; no byte of a response came."""
    HEAD = "head"
    """The head of the response had begun, or could not be read."""
    BODY = "body"
    """The head of the response was passed on; its body broke off."""


class UpstreamFailure(GatewayError):  # noqa: N818  # what happened, as in Phase; the base is the error
    """A provider that could not be reached, broke off, or was too slow.

    :param phase: how far the request had come.
    :param stale: a connection used before turned out closed before any byte of the response came.
    """

    def __init__(self, reason: Reason, message: str, *, phase: Phase, stale: bool = False) -> None:
        super().__init__(reason, message)
        self.phase = phase
        self.stale = stale


def upstream_broken(
    provider: str, what: str, phase: Phase, cause: Cause, *, stale: bool = False
) -> UpstreamFailure:
    """Return the failure of a provider that cannot be reached or read; ``what`` completes the sentence."""
    message = f"provider {provider} {what}"
    failure = UpstreamFailure(Reason.UPSTREAM_BROKEN, message, phase=phase, stale=stale)
    return failure.because(cause)


def upstream_too_slow(provider: str, what: str, phase: Phase, cause: Cause) -> UpstreamFailure:
    """Return the failure of a provider that let a time limit pass; ``what`` completes the sentence."""
    message = f"provider {provider} {what}"
    return UpstreamFailure(Reason.UPSTREAM_TOO_SLOW, message, phase=phase).because(cause)
