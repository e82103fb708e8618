"""Messages between processes, as the other side of a channel reads them."""

from __future__ import annotations

import msgspec

from mgw.workers.messages import AnyMessage, ChannelMessage


def sent(message: ChannelMessage) -> ChannelMessage:
    """Return what the other side of a channel makes of a message."""
    found: ChannelMessage = msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=AnyMessage)
    return found
