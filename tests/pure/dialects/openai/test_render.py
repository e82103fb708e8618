"""A conversation, written for a provider that speaks chat completions."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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
    Refusal,
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
from mgw.dialects.dialect import RenderOptions, RequestContext
from mgw.dialects.models import Models
from mgw.dialects.openai.request import parse_request, render_request
from mgw.errors import GatewayError, Reason
from mgw.simulator.openai.chat_request import REQUEST, check_request
from mgw.simulator.openai.errors import validate
from mgw.vocabulary import ChatTools, Effort, Family, Kind
from tests.support.said import undelivered

Json = Any  # Any: JSON as it was found

ROW = Models(()).row("gpt-4.1", Family.OPENAI)
OPENAI = RenderOptions("gpt-4.1", Kind.OPENAI, ROW)
HOST = RenderOptions("host-model", Kind.OPENAI_COMPAT, ROW, max_tokens_field="max_tokens")

HI = Turn(Role.USER, (Text("hi"),))
CALL = ToolCall("1", "f", '{"a":1}')
PNG = Media(MediaKind.IMAGE, "image/png", "aWs=")
TOOL = Tool("f", "d", {"type": "object", "properties": {"b": {}, "a": {}}})


def rendered(conversation: Conversation, setting: RenderOptions = OPENAI) -> Json:
    return json.loads(render_request(conversation, setting).body)


def lost(conversation: Conversation, setting: RenderOptions = OPENAI) -> frozenset[Feature]:
    return undelivered(conversation, render_request(conversation, setting))


def messages(*turns: Turn, setting: RenderOptions = OPENAI) -> list[Json]:
    found: list[Json] = rendered(Conversation(turns), setting)["messages"]
    return found


def said(*parts: Part) -> Turn:
    return Turn(Role.ASSISTANT, parts)


def asked(*parts: Part) -> Turn:
    return Turn(Role.USER, parts)


def test_the_request_goes_to_chat_completions() -> None:
    found = render_request(Conversation((HI,)), OPENAI)
    assert found.target == b"/chat/completions"
    assert found.body == b'{"model":"gpt-4.1","messages":[{"role":"user","content":"hi"}]}'
    assert not found.lost


def test_instructions_are_one_system_message_and_later_ones_keep_their_place() -> None:
    later = Turn(Role.SYSTEM, (Text("c"),))
    body = rendered(Conversation((HI, later, HI), (Text("a"), Text(""), Text("b"))))
    assert body["messages"] == [
        {"role": "system", "content": "a\n\nb"},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "c"},
        {"role": "user", "content": "hi"},
    ]


def test_several_texts_stay_parts_for_openai_and_become_one_string_for_hosts() -> None:
    turn = asked(Text("a"), Text(""), Text("b"))
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert messages(turn)[0]["content"] == parts
    assert messages(turn, setting=HOST)[0]["content"] == "a\n\nb"
    assert messages(asked(Text("a")))[0]["content"] == "a"


def test_media_has_its_part_or_is_reported() -> None:
    pdf = Media(MediaKind.DOCUMENT, "application/pdf", "aWs=", name="a.pdf", context="c")
    turn = asked(
        replace(PNG, detail="high"),
        Media(MediaKind.IMAGE, url="https://a"),
        pdf,
        Media(MediaKind.DOCUMENT, "text/plain", text="t", name="n"),
        Media(MediaKind.AUDIO, "audio/mpeg", "aWs="),
    )
    assert messages(turn)[0]["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aWs=", "detail": "high"}},
        {"type": "image_url", "image_url": {"url": "https://a"}},
        {"type": "text", "text": "c"},
        {
            "type": "file",
            "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aWs="},
        },
        {"type": "text", "text": "n\n\nt"},
        {"type": "input_audio", "input_audio": {"data": "aWs=", "format": "mp3"}},
    ]
    assert not lost(Conversation((turn,)))


@pytest.mark.parametrize("setting", [OPENAI, HOST], ids=["openai", "host"])
@pytest.mark.parametrize(
    "media_type",
    [
        "text/markdown",
        "text/csv; charset=utf-8",
        "application/json",
        "application/x-yaml",
        "application/a+xml",
    ],
)
def test_a_document_that_is_text_becomes_text_with_its_title(media_type: str, setting: RenderOptions) -> None:
    data = b64encode("né\n".encode()).decode()
    turn = asked(Media(MediaKind.DOCUMENT, media_type, data, name="notes"))
    assert messages(turn, setting=setting)[0]["content"] == "notes\n\nné\n"
    assert not lost(Conversation((turn,)))


def test_a_document_that_is_said_to_be_text_and_is_none_stays_a_file() -> None:
    (part,) = messages(asked(Media(MediaKind.DOCUMENT, "text/plain", "/w==")))[0]["content"]
    assert part["file"]["file_data"] == "data:text/plain;base64,/w=="


@pytest.mark.parametrize(
    ("media", "feature"),
    [
        (Media(MediaKind.VIDEO, "video/mp4", "aWs="), Feature.VIDEO),
        (Media(MediaKind.AUDIO, "audio/ogg", "aWs="), Feature.AUDIO),
        (Media(MediaKind.DOCUMENT, url="https://a/b.pdf"), Feature.DOCUMENT),
        (Media(MediaKind.IMAGE, url="gs://a/b"), Feature.IMAGE),
        (Media(MediaKind.IMAGE, file_id="file-1"), Feature.FILE_ID),
        (replace(PNG, detail="medium"), Feature.MEDIA_DETAIL),
        (Media(MediaKind.DOCUMENT, "application/pdf", "aWs=", detail="low"), Feature.MEDIA_DETAIL),
        (replace(PNG, cache=CacheMark()), Feature.CACHE),
    ],
    ids=lambda value: value.name if isinstance(value, Feature) else "",
)
def test_media_that_this_wire_cannot_say_is_reported(media: Media, feature: Feature) -> None:
    assert lost(Conversation((asked(media),))) == {feature}
    assert messages(asked(media))[0]["content"]


def test_an_address_is_refused_where_the_model_fetches_none() -> None:
    setting = RenderOptions("m", Kind.OPENAI_COMPAT, replace(ROW, addresses=False))
    with pytest.raises(GatewayError) as caught:
        rendered(Conversation((asked(Media(MediaKind.IMAGE, url="https://a")),)), setting)
    assert caught.value.reason is Reason.MALFORMED


def test_results_stand_directly_behind_their_calls() -> None:
    """Also where they came in another order, later, or with text before them."""
    calls = said(CALL, ToolCall("2", "g", ""))
    results = asked(Text("by the way"), ToolResult("2", (Text("two"),)), ToolResult("1", (Text("one"),)))
    assert messages(HI, calls, results)[1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
                {"id": "2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "one"},
        {"role": "tool", "tool_call_id": "2", "content": "two"},
        {"role": "user", "content": "by the way"},
    ]


def test_a_call_without_a_result_gets_one_and_a_result_without_a_call_becomes_text() -> None:
    orphan = asked(ToolResult("9", (Text("r"),), "g"))
    found = messages(orphan, said(CALL), HI)
    assert [block["text"] for block in found[0]["content"]] == ["[Result of g]", "r"]
    assert found[2] == {
        "role": "tool",
        "tool_call_id": "1",
        "content": "No result was recorded for this call.",
    }


def test_images_of_results_move_to_the_next_user_message() -> None:
    both = [ToolResult("1", (PNG,)), ToolResult("2", (Text("t"), PNG))]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aWs="}}
    found = messages(HI, said(CALL, ToolCall("2", "f", "")), asked(*both, Text("look")))
    assert [message["content"] for message in found[2:]] == [
        "The result is attached below.",
        "t",
        [image, image, {"type": "text", "text": "look"}],
    ]
    alone = messages(HI, said(CALL), asked(both[0]), said(Text("nice")))
    assert [message["role"] for message in alone[3:]] == ["user", "assistant"]
    assert alone[3]["content"] == [image]


def test_identifiers_are_legal_and_each_ones_own() -> None:
    """A long one is replaced in call and result alike; one that is used again still has its own result."""
    long = "x" * 41
    found = messages(
        HI,
        said(ToolCall(long, "f", "")),
        asked(ToolResult(long, (Text("one"),))),
        said(ToolCall(long, "f", "")),
        asked(ToolResult(long, (Text("two"),))),
    )
    first, second = found[1]["tool_calls"][0]["id"], found[3]["tool_calls"][0]["id"]
    assert first != second
    assert len(first) <= 40
    assert (found[2]["tool_call_id"], found[2]["content"]) == (first, "one")
    assert (found[4]["tool_call_id"], found[4]["content"]) == (second, "two")
    again = messages(HI, said(ToolCall(long, "f", "")), asked(ToolResult(long, (Text("one"),))))
    assert again == found[:3]


def test_a_call_without_a_result_takes_none_from_a_later_call_of_the_same_identifier() -> None:
    found = messages(HI, said(CALL), HI, said(CALL), asked(ToolResult("1", (Text("r"),))))
    results = [message["content"] for message in found if message["role"] == "tool"]
    assert results == ["No result was recorded for this call.", "r"]


def test_a_failed_result_is_reported() -> None:
    turns = (HI, said(CALL), asked(ToolResult("1", (Text("no"),), is_error=True)))
    assert lost(Conversation(turns)) == {Feature.RESULT_ERROR}


def test_thoughts_go_back_only_to_hosts_and_only_their_own() -> None:
    own = Thinking("hm", Signature(Family.OPENAI, ""))
    foreign = Thinking("so", Signature(Family.ANTHROPIC, "x"))
    detail = Thinking(
        "", Signature(Family.OPENAI, '{"type":"reasoning.encrypted","data":"d"}', redacted=True)
    )
    turn = said(own, detail, Text("a"), replace(CALL, signature=Signature(Family.OPENAI, "sig")))
    answer = asked(ToolResult("1", (Text("r"),)))
    message = messages(turn, answer, setting=HOST)[0]
    assert message["reasoning_content"] == "hm"
    assert message["reasoning_details"] == [{"type": "reasoning.encrypted", "data": "d"}]
    assert message["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "sig"}}
    plain = messages(turn, answer)[0]
    assert set(plain) == {"role", "content", "tool_calls"}
    assert messages(said(own), setting=HOST)[0]["content"] == ""
    assert lost(Conversation((turn, answer))) == {Feature.THINKING}
    assert lost(Conversation((said(foreign, Text("a")),)), HOST) == {Feature.THINKING}
    assert messages(HI, said(foreign), HI) == messages(HI, HI)
    signed = said(Text("a", signature=Signature(Family.GEMINI, "sig")))
    assert lost(Conversation((signed,)), HOST) == {Feature.THINKING}


def test_a_refusal_is_one_for_openai_and_text_for_hosts() -> None:
    assert messages(said(Refusal("no"))) == [{"role": "assistant", "content": None, "refusal": "no"}]
    assert messages(said(Refusal("no")), setting=HOST) == [{"role": "assistant", "content": "no"}]


def test_names_that_the_wire_refuses_are_reported() -> None:
    assert rendered(Conversation((replace(HI, name="bob"),)))["messages"][0]["name"] == "bob"
    assert lost(Conversation((replace(HI, name="bob smith"),))) == {Feature.TURN_NAME}


def test_marks_of_texts_are_reported() -> None:
    assert lost(Conversation((asked(Text("a", CacheMark())),))) == {Feature.CACHE}


def test_tools_are_functions_whose_schemas_keep_their_order() -> None:
    tools = (TOOL, Tool("g"), Tool("h", schema={}, strict=False, cache=CacheMark()))
    conversation = Conversation((HI,), tools=tools, parallel_calls=False)
    body = rendered(conversation)
    nothing = {"type": "object", "properties": {}}
    assert [tool["function"] for tool in body["tools"]] == [
        {"name": "f", "description": "d", "parameters": TOOL.schema},
        {"name": "g", "parameters": nothing},
        {"name": "h", "parameters": nothing, "strict": False},
    ]
    assert list(body["tools"][0]["function"]["parameters"]["properties"]) == ["b", "a"]
    assert body["parallel_tool_calls"] is False
    assert lost(conversation) == {Feature.CACHE}


@pytest.mark.parametrize(
    ("choice", "openai", "host"),
    [
        (ToolChoice(ToolMode.AUTO), "auto", "auto"),
        (ToolChoice(ToolMode.NONE), "none", "none"),
        (ToolChoice(ToolMode.ANY), "required", "required"),
        (
            ToolChoice(ToolMode.ANY, ("f",)),
            {"type": "function", "function": {"name": "f"}},
            {"type": "function", "function": {"name": "f"}},
        ),
        (
            ToolChoice(ToolMode.ANY, ("f", "g")),
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [
                        {"type": "function", "function": {"name": "f"}},
                        {"type": "function", "function": {"name": "g"}},
                    ],
                },
            },
            "required",
        ),
    ],
    ids=["auto", "none", "any", "one", "several"],
)
def test_choices_are_told(choice: ToolChoice, openai: Json, host: Json) -> None:
    conversation = Conversation((HI,), tools=(TOOL,), tool_choice=choice)
    assert rendered(conversation)["tool_choice"] == openai
    assert rendered(conversation, HOST)["tool_choice"] == host
    assert lost(conversation, HOST) == ({Feature.TOOL_CHOICE_NAMES} if len(choice.names) > 1 else set())


def test_one_call_at_a_time_is_asked_only_of_models_that_take_the_wish() -> None:
    conversation = Conversation((HI,), tools=(TOOL,), parallel_calls=False)
    setting = RenderOptions("m", Kind.OPENAI, replace(ROW, parallel_calls=False))
    assert rendered(conversation)["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in rendered(conversation, setting)
    assert lost(conversation, setting) == {Feature.PARALLEL_CALLS}
    assert lost(conversation) == lost(Conversation((HI,), tools=(TOOL,)), setting) == set()


def test_what_is_about_tools_is_left_out_without_them() -> None:
    conversation = Conversation((HI,), tool_choice=ToolChoice(ToolMode.ANY), parallel_calls=False)
    assert set(rendered(conversation)) == {"model", "messages"}


def test_tools_go_up_where_the_table_says_that_the_model_takes_none() -> None:
    setting = RenderOptions("m", Kind.OPENAI, replace(ROW, chat_tools=ChatTools.NEVER))
    assert rendered(Conversation((HI,), tools=(TOOL,)), setting)["tools"]


def test_names_that_this_wire_refuses_are_others_everywhere_and_lead_back() -> None:
    name = "files.read:all"
    conversation = Conversation(
        (HI, said(ToolCall("1", name, "{}")), asked(ToolResult("1", (Text("r"),)))),
        tools=(Tool(name), Tool("f")),
        tool_choice=ToolChoice(ToolMode.ANY, (name,)),
    )
    found = render_request(conversation, OPENAI)
    body = json.loads(found.body)
    first, second = (tool["function"]["name"] for tool in body["tools"])
    assert found.renamed == {first: name}
    assert (re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", first) is not None, second) == (True, "f")
    assert body["messages"][1]["tool_calls"][0]["function"]["name"] == first
    assert body["tool_choice"]["function"]["name"] == first


def test_a_request_that_says_nothing_is_refused() -> None:
    with pytest.raises(GatewayError, match="no message has content"):
        messages(asked(Text("")))


def test_limits_are_told_in_the_providers_words() -> None:
    conversation = Conversation((HI,), max_tokens=5, stop=("a",) * 5, candidates=2, user="u", stream=True)
    body = rendered(conversation)
    assert (body["max_completion_tokens"], body["n"], body["safety_identifier"]) == (5, 2, "u")
    assert body["stop"] == ["a"] * 4
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert lost(conversation) == {Feature.STOP}
    body = rendered(conversation, replace(HOST, stream_usage=False))
    assert (body["max_tokens"], body["user"], len(body["stop"])) == (5, "u", 5)
    assert "stream_options" not in body


def test_a_limit_is_never_above_what_the_model_can_put_out() -> None:
    setting = RenderOptions("m", Kind.OPENAI, replace(ROW, max_output=100))
    lowered = Conversation((HI,), max_tokens=5000)
    assert rendered(lowered, setting)["max_completion_tokens"] == 100
    assert lost(lowered, setting) == {Feature.MAX_TOKENS}
    assert not lost(Conversation((HI,), max_tokens=100), setting)


RECIPE = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
DEFINED = {"$defs": {"Recipe": RECIPE}}
LIST = {"type": "array", "items": {"$ref": "#/$defs/Recipe"}}
UNION = {"anyOf": [{"$ref": "#/$defs/Recipe"}, {"type": "null"}]}
LISTED = {"$defs": {"A": LIST, "Recipe": RECIPE}}
NEXT = {"A": {"$ref": "#/$defs/B"}, "B": RECIPE}
CIRCLE = {"A": {"$ref": "#/$defs/A"}}
TUPLE = {"type": "array", "items": [{"type": "null"}, {"$ref": "#/items/0"}]}
MOVED = {"type": "array", "items": [{"type": "null"}, {"$ref": "#/properties/value/items/0"}]}
NESTED = {"type": "array", "items": {"$ref": "#"}}
NESTING = {"type": "array", "items": {"$ref": "#/properties/value"}}


def in_wrapping(inner: Json, **defined: Json) -> Json:
    frame = {"type": "object", "properties": {"value": inner}, "required": ["value"]}
    return {**frame, "additionalProperties": False, **defined}


ROOTS: dict[str, tuple[Json, Json, bool, bool | None]] = {
    "object": (RECIPE, RECIPE, False, True),
    "list": ({**DEFINED, **LIST}, in_wrapping(LIST, **DEFINED), True, True),
    "union": ({**DEFINED, **UNION}, in_wrapping(UNION, **DEFINED), True, True),
    "reference": ({**DEFINED, "$ref": "#/$defs/Recipe"}, {**RECIPE, **DEFINED}, False, True),
    "reference to a list": ({**LISTED, "$ref": "#/$defs/A"}, in_wrapping(LIST, **LISTED), True, True),
    "reference to another": ({"$ref": "#/$defs/A", "$defs": NEXT}, {**RECIPE, "$defs": NEXT}, False, True),
    "no type": ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}, False, None),
    "nothing": ({}, {"type": "object"}, False, None),
    "one type": ({"type": ["object"], "properties": {}}, {"type": "object", "properties": {}}, False, None),
    "or null": ({"type": ["object", "null"]}, in_wrapping({"type": ["object", "null"]}), True, None),
    "text": ({"type": "string"}, in_wrapping({"type": "string"}), True, True),
    "enum": ({"enum": ["a", "b"]}, in_wrapping({"enum": ["a", "b"]}), True, None),
    "root in itself": (NESTED, in_wrapping(NESTING), True, None),
    "part of itself": (TUPLE, in_wrapping(MOVED), True, None),
    "elsewhere": ({"$ref": "https://elsewhere"}, in_wrapping({"$ref": "https://elsewhere"}), True, None),
    "circle": (
        {"$ref": "#/$defs/A", "$defs": CIRCLE},
        in_wrapping({"$ref": "#/$defs/A"}, **{"$defs": CIRCLE}),
        True,
        None,
    ),
}


@pytest.mark.parametrize(("schema", "sent", "wrapped", "strict"), ROOTS.values(), ids=ROOTS)
def test_an_answers_schema_has_an_object_at_its_root(
    schema: Json, sent: Json, wrapped: bool, strict: bool | None
) -> None:
    conversation = Conversation((HI,), output=OutputFormat(OutputKind.SCHEMA, schema))
    found = render_request(conversation, OPENAI)
    told = json.loads(found.body)["response_format"]["json_schema"]
    assert told["schema"] == sent
    assert found.wrapped is wrapped
    if strict:
        assert told["strict"] is True


def test_an_answers_schema_that_is_nested_too_deeply_is_refused() -> None:
    deep: Json = {}
    for _ in range(50_000):
        deep = {"type": "array", "items": deep}
    with pytest.raises(GatewayError, match="nested too deeply"):
        render_request(Conversation((HI,), output=OutputFormat(OutputKind.SCHEMA, deep)), OPENAI)


def test_a_tools_schema_has_what_its_root_refers_to() -> None:
    tool = Tool("f", schema={**DEFINED, "$ref": "#/$defs/Recipe"})
    (sent,) = rendered(Conversation((HI,), tools=(tool,)))["tools"]
    assert sent["function"]["parameters"] == {**RECIPE, **DEFINED}


def test_the_name_of_a_user_that_is_too_long_is_hashed_the_same_way_every_time() -> None:
    user = rendered(Conversation((HI,), user="u" * 200))["safety_identifier"]
    assert len(user) == 64
    assert rendered(Conversation((HI,), user="u" * 200), HOST)["user"] == user
    assert rendered(Conversation((HI,), user="v" * 200))["safety_identifier"] != user


def test_sampling_is_told_where_the_model_takes_it() -> None:
    sampling = Sampling(0.5, 0.9, 4, 0.1, 0.2, 7, logprobs=True, top_logprobs=2)
    conversation = Conversation((HI,), sampling=sampling)
    assert "top_k" not in rendered(conversation, HOST)
    assert lost(conversation, HOST) == {Feature.TOP_K}
    taking = replace(HOST, extra_fields=frozenset({"top_k"}))
    assert rendered(conversation, taking)["top_k"] == 4
    assert not lost(conversation, taking)
    assert lost(conversation) == {Feature.TOP_K}
    strict = RenderOptions("m", Kind.OPENAI, replace(ROW, sampling=False))
    assert set(rendered(conversation, strict)) == {"model", "messages", "seed"}
    assert lost(conversation, strict) == {
        *(Feature.TEMPERATURE, Feature.TOP_P, Feature.TOP_K, Feature.FREQUENCY_PENALTY),
        *(Feature.PRESENCE_PENALTY, Feature.LOGPROBS, Feature.TOP_LOGPROBS),
    }
    alone = Conversation((HI,), sampling=Sampling(top_logprobs=2))
    assert lost(alone) == {Feature.TOP_LOGPROBS}


def test_effort_is_told_by_name() -> None:
    row = Models(()).row("o3", Family.OPENAI)
    conversation = Conversation((HI,), reasoning=Reasoning(Effort.HIGH, thoughts=True))
    setting = RenderOptions("o3", Kind.OPENAI, row)
    assert rendered(conversation, setting)["reasoning_effort"] == "high"
    assert lost(conversation, setting) == {Feature.THOUGHTS}


def test_structured_output_is_told_and_json_is_said_aloud() -> None:
    schema = OutputFormat(OutputKind.SCHEMA, {"type": "object"}, None, "d", strict=True)
    assert rendered(Conversation((HI,), output=schema))["response_format"] == {
        "type": "json_schema",
        "json_schema": {
            "name": "answer",
            "description": "d",
            "schema": {"type": "object"},
            "strict": True,
        },
    }
    body = rendered(Conversation((HI,), output=OutputFormat(OutputKind.JSON)))
    assert body["response_format"] == {"type": "json_object"}
    assert body["messages"][0]["role"] == "system"
    told = Conversation((asked(Text("give me Json"), PNG),), output=OutputFormat(OutputKind.JSON))
    assert len(rendered(told)["messages"]) == 1


CLOSED: Json = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
OPEN: Json = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize("setting", [OPENAI, HOST])
def test_a_tool_is_strict_only_where_its_schema_is_one_for_strict_mode(setting: RenderOptions) -> None:
    fits = Conversation((HI,), tools=(Tool("f", schema=CLOSED, strict=True),))
    assert rendered(fits, setting)["tools"][0]["function"]["strict"] is True
    assert lost(fits, setting) == set()
    misfit = Conversation((HI,), tools=(Tool("f", schema=OPEN, strict=True), Tool("g", strict=True)))
    assert all("strict" not in tool["function"] for tool in rendered(misfit, setting)["tools"])
    assert lost(misfit, setting) == {Feature.TOOL_STRICT}


@pytest.mark.parametrize(
    ("schema", "strict", "said"),
    [
        (CLOSED, None, True),
        (OPEN, None, None),
        (None, None, None),
        (CLOSED, False, False),
        (OPEN, True, True),
    ],
)
def test_an_answers_schema_is_enforced_where_it_can_be_unless_the_client_says(
    schema: Json, strict: bool | None, said: bool | None
) -> None:
    output = OutputFormat(OutputKind.SCHEMA, schema, strict=strict)
    conversation = Conversation((HI,), output=output)
    assert rendered(conversation)["response_format"]["json_schema"].get("strict") is said
    assert lost(conversation) == set()


@pytest.mark.parametrize(
    ("media_type", "told"),
    [
        ("image/png", "image/png"),
        ("IMAGE/WEBP; q=1", "image/webp"),
        ("image/jpg", "image/jpeg"),
        (None, "image/png"),
        ("image/heic", None),
        ("image/svg+xml", None),
    ],
)
def test_openai_gets_images_of_its_types_alone_and_hosts_get_all(
    media_type: str | None, told: str | None
) -> None:
    conversation = Conversation((asked(Text("see"), Media(MediaKind.IMAGE, media_type, "aWs=")),))
    block = rendered(conversation)["messages"][0]["content"][1]
    if told is None:
        assert block == {"type": "text", "text": "[image left out]"}
        assert lost(conversation) == {Feature.IMAGE}
    else:
        assert block["image_url"]["url"] == f"data:{told};base64,aWs="
        assert lost(conversation) == set()
    as_it_is = f"data:{media_type or 'image/png'};base64,aWs="
    assert rendered(conversation, HOST)["messages"][0]["content"][1]["image_url"]["url"] == as_it_is
    assert lost(conversation, HOST) == set()


def test_a_schema_without_end_is_refused() -> None:
    schema: Json = {}
    inner = schema
    for _ in range(100_000):
        inner["a"] = {}
        inner = inner["a"]
    with pytest.raises(GatewayError) as caught:
        rendered(Conversation((HI,), tools=(Tool("f", schema=schema),)))
    assert caught.value.reason is Reason.MALFORMED
    while schema:  # taken apart by hand: the interpreter would do it recursively
        schema = schema.pop("a", {})


words = st.text(max_size=4)
ids = st.sampled_from(["1", "2", "x" * 50, ""])
signatures = st.none() | st.builds(Signature, st.sampled_from(Family), st.sampled_from(["", "{}", "s"]))
media = st.sampled_from(
    [
        PNG,
        Media(MediaKind.IMAGE, data="aWs="),
        Media(MediaKind.DOCUMENT, "application/pdf", "aWs="),
        Media(MediaKind.DOCUMENT, "text/plain", text="t"),
        Media(MediaKind.AUDIO, "audio/wav", "aWs="),
        Media(MediaKind.VIDEO, "video/mp4", "aWs="),
    ]
)
results = st.builds(
    ToolResult,
    ids,
    st.lists(st.builds(Text, words) | media, max_size=2).map(tuple),
    st.none() | st.just("f"),
    st.booleans(),
)
user_turns = st.builds(
    Turn, st.just(Role.USER), st.lists(st.builds(Text, words) | media | results, max_size=4).map(tuple)
)
assistant_turns = st.builds(
    Turn,
    st.just(Role.ASSISTANT),
    st.lists(
        st.builds(Text, words, signature=signatures)
        | st.builds(Thinking, words, signatures)
        | st.builds(Refusal, words)
        | st.builds(ToolCall, ids, st.just("f"), st.sampled_from(["", "{}", '{"a":']), signatures)
        | media,
        max_size=4,
    ).map(tuple),
)
system_turns = st.builds(Turn, st.just(Role.SYSTEM), st.lists(st.builds(Text, words), max_size=2).map(tuple))
histories = st.lists(user_turns | assistant_turns | system_turns, max_size=6).map(tuple)


@settings(deadline=None)
@given(histories, st.sampled_from([OPENAI, HOST]))
def test_any_history_becomes_one_that_the_wire_takes(turns: tuple[Turn, ...], setting: RenderOptions) -> None:
    conversation = Conversation((HI, *turns), (Text("s"),), (TOOL,))
    body = rendered(conversation, setting)
    validate(body, REQUEST, lenient=setting is HOST)
    check_request(body)


@settings(deadline=None)
@given(histories)
def test_what_was_read_is_written_as_it_was_understood(turns: tuple[Turn, ...]) -> None:
    """Written, read and written again, a conversation stays the same from the first writing on."""
    bare = [Turn(turn.role, tuple(map(unsigned, turn.parts))) for turn in turns]
    body = render_request(Conversation((HI, *bare), (Text("s"),), (TOOL,)), HOST).body
    again = parse_request(body, RequestContext("m"))
    assert not again.unread
    assert render_request(again.request, HOST).body == body


def unsigned(part: Part) -> Part:
    """Return a text or a call without the signature of a host, which only that host may get."""
    return replace(part, signature=None) if isinstance(part, Text | ToolCall) else part
