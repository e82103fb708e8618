"""A realtime session: its opening, and its frames (``docs/architecture.rst``)."""

from __future__ import annotations

from itertools import pairwise

from tools.pictures.diagram import NAME, arrow, diagram, node, words
from tools.pictures.svg import Box, Color

_WIDTH = 884
_CLIENT = Box(16, 60, 84, 256)
_CHANNEL = Box(122, 60, 104, 256)
_SOCKET = Box(628, 60, 134, 256)
_PROVIDER = Box(784, 60, 84, 256)
_OPENING = tuple(Box(252 + 124 * column, 60, 102, 92) for column in range(3))
_FRAMES = (Box(252, 224, 96, 92), Box(364, 224, 126, 92), Box(506, 224, 96, 92))


def render() -> str:
    """Return the file."""
    upgrade, session, dial = _OPENING
    first, relay, second = _FRAMES
    whole = (_CHANNEL, *_OPENING, _SOCKET)
    frames = (_CHANNEL, *_FRAMES, _SOCKET)
    shapes = [
        words("Opening", (session.middle, 42), 200),
        words("Frames, as the bytes that they came in", (relay.middle, 206), 350),
        node(_CLIENT, "Client"),
        node(_CHANNEL, "channel", ("`web",), NAME),
        node(upgrade, "upgrade", ("`web", "route, origin"), NAME),
        node(session, "session", ("`realtime", "model, slot"), NAME, Color.ACCENT),
        node(dial, "dial", ("`realtime", "credential"), NAME, Color.ACCENT),
        node(first, "Direction", ("counts,", "meters"), NAME, Color.ACCENT),
        node(relay, "SessionRelay", ("limits, pauses,", "one end"), NAME, Color.ACCENT),
        node(second, "Direction", ("counts,", "meters"), NAME, Color.ACCENT),
        node(_SOCKET, "socket", ("`UpstreamSocket", "realtime"), NAME, Color.ACCENT),
        node(_PROVIDER, "Provider"),
        arrow((_CLIENT.right, 188), (_CHANNEL.x, 188), is_both=True),
        arrow((_SOCKET.right, 188), (_PROVIDER.x, 188), is_both=True),
    ]
    shapes += [
        arrow((left.right, upgrade.center), (right.x, upgrade.center)) for left, right in pairwise(whole)
    ]
    shapes += [
        arrow((left.right, relay.center), (right.x, relay.center), is_both=True)
        for left, right in pairwise(frames)
    ]
    return diagram(
        "A realtime session",
        "A client connects to the channel of the web package. The opening goes through upgrade, which "
        "checks the route and the origin, the session, which takes a model and a slot, and dial, which "
        "takes a credential, to the socket of the provider. After that, frames go both ways between the "
        "channel and the socket, through a direction for each side and the relay of the session.",
        (_WIDTH, 340),
        shapes,
    )
