"""What is exchanged: every request carries a number, and so does every byte that answers it.

The number and what shall happen stand in the model's name, ``m123.reset``: the provider of the soak
(:mod:`tests.support.soak.upstream`) obeys that name and repeats it in its answer, and the usage event repeats
it too.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from random import Random

from tests.support.soak.hostile import LIMITED_KEY, hostile_message, hostile_request
from tests.support.soak.sessions import TEXT, leaving, render_frame

EDGE_KEY = "soak-edge-key"
PROVIDER_KEY = "soak-provider-key"
WIRES = ("openai", "anthropic", "gemini")
PROVIDERS = {"o": "openai", "c": "openai", "a": "anthropic", "g": "gemini"}
"""The providers of the configuration, and the wire that each speaks."""
PROBES = 1_000_000_000
"""The numbers above it are the probe's (:mod:`tests.support.soak.probe`)."""
MARK = re.compile(rb"m(\d+)\.[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One way in which an exchange goes."""

    weight: int
    statuses: frozenset[int]
    """What the client may be told; empty where it leaves or is cut off before."""
    outcomes: frozenset[str]
    """What the event's ``status`` may be; empty where there is none."""
    http_statuses: frozenset[int]
    """What the event's ``http_status`` may be."""
    whole: bool = True
    """Whether the client gets the whole answer of the provider."""
    vague: bool = False
    """Whether its event may or may not say which model was asked for."""


def _all(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


_OK = frozenset({"ok"})
_FAILED = frozenset({"upstream_error"})
_REFUSED = frozenset({"rejected"})
_BROKEN = _all(200, 502)
_ERRORS = _all(500, 502, 503, 529)
_LEFT = frozenset({"client_abort"})
# "lim", "hostile", "wlater" and "wquery" are of a key that may use some models only.  "ws", "wlater" and
# "wquery" are sessions: the first is cut off at any byte, the others name a forbidden model.
SCENARIOS: dict[str, Scenario] = {
    "ok": Scenario(60, _all(200), _OK, _all(200)),
    "close": Scenario(3, _all(200), _OK, _all(200)),
    "second": Scenario(3, _all(200), _OK, _all(200)),
    "s400": Scenario(2, _all(400), _FAILED, _all(400), whole=False),
    "s429": Scenario(2, _all(429), _FAILED, _all(429), whole=False),
    "s500": Scenario(2, _all(500), _FAILED, _all(500), whole=False),
    "s503": Scenario(2, _all(503, 529), _FAILED, _all(503, 529), whole=False),
    "reset": Scenario(3, _all(502), _FAILED, _all(502), whole=False),
    "garbage": Scenario(2, _all(502), _FAILED, _all(502), whole=False),
    "trunc": Scenario(3, _BROKEN, _FAILED, _BROKEN, whole=False),
    "error": Scenario(3, _BROKEN | _ERRORS, _FAILED, _BROKEN | _ERRORS, whole=False),
    "starterr": Scenario(2, _BROKEN | _ERRORS, _FAILED, _BROKEN | _ERRORS, whole=False),
    "again": Scenario(1, _all(200), _OK, _all(200)),
    "short": Scenario(2, _BROKEN, _FAILED, _BROKEN, whole=False),
    "finished": Scenario(2, _all(200), _OK, _all(200), whole=False),
    "leave": Scenario(5, _all(), _LEFT, _all(499), whole=False),
    "leavemid": Scenario(5, _all(200), _LEFT, _all(499), whole=False),
    "lim": Scenario(3, _all(200), _OK, _all(200)),
    "hostile": Scenario(3, _all(400, 404), _REFUSED, _all(400, 404), whole=False, vague=True),
    "ws": Scenario(3, _all(101), _LEFT, _all(499), whole=False),
    "wlater": Scenario(1, _all(101), _LEFT | _REFUSED | _OK, _all(101, 400, 404, 499), whole=False),
    "wquery": Scenario(1, _all(400, 404), _REFUSED, _all(400, 404), whole=False, vague=True),
    "badjson": Scenario(2, _all(400), _REFUSED, _all(400), whole=False),
    "nomodel": Scenario(1, _all(400), _REFUSED, _all(400), whole=False),
    "nokey": Scenario(2, _all(401), frozenset(), _all(), whole=False),
}
_NAMES = list(SCENARIOS)
_WEIGHTS = [scenario.weight for scenario in SCENARIOS.values()]
_STREAMED = frozenset({"error", "starterr", "again", "short", "finished", "leavemid"})
"""What can only happen within a stream."""
_UNNAMED = frozenset({"badjson", "nomodel"})
"""What ends before the gateway knows a model."""
_LIMITED = frozenset({"lim", "wlater", "wquery"})
"""What a client asks for that may use some models only."""
_SESSIONS = frozenset({"ws", "wlater", "wquery"})
_SESSION_PATHS = ("/v1/realtime", "/v1/responses/ws")
LIMITED_MODELS = ("*/m*.lim", "*/m*.wlater")
"""The models that this client may use."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request, and what shall become of it."""

    number: int
    wire: str
    provider: str
    stream: bool
    scenario: str

    @property
    def model(self) -> str:
        """The provider's name of the model."""
        if self.scenario == "ws":
            return f"m{self.number}.ws{self.leaving[1]}"
        return f"m{self.number}.{self.scenario}"

    @property
    def target(self) -> str:
        """The model as the client names it; those of one scenario have providers that are asked again."""
        return f"{'r' if self.scenario == 'again' else ''}{self.provider}/{self.model}"

    @property
    def opens_session(self) -> bool:
        """Whether it is a WebSocket session that the gateway opens."""
        return self.scenario in _SESSIONS and 101 in self.expected.statuses

    @property
    def leaving(self) -> tuple[bytes, int]:
        """What the client of a session sends before it leaves, and how many messages of that are whole."""
        left = leaving(self.number, f"{self.provider}/m{self.number}.ws", self._session_path)
        return left.sent, left.whole

    def session_bytes(self) -> bytes:
        """Return what the client of a session sends once it is open."""
        if self.scenario == "ws":
            return self.leaving[0]
        forbidden = f"{self.provider}/m{self.number}.forbidden"
        path = self._session_path
        first = hostile_message(self.number, path, self.target, forbidden)
        return render_frame(TEXT, first, Random(self.number))

    @property
    def _session_path(self) -> str:
        return _SESSION_PATHS[self.number % len(_SESSION_PATHS)]

    @property
    def passed(self) -> bool:
        """Whether the client's family is the provider's."""
        return PROVIDERS[self.provider] == self.wire

    @property
    def named(self) -> bool:
        """Whether the gateway learns which model is asked for."""
        if self.expected.vague:
            return False
        return self.scenario not in _UNNAMED or (self.wire == "gemini" and self.scenario == "badjson")

    @property
    def expected(self) -> Scenario:
        """What must be seen of it."""
        return SCENARIOS[self.scenario]

    def request(self) -> bytes:
        """Return the bytes that the client sends."""
        if self.scenario in _SESSIONS:
            return self._upgrade()
        if self.scenario == "hostile":
            return hostile_request(self.number, self._path())
        key = "somebody-else" if self.scenario == "nokey" else self._key
        body = self._body()
        head = (
            f"POST {self._path()} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    @property
    def _key(self) -> str:
        return LIMITED_KEY if self.scenario in _LIMITED else EDGE_KEY

    def _upgrade(self) -> bytes:
        query = f"model={self.target}"
        if self.scenario == "wquery":
            name = f"{self.provider}/m{self.number}"
            query = f"model={name}.wlater&mod%65l={name}.forbidden"
        return (
            f"GET {self._session_path}?{query} HTTP/1.1\r\nHost: gateway\r\n"
            f"Authorization: Bearer {self._key}\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: c29hay1zb2FrLXNvYWstcw==\r\n\r\n"
        ).encode()

    def _path(self) -> str:
        if self.wire == "openai":
            return "/v1/chat/completions"
        if self.wire == "anthropic":
            return "/v1/messages"
        method = "streamGenerateContent?alt=sse" if self.stream else "generateContent"
        return f"/v1beta/models/{self.target}:{method}"

    def _body(self) -> bytes:
        if self.scenario == "badjson":
            return b'{"model": "m0.badjson", "messages": [}'
        text = f"Please answer request {self.number}. " * 8
        if self.wire == "gemini":
            if self.scenario == "nomodel":
                return b"[]"
            return json.dumps({"contents": [{"role": "user", "parts": [{"text": text}]}]}).encode()
        fields: dict[str, object] = {"messages": [{"role": "user", "content": text}]}
        if self.wire == "anthropic":
            fields["max_tokens"] = 256
        if self.stream:
            fields["stream"] = True
        if self.scenario != "nomodel":
            fields["model"] = self.target
        return json.dumps(fields).encode()


def drawn(number: int, random: Random) -> Exchange:
    """Return the exchange of a number, drawn at random."""
    (scenario,) = random.choices(_NAMES, _WEIGHTS)
    wire = random.choice(WIRES)
    if scenario in {"nomodel", "badjson"} and wire == "gemini":
        wire = "openai"  # Gemini's clients name their model in the path, and its relay does not read the body
    if scenario == "hostile" and wire == "gemini":
        wire = "anthropic"  # for the same reason
    stream = scenario in _STREAMED or random.random() < 0.5
    provider = "o" if scenario in _SESSIONS else random.choice(list(PROVIDERS))
    return Exchange(number, wire, provider, stream, scenario)
