"""The picture at the top of the README: clients, providers, and the two ways between them.

It is drawn twice in one file, since a page scales it to the width of the screen: with all names, and for
phones with few words in large letters.  The browser shows one of them, by the picture's width on the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from tools.pictures.svg import Box, Color, Gradient, Picture, Style, curve, dot, group, rectangle, text

WIDTH: Final = 880
HEIGHT: Final = 460
_BAR: Final = 5.0
"""How wide a card's strip of color is."""
PHONE: Final = 560
"""Pictures that are narrower on the page than this have the large letters."""
_RULES: Final = (
    f"@media (max-width: {PHONE}px) {{ .desktop {{ display: none }} .phone {{ display: inline }} }}"
)
FAMILIES: Final = (Color.OPENAI, Color.ANTHROPIC, Color.GEMINI)


class Card(Struct, frozen=True):
    """What stands at one end: a heading, and lines below it."""

    heading: str
    lines: tuple[str, ...]


class Lane(Struct, frozen=True):
    """What is written above one way through the gateway."""

    heading: str
    lines: tuple[str, ...]


class Layout(Struct, frozen=True, kw_only=True):
    """One of the two drawings: its places, its letters and its words."""

    name: str
    card: float
    """How wide the cards at both ends are."""
    gap: float
    """Between a card and the gateway."""
    margin: float
    top: float
    """Where cards begin, below the headings of the columns."""
    heading: Style
    lane: Style
    line: Style
    step: float
    """From one line to the next."""
    column: Style
    stroke: float
    clients: tuple[Card, Card, Card]
    providers: tuple[Card, Card, Card]
    lanes: tuple[Lane, Lane]

    @property
    def gateway(self) -> Box:
        """The gateway's place."""
        left = self.margin + self.card + self.gap
        return Box(left, self.top, WIDTH - 2 * left, HEIGHT - self.top - self.margin)

    def cards(self, x: float) -> list[Box]:
        """Return the places of three cards, one below the other."""
        space = 16.0
        height = (self.gateway.height - 2 * space) / 3
        return [Box(x, self.top + row * (height + space), self.card, height) for row in range(3)]

    def tiles(self) -> list[Box]:
        """Return the places of the two ways, within the gateway."""
        pad = 14.0
        outer = self.gateway
        first = 4 + len(self.lanes[0].lines)
        second = 4 + len(self.lanes[1].lines)
        whole = outer.height - 3 * pad
        height = whole * first / (first + second)
        width = outer.width - 2 * pad
        upper = Box(outer.x + pad, outer.y + pad, width, height)
        return [upper, Box(upper.x, upper.bottom + pad, width, whole - height)]


DESKTOP: Final = Layout(
    name="desktop",
    card=216,
    gap=68,
    margin=22,
    top=54,
    heading=Style(18, is_bold=True),
    lane=Style(18, is_bold=True),
    line=Style(15, Color.MUTED),
    step=22,
    column=Style(15, Color.MUTED, is_bold=True),
    stroke=3,
    clients=(
        Card("OpenAI clients", ("OpenAI SDKs", "Codex")),
        Card("Anthropic clients", ("Anthropic SDKs", "Claude Code")),
        Card("Gemini clients", ("Google Gen AI SDKs", "Gemini CLI")),
    ),
    providers=(
        Card("OpenAI API", ("OpenAI, Azure, Groq,", "OpenRouter, vLLM, …")),
        Card("Anthropic API", ("Anthropic and", "compatible hosts")),
        Card("Gemini API", ("Google AI Studio,", "Vertex AI")),
    ),
    lanes=(
        Lane("Same API", ("byte for byte",)),
        Lane("Other API", ("translated; dropped fields", "reported by name")),
    ),
)
ON_PHONE: Final = Layout(
    name="phone",
    card=206,
    gap=44,
    margin=14,
    top=52,
    heading=Style(31, is_bold=True),
    lane=Style(29, is_bold=True),
    line=Style(26, Color.MUTED),
    step=34,
    column=Style(25, Color.MUTED, is_bold=True),
    stroke=5,
    clients=(
        Card("OpenAI", ("SDKs, Codex",)),
        Card("Anthropic", ("Claude Code",)),
        Card("Gemini", ("Gemini CLI",)),
    ),
    providers=(
        Card("OpenAI", ("vLLM, Azure",)),
        Card("Anthropic", ("Claude",)),
        Card("Gemini", ("Vertex AI",)),
    ),
    lanes=(
        Lane("Same API:", ("byte for byte",)),
        Lane("Other API: translated", ("dropped fields", "reported by name")),
    ),
)


def render() -> str:
    """Return the file."""
    layouts = (DESKTOP, ON_PHONE)
    drawn = [group(_shapes(layout), layout.name, is_hidden=layout is ON_PHONE) for layout in layouts]
    return Picture(
        title="mgw between clients and providers",
        description=(
            "Clients of the OpenAI, Anthropic and Gemini APIs (SDKs, Codex, Claude Code, Gemini CLI) reach "
            "any provider through mgw. To a provider with the same API, requests pass byte for byte. To a "
            "provider with another API, they are translated, and dropped fields are reported by name."
        ),
        width=WIDTH,
        height=HEIGHT,
        shapes=(rectangle(Box(0.5, 0.5, WIDTH - 1, HEIGHT - 1), Color.GROUND, Color.EDGE, 14), *drawn),
        gradients=tuple(gradient for layout in layouts for gradient in _gradients(layout)),
        rules=_RULES,
    ).render()


def _shapes(layout: Layout) -> Iterator[str]:
    gateway = layout.gateway
    clients = layout.cards(layout.margin)
    providers = layout.cards(gateway.right + layout.gap)
    tiles = layout.tiles()
    for column, words in ((clients[0], "Clients"), (gateway, "mgw"), (providers[0], "Providers")):
        color = Color.ACCENT if column is gateway else layout.column.color
        style = Style(layout.column.size, color, is_bold=True, anchor="middle")
        yield text(
            words, column.middle, (layout.top + layout.column.size * 0.72) / 2 + 1, style, column.width
        )
    yield rectangle(gateway, Color.SURFACE, Color.ACCENT, 14)
    for tile in tiles:
        yield rectangle(tile, Color.GROUND, None, 10)
    yield from _ways(layout, clients, providers, tiles)
    for tile, lane in zip(tiles, layout.lanes, strict=True):
        yield from _lane(layout, tile, lane)
    for box, card, color in zip(clients, layout.clients, FAMILIES, strict=True):
        yield from _card(layout, box, card)
        yield rectangle(Box(box.right - _BAR, box.y + 12, _BAR, box.height - 24), color, None, _BAR / 2)
    for box, card, color in zip(providers, layout.providers, FAMILIES, strict=True):
        yield from _card(layout, box, card)
        yield rectangle(Box(box.x, box.y + 12, _BAR, box.height - 24), color, None, _BAR / 2)


def _card(layout: Layout, box: Box, card: Card) -> Iterator[str]:
    yield rectangle(box, Color.SURFACE, Color.EDGE)
    height = layout.heading.size + layout.step * len(card.lines)
    y = box.center - height / 2 + layout.heading.size * 0.85
    x, room = box.x + 18, box.width - 20
    yield text(card.heading, x, y, layout.heading, room)
    for row, line in enumerate(card.lines, start=1):
        yield text(line, x, y + layout.step * row, layout.line, room)


def _lane(layout: Layout, tile: Box, lane: Lane) -> Iterator[str]:
    y = tile.y + layout.lane.size * 1.35
    for row, words in enumerate((lane.heading, *lane.lines)):
        style = layout.lane if row == 0 else layout.line
        centered = Style(style.size, style.color, is_bold=style.is_bold, anchor="middle")
        yield text(words, tile.middle, y + row * layout.step, centered, tile.width)


def _ports(layout: Layout, tile: Box, lane: Lane) -> list[float]:
    """Return the heights at which the three families pass through a lane, below its words."""
    below = tile.y + layout.lane.size * 1.35 + layout.step * len(lane.lines) + layout.line.size * 0.3
    step = (tile.bottom - below) / 4
    return [below + step * row for row in (1, 2, 3)]


def _gradients(layout: Layout) -> Iterator[Gradient]:
    tile = layout.tiles()[1]
    for start in FAMILIES:
        for stop in FAMILIES:
            if start is not stop:
                yield Gradient(start, stop, tile.x, tile.right)


def _ways(layout: Layout, clients: list[Box], providers: list[Box], tiles: list[Box]) -> Iterator[str]:
    same, other = tiles
    stroke = layout.stroke
    straight = _ports(layout, same, layout.lanes[0])
    crossed = _ports(layout, other, layout.lanes[1])
    for row, color in enumerate(FAMILIES):
        for tile, ports, side in ((same, straight, -1), (other, crossed, 1)):
            start = clients[row].center + side * stroke * 1.5
            end = providers[row].center + side * stroke * 1.5
            yield curve((clients[row].right, start), (tile.x, ports[row]), color, stroke)
            yield curve((tile.right, ports[row]), (providers[row].x, end), color, stroke)
        yield curve((same.x, straight[row]), (same.right, straight[row]), color, stroke)
    for gradient in _gradients(layout):
        start, stop = FAMILIES.index(gradient.start), FAMILIES.index(gradient.stop)
        yield curve((other.x, crossed[start]), (other.right, crossed[stop]), gradient, stroke * 0.7)
    for tile, ports in ((same, straight), (other, crossed)):
        for row, color in enumerate(FAMILIES):
            yield dot(tile.x, ports[row], stroke * 1.5, color)
            yield dot(tile.right, ports[row], stroke * 1.5, color)
