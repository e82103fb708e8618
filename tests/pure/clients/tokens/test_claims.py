"""Where a claim is, and which values fit."""

from __future__ import annotations

from fnmatch import fnmatchcase
from time import thread_time
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.clients.tokens.claims import MISSING, Claim, Condition, Rule

RFC_6901: Final[dict[str, Any]] = {
    "foo": ["bar", "baz"],
    "": 0,
    "a/b": 1,
    "c%d": 2,
    "e^f": 3,
    "g|h": 4,
    "i\\j": 5,
    'k"l': 6,
    " ": 7,
    "m~n": 8,
}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        *(("/foo", ["bar", "baz"]), ("/foo/0", "bar"), ("/", 0), ("/a~1b", 1), ("/c%d", 2), ("/e^f", 3)),
        *(("/g|h", 4), ("/i\\j", 5), ('/k"l', 6), ("/ ", 7), ("/m~0n", 8)),
    ],
)
def test_the_examples_of_rfc_6901(pointer: str, value: object) -> None:
    assert Claim.of(pointer).find(RFC_6901) == value


@pytest.mark.parametrize(
    "pointer",
    [
        *("/foo/2", "/foo/-", "/foo/-1", "/foo/00", "/foo/01", "/foo/1e0", "/foo/+1", "/foo/ 1", "/foo/1_0"),
        *("/foo/¹", "/foo/١", "/foo/0/0", "/foo/0/length", "//", "/x", "/a/b", "/foo/" + "9" * 5_000),
    ],
)
def test_what_is_not_there_is_missing(pointer: str) -> None:
    assert Claim.of(pointer).find(RFC_6901) is MISSING


def test_a_name_is_only_at_the_top_and_may_have_any_character() -> None:
    claims = {"a.b": 1, "https://x/y": 2, "a~2": 3, "a": {"b": 4}}
    assert [Claim.of(name).find(claims) for name in ("a.b", "https://x/y", "a~2")] == [1, 2, 3]
    assert Claim.of("a/b").find(claims) is MISSING


def test_escapes_are_resolved_in_their_order() -> None:
    assert Claim.of("/~01").find({"~1": 1, "/": 2}) == 1
    assert Claim.of("/kubernetes.io/namespace").find({"kubernetes.io": {"namespace": "ml"}}) == "ml"
    assert Claim.of("/kubernetes.io~1sa").find({"kubernetes.io/sa": "x"}) == "x"


@pytest.mark.parametrize("pointer", ["/~", "/a~", "/~2", "/a/~x"])
def test_a_tilde_that_escapes_nothing_is_an_error(pointer: str) -> None:
    with pytest.raises(ValueError, match="~0"):
        Claim.of(pointer)


def test_null_is_a_value() -> None:
    assert Claim.of("a").find({"a": None}) is None
    assert Claim.of("/a/b").find({"a": None}) is MISSING


@given(
    path=st.lists(st.text("ab/~01", max_size=3), min_size=1, max_size=4),
    value=st.integers(),
)
def test_any_name_can_be_reached(path: list[str], value: int) -> None:
    claims: Any = value
    for name in reversed(path):
        claims = {name: claims}
    pointer = "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in path)
    assert Claim.of(pointer).find(claims) == value


@pytest.mark.parametrize(
    ("wanted", "value", "fits"),
    [
        ("a", "a", True),
        ("a", "A", False),
        ("a", "ab", False),
        ("a", "a\n", False),
        ("a*", "a\nb", True),
        ("*@example.com", "ann@example.com", True),
        ("*@example.com", "ann@example.com.evil", False),
        ("*@example.com", "ann@example.com\n", False),
        ("*@example.com", "ann@exampleXcom", False),
        ("*@example.com", "@example.com", True),
        ("ml-?", "ml-1", True),
        ("ml-?", "ml-", False),
        ("ml-?", "ml-12", False),
        ("ml-[ab]", "ml-b", True),
        ("ml-[!ab]", "ml-b", False),
        ("ml-[", "ml-[", True),
        ("[*]", "*", True),
        ("[*]", "a", False),
        ("*", "", True),
        ("*", 1, False),
        ("*", None, False),
        ("*", True, False),
        ("*", {"a": "b"}, False),
        ("*", {}, False),
        ("true", True, False),
        (True, True, True),
        (True, False, False),
        (True, "true", False),
        (True, 1, False),
        (True, 1.0, False),
        (False, 0, False),
        (False, None, False),
        (False, "", False),
        (1, 1, True),
        (1, 1.0, True),
        (1.0, 1, True),
        (1, True, False),
        (0, False, False),
        (1, "1", False),
        ("1", 1, False),
        (2**53, 2**53 + 1, False),
        (1, 10**400, False),
        ("a", ["b", "a"], True),
        ("a", ["b"], False),
        ("a", [], False),
        ("*", [], False),
        ("a", [["a"]], False),
        (True, [1, "true"], False),
        (True, [False, True], True),
        (1, [True, 1.0], True),
        (["a", "b*"], "bc", True),
        (["a", "b*"], ["x", "bc"], True),
        (["a", 1, False], False, True),
        (["a", 1, False], 0, False),
        (["a", 1, False], True, False),
        (("a", "b"), "c", False),
    ],
)
def test_which_values_fit(wanted: Any, value: object, fits: bool) -> None:
    assert Condition.of("claim", wanted).holds({"claim": value}) is fits


def test_a_claim_that_is_missing_fits_nothing() -> None:
    for wanted in ("*", True, False, 0):
        assert not Condition.of("claim", wanted).holds({})
        assert not Condition.of("/a/b", wanted).holds({"a": []})


@given(pattern=st.text("ab*?[]!-^\\\n", max_size=8), text=st.text("abAB\n[]*^\\", max_size=8))
def test_patterns_are_those_of_the_library(pattern: str, text: str) -> None:
    assert Condition.of("a", pattern).holds({"a": text}) is fnmatchcase(text, pattern)


@given(values=st.lists(st.sampled_from(["a", "b", True, False, 0, 1, 1.5, None, "*"]), max_size=4))
def test_a_rule_holds_if_all_conditions_do(values: list[Any]) -> None:
    wanted: dict[str, tuple[Any, ...]] = {"x": ("a", 1), "y": (True, "b")}
    rule = Rule(tuple(Condition.of(name, value) for name, value in wanted.items()), ())
    claims = dict(zip(["x", "y"], values, strict=False))
    expected = all(
        any(type(claims.get(name)) is type(one) and claims.get(name) == one for one in value)
        for name, value in wanted.items()
    )
    assert rule.holds(claims) is expected


def test_a_rule_without_conditions_always_holds() -> None:
    assert Rule((), ()).holds({})


@pytest.mark.parametrize(
    "pattern",
    [
        *("*a" * 30 + "b", "*?" * 30 + "b", "*" * 200 + "b", "*[ab]" * 30 + "c", "*" + "a" * 200 + "b"),
        *("*" + "?" * 200 + "b", ("*" + "a" * 60 + "b") * 3, "*" + "[a-z]" * 50 + "[!a]*"),
    ],
)
@pytest.mark.parametrize("value", ["a" * 12_000, ["a" * 100] * 118], ids=["text", "list"])
def test_no_pattern_takes_long(pattern: str, value: object) -> None:
    condition = Condition.of("a", pattern)

    def once() -> float:
        start = thread_time()
        assert not condition.holds({"a": value})
        return thread_time() - start

    assert min(once() for _ in range(3)) < 0.010
