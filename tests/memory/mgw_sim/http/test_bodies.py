"""Multipart bodies: what was put in comes out, and what is none is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw_sim.api import FormPart
from mgw_sim.http.bodies import BadFormError, read_form

TYPE = 'multipart/form-data; boundary="B"'
DATA = st.lists(st.sampled_from([b"a", b"\r\n", b"--B", b"-", b"\n", b"\0", b"--"]), max_size=6).map(b"".join)
NAMES = st.text("abc[]", min_size=1, max_size=3)
FIELDS = st.tuples(NAMES, st.none() | st.text("xy.", max_size=3), DATA)


def _is_cut(data: bytes) -> bool:
    return b"\r\n--B" in b"\r\n" + data


@given(st.lists(FIELDS.filter(lambda field: not _is_cut(field[2])), max_size=4))
def test_what_was_put_in_comes_out(fields: list[tuple[str, str | None, bytes]]) -> None:
    body = b""
    for name, filename, data in fields:
        more = "" if filename is None else f'; filename="{filename}"'
        body += (
            f'--B\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + data + b"\r\n"
        )
    parts = read_form(body + b"--B--\r\n", TYPE).parts
    assert parts == tuple(FormPart(name, filename, "text/plain", data) for name, filename, data in fields)


HEAD = b'--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n'


@pytest.mark.parametrize(
    ("body", "media"),
    [
        (HEAD + b"x\r\n--B--", "multipart/form-data"),
        (HEAD + b"x\r\n--B", TYPE),
        (HEAD + b"x", TYPE),
        (b"", TYPE),
        (HEAD.replace(b"\r\n", b"\n") + b"x\n--B--", TYPE),
        (b"--B\r\nContent-Type: text/plain\r\n\r\nx\r\n--B--", TYPE),
        (b"--BB\r\n\r\nx\r\n--B--", TYPE),
    ],
    ids=["no boundary", "no end", "no second line", "nothing", "bare line feeds", "no name", "another's"],
)
def test_what_is_no_form_is_refused(body: bytes, media: str) -> None:
    with pytest.raises(BadFormError):
        read_form(body, media)


def test_parts_of_a_related_body_need_no_name() -> None:
    body = b"preamble\r\n--B\r\nContent-Type: application/json\r\n\r\n{}\r\n--B\r\n\r\nbytes\r\n--B--"
    parts = read_form(body, "multipart/related; boundary=B").parts
    assert [(part.content_type, part.data) for part in parts] == [
        ("application/json", b"{}"),
        ("text/plain", b"bytes"),
    ]
