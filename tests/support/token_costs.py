"""What a token costs at the gate of a server in memory, in calls of Python functions and in microseconds."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from time import thread_time
from types import FrameType
from typing import Any, Final

import mgw
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.web.token_gate import TokenGate, make_token_gate
from tests.support.channels import post
from tests.support.configs import THREE_FAMILIES
from tests.support.exchanges import JSON
from tests.support.pipelines import answered
from tests.support.signed_tokens import ALGORITHMS, ISSUER, NOW, claims_with, keys_for, make_token
from tests.support.token_issuers import FakeKeys
from tests.support.web_servers import WebServerHarness

_MGW: Final = str(Path(mgw.__file__).parent)
KEY: Final = "alice-canary-0001"
_BODY: Final = b'{"model":"main/m","messages":[{"role":"user","content":"hi"}],"max_tokens":9}'
_RULES: Final = (
    "[{when: {/realm_access/roles: [llm-research, llm-admin], email_verified: true}, groups: [research]}, "
    '{when: {email: "*@example.com"}}]'
)
_TEXT: Final = f"""{THREE_FAMILIES}
edge_auth:
  enabled: true
  groups: {{research: {{}}}}
  keys: [{{name: alice, key: {KEY}}}]
  jwt:
    - name: corp
      issuer: {ISSUER}
      audience: mgw
      client: email
      algorithms: [{", ".join(name for name in ALGORITHMS if name != "Ed25519")}]
      rules: {_RULES}
"""


class GateCosts:
    """A server that one client sends to; its issuer has one key.

    :param claims: of its tokens, beside what each needs.
    """

    def __init__(self, claims: Mapping[str, object], algorithm: str = "RS256") -> None:
        self.harness = WebServerHarness(_TEXT)
        self.harness.unix_seconds = NOW
        self.token = make_token(claims_with(**claims), algorithm=algorithm)
        keys = FakeKeys({"corp": keys_for(algorithm)})
        server = self.harness.server

        def make(settings: EdgeAuthSettings) -> TokenGate:
            expired = server.registry.memory.expired_tokens
            return make_token_gate(settings, self.harness.counts, keys, expired, self.harness.read_wall)

        server.make_token_gate = make
        server.use(self.harness.generation)

    def request(self, number: int, *, has_token: bool = True) -> bytes:
        """Return a request with one of several heads."""
        credential = self.token.decode() if has_token else KEY
        headers = (f"Authorization: Bearer {credential}", JSON, f"X-Number: {number}")
        return post(_BODY, *headers, path="/v1/chat/completions")

    def serve(self, request: bytes) -> None:
        """Have a request answered with 200."""
        self.harness.transport.clear()
        self.harness.channel.dataReceived(request)
        self.harness.connection.send(answered())
        assert self.harness.status() == 200

    def calls(self, request: bytes) -> Counter[str]:
        """Return the calls of the gateway's functions that serving a request makes.

        Clocks are not among them: those of a server in memory are functions, and others are not.
        """
        found: Counter[str] = Counter()

        def on_event(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(_MGW):
                found[frame.f_code.co_qualname] += 1

        before = sys.getprofile()
        gc.collect()
        sys.setprofile(on_event)
        try:
            self.serve(request)
        finally:
            sys.setprofile(before)
        return found

    def more_calls(self, *, is_known: bool) -> Counter[str]:
        """Return the calls that a request with a known token makes beyond those of one with a key.

        :param is_known: whether its head is known.
        """
        found = []
        for has_token in (False, True):
            first = 100 * has_token
            for number in range(3) if not is_known else (0, 0, 0):
                self.serve(self.request(first + number, has_token=has_token))
            number = 0 if is_known else 50
            found.append(self.calls(self.request(first + number, has_token=has_token)))
        return found[1] - found[0]

    def unknown_seconds(self, times: int = 100, rounds: int = 10) -> float:
        """Return the seconds of CPU that a token takes at the gate which nobody has sent yet."""
        gate: Any = self.harness.server.gate.tokens  # Any: may be None
        digest = b"digest"
        best = float("inf")
        for _ in range(rounds):
            began = thread_time()
            for _ in range(times):
                gate.forget_all()
                gate.find(self.token, digest)
            best = min(best, (thread_time() - began) / times)
        assert gate.find(self.token, digest).client.issuer == "corp"
        return best
