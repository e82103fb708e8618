"""A client's generateContent request, as the canonical form has it."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mgw.canonical.conversation import (
    Conversation,
    Media,
    MediaKind,
    OutputFormat,
    OutputKind,
    Part,
    Reasoning,
    Role,
    Sampling,
    Signature,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMode,
    ToolResult,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.dialects.dialect import Parsed, RequestContext
from mgw.dialects.gemini import CLIENT
from mgw.dialects.gemini.options import ContentReplyOptions
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Effort, Family
from tests.support.gemini_requests import OLD, Json, body_of, model

NEW: Final = ModelRow(
    "*", Family.GEMINI, "x", efforts=(Effort.LOW, Effort.HIGH), sampling=False, signatures=True
)
CONTEXT: Final = RequestContext("m")


def parse(body: Json, context: RequestContext = CONTEXT) -> Parsed[Conversation]:
    return CLIENT.text.parse_request(json.dumps(body).encode(), context)


def conversation_of(*contents: Json, **fields: Any) -> Conversation:
    return parse({"contents": list(contents), **fields}).request


def user(*parts: Json) -> Json:
    return {"role": "user", "parts": list(parts)}


def call(name: str, call_id: str | None = None, **args: Any) -> Json:
    found = {"name": name, "args": args}
    return {"functionCall": found if call_id is None else {"id": call_id, **found}}


def response(name: str, text: str, call_id: str | None = None) -> Json:
    found = {"name": name, "response": {"result": text}}
    return {"functionResponse": found if call_id is None else {"id": call_id, **found}}


def parts_of(*parts: Part, row: ModelRow = OLD) -> list[Json]:
    conversation = Conversation((Turn(Role.USER, parts),))
    found: list[Json] = body_of(conversation, row)["contents"][0]["parts"]
    return found


RICH: Final[Json] = {
    "systemInstruction": {"parts": [{"text": "Be brief."}, {"text": "Be kind."}]},
    "contents": [
        user({"text": "Look."}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}),
        model(
            {"text": "Hm.", "thought": True, "thoughtSignature": "c2ln"},
            {"text": "I look."},
            {**call("look", "c1", at="here"), "thoughtSignature": "c2ln"},
        ),
        user(
            {
                "functionResponse": {
                    "id": "c1",
                    "name": "look",
                    "response": {"result": "a cat"},
                    "parts": [{"inlineData": {"mimeType": "image/jpeg", "data": "AAAA"}}],
                }
            }
        ),
    ],
    "tools": [
        {
            "functionDeclarations": [
                {"name": "look", "description": "Looks.", "parametersJsonSchema": {"type": "object"}}
            ]
        },
        {"functionDeclarations": [{"name": "go", "parameters": {"type": "OBJECT"}}]},
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}},
    "generationConfig": {
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 40,
        "candidateCount": 2,
        "maxOutputTokens": 100,
        "stopSequences": ["END"],
        "seed": 7,
        "presencePenalty": 0.1,
        "frequencyPenalty": 0.2,
        "responseLogprobs": True,
        "logprobs": 3,
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 1024},
    },
}


def test_a_rich_request_is_understood_whole() -> None:
    found = parse(RICH)
    image = Media(MediaKind.IMAGE, "image/png", data="AAAA")
    signature = Signature(Family.GEMINI, "c2ln")
    assert found.request == Conversation(
        system=(Text("Be brief."), Text("Be kind.")),
        turns=(
            Turn(Role.USER, (Text("Look."), image)),
            Turn(
                Role.ASSISTANT,
                (
                    Thinking("Hm.", signature),
                    Text("I look."),
                    ToolCall("c1", "look", '{"at":"here"}', signature),
                ),
            ),
            Turn(
                Role.USER,
                (
                    ToolResult(
                        "c1",
                        (Text("a cat"), Media(MediaKind.IMAGE, "image/jpeg", data="AAAA")),
                        "look",
                    ),
                ),
            ),
        ),
        tools=(Tool("look", "Looks.", {"type": "object"}), Tool("go", None, {"type": "object"})),
        tool_choice=ToolChoice(ToolMode.ANY, ("look",)),
        sampling=Sampling(0.5, 0.9, 40, 0.2, 0.1, 7, logprobs=True, top_logprobs=3),
        max_tokens=100,
        stop=("END",),
        candidates=2,
        output=OutputFormat(OutputKind.SCHEMA, {"type": "object", "properties": {"a": {"type": "string"}}}),
        reasoning=Reasoning(budget=1024, thoughts=True),
    )
    assert not found.unread


def test_every_feature_is_noted_where_the_client_says_it() -> None:
    assert parse(RICH).said == {
        feature: frozenset(paths)
        for feature, paths in {
            Feature.SYSTEM: {"systemInstruction"},
            Feature.THINKING: {"contents[].parts[thought]", "contents[].parts[].thoughtSignature"},
            Feature.IMAGE: {
                "contents[].parts[].inlineData",
                "contents[].parts[].functionResponse.parts[].inlineData",
            },
            Feature.RESULT_NAME: {"contents[].parts[].functionResponse.name"},
            Feature.TOOLS: {"tools"},
            Feature.TOOL_CHOICE: {"toolConfig.functionCallingConfig.mode"},
            Feature.TOOL_CHOICE_NAMES: {"toolConfig.functionCallingConfig.allowedFunctionNames"},
            Feature.TEMPERATURE: {"generationConfig.temperature"},
            Feature.TOP_P: {"generationConfig.topP"},
            Feature.TOP_K: {"generationConfig.topK"},
            Feature.CANDIDATES: {"generationConfig.candidateCount"},
            Feature.MAX_TOKENS: {"generationConfig.maxOutputTokens"},
            Feature.STOP: {"generationConfig.stopSequences"},
            Feature.SEED: {"generationConfig.seed"},
            Feature.PRESENCE_PENALTY: {"generationConfig.presencePenalty"},
            Feature.FREQUENCY_PENALTY: {"generationConfig.frequencyPenalty"},
            Feature.LOGPROBS: {"generationConfig.responseLogprobs"},
            Feature.TOP_LOGPROBS: {"generationConfig.logprobs"},
            Feature.OUTPUT: {"generationConfig.responseMimeType", "generationConfig.responseJsonSchema"},
            Feature.REASONING: {"generationConfig.thinkingConfig.thinkingBudget"},
            Feature.THOUGHTS: {"generationConfig.thinkingConfig.includeThoughts"},
        }.items()
    }


GEMINI_ONLY: Final[Json] = {
    "model": "models/m",
    "contents": [
        user(
            {"fileData": {"fileUri": "gs://b/v.mp4"}, "videoMetadata": {"fps": 2}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
            {"functionResponse": {"name": "f", "response": {}, "willContinue": True}},
        ),
        model({"executableCode": {"code": "1", "language": "PYTHON"}}, {"text": "1"}),
    ],
    "tools": [{"functionDeclarations": [{"name": "f", "behavior": "BLOCKING", "response": {}}]}],
    "toolConfig": {"retrievalConfig": {"languageCode": "de"}},
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    "cachedContent": "cachedContents/1",
    "labels": {"a": "b"},
    "serviceTier": "flex",
    "store": False,
    "generationConfig": {
        "responseModalities": ["TEXT", "IMAGE"],
        "speechConfig": {},
        "mediaResolution": "MEDIA_RESOLUTION_UNHEARD_OF",
        "responseMimeType": "text/x.enum",
        "responseSchema": {"type": "STRING", "enum": ["a"]},
    },
}


def test_what_no_other_family_has_is_reported() -> None:
    found = parse(GEMINI_ONLY)
    assert found.unread == {
        "contents[].parts[].videoMetadata",
        "contents[].parts[codeExecutionResult]",
        "contents[].parts[].functionResponse.willContinue",
        "contents[].parts[executableCode]",
        "tools[].functionDeclarations[].behavior",
        "tools[].functionDeclarations[].response",
        "toolConfig.retrievalConfig",
        "safetySettings",
        "cachedContent",
        "labels",
        "serviceTier",
        "store",
        "generationConfig.responseModalities",
        "generationConfig.speechConfig",
        "generationConfig.mediaResolution",
        "generationConfig.responseMimeType",
        "generationConfig.responseSchema",
    }
    assert found.request.output is None


def snaked(value: Any) -> Any:
    if isinstance(value, list):
        return [snaked(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key): snaked(item)
        for key, item in value.items()
    }


def test_keys_may_be_in_snake_case() -> None:
    assert parse(snaked(RICH)).request == parse(RICH).request
    assert parse(snaked(RICH)).said[Feature.MAX_TOKENS] == {"generation_config.max_output_tokens"}


def test_a_single_object_stands_for_an_array_of_one() -> None:
    found = parse(
        {
            "contents": {"parts": {"text": "Hi"}},
            "systemInstruction": {"parts": {"text": "Be brief."}},
            "tools": {"functionDeclarations": {"name": "f"}},
        }
    ).request
    assert found == Conversation(
        (Turn(Role.USER, (Text("Hi"),)),), system=(Text("Be brief."),), tools=(Tool("f"),)
    )


@pytest.mark.parametrize(
    ("query", "stream", "in_array"),
    [
        (b"alt=sse", True, False),
        (b"key=k&alt=sse", True, False),
        (b"alt=json", True, True),
        (None, True, True),
        (None, False, False),
    ],
)
def test_a_stream_without_alt_sse_is_an_array(query: bytes | None, stream: bool, in_array: bool) -> None:
    found = parse({"contents": [user({"text": "a"})]}, RequestContext("m", stream, query))
    assert (ContentReplyOptions.of(found.reply_options).in_array, found.request.stream) == (in_array, stream)


@pytest.mark.parametrize(
    ("fields", "param", "word"),
    [
        ({"tools": [{"functionDeclarations": []}, {"googleSearch": {}}]}, "tools[1].googleSearch", "gemini"),
        ({"tools": [{"code_execution": {}}]}, "tools[0].code_execution", "gemini"),
        ({"contents": [{"role": "system", "parts": [{"text": "a"}]}]}, "contents[0].role", "model"),
        ({"contents": [user({"hologram": {}})]}, "contents[0].parts[0]", "hologram"),
        ({"contents": [user(call("f"))]}, "contents[0].parts[0].functionCall", "role"),
        ({"contents": [model(response("f", "a"))]}, "contents[0].parts[0].functionResponse", "role"),
        ({"contents": []}, "contents", "required"),
        ({"contents": [user({"inlineData": {"data": "AAAAA"}})]}, "contents[0].parts[0].inlineData.data", ""),
        (
            {"toolConfig": {"functionCallingConfig": {"mode": "PERHAPS"}}},
            "toolConfig.functionCallingConfig.mode",
            "VALIDATED",
        ),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_place(fields: Json, param: str, word: str) -> None:
    with pytest.raises(GatewayError) as caught:
        parse({"contents": [user({"text": "a"})], **fields})
    assert caught.value.reason is Reason.MALFORMED
    assert caught.value.param == param
    assert word in caught.value.message


def places(value: Any) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = [()]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += [(key, *place) for place in places(item)]
    return found


ANY_JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["text", "parts", "type", "items", "anyOf", "name", "enum", "nullable"]), inner
        )
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(place=st.sampled_from(places(RICH)[1:]), value=ANY_JSON)
def test_any_json_anywhere_is_understood_or_refused(place: tuple[Any, ...], value: Any) -> None:
    body = deepcopy(RICH)
    *way, last = place
    inner: Any = body
    for key in way:
        inner = inner[key]
    inner[last] = value
    try:
        found = parse(body)
    except GatewayError as error:
        assert error.reason is Reason.MALFORMED  # noqa: PT017 - being understood is as good
    else:
        assert isinstance(found.request, Conversation)


@pytest.mark.parametrize("opening", ['{"items":', '{"anyOf":[', '{"properties":{"a":'])
@pytest.mark.parametrize("field", ["parameters", "parametersJsonSchema"])
def test_nesting_without_end_is_refused(opening: str, field: str) -> None:
    for depth in (100, *range(400, 1000, 2), 100_000):
        closing = "".join({"{": "}", "[": "]"}[c] for c in reversed(opening) if c in "{[") * depth
        schema = opening * depth + "{}" + closing
        tools = f'[{{"functionDeclarations":[{{"name":"f","{field}":{schema}}}]}}]'
        body = f'{{"contents":[{{"parts":[{{"text":"a"}}]}}],"tools":{tools}}}'
        try:
            CLIENT.text.parse_request(body.encode(), CONTEXT)
        except GatewayError as error:
            assert error.reason is Reason.MALFORMED  # noqa: PT017 - shallow ones are taken


@pytest.mark.parametrize("value", ["skip_thought_signature_validator", "skip/thought/signature/validator"])
def test_a_value_in_place_of_a_signature_is_none_however_its_bytes_are_spelled(value: str) -> None:
    part = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": value}
    (turn,) = conversation_of(model(part)).turns
    (call_,) = turn.parts
    assert isinstance(call_, ToolCall)
    assert call_.signature is None


def test_the_numbers_of_enumerations_are_read() -> None:
    parameters = {"type": 6, "properties": {"a": {"type": 1}, "b": {"type": 5, "items": {"type": 3}}}}
    found = parse(
        {
            "contents": [user({"text": "a"}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}})],
            "tools": [{"functionDeclarations": [{"name": "f", "parameters": parameters}]}],
            "generationConfig": {
                "responseModalities": [1],
                "mediaResolution": 3,
                "responseMimeType": "application/json",
                "responseSchema": {"type": 6, "properties": {"a": {"type": 1, "nullable": True}}},
            },
        }
    )
    assert not found.unread
    conversation = found.request
    assert conversation.tools[0].schema == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
    }
    assert conversation.output is not None
    assert conversation.output.schema == {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"]}},
    }
    image = conversation.turns[0].parts[1]
    assert isinstance(image, Media)
    assert image.detail == "high"


def test_the_case_of_a_role_does_not_count() -> None:
    found = conversation_of(
        {"role": "USER", "parts": {"text": "a"}}, {"role": "Model", "parts": {"text": "b"}}
    )
    assert [turn.role for turn in found.turns] == [Role.USER, Role.ASSISTANT]
