"""The drawings of the documents: well formed, described in words, and with room for every text."""

from __future__ import annotations

from collections import Counter
from typing import Final
from xml.etree import ElementTree

import pytest

from tools.pictures.diagram import arrow, line, node, words
from tools.pictures.files import PICTURES
from tools.pictures.svg import Box, Color, Gradient, Picture, Style, curve, rectangle, text

SVG: Final = "{http://www.w3.org/2000/svg}"


def drawn(name: str) -> ElementTree.Element:
    return ElementTree.fromstring(PICTURES[name]())


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_says_in_words_what_it_shows(name: str) -> None:
    picture = drawn(name)
    assert picture.get("role") == "img"
    for tag in ("title", "desc"):
        words = picture.find(f"{SVG}{tag}")
        assert words is not None
        assert words.text
        assert words.get("id") in picture.get("aria-labelledby", "").split()


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_loads_nothing_and_refers_to_what_it_defines(name: str) -> None:
    picture = drawn(name)
    ids = Counter(element.get("id") for element in picture.iter() if element.get("id"))
    assert not [id_ for id_, count in ids.items() if count > 1]
    for element in picture.iter():
        assert element.tag.removeprefix(SVG) not in ("image", "script", "use", "a")
        paint = element.get("stroke") or ""
        assert not paint or paint.removeprefix("url(#").removesuffix(")") in ids


@pytest.mark.parametrize("name", PICTURES)
def test_every_color_of_a_picture_has_a_value_for_light_and_for_dark(name: str) -> None:
    picture = drawn(name)
    style = picture.findtext(f"{SVG}style") or ""
    light, _, dark = style.partition("prefers-color-scheme: dark")
    used = {word for element in picture.iter() for word in (element.get("class") or "").split()}
    colors = {word for word in used if word.startswith(("fill-", "stroke-", "at-"))}
    assert colors
    assert not [word for word in colors if f".{word} {{" not in light or f".{word} {{" not in dark]


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_is_drawn_beyond_the_edges_of_a_picture(name: str) -> None:
    picture = drawn(name)
    width, height = float(picture.get("width") or 0), float(picture.get("height") or 0)
    for element in picture.iter(f"{SVG}rect"):
        x, y, wide, high = (float(element.get(name) or 0) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + wide <= width
        assert 0 <= y <= y + high <= height
    for element in picture.iter(f"{SVG}text"):
        assert 0 <= float(element.get("x") or 0) <= width
        assert 0 <= float(element.get("y") or 0) <= height


def test_a_picture_is_drawn_the_same_every_time() -> None:
    assert [draw() for draw in PICTURES.values()] == [draw() for draw in PICTURES.values()]


def test_a_text_that_does_not_fit_its_room_is_an_error() -> None:
    style = Style(20)
    assert style.width("mgw") == pytest.approx((0.833 + 0.556 + 0.722) * 20)
    assert ">mgw</text>" in text("mgw", 0, 0, style, style.width("mgw") * 1.11)
    with pytest.raises(ValueError, match="'mgw' is about 42 wide, which is too much for 43"):
        text("mgw", 0, 0, style, 43)


def test_a_monospaced_text_and_a_bold_one_are_wider() -> None:
    assert (
        Style(20, is_mono=True).width("ill") > Style(20, is_bold=True).width("ill") > Style(20).width("ill")
    )


def test_what_is_written_in_a_picture_is_escaped() -> None:
    shapes = (text("a < b & c", 0, 0, Style(10), 100),)
    rendered = Picture(title="<t>", description="&", width=9, height=9, shapes=shapes).render()
    assert ElementTree.fromstring(rendered).findtext(f"{SVG}text") == "a < b & c"


def test_a_level_line_is_straight_and_any_other_arrives_level() -> None:
    assert 'd="M0 5H10"' in curve((0, 5), (10, 5), Color.TEXT, 1)
    assert 'd="M0 5C5 5 5 9 10 9"' in curve((0, 5), (10, 9), Color.TEXT, 1)


def test_a_gradient_runs_between_two_places_of_the_drawing() -> None:
    """And not within the bounds of a line, which a level one does not have."""
    gradient = Gradient(Color.OPENAI, Color.GEMINI, 10, 20.25)
    assert 'gradientUnits="userSpaceOnUse" x1="10" x2="20.2"' in gradient.definition()
    assert f'stroke="url(#{gradient.id})"' in curve((10, 0), (20.25, 4), gradient, 1)


def test_a_box_knows_its_edges_and_its_middle() -> None:
    box = Box(1, 2, 30, 40)
    assert (box.right, box.bottom, box.middle, box.center) == (31, 42, 16, 22)
    assert 'class="fill-surface stroke-edge"' in rectangle(box, Color.SURFACE, Color.EDGE)


def test_an_arrow_ends_in_a_head_where_it_points() -> None:
    path, head = arrow((0, 10), (100, 10)).split("\n")
    assert 'd="M0 10L95.1 10"' in path, "the line ends within the head"
    assert 'points="100 10 93 13.9 93 6.1"' in head
    assert arrow((0, 10), (0, 100), is_both=True).count("<polygon") == 2


def test_an_arrow_that_arrives_at_a_slant_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot arrive at 10 10 from 0 0: neither level nor upright"):
        arrow((0, 0), (10, 10))


def test_a_line_is_round_at_its_corners() -> None:
    assert 'd="M0 0L12 0Q20 0 20 8L20 30"' in line((0, 0), (20, 0), (20, 30))
    assert 'd="M0 0L2 0Q4 0 4 2L4 4"' in line((0, 0), (4, 0), (4, 4)), "at most half of a short piece"


def test_a_name_of_the_code_in_a_box_is_monospaced() -> None:
    shapes = node(Box(0, 0, 200, 80), "Heading", ("plain", "`code"))
    assert shapes.count("mono") == 1
    assert ">code</text>" in shapes


def test_words_stand_with_their_middle_at_a_place_unless_told_otherwise() -> None:
    assert 'x="50" y="10"' in words("here", (50, 10), 100)
    assert 'text-anchor="middle"' in words("here", (50, 10), 100)
    assert "text-anchor" not in words("here", (50, 10), 100, anchor="start")
