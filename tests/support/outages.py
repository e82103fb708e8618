"""Ten minutes in which an identity provider does not do what it should: who is admitted, and what is seen.

``python -m tests.support.outages`` prints the table of docs/identity.rst.  A server and the keys of an issuer
run in memory, with a clock in hand; the ten minutes begin just before keys are due to be fetched again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from mgw.config.edge_auth import EdgeAuthSettings
from mgw.nouns.token_flaw import TokenFlaw
from mgw.web.key_changes import KeyChanges
from mgw.web.token_gate import TokenGate, make_token_gate
from tests.support.channels import post
from tests.support.configs import THREE_FAMILIES
from tests.support.exchanges import JSON
from tests.support.issuers import HOST, JWKS, IssuerBench, IssuerLines
from tests.support.pipelines import answered
from tests.support.token_endpoints import TokenPost
from tests.support.token_issuers import TokenIssuer
from tests.support.web_servers import WebServerHarness

START: Final = 1_800_000_000.0
OUTAGE_SECONDS: Final = 600
BEFORE: Final = 3540
"""Seconds from the first fetch to the outage: one minute later, the next fetch is due."""
EVERY: Final = 20
"""Seconds between two requests of each kind."""
PATH: Final = "/v1/chat/completions"
BODY: Final = b'{"model":"main/m","messages":[{"role":"user","content":"hi"}],"max_tokens":9}'
FAILED_FOR_ALERT: Final = 5
"""The rule MgwIssuerKeysFailing: more failures than these in fifteen minutes."""
_TEXT: Final = f"""{THREE_FAMILIES}
edge_auth:
  enabled: true
  jwt: [{{name: corp, issuer: '{HOST}', audience: mgw, jwks_url: '{JWKS}', rules: [{{}}]}}]
"""
ROTATES: Final = "has another key each minute"
Answer = Callable[["Outage", TokenPost], None]


@dataclass
class Requests:
    """What requests of one kind were answered."""

    statuses: set[int] = field(default_factory=set)
    longest: float = 0.0
    """How many seconds one of them waited."""

    def __str__(self) -> str:
        found = ", ".join("admitted" if status == 200 else str(status) for status in sorted(self.statuses))
        return f"{found} (after {self.longest:g} s)" if self.longest else found


class Outage(WebServerHarness):
    """A server with one issuer, which answers in a certain way."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(_TEXT)
        self.answer = answer
        self.issuer, self.numbers = TokenIssuer(HOST), {"0": 0}
        self.issuers = IssuerBench(self.clock)
        changes = KeyChanges(self.server)
        self.issuers.keys.on_change = changes.use_issuer_keys
        self.server.make_token_gate = self._make_gate
        self._taken: set[int] = set()
        self.issuers.keys.use(self.generation.config.edge_auth.jwt)
        self.server.use(self.generation)
        self.issuers.keys.begin()
        self.answer_fetches()

    def read_wall(self) -> float:
        return START + self.clock.seconds()

    def _make_gate(self, settings: EdgeAuthSettings) -> TokenGate:
        expired = self.server.registry.memory.expired_tokens
        gate = make_token_gate(settings, self.counts, self.issuers.keys, expired, self.read_wall)
        gate.monotonic = self.clock.seconds
        return gate

    def rotate(self) -> None:
        """Have another key in place of the one that there is."""
        self.issuer.rotate()
        number = len(self.issuer.keys) - 1
        self.numbers = {str(number): number}

    def serve_keys(self, asked: TokenPost) -> None:
        """Answer as an issuer should."""
        asked.answer(self.issuer.document(self.numbers))

    def answer_fetches(self) -> None:
        """Have the issuer begin to answer what is asked."""
        for number, asked in enumerate(self.issuers.asked()):
            if number not in self._taken:
                self._taken.add(number)
                self.answer(self, asked)

    def pass_time(self, seconds: int) -> None:
        """Let time pass."""
        for _ in range(seconds):
            self.clock.advance(1.0)
            self.answer_fetches()

    def ask(self, number: int, found: Requests) -> None:
        """Send a new token that a key has signed, and wait for the response."""
        token = self.issuer.token("ann", self.read_wall() + 3600, number, jti=len(self.observer.lines))
        began = self.clock.seconds()
        self.connect()
        self.send(post(BODY, f"Authorization: Bearer {token}", JSON, path=PATH))
        self.answer_fetches()
        while not self._respond():
            self.pass_time(1)
        found.statuses.add(self.status())
        found.longest = max(found.longest, self.clock.seconds() - began)
        self.leave()

    def _respond(self) -> bool:
        for connection in self.pipeline.endpoint.connections:
            if not connection.over and connection.received:
                connection.send(answered())
                connection.close()
        return bool(self.received())

    @property
    def failed(self) -> int:
        """How many fetches have failed."""
        (state,) = self.issuers.feed.states()
        return state.failed


def _status(code: int) -> Answer:
    return lambda _, asked: asked.answer(b"", code)


def _document(body: bytes) -> Answer:
    return lambda _, asked: asked.answer(body)


def _later(seconds: float) -> Answer:
    def answer(outage: Outage, asked: TokenPost) -> None:
        outage.clock.callLater(seconds, _if_open, asked, outage.serve_keys)

    return answer


def _drip(outage: Outage, asked: TokenPost) -> None:
    document = outage.issuer.document(outage.numbers)
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(document)}\r\n\r\n".encode()

    def send(at: int) -> None:
        if at < len(head) + len(document) and not _is_gone(asked):
            asked.connection.send((head + document)[at : at + 1])
            outage.clock.callLater(1.0, send, at + 1)

    send(0)


def _serve(outage: Outage, asked: TokenPost) -> None:
    outage.serve_keys(asked)


def _is_gone(asked: TokenPost) -> bool:
    return asked.connection.over or asked.connection.closing


def _if_open(asked: TokenPost, act: Callable[[TokenPost], None]) -> None:
    if not _is_gone(asked):
        act(asked)


OUTAGES: Final[dict[str, Answer]] = {
    "answers 503": _status(503),
    "closes the connection": lambda _, asked: asked.connection.reset(),
    "does not answer": lambda _, __: None,
    "answers after 4 seconds": _later(4.0),
    "answers after 20 seconds": _later(20.0),
    "sends a byte each second": _drip,
    "answers a web page": _document(b"<!doctype html><title>Sign in</title>"),
    "answers no keys": _document(b'{"keys":[]}'),
    "redirects": _status(302),
    ROTATES: _serve,
}


@dataclass
class Seen:
    """What ten minutes have shown."""

    known: Requests = field(default_factory=Requests)
    """Tokens that a known key has signed."""
    rotated: Requests = field(default_factory=Requests)
    """Tokens that a key has signed which is not known yet."""
    first: Requests = field(default_factory=Requests)
    """Tokens at a gateway that started in these minutes."""
    failed: int = 0
    log: list[str] = field(default_factory=list)
    flaws: set[tuple[str, TokenFlaw]] = field(default_factory=set)
    """For which issuers and reasons metrics count refused tokens."""
    later: Requests = field(default_factory=Requests)
    """Tokens of the newest key, a minute after the end."""


def see(answer: Answer, *, rotates: bool = False) -> Seen:
    """Have an outage, and tell what it has shown."""
    seen = Seen()
    outage = Outage(_serve)
    outage.pass_time(BEFORE)
    outage.rotate()
    outage.numbers["0"] = 0
    outage.answer = answer
    began = outage.clock.seconds()
    with IssuerLines() as lines:
        while outage.clock.seconds() - began < OUTAGE_SECONDS:
            outage.ask(0, seen.known)
            outage.ask(-1, seen.rotated)
            outage.pass_time(EVERY)
            if rotates and (outage.clock.seconds() - began) % 60 < EVERY:
                outage.rotate()
        seen.log = list(lines)
    seen.failed = outage.failed
    outage.answer = _serve
    outage.pass_time(61)
    outage.ask(-1, seen.later)
    started = Outage(answer)
    for _ in range(5):
        started.ask(0, seen.first)
        started.pass_time(EVERY)
    seen.flaws = {*outage.observer.flaws, *started.observer.flaws}
    return seen


def rows() -> Iterator[tuple[str, Seen]]:
    """Have each outage."""
    for name, answer in OUTAGES.items():
        yield name, see(answer, rotates=name == ROTATES)


def table(found: Iterable[tuple[str, Seen]]) -> str:
    """Return the table as docs/identity.rst has it."""
    head = ("The issuer", "A known key", "A new key", "At the start", "Failed fetches", "The log says")
    lines = [".. csv-table::", "   :header-rows: 1", "   :widths: 18 12 16 17 10 27", "", _line(head)]
    for name, seen in found:
        failed = f"{seen.failed}, alert" if seen.failed > FAILED_FOR_ALERT else str(seen.failed)
        requests = map(str, (seen.known, seen.rotated, seen.first))
        lines.append(_line((name, *requests, failed, _reason(seen.log))))
    return "\n".join(lines) + "\n"


def _reason(log: list[str]) -> str:
    """Return why fetches failed, as the first line in the log says it."""
    found = next((line for line in log if "could not be fetched" in line), None)
    if found is None:
        return ""
    reason = found.partition("could not be fetched: ")[2]
    return f"``{reason.replace(f'the address of the keys at {HOST}:443', '…')}``"


def _line(cells: tuple[str, ...]) -> str:
    return "   " + ", ".join(f'"{cell}"' for cell in cells)


if __name__ == "__main__":
    sys.stdout.write(table(rows()))
