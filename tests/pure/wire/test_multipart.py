"""The model of a form is found and replaced where it stands."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.errors import GatewayError, Reason
from mgw.wire.multipart import MAX_PARTS, find_part, splice_part

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


CONTENTS = st.lists(
    st.sampled_from(
        [b"\r\n", b"--xYz", b"\r\n--xY", b"\r\n--xYzz", b"\r", b"\n", b"-", b"\x00\xff", b"model", b'"']
    )
).map(b"".join)


def ends_no_part(content: bytes) -> bool:
    around = b"\r\n" + content + b"\r\n"
    return b"\r\n--xYz\r\n" not in around and b"\r\n--xYz--" not in around


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
)
def test_only_the_contents_of_the_named_parts_are_replaced(
    parts: list[tuple[str, bytes]], preamble: bytes, epilogue: bytes
) -> None:
    def written(model: bytes | None) -> bytes:
        contents = [(name, content if name != "model" or model is None else model) for name, content in parts]
        return form(*(part(*each) for each in contents), preamble=preamble, epilogue=epilogue)

    body = written(None)
    found = find_part(body, TYPE)
    models = [content.decode() for name, content in parts if name == "model"]
    if not models:
        assert found is None
        return
    assert found is not None
    assert found.value == models[-1]
    assert splice_part(body, found, "new/é") == written("new/é".encode())
    assert splice_part(body, found, models[-1]) is body


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
        b'Content-Disposition: form-data; name="mo\\"del"; name="x"',
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
        pytest.param(form(b"A: b", part("model", b"m")), id="a head that runs into the next part"),
        pytest.param(form(b"A: " + b"a" * 20_000 + b"\r\n" + part("model", b"m")), id="an endless head"),
        pytest.param(form(*[part("a", b"")] * (MAX_PARTS + 1)), id="too many parts"),
    ],
)
def test_a_form_that_others_may_read_differently_is_malformed(body: bytes) -> None:
    refusal_of(body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(form(part("model", b"\xff")), id="not UTF-8"),
        pytest.param(form(part("model", b"bQ==", b"\r\nContent-Transfer-Encoding: base64")), id="encoded"),
    ],
)
def test_a_model_that_is_no_text_is_malformed_and_named(body: bytes) -> None:
    assert refusal_of(body).param == "model"


def test_a_value_with_line_ends_is_not_written() -> None:
    body = form(part("model", b"m"))
    found = find_part(body, TYPE)
    assert found is not None
    with pytest.raises(GatewayError):
        splice_part(body, found, "x\r\n--xYz--")


def test_a_large_file_is_passed_over() -> None:
    audio = bytes(range(256)) * 32 * 1024
    body = form(part("file", audio, b'; filename="a.mp3"'), part("model", b"m"))
    begun = process_time()
    found = find_part(body, TYPE)
    assert found is not None
    assert process_time() - begun < 1
