"""Send the requests of the scene: once each, and then for a while, as its clients would."""

from __future__ import annotations

import http.client
import json
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

from websockets.sync.client import connect

from tools.screenshots.scene import ASKS, VOICES, Ask, key_of

_SECONDS = 60.0
_LEAVES_AFTER = 4096
"""Bytes of an answer."""


def send(url: str, ask: Ask) -> int:
    """Send a request and read its answer; return the status."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_SECONDS)
    try:
        connection.request("POST", ask.target, json.dumps(ask.body()), ask.headers)
        response = connection.getresponse()
        response.read(_LEAVES_AFTER if ask.leaves else None)
        return response.status
    finally:
        connection.close()


@contextmanager
def traffic(url: str, clients: int, seed: int) -> Iterator[None]:
    """Keep so many requests going until the end of the block."""
    over = threading.Event()

    def run(number: int) -> None:
        chance = random.Random(seed * 1000 + number)  # noqa: S311 (not for secrets)
        over.wait(chance.random() * 2)
        while not over.is_set():
            send(url, choose(chance))
            over.wait(chance.random())

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def choose(chance: random.Random) -> Ask:
    """Return one of the kinds of requests, by their weights."""
    return chance.choices(ASKS, [ask.weight for ask in ASKS])[0]


@contextmanager
def sessions(url: str, voices: Sequence[tuple[str, str]] = VOICES) -> Iterator[None]:
    """Hold realtime sessions open until the end of the block, and say something in each."""
    with ExitStack() as stack:
        for client, model in voices:
            session = stack.enter_context(
                connect(
                    f"{url.replace('http', 'ws', 1)}/v1/realtime?model={model}",
                    additional_headers={"Authorization": f"Bearer {key_of(client)}"},
                    proxy=None,
                    ping_interval=None,
                )
            )
            content = [{"type": "input_text", "text": "repeat:60"}]
            item = {"type": "message", "role": "user", "content": content}
            session.send(json.dumps({"type": "conversation.item.create", "item": item}))
            session.send(json.dumps({"type": "response.create"}))
            session.recv()
        yield


def once(url: str) -> None:
    """Send each kind of request once, all at a time, and open each session for a moment."""
    threads = [threading.Thread(target=send, args=(url, ask)) for ask in ASKS]
    for thread in threads:
        thread.start()
    with sessions(url):
        for thread in threads:
            thread.join()
