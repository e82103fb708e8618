"""What a client of chat completions asks, as the canonical form has it."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from mgw.canonical.conversation import (
    CacheMark,
    Media,
    MediaKind,
    Refusal,
    Role,
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
from mgw.dialects.dialect import RequestContext
from mgw.dialects.openai.options import ChatReplyOptions
from mgw.dialects.openai.request import parse_request
from mgw.dialects.signatures import tag_signature
from mgw.nouns.errors import GatewayError
from mgw.nouns.vocabulary import Family
from tests.support.chat_clients import HI, TOOL, Json, parsed, refused, turns

SEAL = Signature(Family.ANTHROPIC, "c2VhbA==")


def test_leading_instructions_are_the_conversations_own_and_later_ones_keep_their_place() -> None:
    found = parsed(
        {"role": "system", "content": "a"},
        {"role": "developer", "content": [{"type": "text", "text": "b"}]},
        HI,
        {"role": "system", "content": "c"},
    ).request
    assert found.system == (Text("a"), Text("b"))
    assert found.turns == (Turn(Role.USER, (Text("hi"),)), Turn(Role.SYSTEM, (Text("c"),)))


@pytest.mark.parametrize(
    ("part", "media"),
    [
        pytest.param(
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,a-_w", "detail": "high"}},
            Media(MediaKind.IMAGE, "image/png", "a+/w", detail="high"),
            id="image in base64",
        ),
        pytest.param(
            {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "auto"}},
            Media(MediaKind.IMAGE, url="https://a/b.png"),
            id="image at an address",
        ),
        pytest.param(
            {"type": "image_url", "image_url": "https://a/b.png"},
            Media(MediaKind.IMAGE, url="https://a/b.png"),
            id="address alone",
        ),
        pytest.param(
            {"type": "input_audio", "input_audio": {"data": "aWs", "format": "mp3"}},
            Media(MediaKind.AUDIO, "audio/mpeg", "aWs="),
            id="audio",
        ),
        pytest.param(
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,aWs=", "filename": "a.pdf"}},
            Media(MediaKind.DOCUMENT, "application/pdf", "aWs=", name="a.pdf"),
            id="document",
        ),
        pytest.param(
            {"type": "file", "file": {"file_data": b64encode("né".encode()).decode(), "filename": "a.txt"}},
            Media(MediaKind.DOCUMENT, "text/plain", text="né", name="a.txt"),
            id="document of plain text",
        ),
        pytest.param(
            {
                "type": "file",
                "file": {"file_data": "data:application/x-yaml;base64,YTogMQ==", "filename": "a"},
            },
            Media(MediaKind.DOCUMENT, "application/x-yaml", text="a: 1", name="a"),
            id="document of text of another kind",
        ),
        pytest.param(
            {"type": "document_url", "document_url": "https://a/b.pdf", "document_name": "b.pdf"},
            Media(MediaKind.DOCUMENT, "application/pdf", url="https://a/b.pdf", name="b.pdf"),
            id="document at an address (Mistral)",
        ),
        pytest.param(
            {"type": "document_url", "document_url": "data:text/csv;base64,YSxi"},
            Media(MediaKind.DOCUMENT, "text/csv", text="a,b"),
            id="document in base64 (Mistral)",
        ),
        pytest.param(
            {"type": "file_url", "file_url": {"url": "https://a/b"}, "file_name": "b.docx"},
            Media(
                MediaKind.DOCUMENT,
                "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
                url="https://a/b",
                name="b.docx",
            ),
            id="document at an address (Perplexity)",
        ),
        pytest.param(
            {"type": "file_url", "file_url": {"url": "https://a/b"}},
            Media(MediaKind.DOCUMENT, url="https://a/b"),
            id="document of an unknown kind",
        ),
        pytest.param(
            {"type": "file", "file": {"file_id": "file-1"}},
            Media(MediaKind.DOCUMENT, file_id="file-1"),
            id="uploaded file",
        ),
        pytest.param(
            {"type": "video_url", "video_url": {"url": "https://a/b.mp4"}},
            Media(MediaKind.VIDEO, url="https://a/b.mp4"),
            id="video of a host",
        ),
    ],
)
def test_media_is_understood(part: Json, media: Media) -> None:
    assert turns({"role": "user", "content": [part]}) == (Turn(Role.USER, (media,)),)


def test_media_is_noted_under_the_type_of_its_part() -> None:
    found = parsed(
        {"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1", "filename": "a"}}]}
    )
    assert found.said[Feature.DOCUMENT] == {"messages[].content[file]"}
    assert found.said[Feature.FILE_ID] == {"messages[].content[].file.file_id"}
    assert found.said[Feature.MEDIA_NAME] == {"messages[].content[].file.filename"}


@pytest.mark.parametrize("url", ["file:///etc/passwd", "aGVsbG8=", "data:text/plain,hello", "ftp://a/b"])
def test_an_image_that_nobody_could_read_is_refused_at_its_place(url: str) -> None:
    part = {"type": "image_url", "image_url": {"url": url}}
    error = refused({"role": "user", "content": [{"type": "text", "text": "a"}, part]})
    assert error.param == "messages[0].content[1].image_url.url"


def test_a_part_that_nobody_knows_is_refused_by_its_name() -> None:
    assert "'hologram'" in refused({"role": "user", "content": [{"type": "hologram"}]}).message
    assert "'image_url'" in refused({"role": "system", "content": [{"type": "image_url"}]}).message


def test_cache_marks_of_hosts_are_understood_and_those_of_openai_reported() -> None:
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    found = parsed(
        {"role": "system", "content": "a", **mark},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "b", **mark},
                {"type": "text", "text": "c", "prompt_cache_breakpoint": {"mode": "explicit"}},
            ],
        },
        tools=[{**TOOL, **mark}],
        prompt_cache_key="k",
    )
    assert found.request.system == (Text("a", CacheMark("1h")),)
    assert found.request.turns[0].parts == (Text("b", CacheMark("1h")), Text("c"))
    assert found.request.tools[0].cache == CacheMark("1h")
    assert found.request.prompt_cache_key == "k"
    assert found.unread == {"messages[].content[].prompt_cache_breakpoint"}


def test_an_assistants_message_has_thoughts_then_words_then_calls() -> None:
    message = {
        "role": "assistant",
        "content": "said",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "reasoning_content": "thought",
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}],
    }
    found = parsed(HI, message)
    assert found.request.turns[1].parts == (
        Thinking("thought", Signature(Family.OPENAI, "")),
        Text("said"),
        ToolCall("1", "f", '{"a":1}'),
    )
    assert found.said[Feature.THINKING] == {"messages[].reasoning_content"}
    assert not found.unread


def test_a_refusal_is_one_in_either_place() -> None:
    assert turns(HI, {"role": "assistant", "content": None, "refusal": "no"})[1].parts == (Refusal("no"),)
    part = {"type": "refusal", "refusal": "no"}
    assert turns(HI, {"role": "assistant", "content": [part]})[1].parts == (Refusal("no"),)


def test_results_are_turns_of_their_own_and_keep_images() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://a"}}
    found = turns(
        {"role": "tool", "tool_call_id": "1", "content": "a"},
        {"role": "tool", "tool_call_id": "2", "name": "f", "content": [{"type": "text", "text": "b"}, image]},
    )
    picture = Media(MediaKind.IMAGE, url="https://a")
    assert found == (
        Turn(Role.USER, (ToolResult("1", (Text("a"),)),)),
        Turn(Role.USER, (ToolResult("2", (Text("b"), picture), "f"),)),
    )


def test_calls_of_the_deprecated_kind_get_identifiers_that_their_results_share() -> None:
    call = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    result = {"role": "function", "name": "f", "content": "r"}
    found = parsed(HI, call, result, call, result, functions=[{"name": "f"}], function_call={"name": "f"})
    parts = [turn.parts[0] for turn in found.request.turns[1:]]
    ids = [part.id if isinstance(part, ToolCall) else part.call_id for part in parts]  # type: ignore[union-attr]  # calls and results only
    assert ids[0] == ids[1] != ids[2] == ids[3]
    assert ChatReplyOptions.of(found.reply_options).legacy_functions
    assert found.request.tools == (Tool("f"),)
    assert found.request.tool_choice == ToolChoice(ToolMode.ANY, ("f",))
    assert found.request.parallel_calls is False


def test_a_tagged_signature_comes_back_with_the_thought_that_it_seals() -> None:
    details = [
        {"type": "reasoning.text", "length": 5, "signature": tag_signature(SEAL), "index": 0},
        {
            "type": "reasoning.encrypted",
            "data": tag_signature(Signature(Family.ANTHROPIC, "x", redacted=True)),
            "index": 1,
        },
        {
            "type": "reasoning.text",
            "text": "two",
            "signature": tag_signature(SEAL),
            "index": 2,
            "offset": 2,
            "calls": 1,
        },
    ]
    calls = [
        {"id": name, "type": "function", "function": {"name": "f", "arguments": ""}} for name in ("1", "2")
    ]
    message = {"role": "assistant", "reasoning_content": "firsttwo", "reasoning_details": details}
    found = turns(HI, {**message, "content": "said", "tool_calls": calls})[1].parts
    assert found == (
        Thinking("first", SEAL),
        Thinking("", Signature(Family.ANTHROPIC, "x", redacted=True)),
        Text("sa"),
        ToolCall("1", "f", ""),
        Thinking("two", SEAL),
        Text("id"),
        ToolCall("2", "f", ""),
    )


def test_an_edited_thought_is_nobodys() -> None:
    details = [{"type": "reasoning.text", "length": 5, "signature": tag_signature(SEAL), "index": 0}]
    for told, left in (("fir", ()), ("", ()), (None, ())):
        message = {"role": "assistant", "reasoning_content": told, "reasoning_details": details}
        assert turns(HI, {**message, "content": "a"})[1].parts == (*left, Text("a"))


def test_a_thought_that_its_client_altered_is_left_out_and_reported() -> None:
    detail = {"type": "reasoning.text", "text": "as it was", "signature": tag_signature(SEAL, "as it was")}
    for told in ("as it was", None, "as it never was"):
        message = {"role": "assistant", "content": "b", "reasoning_content": told}
        kept = parsed(HI, {**message, "reasoning_details": [detail]})
        assert Thinking("as it was", SEAL) in kept.request.turns[1].parts
        assert not kept.unread
    altered = parsed(HI, {**message, "reasoning_details": [{**detail, "text": "as it is now"}]})
    assert Thinking("as it is now", SEAL) not in altered.request.turns[1].parts
    assert altered.unread == {"messages[].reasoning_details"}


def test_a_damaged_tag_leaves_no_thought() -> None:
    details = [
        {"type": "reasoning.text", "text": "a", "signature": tag_signature(SEAL)[:9] + "!", "index": 0}
    ]
    assert turns(HI, {"role": "assistant", "content": "b", "reasoning_details": details})[1].parts == (
        Text("b"),
    )


def test_googles_place_for_signatures_is_read_on_calls_and_on_messages() -> None:
    seal = Signature(Family.GEMINI, "c2ln")
    extra = {"extra_content": {"google": {"thought_signature": tag_signature(seal)}}}
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}, **extra}
    found = turns(HI, {"role": "assistant", "content": "a", "tool_calls": [call], **extra})[1].parts
    assert found == (Text("a", signature=seal), ToolCall("1", "f", "{}", seal))
    raw = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    own = parsed(HI, {"role": "assistant", "content": "a", **raw})
    assert own.request.turns[1].parts == (Text("a"),)
    assert own.unread == {"messages[].extra_content"}


PDF_DATA = "JVBERi0xLjcKJeLjz9MK"


@pytest.mark.parametrize(
    ("fields", "media_type"),
    [
        ({}, "application/pdf"),
        ({"file_name": "a.docx"}, "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ({"file_name": "a.unknown"}, "application/pdf"),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_a_file_url_may_be_plain_base64(fields: dict[str, str], media_type: str, nested: bool) -> None:
    url = {"url": PDF_DATA} if nested else PDF_DATA
    block = {"type": "file_url", "file_url": url, **fields}
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": [block]}]}).encode()
    ((part,),) = [turn.parts for turn in parse_request(body, RequestContext("m")).request.turns]
    assert isinstance(part, Media)
    assert (part.media_type, part.data, part.url) == (media_type, PDF_DATA, None)


@pytest.mark.parametrize("url", ["example.com/paper.pdf", "paper", "not base64 at all, though long"])
@pytest.mark.parametrize("kind", ["file_url", "document_url"])
def test_what_is_neither_an_address_nor_base64_is_refused(kind: str, url: str) -> None:
    block = {"type": kind, kind: {"url": url}}
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": [block]}]}).encode()
    with pytest.raises(GatewayError):
        parse_request(body, RequestContext("m"))
