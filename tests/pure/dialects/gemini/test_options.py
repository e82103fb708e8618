"""``generationConfig``, both ways."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from msgspec.structs import replace

from mgw.canonical.conversation import (
    Conversation,
    Media,
    MediaKind,
    OutputFormat,
    OutputKind,
    Reasoning,
    Role,
    Sampling,
    Text,
    Tool,
    ToolResult,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.dialects.dialect import Parsed, Rendered, RenderOptions, RequestContext
from mgw.dialects.gemini import CLIENT, PROVIDER
from mgw.nouns.errors import GatewayError
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Effort, Family, Kind

Json = dict[str, Any]
OLD: Final = ModelRow("*", Family.GEMINI, "x", budget=(1, 24_576), off=True, max_output=1000)
NEW: Final = ModelRow(
    "*", Family.GEMINI, "x", efforts=(Effort.LOW, Effort.HIGH), sampling=False, signatures=True
)
HELLO: Final = Conversation((Turn(Role.USER, (Text("Hello"),)),))
CONTEXT: Final = RequestContext("m")


def parse(body: Json, context: RequestContext = CONTEXT) -> Parsed[Conversation]:
    return CLIENT.text.parse_request(json.dumps(body).encode(), context)


def conversation_of(*contents: Json, **fields: Any) -> Conversation:
    return parse({"contents": list(contents), **fields}).request


def user(*parts: Json) -> Json:
    return {"role": "user", "parts": list(parts)}


def render(conversation: Conversation, row: ModelRow = OLD, model: str = "gemini-2.5-flash") -> Rendered:
    return PROVIDER.text.render_request(conversation, RenderOptions(model, Kind.GEMINI, row))


def body_of(conversation: Conversation, row: ModelRow = OLD) -> Json:
    found: Json = json.loads(render(conversation, row).body)
    return found


def config_of(conversation: Conversation, row: ModelRow = OLD) -> Json:
    found: Json = body_of(conversation, row).get("generationConfig", {})
    return found


def test_an_empty_stop_sequence_is_none() -> None:
    hello = user({"text": "hi"})
    assert conversation_of(hello, generationConfig={"stopSequences": ["", "END"]}).stop == ("END",)
    assert conversation_of(hello, generationConfig={"stopSequences": [""]}) == conversation_of(hello)


def test_numbers_may_be_strings() -> None:
    config = {"maxOutputTokens": "100", "temperature": "0.5", "thinkingConfig": {"thinkingBudget": "-1"}}
    found = conversation_of(user({"text": "a"}), generationConfig=config)
    assert (found.max_tokens, found.sampling.temperature, found.reasoning.budget) == (100, 0.5, -1)


@pytest.mark.parametrize("value", ["many", "nan", "1e400", True, [1], {}, 2**70])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(GatewayError) as caught:
        conversation_of(user({"text": "a"}), generationConfig={"maxOutputTokens": value})
    assert caught.value.param == "generationConfig.maxOutputTokens"


@pytest.mark.parametrize(
    ("thinking", "reasoning"),
    [
        ({"thinkingLevel": "HIGH"}, Reasoning(Effort.HIGH)),
        ({"thinkingLevel": "minimal"}, Reasoning(Effort.MINIMAL)),
        ({"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"}, Reasoning()),
        ({"thinkingBudget": 0}, Reasoning(budget=0)),
        ({"includeThoughts": False}, Reasoning(thoughts=False)),
    ],
)
def test_a_thinking_config_is_a_wish(thinking: Json, reasoning: Reasoning) -> None:
    found = conversation_of(user({"text": "a"}), generationConfig={"thinkingConfig": thinking})
    assert found.reasoning == reasoning


@pytest.mark.parametrize(
    ("config", "output"),
    [
        ({"responseMimeType": "application/json"}, OutputFormat(OutputKind.JSON)),
        ({"responseMimeType": "text/plain"}, None),
        ({"responseSchema": {"type": "STRING"}}, OutputFormat(OutputKind.SCHEMA, {"type": "string"})),
        (
            {"responseMimeType": "application/json", "responseJsonSchema": {"type": "OBJECT"}},
            OutputFormat(OutputKind.SCHEMA, {"type": "object"}),
        ),
    ],
)
def test_a_media_type_and_a_schema_are_an_output(config: Json, output: OutputFormat | None) -> None:
    assert conversation_of(user({"text": "a"}), generationConfig=config).output == output


def test_empty_stop_sequences_say_nothing() -> None:
    found = parse({"contents": [user({"text": "a"})], "generationConfig": {"stopSequences": ["", "a", ""]}})
    assert found.request.stop == ("a",)
    assert not found.unread


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_json_cannot_say_is_refused(number: str) -> None:
    with pytest.raises(GatewayError) as caught:
        conversation_of(user({"text": "a"}), generationConfig={"temperature": number})
    assert caught.value.param == "generationConfig.temperature"


def test_every_setting_has_its_place() -> None:
    schema = {"type": "object", "properties": {"z": {"type": ["string", "null"]}, "a": {"$ref": "#"}}}
    conversation = replace(
        HELLO,
        sampling=Sampling(0.5, 0.9, 40, 0.2, 0.1, 7, logprobs=True, top_logprobs=3),
        max_tokens=100,
        stop=("a", "b"),
        candidates=2,
        output=OutputFormat(OutputKind.SCHEMA, schema),
        reasoning=Reasoning(budget=2000),
    )
    found = render(conversation)
    assert not found.lost
    assert json.loads(found.body)["generationConfig"] == {
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 40,
        "presencePenalty": 0.1,
        "frequencyPenalty": 0.2,
        "seed": 7,
        "responseLogprobs": True,
        "logprobs": 3,
        "maxOutputTokens": 100,
        "stopSequences": ["a", "b"],
        "candidateCount": 2,
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 2000},
    }


def test_models_that_take_no_sampling_get_none() -> None:
    found = render(replace(HELLO, sampling=Sampling(0.5, 0.9, 40, 0.2, 0.1, 7)), NEW)
    assert json.loads(found.body)["generationConfig"] == {"seed": 7}
    assert found.lost == {
        Feature.TEMPERATURE,
        Feature.TOP_P,
        Feature.TOP_K,
        Feature.PRESENCE_PENALTY,
        Feature.FREQUENCY_PENALTY,
    }


def test_models_that_take_no_penalties_get_none() -> None:
    sampling = Sampling(temperature=0.5, frequency_penalty=0.2, presence_penalty=-0.1)
    found = render(replace(HELLO, sampling=sampling), replace(OLD, penalties=False))
    assert json.loads(found.body)["generationConfig"] == {"temperature": 0.5}
    assert found.lost == {Feature.PRESENCE_PENALTY, Feature.FREQUENCY_PENALTY}


def test_a_penalty_of_nothing_is_none() -> None:
    found = render(replace(HELLO, sampling=Sampling(frequency_penalty=0.0, presence_penalty=0)), NEW)
    assert "generationConfig" not in json.loads(found.body)
    assert not found.lost


def test_models_that_tell_no_log_probabilities_are_not_asked_for_them() -> None:
    sampling = Sampling(logprobs=True, top_logprobs=3)
    found = render(replace(HELLO, sampling=sampling), replace(OLD, logprobs=False))
    assert "generationConfig" not in json.loads(found.body)
    assert found.lost == {Feature.LOGPROBS, Feature.TOP_LOGPROBS}


@pytest.mark.parametrize(("wanted", "count", "lost"), [(1, 1, False), (3, 3, False), (5, 3, True)])
def test_no_more_answers_are_asked_for_than_the_model_gives(wanted: int, count: int, lost: bool) -> None:
    found = render(replace(HELLO, candidates=wanted), replace(OLD, candidates=3))
    assert json.loads(found.body)["generationConfig"] == {"candidateCount": count}
    assert found.lost == ({Feature.CANDIDATES} if lost else set())


@pytest.mark.parametrize("output", [OutputFormat(OutputKind.JSON), OutputFormat(OutputKind.SCHEMA, {}, "n")])
def test_json_beside_tools_is_asked_of_models_that_take_it(output: OutputFormat) -> None:
    conversation = replace(HELLO, output=output, tools=(Tool("f"),))
    assert config_of(conversation)["responseMimeType"] == "application/json"
    refusing = replace(OLD, json_with_tools=False)
    found = render(conversation, refusing)
    assert "generationConfig" not in json.loads(found.body)
    assert found.lost == {Feature.OUTPUT}
    assert config_of(replace(conversation, tools=()), refusing)["responseMimeType"] == "application/json"


@pytest.mark.parametrize("output", [OutputFormat(OutputKind.JSON), OutputFormat(OutputKind.SCHEMA, {}, "n")])
def test_json_is_not_asked_of_models_that_refuse_it(output: OutputFormat) -> None:
    found = render(replace(HELLO, output=output), replace(OLD, structured=False))
    assert "generationConfig" not in json.loads(found.body)
    assert found.lost == {Feature.OUTPUT}


def test_an_effort_is_a_level_where_the_model_has_levels() -> None:
    config = config_of(replace(HELLO, reasoning=Reasoning(Effort.HIGH)), NEW)
    assert config["thinkingConfig"] == {"includeThoughts": True, "thinkingLevel": "HIGH"}


@pytest.mark.parametrize(("default", "lost"), [(Effort.NONE, False), (Effort.HIGH, True), (None, True)])
def test_a_model_that_goes_on_thinking_unasked_loses_the_wish_that_it_does_not(
    default: Effort | None, lost: bool
) -> None:
    row = ModelRow("*", Family.GEMINI, "-", default=default)
    found = render(replace(HELLO, reasoning=Reasoning(Effort.NONE)), row)
    assert (Feature.REASONING in found.lost) is lost


@pytest.mark.parametrize(
    ("rule", "strict", "lost"),
    [
        ({"minimum": 1}, True, False),
        ({"anyOf": [{"type": "string"}, {"enum": ["a", 1]}]}, True, False),
        ({"additionalProperties": {"items": {"$ref": "#/$defs/a"}}}, True, False),
        ({"pattern": "a"}, True, True),
        ({"enum": [None]}, True, True),
        ({"anyOf": [{"type": "string"}, {"const": 1}]}, True, True),
        ({"additionalProperties": {"items": {"not": {}}}}, True, True),
        ({"properties": []}, True, True),
        ({"minimum": 1}, False, True),
        ({"pattern": "a"}, None, False),
    ],
)
def test_strictness_is_lost_where_the_schema_is_held_to_less_or_more(
    rule: Json, strict: bool | None, lost: bool
) -> None:
    schema = {"type": "object", "properties": {"a": rule}}
    output = OutputFormat(OutputKind.SCHEMA, schema, strict=strict)
    found = render(replace(HELLO, output=output))
    assert config_of(replace(HELLO, output=output))["responseJsonSchema"] == schema
    assert found.lost == ({Feature.OUTPUT_STRICT} if lost else set())


def test_more_than_five_stop_sequences_are_reported() -> None:
    found = render(replace(HELLO, stop=tuple("abcdef")))
    assert json.loads(found.body)["generationConfig"]["stopSequences"] == list("abcde")
    assert found.lost == {Feature.STOP}


def test_empty_stop_sequences_are_left_out() -> None:
    found = render(replace(HELLO, stop=("", "a", "", *"bcde")))
    assert json.loads(found.body)["generationConfig"]["stopSequences"] == list("abcde")
    assert not found.lost
    assert "generationConfig" not in body_of(replace(HELLO, stop=("",)))


@pytest.mark.parametrize("seed", [2**31, -1, 2**62])
def test_a_seed_fits_into_int32(seed: int) -> None:
    found = config_of(replace(HELLO, sampling=Sampling(seed=seed)))["seed"]
    assert 0 <= found < 2**31
    assert found == config_of(replace(HELLO, sampling=Sampling(seed=seed)))["seed"]


def test_no_more_is_asked_than_the_model_can_put_out() -> None:
    found = render(replace(HELLO, max_tokens=5000))
    assert json.loads(found.body)["generationConfig"] == {"maxOutputTokens": 1000}
    assert found.lost == {Feature.MAX_TOKENS}
    assert not render(replace(HELLO, max_tokens=1000)).lost
    assert config_of(replace(HELLO, max_tokens=5000), NEW)["maxOutputTokens"] == 5000


@pytest.mark.parametrize(
    ("details", "resolution", "lost"),
    [
        (("high", "high"), "MEDIA_RESOLUTION_HIGH", False),
        (("low", None), None, True),
        (("low", "high"), None, True),
        (("auto", None), None, False),
        (("ultra_high", "ultra_high"), None, True),
    ],
)
def test_one_detail_of_all_images_is_the_resolution(
    details: tuple[str | None, ...], resolution: str | None, lost: bool
) -> None:
    images = [Media(MediaKind.IMAGE, "image/png", data="AAAA", detail=detail) for detail in details]
    sound = Media(MediaKind.AUDIO, "audio/wav", data="AAAA")
    result = ToolResult("c", (images[1],))
    found = render(Conversation((Turn(Role.USER, (images[0], sound, result)),)))
    assert json.loads(found.body).get("generationConfig", {}).get("mediaResolution") == resolution
    assert (Feature.MEDIA_DETAIL in found.lost) is lost
