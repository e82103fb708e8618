"""A conversation as a generateContent request."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest
from msgspec.structs import replace

from mgw.canonical.conversation import (
    CacheMark,
    Conversation,
    Media,
    MediaKind,
    OutputFormat,
    OutputKind,
    Part,
    Reasoning,
    Role,
    Sampling,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMode,
    ToolResult,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.dialects.dialect import Rendered, RenderOptions, RequestContext
from mgw.dialects.gemini import CLIENT, PROVIDER
from mgw.dialects.model_row import ModelRow
from mgw.errors import GatewayError, Reason
from mgw.vocabulary import Effort, Family, Kind
from tests.support.said import undelivered

Json = dict[str, Any]
OLD: Final = ModelRow("*", Family.GEMINI, "x", budget=(1, 24_576), off=True, max_output=1000)
NEW: Final = ModelRow(
    "*", Family.GEMINI, "x", efforts=(Effort.LOW, Effort.HIGH), sampling=False, signatures=True
)
HELLO: Final = Conversation((Turn(Role.USER, (Text("Hello"),)),))


def rendered(conversation: Conversation, row: ModelRow = OLD, model: str = "gemini-2.5-flash") -> Rendered:
    return PROVIDER.text.render_request(conversation, RenderOptions(model, Kind.GEMINI, row))


def body_of(conversation: Conversation, row: ModelRow = OLD) -> Json:
    found: Json = json.loads(rendered(conversation, row).body)
    return found


def config_of(conversation: Conversation, row: ModelRow = OLD) -> Json:
    found: Json = body_of(conversation, row).get("generationConfig", {})
    return found


def parts_of(*parts: Part, row: ModelRow = OLD) -> list[Json]:
    conversation = Conversation((Turn(Role.USER, parts),))
    found: list[Json] = body_of(conversation, row)["contents"][0]["parts"]
    return found


@pytest.mark.parametrize(
    ("model", "stream", "target"),
    [
        ("gemini-2.5-pro", False, b"/models/gemini-2.5-pro:generateContent"),
        ("gemini-2.5-pro", True, b"/models/gemini-2.5-pro:streamGenerateContent?alt=sse"),
        ("models/gemini-2.5-pro", False, b"/models/gemini-2.5-pro:generateContent"),
        ("tunedModels/mine", False, b"/tunedModels/mine:generateContent"),
        ("a b", False, b"/models/a%20b:generateContent"),
    ],
)
def test_the_path_names_the_model(model: str, stream: bool, target: bytes) -> None:
    assert rendered(replace(HELLO, stream=stream), model=model).target == target


def test_a_model_that_no_path_can_carry_is_refused() -> None:
    with pytest.raises(GatewayError) as caught:
        rendered(HELLO, model="a/../b")
    assert caught.value.reason is Reason.MALFORMED


def test_a_bare_conversation_says_nothing_but_its_contents() -> None:
    assert body_of(HELLO) == {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}


def test_leading_instructions_are_the_system_instruction() -> None:
    body = body_of(replace(HELLO, system=(Text("a"), Text(""), Text("b"))))
    assert body["systemInstruction"] == {"parts": [{"text": "a"}, {"text": "b"}]}


@pytest.mark.parametrize("turns", [HELLO.turns, (Turn(Role.ASSISTANT, (Text("Hi"),)),)])
def test_instructions_are_the_users_first_text_where_the_model_takes_none(turns: tuple[Turn, ...]) -> None:
    conversation = replace(HELLO, turns=turns, system=(Text("a"), Text("b")))
    found = rendered(conversation, replace(OLD, system=False))
    body = json.loads(found.body)
    assert "systemInstruction" not in body
    assert body["contents"][0]["role"] == "user"
    assert body["contents"][0]["parts"][:2] == [{"text": "a"}, {"text": "b"}]
    assert len(body["contents"][0]["parts"]) == 3
    assert not found.lost


def test_instructions_alone_are_asked_by_the_user() -> None:
    assert body_of(Conversation((), system=(Text("Hi"),))) == {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}]
    }


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
    found = rendered(conversation)
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
    found = rendered(replace(HELLO, sampling=Sampling(0.5, 0.9, 40, 0.2, 0.1, 7)), NEW)
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
    found = rendered(replace(HELLO, sampling=sampling), replace(OLD, penalties=False))
    assert json.loads(found.body)["generationConfig"] == {"temperature": 0.5}
    assert found.lost == {Feature.PRESENCE_PENALTY, Feature.FREQUENCY_PENALTY}


def test_a_penalty_of_nothing_is_none() -> None:
    found = rendered(replace(HELLO, sampling=Sampling(frequency_penalty=0.0, presence_penalty=0)), NEW)
    assert "generationConfig" not in json.loads(found.body)
    assert not found.lost


def test_models_that_tell_no_log_probabilities_are_not_asked_for_them() -> None:
    sampling = Sampling(logprobs=True, top_logprobs=3)
    found = rendered(replace(HELLO, sampling=sampling), replace(OLD, logprobs=False))
    assert "generationConfig" not in json.loads(found.body)
    assert found.lost == {Feature.LOGPROBS, Feature.TOP_LOGPROBS}


@pytest.mark.parametrize(("wanted", "count", "lost"), [(1, 1, False), (3, 3, False), (5, 3, True)])
def test_no_more_answers_are_asked_for_than_the_model_gives(wanted: int, count: int, lost: bool) -> None:
    found = rendered(replace(HELLO, candidates=wanted), replace(OLD, candidates=3))
    assert json.loads(found.body)["generationConfig"] == {"candidateCount": count}
    assert found.lost == ({Feature.CANDIDATES} if lost else set())


@pytest.mark.parametrize("output", [OutputFormat(OutputKind.JSON), OutputFormat(OutputKind.SCHEMA, {}, "n")])
def test_json_beside_tools_is_asked_of_models_that_take_it(output: OutputFormat) -> None:
    conversation = replace(HELLO, output=output, tools=(Tool("f"),))
    assert config_of(conversation)["responseMimeType"] == "application/json"
    refusing = replace(OLD, json_with_tools=False)
    found = rendered(conversation, refusing)
    assert "generationConfig" not in json.loads(found.body)
    assert found.lost == {Feature.OUTPUT}
    assert config_of(replace(conversation, tools=()), refusing)["responseMimeType"] == "application/json"


@pytest.mark.parametrize("output", [OutputFormat(OutputKind.JSON), OutputFormat(OutputKind.SCHEMA, {}, "n")])
def test_json_is_not_asked_of_models_that_refuse_it(output: OutputFormat) -> None:
    found = rendered(replace(HELLO, output=output), replace(OLD, structured=False))
    assert "generationConfig" not in json.loads(found.body)
    assert found.lost == {Feature.OUTPUT}


def test_tools_for_a_model_that_takes_none_are_refused() -> None:
    refusing = replace(OLD, tools=False)
    with pytest.raises(GatewayError, match="does not accept tools") as caught:
        rendered(replace(HELLO, tools=(Tool("f"),)), refusing)
    assert (caught.value.reason, caught.value.param) == (Reason.MALFORMED, "tools")
    assert rendered(HELLO, refusing).body == rendered(HELLO, OLD).body


def test_an_effort_is_a_level_where_the_model_has_levels() -> None:
    config = config_of(replace(HELLO, reasoning=Reasoning(Effort.HIGH)), NEW)
    assert config["thinkingConfig"] == {"includeThoughts": True, "thinkingLevel": "HIGH"}


@pytest.mark.parametrize(("default", "lost"), [(Effort.NONE, False), (Effort.HIGH, True), (None, True)])
def test_a_model_that_goes_on_thinking_unasked_loses_the_wish_that_it_does_not(
    default: Effort | None, lost: bool
) -> None:
    row = ModelRow("*", Family.GEMINI, "-", default=default)
    found = rendered(replace(HELLO, reasoning=Reasoning(Effort.NONE)), row)
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
    found = rendered(replace(HELLO, output=output))
    assert config_of(replace(HELLO, output=output))["responseJsonSchema"] == schema
    assert found.lost == ({Feature.OUTPUT_STRICT} if lost else set())


def test_more_than_five_stop_sequences_are_reported() -> None:
    found = rendered(replace(HELLO, stop=tuple("abcdef")))
    assert json.loads(found.body)["generationConfig"]["stopSequences"] == list("abcde")
    assert found.lost == {Feature.STOP}


def test_empty_stop_sequences_are_left_out() -> None:
    found = rendered(replace(HELLO, stop=("", "a", "", *"bcde")))
    assert json.loads(found.body)["generationConfig"]["stopSequences"] == list("abcde")
    assert not found.lost
    assert "generationConfig" not in body_of(replace(HELLO, stop=("",)))


@pytest.mark.parametrize("seed", [2**31, -1, 2**62])
def test_a_seed_fits_into_int32(seed: int) -> None:
    found = config_of(replace(HELLO, sampling=Sampling(seed=seed)))["seed"]
    assert 0 <= found < 2**31
    assert found == config_of(replace(HELLO, sampling=Sampling(seed=seed)))["seed"]


def test_no_more_is_asked_than_the_model_can_put_out() -> None:
    found = rendered(replace(HELLO, max_tokens=5000))
    assert json.loads(found.body)["generationConfig"] == {"maxOutputTokens": 1000}
    assert found.lost == {Feature.MAX_TOKENS}
    assert not rendered(replace(HELLO, max_tokens=1000)).lost
    assert config_of(replace(HELLO, max_tokens=5000), NEW)["maxOutputTokens"] == 5000


def test_what_google_cannot_say_is_lost() -> None:
    mark = CacheMark("1h")
    conversation = replace(
        HELLO,
        turns=(Turn(Role.USER, (Text("a", cache=mark),), name="Ann"),),
        tools=(Tool("f", strict=True),),
        parallel_calls=False,
        output=OutputFormat(OutputKind.JSON, name="n", description="d"),
        user="u",
        sampling=Sampling(top_logprobs=3),
    )
    assert undelivered(conversation, rendered(conversation)) == {
        Feature.CACHE,
        Feature.TURN_NAME,
        Feature.TOOL_STRICT,
        Feature.PARALLEL_CALLS,
        Feature.OUTPUT_NAME,
        Feature.OUTPUT_DESCRIPTION,
        Feature.USER,
        Feature.TOP_LOGPROBS,
    }


# Tools ----------------------------------------------------------------------------------------------------


def test_a_tools_schema_goes_whole() -> None:
    schema = {"type": "object", "additionalProperties": False, "properties": {"z": {}, "a": {"const": 1}}}
    body = body_of(replace(HELLO, tools=(Tool("f", "Does.", schema), Tool("g"))))
    assert body["tools"] == [
        {
            "functionDeclarations": [
                {"name": "f", "description": "Does.", "parametersJsonSchema": schema},
                {"name": "g"},
            ]
        }
    ]
    assert list(body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]["properties"]) == [
        "z",
        "a",
    ]


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        (ToolChoice(ToolMode.AUTO), {"mode": "AUTO"}),
        (ToolChoice(ToolMode.NONE), {"mode": "NONE"}),
        (ToolChoice(ToolMode.ANY), {"mode": "ANY"}),
        (ToolChoice(ToolMode.ANY, ("f",)), {"mode": "ANY", "allowedFunctionNames": ["f"]}),
        (ToolChoice(ToolMode.AUTO, ("f",)), {"mode": "VALIDATED", "allowedFunctionNames": ["f"]}),
    ],
)
def test_a_choice_is_a_mode(choice: ToolChoice, config: Json) -> None:
    body = body_of(replace(HELLO, tools=(Tool("f"),), tool_choice=choice))
    assert body["toolConfig"] == {"functionCallingConfig": config}


def test_a_choice_without_tools_is_left_out() -> None:
    found = rendered(replace(HELLO, tool_choice=ToolChoice(ToolMode.NONE), parallel_calls=False))
    assert "toolConfig" not in json.loads(found.body)
    assert not found.lost


def test_illegal_names_are_changed_and_can_be_changed_back() -> None:
    names = ("1st", "a b", "a_b", "-", "é", "x" * 130, "x" * 131)
    choice = ToolChoice(ToolMode.ANY, ("1st",))
    found = rendered(replace(HELLO, tools=tuple(map(Tool, names)), tool_choice=choice))
    body = json.loads(found.body)
    said = [one["name"] for one in body["tools"][0]["functionDeclarations"]]
    assert (said[2], [name[:-8] for name in said[:5]]) == ("a_b", ["_1st_", "a_b_", "", "_-_", "__"])
    assert all(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}", name) for name in said)
    assert len(set(said)) == len(said)
    assert [found.renamed.get(name, name) for name in said] == list(names)
    assert body["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"] == said[:1]


# Media ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("media", "part"),
    [
        (
            Media(MediaKind.IMAGE, "image/png", data="AAAA"),
            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        ),
        (
            Media(MediaKind.IMAGE, data="iVBORw0KGgoAAAA="),
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgoAAAA="}},
        ),
        (
            Media(MediaKind.DOCUMENT, data="AAAA"),
            {"inlineData": {"mimeType": "application/pdf", "data": "AAAA"}},
        ),
        (
            Media(MediaKind.IMAGE, url="https://x.org/a.webp?b#c"),
            {"fileData": {"mimeType": "image/webp", "fileUri": "https://x.org/a.webp?b#c"}},
        ),
        (
            Media(MediaKind.IMAGE, url="https://x.org/a"),
            {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://x.org/a"}},
        ),
        (
            Media(MediaKind.VIDEO, url="https://www.youtube.com/watch?v=x"),
            {"fileData": {"mimeType": "video/*", "fileUri": "https://www.youtube.com/watch?v=x"}},
        ),
        (
            Media(MediaKind.IMAGE, "image/png", url="gs://b/a"),
            {"fileData": {"mimeType": "image/png", "fileUri": "gs://b/a"}},
        ),
        (
            Media(MediaKind.DOCUMENT, "application/pdf", file_id="files/a"),
            {"fileData": {"mimeType": "application/pdf", "fileUri": "files/a"}},
        ),
        (Media(MediaKind.DOCUMENT, "text/plain", text="words"), {"text": "words"}),
    ],
)
def test_media_are_blobs_files_or_text(media: Media, part: Json) -> None:
    assert parts_of(media) == [part]


@pytest.mark.parametrize("name", ["png", "jpeg", "webp", "heic", "heif"])
def test_images_that_google_reads_go_as_they_are(name: str) -> None:
    media = Media(MediaKind.IMAGE, f"image/{name}", data="AAAA")
    assert parts_of(media) == [{"inlineData": {"mimeType": f"image/{name}", "data": "AAAA"}}]


@pytest.mark.parametrize(
    ("stated", "sent"),
    [
        ("image/jpg", "image/jpeg"),
        ("IMAGE/PNG", "image/png"),
        ("image/pjpeg", "image/jpeg"),
        ("image/x-png", "image/png"),
        ("image/webp; q=1", "image/webp"),
        ("image/*", "image/png"),
    ],
)
def test_the_type_of_an_image_is_spelled_as_google_reads_it(stated: str, sent: str) -> None:
    data = Media(MediaKind.IMAGE, stated, data="iVBORw0KGgoAAAA=")
    assert parts_of(data)[0]["inlineData"]["mimeType"] == sent
    address = Media(MediaKind.IMAGE, stated, url="https://x.org/a.png")
    assert parts_of(address)[0]["fileData"]["mimeType"] == sent


@pytest.mark.parametrize(
    "media",
    [
        *(
            Media(MediaKind.IMAGE, f"image/{name}", data="AAAA")
            for name in ("gif", "bmp", "svg+xml", "tiff", "avif")
        ),
        Media(MediaKind.IMAGE, data="R0lGODlhAQAB"),
        Media(MediaKind.IMAGE, "image/gif", url="https://x.org/a"),
        Media(MediaKind.IMAGE, url="https://x.org/a.GIF?b"),
        Media(MediaKind.IMAGE, url="https://x.org/a.svg"),
        Media(MediaKind.IMAGE, url="https://x.org/a.tiff"),
        Media(MediaKind.IMAGE, "image/bmp", file_id="files/a"),
    ],
)
@pytest.mark.parametrize("addresses", [True, False])
def test_an_image_that_google_does_not_read_is_lost_and_told(media: Media, addresses: bool) -> None:
    row = replace(OLD, addresses=addresses)
    found = rendered(Conversation((Turn(Role.USER, (Text("a"), media)),)), row)
    said = json.loads(found.body)["contents"][0]["parts"]
    assert said == [{"text": "a"}, {"text": "[image left out]"}]
    assert found.lost == {Feature.IMAGE}


def test_an_image_of_a_result_that_google_does_not_read_is_told_in_the_result() -> None:
    call, image = ToolCall("1", "f", "{}"), Media(MediaKind.IMAGE, "image/gif", data="AAAA")
    turns = (
        Turn(Role.USER, (Text("a"),)),
        Turn(Role.ASSISTANT, (call,)),
        Turn(Role.USER, (ToolResult("1", (Text("b"), image)),)),
    )
    found = rendered(Conversation(turns))
    (part,) = json.loads(found.body)["contents"][2]["parts"]
    assert part["functionResponse"]["response"] == {"result": "b\n\n[image left out]"}
    assert found.lost == {Feature.IMAGE}


def test_a_model_that_fetches_no_addresses_is_asked_for_none() -> None:
    with pytest.raises(GatewayError) as caught:
        parts_of(Media(MediaKind.IMAGE, url="https://x.org/a.png"), row=replace(OLD, addresses=False))
    assert caught.value.reason is Reason.MALFORMED
    assert "base64" in caught.value.message


def test_a_file_of_another_vendors_is_lost_and_told() -> None:
    media = Media(MediaKind.DOCUMENT, file_id="file-1", name="a.pdf", context="c")
    found = rendered(Conversation((Turn(Role.USER, (Text("a"), media)),)))
    said = [part["text"] for part in json.loads(found.body)["contents"][0]["parts"]]
    assert said == ["a", "c", "[document left out]"]
    assert found.lost == {Feature.FILE_ID, Feature.MEDIA_NAME}


def test_a_request_that_says_nothing_is_refused() -> None:
    with pytest.raises(GatewayError, match="no message has content"):
        rendered(Conversation((Turn(Role.USER, (Text(""),)),)))


@pytest.mark.parametrize(
    ("details", "said", "lost"),
    [
        (("high", "high"), "MEDIA_RESOLUTION_HIGH", False),
        (("low", None), None, True),
        (("low", "high"), None, True),
        (("auto", None), None, False),
        (("ultra_high", "ultra_high"), None, True),
    ],
)
def test_one_detail_of_all_images_is_the_resolution(
    details: tuple[str | None, ...], said: str | None, lost: bool
) -> None:
    images = [Media(MediaKind.IMAGE, "image/png", data="AAAA", detail=detail) for detail in details]
    sound = Media(MediaKind.AUDIO, "audio/wav", data="AAAA")
    result = ToolResult("c", (images[1],))
    found = rendered(Conversation((Turn(Role.USER, (images[0], sound, result)),)))
    assert json.loads(found.body).get("generationConfig", {}).get("mediaResolution") == said
    assert (Feature.MEDIA_DETAIL in found.lost) is lost


# There and back -------------------------------------------------------------------------------------------


def test_what_is_rendered_is_parsed_again() -> None:
    conversation = Conversation(
        (Turn(Role.USER, (Text("a"), Media(MediaKind.IMAGE, "image/png", data="AAAA", detail="high"))),),
        system=(Text("s"),),
        tools=(Tool("f", "d", {"type": "object"}),),
        tool_choice=ToolChoice(ToolMode.ANY, ("f",)),
        sampling=Sampling(0.5, 0.9, 40, 0.2, 0.1, 7, logprobs=True, top_logprobs=3),
        max_tokens=100,
        stop=("x",),
        candidates=1,
        output=OutputFormat(OutputKind.SCHEMA, {"type": "object"}),
        reasoning=Reasoning(budget=2000, thoughts=True),
    )
    found = CLIENT.text.parse_request(rendered(conversation).body, RequestContext("m"))
    assert found.request == conversation
    assert not found.unread
