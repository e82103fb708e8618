"""A list that is read item by item has the items, lines and problems of the same text read as a whole."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mgw.config.load import parse_each_price, parse_prices
from mgw.config.prices import MAX_ROWS
from mgw.config.problems import ConfigError, Path, Report
from mgw.config.yaml_document import Value, YamlDocument, note_fault, read
from mgw.config.yaml_items import NotListedError, read_items

SCALARS = st.sampled_from(
    ["1", "-2.5", "text", "'1'", '"a b"', "~", "yes", "2026-01-01", "1e3", "0x1f", "!!str 1"]
)
KEYS = st.sampled_from(["a", "b", "input", "off", "'a'", "? a", "<<", "1"])
ODD = st.sampled_from(
    [
        "",
        "*x",
        "&x 1",
        "&x [a, *x]",
        "!tag 1",
        "[",
        "}",
        "a\u00a0b: 1",
        "\t",
        "*unknown",
        "&x a\n  - &x b",
        "- -",
    ]
)
FLOWS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda found: f"[{', '.join(found)}]")
        | st.lists(st.tuples(KEYS, inner), max_size=3).map(
            lambda pairs: f"{{{', '.join(f'{key}: {value}' for key, value in pairs)}}}"
        )
    ),
    max_leaves=6,
)
ITEMS = (FLOWS | ODD).map(lambda text: f"  - {text}\n")
HEADS = st.sampled_from(
    ["rows:\n", "", "# prices\n\nrows:\n", "more: 1\nrows:\n", "rows: &all\n", "---\nrows:\n"]
)
TAILS = st.sampled_from(["", "last: [1, {a: 2}]\n", "rows: 3\n", "...\n", "---\na: 1\n", "rows:\n  - 1\n"])


def problems_of(report: Report) -> list[str]:
    try:
        report.raise_if_any()
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []


def with_marks(report: Report, value: Value, path: Path) -> Any:  # Any: nested as the value is
    """Return a value with the line and column of each part."""
    mark = report.marks[path]
    if isinstance(value, dict):
        return mark, {key: with_marks(report, inner, (*path, key)) for key, inner in value.items()}
    if isinstance(value, list):
        return mark, [with_marks(report, inner, (*path, place)) for place, inner in enumerate(value)]
    return mark, type(value).__name__, value


def by_items(text: str) -> tuple[Any, list[str]] | None:
    report, items = Report("p.yaml"), []

    def on_item(place: int, value: Value, document: YamlDocument) -> None:
        assert document.report is report
        items.append(with_marks(report, value, ("rows", place)))

    try:
        document = read_items(text, "rows", 99, report, on_item)
    except NotListedError:
        return None
    others, not_handed_on = without_rows(document)
    return ([*items, *not_handed_on], others), problems_of(report)


def without_rows(document: YamlDocument) -> tuple[Value, list[Any]]:  # Any: as above
    """Return the value of a document but for the list, and what is in that."""
    value, report = document.value, document.report
    if not isinstance(value, dict):
        return value, []
    rows = value.pop("rows", None)
    listed = rows if isinstance(rows, list) else []
    return value, [with_marks(report, row, ("rows", place)) for place, row in enumerate(listed)]


def as_a_whole(text: str) -> tuple[Any, list[str]]:
    report = Report("p.yaml")
    others, items = without_rows(read(text, report))
    return (items, others), problems_of(report)


@given(head=HEADS, items=st.lists(ITEMS, max_size=4), tail=TAILS)
@example("rows:\n", ["  - &x {a: 1}\n", "  - *x\n"], "last: *x\n")
@example("rows:\n", ["  - {a: 1, a: 2}\n"], "")
@example("rows:\n", ["  - {a: !!str 1, b: !x 2}\n"], "")
def test_an_item_has_the_value_and_the_lines_that_it_has_in_the_whole(
    head: str, items: list[str], tail: str
) -> None:
    text = head + "".join(items) + tail
    found = by_items(text)
    if found is None or text.startswith("  -"):  # a list without a name is not read
        return
    (read_now, rest), problems = found
    (expected, others), expected_problems = as_a_whole(text)
    assert problems == expected_problems
    if not any("tag" in problem for problem in problems):  # of which the value is nothing
        assert read_now == expected
        assert rest == others


@pytest.mark.parametrize(
    "text", ["rows:\n  - {model: a, input: 1}\n", "rows: [{model: a, input: 1}]\nmore: {a: 1}\n"]
)
def test_an_ordinary_list_is_read_by_items(text: str) -> None:
    assert by_items(text) is not None


def test_nothing_of_an_item_is_kept() -> None:
    text = "rows:\n" + "  - {model: a, input: 1, output: [1, 2, 3]}\n" * 50
    report, sizes = Report("p.yaml"), []

    def on_item(_place: int, _value: Value, _document: YamlDocument) -> None:
        sizes.append((len(report.marks), len(gc.get_objects())))

    read_items(text, "rows", 99, report, on_item)
    assert {marks for marks, _ in sizes} == {sizes[0][0]}
    assert sizes[-1][1] - sizes[10][1] < 100


def test_one_item_too_many_is_told_with_its_line() -> None:
    report = Report("p.yaml")
    read_items("rows:\n- 1\n- 2\n- 3\n", "rows", 2, report, lambda *_: None)
    assert problems_of(report) == ["p.yaml:4: more than 2 rows"]


def test_a_file_of_prices_may_have_more_values_than_others() -> None:
    row = (
        "  - {model: m, input: 1, output: 2, cache_read: 3, cache_write: 4, tiers: [{above: 1, input: 5}]}\n"
    )
    assert len(parse_each_price("rows:\n" + row * MAX_ROWS, "p.yaml", (), lambda row: row.model)) == MAX_ROWS


MISTAKES = {
    "a list without its name": (
        "- {model: a, input: 1}\n",
        ["p.yaml:1: expected a mapping of settings, found a list"],
    ),
    "nothing": ("", ["p.yaml:1: expected a mapping of settings, found nothing"]),
    "no rows": ("{}\n", ["p.yaml:1: rows: missing, expected a list of prices"]),
    "rows without a value": ("rows:\n", ["p.yaml:1: rows: missing, expected a list of prices"]),
    "another key": (
        "rows: [{model: a, input: 1}]\nrow: 1\n",
        ["p.yaml:2: row: unknown key, did you mean rows?"],
    ),
    "a row that is none": (
        "rows:\n- 3\n- {model: a}\n",
        [
            "p.yaml:2: rows.0: expected a mapping, found the number 3",
            "p.yaml:3: rows.1: a row without a price, expected at least one, such as input and output",
        ],
    ),
    "a quote that stays open": (
        "rows:\n- {model: 'a, input: 1}\n- {model: b, input: 1}\n",
        ["p.yaml:2: not YAML: the quote that opens here is not closed on this line"],
    ),
    "two mistakes and a bracket": (
        "rows:\n- {model: a, inptu: 1}\n- {model: b, input: [1}\n",
        ['p.yaml:3: not YAML: expected "," or the closing bracket of a list or mapping'],
    ),
}


@pytest.mark.parametrize(("text", "problems"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_file_of_prices_is_told(text: str, problems: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_prices(text, "p.yaml", ())
    assert [str(problem) for problem in refusal.value.problems] == problems


@pytest.mark.parametrize("text", ["a: 1\nb: [1\nc: 1\n", "a: \x07", "b: x: 1\n", '"\\xzz"'])
def test_a_fault_is_found_without_building_anything(text: str) -> None:
    report = Report("p.yaml")
    note_fault(text, report)
    whole = Report("p.yaml")
    read(text, whole)
    assert problems_of(report) == problems_of(whole) != []
