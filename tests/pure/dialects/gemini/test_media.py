"""Media, both ways."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any, Final

import pytest
from msgspec.structs import replace

from mgw.canonical.conversation import (
    Conversation,
    Media,
    MediaKind,
    Part,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.dialects.dialect import Parsed, Rendered, RenderOptions, RequestContext
from mgw.dialects.gemini import CLIENT, PROVIDER
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Family, Kind

Json = dict[str, Any]
OLD: Final = ModelRow("*", Family.GEMINI, "x", budget=(1, 24_576), off=True, max_output=1000)
CONTEXT: Final = RequestContext("m")
BYTES: Final = b"\xfb\xef\xff\xff"


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


def parts_of(*parts: Part, row: ModelRow = OLD) -> list[Json]:
    conversation = Conversation((Turn(Role.USER, parts),))
    found: list[Json] = body_of(conversation, row)["contents"][0]["parts"]
    return found


def media_of(part: Json) -> Media:
    found = conversation_of(user(part)).turns[0].parts[0]
    assert isinstance(found, Media)
    return found


def test_url_safe_base64_becomes_standard_base64() -> None:
    for data in (urlsafe_b64encode(BYTES).decode(), urlsafe_b64encode(BYTES).decode().rstrip("=")):
        part = {"inlineData": {"mimeType": "image/png", "data": data}}
        assert media_of(part).data == b64encode(BYTES).decode()


def test_a_text_file_comes_as_text() -> None:
    part = {"inlineData": {"mimeType": "text/plain", "data": b64encode("für".encode()).decode()}}
    assert media_of(part) == Media(MediaKind.DOCUMENT, "text/plain", text="für")


@pytest.mark.parametrize(
    ("file", "media"),
    [
        (
            {"fileUri": "https://x.org/a.pdf?v=1"},
            Media(MediaKind.DOCUMENT, None, url="https://x.org/a.pdf?v=1"),
        ),
        ({"fileUri": "https://x.org/a.PNG"}, Media(MediaKind.IMAGE, None, url="https://x.org/a.PNG")),
        (
            {"fileUri": "gs://b/a", "mimeType": "video/mp4"},
            Media(MediaKind.VIDEO, "video/mp4", url="gs://b/a"),
        ),
        (
            {"fileUri": "https://youtu.be/x"},
            Media(MediaKind.VIDEO, None, url="https://youtu.be/x"),
        ),
        (
            {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/a", "mimeType": "audio/mp3"},
            Media(
                MediaKind.AUDIO,
                "audio/mp3",
                file_id="https://generativelanguage.googleapis.com/v1beta/files/a",
            ),
        ),
    ],
)
def test_a_file_is_an_address_or_one_of_googles(file: Json, media: Media) -> None:
    assert media_of({"fileData": file}) == media


def test_a_resolution_is_a_detail_of_its_part_or_of_all_images() -> None:
    blob = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    sound = {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}
    own = {**blob, "mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"}}
    found = conversation_of(
        user(blob, own, sound), generationConfig={"mediaResolution": "MEDIA_RESOLUTION_LOW"}
    )
    details = [part.detail for part in found.turns[0].parts if isinstance(part, Media)]
    assert details == ["low", "high", None]


@pytest.mark.parametrize(("number", "detail"), [(0, None), (1, "low"), (3, "high"), (4, "ultra_high")])
def test_a_resolution_of_a_part_may_be_its_number(number: int, detail: str | None) -> None:
    blob = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "mediaResolution": {"level": number}}
    assert media_of(blob).detail == detail


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
    found = render(Conversation((Turn(Role.USER, (Text("a"), media)),)), row)
    rendered = json.loads(found.body)["contents"][0]["parts"]
    assert rendered == [{"text": "a"}, {"text": "[image left out]"}]
    assert found.lost == {Feature.IMAGE}


def test_an_image_of_a_result_that_google_does_not_read_is_told_in_the_result() -> None:
    call, image = ToolCall("1", "f", "{}"), Media(MediaKind.IMAGE, "image/gif", data="AAAA")
    turns = (
        Turn(Role.USER, (Text("a"),)),
        Turn(Role.ASSISTANT, (call,)),
        Turn(Role.USER, (ToolResult("1", (Text("b"), image)),)),
    )
    found = render(Conversation(turns))
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
    found = render(Conversation((Turn(Role.USER, (Text("a"), media)),)))
    rendered = [part["text"] for part in json.loads(found.body)["contents"][0]["parts"]]
    assert rendered == ["a", "c", "[document left out]"]
    assert found.lost == {Feature.FILE_ID, Feature.MEDIA_NAME}
