"""A JSON document as the pieces of its text, and what rules do to it: a second opinion on splices."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from hypothesis import strategies as st

from mgw.nouns.member_paths import EACH, MemberPath, Step


@dataclass(eq=False)
class Item:
    """A member of an object or an element of an array, with the white space around it."""

    before: bytes
    name: str
    key: bytes
    """The name as it is spelled, with its colon; empty in an array."""
    value: bytes | Container
    after: bytes = b""
    removed: bool = False


@dataclass(eq=False)
class Container:
    """An object or array."""

    brackets: bytes
    items: list[Item] = field(default_factory=list)
    space: bytes = b""
    """What stands in it where it is empty."""
    added: list[Item] = field(default_factory=list)

    def live(self) -> list[Item]:
        return [item for item in (*self.items, *self.added) if not item.removed]

    def named(self, step: Step) -> list[Item]:
        if (step is EACH) != (self.brackets == b"[]"):
            return []
        return [item for item in self.live() if step is EACH or item.name == step]


@dataclass
class _Left:
    before: bytes
    text: bytes
    after: bytes
    removed: bool


def render(value: bytes | Container) -> bytes:
    """The text, from which one item after the other is taken."""
    if isinstance(value, bytes):
        return value
    left = [
        _Left(item.before, item.key + render(item.value), item.after, item.removed) for item in value.items
    ]
    space = value.space
    while any(one.removed for one in left):
        place = next(place for place, one in enumerate(left) if one.removed)
        if len(left) == 1:
            space = left[0].before + left[0].after
        elif place + 1 < len(left):
            left[place + 1].before = left[place].before
        else:
            left[place - 1].after += left[place].after
        del left[place]
    written = b",".join(item.key + render(item.value) for item in value.added if not item.removed)
    if left and written:
        left[-1].text += b"," + written
        written = b""
    inner = b",".join(one.before + one.text + one.after for one in left) if left else written + space
    return value.brackets[:1] + inner + value.brackets[1:]


def compact(value: object) -> bytes | Container:
    """What a rule puts in."""
    if isinstance(value, dict):
        return Container(b"{}", [compact_member(name, one) for name, one in value.items()])
    if isinstance(value, list):
        return Container(b"[]", [Item(b"", "", b"", compact(one)) for one in value])
    return json.dumps(value, ensure_ascii=False).encode()


def compact_member(name: str, value: object) -> Item:
    return Item(b"", name, json.dumps(name, ensure_ascii=False).encode() + b":", compact(value))


def _containers(root: Container, way: MemberPath, last: Step, *, make: bool) -> list[Container]:
    found = [root]
    for step, following in zip(way, (*way[1:], last), strict=True):
        opened = []
        for one in found:
            items = one.named(step)
            if make and not items and one.brackets == b"{}":
                assert step is not EACH
                items = [compact_member(step, {})]
                one.added += items
            opened += [item.value for item in items if isinstance(item.value, Container)]
        found = [one for one in opened if (one.brackets == b"[]") == (following is EACH)]
    return found


def change(root: Container, what: str, path: MemberPath, value: object) -> None:
    """Do what one path of a rule asks for."""
    *way, last = path
    for one in _containers(root, tuple(way), last, make=what in ("default", "put")) if way else [root]:
        items = one.named(last)
        if what == "remove":
            for item in items:
                item.removed = True
        elif what == "cap":
            for item in items:
                text = render(item.value)
                if text[:1] in b"-0123456789" and float(text) > float(str(value)):
                    item.value = compact(value)
        elif not items:
            assert last is not EACH
            one.added.append(compact_member(last, value))
        elif what == "put":
            for item in items:
                item.value = compact(value)


SPACE = st.sampled_from([b"", b"", b" ", b"\n\t", b"\r "])
NAMES = ("a", "b", "a/b", "ü", "c.d")
SCALARS = st.sampled_from(
    [
        *(b"null", b"true", b"0", b"-7", b"9", b"12.50", b"1e3", b'""', b'"a"', b'"9"', b'"\xc3\xbc"'),
        *(rb'"\"}],{[:\\"', rb'"\\\\\""', rb'"\ud83d"', rb'"\ud83d\ude00"', b'"a\\u002cb"'),
    ]
)


@st.composite
def keys(draw: st.DrawFn) -> tuple[str, bytes]:
    name = draw(st.sampled_from(NAMES))
    spelled = [
        draw(st.sampled_from([letter.encode(), b"\\u%04x" % ord(letter), b"\\u%04X" % ord(letter)]))
        for letter in name
    ]
    text = b"".join(spelled)
    if draw(st.booleans()):
        text = text.replace(b"/", rb"\/")
    return name, b'"%b"%b:%b' % (text, draw(SPACE), draw(SPACE))


def _objects(values: st.SearchStrategy[bytes | Container]) -> st.SearchStrategy[Container]:
    members = st.builds(
        lambda before, key, value, after: Item(before, key[0], key[1], value, after),
        *(SPACE, keys(), values, SPACE),
    )
    return st.builds(
        lambda items, space: Container(b"{}", items, space), st.lists(members, max_size=5), SPACE
    )


def _arrays(values: st.SearchStrategy[bytes | Container]) -> st.SearchStrategy[Container]:
    elements = st.builds(
        lambda before, value, after: Item(before, "", b"", value, after), SPACE, values, SPACE
    )
    return st.builds(
        lambda items, space: Container(b"[]", items, space), st.lists(elements, max_size=4), SPACE
    )


VALUES: st.SearchStrategy[bytes | Container] = st.recursive(
    SCALARS, lambda values: st.one_of(_objects(values), _arrays(values)), max_leaves=12
)
DOCUMENTS = _objects(VALUES)
"""Objects, as pieces."""
MADE = st.sampled_from([1, "x", None, True, {}, {"a": {"b": 1}}, [{"a": 1}, 2], "ü\n"])
WAYS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(tuple)
REMOVED = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from([(), (EACH,), (EACH, EACH)])), min_size=1, max_size=3
).map(lambda steps: tuple(step for name, more in steps for step in (name, *more)))
CHANGES = st.one_of(
    st.tuples(st.just("remove"), REMOVED, st.none()),
    st.tuples(st.just("cap"), WAYS, st.sampled_from([8, 12.5, -8, 0])),
    st.tuples(st.sampled_from(["default", "put"]), WAYS, MADE),
)
"""What a rule does with one path: the method, the path, and the value."""
