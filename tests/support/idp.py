"""An identity provider of the simulator, over real sockets.

::

    idp = Idp(simulator.url, "corp")
    token = idp.token(sub="ann", aud="mgw", email="ann@example.com")
    idp.set_state("rotate")
    idp.wait_for("jwks", 2)

``issuer`` is what a configuration names.  Each name is a provider of its own, with its own keys and counts.
"""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.support.waiting import WAIT_SECONDS


@dataclass(frozen=True)
class Idp:
    """A provider at a running simulator."""

    url: str
    name: str = "corp"

    @property
    def issuer(self) -> str:
        """The address of the provider, and ``iss`` of its tokens."""
        return f"{self.url}/sim/idp/{self.name}"

    def token(self, *, alg: str = "RS256", expires_in: float = 3600, **claims: object) -> str:
        """Return a signed token; ``sub`` is alice and ``aud`` mgw where they are not given."""
        return self.wanted_token(alg=alg, expires_in=expires_in, claims=claims)

    def flawed_token(self, flaw: str, *, alg: str = "RS256", **claims: object) -> str:
        """Return a token with one of the flaws of docs/simulator.rst."""
        return self.wanted_token(alg=alg, flaw=flaw, claims=claims)

    def wanted_token(self, **wanted: object) -> str:
        """Return a token by the members of the request: ``kid``, ``header``, ``without``, ``payload`` …"""
        return str(self._call("POST", "/token", wanted)["token"])

    def set_state(self, state: str, **more: object) -> dict[str, Any]:
        """Put the provider into a state (``rotate``, ``away``, ``ok`` …); return what ``seen`` does."""
        found: dict[str, Any] = self._call("POST", "/state", {"state": state, **more})
        return found

    def seen(self) -> dict[str, Any]:
        """Return ``kids`` of the key set, ``counts`` by path, ``requests`` and ``exchanges``."""
        found: dict[str, Any] = self._call("GET", "/state")
        return found

    def count(self, path: str = "jwks") -> int:
        """How often a client has asked for a path."""
        return int(self.seen()["counts"].get(path, 0))

    def wait_for(self, path: str = "jwks", count: int = 1, seconds: float = WAIT_SECONDS) -> None:
        """Wait until a path has been asked for so many times; AssertionError if it is not."""
        self._call("GET", f"/state?path={path}&count={count}&seconds={seconds}")

    def exchanges(self) -> list[dict[str, Any]]:
        """Each with ``subject``, ``access_token``, ``error``, ``client_id``, ``client_auth`` and ``form``."""
        found: list[dict[str, Any]] = self.seen()["exchanges"]
        return found

    def key_set(self) -> dict[str, Any]:
        """The key set; this counts as a request of a client."""
        found: dict[str, Any] = self._call("GET", "/jwks")
        return found

    def forget(self) -> None:
        """Forget keys, state and counts."""
        self._call("DELETE", "/state")

    def _call(self, method: str, path: str, body: object = None) -> Any:
        address = urlsplit(self.issuer)
        assert address.hostname is not None
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=WAIT_SECONDS + 10)
        sent = None if body is None else json.dumps(body)
        try:
            connection.request(method, address.path + path, sent, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        assert answer.status == 200, f"{method} {path} -> {answer.status} {text.decode()}"
        return json.loads(text)
