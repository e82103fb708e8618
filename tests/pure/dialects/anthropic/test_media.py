"""What images and documents keep to when they are written."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from msgspec.structs import replace

from mgw.canonical.conversation import (
    CacheMark,
    Conversation,
    Media,
    MediaKind,
    Role,
    Text,
    ToolResult,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.canonical.history import CONTINUE
from mgw.dialects.anthropic.request import parse_request, render_request
from mgw.dialects.dialect import RenderOptions, RequestContext
from mgw.dialects.models import Models, OverrideRow
from mgw.nouns.errors import GatewayError
from mgw.nouns.vocabulary import Family, Kind
from tests.support.messages import (
    ADAPTIVE,
    ASSISTANT,
    NEWEST,
    PNG,
    SYSTEM,
    USER,
    call,
    messages,
    parse,
    render,
    result,
    text,
    turn,
)

INLINE_PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


Json = dict[str, Any]


DRAWN: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG.data}}


MEDIA = [
    (replace(PNG, media_type="image/jpeg"), {"type": "base64", "media_type": "image/png", "data": PNG.data}),
    (
        Media(MediaKind.IMAGE, "image/jpg", data="AAAA"),
        {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"},
    ),
    (replace(PNG, media_type=None), {"type": "base64", "media_type": "image/png", "data": PNG.data}),
    (Media(MediaKind.IMAGE, url="https://x/a"), {"type": "url", "url": "https://x/a"}),
    (
        Media(MediaKind.DOCUMENT, "application/pdf", data="JVBERi0="),
        {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
    ),
    (Media(MediaKind.DOCUMENT, url="https://x/a.pdf"), {"type": "url", "url": "https://x/a.pdf"}),
    (
        Media(MediaKind.DOCUMENT, "text/csv; charset=utf-8", data=encoded("a;ö")),
        {"type": "text", "media_type": "text/plain", "data": "a;ö"},
    ),
    (
        Media(MediaKind.DOCUMENT, "text/plain", text="notes"),
        {"type": "text", "media_type": "text/plain", "data": "notes"},
    ),
]


@pytest.mark.parametrize(("media", "source"), MEDIA)
def test_media_go_as_blocks_of_their_own(media: Media, source: dict[str, str]) -> None:
    for found in (
        messages(turn(USER, media))[0][1][0],
        messages(turn(USER, "go"), turn(ASSISTANT, call("1")), turn(USER, ToolResult("1", (media,))))[2][1][
            0
        ]["content"][0],
    ):
        assert found == {"type": media.kind.value, "source": source}


def test_a_document_keeps_its_title_and_context_and_an_image_has_text_before_it() -> None:
    document = Media(MediaKind.DOCUMENT, text="x", name="T", context="C")
    image = replace(PNG, name="T", context="C", detail="low")
    body, rendered = render(turn(USER, document, image))
    first, second, third = body["messages"][0]["content"]
    assert (first["title"], first["context"]) == ("T", "C")
    assert (second, third["type"]) == (text("C"), "image")
    assert rendered.lost == {Feature.MEDIA_NAME, Feature.MEDIA_DETAIL}


@pytest.mark.parametrize(
    ("media", "lost"),
    [
        (Media(MediaKind.AUDIO, "audio/wav", data="UklG"), Feature.AUDIO),
        (Media(MediaKind.VIDEO, "video/mp4", url="https://x/v"), Feature.VIDEO),
        (Media(MediaKind.IMAGE, "image/heic", data="AAAA"), Feature.IMAGE),
        (Media(MediaKind.DOCUMENT, "application/msword", data="AAAA"), Feature.DOCUMENT),
        (Media(MediaKind.DOCUMENT, "text/plain", data="/w=="), Feature.DOCUMENT),
        (Media(MediaKind.DOCUMENT, "text/html", url="https://x/a"), Feature.DOCUMENT),
        (Media(MediaKind.IMAGE, file_id="file_1"), Feature.FILE_ID),
        (Media(MediaKind.IMAGE, url="gs://bucket/a.png"), Feature.IMAGE),
    ],
)
def test_media_that_this_api_does_not_have_are_left_out_and_named(media: Media, lost: Feature) -> None:
    body, rendered = render(turn(USER, "see", media))
    assert body["messages"][0]["content"] == [text("see"), text(f"[{media.kind} left out]")]
    assert rendered.lost == {lost}


def test_media_of_the_assistant_move_to_the_users_next_turn() -> None:
    body, rendered = render(turn(USER, "draw"), turn(ASSISTANT, "Here:", PNG), turn(USER, "more"))
    assert body["messages"][1]["content"] == [text("Here:")]
    assert body["messages"][2]["content"] == [DRAWN, text("more")]
    assert not rendered.lost


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ((), [(ASSISTANT, [text("Here:")]), (USER, [DRAWN])]),
        (
            (turn(ASSISTANT, "Good?"), turn(USER, "more")),
            [
                (ASSISTANT, [text("Here:")]),
                (USER, [DRAWN]),
                (ASSISTANT, [text("Good?")]),
                (USER, [text("more")]),
            ],
        ),
        (
            (turn(SYSTEM, "Be brief."), turn(ASSISTANT, "Good?")),
            [
                (ASSISTANT, [text("Here:")]),
                (USER, [DRAWN]),
                (SYSTEM, [text("Be brief.")]),
                (ASSISTANT, [text("Good?")]),
                (USER, [text(CONTINUE)]),
            ],
        ),
    ],
    ids=["the end", "the assistant", "an instruction"],
)
def test_a_turn_of_the_users_is_made_for_them_before(
    after: tuple[Turn, ...], expected: list[tuple[Role, list[Json]]]
) -> None:
    rendered = messages(turn(USER, "draw"), turn(ASSISTANT, "Here:", PNG), *after, model=NEWEST)
    assert rendered[1:] == [(role.value, content) for role, content in expected]


def test_media_of_the_assistant_stand_behind_the_results_of_its_calls() -> None:
    drawn = turn(ASSISTANT, PNG, call("1"))
    _, (_, called), (_, heard) = messages(turn(USER, "draw"), drawn, turn(USER, "so?", result("1", "x")))
    assert [block["type"] for block in called] == ["tool_use"]
    assert [block["type"] for block in heard] == ["tool_result", "image", "text"]


def test_media_of_the_assistant_that_this_api_does_not_have_leave_a_word_where_they_stood() -> None:
    video = Media(MediaKind.VIDEO, "video/mp4", data="AAAA", detail="low")
    body, rendered = render(turn(USER, "draw"), turn(ASSISTANT, "Here:", video), turn(USER, "more"))
    assert body["messages"][1]["content"] == [text("Here:"), text("[video left out]")]
    assert rendered.lost == {Feature.VIDEO, Feature.MEDIA_DETAIL}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://x/a.png", "'https://x/a.png'"),
        ("https://me:secret@x/a.png?key=secret#secret", "'https://x/a.png'"),
        ("https://me:sec@ret@x/a", "'https://x/a'"),
        ("https://x/" + "a" * 300, f"'https://x/{'a' * 190}'"),
    ],
)
def test_a_model_that_fetches_no_addresses_is_asked_for_none(url: str, shown: str) -> None:
    row = Models((OverrideRow("claude-*", addresses=False),)).row(ADAPTIVE, Family.ANTHROPIC)
    conversation = Conversation((turn(USER, Media(MediaKind.IMAGE, url=url)),))
    with pytest.raises(GatewayError) as caught:
        render_request(conversation, RenderOptions(ADAPTIVE, Kind.ANTHROPIC, row))
    assert caught.value.message.endswith(f"send the file itself, in base64, instead of {shown}")


MARK, LATER = {"type": "ephemeral", "ttl": "5m"}, {"type": "ephemeral", "ttl": "1h"}


SEARCHED = {"type": "search_result", "title": "T", "source": "S"}


def made(kind: str, content: list[Json], **fields: Json) -> Any:  # Any: a part that can bear a mark
    """The last part that a block of blocks becomes."""
    block: Json = {**SEARCHED, "content": content}
    if kind == "document":
        block = {"type": "document", "source": {"type": "content", "content": content}}
    sent = [{"role": "user", "content": [{**block, **fields}]}]
    body = json.dumps({"model": "m", "max_tokens": 1, "messages": sent}).encode()
    return parse_request(body, RequestContext("m")).request.turns[0].parts[-1]


@pytest.mark.parametrize("kind", ["search_result", "document"])
def test_a_mark_in_what_becomes_one_is_a_mark_of_the_whole(kind: str) -> None:
    first, last = {**text("a"), "cache_control": MARK}, {**text("b"), "cache_control": LATER}
    assert made(kind, [first, {**text("b")}]).cache == CacheMark("5m")
    assert made(kind, [first, last]).cache == CacheMark("1h")
    assert made(kind, [last], cache_control=MARK).cache == CacheMark("5m")


def test_the_mark_of_a_document_with_images_is_on_the_last_of_its_parts() -> None:
    found = made("document", [{**text("a")}, DRAWN], cache_control=MARK)
    assert found == replace(PNG, cache=CacheMark("5m"))


def test_a_document_of_texts_is_one_and_a_document_with_images_is_its_parts() -> None:
    texts = {"type": "content", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    block = {"type": "document", "source": texts, "title": "T"}
    part = parse(messages=[{"role": "user", "content": [block]}]).request.turns[0].parts
    assert part == (Media(MediaKind.DOCUMENT, "text/plain", text="a\nb", name="T"),)
    texts["content"].append({"type": "image", "source": INLINE_PNG})  # type: ignore[attr-defined]  # a list
    parts = parse(messages=[{"role": "user", "content": [block]}]).request.turns[0].parts
    assert parts == (
        Text("T"),
        Text("a"),
        Text("b"),
        Media(MediaKind.IMAGE, "image/png", data="iVBORw0KGgo="),
    )
