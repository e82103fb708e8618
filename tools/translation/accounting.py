"""What becomes of each field of a request on its way to another family: mapped, reported or refused.

A field that changes nothing in what goes up and is not reported is lost in silence.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import zip_longest
from typing import Final

import msgspec

from mgw.canonical.conversation import Conversation
from mgw.dialects import client_side_of, provider_side_of
from mgw.dialects.dialect import Parsed, ProviderSide, RenderOptions, RequestContext
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.families import text_dialect
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import ChatTools, DialectName, Effort, Family, ForcedTools, Kind
from tools.translation.field_cases import ABSENT, Body, Case, Client
from tools.translation.sdk_types import Json


@dataclass(frozen=True)
class Target:
    """Whom a request is written for."""

    name: str
    family: Family
    kind: Kind
    row: ModelRow
    dialect: DialectName | None = None
    """In which it is asked, if not in its family's."""

    @property
    def side(self) -> ProviderSide:
        """How it is asked."""
        return provider_side_of(self.dialect or text_dialect(self.family))

    @property
    def setting(self) -> RenderOptions:
        """What a renderer is told."""
        field_name = "max_completion_tokens" if self.kind is Kind.OPENAI else "max_tokens"
        extra = (
            frozenset({"top_k", "prompt_cache_key"}) if self.kind is Kind.OPENAI_COMPAT else frozenset[str]()
        )
        return RenderOptions("a-model", self.kind, self.row, max_tokens_field=field_name, extra_fields=extra)


_EVERY_EFFORT: Final = tuple(Effort)
_NAMED: Final = (Effort.LOW, Effort.MEDIUM, Effort.HIGH, Effort.XHIGH, Effort.MAX)
TARGETS: Final = (
    Target(
        "openai",
        Family.OPENAI,
        Kind.OPENAI,
        ModelRow("*", Family.OPENAI, "-", efforts=_EVERY_EFFORT, off=True, off_sampling=True),
    ),
    Target(
        "openai_compat",
        Family.OPENAI,
        Kind.OPENAI_COMPAT,
        ModelRow("*", Family.OPENAI, "-", efforts=_EVERY_EFFORT, off=True, off_sampling=True),
    ),
    Target(
        "anthropic",
        Family.ANTHROPIC,
        Kind.ANTHROPIC,
        ModelRow(
            "*",
            Family.ANTHROPIC,
            "-",
            efforts=_NAMED,
            off=True,
            default=Effort.MEDIUM,
            adaptive=True,
            hides_thoughts=True,
            system_turns=True,
            max_output=128_000,
        ),
    ),
    Target(
        "gemini",
        Family.GEMINI,
        Kind.GEMINI,
        ModelRow(
            "*",
            Family.GEMINI,
            "-",
            efforts=(Effort.MINIMAL, Effort.LOW, Effort.MEDIUM, Effort.HIGH, Effort.XHIGH),
            budget=(128, 32_768),
            off=True,
        ),
    ),
)
"""Models that take all that their wire knows: what the document tells of."""

LEAST_TARGETS: Final = (
    Target(
        "openai",
        Family.OPENAI,
        Kind.OPENAI,
        ModelRow(
            "*",
            Family.OPENAI,
            "-",
            sampling=False,
            stop=False,
            max_completion_tokens=True,
            parallel_calls=False,
        ),
    ),
    Target(
        "openai_compat",
        Family.OPENAI,
        Kind.OPENAI_COMPAT,
        ModelRow(
            "*", Family.OPENAI, "-", efforts=_EVERY_EFFORT, sampling=False, chat_tools=ChatTools.UNREASONED
        ),
    ),
    Target(
        "anthropic",
        Family.ANTHROPIC,
        Kind.ANTHROPIC,
        ModelRow(
            "*", Family.ANTHROPIC, "-", sampling=False, forced_tools=ForcedTools.NEVER, default=Effort.NONE
        ),
    ),
    Target(
        "gemini",
        Family.GEMINI,
        Kind.GEMINI,
        ModelRow("*", Family.GEMINI, "-", sampling=False, stop=False, signatures=True, default=Effort.NONE),
    ),
)
"""Models that take as little as any: there, what is said of the others is reported."""


def through_responses(target: Target) -> Target:
    """Return a target of OpenAI's family as it is asked in its other dialect."""
    return dataclasses.replace(
        target,
        name=f"{target.name} through Responses",
        row=target.row.on_responses,
        dialect=DialectName.OPENAI_RESPONSES,
    )


# What becomes of them -------------------------------------------------------------------------------------

CHANGED: Final = "changed"
REPORTED: Final = "reported"
REFUSED: Final = "refused"
SILENT: Final = "silent"


@dataclass
class Outcome:
    """What became of one field on its way to one target."""

    found: list[frozenset[str]] = field(default_factory=list)
    """Of each value."""
    places: list[str] = field(default_factory=list)
    """Where the upstream request says it."""
    verbatim: bool = True
    """Each value stands there as it is."""

    def note(self, value: Json, before: Json, after: Json) -> None:
        """Remember where a value went."""
        spots = [path for path, said in subtrees(after) if _same(said, value)]
        old = dict(reversed(list(subtrees(before))))
        spots = [path for path in spots if path not in old or not _same(old[path], value)]
        self.verbatim &= bool(spots)
        places = spots or [place for place, _ in differences(before, after)]
        self.places += [place for place in dict.fromkeys(places) if place not in self.places]

    @property
    def all(self) -> frozenset[str]:
        """Everything that became of any value."""
        return frozenset().union(*self.found)


Sent = tuple[Parsed[Conversation], Body, list[str]] | GatewayError
Send = Callable[[Body], tuple[object, Body, list[str]] | GatewayError]
"""How a request gets to its target: what goes up, and what is reported."""


@lru_cache(maxsize=8_192)
def _understood(client: Client, body: bytes) -> Parsed[Conversation]:
    """Return a request as it is read, once for all targets."""
    parse = client.parse or client_side_of(text_dialect(client.family)).text.parse_request
    return parse(body, RequestContext("a-model"))


def sent(client: Client, target: Target, body: Body) -> Sent:
    """Return a request's translation: what was understood, what goes up, and what is reported."""
    try:
        parsed = _understood(client, msgspec.json.encode(body))
        rendered = target.side.text.render_request(parsed.request, target.setting)
    except GatewayError as error:
        if error.reason is not Reason.MALFORMED:
            raise
        return error
    up = {"(path)": rendered.target.decode(), **msgspec.json.decode(rendered.body)}
    return parsed, up, sorted(parsed.dropped(rendered))


def outcome(client: Client, target: Target, case: Case) -> Outcome:
    """Return what becomes of a field."""
    return outcome_of(case, lambda body: sent(client, target, body))


def outcome_of(case: Case, send: Send) -> Outcome:
    """Return what becomes of a field on any way to a target."""
    found = Outcome()
    without = None if case.without is None else send(case.without)
    absent = without[1] if isinstance(without, tuple) else None
    all_sent = [send(body) for body in case.bodies]
    ups = [one[1] if isinstance(one, tuple) else None for one in all_sent]
    for number, (value, one) in enumerate(zip(case.values, all_sent, strict=True)):
        if isinstance(one, GatewayError):
            found.found.append(frozenset({REFUSED}))
            continue
        words: set[str] = set()
        if any(covers(path, case.path) or _is_within(path, case.path, value) for path in one[2]):
            words.add(REPORTED)
        others = [(case.values[place], up) for place, up in enumerate(ups) if place != number and up]
        if absent is not None and absent != one[1]:
            words.add(CHANGED)
            found.note(value, absent, one[1])
        elif absent is None and others:
            other = next((up for _, up in others if up != one[1]), None)
            if other is not None:
                words.add(CHANGED)
                found.note(value, other, one[1])
        if (
            _is_plain(value)
            and case.free
            and any(type(said) is type(value) and up == one[1] for said, up in others)
        ):
            words.discard(CHANGED)
        if words or absent is not None or (others and not _is_told_apart(case, all_sent)):
            found.found.append(frozenset(words or {SILENT}))
        else:
            found.found.append(frozenset())
    return found


def _is_told_apart(case: Case, all_sent: Sequence[tuple[object, Body, list[str]] | GatewayError]) -> bool:
    """Whether of words of which one must be said another is reported."""
    said = (one for one in all_sent if isinstance(one, tuple))
    return not case.free and any(covers(path, case.path) for one in said for path in one[2])


def _is_plain(value: Json) -> bool:
    return isinstance(value, str | int | float)


def _is_within(reported: str, path: str, value: Json) -> bool:
    """Whether a report is of what a field holds: of objects, or of one word among several."""
    inner = value[0] if isinstance(value, list) and value else value
    if isinstance(inner, str) and inner is not value:
        return reported == f"{path}[{inner}]"
    if not isinstance(inner, dict):
        return False
    bare, said = _BARE.sub("", path), _BARE.sub("", reported)
    kind = inner.get("type")
    return said.startswith(f"{bare}.") or (said == bare and reported.endswith(f"[{kind}]"))


_BARE: Final = re.compile(r"\[[^\]]*\]")


def _same(said: Json, value: Json) -> bool:
    if said == [value]:
        return not isinstance(value, list)
    return type(said) is type(value) and bool(said == value)


def subtrees(value: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Yield every value of a JSON value, with its path."""
    yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from subtrees(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from subtrees(inner, f"{path}[]")


def differences(before: Json, after: Json, path: str = "") -> list[tuple[str, Json]]:
    """Return where two JSON values differ, and what the second says there."""
    if before is ABSENT or after is ABSENT:
        return list(_leaves(after if before is ABSENT else before, path))
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [*after, *(key for key in before if key not in after)]
        return [
            one
            for key in keys
            for one in differences(
                before.get(key, ABSENT), after.get(key, ABSENT), f"{path}.{key}" if path else key
            )
        ]
    if isinstance(before, list) and isinstance(after, list):
        pairs = zip_longest(before, after, fillvalue=ABSENT)
        return [found for one, other in pairs for found in differences(one, other, f"{path}[]")]
    if before == after:
        return []
    return list(_leaves(after, path)) if isinstance(after, dict | list) else [(path, after)]


def _leaves(value: Json, path: str) -> Iterator[tuple[str, Json]]:
    for place, said in subtrees(value, path):
        if not isinstance(said, dict | list) or not said:
            yield place, said


_SEGMENT: Final = re.compile(r"([^.\[\]]+)(?:\[([^\]]*)\])?")


def _segments(path: str) -> list[tuple[str, str | None]]:
    """Return the keys of a path, each with the kind in its brackets."""
    found: list[tuple[str, str | None]] = []
    for key, kind in _SEGMENT.findall(path):
        found.append((key, kind or None))
    return found


def covers(reported: str, path: str) -> bool:
    """Whether a reported path is that of a field, or of what it is part of.

    A part that is told by its one key (Gemini's) may be reported as its kind: ``parts[executableCode]``.
    """
    named, said = _segments(path), _segments(reported)
    if len(said) > len(named):
        return False
    for place, (key, kind) in enumerate(said):
        own_key, own_kind = named[place]
        if key != own_key:
            return False
        if kind is None or kind == own_kind:
            continue
        after = named[place + 1][0] if place + 1 < len(named) else None
        if own_kind is not None or kind != after:
            return False
    return True
