"""Change members of a JSON object in place: all bytes but those of the members that are named stay.

An :class:`EditedObject` walks over the members that a path leads to, and no others, and collects what is to
become of them.  Each change sees those before it, as if the text had been written anew in between; in the end
there are splices of the body as it came.  How they look:

* a value is replaced where it stands, each time that its name is stated;
* a member that is removed goes with its comma and the white space up to the next one, the last one with the
  comma before it, and a sole one alone;
* a new member goes behind the last one, as ``,"name":value``.

What is put in is a small document of its own, in which later changes find their members in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from itertools import chain
from operator import attrgetter
from typing import Final

from msgspec.json import encode

from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.member_paths import EACH, MemberPath, Step
from mgw.wire.json_document import JsonDocument, JsonNode, removal_spans
from mgw.wire.json_spans import Edit, apply_edits

_NUMBER: Final = re.compile(rb"-?[0-9]")
_BRACE: Final = b"{"
_BRACKET: Final = b"["
_EMPTY: Final = b"{}"
_SPELLED_PLAINLY: Final = re.compile(r"[A-Za-z0-9_.:-]+")
"""Names that have no other spelling in JSON but with ``\\u``."""

_start_of: Final = attrgetter("start")


class _Part:
    """A member of an object or an element of an array, with what becomes of it."""

    __slots__ = ("inside", "is_removed", "new", "node")

    def __init__(self, node: JsonNode | None, new: bytes | None = None) -> None:
        self.node = node
        """Where it stands; ``None``: it is new."""
        self.new = new
        """The value in place of the one that it had."""
        self.inside: _Container | None = None
        """What stands in the value, where that was opened."""
        self.is_removed = False

    def text(self, document: JsonDocument) -> bytes:
        """Return the value as it is now.

        :param document: where the node stands.
        """
        inside = self.inside
        if self.new is not None:
            return self.new if inside is None else apply_edits(self.new, inside.edits())
        assert self.node is not None, "else its value is new"
        raw, start = document.original(self.node), self.node.value
        if inside is None:
            return raw
        return apply_edits(raw, [((first - start, end - start), new) for (first, end), new in inside.edits()])


class _Container:
    """An object or array with changes."""

    __slots__ = ("_added", "_document", "_elements", "_members", "_node", "_touched")

    def __init__(self, document: JsonDocument, node: JsonNode) -> None:
        self._document = document
        self._node = node
        self._members: dict[str, list[JsonNode]] | None = None
        self._touched: dict[str, list[_Part]] = {}
        """The members with names that were asked for."""
        self._elements: dict[int, _Part] = {}
        """The elements that were asked for, by where they begin."""
        self._added: dict[str, _Part] = {}

    def named(self, name: str) -> list[_Part]:
        """Return the members with a name that are there now."""
        parts = self._touched.get(name)
        if parts is None:
            if self._members is None:
                self._members = self._document.members(self._node)
            self._touched[name] = parts = []
            for node in self._members.get(name, ()):
                parts.append(_Part(node))
        if name in self._added:
            return [self._added[name]]
        return [] if parts and parts[0].is_removed else parts

    def elements(self, holding: bytes) -> list[_Part]:
        """Return the elements in whose spelling some bytes occur, as far as they are there now."""
        parts = self._elements
        found = [
            parts.setdefault(node.start, _Part(node)) for node in self._document.elements(self._node, holding)
        ]
        return [part for part in found if not part.is_removed]

    def add(self, name: str, literal: bytes) -> _Part:
        """Put a new member behind the others; the container is an object without one of this name."""
        self._added[name] = part = _Part(None, literal)
        return part

    def remove(self, name: str) -> bool:
        """Remove the members with a name; say whether there were any."""
        found = self.named(name)
        for part in found:
            part.is_removed = True
        self._added.pop(name, None)
        return bool(found)

    def open(self, part: _Part, opening: bytes) -> _Container | None:
        """Return what stands in a part, if that is an object or an array, as ``opening`` says."""
        if part.inside is None:
            if part.new is not None:
                document = JsonDocument(part.new)
                node = document.root
            else:
                assert part.node is not None, "else its value is new"
                document, node = self._document, part.node
            part.inside = _Container(document, node)
        return part.inside if part.inside.begins_with(opening) else None

    def begins_with(self, opening: bytes) -> bool:
        """Whether it is an object, or an array."""
        return self._document.begins_with(self._node, opening)

    def put(self, name: str, literal: bytes) -> bool:
        """Replace each member with a name, or add one; say whether that changes anything."""
        found = self.named(name)
        if not found:
            self.add(name, literal)
            return True
        changes = False
        for part in found:
            if part.text(self._document) != literal:
                part.new, part.inside = literal, None
                changes = True
        return changes

    def cap(self, name: str, literal: bytes) -> bool:
        """Replace each larger number with a name; say whether there is one."""
        changes = False
        for part in self.named(name):
            if _is_larger(part.text(self._document), literal):
                part.new, part.inside = literal, None
                changes = True
        return changes

    def edits(self) -> list[Edit]:
        """Return the splices that make the changes."""
        found: list[Edit] = []
        removed: list[JsonNode] = []
        for part in (*chain.from_iterable(self._touched.values()), *self._elements.values()):
            node = part.node
            assert node is not None, "it came with the body"
            if part.is_removed:
                removed.append(node)
            elif part.new is not None:
                found.append(((node.value, node.end), part.text(self._document)))
            elif part.inside is not None:
                found += part.inside.edits()
        if removed:
            removed.sort(key=_start_of)
            found += [(span, b"") for span in removal_spans(removed)]
        if self._added:
            found.append(self._addition(removed))
        return found

    def _addition(self, removed: Sequence[JsonNode]) -> Edit:
        """Return the splice that adds the new members behind the last one that stays."""
        written: list[bytes] = []
        for name, part in self._added.items():
            text = part.new
            if text is None or part.inside is not None:
                text = part.text(self._document)
            written.append(b"%b:%b" % (encode(name), text))
        assert self._members is not None, "members are added once it is known which are there"
        gone, place = set(map(_start_of, removed)), -1
        for node in chain.from_iterable(self._members.values()):
            if node.end > place and node.start not in gone:
                place = node.end
        if place < 0:
            place = self._node.value + 1
            return (place, place), b",".join(written)
        return (place, place), b"," + b",".join(written)


class EditedObject:
    """A body that is a JSON object, and the changes to it; each method says whether it changes anything.

    :raises GatewayError: ``MALFORMED`` for what is no JSON object, and from any method for one with too many
        parts.
    """

    def __init__(self, body: bytes) -> None:
        self._body = body
        document = JsonDocument(body)
        if not document.begins_with(document.root, _BRACE):
            raise GatewayError(Reason.MALFORMED, "the body must be a JSON object")
        self._root = _Container(document, document.root)
        self._has_escapes: bool | None = None

    def remove(self, path: MemberPath) -> bool:
        """Remove the members, or the elements, that a path leads to."""
        *way, last = path
        found = False
        for container in self._containers(way, last) if way else (self._root,):
            if last is EACH:
                for part in container.elements(b""):
                    part.is_removed = found = True
            else:
                found = container.remove(last) or found
        return found

    def default(self, path: MemberPath, literal: bytes) -> bool:
        """Add a member where there is none."""
        *way, name = path
        assert name is not EACH, "only what is removed has many places"
        found = False
        for container in self._containers(way, name, make=True) if way else (self._root,):
            if not container.named(name):
                container.add(name, literal)
                found = True
        return found

    def put(self, path: MemberPath, literal: bytes) -> bool:
        """Set a member."""
        *way, name = path
        assert name is not EACH, "as above"
        found = False
        for container in self._containers(way, name, make=True) if way else (self._root,):
            found = container.put(name, literal) or found
        return found

    def cap(self, path: MemberPath, literal: bytes) -> bool:
        """Lower a number that is larger."""
        *way, name = path
        assert name is not EACH, "as above"
        found = False
        for container in self._containers(way, name) if way else (self._root,):
            found = container.cap(name, literal) or found
        return found

    def edits(self) -> list[Edit]:
        """Return the splices that make all changes; they do not overlap."""
        return self._root.edits()

    def _containers(self, way: Sequence[Step], last: Step, *, make: bool = False) -> list[_Container]:
        """Return the objects, or for :data:`EACH` the arrays, in which the last step of a path is taken.

        :param way: the steps before the last one.
        :param make: whether objects that are missing are made.
        """
        found = [self._root]
        for step, following in zip(way, (*way[1:], last), strict=True):
            opening = _BRACKET if following is EACH else _BRACE
            opened: list[_Container] = []
            for container in found:
                if step is EACH:
                    parts = container.elements(self._spelling(following))
                else:
                    parts = container.named(step)
                    if make and not parts:
                        parts = [container.add(step, _EMPTY)]
                opened += [inside for part in parts if (inside := container.open(part, opening)) is not None]
            found = opened
        return found

    def _spelling(self, step: Step) -> bytes:
        """Return bytes that are in the spelling of everything that has a member with this name."""
        if step is EACH or _SPELLED_PLAINLY.fullmatch(step) is None:
            return b""
        if self._has_escapes is None:
            self._has_escapes = rb"\u" in self._body
        return b"" if self._has_escapes else step.encode()


def _is_larger(text: bytes, literal: bytes) -> bool:
    """Whether a value is a number, and a larger one."""
    if _NUMBER.match(text) is None:
        return False
    limit = Decimal(literal.decode())
    try:
        return Decimal(text.decode()) > limit
    except InvalidOperation:  # an exponent of more than 18 digits
        return float(text) > limit
