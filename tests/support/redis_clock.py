"""A client of a real Redis, in which it is as late as a test says: the clock of its scripts is a key."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from typing import Any, Final

from hiredis import Reader, pack_command

from mgw.redis.scripts import Script
from tests.support.redis_server import PASSWORD, RedisServer

Reply = Any  # Any: what Redis answers
CLOCK: Final = re.compile(r"local function now_ms\(\).*?\nend\n", re.DOTALL)
SET_CLOCK: Final = "local function now_ms() return tonumber(redis.call('GET', 'now')) end\n"
BEGUN: Final = 1_700_000_000_000
"""Unix milliseconds at the moment 0 of a test."""


class ClockedRedis:
    """A client of a Redis in which it is as late as a test says."""

    def __init__(self, server: RedisServer) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(20)
        self._socket.connect(str(server.path))
        self._reader = Reader()
        self.call("AUTH", PASSWORD)

    def close(self) -> None:
        self._socket.close()

    def call(self, *words: str | int) -> Reply:
        self._socket.sendall(pack_command(words))  # type: ignore[arg-type]  # the stub says: one word
        while (reply := self._reader.gets()) is False:
            self._reader.feed(self._socket.recv(65536))
        if isinstance(reply, Exception):
            raise reply
        return reply

    def run(self, script: Script[Any], now: int, keys: Sequence[str], *arguments: str | int) -> Reply:
        text, replaced = CLOCK.subn(SET_CLOCK, script.text)
        assert replaced == 1
        self.call("SET", "now", BEGUN + now)
        return self.call("EVAL", text, len(keys), *keys, *arguments)

    def life(self, key: str) -> int:
        """For how many milliseconds a key is there; -1: for ever."""
        found: int = self.call("PTTL", key)
        return found
