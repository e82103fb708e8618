"""Paths to members, as operators write them."""

from __future__ import annotations

import pytest

from mgw.nouns.member_paths import EACH, MemberPath, parse_path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("user", ("user",)),
        ("metadata.user_id", ("metadata", "user_id")),
        (r"a\.b.c", ("a.b", "c")),
        (r"a\b", (r"a\b",)),
        (r"\.", (".",)),
        ("tools[].defer_loading", ("tools", EACH, "defer_loading")),
        ("a[][].b[]", ("a", EACH, EACH, "b", EACH)),
        ("a[0]", ("a[0]",)),
        ("a[]b", ("a[]b",)),
        ("größe", ("größe",)),
    ],
)
def test_a_path_has_its_names(text: str, path: MemberPath) -> None:
    assert parse_path(text) == path


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "[]", "a.[]", "[].b"])
def test_an_empty_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="an empty name"):
        parse_path(text)
