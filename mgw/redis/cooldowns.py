"""Cooldowns of subscription accounts, shared among hosts through Redis.

Each is told at once to the hosts that are there, and kept as long as it lasts for those that come later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Final

from msgspec import DecodeError, Struct, ValidationError
from msgspec.msgpack import Decoder, Encoder
from twisted.python.failure import Failure

from mgw.redis.link import RedisLink
from mgw.redis.protocol import RedisError
from mgw.redis.replies import MAX_REST_MS
from mgw.redis.scripts import REST, RESTS

MAX_KEPT: Final = 1000
"""How many are kept while Redis is away."""

OnRest = Callable[[str, str, str | None, float], None]
"""Told of a store, an account, a model (``None``: all) and the seconds; 0: it rests no longer."""


class _Rest(Struct, frozen=True, array_like=True):
    store: str
    account: str
    model: str | None


class _News(Struct, frozen=True, array_like=True):
    host: str
    rest: _Rest
    milliseconds: int


_encode: Final = Encoder().encode
_read_rest: Final = Decoder(_Rest).decode
_read_news: Final = Decoder(_News).decode


@dataclass(slots=True, eq=False)
class RedisRests:
    """The rests that hosts tell one another.

    :param clock: returns seconds of the process's clock.
    """

    link: RedisLink
    clock: Callable[[], float]
    on_rest: OnRest = field(default=lambda *_: None)
    """Told of what other hosts have found out."""
    _host: str = field(default_factory=lambda: token_hex(8))
    _untold: dict[_Rest, float] = field(default_factory=dict)
    """What began while Redis was away, and until when it lasts."""

    @property
    def _key(self) -> str:
        return f"{self.link.prefix}rests"

    def tell(self, store: str, account: str, model: str | None, seconds: float) -> None:
        """Let the other hosts know what this one has found out."""
        rest = _Rest(store, account, model)
        if self.link.is_up:
            self._tell(rest, seconds)
        elif rest in self._untold or len(self._untold) < MAX_KEPT:
            self._untold[rest] = self.clock() + seconds

    def went_down(self) -> None:
        """Keep what is to be told from now on."""

    def came_up(self) -> None:
        """Tell what began meanwhile, and learn what did elsewhere."""
        now = self.clock()
        untold, self._untold = self._untold, {}
        for rest, until in untold.items():
            self._tell(rest, max(0.0, until - now))
        _ = self.link.run(RESTS, [self._key]).addCallbacks(self._learn, _trap)

    def received(self, message: bytes) -> None:
        """Take in what a host has published."""
        try:
            news = _read_news(message)
        except (DecodeError, ValidationError):
            return  # of another version
        if news.host != self._host and 0 <= news.milliseconds <= MAX_REST_MS:
            rest = news.rest
            self.on_rest(rest.store, rest.account, rest.model, news.milliseconds / 1000)

    def _tell(self, rest: _Rest, seconds: float) -> None:
        milliseconds = int(seconds * 1000)
        news = _encode(_News(self._host, rest, milliseconds))
        keys = [self._key, self.link.channel]
        told = self.link.run(REST, keys, _encode(rest), milliseconds, news)
        _ = told.addErrback(self._not_told, rest, seconds)

    def _not_told(self, failure: Failure, rest: _Rest, seconds: float) -> None:
        failure.trap(RedisError)
        if len(self._untold) < MAX_KEPT:
            self._untold[rest] = self.clock() + seconds

    def _learn(self, found: list[tuple[bytes, int]]) -> None:
        for member, milliseconds in found:
            try:
                rest = _read_rest(member)
            except (DecodeError, ValidationError):
                continue
            self.on_rest(rest.store, rest.account, rest.model, milliseconds / 1000)


def _trap(failure: Failure) -> None:
    failure.trap(RedisError)
