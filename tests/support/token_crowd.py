"""Many clients with tokens and keys of all kinds: ``python -m tests.support.token_crowd [--requests N]``.

Fifty identities send over connections that stay open, through a gateway with two workers: people with tokens
that are renewed, keys of the configuration, keys of files, and whoever has a token that is expired, forged,
for somebody else or signed with a key that is gone.  Halfway the identity provider changes its keys, and a
key file is disabled.  Each response must be the one that its sender should get at that moment, each event
must be its sender's, and a refused request must leave none.

The exit status is 1 where anything was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.idp import Idp
from tests.support.raw_client import asking, request
from tests.support.simulator import start_simulator
from tests.support.waiting import WAIT_SECONDS

PEOPLE: Final = 44
KEYS: Final = 3
CONNECTIONS: Final = 24
SKEW: Final = 1.0
SHORT_SECONDS: Final = 2.0
"""How long some tokens are valid; their clients use them a little beyond that."""
CHANGE_SECONDS: Final = 4.0
"""How long after a change either answer may come: a key file takes 2 s, on a machine that is busy."""
FOREIGN: Final = "wrong-issuer"
"""What has this flaw is no token for the gateway."""
FLAWS: Final = (
    *("none", "no-signature", "hs256-with-public-key", "bad-signature", "foreign-key", "jwk", "crit"),
    *("expired", "not-yet-valid", "wrong-audience", FOREIGN),
)
_BODY: Final = asking("sim/gpt-5", max_completion_tokens=5)
_JSON: Final = b"Content-Type: application/json"


@dataclass(eq=False)
class Sender:
    """Somebody with one credential."""

    credential: str
    client: str | None
    """Whose events its requests leave; ``None``: it is refused."""
    status: int = 200
    until: float = float("inf")
    """From when on it is refused."""
    unclear: float = 0.0
    """Up to when it may still be accepted, or already be refused."""
    carrier: bytes = b"Authorization: Bearer "
    is_token: bool = True
    """Whether it sends a token of the issuer."""

    def statuses(self, sent: float, received: float) -> set[int]:
        """Return what may come of a request."""
        found = set()
        if sent < self.until:
            found.add(self.status)
        if received >= self.until or received < self.unclear:
            found.add(401)
        if sent < self.unclear:
            found.add(self.status)
        return found

    def request(self) -> bytes:
        """Return one request."""
        return request(_BODY, _JSON, self.carrier + self.credential.encode())


@dataclass
class Result:
    """What came of a run."""

    statuses: Counter[str] = field(default_factory=Counter)
    """How many responses there were, by kind of sender and status."""
    clients: dict[str, str] = field(default_factory=dict)
    """Whose each request that was accepted is, by its id."""
    refused: set[str] = field(default_factory=set)
    """The ids of refused requests."""
    problems: list[str] = field(default_factory=list)
    requests: int = 0
    seconds: float = 0.0
    refused_tokens: int = 0

    def check(self, lines: bytes) -> None:
        """Compare the events with the responses."""
        seen: Counter[str] = Counter()
        for line in lines.splitlines():
            event = json.loads(line)
            seen[event["request_id"]] += 1
            client = self.clients.get(event["request_id"])
            if event.get("client") != client:
                self.problems.append(f"an event of {event.get('client')} for a request of {client}")
        if missing := self.clients.keys() - seen.keys():
            self.problems.append(f"{len(missing)} requests without an event")
        if more := [one for one, count in seen.items() if count > 1]:
            self.problems.append(f"{len(more)} requests with several events")


class TokenCrowd:
    """One run.

    :param count: the number of requests.
    """

    def __init__(self, gateway: GatewayProcess, idp: Idp, folder: Path, count: int, seed: int = 1) -> None:
        self.gateway, self.idp, self.folder, self.count = gateway, idp, folder, count
        self.random, self.result = Random(seed), Result()
        self.people: list[Sender] = []
        self.short: list[Sender] = []
        self.keys = [
            Sender(f"config-canary-{number}", f"key{number}", is_token=False) for number in range(KEYS)
        ]
        self.files = [
            Sender(f"file-canary-{number}", f"filed{number}", is_token=False) for number in range(KEYS)
        ]
        self.refused: list[Sender] = []
        self.strangers: list[Sender] = []
        """Those with valid tokens whom no rule admits."""
        self._left = count
        self._changes_left = count // 2

    def run(self) -> Result:
        """Send everything, and compare."""
        self._issue()
        for flaw in FLAWS:
            token = self.idp.flawed_token(flaw, sub="user0", role="llm")
            self.refused.append(Sender(token, None, 401, is_token=flaw != FOREIGN))
        self.refused.append(Sender("unknown-canary-key", None, 401, is_token=False))
        began = time.monotonic()
        asyncio.run(self._run())
        self.result.seconds = time.monotonic() - began
        return self.result

    def _issue(self) -> None:
        """Give everybody a token for now."""
        algorithms = ("RS256", "ES256", "EdDSA")
        self.people = [
            Sender(
                self.idp.token(alg=algorithms[number % 3], sub=f"user{number}", role="llm"),
                f"corp:user{number}",
            )
            for number in range(PEOPLE)
        ]
        for number, person in enumerate(self.people):
            person.carrier = (b"Authorization: Bearer ", b"x-api-key: ")[number % 2]
        self.strangers = [Sender(self.idp.token(sub="user0", role="nobody"), None, 403)]

    def _issue_short(self) -> None:
        """Give somebody a token that soon expires, which they use beyond its end."""
        number = self.random.randrange(PEOPLE)
        token = self.idp.token(sub=f"user{number}", role="llm", expires_in=SHORT_SECONDS)
        end = _claims(token)["exp"] + SKEW
        self.short = [*self.short[-5:], Sender(token, f"corp:user{number}", until=end)]

    async def _run(self) -> None:
        async with asyncio.timeout(WAIT_SECONDS + self.count / 50):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._send_all())
                tasks.create_task(self._renew())
            self._issue_short()
            self.people = self.keys = self.files = self.short
            for seconds in (
                0.0,
                SHORT_SECONDS + SKEW + 0.1,
            ):  # the last tokens, before their end and after it
                await asyncio.sleep(seconds)
                self._left = 4 * CONNECTIONS
                await self._send_all()

    async def _send_all(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(CONNECTIONS):
                tasks.create_task(self._send_in_turn())

    async def _renew(self) -> None:
        """Issue short tokens, and make the changes of halfway."""
        while self._left > 0:
            self._issue_short()
            if self._left <= self._changes_left:
                self._changes_left = -1
                self._change()
            await asyncio.sleep(0.5)

    def _change(self) -> None:
        """Have other keys at the provider, and disable a key: tokens of before, and the key, are refused."""
        before = [*self.people, *self.strangers]
        key = self.files[0]
        self.idp.set_state("rotate")
        self._issue()  # whose first request has the keys fetched
        (self.folder / "filed0.yaml").write_text(f"sha256: {_digest(key.credential)}\ndisabled: true\n")
        now = time.time()
        for sender in (*before, *self.short, key):
            sender.until, sender.unclear = min(now, sender.until), now + CHANGE_SECONDS
        for sender in (*self.people, *self.strangers):
            sender.unclear = now + CHANGE_SECONDS  # the fetch may take longer than a worker waits
        self.refused += [*before[:10], *self.short, key]
        self.short, self.files = [], self.files[1:]

    def _draw(self) -> tuple[str, Sender]:
        if self.people is self.short:
            return "short token", self.random.choice(self.short)
        kinds = ("token", "short token", "key", "key of a file", "refused", "no rule")
        (kind,) = self.random.choices(kinds, (58, 10, 8, 8, 13, 3))
        senders = (self.people, self.short, self.keys, self.files, self.refused, self.strangers)
        return kind, self.random.choice(senders[kinds.index(kind)] or self.people)

    async def _send_in_turn(self) -> None:
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        while self._left > 0:
            self._left -= 1
            kind, sender = self._draw()
            if connection is None:
                connection = await asyncio.open_connection("127.0.0.1", self.gateway.port)
            sent = time.time()
            status, fields = await _answered(*connection, sender.request())
            self._take(kind, sender, sender.statuses(sent, time.time()), status, fields)
            if fields.get(b"connection") == b"close":
                connection[1].close()
                connection = None
        if connection is not None:
            connection[1].close()

    def _take(
        self, kind: str, sender: Sender, allowed: set[int], status: int, fields: dict[bytes, bytes]
    ) -> None:
        result = self.result
        result.requests += 1
        result.statuses[f"{kind} {status}"] += 1
        request_id = fields[b"x-gateway-request-id"].decode()
        if status not in allowed:
            result.problems.append(f"{kind} of {sender.client}: {status}, not {sorted(allowed)}")
        if status == 200:
            result.clients[request_id] = sender.client or "nobody"
        else:
            result.refused.add(request_id)
            result.refused_tokens += sender.is_token


async def _answered(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: bytes
) -> tuple[int, dict[bytes, bytes]]:
    """Return status and fields of a response with a length, once it has come whole."""
    writer.write(sent)
    head = await reader.readuntil(b"\r\n\r\n")
    fields = {}
    for line in head.split(b"\r\n")[1:-2]:
        name, _, value = line.partition(b": ")
        fields[name.lower()] = value
    await reader.readexactly(int(fields[b"content-length"]))
    return int(head.split(b" ", 2)[1]), fields


def _claims(token: str) -> dict[str, Any]:  # Any: JSON
    part = token.split(".")[1]
    found: dict[str, Any] = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def _digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()


def config_text(simulator: str, idp: Idp, folder: Path) -> str:
    """Return the configuration, and write the key files."""
    for number in range(KEYS):
        (folder / f"filed{number}.yaml").write_text(f"sha256: {_digest(f'file-canary-{number}')}\n")
    keys = ", ".join(f"{{name: key{number}, key: config-canary-{number}}}" for number in range(KEYS))
    return f"""
workers: 2
providers: {{sim: {{kind: openai, base_url: "{simulator}/v1", api_key: sk-canary}}}}
defaults: {{openai_dialect: sim}}
edge_auth:
  enabled: true
  keys_dir: {folder}
  groups: {{research: {{models: ["sim/*"], limits: [{{requests: 1000000, per: day, each: true}}]}}}}
  keys: [{keys}, watcher-canary-key]
  jwt:
    - name: corp
      issuer: {idp.issuer}
      audience: mgw
      clock_skew: {SKEW:g}
      rules: [{{when: {{role: llm}}, groups: [research]}}]
"""


def run_crowd(simulator: str, count: int, seed: int = 1) -> Result:
    """Run a crowd through a gateway of its own."""
    idp = Idp(simulator, f"crowd{seed}")
    with TemporaryDirectory(prefix="mgw-crowd-") as name:
        folder = Path(name)
        with start_gateway(config_text(simulator, idp, folder)) as gateway:
            gateway.log(b"issuer corp: keys added: ")
            crowd = TokenCrowd(gateway, idp, folder, count, seed)
            result = crowd.run()
            head = {"Authorization": "Bearer watcher-canary-key"}
            counted = gateway.metric("mgw_token_rejections_total{", head)
            if counted != result.refused_tokens:
                result.problems.append(f"{counted} refused tokens in metrics, of {result.refused_tokens}")
            if gateway.stop():
                result.problems.append("the gateway did not end in order")
            result.check(gateway.stdout.whole(WAIT_SECONDS))
            for data in (gateway.stdout.data, gateway.stderr.data):
                if b"eyJ" in data:
                    result.problems.append("a token was written")
    return result


def lines_of(result: Result) -> Iterator[str]:
    """Say what came of a run."""
    for kind, count in sorted(result.statuses.items()):
        yield f"{count:>9,}  {kind}"
    for problem, count in Counter(result.problems).items():
        yield f"{count:>9,}  PROBLEM: {problem}"
    events, clients = len(result.clients), len(set(result.clients.values()))
    yield (
        f"{result.requests:,} requests in {result.seconds:.0f} s, {events:,} events of {clients} clients, "
        f"{len(result.refused):,} refused, {len(result.problems) or 'no'} problems"
    )


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="tests.support.token_crowd", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--requests", type=int, default=100_000, help="how many (100000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of what is drawn (1)")
    said = parser.parse_args()
    with start_simulator() as simulator:
        result = run_crowd(simulator.url, said.requests, said.seed)
    for line in lines_of(result):
        sys.stdout.write(f"{line}\n")
    return 1 if result.problems else 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
