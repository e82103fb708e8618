"""JSON with any place of it replaced, and all ways that it can take through the dialects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from hypothesis import strategies as st
from msgspec.structs import replace

from mgw.canonical.reply import Candidate, Reply, ReplyEvent, StopReason
from mgw.dialects import client_side_of, provider_side_of
from mgw.dialects.dialect import ReplyContext, ReplySource, RequestContext
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import DialectName
from tools.translation.accounting import TARGETS, through_responses

Json = Any  # JSON of whatever type
Path = tuple[str | int, ...]

DIALECTS: Final = [
    DialectName.OPENAI_CHAT,
    DialectName.OPENAI_RESPONSES,
    DialectName.ANTHROPIC,
    DialectName.GEMINI,
]
WAYS: Final = (*TARGETS, through_responses(TARGETS[0]))
"""Whom requests are written for."""
WRONG: Final[list[Json]] = [None, True, 7, -1, 1e308, "x", "", [], {}, [None], [[]], {"type": "x"}]
DEEP: Final = 10_000
ANSWERING: Final = ReplyContext("req_1", "a-model", 1)
NOTHING: Final = Reply((Candidate((), StopReason.END),))


def _random_json() -> st.SearchStrategy[Json]:
    plain = (
        st.none()
        | st.booleans()
        | st.integers(-(2**70), 2**70)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=8)
        | st.sampled_from(["text", "user", "function", "tool_use", "thinking", "auto", "model", "https://a"])
    )
    names = st.sampled_from(["type", "text", "role", "content", "parts", "name", "id", "input"]) | st.text(
        max_size=4
    )
    return st.recursive(
        plain,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=8,
    )


RANDOM_JSON: Final = _random_json()
"""Made once: a strategy that is made for every example takes longer than the value that it draws."""
PLACE_NUMBERS: Final = st.integers(0, 9_999)
"""A number for :func:`place_in`, by which one drawn value goes into a document of each dialect."""


def paths(value: Json, path: Path = ()) -> Iterator[Path]:
    """Yield where every value of a JSON value stands."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths(inner, (*path, index))


def place_in(value: Json, number: int) -> Path:
    """Return one of a document's places."""
    places = list(paths(value))
    return places[number % len(places)]


def replaced(value: Json, path: Path, new: Json) -> Json:
    """Return a JSON value with another value at a place."""
    if not path:
        return new
    head, *rest = path
    if isinstance(value, list):
        return [replaced(one, tuple(rest), new) if place == head else one for place, one in enumerate(value)]
    return {key: replaced(one, tuple(rest), new) if key == head else one for key, one in value.items()}


def is_for(error: GatewayError, reason: Reason) -> None:
    assert error.reason is reason, error


def translate_request(dialect: DialectName, body: bytes, written: set[int] | None = None) -> None:
    """Translate a request for all, and answer it; anything but a refusal of the client's request rises.

    Where many bodies differ in one place, many are understood alike: of those that have their like in
    ``written``, nothing is written again.
    """
    # Whether it is streamed stands in the path of Gemini's requests alone: other parsers are not told.
    for stream in (False, True) if dialect is DialectName.GEMINI else (True,):
        try:
            parsed = client_side_of(dialect).text.parse_request(
                body, RequestContext("a-model", stream, b"alt=sse", drop_hosted_tools=True)
            )
        except GatewayError as error:
            is_for(error, Reason.MALFORMED)
            return
    client_side_of(dialect).text.render_reply(NOTHING, replace(ANSWERING, options=parsed.reply_options))
    if written is not None:
        understood = hash(msgspec.json.encode((parsed.request, parsed.unread), order="sorted"))
        if understood in written:
            return
        written.add(understood)
    for target in WAYS:
        try:
            rendered = target.side.text.render_request(parsed.request, target.setting)
        except GatewayError as error:
            is_for(error, Reason.MALFORMED)
        else:
            assert type(msgspec.json.decode(rendered.body)) is dict
            assert all(type(path) is str for path in parsed.dropped(rendered))


def translate_reply(dialect: DialectName, body: bytes) -> None:
    """Translate a whole answer for all others; anything but a broken upstream rises."""
    try:
        reply = provider_side_of(dialect).text.parse_reply(body, ReplySource("seed"))
    except GatewayError as error:
        is_for(error, Reason.UPSTREAM_BROKEN)
        return
    for other in DIALECTS:
        try:
            client_side_of(other).text.render_reply(reply, ANSWERING)
        except GatewayError as error:
            is_for(error, Reason.UPSTREAM_BROKEN)


def translate_stream(dialect: DialectName, chunks: list[bytes]) -> None:
    """Translate a stream for all."""
    groups, error = read_stream(dialect, chunks)
    write_stream(groups, error)


def read_stream(
    dialect: DialectName, chunks: list[bytes]
) -> tuple[list[list[ReplyEvent]], GatewayError | None]:
    """Read a stream up to its end, or to where it breaks; anything but a broken upstream rises."""
    reader = provider_side_of(dialect).stream_reader("seed")
    groups: list[list[ReplyEvent]] = []
    try:
        groups += map(reader.feed, chunks)
        groups.append(reader.finish())
    except GatewayError as error:
        is_for(error, Reason.UPSTREAM_BROKEN)
        return groups, error
    return groups, None


def write_stream(groups: list[list[ReplyEvent]], error: GatewayError | None) -> None:
    """Write what was read for all; anything but a broken upstream rises."""
    for dialect in DIALECTS:
        writer = client_side_of(dialect).stream_writer(ANSWERING)
        try:
            for group in groups:
                writer.write(group)
            if error is None:
                writer.finish()
            else:
                writer.fail(error)
        except GatewayError as refusal:
            is_for(refusal, Reason.UPSTREAM_BROKEN)
            writer.fail(refusal)


def framed(dialect: DialectName, event: Json) -> bytes:
    """Return an event as the provider sends it."""
    data = b"data: " + msgspec.json.encode(event) + b"\n\n"
    if dialect is DialectName.ANTHROPIC and type(event) is dict and type(event.get("type")) is str:
        return b"event: " + str(event["type"]).encode("utf-8", "replace") + b"\n" + data
    return data
