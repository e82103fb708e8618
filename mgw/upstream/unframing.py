"""The body of one response on its way out of the host's framing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mgw.nouns.errors import Cause, GatewayError, Reason
from mgw.upstream.wires.wire import Unframer

MAX_FRAME_BYTES: Final = 32 * 1024 * 1024
"""The most that is taken for one frame, whatever its own length says: Amazon's have 24 MiB at the most."""


@dataclass(slots=True, eq=False, repr=False)
class Unframing:
    """Takes the frames off one body."""

    unframer: Unframer
    fault: GatewayError | None = None
    """What is wrong with the frames; what came before it is in order."""
    _held: int = 0
    """How many bytes came since the last frame that was complete."""

    def feed(self, data: bytes, *, ends: bool) -> bytes:
        """Return what is complete with these bytes.  Where :attr:`fault` is set then, it comes behind that.

        :param ends: whether nothing follows.
        """
        found: list[bytes] = []
        try:
            for event in self.unframer.feed(data):
                found.append(event)  # noqa: PERF402  what came before a fault counts
            if ends:
                found.append(self.unframer.finish())
        except GatewayError as error:
            self.fault = error
        self._held = 0 if found else self._held + len(data)
        if self._held > MAX_FRAME_BYTES and self.fault is None:
            message = f"the upstream sent a frame of more than {MAX_FRAME_BYTES} bytes"
            self.fault = GatewayError(Reason.UPSTREAM_BROKEN, message).because(Cause.LIMIT)
        return b"".join(found)
