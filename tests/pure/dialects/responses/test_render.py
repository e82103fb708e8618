"""Conversations as requests of Responses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from pydantic import TypeAdapter

from mgw.canonical.conversation import (
    Conversation,
    Media,
    MediaKind,
    OutputFormat,
    OutputKind,
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
from mgw.canonical.reply import UpstreamError
from mgw.dialects.dialect import Rendered, RenderOptions
from mgw.dialects.responses import PROVIDER
from mgw.dialects.responses.request import render_request
from mgw.nouns.errors import GatewayError
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Effort, Family, Kind

Json = Any  # Any: JSON of whatever type

ROW = ModelRow(
    "*",
    Family.OPENAI,
    "-",
    efforts=(Effort.LOW, Effort.HIGH, Effort.MAX),
    default=Effort.MEDIUM,
    max_output=1000,
)
UNREASONING = ModelRow("*", Family.OPENAI, "-", default=Effort.NONE)
OPENAI = RenderOptions("gpt", Kind.OPENAI, ROW)
HOST = RenderOptions("gpt", Kind.OPENAI_COMPAT, ROW)
ASKED = Turn(Role.USER, (Text("q"),))
SIGNED = Signature(Family.OPENAI, "rs_1:gAAA")
REQUEST_TYPE: TypeAdapter[ResponseCreateParamsBase] = TypeAdapter(ResponseCreateParamsBase)


def rendered(conversation: Conversation, options: RenderOptions = OPENAI) -> tuple[Json, Rendered]:
    """A request, which the SDK's own type takes."""
    found = render_request(conversation, options)
    body = json.loads(found.body)
    REQUEST_TYPE.validate_python(body)
    return body, found


def asked(**fields: Any) -> Conversation:
    return Conversation((ASKED,), **fields)


def history(*turns: Turn) -> tuple[list[Json], Rendered]:
    body, found = rendered(Conversation((ASKED, *turns)))
    return body["input"][1:], found


def assistant(*parts: Any) -> Turn:
    return Turn(Role.ASSISTANT, parts)


def result(*parts: Text | Media, call_id: str = "c") -> Turn:
    return Turn(Role.USER, (ToolResult(call_id, parts),))


def user_item(*content: Json) -> Json:
    return {"type": "message", "role": "user", "content": list(content)}


def input_text(text: str) -> Json:
    return {"type": "input_text", "text": text}


THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}


def test_the_least_request() -> None:
    body, found = rendered(asked())
    assert body == {
        "model": "gpt",
        "input": [user_item(input_text("q"))],
        "include": ["reasoning.encrypted_content"],
        "store": False,
    }
    assert (found.target, found.lost, found.thoughts) == (b"/responses", frozenset(), False)


def test_a_model_that_does_not_reason_has_nothing_to_encrypt() -> None:
    body, found = rendered(asked(reasoning=Reasoning(thoughts=True)), replace(OPENAI, row=UNREASONING))
    assert not {"include", "reasoning"} & body.keys()
    assert found.lost == {Feature.THOUGHTS}


def test_instructions_lead_and_later_ones_keep_their_place() -> None:
    later = Turn(Role.SYSTEM, (Text("be brief"),))
    body, _ = rendered(Conversation((ASKED, later), system=(Text("a"), Text(""), Text("b")), stream=True))
    assert body["instructions"] == "a\n\nb"
    assert body["stream"] is True
    assert body["input"][1] == {"type": "message", "role": "developer", "content": [input_text("be brief")]}


def test_mere_instructions_are_input() -> None:
    body, _ = rendered(Conversation((), system=(Text("a"),)))
    assert "instructions" not in body
    assert body["input"] == [{"type": "message", "role": "developer", "content": [input_text("a")]}]
    with pytest.raises(GatewayError):
        render_request(Conversation(()), OPENAI)


def test_a_tool_loop_with_its_thoughts() -> None:
    said = assistant(Thinking("Hm.", SIGNED), Text("I look."), ToolCall("c", "f", ""))
    found, request = history(said, result(Text("x"), Text("y")))
    assert found[0] == THOUGHT
    assert (found[1]["role"], found[1]["content"][0]["text"]) == ("assistant", "I look.")
    assert found[2:] == [CALL, {"type": "function_call_output", "call_id": "c", "output": "x\n\ny"}]
    assert request.thoughts
    assert not request.lost


def test_a_retry_has_no_thoughts() -> None:
    said = Conversation((ASKED, assistant(Thinking("Hm.", SIGNED), Text("a")), ASKED))
    body, found = rendered(said, replace(OPENAI, thoughts=False))
    assert [item["type"] for item in body["input"]] == ["message"] * 3
    assert not found.thoughts
    assert found.lost == {Feature.THINKING}


@pytest.mark.parametrize(
    ("value", "item"),
    [
        ("rs_1:gAAA", THOUGHT),
        (":gA:A", {"type": "reasoning", "summary": [], "encrypted_content": "gA:A"}),
        ("gAAA", {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}),
        ('{"type":"reasoning.text","format":"x"}', None),
        ("rs_1:", None),
        ("", None),
    ],
)
def test_only_what_openai_encrypted_goes_back(value: str, item: Json) -> None:
    found = render_request(
        Conversation((ASKED, assistant(Thinking("Hm.", Signature(Family.OPENAI, value)), Text("a")), ASKED)),
        OPENAI,
    )
    items = json.loads(found.body)["input"]
    assert [one for one in items if one["type"] == "reasoning"] == ([] if item is None else [item])
    assert found.lost == (frozenset() if item else {Feature.THINKING})


@pytest.mark.parametrize(
    "parts",
    [
        (Thinking("Hm.", Signature(Family.ANTHROPIC, "c2ln")), Text("a")),
        (Text("a"), Thinking("Hm.", SIGNED)),
        (Text("a", signature=Signature(Family.GEMINI, "c2ln")),),
        (Thinking("Hm."), Text("a")),
    ],
    ids=["another family", "last", "of a text", "unsigned"],
)
def test_what_cannot_go_back_is_reported(parts: tuple[Any, ...]) -> None:
    found, request = history(assistant(*parts), ASKED)
    assert [item["type"] for item in found] == ["message", "message"]
    assert request.lost == {Feature.THINKING}


def test_the_assistants_words_are_one_message_between_calls() -> None:
    found, _ = history(assistant(Text("a"), Refusal("no"), ToolCall("c", "f", '{"a":1}'), Text("b")), ASKED)
    content = [part["type"] for part in found[0]["content"]]
    assert content == ["output_text", "refusal"]
    assert [item["type"] for item in found[1:4]] == ["function_call", "message", "function_call_output"]
    assert found[0]["id"] != found[2]["id"]
    assert found[3]["output"] == "No result was recorded for this call."


IMAGE = Media(MediaKind.IMAGE, "image/png", "iVBO", detail="low")
SHOWN = {"type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "low"}


def test_media_of_results_stay_inside() -> None:
    found, request = history(assistant(ToolCall("c", "f", "{}")), result(Text("x"), IMAGE))
    assert found[1]["output"] == [input_text("x"), SHOWN]
    assert not request.lost


def test_media_of_the_assistant_move_to_the_user() -> None:
    found, _ = history(assistant(Text("a"), IMAGE), ASKED)
    assert found[1] == user_item(SHOWN, input_text("q"))


@pytest.mark.parametrize(
    ("media", "part", "lost"),
    [
        (
            Media(MediaKind.DOCUMENT, "application/pdf", "JVBE", name="a.pdf"),
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"},
            None,
        ),
        (
            Media(MediaKind.DOCUMENT, url="https://a.b/c.pdf"),
            {"type": "input_file", "file_url": "https://a.b/c.pdf"},
            None,
        ),
        (
            Media(MediaKind.IMAGE, url="https://a.b/c.png"),
            {"type": "input_image", "image_url": "https://a.b/c.png", "detail": "auto"},
            None,
        ),
        (Media(MediaKind.DOCUMENT, text="words"), input_text("words"), None),
        (Media(MediaKind.AUDIO, "audio/wav", "UklG"), input_text("[audio left out]"), Feature.AUDIO),
        (Media(MediaKind.DOCUMENT, url="gs://a/b"), input_text("[document left out]"), Feature.DOCUMENT),
        (Media(MediaKind.IMAGE, file_id="file_1"), input_text("[image left out]"), Feature.FILE_ID),
    ],
    ids=["file", "file at an address", "image at an address", "text", "audio", "gs", "file id"],
)
def test_each_kind_of_media(media: Media, part: Json, lost: Feature | None) -> None:
    no_addresses = replace(ROW, addresses=media.kind is not MediaKind.DOCUMENT)  # which is a rule of chat's
    body, found = rendered(Conversation((Turn(Role.USER, (media,)),)), replace(OPENAI, row=no_addresses))
    assert body["input"] == [user_item(part)]
    assert found.lost == (frozenset() if lost is None else {lost})


def test_tools_are_flat_and_always_say_whether_they_are_strict() -> None:
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    tools = (Tool("a", "does a", schema, strict=True), Tool("b.c"))
    body, found = rendered(
        asked(tools=tools, tool_choice=ToolChoice(ToolMode.ANY, ("a",)), parallel_calls=False)
    )
    assert [list(tool) for tool in body["tools"]] == [
        ["type", "name", "description", "parameters", "strict"],
        ["type", "name", "parameters", "strict"],
    ]
    assert [tool["strict"] for tool in body["tools"]] == [True, False]
    assert found.renamed == {body["tools"][1]["name"]: "b.c"}
    assert body["tool_choice"] == {"type": "function", "name": "a"}
    assert body["parallel_tool_calls"] is False


@pytest.mark.parametrize("options", [OPENAI, HOST], ids=["openai", "host"])
def test_a_choice_among_several_tools(options: RenderOptions) -> None:
    choice = ToolChoice(ToolMode.AUTO, ("a", "b"))
    body, found = rendered(asked(tools=(Tool("a"), Tool("b"), Tool("c")), tool_choice=choice), options)
    if options is HOST:
        assert body["tool_choice"] == "auto"
        assert found.lost == {Feature.TOOL_CHOICE_NAMES}
        return
    tools = [{"type": "function", "name": name} for name in "ab"]
    assert body["tool_choice"] == {"type": "allowed_tools", "mode": "auto", "tools": tools}


@pytest.mark.parametrize(
    ("wanted", "options", "limit", "lost"),
    [(500, OPENAI, 500, False), (1, OPENAI, 16, True), (1, HOST, 1, False), (5000, OPENAI, 1000, True)],
)
def test_the_limit(wanted: int, options: RenderOptions, limit: int, lost: bool) -> None:
    body, found = rendered(asked(max_tokens=wanted), options)
    assert body["max_output_tokens"] == limit
    assert (Feature.MAX_TOKENS in found.lost) is lost


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (Reasoning(), None),
        (Reasoning(Effort.HIGH), {"effort": "high", "summary": "auto"}),
        (Reasoning(Effort.MAX, thoughts=False), {"effort": "max"}),
        (Reasoning(budget=2048), {"effort": "low", "summary": "auto"}),
        (Reasoning(adaptive=True), {"summary": "auto"}),
        (Reasoning(thoughts=True), {"summary": "auto"}),
        (Reasoning(Effort.NONE), {"effort": "low"}),
    ],
)
def test_reasoning_is_asked_for_beside_tools(wish: Reasoning, said: Json) -> None:
    body, found = rendered(asked(reasoning=wish, tools=(Tool("a"),)))
    assert body.get("reasoning") == said
    assert (Feature.REASONING in found.lost) is (wish.effort is Effort.NONE)


def test_sampling() -> None:
    sampling = Sampling(0.5, 0.9, 3, 0.1, 0.2, 7, logprobs=True, top_logprobs=4)
    body, found = rendered(asked(sampling=sampling, stop=("x",), candidates=2))
    assert (body["temperature"], body["top_p"], body["top_logprobs"]) == (0.5, 0.9, 4)
    assert body["include"] == ["reasoning.encrypted_content", "message.output_text.logprobs"]
    assert not {"top_k", "stop", "n", "seed"} & body.keys()
    assert not found.lost
    assert not {Feature.TOP_K, Feature.STOP, Feature.SEED, Feature.CANDIDATES} & found.carried
    _, refused = rendered(asked(sampling=sampling), replace(OPENAI, row=replace(ROW, sampling=False)))
    assert refused.lost == {Feature.TEMPERATURE, Feature.TOP_P, Feature.LOGPROBS, Feature.TOP_LOGPROBS}


LIST = {"type": "array", "items": {"type": "string"}}


def test_a_schema_is_asked_for_with_an_object_at_its_root() -> None:
    body, found = rendered(asked(output=OutputFormat(OutputKind.SCHEMA, LIST, description="words")))
    said = body["text"]["format"]
    assert (said["type"], said["name"], said["description"], said["strict"]) == (
        "json_schema",
        "answer",
        "words",
        True,
    )
    assert said["schema"]["properties"] == {"value": LIST}
    assert found.wrapped


@pytest.mark.parametrize("output", [OutputFormat(OutputKind.JSON), OutputFormat(OutputKind.SCHEMA)])
def test_mere_json_is_spoken_of_in_the_input(output: OutputFormat) -> None:
    body, _ = rendered(asked(output=output, system=(Text("Answer in JSON."),)))
    assert body["text"] == {"format": {"type": "json_object"}}
    assert [item["role"] for item in body["input"]] == ["developer", "user"]
    spoken = Conversation((Turn(Role.USER, (Text("as Json"),)),), output=output)
    assert len(rendered(spoken)[0]["input"]) == 1


def test_what_only_openai_knows_does_not_go_to_hosts() -> None:
    conversation = asked(user="u", prompt_cache_key="k")
    body, found = rendered(conversation)
    assert (body["safety_identifier"], body["prompt_cache_key"], found.lost) == ("u", "k", frozenset())
    body, found = rendered(conversation, HOST)
    assert body["user"] == "u"
    assert found.lost == {Feature.PROMPT_CACHE_KEY}
    assert not {"safety_identifier", "prompt_cache_key"} & body.keys()


def test_what_json_cannot_say_is_refused() -> None:
    with pytest.raises(GatewayError):
        render_request(Conversation((Turn(Role.USER, (Text("\ud800"),)),)), OPENAI)


@pytest.mark.parametrize(
    ("status", "code", "message", "is_so"),
    [
        (
            404,
            None,
            "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
            True,
        ),
        (400, "invalid_encrypted_content", "The content gA… could not be verified.", True),
        (
            400,
            None,
            "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
            True,
        ),
        (400, None, "Item 'fc_1' was provided without its required 'reasoning' item: 'x'.", True),
        (400, None, "Unsupported parameter: 'reasoning.effort' is not supported with this model.", False),
        (404, "model_not_found", "The model `gpt` does not exist.", False),
        (500, None, "Item with id 'rs_1' not found.", False),
    ],
)
def test_refusals_of_thoughts_are_known(status: int, code: str | None, message: str, is_so: bool) -> None:
    assert PROVIDER.refuses_thoughts is not None
    assert PROVIDER.refuses_thoughts(UpstreamError(status, message, code)) is is_so
