"""The lines of ``mgw prices diff``: none for the same rows, else the way from old to new."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mgw.config.prices import PriceRowSettings
from mgw.usage.price_diff import diff_prices, rows_by_key

PRICES = st.dictionaries(
    st.sampled_from(["input", "output", "cache_read", "per_image"]), st.sampled_from([1, 0.5])
)
TIERS = st.lists(
    st.builds(lambda above, prices: {"above": above, **prices}, st.sampled_from([5, 9]), PRICES), max_size=1
)
SERVICES = st.dictionaries(
    st.sampled_from(["flex", "batch"]),
    st.builds(lambda prices, tiers: {**prices, "tiers": tiers}, PRICES, TIERS),
    max_size=1,
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"model": st.sampled_from(["a", "b"])},
        optional={
            "provider": st.just("p"),
            "input": st.sampled_from([1, 2.5]),
            "valid_from": st.just("2026-01-01"),
            "valid_until": st.just("2026-12-31"),
            "tiers": TIERS,
            "service_tiers": SERVICES,
            "inference_geo": st.dictionaries(st.sampled_from(["us", "eu"]), st.sampled_from([1.1, 2])),
        },
    ).map(PriceRowSettings.model_validate),
    max_size=4,
)


@given(ROWS)
def test_a_file_does_not_differ_from_itself(rows: list[PriceRowSettings]) -> None:
    assert not diff_prices(rows, rows)


@given(old=ROWS, new=ROWS)
def test_the_lines_lead_from_one_file_to_the_other(
    old: list[PriceRowSettings], new: list[PriceRowSettings]
) -> None:
    found = lines_of(old)
    for line in diff_prices(old, new):
        sign, name, fields = line[0], *line[2:].split(": ", 1)
        if sign == "-":
            assert found.pop(name) == dict(map(split_value, fields.split(", ") if fields else []))
        elif sign == "+":
            assert name not in found
            found[name] = dict(map(split_value, fields.split(", ") if fields else []))
        else:
            for change in fields.split(", "):
                before, after = change.split(" -> ")
                field, value = split_value(before)
                assert found[name].pop(field, "none") == value != after
                if after != "none":
                    found[name][field] = after
    assert found == lines_of(new)


def split_value(text: str) -> tuple[str, str]:
    name, _, value = text.rpartition(" ")
    return name, value


def lines_of(rows: list[PriceRowSettings]) -> dict[str, dict[str, str]]:
    """Return what each row states, by the name that a line has for it."""
    found: dict[str, dict[str, str]] = {}
    for (provider, model, since, place), fields in rows_by_key(rows).items():
        name = f"{provider}/{model}" if provider else model
        name += f" from {since}" if since else ""
        found[f"{name} (row {place + 1})" if place else name] = dict(fields)
    return found


def test_a_line_says_what_changed() -> None:
    old = [row(model="a", input=1, output=2.50), row(model="b", provider="p", input=1)]
    new = [
        row(model="a", input=1, output=3, tiers=[{"above": 200000, "input": 2}], valid_until="2026-12-31"),
        row(model="c", input=0.000000001),
    ]
    assert diff_prices(old, new) == [
        "~ a: output 2.5 -> 3, valid_until none -> 2026-12-31, above 200000 input none -> 2",
        "+ c: input 0.000000001",
        "- p/b: input 1",
    ]


def row(**stated: object) -> PriceRowSettings:
    return PriceRowSettings.model_validate(stated)
