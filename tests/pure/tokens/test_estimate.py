"""The token estimate, against frozen counts of o200k_base and the published rules."""

from __future__ import annotations

import json
import struct
import time
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mgw.canonical.conversation import (
    Conversation,
    Media,
    MediaKind,
    OutputFormat,
    OutputKind,
    Part,
    Role,
    Signature,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
)
from mgw.nouns.vocabulary import Family
from mgw.tokens.estimate import PER_CALL, PER_MESSAGE, PRIMING, UNSEEN_IMAGE, estimate_tokens
from mgw.tokens.text import MAX_READ_CHARS, estimate_text_tokens

CORPUS = Path(__file__).parents[3] / "bench/corpus"
COUNTS: dict[str, dict[str, int]] = json.loads((CORPUS / "counts.json").read_text(encoding="utf-8"))
WORDS = ["the", "of", "Straßenbahn", "żółć", "Verarbeitung", "x=", ")", "{}", "42"]
ANY_TEXT = st.one_of(
    st.text(max_size=60),
    st.text("aBzé ß\n\t.,_-'\"0🙂中あ한яा", max_size=60),
    st.text("abcdefghijklmnopqrstuvwxyz \n", max_size=60),
    st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join),
)
EMPTY = estimate_tokens(Conversation(()))


def read(name: str) -> str:
    return (CORPUS / f"{name}.txt").read_text(encoding="utf-8")


def user(*parts: Part) -> Conversation:
    return Conversation((Turn(Role.USER, parts),))


def media_tokens(media: Media) -> int:
    return estimate_tokens(user(media)) - estimate_tokens(user())


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_every_kind_of_text_is_within_fifteen_per_cent_of_o200k(name: str) -> None:
    text, counted = read(name), COUNTS[name]
    assert len(text) == counted["chars"], "run python -m bench.tokens --write"
    assert estimate_text_tokens([text]) == pytest.approx(counted["o200k_base"], rel=0.15)


def test_the_whole_corpus_is_within_five_per_cent() -> None:
    estimated = sum(estimate_text_tokens([read(name)]) for name in COUNTS)
    assert estimated == pytest.approx(sum(counted["o200k_base"] for counted in COUNTS.values()), rel=0.05)


def test_the_counts_are_of_the_files_that_are_there() -> None:
    assert sorted(COUNTS) == sorted(path.stem for path in CORPUS.glob("*.txt"))


def test_several_texts_are_counted_like_one() -> None:
    texts = [read(name) for name in ("english", "german", "python")]
    assert estimate_text_tokens(texts) == pytest.approx(
        sum(estimate_text_tokens([text]) for text in texts), rel=0.15
    )


def test_of_a_long_text_a_sample_stands_for_the_whole() -> None:
    tale = "".join(read(name) for name in ("english", "python", "json", "russian", "logs"))
    copies = 2 + MAX_READ_CHARS // len(tale)
    assert estimate_text_tokens([tale * copies]) == pytest.approx(
        estimate_text_tokens([tale]) * copies, rel=0.05
    )


@example(text="é" * 5_000)
@example(text="Q" * 5_000)
@given(text=ANY_TEXT)
def test_a_text_has_at_least_one_token_and_hardly_more_than_bytes(text: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    assert bool(text) <= estimate_text_tokens([text]) <= 1.4 * size


@given(
    chars=st.lists(st.characters(categories=["Cs", "Co", "Cn", "Mn", "So", "Nl", "No", "Lo"]), max_size=20)
)
def test_rare_characters_have_a_price(chars: list[str]) -> None:
    assert bool(chars) <= estimate_text_tokens(["".join(chars)]) <= 10 * len(chars)


@given(lines=st.lists(ANY_TEXT, max_size=8), more=ANY_TEXT)
def test_more_lines_are_never_fewer_tokens(lines: list[str], more: str) -> None:
    assert estimate_text_tokens(["\n".join([*lines, more])]) >= estimate_text_tokens(["\n".join(lines)]) - 1


@pytest.mark.parametrize("word", ["Straßenbahn", "Verarbeitung", "żółć", "xqzw"])
def test_easy_words_do_not_make_hard_ones_free(word: str) -> None:
    for hard in (1, 10, 100):
        some = range(0, 20 * hard, max(1, hard // 10))
        steps = [estimate_text_tokens([f"{word} " * hard + "the " * easy]) for easy in some]
        assert steps == sorted(steps)


@given(lines=st.lists(ANY_TEXT, max_size=8))
def test_a_whole_is_hardly_more_than_its_lines(lines: list[str]) -> None:
    apart = sum(estimate_text_tokens([line]) for line in lines)
    assert estimate_text_tokens(["\n".join(lines)]) <= 1.1 * apart + 10 * len(lines)


@pytest.mark.parametrize(
    "unit",
    [
        " ",
        "\n",
        "\t",
        "a",
        "A",
        "é",
        "-",
        "_",
        "1",
        "中",
        "🙂",
        "\u0301",
        "aB",
        " \n",
        " a",
        "'s",
        "(a",
        "²",
        ". ",
    ],
)
@pytest.mark.parametrize("size", [MAX_READ_CHARS, 1_000_000])
def test_no_text_takes_long(unit: str, size: int) -> None:
    text = (unit * size)[:size]
    start = time.process_time()
    estimate_text_tokens([text])
    assert time.process_time() - start < 2  # some 20 ms; minutes where the pattern goes back


def test_each_message_costs_four_and_the_answer_is_primed() -> None:
    assert EMPTY == PRIMING
    assert estimate_tokens(user(Text("hello"))) == PRIMING + PER_MESSAGE + 1
    assert estimate_tokens(Conversation((), system=(Text("hello"),))) == PRIMING + PER_MESSAGE + 1


def test_thoughts_do_not_count() -> None:
    thought = Thinking("first this, then that", Signature(Family.ANTHROPIC, "abc" * 100))
    assert estimate_tokens(user(Text("hello"), thought)) == estimate_tokens(user(Text("hello")))


def test_calls_and_their_results_count() -> None:
    call = Turn(Role.ASSISTANT, (ToolCall("1", "find", '{"name": "x"}'),))
    result = Turn(Role.USER, (ToolResult("1", (Text("hello"),)),))
    arguments = round(estimate_text_tokens(["find", '{"name": "x"}']))
    assert estimate_tokens(Conversation((call,))) == EMPTY + PER_MESSAGE + PER_CALL + arguments
    assert estimate_tokens(Conversation((result,))) == EMPTY + PER_MESSAGE + 1


def test_the_example_of_the_cookbook_costs_about_what_openai_counted() -> None:
    location = {"type": "string", "description": "The city and state, e.g. San Francisco, CA"}
    unit = {
        "type": "string",
        "description": "The unit of temperature to return",
        "enum": ["celsius", "fahrenheit"],
    }
    schema = {"type": "object", "properties": {"location": location, "unit": unit}, "required": ["location"]}
    asked = Conversation(
        (Turn(Role.USER, (Text("What's the weather like in San Francisco?"),)),),
        system=(Text("You are a helpful assistant that can answer to questions about the weather."),),
        tools=(Tool("get_current_weather", "Get the current weather in a given location", schema),),
    )
    assert estimate_tokens(asked) == pytest.approx(101, rel=0.08)


def test_the_schema_of_the_answer_counts() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    shaped = Conversation((), output=OutputFormat(OutputKind.SCHEMA, schema))
    assert estimate_tokens(shaped) > EMPTY + 6


@pytest.mark.parametrize("word", ["items", "anyOf", "oneOf", "allOf", "prefixItems"])
def test_what_stands_deeper_in_a_schema_counts(word: str) -> None:
    inner = {"type": "object", "properties": {"name": {"type": "string", "enum": ["celsius", "fahrenheit"]}}}
    shallow, deep = (
        Tool("f", None, {"properties": {"one": {word: child}}}) for child in ([], [inner, {"items": inner}])
    )
    more = estimate_tokens(Conversation((), tools=(deep,))) - estimate_tokens(
        Conversation((), tools=(shallow,))
    )
    assert more == pytest.approx(2 * 14, abs=4)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda child: (
        st.lists(child, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "items", "enum", "anyOf", "$defs", "description"]),
            child,
            max_size=4,
        )
    ),
)


@given(properties=JSON, items=JSON, enum=JSON)
def test_any_json_may_stand_where_a_schema_should(properties: Any, items: Any, enum: Any) -> None:
    schema = {"properties": properties, "items": items, "enum": enum, "description": items}
    assert estimate_tokens(Conversation((), tools=(Tool("f", None, schema),))) > EMPTY


def test_a_schema_may_be_deep() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100_000):
        schema = {"items": schema}
    assert estimate_tokens(Conversation((), tools=(Tool("f", None, schema),))) > EMPTY


def test_a_factor_is_for_text_alone() -> None:
    image = Media(MediaKind.IMAGE, url="https://example.org/a.png")
    asked = user(Text(read("english")))
    assert estimate_tokens(asked, 1.3) == pytest.approx(1.3 * estimate_tokens(asked), abs=1)
    assert estimate_tokens(user(image), 2.0) == 2 * estimate_tokens(user()) + UNSEEN_IMAGE


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
JPEG = (
    b"\xff\xd8\xff\xe0\0\x10JFIF"
    + bytes(10)
    + b"\xff\xfe\xea\x60"
    + bytes(0xEA60 - 2)
    + b"\xff\xff\xc2\0\x11\x08"
)
HEADS = {
    "png": lambda w, h: PNG + struct.pack(">II", w, h),
    "gif": lambda w, h: b"GIF89a" + struct.pack("<HH", w, h),
    "jpeg": lambda w, h: JPEG + struct.pack(">HH", h, w),
    "webp, lossy": lambda w, h: b"RIFF----WEBPVP8 ----\0\0\0\x9d\x01\x2a" + struct.pack("<HH", w, h),
    "webp, lossless": lambda w, h: b"RIFF----WEBPVP8L----\x2f" + struct.pack("<I", (w - 1) | (h - 1) << 14),
    "webp, extended": lambda w, h: (
        b"RIFF----WEBPVP8X----\0\0\0\0" + struct.pack("<I", w - 1)[:3] + struct.pack("<I", h - 1)[:3]
    ),
}


def image(head: bytes, detail: str | None = None) -> Media:
    return Media(MediaKind.IMAGE, data=b64encode(head + bytes(40)).decode(), detail=detail)


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    # two examples of OpenAI's guide, a small one that is not enlarged, a tile's edge, a strip
    [(1024, 1024, 765), (2048, 4096, 1105), (300, 200, 255), (513, 512, 425), (1500, 10, 595)],
)
def test_an_image_costs_its_tiles(kind: str, width: int, height: int, tokens: int) -> None:
    assert media_tokens(image(HEADS[kind](width, height))) == tokens


def test_an_image_of_low_detail_costs_eighty_five() -> None:
    assert media_tokens(image(HEADS["png"](4096, 8192), "low")) == 85


@given(data=st.text(max_size=80) | st.binary(max_size=80).map(lambda raw: b64encode(raw).decode()))
def test_an_image_that_cannot_be_read_has_a_price(data: str) -> None:
    assert media_tokens(Media(MediaKind.IMAGE, data=data)) > 0


@given(kind=st.sampled_from([*HEADS]), cut=st.integers(0, 60))
def test_an_image_that_is_cut_off_has_a_price(kind: str, cut: int) -> None:
    head = HEADS[kind](640, 480)
    data = b64encode(head[:cut] if kind != "jpeg" else head[: len(head) - cut]).decode()
    assert media_tokens(Media(MediaKind.IMAGE, data=data)) > 0


def test_other_media_cost_by_their_size() -> None:
    small, large = (Media(MediaKind.DOCUMENT, "application/pdf", data="A" * size) for size in (100, 680_000))
    assert (media_tokens(small), media_tokens(large)) == (1_500, 15_000)
    assert media_tokens(Media(MediaKind.DOCUMENT, "text/plain", data="A" * 1600)) == 300
    assert media_tokens(Media(MediaKind.AUDIO, "audio/mp3", data="A" * 210_000)) == 100
    assert media_tokens(Media(MediaKind.VIDEO, url="gs://bucket/film.mp4")) == 18_000


def test_a_document_of_text_counts_as_text() -> None:
    plain = Media(MediaKind.DOCUMENT, text=read("english"), name="A tale", context="Read it well.")
    texts = [read("english"), "A tale", "Read it well."]
    assert media_tokens(plain) == pytest.approx(estimate_text_tokens(texts), abs=1)
