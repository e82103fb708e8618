"""One identity provider: its keys, the state that a test has put it into, and what it answers.

Keys are made in a thread when they are first needed.  Each rotation makes a ring of new ones; earlier rings
still sign for tests, but leave the key set unless they are asked to stay.  Imported late: it takes
``cryptography``.

Sources: OpenID Connect Discovery 1.0, 3 and 4 (the document); RFC 7517 5 (the key set); RFC 6749 5 (answers
of the token endpoint).
"""

from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec
from twisted.internet.defer import DeferredLock

from mgw_sim.api import Response, UnaryResponse, dump_json, json_response
from mgw_sim.faults import Faults
from mgw_sim.identity.grants import (
    JWT_BEARER,
    TOKEN_EXCHANGE,
    Grant,
    client_authentication,
    exchanged_claims,
    grant,
    opaque_token,
)
from mgw_sim.identity.keys import KIND_OF_ALGORITHM, KeyRing, make_ring
from mgw_sim.identity.signed_tokens import FOREIGN_FLAWS, WantedToken, make_token, read_own_token
from mgw_sim.identity.states import ROTATE, WantedState
from mgw_sim.recording import RecordedRequest
from mgw_sim.tokens import (
    NO_STORE,
    GrantRequest,
    TokenRefusedError,
    read_form,
    read_grant_request,
    token_error,
)

MAX_RINGS: Final = 20
"""How many rings sign by their ids; the oldest go first."""
MAX_REQUESTS: Final = 200
"""How many requests and exchanges are remembered."""
DISCOVERY: Final = ".well-known/openid-configuration"
JWKS: Final = "jwks"
FOREIGN_JWKS: Final = "foreign-jwks"
TOKEN: Final = "token"  # noqa: S105  a path

RunInThread = Callable[[Callable[[], KeyRing]], Awaitable[KeyRing]]
"""Runs what makes keys where it holds nobody up."""


@dataclass(slots=True, eq=False)
class IdentityProvider:
    """Answers the requests to one provider.

    :param now: returns unix seconds.
    :param add_token: makes the vendors' routes know an exchanged token, for so many seconds.
    """

    name: str
    now: Callable[[], float]
    run: RunInThread
    add_token: Callable[[str, float], None]
    state: WantedState = field(default_factory=WantedState)
    counts: Counter[str] = field(default_factory=Counter)
    """Requests by path, but for those of tests."""
    _rings: deque[KeyRing] = field(default_factory=lambda: deque(maxlen=MAX_RINGS))
    """The newest is first."""
    _published: list[KeyRing] = field(default_factory=list)
    _foreign: KeyRing | None = None
    _requests: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MAX_REQUESTS))
    _exchanges: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MAX_REQUESTS))
    _serial: int = 0
    _lock: DeferredLock = field(default_factory=DeferredLock)

    def count(self, recorded: RecordedRequest, path: str) -> None:
        """Remember a request of a client of the provider."""
        self.counts[path] += 1
        headers = {name.lower(): value for name, value in recorded.headers}
        self._requests.append({"path": path, "headers": headers})

    async def answer(self, recorded: RecordedRequest, path: str, issuer: str) -> tuple[Response, Faults]:
        """Answer a client of the provider, and say what goes wrong on the way."""
        response, faults = self.state.intercept(path)
        if response is None:
            response = await self._respond(recorded, path, issuer)
        return response, faults

    async def sign(self, body: bytes, issuer: str) -> Response:
        """Answer a test that wants a token signed."""
        try:
            wanted = msgspec.json.decode(body or b"{}", type=WantedToken)
            rings = await self._all_rings()
            foreign = await self._foreign_ring() if wanted.flaw in FOREIGN_FLAWS else rings[0]
            token = make_token(wanted, rings, foreign, issuer, self.now())
        except ValueError as error:
            return token_error("invalid_request", 400, str(error))
        return json_response({"token": token})

    async def set_state(self, body: bytes) -> Response:
        """Answer a test that changes the state."""
        try:
            wanted = msgspec.json.decode(body or b"{}", type=WantedState)
            wanted.check()
        except ValueError as error:
            return token_error("invalid_request", 400, str(error))
        if wanted.state == ROTATE:
            await self._rotate(keep_old=wanted.keep_old, same_ids=wanted.same_kids)
        self.state = wanted
        return await self.describe()

    async def describe(self) -> Response:
        """Answer a test that asks what has happened."""
        await self._all_rings()
        return json_response(
            {
                "state": self.state.state,
                "kids": [key.key_id for ring in self._published for key in ring.values()],
                "counts": self.counts,
                "requests": list(self._requests),
                "exchanges": list(self._exchanges),
            }
        )

    async def _respond(self, recorded: RecordedRequest, path: str, issuer: str) -> Response:
        if path == TOKEN:
            return await self._exchange(recorded, issuer)
        if path == DISCOVERY:
            return self._cacheable(_discovery(issuer) | self.state.discovery)
        if path == FOREIGN_JWKS:
            return json_response(_key_set([await self._foreign_ring()]))
        await self._all_rings()
        if self.state.jwks is not None:
            return self._cacheable(self.state.jwks)
        return self._cacheable(_key_set([] if self.state.state == "empty" else self._published))

    async def _exchange(self, recorded: RecordedRequest, issuer: str) -> Response:
        """Answer a request for a token on behalf of somebody, and remember it."""
        await self._all_rings()
        record: dict[str, Any] = {"client_id": None, "subject": None, "error": None, "access_token": None}
        self._exchanges.append(record)
        try:
            request = read_grant_request(read_form(recorded), recorded)
            authentication = client_authentication(request)
            record |= {"client_id": request.client_id, "client_auth": authentication, "form": request.form}
            if self.state.error is not None:
                raise TokenRefusedError(self.state.error)
            granted = grant(request, lambda token: read_own_token(token, self._published, issuer, self.now()))
        except TokenRefusedError as refusal:
            record["error"] = refusal.code
            return token_error(refusal.code, refusal.status)
        fields = self._issue(granted, request, issuer)
        record |= {"subject": granted.subject, "access_token": fields["access_token"]}
        return UnaryResponse(dump_json(fields), headers=NO_STORE)

    def _issue(self, granted: Grant, request: GrantRequest, issuer: str) -> dict[str, Any]:
        """Make the token that was granted, and describe it as RFC 6749 5.1 and RFC 8693 2.2.1 do."""
        self._serial += 1
        seconds = self.state.expires_in
        if granted.is_signed:
            claims = exchanged_claims(granted, request, self._serial)
            wanted = WantedToken(claims=claims, expires_in=seconds)
            token = make_token(wanted, self._rings, self._rings[0], issuer, self.now())
        else:
            token = opaque_token(self.name, granted.subject, self._serial)
        self.add_token(token, seconds)
        issued = {} if granted.issued_type is None else {"issued_token_type": granted.issued_type}
        return {"access_token": token, **issued, "token_type": "Bearer", "expires_in": seconds}

    def _cacheable(self, document: object) -> Response:
        seconds = self.state.max_age
        headers = () if seconds is None else (("Cache-Control", f"public, max-age={seconds}"),)
        return UnaryResponse(dump_json(document), headers=headers)

    async def _all_rings(self) -> deque[KeyRing]:
        """Return the rings, and make the first one where there is none."""
        await self._lock.acquire()
        try:
            if not self._rings:
                self._rings.appendleft(await self.run(partial(make_ring, "1")))
                self._published = [self._rings[0]]
        finally:
            self._lock.release()
        return self._rings

    async def _foreign_ring(self) -> KeyRing:
        await self._lock.acquire()
        try:
            if self._foreign is None:
                self._foreign = await self.run(partial(make_ring, "foreign"))
        finally:
            self._lock.release()
        return self._foreign

    async def _rotate(self, *, keep_old: bool, same_ids: bool) -> None:
        """Take new keys; the old ones leave the key set unless they are kept."""
        newest = (await self._all_rings())[0]
        ids = newest["rsa"].key_id.partition("-")[2]
        await self._lock.acquire()
        try:
            made = await self.run(partial(make_ring, ids if same_ids else str(int(ids) + 1)))
            self._rings.appendleft(made)
            self._published = [made, *self._published] if keep_old else [made]
        finally:
            self._lock.release()


def _discovery(issuer: str) -> dict[str, Any]:
    return {
        "issuer": issuer,
        "jwks_uri": f"{issuer}/{JWKS}",
        "token_endpoint": f"{issuer}/{TOKEN}",
        "grant_types_supported": [TOKEN_EXCHANGE, JWT_BEARER],
        "response_types_supported": [],
        "subject_types_supported": ["public"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        "id_token_signing_alg_values_supported": list(KIND_OF_ALGORITHM),
    }


def _key_set(rings: list[KeyRing]) -> dict[str, list[dict[str, str]]]:
    return {"keys": [key.public_jwk() for ring in rings for key in ring.values()]}
