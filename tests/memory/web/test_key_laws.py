"""A law of keys: who is admitted follows from what is configured and from the times that there were.

Drawn steps change keys of files, reload, and let the clock go on or back; whatever was remembered of earlier
requests, a key is admitted exactly if it is there, is not disabled, and no time so far was past its end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any  # a step's arguments

from hypothesis import given
from hypothesis import strategies as st

from mgw.config.key_settings import NamedKeySettings
from mgw.web.key_changes import KeyChanges
from tests.memory.web.test_admission import serve
from tests.memory.web.test_key_changes import ask, digest, file_key, status
from tests.support.configs import THREE_FAMILIES
from tests.support.web_servers import WebServerHarness

NAMES = ("ann", "bob")
KEYS = tuple(f"key-canary-{number}" for number in range(3))
ENDS = (None, 3, 6)


@dataclass
class Stated:
    """What a file says."""

    key: str
    end: int | None
    disabled: bool
    previous: tuple[str, int] | None

    def settings(self, name: str) -> NamedKeySettings:
        lines = ["disabled: true"] if self.disabled else []
        if self.end is not None:
            lines.append(f"expires: 1970-01-01T00:00:0{self.end}Z")
        if self.previous is not None:
            key, end = self.previous
            lines.append(f"previous: {{sha256: {digest(key)}, expires: '1970-01-01T00:00:0{end}Z'}}")
        return file_key(name, self.key, *lines)


@dataclass
class Model:
    """What should be the case, without anything that is remembered of requests."""

    files: dict[str, Stated] = field(default_factory=dict)
    expired: set[tuple[str, int]] = field(default_factory=set)
    """Keys with their ends that some time was past while they were there."""

    def ends(self) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for stated in self.files.values():
            if not stated.disabled and stated.end is not None:
                found.append((stated.key, stated.end))
            if not stated.disabled and stated.previous is not None:
                key, end = stated.previous
                found.append((key, end if stated.end is None else min(end, stated.end)))
        return found

    def pass_time(self, now: int) -> None:
        self.expired.update((key, end) for key, end in self.ends() if now >= end)

    def admits(self, key: str) -> bool:
        for stated in self.files.values():
            if stated.key == key:
                opens = stated.end is None or (key, stated.end) not in self.expired
                return opens and not stated.disabled
            if stated.previous is not None and stated.previous[0] == key:
                end = stated.previous[1] if stated.end is None else min(stated.previous[1], stated.end)
                return (key, end) not in self.expired and not stated.disabled
        return False

    def would_collide(self, name: str, stated: Stated) -> bool:
        """Whether the directory would have left this file out."""
        digests = {stated.key, *([] if stated.previous is None else [stated.previous[0]])}
        if len(digests) == 1 and stated.previous is not None:
            return True
        others = [other for other_name, other in self.files.items() if other_name != name]
        taken = {other.key for other in others} | {other.previous[0] for other in others if other.previous}
        return not taken.isdisjoint(digests)


ended = st.sampled_from([3, 6])
files = st.builds(
    Stated,
    st.sampled_from(KEYS),
    st.sampled_from(ENDS),
    st.booleans(),
    st.none() | st.tuples(st.sampled_from(KEYS), ended),
)
steps = st.lists(
    st.tuples(st.just("put"), st.sampled_from(NAMES), files)
    | st.tuples(st.just("drop"), st.sampled_from(NAMES), st.none())
    | st.tuples(st.just("time"), st.sampled_from([0, 2, 3, 5, 6, 8]), st.booleans())
    | st.tuples(st.just("reload"), st.none(), st.none())
    | st.tuples(st.just("ask"), st.sampled_from(KEYS), st.none()),
    min_size=3,
    max_size=14,
)


class Play:
    """A server, and the model of it, that take the same steps."""

    def __init__(self) -> None:
        text = "edge_auth: {enabled: true, keys: [unused-canary-0001]}\n"
        self.harness, self.model = WebServerHarness(THREE_FAMILIES + text), Model()
        self.changes = KeyChanges(self.harness.server)

    def put(self, name: str, stated: Stated) -> None:
        if not self.model.would_collide(name, stated):
            self.model.files[name] = stated
            self.model.pass_time(int(self.harness.unix_seconds))
            self.changes.use([stated.settings(name)], ())

    def drop(self, name: str, _: None) -> None:
        if self.model.files.pop(name, None) is not None:
            self.changes.use((), [name])

    def time(self, seconds: int, is_quiet: bool) -> None:
        """Set the wall clock: then everybody asks, or a second passes in which nobody does."""
        self.harness.unix_seconds = float(seconds)
        self.model.pass_time(seconds)
        if is_quiet:
            self.harness.clock.advance(1)
        else:
            for key in KEYS:
                self.ask(key, None)

    def reload(self, *_: None) -> None:
        self.harness.server.use(self.harness.generation)
        self.changes.follow()
        self.model.pass_time(int(self.harness.unix_seconds))

    def ask(self, key: str, unused: None) -> None:
        assert unused is None
        for _ in range(3):  # the third time, its head is known
            response = serve(self.harness, ask(key))
            assert status(response) == (200 if self.model.admits(key) else 401)


@given(steps=steps)
def test_a_key_is_admitted_exactly_while_it_is_valid(steps: list[tuple[str, Any, Any]]) -> None:
    play = Play()
    for what, first, second in steps:
        getattr(play, what)(first, second)
    for key in KEYS:
        play.ask(key, None)
