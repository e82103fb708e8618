"""Draw SVG files for pages: shapes, lines and text, with colors for light and dark screens.

The files are shown by ``<img>``: style sheets of the page do not reach into them, and the only fonts are
those of the reader's system.  So every text is measured here with the widths of Helvetica and Arial, and one
that does not fit its room with a tenth to spare for wider fonts is an error when it is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct

FONT: Final = "-apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"
MONO: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace"
_SPARE: Final = 1.1
_MONO_WIDTH: Final = 0.602
_BOLD: Final = 1.07
"""How much wider a bold text is, about."""

# Helvetica's widths, in thousandths of the size, for the characters from blank to tilde.
_WIDTHS: Final = (
    "278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 "
    "556 278 278 584 584 584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 667 778 "
    "722 667 611 722 667 944 667 667 611 278 278 278 469 556 333 556 556 500 556 556 278 556 556 222 222 "
    "500 222 833 556 556 556 556 333 500 278 556 500 722 500 500 500 334 260 334 584"
)
_ASCII: Final = tuple(int(width) for width in _WIDTHS.split())
_OTHER: Final = 600


class Color(Enum):
    """A color by what it is for: its value on a light screen, and on a dark one."""

    GROUND = ("#f6f8fb", "#0d1117")
    SURFACE = ("#ffffff", "#171e29")
    EDGE = ("#d5dce6", "#2f3a49")
    TEXT = ("#18202c", "#e6ebf2")
    MUTED = ("#566274", "#9aa7b8")
    ACCENT = ("#2563c9", "#7fb2ff")
    CONNECTOR = ("#7c8a9d", "#718096")
    OPENAI = ("#12866a", "#3fbf98")
    ANTHROPIC = ("#cc5a12", "#f0924f")
    GEMINI = ("#2f78cf", "#6aa9f2")

    @property
    def light(self) -> str:
        """The value on a light screen."""
        return str(self.value[0])

    @property
    def dark(self) -> str:
        """The value on a dark screen."""
        return str(self.value[1])

    @property
    def word(self) -> str:
        """What classes are called after."""
        return self.name.lower()


class Gradient(Struct, frozen=True):
    """A line's color that changes from left to right, between two places."""

    start: Color
    stop: Color
    left: float
    right: float

    @property
    def id(self) -> str:
        """The name that the file has it under."""
        return f"{self.start.word}-{self.stop.word}-{number(self.left)}"

    def definition(self) -> str:
        """Return the element that defines it."""
        stops = "".join(
            f'<stop offset="{place}" stop-color="{color.light}" class="at-{color.word}"/>'
            for place, color in ((0, self.start), (1, self.stop))
        )
        ends = f'x1="{number(self.left)}" x2="{number(self.right)}" y1="0" y2="0"'
        return (
            f'<linearGradient id="{self.id}" gradientUnits="userSpaceOnUse" {ends}>{stops}</linearGradient>'
        )


class Style(Struct, frozen=True):
    """How a text looks."""

    size: float
    color: Color = Color.TEXT
    is_bold: bool = False
    is_mono: bool = False
    anchor: str = "start"

    def width(self, text: str) -> float:
        """Return about how wide a text is."""
        if self.is_mono:
            return len(text) * _MONO_WIDTH * self.size
        thousandths = sum(_ASCII[ord(char) - 32] if " " <= char <= "~" else _OTHER for char in text)
        return thousandths / 1000 * self.size * (_BOLD if self.is_bold else 1)


def number(value: float) -> str:
    """Return a number as files have it: the same for equal values, and short."""
    return f"{value:.1f}".removesuffix(".0")


def text(words: str, x: float, y: float, style: Style, room: float) -> str:
    """Return a line of text whose baseline is at ``y``; ``room`` is how wide it may be."""
    if style.width(words) * _SPARE > room:
        message = f"{words!r} is about {style.width(words):.0f} wide, which is too much for {room:.0f}"
        raise ValueError(message)
    names = [f"fill-{style.color.word}", *(["mono"] if style.is_mono else [])]
    weight = ' font-weight="600"' if style.is_bold else ""
    anchor = f' text-anchor="{style.anchor}"' if style.anchor != "start" else ""
    return (
        f'<text x="{number(x)}" y="{number(y)}" font-size="{number(style.size)}"{weight}{anchor}'
        f' class="{" ".join(names)}">{escape(words)}</text>'
    )


class Box(Struct, frozen=True):
    """A place on the drawing."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Where it ends."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """Where it ends below."""
        return self.y + self.height

    @property
    def middle(self) -> float:
        """Half way from left to right."""
        return self.x + self.width / 2

    @property
    def center(self) -> float:
        """Half way from top to bottom."""
        return self.y + self.height / 2


def rectangle(box: Box, fill: Color, edge: Color | None = None, radius: float = 10) -> str:
    """Return a rectangle with round corners."""
    stroke = f" stroke-{edge.word}" if edge else ""
    place = f'x="{number(box.x)}" y="{number(box.y)}"'
    size = f'width="{number(box.width)}" height="{number(box.height)}" rx="{number(radius)}"'
    return f'<rect {place} {size} class="fill-{fill.word}{stroke}"/>'


def dot(x: float, y: float, radius: float, color: Color) -> str:
    """Return a filled circle."""
    return f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" class="fill-{color.word}"/>'


def curve(start: tuple[float, float], end: tuple[float, float], color: Color | Gradient, width: float) -> str:
    """Return a line from left to right that leaves and arrives level."""
    (left, top), (right, bottom) = start, end
    half = number((left + right) / 2)
    bend = f"C{half} {number(top)} {half} {number(bottom)} {number(right)} {number(bottom)}"
    path = f"M{number(left)} {number(top)}{f'H{number(right)}' if top == bottom else bend}"
    paint = f' stroke="url(#{color.id})"' if isinstance(color, Gradient) else f' class="stroke-{color.word}"'
    return f'<path d="{path}" fill="none" stroke-width="{number(width)}" stroke-linecap="round"{paint}/>'


def group(shapes: Iterable[str], name: str = "", *, is_hidden: bool = False) -> str:
    """Return shapes as one; a hidden one needs a rule that shows it."""
    attributes = f" class={quoteattr(name)}" if name else ""
    hidden = ' display="none"' if is_hidden else ""
    return f"<g{attributes}{hidden}>\n" + "\n".join(shapes) + "\n</g>"


class Picture(Struct, frozen=True, kw_only=True):
    """A file: what it shows, in words and in shapes."""

    title: str
    description: str
    width: int
    height: int
    shapes: tuple[str, ...]
    gradients: tuple[Gradient, ...] = ()
    rules: str = ""
    """Rules of its own, in CSS."""

    def render(self) -> str:
        """Return the file's text."""
        used = "\n".join(self.shapes)
        colors = [color for color in Color if f"-{color.word}" in used or self._has(color)]
        definitions = "".join(gradient.definition() + "\n" for gradient in self.gradients)
        size = f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}"'
        names = f'role="img" aria-labelledby="title description" font-family={quoteattr(FONT)}'
        lines = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {names}>',
            f'<title id="title">{escape(self.title)}</title>',
            f'<desc id="description">{escape(self.description)}</desc>',
            f"<style>\n{_rules(colors, self.rules)}</style>",
            *([f"<defs>\n{definitions}</defs>"] if definitions else []),
            used,
            "</svg>",
        )
        return "\n".join(lines) + "\n"

    def _has(self, color: Color) -> bool:
        return any(color in (gradient.start, gradient.stop) for gradient in self.gradients)


def _rules(colors: Iterable[Color], own: str) -> str:
    light = [_rules_of(color, color.light) for color in colors]
    dark = ["  " + _rules_of(color, color.dark) for color in colors]
    query = "@media (prefers-color-scheme: dark) {"
    return (
        "\n".join([f".mono {{ font-family: {MONO} }}", *light, query, *dark, "}", own.strip()]).strip() + "\n"
    )


def _rules_of(color: Color, value: str) -> str:
    uses = (("fill", "fill"), ("stroke", "stroke"), ("at", "stop-color"))
    return " ".join(f".{name}-{color.word} {{ {what}: {value} }}" for name, what in uses)
