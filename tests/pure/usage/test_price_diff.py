"""The lines of ``mgw prices diff``: none for the same rows, else the way from old to new."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mgw.config.prices import PriceRowSettings
from mgw.usage.price_diff import diff_prices

Raw = dict[str, Any]  # Any: YAML
PRICES = st.dictionaries(
    st.sampled_from(["input", "output", "cache_read", "per_image"]), st.sampled_from([1, 0.5]), min_size=1
)
TIERS = st.lists(st.tuples(st.sampled_from([5, 90]), PRICES), max_size=2, unique_by=itemgetter(0)).map(
    lambda tiers: [{"above": above, **prices} for above, prices in tiers]
)
SERVICES = st.dictionaries(
    st.sampled_from(["flex", "batch"]),
    st.builds(lambda prices, tiers: {**prices, "tiers": tiers}, PRICES | st.just({}), TIERS),
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
    ),
    max_size=4,
)


def settings_of(rows: list[Raw]) -> list[PriceRowSettings]:
    return [PriceRowSettings.model_validate(stated) for stated in rows]


@given(ROWS)
def test_a_file_does_not_differ_from_itself(rows: list[Raw]) -> None:
    assert not diff_prices(settings_of(rows), settings_of(rows))


@given(old=ROWS, new=ROWS)
def test_the_lines_lead_from_one_file_to_the_other(old: list[Raw], new: list[Raw]) -> None:
    found = by_name(old)
    for line in diff_prices(settings_of(old), settings_of(new)):
        sign, name, fields = line[0], *line[2:].split(": ", 1)
        stated = fields.split(", ") if fields else []
        if sign == "-":
            assert found.pop(name) == dict(map(split_value, stated))
        elif sign == "+":
            assert name not in found
            found[name] = dict(map(split_value, stated))
        else:
            for change in stated:
                before, after = change.split(" -> ")
                field, value = split_value(before)
                assert found[name].pop(field, "none") == value != after
                if after != "none":
                    found[name][field] = after
    assert found == by_name(new)


def split_value(text: str) -> tuple[str, str]:
    name, _, value = text.rpartition(" ")
    return name, value


def by_name(rows: list[Raw]) -> dict[str, dict[str, str]]:
    """Return what each row states, by the name that a line has for it."""
    found: dict[str, dict[str, str]] = {}
    for stated in rows:
        provider, since = stated.get("provider"), stated.get("valid_from")
        first = name = f"{provider}/" * bool(provider) + stated["model"] + f" from {since}" * bool(since)
        for place in range(2, len(rows) + 1):
            if name in found:
                name = f"{first} (row {place})"
        prices = flat({name: held for name, held in stated.items() if name not in NAMES})
        found[name] = {
            field: f"{value:g}" if isinstance(value, float) else str(value) for field, value in prices
        }
    return found


NAMES = {"model", "provider", "valid_from"}


def flat(block: Raw) -> Iterator[tuple[str, object]]:
    """Yield each price with the words that lead to it."""
    for name, held in block.items():
        if name == "tiers":
            for tier in held:
                for price, value in tier.items():
                    if price != "above":
                        yield f"above {tier['above']} {price}", value
        elif name == "service_tiers":
            for service, prices in held.items():
                yield from ((f"{service} {price}", value) for price, value in flat(prices))
                if not [*flat(prices)]:
                    yield service, "unchanged"
        elif name == "inference_geo":
            yield from ((f"{name} {place}", factor) for place, factor in held.items())
        else:
            yield name, held


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


def row(**stated: Any) -> PriceRowSettings:
    return PriceRowSettings.model_validate(stated)
