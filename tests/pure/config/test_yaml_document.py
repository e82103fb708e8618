"""What the reader takes and refuses of YAML."""

from __future__ import annotations

import pytest

from mgw.config.problems import ConfigError, Report
from mgw.config.yaml_document import MAX_CHARACTERS, MAX_DEPTH, MAX_VALUES, read


def problems_of(text: str) -> list[str]:
    report = Report("mgw.yaml")
    read(text, report)
    try:
        report.raise_if_any()
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []


def test_values_are_those_of_yaml() -> None:
    report = Report("mgw.yaml")
    text = "a: 1\nb: [true, 0.5, text, ~, '']\nc: {d: 2026-01-01, e: =}\n"
    assert read(text, report).value == {
        "a": 1,
        "b": [True, 0.5, "text", None, ""],
        "c": {"d": "2026-01-01", "e": "="},
    }


@pytest.mark.parametrize("key", ["off", "on", "Yes", "true"])
def test_a_key_that_yaml_takes_for_a_boolean_is_the_word_as_written(key: str) -> None:
    assert read(f"{key}: {key}", Report("mgw.yaml")).value == {key: key != "off"}


def test_each_value_knows_the_line_of_its_key() -> None:
    report = Report("mgw.yaml")
    read("a: 1\nb:\n  - x\n  -\n    c: 2\n", report)
    assert report.marks[("a",)] == (1, 1)
    assert report.marks[("b", 0)] == (3, 5)
    assert report.marks[("b", 1, "c")] == (5, 5)


def test_a_duplicate_key_names_both_lines() -> None:
    assert problems_of("a:\n  b: 1\n  'b': 2\n") == ["mgw.yaml:3: a.b: duplicate key, first on line 2"]


def test_an_alias_repeats_a_value() -> None:
    report = Report("mgw.yaml")
    assert read("a: &x {b: 1}\nc: *x\n", report).value == {"a": {"b": 1}, "c": {"b": 1}}


def test_an_alias_that_holds_itself_is_refused() -> None:
    assert problems_of("a: &x\n  - *x\n") == ["mgw.yaml:1: an alias that contains itself"]


def test_nested_aliases_do_not_explode() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 5)]
    (problem,) = problems_of("\n".join(lines))
    assert problem.endswith(f": more than {MAX_VALUES} values")


@pytest.mark.parametrize("more", [0, 1])
def test_as_many_values_are_read_as_are_allowed(more: int) -> None:
    """Most of them by an alias, which counts with each use: PyYAML takes seconds for so many in writing."""
    own = 2  # the mapping, and the list
    uses, rest = divmod(MAX_VALUES - own + more, 100)
    text = "a: [&row [" + "1," * 99 + "]" + ",*row" * (uses - 1) + ",1" * rest + "]"
    problems = problems_of(text)
    assert problems == ([f"mgw.yaml:1: more than {MAX_VALUES} values"] if more else [])


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "], ids=["list", "mapping", "block"])
def test_deep_nesting_is_refused(opening: str) -> None:
    (problem,) = problems_of(opening * 5000)
    assert problem == f"mgw.yaml:1: nested deeper than {MAX_DEPTH} levels"


def test_a_file_that_is_too_long_is_refused_unread() -> None:
    assert problems_of("#" * (MAX_CHARACTERS + 1)) == [f"mgw.yaml:1: longer than {MAX_CHARACTERS} characters"]


def test_several_documents_are_refused() -> None:
    (problem,) = problems_of("a: 1\n---\nb: 2\n")
    assert problem == "mgw.yaml:2: not YAML: a second document begins here: only one is allowed"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: [", "mgw.yaml:2: not YAML: the [ or { that opens here is not closed"),
        (
            "a: 1\n\tb: 2",
            "mgw.yaml:2: not YAML: this line is indented with a tab, and YAML allows only spaces",
        ),
        ("a: 1\nb: \x00", "mgw.yaml:2: not YAML: the character U+0000 is not allowed"),
        ('a: "\\UFFFFFFFF"', "mgw.yaml:1: not YAML: an escape or a number that cannot be read"),
    ],
    ids=["open-list", "tab", "nul", "escape"],
)
def test_a_syntax_error_names_its_line(text: str, problem: str) -> None:
    (found,) = problems_of(text)
    assert found.startswith(problem)


@pytest.mark.parametrize(
    "text", ["a: *sk-canary", "a: !sk-canary!x y", "a: &sk-canary 1\nb: &sk-canary [*c]"]
)
def test_a_syntax_error_does_not_quote_the_file(text: str) -> None:
    assert "canary" not in "".join(problems_of(text))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1: x", "mgw.yaml:1: 1: expected a string as a key: put it in quotes"),
        ("~: x", "mgw.yaml:1: '~': expected a string as a key: put it in quotes"),
        ("? [a]\n: x", "mgw.yaml:1: expected a string as a key, found a list or a mapping"),
        ("<<: {a: 1}", "mgw.yaml:1: '<<': merge keys are not supported: write the keys out"),
        ("a: !!set {x}", "mgw.yaml:1: a: expected a mapping without a tag; tags (!) are not supported"),
        ("a: !!python/name:os.system ''", "mgw.yaml:1: a: tags (!) are not supported"),
        ("a: !!int x", "mgw.yaml:1: a: the value cannot be read: put it in quotes"),
        (f"a: {'9' * 5000}", "mgw.yaml:1: a: the value cannot be read: put it in quotes"),
    ],
    ids=["number-key", "null-key", "list-key", "merge", "set", "python", "no-int", "huge-int"],
)
def test_what_a_configuration_does_not_need_is_refused(text: str, problem: str) -> None:
    assert [found[: len(problem)] for found in problems_of(text)][:1] == [problem]
