"""The small changes with which a module's tests are tried."""

from __future__ import annotations

import pytest

from tools.mutations import count_mutations, mutate


def changed(source: str) -> list[str]:
    """Every source that a change makes of one."""
    found = (mutate(source, number) for number in range(count_mutations(source)))
    return [one.source for one in found if one is not None]


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("a < b", ["a <= b"]),
        ("a <= b", ["a < b"]),
        ("a > b", ["a >= b"]),
        ("a >= b", ["a > b"]),
        ("a == b", ["a != b"]),
        ("a is not b", ["a is b"]),
        ("a in b", ["a not in b"]),
        ("a < b <= c", ["a <= b <= c", "a < b < c"]),
        ("a and b and c", ["b and c", "a and c", "a and b"]),
        ("a if b else c", ["c if b else a"]),
        ("x = 7", ["x = 8", "x = 6"]),
        ("x = True", ["x = False"]),
        ("a + b", ["a - b"]),
        ("a * b", []),
        ("f(a, b, c)", ["f(b, a, c)", "f(a, c, b)"]),
        ("f(a, a)", []),
        ("min(a, b)", []),
        ("if a:\n    b", ["if not a:\n    b"]),
        ("while a:\n    b", ["while not a:\n    b"]),
        (
            "def f():\n    a()\n    return b",
            ["def f():\n    pass\n    return b", "def f():\n    a()\n    pass"],
        ),
        ("def f():\n    a.b = c", ["def f():\n    pass"]),
        ("def f():\n    a += b", ["def f():\n    pass"]),
        ("def f():\n    raise a", ["def f():\n    pass"]),
    ],
)
def test_what_can_be_changed_is_changed_one_at_a_time(source: str, after: list[str]) -> None:
    assert changed(source) == after


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""',
        "def f(a: 'x < 1') -> (1 < 2):\n    'text'",
        "assert 1 < 2",
        "f'{1 < 2}'",
        "x = 'text'",
    ],
)
def test_what_nobody_relies_on_stays_as_it_is(source: str) -> None:
    assert changed(source) == []


def test_a_change_says_where_it_stands_and_what_it_is() -> None:
    source = "# a comment\n\nif a < 1:\n    b()\n"
    found = [one for one in (mutate(source, number) for number in range(count_mutations(source))) if one]
    assert [(one.line, one.before, one.after) for one in found] == [
        (3, "if a < 1:", "if not a < 1:"),
        (3, "a < 1", "a <= 1"),
        (3, "1", "2"),
        (3, "1", "0"),
    ]
