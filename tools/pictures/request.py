"""A request within one family: one way in for all rows with a provider (``docs/architecture.rst``)."""

from __future__ import annotations

from itertools import pairwise

from tools.pictures.diagram import LINE, MONO_LINE, NAME, arrow, diagram, node, words
from tools.pictures.svg import Box, Color, rectangle

_WIDTH = 800
_CHANNEL = Box(250, 24, 300, 64)
_KNOWN = Box(24, 136, 360, 84)
_NEW = Box(416, 136, 360, 84)
_REQUEST = Box(24, 268, 752, 64)
_RUN = Box(24, 380, 752, 196)
_STEPS = tuple(
    (Box(40 + 150 * column, 424, 120, 44), name)
    for column, name in enumerate(("plan", "credential", "send", "response", "relay"))
)


def render() -> str:
    """Return the file."""
    shapes = [
        node(_CHANNEL, "web.channel", ("head and body, as bytes",), NAME),
        node(_KNOWN, "memo.request_memo", ("a head seen before:", "route and checks are cached"), NAME),
        node(
            _NEW,
            "http.request_head",
            ("a new head: parsed, matched with a route,", "checked by edge auth; then cached"),
            NAME,
        ),
        node(_REQUEST, "web.server_request", ("the body: in memory, or on disk",), NAME),
        *_forks(),
        rectangle(_RUN, Color.SURFACE, Color.ACCENT),
        words("exchange.pipeline.ExchangeRun", (_RUN.middle, 406), 700, NAME),
        *_pipeline(),
    ]
    return diagram(
        "A request within one family",
        "The channel delivers head and body as bytes. For a head seen before, the memory has the "
        "route and the checks; a new head is parsed, matched with a route and checked by edge auth. "
        "Once the body is there, in memory or on disk, every row with a provider enters one pipeline: "
        "plan, credential, send, response, relay. The plan is a known one if head and model were "
        "seen before; otherwise it is made from the body, the models, the target and the headers, or it "
        "is a translation.",
        (_WIDTH, 600),
        shapes,
    )


def _forks() -> list[str]:
    """Return the arrows from the channel to both kinds of heads, and from there to the pipeline."""
    turn = _CHANNEL.bottom + 24
    level = [
        arrow(
            (_CHANNEL.middle, _CHANNEL.bottom),
            (_CHANNEL.middle, turn),
            (box.middle, turn),
            (box.middle, box.y),
        )
        for box in (_KNOWN, _NEW)
    ]
    straight = [
        arrow((above.middle, above.bottom), (above.middle, below.y))
        for above, below in ((_KNOWN, _REQUEST), (_NEW, _REQUEST), (_REQUEST, _RUN))
    ]
    return [*level, *straight]


def _pipeline() -> list[str]:
    steps = [node(box, name, (), NAME) for box, name in _STEPS]
    boxes = [box for box, _ in _STEPS]
    between = [arrow((left.right, left.center), (right.x, right.center)) for left, right in pairwise(boxes)]
    plan = boxes[0]
    lines = (
        ("head and model seen before:", "memo.request_memo"),
        ("otherwise:", "body, models, target, headers, or a translation"),
    )
    cases = []
    for row, (case, result) in enumerate(lines):
        y = 508 + row * 40
        look = MONO_LINE if row == 0 else LINE
        cases += [
            arrow((plan.middle, plan.bottom), (plan.middle, y), (plan.right, y)),
            words(case, (plan.right + 12, y + 5), 230, LINE, "start"),
            words(result, (plan.right + 216, y + 5), 340, look, "start"),
        ]
    return steps + between + cases
