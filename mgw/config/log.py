"""Settings of the process log: the form of its lines, and which lines requests get.

The lines themselves are described in ``docs/operations.rst`` and contract 7.6.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from mgw.config.field_types import OneOf
from mgw.config.settings_base import Settings, setting


class LogFormat(StrEnum):
    """What a line looks like."""

    TEXT = "text"
    JSON = "json"


class RequestLines(StrEnum):
    """Which lines a request gets."""

    BOTH = "both"
    """One for its usage event and one for the request."""
    ONE = "one"
    """One that says what both say."""
    NONE = "none"


LogFormatWord = Annotated[LogFormat, OneOf()]
RequestLinesWord = Annotated[RequestLines, OneOf()]


class LogSettings(Settings):
    """The process log."""

    format: LogFormatWord = setting(
        "Whether lines are text or JSON objects: ``text`` or ``json``",
        "With ``json``, every line is one JSON object with ``time``, ``level`` and ``kind``; see "
        "``docs/operations.rst``. Problems found before the configuration has been read are printed as text.",
        default=LogFormat.TEXT,
    )
    requests: RequestLinesWord = setting(
        "Lines for each request: ``both``, ``one`` or ``none``",
        "``both`` writes a ``usage`` line for each usage event and an ``http`` line for each request. "
        "``one`` adds the method and the path to the ``usage`` line and writes ``http`` lines only for "
        "requests without a usage event. ``none`` writes neither; other messages are still written.",
        default=RequestLines.BOTH,
    )
