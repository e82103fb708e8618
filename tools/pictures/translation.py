"""A request and its response between two families (``docs/architecture.rst``)."""

from __future__ import annotations

from itertools import pairwise

from tools.pictures.diagram import HEADING, NAME, arrow, diagram, node, words
from tools.pictures.svg import Box, Color

_WIDTH = 880
_CLIENT = Box(24, 64, 112, 232)
_PROVIDER = Box(744, 64, 112, 232)
_COLUMNS = ((176, 148), (372, 136), (556, 148))
_ROWS = ((64, 84), (212, 84))


def render() -> str:
    """Return the file."""
    parse, meaning, rendered = (Box(x, _ROWS[0][0], width, _ROWS[0][1]) for x, width in _COLUMNS)
    writer, events, reader = (Box(x, _ROWS[1][0], width, _ROWS[1][1]) for x, width in _COLUMNS)
    shapes = [
        words("client's dialect", (parse.middle, 44), 200),
        words("canonical form", (meaning.middle, 44), 200),
        words("provider's dialect", (rendered.middle, 44), 200),
        node(_CLIENT, "Client", ("bytes",), edge=Color.ANTHROPIC),
        node(_PROVIDER, "Provider", ("bytes",), edge=Color.OPENAI),
        node(parse, "parse", ("reports what it", "did not read"), NAME, Color.ANTHROPIC),
        node(meaning, "Conversation", ("meaning",), HEADING, Color.ACCENT),
        node(rendered, "render", ("reports what it", "carried"), NAME, Color.OPENAI),
        node(writer, "StreamWriter", ("events to bytes,", "in legal order"), NAME, Color.ANTHROPIC),
        node(events, "ReplyEvent", ("meaning",), HEADING, Color.ACCENT),
        node(reader, "StreamReader", ("bytes to events",), NAME, Color.OPENAI),
    ]
    request = (_CLIENT, parse, meaning, rendered, _PROVIDER)
    response = (_PROVIDER, reader, events, writer, _CLIENT)
    shapes += [
        arrow((left.right, parse.center), (right.x, parse.center)) for left, right in pairwise(request)
    ]
    shapes += [
        arrow((right.x, writer.center), (left.right, writer.center)) for right, left in pairwise(response)
    ]
    shapes += [
        words("request", (_WIDTH / 2, 172), 100),
        words("response", (_WIDTH / 2, 204), 100),
        words("unread + not carried = dropped fields, before anything is sent", (_WIDTH / 2, 336), 560),
    ]
    return diagram(
        "A request and its response between two families",
        "A request goes through the parser of the client's dialect, a conversation without bytes and "
        "the renderer of the provider's dialect. The response goes through a stream reader of the "
        "provider's dialect, events and a stream writer of the client's dialect. What the parser did "
        "not read and the renderer did not carry are the dropped fields, known before anything is sent.",
        (_WIDTH, 360),
        shapes,
    )
