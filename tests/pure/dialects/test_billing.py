"""What answers say of their price beside token counts (contract 7.10)."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.reply import NO_USAGE, Billed, TokenUsage
from mgw.dialects import dialect_of
from mgw.dialects.metering import add_usage, merge_usage
from mgw.nouns.vocabulary import DialectName

FAMILIES = [DialectName.OPENAI_CHAT, DialectName.OPENAI_RESPONSES, DialectName.ANTHROPIC]


def billed(dialect: DialectName, body: bytes | dict[str, Any]) -> Billed | None:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return dialect_of(dialect).read_usage(text, NO_USAGE).billed


PRICES = {
    "credits": (b'"cost":0.95', 950_000_000),
    "as text": (b'"cost":"0.95"', 950_000_000),
    "free": (b'"cost":0', 0),
    "in exponents": (b'"cost":1.5e-7', 150),
    "rounded half up": (b'"cost":0.0000000015', 2),
    "rounded down": (b'"cost":0.00000000149999999999999999999999', 1),
    "an upstream's own price is told, not charged": (
        b'"cost":0.95,"cost_details":{"upstream_inference_cost":19}',
        950_000_000,
    ),
    "with the operator's own key at the provider behind": (
        b'"cost":0.95,"is_byok":true,"cost_details":{"upstream_inference_cost":19}',
        19_950_000_000,
    ),
    "own key, the other half unknown": (b'"cost":0.95,"is_byok":true', None),
    "own key, the other half null": (
        b'"cost":0.95,"is_byok":true,"cost_details":{"upstream_inference_cost":null}',
        None,
    ),
    "not the own key": (b'"cost":0.95,"is_byok":false', 950_000_000),
    "a breakdown": (b'"cost":{"input_tokens_cost":0.1,"request_cost":0.2,"total_cost":0.3}', 300_000_000),
    "a breakdown in dollars": (b'"cost":{"currency":"USD","total_cost":0.3}', 300_000_000),
    "a breakdown in something else": (b'"cost":{"currency":"EUR","total_cost":0.3}', None),
    "a breakdown without a total": (b'"cost":{"input_tokens_cost":0.1}', None),
    "ticks": (b'"cost_in_usd_ticks":37756000', 3_775_600),
    "half a nanodollar of ticks": (b'"cost_in_usd_ticks":5', 1),
    "null": (b'"cost":null', None),
    "negative": (b'"cost":-1', None),
    "true": (b'"cost":true', None),
    "no number": (b'"cost":"free"', None),
    "not a number": (b'"cost":"NaN"', None),
    "a signalling one": (b'"cost":"sNaN"', None),
    "endless": (b'"cost":"Infinity"', None),
    "beyond belief": (b'"cost":1e30', None),
    "a list": (b'"cost":[1]', None),
}


@pytest.mark.parametrize("dialect", FAMILIES)
@pytest.mark.parametrize(("text", "nanodollars"), PRICES.values(), ids=PRICES)
def test_a_price_that_a_provider_names_is_read_exactly(
    dialect: DialectName, text: bytes, nanodollars: int | None
) -> None:
    body = b'{"usage":{"input_tokens":10,"output_tokens":4,%b}}' % text
    usage = dialect_of(dialect).read_usage(body, NO_USAGE)
    assert (usage.tokens_in, usage.tokens_out) == (10, 4)
    assert usage.billed == (None if nanodollars is None else Billed(nanodollars))


@given(dollars=st.decimals(0, 9_000_000, places=9))
def test_no_price_is_changed_by_being_read(dollars: Decimal) -> None:
    found = billed(DialectName.OPENAI_CHAT, b'{"usage":{"cost":%b}}' % format(dollars, "f").encode())
    assert found is not None
    assert found.nanodollars == int(dollars.scaleb(9))


MEDIA = {
    "images": (
        DialectName.OPENAI,
        {"created": 1, "data": [{"b64_json": "aa", "revised_prompt": "x"}, {"b64_json": "bb"}]},
        Billed(images=2),
    ),
    "images at addresses": (
        DialectName.OPENAI,
        {"data": [{"url": "https://h/1", "b64_json": None}]},
        Billed(images=1),
    ),
    "no image": (DialectName.OPENAI, {"created": 1, "data": []}, Billed(images=0)),
    "something that is no image": (DialectName.OPENAI, {"data": [{"b64_json": "aa"}, {"x": 1}]}, Billed()),
    "data of another kind": (DialectName.OPENAI, {"data": "x"}, Billed()),
    "images and a price": (
        DialectName.OPENAI,
        {"data": [{"url": "https://h/1"}], "usage": {"cost_in_usd_ticks": 200_000_000}},
        Billed(20_000_000, 1),
    ),
    "a list of other things": (DialectName.OPENAI, {"object": "list", "data": [{"url": "x"}]}, None),
    "embeddings": (
        DialectName.OPENAI,
        {"object": "list", "data": [{"embedding": [0.1]}], "usage": {"prompt_tokens": 1}},
        None,
    ),
    "a transcription with its length": (
        DialectName.OPENAI,
        {"text": "", "usage": {"type": "duration", "seconds": 90}},
        Billed(milliseconds=90_000),
    ),
    "a verbose transcription": (
        DialectName.OPENAI,
        {"text": "", "duration": 8.4700002, "segments": []},
        Billed(milliseconds=8470),
    ),
    "a verbose transcription of older days": (
        DialectName.OPENAI,
        {"text": "", "duration": "8.47"},
        Billed(milliseconds=8470),
    ),
    "the length that is billed comes first": (
        DialectName.OPENAI,
        {"text": "", "duration": 8.47, "usage": {"type": "duration", "seconds": 9}},
        Billed(milliseconds=9000),
    ),
    "a transcription of unknown length": (DialectName.OPENAI, {"text": ""}, None),
    "predictions": (
        DialectName.GEMINI,
        {"predictions": [{"bytesBase64Encoded": "aa", "mimeType": "image/png"}, {"gcsUri": "gs://b/1"}]},
        Billed(images=2),
    ),
    "a prediction that a filter took": (
        DialectName.GEMINI,
        {"predictions": [{"bytesBase64Encoded": "aa"}, {"raiFilteredReason": "no"}]},
        Billed(images=1),
    ),
    "predictions of something else": (DialectName.GEMINI, {"predictions": [{"values": [1]}]}, Billed()),
    "predictions of another shape": (DialectName.GEMINI, {"predictions": {"a": 1}}, Billed()),
}


@pytest.mark.parametrize(("dialect", "body", "found"), MEDIA.values(), ids=MEDIA)
def test_media_are_counted_where_the_answer_tells(
    dialect: DialectName, body: dict[str, Any], found: Billed | None
) -> None:
    assert billed(dialect, body) == found


def test_what_is_billed_later_in_a_stream_replaces_what_was_before() -> None:
    first, second = TokenUsage(1, billed=Billed(5)), TokenUsage(1, billed=Billed(7))
    assert merge_usage(first, second).billed == Billed(7)
    assert merge_usage(first, TokenUsage(2)).billed == Billed(5)


def test_what_is_billed_for_several_responses_adds_up() -> None:
    one, other = TokenUsage(1, billed=Billed(5, 1)), TokenUsage(1, billed=Billed(7, None, 3))
    assert add_usage(one, other).billed == Billed(12, 1, 3)
    assert add_usage(one, TokenUsage(1)).billed == Billed(5, 1)
    assert add_usage(TokenUsage(1), one).billed == Billed(5, 1)
