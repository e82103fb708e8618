"""The model of a form is found and replaced where it stands."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Sequence
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.json_spans import FoundString, apply_edits
from mgw.wire.multipart import (
    MAX_LOOKALIKES,
    MAX_PART_HEAD_BYTES,
    MAX_PARTS,
    MAX_VALUE_BYTES,
    FormReader,
    find_nested_in_part,
    find_part,
    part_edits,
)

TYPE = b"multipart/form-data; boundary=xYz"


def part(name: str, content: bytes, more: bytes = b"") -> bytes:
    return b'Content-Disposition: form-data; name="' + name.encode() + b'"' + more + b"\r\n\r\n" + content


def form(*parts: bytes, preamble: bytes = b"", epilogue: bytes = b"\r\n") -> bytes:
    return preamble + b"".join(b"--xYz\r\n" + each + b"\r\n" for each in parts) + b"--xYz--" + epilogue


def refusal_of(body: bytes, content_type: bytes = TYPE) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        find_part(body, content_type)
    assert caught.value.reason is Reason.MALFORMED
    return caught.value


def read(pieces: Sequence[bytes], max_bytes: int = MAX_VALUE_BYTES) -> FoundString | str | None:
    """What is found in a form that comes in these pieces, or why it is refused."""
    reader = FormReader(TYPE, "model", max_bytes)
    try:
        for piece in pieces:
            reader.feed(piece)
        return reader.finish()
    except GatewayError as refusal:
        return refusal.message


PIECES = st.sampled_from(
    [b"\r\n", b"--xYz", b"\r\n--xY", b"\r\n--xYzz", b"\r", b"\n", b"-", b" \t", b"\x00\xff", b"model", b'"']
)
CONTENTS = st.lists(PIECES).map(b"".join)


def ends_no_part(content: bytes) -> bool:
    around = b"\r\n" + content + b"\r\n"
    return re.search(rb"\r\n--xYz(?:[ \t]*\r\n|--)", around) is None


HEAD = part("model", b"")
FORM_PIECES = st.sampled_from(
    [
        HEAD,
        HEAD[:-1],
        b"\n",
        part("file", b""),
        b"\r\n--xYz\r\n",
        b"--xYz",
        b"\r\n--xYz--",
        b"\r\n",
        b"\r",
        b"-",
        b" \t",
        b" " * 300,
        b"A: " + b"a" * MAX_PART_HEAD_BYTES,
        b"gpt",
        b"\xff",
        b"\r\nContent-Transfer-Encoding: base64",
    ]
)


@given(
    st.lists(st.lists(FORM_PIECES, max_size=4).map(b"".join) | FORM_PIECES, max_size=12), st.integers(0, 9)
)
@example([b"--xYz\r\n" + HEAD, b"gpt", b"\r\n--xYz-", b"-"], 9)
def test_any_cut_gives_the_same_result_or_the_same_refusal(pieces: list[bytes], max_bytes: int) -> None:
    body = b"".join(pieces)
    whole = read([body], max_bytes)
    assert read(pieces, max_bytes) == whole
    if len(body) < 5_000:
        assert read([bytes([byte]) for byte in body], max_bytes) == whole


SAFE_CONTENTS = CONTENTS.filter(ends_no_part)
MODELS = st.sampled_from(["gpt-4o-transcribe", "", "é", " x ", "a/b"])


@given(
    st.lists(
        st.tuples(st.just("model"), MODELS.map(str.encode))
        | st.tuples(st.sampled_from(["file", "Model", "prompt"]), SAFE_CONTENTS),
        max_size=5,
    ),
    st.sampled_from([b"", b"preamble\r\n"]),
    st.sampled_from([b"", b"\r\n", b"\r\nepilogue\r\n--xYz\r\n"]),
    st.integers(1, 40),
)
def test_only_the_contents_of_the_named_parts_are_replaced(
    parts: list[tuple[str, bytes]], preamble: bytes, epilogue: bytes, size: int
) -> None:
    def written(model: bytes | None) -> bytes:
        contents = [(name, content if name != "model" or model is None else model) for name, content in parts]
        return form(*(part(*each) for each in contents), preamble=preamble, epilogue=epilogue)

    body = written(None)
    found = find_part(body, TYPE)
    assert read([body[at : at + size] for at in range(0, len(body), size)]) == found
    models = [content.decode() for name, content in parts if name == "model"]
    if not models:
        assert found is None
        return
    assert found is not None
    assert found.value == models[-1]
    assert apply_edits(body, part_edits(found, "new/é")) == written("new/é".encode())
    assert part_edits(found, models[-1]) == []


@pytest.mark.parametrize(
    "content_type",
    [
        b"multipart/form-data; boundary=xYz",
        b'Multipart/Form-Data;boundary="xYz"',
        b"multipart/form-data; charset=utf-8; BOUNDARY=xYz",
        b'multipart/form-data; a="; boundary=no"; boundary=xYz',
    ],
)
def test_the_boundary_is_read_in_every_spelling(content_type: bytes) -> None:
    found = find_part(form(part("model", b"whisper-1")), content_type)
    assert found is not None
    assert found.value == "whisper-1"


@pytest.mark.parametrize(
    "head",
    [
        b'Content-Disposition: form-data; name="model"',
        b"content-disposition:form-data;name=model",
        b'Content-Type: text/plain\r\nContent-Disposition: form-data; name="model"',
        b'Content-Disposition: form-data; filename="a; name=\\"x\\"; \\\\"; name="model"',
        b'Content-Disposition: form-data; name="mo\\"del"; x="name=x"',
        b'Content-Disposition: form-data; name="model"; filename="a.wav"; filename*=utf-8\'\'%C3%A4.wav',
        b'Content-Disposition: form-data; name="model";',
        b'Content-Transfer-Encoding: 8bit\r\nContent-Disposition: form-data; name="model"',
    ],
)
def test_a_part_is_known_by_its_name_parameter(head: bytes) -> None:
    name = 'mo"del' if b"mo\\" in head else "model"
    found = find_part(form(head + b"\r\n\r\nx"), TYPE, name)
    assert found is not None
    assert found.value == "x"


def test_white_space_behind_a_boundary_is_padding() -> None:
    body = b"--xYz \t\r\n" + part("model", b"m") + b"\r\n--xYz--"
    found = find_part(body, TYPE)
    assert found is not None
    assert found.value == "m"


@pytest.mark.parametrize(
    "content_type",
    [
        b"",
        b"application/json",
        b"multipart/form-data",
        b"multipart/mixed; boundary=xYz",
        b"multipart/form-data; boundary=",
        b"multipart/form-data; boundary=xYz; Boundary=other",
        b"multipart/form-data; boundary=xYz; boundary*=utf-8''other",
    ],
)
def test_another_kind_of_body_is_malformed(content_type: bytes) -> None:
    assert refusal_of(form(part("model", b"m")), content_type).param == "Content-Type"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"model":"x"}', id="JSON"),
        pytest.param(form(part("model", b"m"))[:-6], id="no closing boundary"),
        pytest.param(form(part("model", b"m")).replace(b"\r\n", b"\n"), id="bare line feeds"),
        pytest.param(form(b"\r\nm"), id="no head"),
        pytest.param(form(b"Content-Disposition: form-data\r\n\r\nm"), id="no name"),
        pytest.param(form(b'Content-Disposition: attachment; name="model"\r\n\r\nm'), id="no form data"),
        pytest.param(form(b'Content-Disposition: form-data; name="model"\r\n'), id="no content"),
        *[
            pytest.param(form(b"Content-Disposition: form-data" + stated + b"\r\n\r\nm"), id=repr(stated))
            for stated in (
                b'; name="x"; name="model"',
                b'; name="model"; NAME="model"',
                b"; name=x; name=model",
                b'; name="a"; filename="x"; filename="y"; name="model"',
                b"; name=x; name*=utf-8''model",
                b"; name*=utf-8''model",
                b"; name*0=mod; name*1=el",
                b'; name="x" "; name="model"',
                b'; name=x"; name="model"',
                b'; name="x"y; name="model"',
                b'; name="x", name="model"',
                b'; name="x"\r\nContent-Disposition: form-data; name="model"',
                b'; name="x"\r\ncontent-disposition: attachment; name="model"',
                b'; name="x";\r\n name="model"',
                b';\r\n\tname="model"',
                b'; name="x"\nContent-Disposition: form-data; name="model"',
                b'; name="x"\rContent-Disposition: form-data; name="model"',
                b'; name="x\0"; filename="y"',
                b'; name="mod\\el"',
                b'-2; name="model"',
            )
        ],
        pytest.param(form(b"A: b", part("model", b"m")), id="a head that runs into the next part"),
        pytest.param(form(b"A: " + b"a" * 20_000 + b"\r\n" + part("model", b"m")), id="an endless head"),
        pytest.param(form(*[part("a", b"")] * (MAX_PARTS + 1)), id="too many parts"),
        pytest.param(form(part("a", b"\r\n--xYz " * (MAX_LOOKALIKES + 1))), id="too much like boundaries"),
        pytest.param(b"--xYz" + b" " * 300 + b"\r\n" + form(part("a", b""))[7:], id="much white space"),
        pytest.param(form(b"A: b\r\n--xYz\r\n" + part("model", b"m")), id="a delimiter in a head"),
        pytest.param(form(part("model", b"m")[:-1] + b"--xYz\r\n"), id="a delimiter right behind a head"),
    ],
)
def test_a_form_that_others_may_read_differently_is_malformed(body: bytes) -> None:
    refusal_of(body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(form(part("model", b"\xff")), id="not UTF-8"),
        pytest.param(form(part("model", b"m" * (MAX_VALUE_BYTES + 1))), id="too long"),
        pytest.param(form(part("model", b"bQ==", b"\r\nContent-Transfer-Encoding: base64")), id="encoded"),
    ],
)
def test_a_model_that_is_no_text_is_malformed_and_named(body: bytes) -> None:
    assert refusal_of(body).param == "model"


def test_a_form_may_have_as_much_as_the_limits_say() -> None:
    body = form(*[part("a", b"")] * (MAX_PARTS - 1), part("model", b"m" * MAX_VALUE_BYTES))
    found = find_part(body, TYPE)
    assert found is not None
    assert found.value == "m" * MAX_VALUE_BYTES


def test_a_value_that_is_too_long_is_refused_before_its_end() -> None:
    reader = FormReader(TYPE, "session", max_bytes=8)
    reader.feed(b"--xYz\r\n" + part("session", b"12345678"))
    with pytest.raises(GatewayError) as caught:
        reader.feed(b"90" * 8)
    assert caught.value.param == "session"


def test_a_head_without_an_end_is_refused_before_the_form_ends() -> None:
    reader = FormReader(TYPE)
    reader.feed(b"--xYz\r\n")
    with pytest.raises(GatewayError):
        reader.feed(b"A: " + b"a" * MAX_PART_HEAD_BYTES)


def test_a_value_with_line_ends_is_not_written() -> None:
    body = form(part("model", b"m"))
    found = find_part(body, TYPE)
    assert found is not None
    with pytest.raises(GatewayError):
        part_edits(found, "x\r\n--xYz--")


@pytest.mark.parametrize(
    "unit",
    [bytes(range(256)), b"\r\n--", b"\r\n--xY", b"\r"],
    ids=["file", "dashes", "half boundaries", "line ends"],
)
def test_a_large_file_is_passed_over(unit: bytes) -> None:
    content = unit * (32 * 1024 * 1024 // len(unit))  # made here, and not held by all who collect
    body = form(part("file", content, b'; filename="a.mp3"'), part("model", b"m"))
    begun = process_time()
    found = find_part(body, TYPE)
    assert found is not None
    assert process_time() - begun < 1  # measured: 0.08 at the most


def test_what_looks_like_a_boundary_costs_time_in_proportion() -> None:
    content = b"\r\n--xYzz" * 1024 * 1024
    begun = process_time()
    assert read([form(part("file", content), part("model", b"m"))]) is not None
    assert process_time() - begun < 3  # measured: 0.2


def test_a_large_form_leaves_nothing_behind_in_memory() -> None:
    piece = bytes(range(256)) * 256
    reader = FormReader(TYPE)
    reader.feed(b"--xYz\r\n" + part("model", b"m") + b"\r\n--xYz\r\n" + part("file", b""))
    tracemalloc.start()
    try:
        for _ in range(256):
            reader.feed(piece)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    reader.feed(b"\r\n--xYz--")
    assert reader.finish() is not None
    assert held < 1024
    assert peak < 4 * len(piece)


# --- JSON in a part ----------------------------------------------------------------------------------------

SESSION = b'{"type":"realtime", "model" : "gpt-realtime","audio":{"input":{"transcription":{"model":"w"}}}}'
PATHS = (("model",), ("audio", "input", "transcription", "model"))


def test_what_stands_in_the_json_of_a_part_is_found_where_it_stands_in_the_form() -> None:
    body = form(part("sdp", b"v=0\r\n"), part("session", SESSION, b"\r\nContent-Type: application/json"))
    found = find_part(body, TYPE, "session", 64 * 1024)
    assert found is not None
    values = find_nested_in_part(found, *PATHS)
    assert [value.name for value in values] == ["model", "audio.input.transcription.model"]
    assert [body[slice(*value.span)] for value in values] == [b'"gpt-realtime"', b'"w"']


def test_json_that_is_stated_twice_is_malformed() -> None:
    found = find_part(form(part("session", SESSION), part("session", SESSION)), TYPE, "session")
    assert found is not None
    with pytest.raises(GatewayError) as caught:
        find_nested_in_part(found, *PATHS)
    assert caught.value.reason is Reason.MALFORMED
