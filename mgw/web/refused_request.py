"""A request that was refused at its head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mgw.nouns.errors import GatewayError


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
