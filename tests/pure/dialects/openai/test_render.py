"""A conversation, written for a provider that speaks chat completions."""

from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mgw.canonical.conversation import (
    CacheMark,
    Conversation,
    Media,
    MediaKind,
    Part,
    Refusal,
    Role,
    Signature,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.dialects.dialect import RenderOptions, RequestContext
from mgw.dialects.openai.request import parse_request, render_request
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import ChatTemplate, Family, Kind
from mgw_sim.openai.chat_request import REQUEST, check_request
from mgw_sim.openai.errors import validate
from tests.support.chat_requests import HI, OPENAI, PNG, ROW, TOOL, Json, asked, lost, rendered, said
from tests.support.chat_requests import HOST as STRICT_HOST

HOST = replace(STRICT_HOST, chat_template=ChatTemplate.OPEN)
CALL = ToolCall("1", "f", '{"a":1}')


def messages(*turns: Turn, setting: RenderOptions = OPENAI) -> list[Json]:
    found: list[Json] = rendered(Conversation(turns), setting)["messages"]
    return found


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


def test_a_request_that_says_nothing_is_refused() -> None:
    with pytest.raises(GatewayError, match="no message has content"):
        messages(asked(Text("")))


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
