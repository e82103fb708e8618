"""Media types: what counts of them, and the one place where streams are told from other bodies."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from mgw.wire.media_types import is_event_stream, is_json, may_be_event_stream, media_type

MGW: Final = Path(__file__).resolve().parents[3] / "mgw"
COMPARES: Final = re.compile(r"(?:[=!]=|\bin\b|startswith\()[^\n]*(?:EVENT_STREAM|text/event-stream)")
OWN_CLIENTS: Final = {"cli/event_source.py"}
"""What reads the gateway's own feed, in text."""


def test_a_media_type_loses_its_parameters() -> None:
    assert media_type(b"Text/Plain; charset=x") == b"text/plain"


@pytest.mark.parametrize(
    ("content_type", "is_stream", "may_be"),
    [
        (b"text/event-stream", True, True),
        (b"Text/Event-Stream ; charset=utf-8", True, True),
        (b"text/plain", False, True),
        (None, False, True),
        (b"application/json", False, False),
        (b"text/event-streams", False, False),
    ],
)
def test_a_stream_of_events_is_known_by_its_type(
    content_type: bytes | None, is_stream: bool, may_be: bool
) -> None:
    assert (is_event_stream(content_type), may_be_event_stream(content_type)) == (is_stream, may_be)


def test_json_is_known_by_its_type() -> None:
    assert is_json(b"application/JSON; charset=utf-8")
    assert not is_json(b"application/jsonl")


def test_the_media_types_of_streams_are_compared_in_one_place() -> None:
    found = {
        file.relative_to(MGW).as_posix()
        for file in MGW.rglob("*.py")
        if COMPARES.search(file.read_text(encoding="utf-8"))
    }
    assert found == {"wire/media_types.py"} | OWN_CLIENTS
