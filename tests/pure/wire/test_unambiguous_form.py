"""A form is read where every server finds the same parts in it; else it is refused."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.unambiguous_form import (
    UnambiguousFormReader,
    find_unambiguous_in_part,
    find_unambiguous_part,
)
from tests.pure.wire.test_multipart import TYPE, form, part


def refusal_of(body: bytes, content_type: bytes = TYPE, name: str = "model") -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        find_unambiguous_part(body, content_type, name)
    assert caught.value.reason is Reason.MALFORMED
    return caught.value


@pytest.mark.parametrize(
    "content_type",
    [
        TYPE,
        b'multipart/form-data; charset=utf-8; boundary="xYz"',
        b"multipart/form-data; Boundary=xYz",
    ],
)
def test_a_plain_form_is_read(content_type: bytes) -> None:
    body = form(part("file", b"\x00\r\n\n--xY\xff"), part("model", b"whisper-1"), part("language", b"en"))
    found = find_unambiguous_part(body, content_type)
    assert found is not None
    assert found.value == "whisper-1"


def test_a_boundary_may_have_that_word_in_it() -> None:
    body = form(part("model", b"m")).replace(b"xYz", b"Boundary-1")
    assert find_unambiguous_part(body, b"multipart/form-data; boundary=Boundary-1") is not None


def test_a_form_without_the_part_has_none() -> None:
    assert find_unambiguous_part(form(part("file", b"x")), TYPE) is None


def test_several_parts_have_one_value() -> None:
    found = find_unambiguous_part(form(part("model", b"a"), part("model", b"a")), TYPE)
    assert found is not None
    assert len(found.spans) == 2
    refusal_of(form(part("model", b"a"), part("model", b"b")))


@pytest.mark.parametrize(
    "name",
    [
        *(
            "Model",
            "MODEL",
            " model",
            "model ",
            "model[]",
            "model[0]",
            "model[",
            "mod%65l",
            "'model'",
            "%6Dodel",
        ),
        "_charset_",
    ],
)
def test_no_part_has_a_name_that_some_server_takes_for_model(name: str) -> None:
    refusal_of(form(part("model", b"a"), part(name, b"b")))
    refusal_of(form(part(name, b"b")))


@pytest.mark.parametrize("name", ["svg[model]", "svg[Model]", "svg[reasoning][model]", "svg%5Bmodel%5D"])
def test_no_part_names_a_further_model(name: str) -> None:
    refusal = refusal_of(form(part("model", b"a"), part(name, b"b")))
    assert "another model" in refusal.message


def read_further(*parts: bytes) -> UnambiguousFormReader:
    reader = UnambiguousFormReader(TYPE, below=[("svg", "model")])
    reader.feed(form(*parts))
    reader.finish()
    return reader


def test_further_models_are_found_where_the_route_has_them() -> None:
    reader = read_further(part("svg[model]", b"b"), part("model", b"a"), part("svg[model]", b"b"))
    body = form(part("svg[model]", b"b"), part("model", b"a"), part("svg[model]", b"b"))
    assert [(one.value, one.name) for one in reader.further] == [("b", "svg.model")] * 2
    assert [body[slice(*one.span)] for one in reader.further] == [b"b", b"b"]
    found = reader.finish()
    assert found is not None
    assert (found.value, len(found.spans)) == ("a", 1)
    with pytest.raises(GatewayError, match=r"'svg\[model\]' more than once"):
        read_further(part("svg[model]", b"b"), part("svg[model]", b"c"))
    with pytest.raises(GatewayError, match="another model"):
        read_further(part("svg[model]", b"b"), part("svg[Model]", b"b"))


@pytest.mark.parametrize("name", ["image[]", "svg[reasoning][effort]", "metadata[models]", "x[0]"])
def test_parts_below_others_may_be_there(name: str) -> None:
    assert find_unambiguous_part(form(part("model", b"a"), part(name, b"b")), TYPE) is not None


@pytest.mark.parametrize("name", ["models", "language_model", "remodel", "mode", "session"])
def test_other_names_are_of_no_matter(name: str) -> None:
    assert find_unambiguous_part(form(part("model", b"a"), part(name, b"b")), TYPE) is not None


def test_a_part_named_model_is_refused_where_another_part_holds_the_models() -> None:
    session = part("session", b'{"model":"a"}')
    found = find_unambiguous_part(form(session), TYPE, "session")
    assert found is not None
    assert [each.value for each in find_unambiguous_in_part(found, ("model",))] == ["a"]
    refusal_of(form(session, part("model", b"b")), name="session")


def test_the_json_of_a_part_is_read_as_strictly() -> None:
    found = find_unambiguous_part(form(part("session", b'{"model":"a","Model":"b"}')), TYPE, "session")
    assert found is not None
    with pytest.raises(GatewayError, match="more than once"):
        find_unambiguous_in_part(found, ("model",))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            b'--xYz\nContent-Disposition: form-data; name="model"\n\nb\n' + form(part("model", b"a")), id="lf"
        ),
        pytest.param(form(part("model", b"a"), part("x", b"\n--xYz\n")), id="a delimiter between line feeds"),
        pytest.param(form(part("model", b"a"), part("x", b"\r--xYz\r")), id="a delimiter between returns"),
        pytest.param(form(part("model", b"a"), part("x", b"\r\n--xYz--no")), id="a delimiter that goes on"),
        pytest.param(
            form(part("model", b"a")) + form(part("model", b"b")), id="another form in the epilogue"
        ),
        pytest.param(form(part("model", b"a", b"\r\nContent-Type: text/plain; charset=utf-16")), id="utf-16"),
        pytest.param(form(part("model", b"a", b"\r\nContent-Type: text/plain;charset*=utf-7")), id="utf-7"),
    ],
)
def test_what_some_server_reads_otherwise_is_refused(body: bytes) -> None:
    refusal_of(body)


def test_a_boundary_that_some_server_finds_elsewhere_is_refused() -> None:
    body = form(part("model", b"a"))
    refusal = refusal_of(body, b'multipart/form-data; a="; boundary=no"; boundary=xYz')
    assert refusal.param == "Content-Type"


@pytest.mark.parametrize("behind", [*",/=(:@[<?{|", "\\\\z", " z"])
@pytest.mark.parametrize("quoted", ["%b", '"%b"'])
def test_a_boundary_that_some_server_cuts_short_is_refused(behind: str, quoted: str) -> None:
    if quoted == '"%b"' and behind in "/=(:?":
        return  # a quoted one may have these
    stated = b"xYz" + behind.encode()
    read = stated.replace(b"\\\\", b"\\")
    body = form(part("model", b"b")).replace(b"--xYz--\r\n", b"--%b\r\n" % read)
    body += part("model", b"a") + b"\r\n--%b--\r\n" % read
    refusal_of(body, b"multipart/form-data; boundary=" + quoted.encode() % stated)


@pytest.mark.parametrize(
    "boundary",
    [
        "----WebKitFormBoundary7MA4YWxkTrZu0gW",
        "--------------------------735323031399963166993862",
        "----formdata-undici-048231756234",
        "9bd0a2d4b5e64a0fb2c2a9b5a2d9f1c3",
        "alamofire.boundary.4f2c",
        '"----=_Part_5_1527823.1700000000000"',
        "Boundary+3A_B'x",
        '"===============6171829381729381=="',
        '"a:b/c?d(e)=f"',
    ],
)
def test_boundaries_of_clients_are_taken(boundary: str) -> None:
    body = form(part("model", b"m")).replace(b"xYz", boundary.strip('"').encode())
    assert find_unambiguous_part(body, b"multipart/form-data; boundary=" + boundary.encode()) is not None


@pytest.mark.parametrize(
    "head",
    [
        b'Content-Disposition: form-data; filename="; name=model "; name="x"',
        b'Content-Disposition: form-data; filename="a; name=\\"model\\""; name="x"',
        b'Content-Disposition: form-data; name="x"; filename="a.wav;name = model;"',
        b'Content-Type: audio/wav; name="model"\r\nContent-Disposition: form-data; name="x"',
        b"Content-Disposition: form-data; name=x; filename*=utf-8''name=model",
    ],
)
def test_a_name_that_some_server_finds_elsewhere_in_a_head_is_refused(head: bytes) -> None:
    refusal_of(form(part("model", b"a"), head + b"\r\n\r\nb"))


@pytest.mark.parametrize("filename", ["model", "name", "model-name.wav", "filename=a.wav", "unnamed = 1"])
def test_files_may_have_names_with_such_words(filename: str) -> None:
    file = b'Content-Disposition: form-data; name="file"; filename="%b"\r\n\r\nx' % filename.encode()
    assert find_unambiguous_part(form(part("model", b"a"), file), TYPE) is not None


PIECES = st.sampled_from(
    [b"\r\n", b"--xYz", b"\r\n--xYz\r\n", b"--xY", b"z", b"-", b"\n", b"x", part("model", b"a")]
)


@given(st.lists(PIECES, max_size=8), st.lists(st.integers(0, 200), max_size=6))
def test_any_cut_gives_the_same(pieces: list[bytes], cuts: list[int]) -> None:
    body = b"--xYz\r\n" + part("model", b"a") + b"".join(pieces) + b"\r\n--xYz--\r\n"

    def read(chunks: list[bytes]) -> object:
        reader = UnambiguousFormReader(TYPE)
        try:
            for chunk in chunks:
                reader.feed(chunk)
            return reader.finish()
        except GatewayError as error:
            return error.message

    places = sorted({0, *(cut for cut in cuts if cut < len(body)), len(body)})
    chunks = [body[start:end] for start, end in pairwise(places)]
    assert read(chunks) == read([body])
