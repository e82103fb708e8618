"""A law of tokens: who is admitted follows from the token, the issuer's keys, the rules and the time.

Drawn steps send requests, let time pass, set the wall clock, have the issuer publish other keys or not
answer, reload, and change a file of keys.  Whatever was remembered of earlier requests, a token opens the
gate exactly while it should, and a gateway that remembers no requests answers the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from math import inf
from typing import Any, Final, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from mgw.config.edge_auth import EdgeAuthSettings
from mgw.generation import Generation
from mgw.memo.request_memo import RequestMemo
from mgw.web.key_changes import KeyChanges
from mgw.web.token_gate import TokenGate, make_token_gate
from tests.memory.web.test_key_changes import file_key
from tests.support.channels import post
from tests.support.configs import THREE_FAMILIES
from tests.support.exchanges import JSON
from tests.support.issuers import HOST, JWKS, IssuerBench
from tests.support.laws import examples
from tests.support.pipelines import Pipeline, answered
from tests.support.token_issuers import TokenIssuer, new_key
from tests.support.web_servers import WebServerHarness

START: Final = 1000.0
"""What the calendar says when the clock begins."""
SKEW: Final = 5.0
MAX_STALE: Final = 900
PIECE: Final = 20.0
"""Time passes in pieces of so many seconds, behind each of which the issuer answers."""
ALICE: Final = "alice-canary-0001"
FILE_KEY: Final = "file-canary-0001"
PATH: Final = "/v1/chat/completions"
BODY: Final = b'{"model":"main/m","messages":[{"role":"user","content":"hi"}],"max_tokens":9}'
ROLES: Final = {"llm": ("research",), "guest": ()}
RULES: Final = (
    "[{when: {role: llm}, groups: [research]}, {when: {role: guest}}]",
    "[{when: {role: llm}, groups: [research]}]",
    "[{when: {role: llm}}, {when: {role: guest}, groups: [research]}]",
)
GROUPS: Final[tuple[dict[str, tuple[str, ...]], ...]] = (
    {"llm": ("research",), "guest": ()},
    {"llm": ("research",)},
    {"llm": (), "guest": ("research",)},
)
"""Whom each of these admits, in which groups."""
KEYS: Final = TokenIssuer(HOST, keys=[new_key() for _ in range(3)])
ANSWERS: Final[dict[str, tuple[bytes, int] | None]] = {
    "ok": None,
    "away": (b"", 503),
    "garbage": (b"<!doctype html>", 200),
    "empty": (b'{"keys":[]}', 200),
    "redirect": (b"", 302),
    "silent": None,
}


class Token(NamedTuple):
    """What is drawn of a token."""

    subject: str
    role: str
    expires: float
    key_id: str
    number: int
    """Of the key that signs it."""

    @property
    def until(self) -> float:
        return self.expires + SKEW


@cache
def signed(token: Token) -> str:
    subject, role, expires, key_id, number = token
    return KEYS.token(subject, expires, number, key_id=key_id, role=role)


class Rules(NamedTuple):
    """A configuration: its rules, or no issuer at all."""

    number: int | None
    audience: str = "mgw"

    @property
    def text(self) -> str:
        jwt = ""
        if self.number is not None:
            jwt = (
                f"jwt: [{{name: corp, issuer: '{HOST}', audience: {self.audience}, jwks_url: '{JWKS}', "
                f"clock_skew: {SKEW:g}, max_stale: {MAX_STALE}, rules: {RULES[self.number]}}}], "
            )
        keys = f"keys: [{{name: alice, key: {ALICE}}}]"
        return f"{THREE_FAMILIES}edge_auth: {{enabled: true, {jwt}groups: {{research: {{}}}}, {keys}}}\n"


@dataclass
class Model:
    """What should be the case, without anything that is remembered of requests."""

    rules: Rules
    known: dict[str, int] | None = None
    """The keys that the issuer has published in its last good answer."""
    good_at: float = -inf
    ended: set[Token] = field(default_factory=set)
    """Tokens that have been refused because they had expired."""
    ends: dict[Token, float] = field(default_factory=dict)
    """When the time is over that tokens had left at their first use, on the clock that nobody sets."""
    was_ahead: bool = False
    """Whether the wall clock was ever ahead of the calendar."""

    def statuses(self, token: Token, monotonic: float, wall: float) -> set[int]:
        """Return what a request with a token may be answered."""
        if self.rules.number is None:
            return {401}
        if self.known is None or monotonic >= self.good_at + MAX_STALE:
            return {503}
        if self.known.get(token.key_id) != token.number:
            return {401}
        if wall >= token.until:
            self.ended.add(token)
            return {401}
        if self.rules.audience != "mgw":
            return {401}
        if token.role not in GROUPS[self.rules.number]:
            return {403}
        if token in self.ended or monotonic >= self.ends.get(token, inf):
            return {401}
        is_certain = not self.was_ahead and monotonic < token.until - START
        return {200} if is_certain else {200, 401}

    def admit(self, token: Token, monotonic: float, wall: float) -> None:
        self.ends.setdefault(token, monotonic + token.until - wall)


class Play(WebServerHarness):
    """A server, its issuer and the model of both, which take the same steps."""

    def __init__(self, *, remembers: bool) -> None:
        self.shift, self.remembers = 0.0, remembers
        self.model = Model(Rules(0))
        self.published = {"0": 0}
        self.answer = "ok"
        self.files: set[str] = set()
        self.seen: list[tuple[int, str | None]] = []
        super().__init__(self.model.rules.text)
        self.issuers = IssuerBench(self.clock)
        self.changes = KeyChanges(self.server)
        self.issuers.keys.on_change = self.changes.use_issuer_keys
        self.server.make_token_gate = self._make_gate
        self._use(self.generation)
        self.issuers.keys.begin()
        self._answer_issuer()

    def read_wall(self) -> float:
        return START + self.clock.seconds() + self.shift

    def _make_gate(self, settings: EdgeAuthSettings) -> TokenGate:
        expired = self.registry.memory.expired_tokens
        gate = make_token_gate(settings, self.counts, self.issuers.keys, expired, self.read_wall)
        gate.monotonic = self.clock.seconds
        return gate

    @property
    def registry(self) -> Any:  # Any: as the server has it
        return self.server.registry

    def _use(self, generation: Generation) -> None:
        if not self.remembers:
            generation.memo = RequestMemo(is_on=False)
        self.issuers.keys.use(generation.config.edge_auth.jwt)
        self.server.use(generation)
        self.changes.follow()

    def _answer_issuer(self) -> None:
        self.issuers.hosts.endpoint(HOST).settle()
        for asked in self.issuers.asked():
            if asked.connection.over or asked.connection.aborted or self.answer == "silent":
                continue
            said = ANSWERS[self.answer]
            if said is None:
                self.model.known, self.model.good_at = dict(self.published), self.clock.seconds()
                asked.answer(KEYS.document(self.published))
            else:
                asked.answer(*said)

    def time(self, seconds: float) -> None:
        while seconds > 0:
            self.clock.advance(min(seconds, PIECE))
            self._answer_issuer()
            seconds -= PIECE

    def stand_still(self, seconds: float) -> None:
        """Let time pass, and set the wall clock back by as much."""
        self.wall_clock(self.shift - seconds)
        self.time(seconds)

    def wall_clock(self, shift: float) -> None:
        self.shift = shift
        self.model.was_ahead |= shift > 0

    def publish(self, numbers: dict[str, int]) -> None:
        self.published = numbers

    def issuer_is(self, answer: str) -> None:
        self.answer = answer
        self._answer_issuer()

    def reload(self, rules: Rules) -> None:
        before, self.model.rules = self.model.rules, rules
        if rules.number is None:
            self.model.known, self.model.good_at = None, -inf
        self._use(Pipeline(rules.text, self.clock, self.pipeline.endpoint).generation)
        if before.number is None:
            self._answer_issuer()

    def reload_same(self, _: None) -> None:
        self.reload(self.model.rules)

    def reload_late(self, seconds: float) -> None:
        """Reload when a wall clock that stands still has hidden that time has passed."""
        self.stand_still(seconds)
        self.reload(self.model.rules)

    def file(self, *, is_there: bool) -> None:
        if is_there:
            self.changes.use([file_key("filed", FILE_KEY)], ())
            self.files.add("filed")
        elif self.files:
            self.changes.use((), ["filed"])
            self.files.clear()

    def ask(self, wanted: tuple[Token | None, str | None, int, int]) -> None:
        token, key, head, times = wanted
        for _ in range(times):  # the third time, its head is known
            self._ask(token, key, head)

    def ask_late(self, token: Token) -> None:
        """Ask with a known head before and after the time that a standing wall clock does not show."""
        self.ask((token, None, 0, 3))
        self.stand_still(70)
        self.ask((token, None, 0, 1))

    def _ask(self, token: Token | None, key: str | None, head: int) -> None:
        keyed = {ALICE: "alice", FILE_KEY: "filed" if self.files else None}.get(key or "")
        headers = [JSON, f"X-Number: {head}"]
        headers += [] if token is None else [f"Authorization: Bearer {signed(token)}"]
        headers += [] if key is None else [f"x-api-key: {key}"]
        expected = self._expected(token)
        before = len(self.observer.events)
        self.connect()
        self.send(post(BODY, *headers, path=PATH))
        if not self._is_answered():  # it waits for the keys of the issuer
            self._answer_issuer()
            if not self._is_answered():
                self.clock.advance(5.0)
            expected = self._expected(token)
        for connection in self.pipeline.endpoint.connections:
            if not connection.over and connection.received:
                connection.send(answered())
                connection.close()
        self._answer_issuer()  # what was asked for beside an answer
        self.leave()
        self._judge(token, keyed, expected, self.observer.events[before:])

    def _is_answered(self) -> bool:
        return bool(self.received()) or any(
            not one.over and one.received for one in self.pipeline.endpoint.connections
        )

    def _expected(self, token: Token | None) -> set[int]:
        if token is None:
            return {401}
        return self.model.statuses(token, self.clock.seconds(), self.read_wall())

    def _judge(self, token: Token | None, keyed: str | None, expected: set[int], events: list[Any]) -> None:
        status = self.status()
        (client, groups), more = (None, ()), [(event.client, event.client_groups or ()) for event in events]
        if status == 200:
            ((client, groups),) = more
        else:
            assert not more, "a refusal leaves no event"
        self.seen.append((status, client))
        if token is not None and client == f"corp:{token.subject}":
            assert 200 in expected
            assert self.model.rules.number is not None
            assert groups == GROUPS[self.model.rules.number][token.role]
            self.model.admit(token, self.clock.seconds(), self.read_wall())
            return
        assert client == keyed
        if keyed is None:
            assert status in expected
        else:
            assert expected != {200}
            assert status == 200


tokens = st.builds(
    Token,
    st.sampled_from(["ann", "bob"]),
    st.sampled_from(["llm", "guest", "llm", "guest", "none"]),
    st.sampled_from([START + 60, START + 10, START + 600, START + 5000]),
    st.sampled_from(["0", "0", "0", "1", "2"]),
    st.sampled_from([0, 0, 0, 1]),
)


@st.composite
def scripts(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Draw a few tokens, and steps that use them over and over."""
    few = draw(st.lists(tokens, min_size=1, max_size=2))
    asks = st.tuples(
        st.sampled_from([*few] * 4 + [None]),
        st.sampled_from([None, None, None, None, ALICE, FILE_KEY]),
        st.sampled_from([0, 0, 1]),
        st.sampled_from([3, 1]),
    ).map(lambda found: ("ask", found))
    numbers = st.dictionaries(st.sampled_from(["0", "1", "2"]), st.integers(0, 1), min_size=1, max_size=2)
    rules = st.builds(Rules, st.sampled_from([0, 0, 1, 2, None]), st.sampled_from(["mgw", "mgw", "other"]))
    others = st.one_of(
        st.sampled_from([1, 9, 31, 70, 301, 950]).map(lambda seconds: ("time", seconds)),
        st.sampled_from([0.0, -30.0, -3000.0, 30.0]).map(lambda shift: ("wall_clock", shift)),
        st.sampled_from([70, 9, 301]).map(lambda seconds: ("stand_still", seconds)),
        numbers.map(lambda found: ("publish", found)),
        st.sampled_from([*ANSWERS, "ok", "ok"]).map(lambda answer: ("issuer_is", answer)),
        rules.map(lambda found: ("reload", found)),
        st.just(("reload_same", None)),
        st.sampled_from(few).map(lambda token: ("ask_late", token)),
        st.sampled_from([70, 301]).map(lambda seconds: ("reload_late", seconds)),
        st.booleans().map(lambda found: ("file", found)),
    )
    turns = draw(st.lists(st.tuples(st.lists(others, max_size=2), asks), min_size=2, max_size=9))
    steps: list[tuple[str, Any]] = [step for changes, asking in turns for step in (*changes, asking)]
    return steps


def play(steps: list[tuple[str, Any]], *, remembers: bool) -> list[tuple[int, str | None]]:
    """Take steps; return the status of each request, and the client of its event."""
    found = Play(remembers=remembers)
    for what, value in steps:
        if what == "file":
            found.file(is_there=value)
        else:
            getattr(found, what)(value)
    found.changes.stop()
    return found.seen


@examples(120)
@given(steps=scripts())
def test_a_token_opens_the_gate_exactly_while_it_is_valid(steps: list[tuple[str, Any]]) -> None:
    assert play(steps, remembers=True) == play(steps, remembers=False)
