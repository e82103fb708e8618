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
from mgw.redis.scripts import COOL_DOWN, COOLDOWNS

MAX_KEPT: Final = 1000
"""How many are kept while Redis is away."""

OnCooldown = Callable[[str, str, str | None, float], None]
"""Told of a store, an account, a model (``None``: all) and the seconds; 0: its cooldown is over."""


class _Cooldown(Struct, frozen=True, array_like=True):
    store: str
    account: str
    model: str | None


class _News(Struct, frozen=True, array_like=True):
    host: str
    cooldown: _Cooldown
    milliseconds: int


_encode: Final = Encoder().encode
_read_cooldown: Final = Decoder(_Cooldown).decode
_read_news: Final = Decoder(_News).decode


@dataclass(slots=True, eq=False)
class RedisCooldowns:
    """The cooldowns that hosts tell one another.

    :param clock: returns seconds of the process's clock.
    """

    link: RedisLink
    clock: Callable[[], float]
    on_cooldown: OnCooldown = field(default=lambda *_: None)
    """Told of what other hosts have found out."""
    _host: str = field(default_factory=lambda: token_hex(8))
    _untold: dict[_Cooldown, float] = field(default_factory=dict)
    """What began while Redis was away, and until when it lasts."""

    @property
    def _key(self) -> str:
        return f"{self.link.prefix}rests"

    def tell(self, store: str, account: str, model: str | None, seconds: float) -> None:
        """Let the other hosts know what this one has found out."""
        cooldown = _Cooldown(store, account, model)
        if self.link.is_up:
            self._tell(cooldown, seconds)
        elif cooldown in self._untold or len(self._untold) < MAX_KEPT:
            self._untold[cooldown] = self.clock() + seconds

    def went_down(self) -> None:
        """Keep what is to be told from now on."""

    def came_up(self) -> None:
        """Tell what began meanwhile, and learn what did elsewhere."""
        now = self.clock()
        untold, self._untold = self._untold, {}
        for cooldown, until in untold.items():
            self._tell(cooldown, max(0.0, until - now))
        _ = self.link.run(COOLDOWNS, [self._key]).addCallbacks(self._learn, _trap)

    def received(self, message: bytes) -> None:
        """Take in what a host has published."""
        try:
            news = _read_news(message)
        except (DecodeError, ValidationError):
            return  # of another version
        if news.host != self._host and 0 <= news.milliseconds <= MAX_REST_MS:
            cooldown = news.cooldown
            self.on_cooldown(cooldown.store, cooldown.account, cooldown.model, news.milliseconds / 1000)

    def _tell(self, cooldown: _Cooldown, seconds: float) -> None:
        milliseconds = int(seconds * 1000)
        news = _encode(_News(self._host, cooldown, milliseconds))
        keys = [self._key, self.link.channel]
        told = self.link.run(COOL_DOWN, keys, _encode(cooldown), milliseconds, news)
        _ = told.addErrback(self._not_told, cooldown, seconds)

    def _not_told(self, failure: Failure, cooldown: _Cooldown, seconds: float) -> None:
        failure.trap(RedisError)
        if len(self._untold) < MAX_KEPT:
            self._untold[cooldown] = self.clock() + seconds

    def _learn(self, found: list[tuple[bytes, int]]) -> None:
        for member, milliseconds in found:
            try:
                cooldown = _read_cooldown(member)
            except (DecodeError, ValidationError):
                continue
            self.on_cooldown(cooldown.store, cooldown.account, cooldown.model, milliseconds / 1000)


def _trap(failure: Failure) -> None:
    failure.trap(RedisError)
