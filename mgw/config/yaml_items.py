"""A YAML file that is one long list, read item by item.

A list of 20,000 prices has some hundred thousand values.  As a whole they would be a million objects at
once, and a collection of garbage that looks at all of these stops a gateway that reads the file while it
serves.  So each item is composed, walked and handed on by itself, and nothing but its own nodes is kept.

The parser is that of libyaml where PyYAML has it, which is ten times as fast.  What it cannot read is left
to :mod:`mgw.config.yaml_document`, whose messages say what to change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import yaml

from mgw.config.problems import Report
from mgw.config.yaml_document import MAX_DEPTH, UnreadableFileError, Value, YamlDocument
from mgw.config.yaml_faults import mark_of

_PARSER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # Any: PyYAML may be without libyaml
_UNREADABLE: Final = (yaml.YAMLError, ValueError, OverflowError)

OnItem = Callable[[int, Value, YamlDocument], None]
"""Takes the place of an item, its value, and the document that knows where it stands."""


class NotListedError(Exception):
    """The text is something else than a mapping with a list, or is no YAML."""


def read_items(text: str, key: str, max_items: int, report: Report, on_item: OnItem) -> YamlDocument:
    """Read a mapping whose value at ``key`` is a list, and hand on the items of that list.

    Return the document without the items.  What is wrong with its form goes to ``report``.

    :raises NotListedError: before or after some items were handed on.
    """
    document = YamlDocument(report)
    try:
        _Reader(text).read(key, max_items, document, on_item)
    except UnreadableFileError as error:
        report.add((), error.message, at=error.mark)
    except _UNREADABLE:
        raise NotListedError from None
    return document


class _Reader:
    """Composes the nodes of a text, as PyYAML's composer does, but not all of them at once."""

    def __init__(self, text: str) -> None:
        self._parser = _PARSER(text)
        self._anchors: dict[str, yaml.Node] = {}

    def read(self, key: str, max_items: int, document: YamlDocument, on_item: OnItem) -> None:
        """Read the whole text; arguments as for :func:`read_items`."""
        for _ in range(2):  # the beginnings of the stream and of the document
            self._parser.get_event()
        root = self._parser.get_event()
        if isinstance(root, yaml.SequenceStartEvent):  # nobody reads what is in it
            document.value = document.walk(yaml.SequenceNode(_tag(root, "seq"), [], _mark_of(root)), ())
            return
        if not isinstance(root, yaml.MappingStartEvent) or root.anchor is not None or root.tag is not None:
            raise NotListedError
        pairs: list[tuple[yaml.Node, yaml.Node]] = []
        while not isinstance(event := self._parser.get_event(), yaml.MappingEndEvent):
            key_node = self._compose(event, 1)
            event = self._parser.get_event()
            is_list = isinstance(event, yaml.SequenceStartEvent) and event.tag is event.anchor is None
            if is_list and key_node.value == key and not any(node.value == key for node, _ in pairs):
                self._read_list(key, max_items, document, on_item)
                pairs.append((key_node, yaml.SequenceNode(_tag(event, "seq"), [], _mark_of(event))))
            else:
                pairs.append((key_node, self._compose(event, 1)))
        ends = self._parser.get_event(), self._parser.get_event()
        if not isinstance(ends[1], yaml.StreamEndEvent):
            raise NotListedError
        document.value = document.walk(yaml.MappingNode(_tag(root, "map"), pairs, _mark_of(root)), ())

    def _read_list(self, key: str, max_items: int, document: YamlDocument, on_item: OnItem) -> None:
        report, place = document.report, 0
        while not isinstance(event := self._parser.get_event(), yaml.SequenceEndEvent):
            if place == max_items:
                raise UnreadableFileError(f"more than {max_items} {key}", mark_of(event.start_mark))
            item = YamlDocument(report)
            on_item(place, item.walk(self._compose(event, 2), (key, place)), item)
            report.marks.clear()  # a problem knows its line as soon as it is noted
            place += 1

    def _compose(self, event: Any, depth: int) -> yaml.Node:  # Any: PyYAML's events have no types
        if depth > MAX_DEPTH:
            raise UnreadableFileError(f"nested deeper than {MAX_DEPTH} levels", mark_of(event.start_mark))
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise NotListedError
            return self._anchors[event.anchor]
        if event.anchor in self._anchors:
            raise NotListedError
        node = self._node_of(event)
        if isinstance(node, yaml.SequenceNode):
            while not isinstance(inner := self._parser.get_event(), yaml.SequenceEndEvent):
                node.value.append(self._compose(inner, depth + 1))
        elif isinstance(node, yaml.MappingNode):
            while not isinstance(inner := self._parser.get_event(), yaml.MappingEndEvent):
                key = self._compose(inner, depth + 1)
                node.value.append((key, self._compose(self._parser.get_event(), depth + 1)))
        if event.anchor is not None:  # an alias in itself names nothing yet
            self._anchors[event.anchor] = node
        return node

    def _node_of(self, event: Any) -> yaml.Node:  # Any: as above
        if isinstance(event, yaml.ScalarEvent):
            tag = event.tag
            if tag in (None, "!"):
                tag = self._parser.resolve(yaml.ScalarNode, event.value, event.implicit)
            return yaml.ScalarNode(tag, event.value, _mark_of(event), style=event.style)
        if isinstance(event, yaml.SequenceStartEvent):
            return yaml.SequenceNode(_tag(event, "seq"), [], _mark_of(event))
        return yaml.MappingNode(_tag(event, "map"), [], _mark_of(event))


def _mark_of(event: Any) -> Any:  # Any: as above; libyaml's marks are of another type
    return event.start_mark


def _tag(event: Any, kind: str) -> str:  # Any: as above
    return f"tag:yaml.org,2002:{kind}" if event.tag in (None, "!") else str(event.tag)
