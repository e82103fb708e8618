"""A made-up kind of provider, first of two files: its row. The other is :mod:`tests.support.framed_wire`."""

from __future__ import annotations

from typing import Final

from mgw.nouns.kinds import KindRow
from mgw.nouns.vocabulary import Capability, DialectName, Kind

ROW: Final = KindRow(
    kind=Kind.ANTHROPIC,  # the word that configurations of tests have for it
    dialects=(DialectName.ANTHROPIC,),
    chat_path="/messages",
    wire="framed",
    key_header=b"x-framed-key",
    capabilities=frozenset({Capability.TEXT}),
)
