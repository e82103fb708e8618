"""Which model of a list answered: the event names it, and its price applies.

A host that is given a list of models says in its answer which of them it used.  That stands near the front,
in the whole answer or in its first events.  Where the host says something else, it counts as the one that was
asked for.
"""

from __future__ import annotations

import re
from typing import Final

from mgw.canonical.reply import TokenUsage
from mgw.dialects.dialect import Meter
from mgw.exchange.exchange import Exchange
from mgw.routing.resolve import Target
from mgw.wire.json_document import decode_string

_MODEL: Final = re.compile(rb'(?<!\\)"model"[ \t\r\n]*:[ \t\r\n]*("(?:[^"\\]|\\.)*")', re.DOTALL)
_MAX_BYTES: Final = 64 * 1024
"""How much of an answer is looked at."""


class AnsweringModel:
    """Looks at an answer until it names a model of the list.

    :param names: what the provider calls the models of the list, and the one that was asked for.
    """

    def __init__(self, exchange: Exchange, names: frozenset[str]) -> None:
        self._exchange = exchange
        self.names = names
        self._seen = b""
        self._is_over = False

    def look(self, data: bytes) -> None:
        """Look at the next piece of the answer."""
        if self._is_over:
            return
        self._seen += data[:_MAX_BYTES]
        for found in _MODEL.finditer(self._seen, 0, _MAX_BYTES):
            name = decode_string(found[1])
            if name in self.names:
                self._note(name)
                break
        if self._is_over or len(self._seen) >= _MAX_BYTES:
            self._is_over = True
            self._seen = b""

    def _note(self, name: str) -> None:
        target = self._exchange.target
        self._is_over = True
        if target is not None and target.upstream_model != name:
            self._exchange.target = Target(target.provider, target.asked_model, name)

    def beside(self, meter: Meter) -> Meter:
        """Return a meter that looks as well."""
        return _LookingMeter(self, meter)


class _LookingMeter:
    """A meter whose pieces are looked at."""

    def __init__(self, answering: AnsweringModel, meter: Meter) -> None:
        self._answering = answering
        self._meter = meter

    @property
    def usage(self) -> TokenUsage:
        return self._meter.usage

    def feed(self, data: bytes) -> None:
        self._answering.look(data)
        self._meter.feed(data)

    def finish(self) -> None:
        self._meter.finish()
