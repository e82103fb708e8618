"""The clients of the soak: each keeps one connection busy and looks closely at what it gets."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from tests.support.raw_client import RawClient
from tests.support.soak.answers import halves, whole
from tests.support.soak.exchanges import MARK, Exchange

_NAMES_FORBIDDEN = frozenset({"hostile", "wlater", "wquery"})
"""Where a refusal may repeat the name that the client has sent."""
_FIRST_BYTES = 64
"""What a client takes of an answer that it leaves in the middle: less than its first half."""


@dataclass(slots=True)
class Seen:
    """What one client got for one exchange."""

    exchange: Exchange
    status: int | None = None
    body: bytes = b""
    complete: bool = False
    """Whether the answer ended as HTTP says."""
    stays: bool = False
    """Whether the connection is used again."""

    def problem(self) -> str | None:
        """Say what is wrong with it, or return ``None``."""
        exchange, expected = self.exchange, self.exchange.expected
        if b".forbidden" in self.body and exchange.scenario not in _NAMES_FORBIDDEN:
            return "an answer that names a forbidden model"
        strangers = {int(number) for number in MARK.findall(self.body)} - {exchange.number}
        if strangers:
            return f"the answer of request {min(strangers)}"
        if self.status is None:
            return None if not expected.statuses else "no answer"
        if self.status not in expected.statuses:
            return f"status {self.status}"
        if expected.whole:
            return self._problem_of_whole()
        return None

    def _problem_of_whole(self) -> str | None:
        exchange = self.exchange
        if not self.complete:
            return "an answer without its end"
        if exchange.passed:
            if exchange.stream:
                same = self.body == b"".join(halves(exchange.wire, exchange.model))
            else:
                same = self.body == whole(exchange.wire, exchange.model)
            return None if same else "other bytes than the provider sent"
        if f"This answers {exchange.model}".encode() not in self.body:
            return "a translation without its text"
        if exchange.stream and f"the end of {exchange.model}".encode() not in self.body:
            return "a translation without its end"
        return None


def run_client(port: int, exchanges: Callable[[], Exchange | None], tell: Callable[[Seen], None]) -> None:
    """Ask one thing after another, on one connection for as long as it lasts.

    :param exchanges: returns the next one, or ``None`` at the end.
    """
    client: RawClient | None = None
    while (exchange := exchanges()) is not None:
        client = client or RawClient(port)
        seen = Seen(exchange)
        with suppress(AssertionError):  # there was no answer
            _play(client, exchange, seen)
        if not seen.stays:
            client.socket.close()
            client = None
        tell(seen)
    if client is not None:
        client.socket.close()


def _play(client: RawClient, exchange: Exchange, seen: Seen) -> None:
    """Send what there is to be sent, and note what comes."""
    client.send(exchange.request())
    if exchange.scenario == "leave":
        return
    if exchange.scenario == "leavemid" or exchange.opens_session:
        found = client.incoming.head()
        seen.status = None if found is None else int(found[0].split(b" ")[1])
        if not exchange.opens_session:
            seen.body = client.incoming.up_to(_FIRST_BYTES)
        elif seen.status == 101:
            client.send(exchange.session_bytes())
            if exchange.scenario != "ws":
                client.incoming.more()  # the message is refused, since the provider says nothing
        return
    response = client.read_response()
    seen.status, seen.body, seen.complete = response.status, response.body, response.whole
    seen.stays = response.whole and response.value(b"connection") != b"close"


@dataclass(slots=True)
class Findings:
    """What went wrong, counted; the first of each kind in words."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    def note(self, exchange: Exchange, problem: str) -> None:
        """Count a problem of one exchange."""
        self.say(problem, f"{exchange}: {problem}")

    def say(self, problem: str, words: str | None = None) -> None:
        """Count a problem, and keep the words for the first of its kind."""
        kind = re.sub(r"\d+", "N", problem)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.examples.setdefault(kind, words or problem)
