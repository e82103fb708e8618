"""How results are written, as text and as the documents have them."""

from __future__ import annotations

import pytest

from bench.table import Table, number, ratio

TABLE = Table(["", "gateway", "nginx"], [["CPU, µs", "93.2", "22.1"], ["p99", "1,057", "918"]])


def test_columns_of_text_are_even_and_numbers_are_aligned_right() -> None:
    assert TABLE.text().splitlines() == [
        "         gateway  nginx",
        "CPU, µs     93.2   22.1",
        "p99        1,057    918",
    ]


def test_documents_have_the_same_cells() -> None:
    assert TABLE.rst().splitlines()[3:] == [
        '   "", "gateway", "nginx"',
        '   "CPU, µs", "93.2", "22.1"',
        '   "p99", "1,057", "918"',
    ]


@pytest.mark.parametrize(
    ("value", "base", "written"),
    [
        (3.0, 2.0, "1.50"),
        (0.1, 1.0, "0.10"),
        (1.0, 1234.4, "1/1,234"),
        (-1.0, 100.0, "-0.01"),
        (0.0, 2.0, "0.00"),
        (None, 2.0, "–"),
        (3.0, None, "–"),
        (3.0, 0.0, "–"),
    ],
)
def test_a_ratio_is_unknown_where_one_of_its_numbers_is_and_a_fraction_where_it_is_small(
    value: float | None, base: float | None, written: str
) -> None:
    assert ratio(value, base) == written


def test_a_number_that_is_unknown_is_a_dash() -> None:
    assert (number(1234.5, 1), number(None)) == ("1,234.5", "–")
