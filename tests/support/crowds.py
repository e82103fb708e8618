"""Many requests at once: a crowd of connections that send one after another until all have been sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from typing import Final

from tests.support.raw_client import CHAT, request
from tests.support.waiting import WAIT_SECONDS

CONNECTIONS: Final = 200
JSON: Final = b"Content-Type: application/json"
LOST: Final = 0
"""In place of a status: the connection was refused, or broke off before the whole response had come."""


@dataclass
class Crowd:
    """Who sends, and where to; ``statuses`` are those of the responses so far."""

    ports: Sequence[int]
    keys: Sequence[str]
    body: Mapping[str, object]
    connections: int = CONNECTIONS
    on_response: Callable[[int], None] | None = None
    """Called with the number of the responses so far."""
    statuses: list[int] = field(default_factory=list)

    def send(self, count: int) -> list[int]:
        """Send so many requests, and return the status of each."""
        heads = [f"Authorization: Bearer {key}".encode() for key in self.keys]
        data = json.dumps(self.body).encode()
        asking = cycle([request(data, JSON, head, path=CHAT) for head in heads])
        waiting = (next(asking) for _ in range(count))
        asyncio.run(asyncio.wait_for(self._send_all(waiting), WAIT_SECONDS))
        return self.statuses[-count:]

    async def _send_all(self, waiting: Iterator[bytes]) -> None:
        ports = cycle(self.ports)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self.connections):
                tasks.create_task(self._send_in_turn(next(ports), waiting))

    async def _send_in_turn(self, port: int, waiting: Iterator[bytes]) -> None:
        connection = None
        for asking in waiting:
            status = LOST
            with suppress(OSError, asyncio.IncompleteReadError):
                if connection is None:
                    connection = await asyncio.open_connection("127.0.0.1", port)
                status = await _answered(*connection, asking)
            if status == LOST and connection is not None:
                connection[1].close()
                connection = None
            self.statuses.append(status)
            if self.on_response is not None:
                self.on_response(len(self.statuses))
        if connection is not None:
            connection[1].close()


async def _answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asking: bytes) -> int:
    """Return the status of a response with a length, once it has come whole."""
    writer.write(asking)
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    await reader.readexactly(int(fields[b"content-length"]))
    return int(head.split(b" ", 2)[1])
