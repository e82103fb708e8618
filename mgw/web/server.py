"""The server behind the channels: turns a request head into a ``ServerRequest``.

In this order: the row of the route table, edge auth, the exchange, drain, the limits on the body.  Whatever
fails is refused in the dialect that the route, or else the path, suggests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final

from twisted.internet.interfaces import IReactorTime

from mgw.bodies.budget import BodyBudget, Reservation
from mgw.bodies.spool import Spool
from mgw.clients.client import ClientRegistry
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.dialects.refusal import word_of
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import Offload, run_inline
from mgw.exchange.planning import not_implemented
from mgw.exchange.untold import Estimates
from mgw.generation import Generation
from mgw.http.head_key import HeadKey
from mgw.http.request_head import RequestHead
from mgw.memo.known_head import Caller, KnownHead, known_head_of
from mgw.nouns.errors import GatewayError, Reason, forget_frames
from mgw.nouns.key_state import EndedKeyError
from mgw.nouns.token_flaw import TokenFlaw
from mgw.nouns.token_refusal import TokenRefusedError
from mgw.nouns.vocabulary import DialectName
from mgw.reactor.deadline import TimerWheel
from mgw.realtime.sessions import Sessions
from mgw.routing.match import MatchedRoute
from mgw.routing.route import Treatment
from mgw.routing.routes import GUARDED_ROUTES, OPEN_ROUTES, PREFLIGHT
from mgw.usage.record import EndedRequest
from mgw.usage.trace_context import trace_context_of
from mgw.web.channel import GatewayChannel
from mgw.web.cors import CorsResponse, CorsRules, cors_rules
from mgw.web.edge_auth import EdgeGate, Upload
from mgw.web.interfaces import OpenRequest, RequestObserver, RequestReceiver
from mgw.web.keyless import KeylessRules
from mgw.web.late_rows import LateRows
from mgw.web.pending_keys import PendingKeysError
from mgw.web.refused_request import REFUSED, draining_refusal, no_websocket, only_websocket
from mgw.web.request_ids import RequestIds
from mgw.web.server_request import LocalApp, ServerRequest, own_address
from mgw.web.server_response import ServerResponse, send_refusal
from mgw.web.try_it import TryItGate, try_it_gate
from mgw.web.upgrade import UpgradeRequest, split_subprotocols
from mgw.web.waiting_request import WaitingRequest
from mgw.wire.headers import value_of
from mgw.wire.target import split_target

if TYPE_CHECKING:
    from mgw.web.token_gate import TokenGate  # imported where there are issuers


_KEYLESS_ROUTES: Final = OPEN_ROUTES | {PREFLIGHT.name}
_COOKIE: Final = frozenset({b"Cookie", b"cookie"})
"""The spellings of browsers and proxies: strangers may ask often, and comparing with two costs no call."""


def _no_tokens(_: EdgeAuthSettings) -> None:
    """There are no issuers."""


@dataclass(slots=True, eq=False, repr=False)
class WebServer:
    """Serves the requests of one gateway, whatever number of listeners it has."""

    generation: Generation
    """The current one; a reload replaces it."""
    app: LocalApp
    """Answers the rows that the gateway serves itself."""
    clock: IReactorTime
    wall: Callable[[], float]
    observer: RequestObserver
    budget: BodyBudget
    """The memory that request bodies may take."""
    spool: Spool
    """It keeps large bodies on disk."""
    gate: EdgeGate
    registry: ClientRegistry
    """The clients with limits, whose use outlives a configuration."""
    make_token_gate: Callable[[EdgeAuthSettings], TokenGate | None] = _no_tokens
    """It returns what checks tokens of the issuers of a configuration, if there are any."""
    monotonic: Callable[[], float] = monotonic
    """Seconds on a clock that nobody sets."""
    offload: Offload = run_inline
    """It does the work on large bodies."""
    estimates: Estimates | None = None
    """Makes the estimates of tokens that nobody tells; ``None``: there are none."""
    request_ids: RequestIds = field(default_factory=RequestIds)
    sessions: Sessions = field(default_factory=lambda: Sessions(1024))
    draining: bool = False
    on_idle: Callable[[], None] | None = None
    """It is called when the last request ends."""
    late_rows: LateRows = field(default_factory=LateRows)
    """Requests that have ended whose usage events are not complete yet."""
    wheel: TimerWheel = field(init=False)
    """It keeps the deadlines of requests."""
    _requests: dict[OpenRequest, None] = field(default_factory=dict)
    """The requests in progress, the oldest first."""
    _waiting: set[WaitingRequest] = field(default_factory=set)
    """Those that wait for keys of issuers, and have not begun."""
    find_head: Callable[[bytes], KnownHead | None] = field(init=False)
    """It returns what is known of a head, by its key."""
    _cors: CorsRules | None = field(init=False)
    """The rules for pages of other origins; ``None`` if none is allowed."""
    _keyless: KeylessRules | None = field(init=False)
    """The rules for browsers on this machine; ``None`` with edge auth."""
    _try_it: TryItGate | None = field(init=False)
    """It lets the dashboard's page send requests; ``None`` if that is off."""

    def __post_init__(self) -> None:
        self.wheel = TimerWheel(self.clock)
        self.spool.hashes = self.generation.signs
        self._use_memory()
        self._cors = cors_rules(self.generation.config.cors)
        self._keyless = self._keyless_rules()
        self._try_it = try_it_gate(self.generation.config, self.gate.find_client, self.wall)

    @property
    def in_flight(self) -> int:
        """How many requests are in progress."""
        return len(self._requests)

    @property
    def requests(self) -> list[OpenRequest]:
        """The requests in progress, the oldest first."""
        return list(self._requests)

    @property
    def exchanges(self) -> list[Exchange]:
        """The exchanges in progress, the oldest first."""
        return [request.exchange for request in self._requests if request.exchange is not None]

    @property
    def facts(self) -> dict[str, bool | int]:
        """Return in numbers how busy it is, as the dashboard names them."""
        return {
            "draining": self.draining,
            "in_flight": len(self.exchanges),
            "sessions": self.sessions.count,
            "max_sessions": self.sessions.max_sessions,
        }

    def use(self, generation: Generation) -> None:
        """Serve new requests with another configuration; those under way keep theirs."""
        before, self.generation = self.generation, generation
        config = generation.config
        tokens = self.make_token_gate(config.edge_auth)
        self.gate = EdgeGate(config.edge_auth, self.registry, config.dashboard.keys, self.wall, tokens)
        self._cors = cors_rules(config.cors)
        self._keyless = self._keyless_rules()
        self._try_it = try_it_gate(config, self.gate.find_client, self.wall)
        self._use_memory()  # known heads were let in by the keys and routes of before
        self.sessions.use(generation.config.realtime.max_sessions)
        spool = generation.config.spool
        self.budget.max_bytes = spool.body_memory
        self.spool.disk.max_bytes, self.spool.directory = spool.body_disk, spool.dir
        self.spool.hashes = generation.signs
        if before is not generation:
            before.retire()

    def _use_memory(self) -> None:
        """Take what is remembered under the generation, but for heads that another gate has let in."""
        memo = self.generation.memo
        memo.forget_heads()
        self.find_head = memo.find_head  # bound here: one call less for every request
        self.gate.on_learned = memo.forget_heads  # a head may hold the key where none belongs

    def drain(self) -> None:
        """Refuse new requests from now on, and those that wait for keys."""
        self.draining = True
        for waiting in list(self._waiting):
            waiting.go_on()

    def on_request(
        self, channel: GatewayChannel, head: RequestHead, key: HeadKey | None = None, *, waited: bool = False
    ) -> RequestReceiver:
        """Take a request whose head is complete; ``waited``: for the keys of an issuer."""
        raw_path, raw_query = split_target(head.target)
        path = raw_path.decode("latin-1")
        table, cors = self.generation.table, self._cors
        preflight = None if cors is None else cors.match_preflight(head, raw_path, table)
        matched: MatchedRoute | GatewayError
        try:
            matched = preflight or table.match(head.method.decode("latin-1"), path, raw_query, head.headers)
            dialect = matched.route.dialect
        except GatewayError as error:
            matched, dialect = error, table.dialect_of(path, raw_query, head.headers)
        try:
            caller = self._authenticate(matched, dialect, head, raw_query, channel)
            if self._keyless is not None and not self._keyless.admit(matched, head, channel.peer):
                key = None  # what is known of a head holds for every peer
            if isinstance(matched, GatewayError):  # only now: who has no key learns nothing of what is served
                raise no_websocket(path) if _is_wrong_upgrade(matched, head) else matched
        except GatewayError as error:
            if isinstance(error, PendingKeysError):
                return self._hold_back(channel, head, key, dialect, error, waited=waited)
            return self._refuse_head(channel, error, dialect, head, raw_path)
        of_page = None if cors is None else cors.find(head, raw_path, matched)
        known = known_head_of(head, matched, caller, raw_path, self.generation.config.max_body_bytes, of_page)
        if matched.route.treatment is Treatment.REALTIME and head.upgrade is not None:
            return self._open_session(channel, known)
        request = self._open(channel, known, head.content_length)
        try:
            self._check(request)
            if key is not None and request.exchange is not None:
                self.generation.memo.keep_head(key, known)  # after the check, which known heads skip
            if caller.client is not None and request.exchange is not None:
                request.exchange.acquire_permit(request.on_limit)
            request.admit_body()
        except GatewayError as error:
            request.refuse(error)
        return request

    def on_known_request(
        self, channel: GatewayChannel, known: KnownHead, key: HeadKey
    ) -> RequestReceiver | None:
        """Take a request whose head is known, and was found in order."""
        (head_key, _, content_length, values), caller = key, known.caller
        # A head is remembered with the key or token that let it in, and must not outlive either.
        until = caller.known_until
        if until is not None and (self.wall() >= until or self.monotonic() >= caller.known_ends):
            self.generation.memo.forget_head(head_key)
            return None
        if values:
            if self.gate.repeats_key(values):
                return None
            known = known.with_values(values)
        request = self._open(channel, known, content_length)
        try:
            if self.draining:
                raise draining_refusal()
            client = caller.client
            if client is not None and client.counts is not None and request.exchange is not None:
                request.exchange.acquire_permit(request.on_limit)
            if content_length > known.max_body_bytes:
                request.check_length(content_length)
        except GatewayError as error:
            request.refuse(error)
        return request

    def _hold_back(
        self,
        channel: GatewayChannel,
        head: RequestHead,
        key: HeadKey | None,
        dialect: DialectName,
        error: PendingKeysError,
        *,
        waited: bool,
    ) -> RequestReceiver:
        """Look at a head again when the keys of an issuer are there; refuse it if that was not enough."""
        forget_frames(error)  # one of them has the error
        if waited or self.draining:
            self._count_token(error)
            refusal = draining_refusal() if self.draining else error
            return self._refuse_head(channel, refusal, dialect, head, split_target(head.target)[0])
        if error.ready.called:
            return self.on_request(channel, head, key, waited=True)
        waiting = WaitingRequest(channel, head, key, self._waiting.discard)
        self._waiting.add(waiting)
        waiting.wait(error.ready)
        return waiting

    def _open(self, channel: GatewayChannel, known: KnownHead, content_length: int | None) -> ServerRequest:
        request_id, exchange, route = self.request_ids.take(), None, known.matched.route
        if not route.is_local:
            client, wall = known.caller.client, self.wall()
            exchange = Exchange(request_id, route, self.generation, self.clock, self.wheel, wall, client)
            if route.url_rewrite is not None:  # which a known head does not say: it depends on the connection
                config, headers = self.generation.config, known.head.headers
                exchange.own_address = own_address(config, headers, channel.peer, secure=channel.is_secure)
            if self.generation.reads_trace:
                # The head may be an earlier one that differs in just these lines.
                exchange.trace = trace_context_of(known.client_request.headers)
        request = ServerRequest(self, channel, known, request_id, exchange, content_length)
        self._requests[request] = None
        return request

    def _open_session(self, channel: GatewayChannel, known: KnownHead) -> UpgradeRequest:
        request_id, client = self.request_ids.take(), known.caller.client
        route, wall = known.matched.route, self.wall()
        exchange = Exchange(request_id, route, self.generation, self.clock, self.wheel, wall, client)
        if self.generation.reads_trace:
            exchange.trace = trace_context_of(known.head.headers)
        exchange.offload, exchange.estimates = self.offload, self.estimates
        request = UpgradeRequest(self, channel, known, request_id, exchange)
        self._requests[request] = None
        try:
            self._check(request)
            self._check_origin(known)
            exchange.acquire_permit()
        except GatewayError as error:
            request.refuse(error)
        return request

    def on_malformed_request(
        self, channel: GatewayChannel, error: GatewayError, target: bytes | None
    ) -> None:
        """Refuse what is not HTTP, or has a head too large or too slow; the channel then closes."""
        self.observer.malformed()
        raw_path = b""
        if target is not None and target.startswith(b"/"):  # another form may hold a user's password
            raw_path = split_target(target)[0]
        dialect = self.generation.table.dialect_of(raw_path.decode("latin-1"), None, [])
        self._refuse_head(channel, error, dialect, None, raw_path or None)

    def on_request_end(self, request: OpenRequest, status: int) -> None:
        """A request has ended."""
        del self._requests[request]
        known, exchange = request.known, request.exchange
        ended = EndedRequest(
            self.wall(),
            known.head.method,
            known.raw_path,
            status,
            self.clock.seconds() - request.started,
            request.request_id,
            request.failure if exchange is None else exchange.error,
            None if exchange is None else exchange.row,
        )
        if exchange is not None and exchange.is_row_pending:
            self.late_rows.add(exchange, ended, self.observer.record)
        else:
            self.observer.record(ended)
        if not self._requests and self.on_idle is not None:
            self.on_idle()

    def abort_requests(self) -> None:
        """End every request under way."""
        for request in list(self._requests):
            request.abort()

    def _refuse_head(
        self,
        channel: GatewayChannel,
        error: GatewayError,
        dialect: DialectName,
        head: RequestHead | None,
        raw_path: bytes | None,
    ) -> RequestReceiver:
        """Refuse a request at its head; return what receives the rest of it."""
        request_id, wall, word = self.request_ids.take(), self.wall(), word_of(error)
        cors, method, memory = None, None, Reservation(self.budget)
        if head is not None:
            method = head.method
            if self._cors is not None:
                cors = self._cors.find(head, raw_path or b"")
        response = (
            ServerResponse(channel, memory) if cors is None else CorsResponse(channel, memory, cors=cors)
        )
        send_refusal(response, error, dialect, request_id, wall)
        self.observer.record(EndedRequest(wall, method, raw_path, error.status, 0.0, request_id, word))
        forget_frames(error)
        return REFUSED

    def _check(self, request: OpenRequest) -> None:
        matched, head = request.known.matched, request.known.head
        if self.draining and request.exchange is not None:
            raise draining_refusal()
        if matched.fault is not None:
            raise matched.fault
        is_session = matched.route.treatment is Treatment.REALTIME
        if head.upgrade is not None and not is_session:
            raise no_websocket(matched.route.path)
        if is_session and (head.upgrade is None or head.has_body):
            raise only_websocket(matched.route.path)
        if matched.route.treatment is Treatment.REFUSE:
            raise not_implemented(matched.route.path)

    def _check_origin(self, known: KnownHead) -> None:
        """Refuse pages that the operator does not know, unless they have a key (contract 10.7)."""
        config, origin = self.generation.config, value_of(known.head.headers, b"origin")
        if origin is None or config.edge_auth.enabled:
            return
        allowed = config.realtime.origins
        if "*" not in allowed and origin.decode("latin-1").lower() not in allowed:
            self.observer.edge_rejected("origin")
            message = "pages from this origin may not open sessions: add the origin to realtime.origins"
            raise GatewayError(Reason.ORIGIN, message)

    def _keyless_rules(self) -> KeylessRules | None:
        config = self.generation.config
        return None if config.edge_auth.enabled else KeylessRules(config, self.observer.edge_rejected)

    def _authenticate(
        self,
        matched: MatchedRoute | GatewayError,
        dialect: DialectName,
        head: RequestHead,
        raw_query: bytes | None,
        channel: GatewayChannel,
    ) -> Caller:
        family, upload = None, None
        if isinstance(matched, MatchedRoute):
            family = matched.route.family
            is_guarded = matched.route.name in GUARDED_ROUTES and matched.fault is None
            if is_guarded or matched.route.name in _KEYLESS_ROUTES:
                return Caller(None, None, head.headers)
            if matched.route.is_upload:
                upload = Upload(split_target(head.target)[0], self.wall())
        headers, carried = head.headers, None
        if head.upgrade is not None:
            headers, _, carried = split_subprotocols(headers)
        try:
            return self.gate.admit(family or dialect.family, headers, raw_query, upload, carried)
        except GatewayError as error:
            try_it = self._try_it
            has_cookie = try_it is not None and not _COOKIE.isdisjoint(dict(headers))
            if has_cookie and try_it is not None and isinstance(matched, MatchedRoute):
                peer, tls = channel.peer, channel.is_secure
                client = try_it.find_client(matched, head, raw_query, peer, tls=tls)
                if client is not None:
                    forget_frames(error)
                    return self.gate.admit(matched.route.family, headers, raw_query, client)
            if not isinstance(error, TokenRefusedError):
                self.observer.edge_rejected(error.state.value if isinstance(error, EndedKeyError) else "key")
            elif not isinstance(error, PendingKeysError):
                self._count_token(error)
            raise

    def _count_token(self, error: TokenRefusedError) -> None:
        """Count a request whose token opens nothing."""
        self.observer.edge_rejected("rule" if error.flaw is TokenFlaw.NO_RULE else "token")
        self.observer.token_rejected(error.issuer, error.flaw)


def _is_wrong_upgrade(refused: GatewayError, head: RequestHead) -> bool:
    """Whether a path that is served, but to no GET, was asked for a WebSocket: Codex falls back at a 426."""
    return refused.reason is Reason.WRONG_METHOD and head.upgrade is not None
