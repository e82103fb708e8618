"""A request that is refused at its head, and some reasons for that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mgw.nouns.errors import GatewayError, Reason


@dataclass(slots=True, eq=False, repr=False)
class _RefusedRequest:
    """A request that was refused at its head: nothing of its body is looked at."""

    def on_body_data(self, data: bytes) -> None:
        """Ignore the rest."""

    def on_body_end(self) -> None:
        """Ignore the end."""

    def on_whole_body(self, content: bytes) -> None:
        """Ignore all of it."""

    def on_disconnect(self) -> None:
        """The client has had its response."""

    def on_body_timeout(self) -> None:
        """The response was sent already."""

    def on_malformed_body(self, error: GatewayError) -> None:
        """The response was sent already."""


REFUSED: Final = _RefusedRequest()


def draining_refusal() -> GatewayError:
    """Return the refusal of a request during a drain."""
    message = "the gateway is shutting down; try another instance"
    return GatewayError(Reason.DRAINING, message, retry_after=1.0)


def no_websocket(path: str) -> GatewayError:
    """Return the refusal of a WebSocket on a path that has none."""
    message = f"{path} is not available over WebSocket: send an ordinary HTTP request"
    return GatewayError(Reason.NO_WEBSOCKET, message)


def only_websocket(path: str) -> GatewayError:
    """Return the refusal of an ordinary request on a path of WebSockets."""
    message = f"{path} is a WebSocket endpoint: send an upgrade request without a body"
    return GatewayError(Reason.ONLY_WEBSOCKET, message)
