"""What to write in place of a value whose text says what was meant."""

from __future__ import annotations

import pytest

from mgw.config.value_hints import list_hint, mapping_hint, value_hint

SECONDS = "a number of seconds above 0"
MINUTES = "a number of minutes above 0"
DAYS = "a number of days above 0"
BYTES = "a whole number of bytes above 0, without a unit (512 MiB is 536870912)"
COUNT = "a whole number above 0"
DOLLARS = "a number of US dollars above 0 and at most 5000000, with at most 9 decimals"
PRICE = "a price in US dollars from 0 to 1000000, with at most 9 decimals"
SWITCH = "true or false"


@pytest.mark.parametrize(
    ("text", "expected", "hint"),
    [
        ("30s", SECONDS, " (write 30)"),
        ("500ms", SECONDS, " (write 0.5)"),
        ("1.5 min", SECONDS, " (write 90)"),
        ("2h", SECONDS, " (write 7200)"),
        ("1h", MINUTES, " (write 60)"),
        ("90 s", MINUTES, " (write 1.5)"),
        ("2 days", DAYS, " (write 2)"),
        ("32MiB", BYTES, " (write 33554432)"),
        ("1 GB", BYTES, " (write 1073741824)"),
        ("64k", BYTES, " (write 65536)"),
        ("1,000,000", COUNT, " (write 1000000)"),
        ("10k", COUNT, " (write 10000)"),
        ("1.5 M", COUNT, " (write 1500000)"),
        ("2m", COUNT, ""),
        ("10k", DOLLARS, " (write 10000)"),
        ("10k", SECONDS, ""),
        ("$1.25", PRICE, " (write 1.25)"),
        ("3 USD", PRICE, " (write 3)"),
        ("30s", COUNT, ""),
        ("5 apples", SECONDS, ""),
        ("soon", SECONDS, ""),
        ("30s", SWITCH, ""),
        ("30s", "a string", ""),
        ("", SECONDS, ""),
    ],
)
def test_a_measure_is_turned_into_a_number(text: str, expected: str, hint: str) -> None:
    assert value_hint(text, expected, quoted=False) == hint


@pytest.mark.parametrize(
    ("text", "expected", "quoted", "hint"),
    [
        ("100", COUNT, True, " (remove the quotes)"),
        ("-1.5", SECONDS, True, " (remove the quotes)"),
        ("On", SWITCH, True, " (remove the quotes)"),
        ("maybe", SWITCH, True, ""),
        ("100", SWITCH, True, ""),
        ("100", "a string", True, ""),
        ("\u201copenai\u201d", "", False, " (typographic quotes: write \" or ')"),
        ("\u2018x", SECONDS, False, " (typographic quotes: write \" or ')"),
    ],
)
def test_quotes_that_are_too_many_or_of_the_wrong_kind_are_named(
    text: str, expected: str, quoted: bool, hint: str
) -> None:
    assert value_hint(text, expected, quoted=quoted) == hint


@pytest.mark.parametrize(
    ("text", "takes_names", "hint"),
    [
        ("kind:openai", False, ' (put a space after "kind:")'),
        ("kind = openai", False, ' (write "kind: " in place of "kind =")'),
        ("fast:main/gpt-5", True, " (put a space after the colon)"),
        ("sk-canary:x", False, ""),
        ("https://h.example", True, ""),
        ("redis://h", False, ""),
        ("openai", False, ""),
        ("fast = main/gpt-5", True, ""),
    ],
)
def test_a_mapping_may_lack_its_colon_or_its_space(text: str, takes_names: bool, hint: str) -> None:
    assert mapping_hint(text, ("kind", "base_url"), takes_names=takes_names) == hint


@pytest.mark.parametrize(
    ("text", "hint"), [("-gpt-5", ' (put a space after "-")'), ("gpt-5", ""), ("--", "")]
)
def test_a_list_may_lack_a_space(text: str, hint: str) -> None:
    assert list_hint(text) == hint
