"""What identifiers of tool calls keep to."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.identifiers import (
    ANTHROPIC_ID,
    ANTHROPIC_NAME,
    CHAT_ID,
    CHAT_NAME,
    make_id,
    make_legal_id,
    make_legal_name,
    make_unique_id,
)

PATTERNS = pytest.mark.parametrize("legal", [ANTHROPIC_ID, CHAT_ID], ids=["anthropic", "chat"])


@PATTERNS
@pytest.mark.parametrize("call_id", ["toolu_01A09q90qw90lq917835lq9", "call_abc-DEF_123", "0"])
def test_a_legal_identifier_travels_as_it_is(legal: re.Pattern[str], call_id: str) -> None:
    assert make_legal_id(call_id, legal) == call_id


@PATTERNS
@given(call_id=st.text(st.characters(codec=None)))
def test_every_identifier_becomes_a_legal_one_that_is_the_same_every_time(
    legal: re.Pattern[str], call_id: str
) -> None:
    found = make_legal_id(call_id, legal)
    assert legal.fullmatch(found)
    assert make_legal_id(call_id, legal) == found
    assert make_legal_id(found, legal) == found


@given(first=st.text(st.characters(codec=None)), second=st.text(st.characters(codec=None)))
def test_two_identifiers_stay_two(first: str, second: str) -> None:
    assert (make_legal_id(first, ANTHROPIC_ID) == make_legal_id(second, ANTHROPIC_ID)) == (first == second)


def test_a_line_feed_at_the_end_is_not_overlooked() -> None:
    assert make_legal_id("call_1\n", ANTHROPIC_ID) != "call_1\n"


@given(seed=st.text(st.characters(codec=None)), numbers=st.sets(st.integers(0, 99), min_size=2, max_size=8))
def test_made_identifiers_are_legal_everywhere_and_differ(seed: str, numbers: set[int]) -> None:
    made = {make_id(seed, number) for number in numbers}
    assert len(made) == len(numbers)
    assert all(ANTHROPIC_ID.fullmatch(found) and CHAT_ID.fullmatch(found) for found in made)
    assert made == {make_id(seed, number) for number in numbers}


@pytest.mark.parametrize("legal", [ANTHROPIC_NAME, CHAT_NAME], ids=["anthropic", "chat"])
@given(name=st.text(st.characters(codec=None)), other=st.text(st.characters(codec=None)))
def test_every_name_becomes_a_legal_one_of_its_own(legal: re.Pattern[str], name: str, other: str) -> None:
    found = make_legal_name(name, legal)
    assert legal.fullmatch(found)
    assert found == make_legal_name(name, legal)
    assert (found == name) == bool(legal.fullmatch(name))
    assert (found == make_legal_name(other, legal)) == (name == other)


def test_a_name_keeps_what_can_be_read_of_it() -> None:
    assert make_legal_name("maps.google:search", CHAT_NAME).startswith("maps_google_search_")


@given(ids=st.lists(st.sampled_from(["call_1", "call_2", "no id!"]), max_size=9))
def test_an_identifier_that_comes_again_gets_another_form_the_same_every_time(ids: list[str]) -> None:
    used: set[str] = set()
    found = [make_unique_id(call_id, used, ANTHROPIC_ID) for call_id in ids]
    assert len(set(found)) == len(ids)
    again: set[str] = set()
    assert found == [make_unique_id(call_id, again, ANTHROPIC_ID) for call_id in ids]
