"""Which rows a file of prices gets, in which order, and that each fits its model alone."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.usage.price_import.entry import MAX_SHOWN, PricedModel, PriceLevels, printable
from mgw.usage.price_import.selection import ProviderChoice, select, unknown_providers
from mgw.usage.prices import PriceTable
from tests.support.price_lists import file_of, rows_of

OPENAI, AZURE = ProviderChoice("openai"), ProviderChoice("azure", "west")


def entry(model: str, provider: str = "openai", price: str = "1", key: str | None = None) -> PricedModel:
    return PricedModel(provider, model, model if key is None else key, PriceLevels({"input": Decimal(price)}))


def names(
    *models: PricedModel, choices: tuple[ProviderChoice, ...] = (), patterns: tuple[str, ...] = ()
) -> list[str]:
    return [f"{row.provider}/{row.entry.model}" for row in select(models, choices, patterns)]


def test_rows_are_sorted_and_those_for_any_provider_are_last() -> None:
    models = [entry("b"), entry("a"), entry("z", "azure"), entry("c", "azure")]
    assert names(*models) == ["None/a", "None/b", "None/c", "None/z"]
    assert names(*models, choices=(OPENAI, AZURE)) == ["west/c", "west/z", "None/a", "None/b"]


def test_a_provider_is_chosen_by_its_name_or_its_beginning() -> None:
    models = [entry("a", "vertex_ai-mistral"), entry("b", "vertex_ai"), entry("c", "vertex")]
    assert names(*models, choices=(ProviderChoice("vertex_ai", "g"),)) == ["g/a", "g/b"]
    assert unknown_providers(models, [ProviderChoice("vertex_ai"), OPENAI]) == ["openai"]


def test_one_provider_of_theirs_may_be_several_of_ours() -> None:
    twice = (ProviderChoice("openai", "a"), ProviderChoice("openai", "b"))
    assert names(entry("m"), choices=twice) == ["a/m", "b/m"]


@pytest.mark.parametrize("pattern", ["gpt-*", "GPT-5", "openai/gpt-*"])
def test_a_model_is_chosen_by_a_pattern(pattern: str) -> None:
    models = [entry("gpt-5", key="openai/gpt-5"), entry("o5"), entry("my-gpt-5")]
    assert names(*models, patterns=(pattern,)) == ["None/gpt-5"]


def test_other_prices_of_the_same_model_are_named() -> None:
    models = [entry("m", "azure", "2", "azure/m"), entry("m", "zeta", "1"), entry("M", "beta", "1", "beta/M")]
    (row,) = select(models, (), ())
    assert (row.entry.provider, row.entry.unplaced) == ("zeta", ["other prices of azure"])


def test_a_model_without_a_price_has_no_row_and_no_comment() -> None:
    assert file_of([PricedModel("openai", "m", "m")]) == "rows: []\n"


@pytest.mark.parametrize("model", ["", "a b", "a\nb", "a\u2028b", "\ud800"])
def test_a_name_that_no_model_has_is_in_a_comment(model: str) -> None:
    text = file_of([entry(model)])
    assert text.startswith("rows: []\n  # no row for ")
    assert text.count("\n") == 2
    assert text.isascii()


def test_a_comment_holds_nothing_but_a_line() -> None:
    found = entry("m")
    found.leave_out("x\ny", "z\x1b" * MAX_SHOWN)
    (comment, row) = file_of([found]).splitlines()[1:]
    assert comment.startswith("  # without a place here: x\\ny z\\x1b")
    assert row == '  - {model: "m", input: 1}'
    assert printable("n" * MAX_SHOWN) == "n" * MAX_SHOWN
    assert printable("n" * (MAX_SHOWN + 1)) == "n" * MAX_SHOWN + "…"


NAMES = st.lists(
    st.sampled_from(["a", "B", "*", "?", "[", "]", "!", "-", '"', "\\", "'", "é", "#", ": ", "{"])
).map(lambda pieces: "".join(pieces).replace(" ", ""))


@given(model=NAMES.filter(bool), other=NAMES)
def test_a_row_fits_its_model_alone(model: str, other: str) -> None:
    table = PriceTable(rows_of([entry(model)]))
    assert table.row("any", model, 0.0) is not None
    assert (table.row("any", other, 0.0) is not None) is (other.lower() == model.lower())


@given(st.decimals(0, 1_000_000, places=9))
def test_a_price_is_what_it_was(price: Decimal) -> None:
    (row,) = rows_of([entry("m", price=str(price))])
    assert row.input == price
