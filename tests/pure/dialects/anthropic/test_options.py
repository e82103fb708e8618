"""Options, both ways: sampling, limits, output format, reasoning, user."""

from __future__ import annotations

import pytest

from mgw.canonical.conversation import (
    OutputFormat,
    OutputKind,
    Reasoning,
    Sampling,
    Tool,
)
from mgw.canonical.features import Feature
from mgw.nouns.vocabulary import Effort
from tests.support.messages import (
    ADAPTIVE,
    EXTENDED,
    NEW,
    NEWEST,
    OLD,
    parse,
    refusal,
    render,
)


def test_an_empty_stop_sequence_is_none() -> None:
    assert parse(stop_sequences=["", "END"]).request.stop == ("END",)
    assert parse(stop_sequences=[""]).request == parse().request


def test_a_limit_that_only_warms_a_cache_is_refused() -> None:
    assert refusal(max_tokens=0).param == "max_tokens"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, Reasoning(adaptive=True, thoughts=False)),
        ({"thinking": {"type": "disabled"}}, Reasoning(budget=0)),
        ({"thinking": {"type": "between_tools"}}, Reasoning(budget=0)),
        ({"output_config": {"effort": "low"}}, Reasoning(Effort.LOW)),
        (
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}},
            Reasoning(Effort.MAX, adaptive=True),
        ),
    ],
    ids=["adaptive", "disabled", "between tools", "effort", "both"],
)
def test_thinking_is_understood(fields: dict[str, object], expected: Reasoning) -> None:
    assert parse(**fields).request.reasoning == expected


def test_the_old_name_of_the_output_format_is_understood() -> None:
    schema = {"type": "object"}
    parsed = parse(output_format={"type": "json_schema", "schema": schema})
    assert parsed.request.output is not None
    assert parsed.request.output.schema == schema
    assert parsed.said[Feature.OUTPUT] == {"output_format.schema"}


@pytest.mark.parametrize(
    ("model", "version", "sampling", "expected", "lost"),
    [
        (ADAPTIVE, None, Sampling(1.7, top_k=3), {"temperature": 1, "top_k": 3}, set()),
        (ADAPTIVE, None, Sampling(0.2, 0.5), {"temperature": 0.2}, {Feature.TOP_P}),
        (ADAPTIVE, None, Sampling(top_p=0.5), {"top_p": 0.5}, set()),
        (ADAPTIVE, NEW, Sampling(0.2), {}, {Feature.TEMPERATURE}),
        (NEWEST, None, Sampling(0.2, top_k=1), {}, {Feature.TEMPERATURE, Feature.TOP_K}),
    ],
)
def test_sampling_goes_where_it_is_taken(
    model: str, version: str | None, sampling: Sampling, expected: dict[str, float], lost: set[Feature]
) -> None:
    body, rendered = render(model=model, version=version, sampling=sampling)
    assert {key: body[key] for key in ("temperature", "top_p", "top_k") if key in body} == expected
    assert rendered.lost == lost
    assert rendered.headers == ((b"anthropic-version", (version or OLD).encode()),)


def test_thinking_goes_without_sampling() -> None:
    body, rendered = render(reasoning=Reasoning(Effort.LOW), sampling=Sampling(0.2))
    assert body["output_config"] == {"effort": "low"}
    assert "temperature" not in body
    assert rendered.lost == {Feature.TEMPERATURE}


def test_the_other_options_are_rendered() -> None:
    body, rendered = render(stop=("END",), user="u-1", stream=True, max_tokens=7, candidates=1)
    assert (body["stop_sequences"], body["metadata"], body["stream"], body["max_tokens"]) == (
        ["END"],
        {"user_id": "u-1"},
        True,
        7,
    )
    assert not rendered.lost


@pytest.mark.parametrize(
    ("limit", "expected", "lost"), [(64_000, 64_000, set()), (64_001, 64_000, {Feature.MAX_TOKENS})]
)
def test_a_limit_above_the_models_is_lowered_and_reported(
    limit: int, expected: int, lost: set[Feature]
) -> None:
    body, rendered = render(model=EXTENDED, max_tokens=limit)
    assert body["max_tokens"] == expected
    assert rendered.lost == lost


def test_any_json_object_cannot_be_asked_for() -> None:
    body, rendered = render(output=OutputFormat(OutputKind.JSON))
    assert "output_config" not in body
    assert rendered.lost == {Feature.OUTPUT}
    assert not render(output=OutputFormat(OutputKind.TEXT))[1].lost


@pytest.mark.parametrize("model", ["claude-3-7-sonnet-latest", "claude-opus-4-1", "claude-sonnet-4-0"])
def test_structured_output_and_strict_tools_are_not_asked_of_models_that_refuse_them(model: str) -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    body, rendered = render(
        model=model,
        tools=(Tool("look", schema=schema, strict=True),),
        output=OutputFormat(OutputKind.SCHEMA, schema),
    )
    assert "output_config" not in body
    assert "strict" not in body["tools"][0]
    assert rendered.lost == {Feature.OUTPUT, Feature.TOOL_STRICT}
