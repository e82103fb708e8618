"""What diagrams are made of: boxes with a heading and lines, and arrows between them, with words beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tools.pictures.svg import Box, Color, Picture, Style, number, rectangle, text

Point = tuple[float, float]

HEADING: Final = Style(16, is_bold=True)
NAME: Final = Style(14, is_bold=True, is_mono=True)
LINE: Final = Style(14, Color.MUTED)
MONO_LINE: Final = Style(13, Color.MUTED, is_mono=True)
_STEP: Final = 20
_PAD: Final = 12
_TURN: Final = 8.0
"""The radius of an arrow's corners."""
_HEAD: Final = 7.0
"""How long the head of an arrow is."""
_WIDTH: Final = 1.8


def node(
    box: Box, heading: str, lines: Sequence[str] = (), style: Style = HEADING, edge: Color = Color.EDGE
) -> str:
    """Return a box with its words in the middle; lines that begin with a backquote are names in the code."""
    y = box.center - (_STEP * len(lines)) / 2 + style.size * 0.35
    shapes = [rectangle(box, Color.SURFACE, edge), words(heading, (box.middle, y), box.width - _PAD, style)]
    for row, line in enumerate(lines, start=1):
        look = MONO_LINE if line.startswith("`") else LINE
        shapes.append(words(line.lstrip("`"), (box.middle, y + row * _STEP), box.width - _PAD, look))
    return "\n".join(shapes)


def words(said: str, at: Point, room: float, style: Style = LINE, anchor: str = "middle") -> str:
    """Return a line of text at a place, its middle there if nothing else is said."""
    look = Style(style.size, style.color, is_bold=style.is_bold, is_mono=style.is_mono, anchor=anchor)
    return text(said, at[0], at[1], look, room)


def arrow(
    *points: Point, color: Color = Color.CONNECTOR, is_both: bool = False, is_dashed: bool = False
) -> str:
    """Return a line through places, round at its corners, with a head at its end, or at both."""
    heads = [_head(points[-2], points[-1], color)]
    rest = [*points[:-1], _short_of(points[-2], points[-1])]
    if is_both:
        heads.append(_head(points[1], points[0], color))
        rest[0] = _short_of(points[1], points[0])
    return "\n".join((line(*rest, color=color, is_dashed=is_dashed), *heads))


def line(*points: Point, color: Color = Color.CONNECTOR, is_dashed: bool = False) -> str:
    """Return a line through places, round at its corners."""
    path = f"M{_at(points[0])}"
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        path += f"L{_at(_towards(corner, before))}Q{_at(corner)} {_at(_towards(corner, after))}"
    dashes = ' stroke-dasharray="5 4"' if is_dashed else ""
    stroke = f'fill="none" stroke-width="{_WIDTH}"{dashes} class="stroke-{color.word}"'
    return f'<path d="{path}L{_at(points[-1])}" {stroke}/>'


def _at(point: Point) -> str:
    return f"{number(point[0])} {number(point[1])}"


def _towards(start: Point, end: Point, distance: float = _TURN) -> Point:
    (left, top), (right, bottom) = start, end
    length = max(abs(right - left), abs(bottom - top))
    part = min(distance / length, 0.5) if length else 0
    return left + (right - left) * part, top + (bottom - top) * part


def _short_of(before: Point, end: Point) -> Point:
    return _towards(end, before, _HEAD * 0.7)


def _head(before: Point, tip: Point, color: Color) -> str:
    """Return the head of an arrow whose last piece is level or upright."""
    right, down = _sign(tip[0] - before[0]), _sign(tip[1] - before[1])
    if abs(right) + abs(down) != 1:
        message = f"an arrow cannot arrive at {_at(tip)} from {_at(before)}: neither level nor upright"
        raise ValueError(message)
    back = tip[0] - right * _HEAD, tip[1] - down * _HEAD
    half = _HEAD * 0.55
    corners = (
        tip,
        (back[0] + down * half, back[1] + right * half),
        (back[0] - down * half, back[1] - right * half),
    )
    return f'<polygon points="{" ".join(_at(corner) for corner in corners)}" class="fill-{color.word}"/>'


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def diagram(title: str, description: str, size: tuple[int, int], shapes: Sequence[str]) -> str:
    """Return the file: the shapes on a ground of their own, which is legible on a page of any color."""
    width, height = size
    ground = rectangle(Box(0.5, 0.5, width - 1, height - 1), Color.GROUND, Color.EDGE, 14)
    return Picture(
        title=title, description=description, width=width, height=height, shapes=(ground, *shapes)
    ).render()
