"""Raw paths and queries are looked into, and edited without touching the rest."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.target import (
    check_path,
    check_stated_once,
    has_similar_parameter,
    query_value,
    quote_model_path,
    split_target,
    with_parameter,
    without_parameter,
)


@pytest.mark.parametrize(
    ("raw", "parts"),
    [
        (b"/v1/models", (b"/v1/models", None)),
        (b"/v1/models?", (b"/v1/models", b"")),
        (b"/v1/%3F?a=?&b", (b"/v1/%3F", b"a=?&b")),
    ],
)
def test_a_target_is_cut_at_its_first_question_mark(raw: bytes, parts: tuple[bytes, bytes | None]) -> None:
    assert split_target(raw) == parts


@pytest.mark.parametrize(
    "path",
    [
        b"/",
        b"/v1/chat/completions",
        b"/v1//models/",
        b"/v1beta/models/gemini-2.5-pro:generateContent",
        b"/v1beta/models/a%2Fb",
        b"/v1/models/%ff",
        b"/v1/..a/.b/c./...",
        b"/v1/%252e%252e/x",
        b"/v1/models/a\\b",
        b"/v1/models/a%5c..b%5C.c",
    ],
)
def test_an_honest_path_passes(path: bytes) -> None:
    check_path(path)


@pytest.mark.parametrize(
    "path",
    [
        b"/v1/../admin",
        b"/v1/./models",
        b"/v1/..",
        b"/.",
        b"..",
        b"/v1/%2e%2e/admin",
        b"/v1/%2E./admin",
        b"/v1/models/a%2F..%2Fb",
        b"/v1/models/a%2f%2e",
        b"/v1/models/a\\..\\..\\x",
        b"/v1/files/..%5c..%5cx",
        b"/v1/files/a%5C%2e",
        b"/v1/files\\..",
        b"\\.\\v1",
        b"/v1/%00",
        b"/v1/\x00",
        b"/v1/%",
        b"/v1/%2",
        b"/v1/%zz",
    ],
)
def test_a_path_that_others_may_read_differently_is_malformed(path: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        check_path(path)
    assert caught.value.reason is Reason.MALFORMED


@pytest.mark.parametrize(
    ("query", "value"),
    [
        (None, None),
        (b"", None),
        (b"model", ""),
        (b"model=", ""),
        (b"a=1&model=x&model=y", "x"),
        (b"mo%64el=a%2Fb+c", "a/b c"),
        (b"xmodel=1&Model=2", None),
        (b"model=%ff", "\ufffd"),
        (b"model=a=b", "a=b"),
        (b"model=%C3%A9", "é"),
    ],
)
def test_the_first_value_of_a_parameter_is_decoded(query: bytes | None, value: str | None) -> None:
    assert query_value(query, "model") == value


@pytest.mark.parametrize(
    "query", [b"model=a&model=b", b"model=a&model=a", b"%6dodel=a&model=b", b"a=1&model&mod%65l=x"]
)
def test_a_parameter_that_is_stated_twice_is_malformed(query: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        check_stated_once(query, "model")
    assert (caught.value.reason, caught.value.param) == (Reason.MALFORMED, "model")


@pytest.mark.parametrize("query", [None, b"", b"model=a", b"Model=b&model=a&xmodel=c", b"model=a%26model=b"])
def test_a_parameter_that_is_stated_once_passes(query: bytes | None) -> None:
    check_stated_once(query, "model")


@pytest.mark.parametrize(
    ("query", "similar"),
    [
        (b"model=a", False),
        (b"models=a&modeling=b&x=model", False),
        (b"model=a&Model=b", True),
        (b"MODEL=b", True),
        (b"model=a;model=b", True),
        (b"x=1;model=b", True),
        (b"model%5B%5D=b", True),
        (b"model[0]=b", True),
        (b"+model=b", True),
        (b"model%00x=b", True),
        (b"%256dodel=b", True),
    ],
)
def test_a_parameter_that_some_server_takes_for_another_is_seen(query: bytes, similar: bool) -> None:
    assert has_similar_parameter(query, "model") is similar


PARAMETERS = st.sampled_from(
    [
        b"",
        b"a",
        b"a=1",
        b"provider=x",
        b"pro%76ider=y",
        b"provider",
        b"key=%zz",
        b"b=%C3%A9+",
        b"Provider=z",
        b"=provider",
    ]
)


@given(st.lists(PARAMETERS, min_size=1))
def test_without_a_parameter_the_rest_of_a_query_stays_byte_for_byte(parameters: list[bytes]) -> None:
    removed = {b"provider=x", b"pro%76ider=y", b"provider"}
    kept = [parameter for parameter in parameters if parameter not in removed]
    query = b"&".join(parameters)
    left = without_parameter(query, frozenset({"provider", "mgw"}))
    if kept == parameters:
        assert left is query
    else:
        assert left == (b"&".join(kept) if kept else None)


@given(st.text("aß=&+% é", max_size=8), st.text(max_size=8))
def test_a_value_is_read_as_forms_are(name: str, value: str) -> None:
    from urllib.parse import urlencode

    query = urlencode([("x", "1"), (name or "n", value)])
    assert (
        query_value(query.encode(), name or "n")
        == dict(parse_qsl(query, keep_blank_values=True))[name or "n"]
    )


def test_no_query_has_nothing_to_remove() -> None:
    assert without_parameter(None, frozenset({"provider"})) is None


@pytest.mark.parametrize(
    ("query", "longer"),
    [(None, b"mgw=1%202"), (b"", b"mgw=1%202"), (b"a=%2f&b", b"a=%2f&b&mgw=1%202"), (b"a&", b"a&&mgw=1%202")],
)
def test_a_parameter_is_put_behind_the_rest_of_a_query(query: bytes | None, longer: bytes) -> None:
    assert with_parameter(query, "mgw", "1 2") == longer


@given(
    st.none() | st.lists(PARAMETERS, min_size=1).map(b"&".join),
    st.text("aß=&+%# é/", min_size=1, max_size=8),
    st.text("aß=&+%# é/", max_size=8),
)
def test_a_parameter_that_was_added_reads_as_it_is_and_can_be_taken_off(
    query: bytes | None, name: str, value: str
) -> None:
    name = f"new{name}"
    longer = with_parameter(query, name, value)
    assert query_value(longer, name) == value
    assert longer.isascii()
    assert without_parameter(longer, frozenset({name})) == (query or None)


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-2.5-pro", b"gemini-2.5-pro"),
        ("tunedModels/a_b~c", b"tunedModels/a_b~c"),
        ("meta/llama 3@x", b"meta/llama%203%40x"),
        ("é", b"%C3%A9"),
        ("a+b&c=d", b"a%2Bb%26c%3Dd"),
        ("..a/b..", b"..a/b.."),
    ],
)
def test_a_model_is_encoded_for_a_path(model: str, path: bytes) -> None:
    assert quote_model_path(model) == path


@given(st.text())
def test_a_model_in_a_path_reads_as_the_model_or_is_refused(model: str) -> None:
    try:
        path = quote_model_path(model)
    except GatewayError:
        return
    assert unquote(path.decode("ascii")) == model
    check_path(b"/v1beta/models/" + path)


@pytest.mark.parametrize(
    "model",
    [
        "",
        "/",
        "a/",
        "/a",
        "a//b",
        ".",
        "..",
        "a/../b",
        "a/.",
        "a\\..\\x",
        "..\\x",
        "a/b\\.",
        "a?b",
        "a#b",
        "a%2Fb",
        "a:b",
        "a\nb",
        "a\x00",
        "\x7f",
        "\x85",
        "\ud800",
    ],
)
def test_a_model_that_a_path_cannot_carry_is_malformed(model: str) -> None:
    with pytest.raises(GatewayError) as caught:
        quote_model_path(model)
    assert caught.value.reason is Reason.MALFORMED
    assert caught.value.param == "model"
