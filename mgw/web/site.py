"""The door behind the channel: from the head of a request to its visit.

In this order: the row of the route table, edge auth, the exchange, drain, the limits on the body.  Whatever
fails is answered in the dialect that the route, or else the path, suggests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from os import urandom
from typing import Final, Protocol, cast

from klein import Klein
from twisted.internet.interfaces import IReactorTime

from mgw.bodies.budget import BodyBudget
from mgw.bodies.spool import Spool
from mgw.dialects.refusal import word_of
from mgw.errors import GatewayError, Reason
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import Offload, run_inline
from mgw.exchange.pipeline import not_implemented
from mgw.generation import Generation
from mgw.http.request_head import RequestHead
from mgw.routing.match import MatchedRoute
from mgw.routing.route import Treatment, UrlRewrite
from mgw.routing.routes import OPEN_ROUTES
from mgw.usage.event import UsageEvent
from mgw.vocabulary import DialectName
from mgw.web.answers import refuse
from mgw.web.app import endpoint_of
from mgw.web.channel import GatewayChannel, Visit
from mgw.web.edge_auth import Caller, EdgeGate, Upload
from mgw.web.request import GatewayRequest
from mgw.web.visit import ChannelClient, RequestVisit
from mgw.wire.target import split_target


class Witness(Protocol):
    """Whoever counts and logs what happens at the door."""

    def record(self, event: UsageEvent) -> None:
        """Take the usage event of an exchange."""
        ...

    def access(
        self,
        method: str | None,
        raw_path: str | None,
        status: int,
        seconds: float,
        request_id: str,
        error: str | None = None,
    ) -> None:
        """Take the end of any logged request; ``None`` where it could not be read so far."""
        ...

    def edge_rejected(self) -> None:
        """Count a request without a fitting key."""
        ...

    def malformed(self) -> None:
        """Count an input that is no HTTP."""
        ...


@dataclass(slots=True)
class Refused:
    """The visit of a request that was refused at its head: nothing of its body is looked at."""

    def on_body_data(self, data: bytes) -> None:
        """Ignore the rest."""

    def on_body_end(self) -> None:
        """Ignore the end."""

    def left(self) -> None:
        """The client has gone; it has had its answer."""

    def too_slow(self) -> None:
        """The answer is given already."""

    def broken(self, error: GatewayError) -> None:
        """The answer is given already."""


_REFUSED: Final = Refused()


@dataclass(slots=True)
class Site:
    """One gateway's door, whatever number of listeners lead to it."""

    generation: Generation
    """The current one; a reload replaces it."""
    app: Klein
    clock: IReactorTime
    wall: Callable[[], float]
    witness: Witness
    budget: BodyBudget
    """Of bodies in memory."""
    spool: Spool
    """Keeps large bodies on disk."""
    gate: EdgeGate
    offload: Offload = run_inline
    """Does what large bodies cost."""
    draining: bool = False
    on_idle: Callable[[], None] | None = None
    """Called when the last visit ends."""
    _open: dict[int, RequestVisit] = field(default_factory=dict)

    @property
    def in_flight(self) -> int:
        """How many requests are under way."""
        return len(self._open)

    def use(self, generation: Generation) -> None:
        """Serve new requests with another configuration; those under way keep theirs."""
        before, self.generation = self.generation, generation
        self.gate = EdgeGate(generation.config.edge_auth)
        spool = generation.config.spool
        self.budget.max_bytes = spool.body_memory
        self.spool.disk.max_bytes, self.spool.directory = spool.body_disk, spool.dir
        if before is not generation:
            before.retire()

    def open(self, channel: GatewayChannel, head: RequestHead) -> Visit:
        """Take a request whose head is complete."""
        request_id = f"req_{urandom(12).hex()}"
        raw_path, raw_query = split_target(head.target)
        path = raw_path.decode("latin-1")
        table = self.generation.table
        matched: MatchedRoute | GatewayError
        try:
            matched = table.match(head.method.decode("latin-1"), path, raw_query, head.headers)
            dialect = matched.route.dialect
        except GatewayError as error:
            matched, dialect = error, table.dialect_of(path, raw_query, head.headers)
        try:
            caller = self._admit(matched, dialect, head, raw_query)
            if isinstance(matched, GatewayError):  # only now: who has no key learns nothing of what is served
                raise _no_websocket(path) if _is_wrong_upgrade(matched, head) else matched
        except GatewayError as error:
            refuse(ChannelClient(channel, _nothing), error, dialect, request_id, self.wall())
            method = head.method.decode("latin-1")
            self.witness.access(method, path, error.status, 0.0, request_id, word_of(error))
            return _REFUSED
        exchange = None
        if matched.route.treatment is not Treatment.LOCAL:
            record = self.witness.record
            exchange = Exchange(request_id, matched.route, self.generation, self.clock, record, self.wall())
        visit = RequestVisit(self, channel, head, request_id, matched, caller, exchange, raw_path)
        self._open[id(visit)] = visit
        try:
            self._begin(visit)
        except GatewayError as error:
            visit.refuse(error)
        return visit

    def refused(self, channel: GatewayChannel, error: GatewayError, target: bytes | None) -> None:
        """Answer what is no HTTP, or has a head too large or too slow; the channel then closes."""
        self.witness.malformed()
        path = ""
        if target is not None and target.startswith(b"/"):  # another form may hold a user's password
            path = split_target(target)[0].decode("latin-1")
        request_id = f"req_{urandom(12).hex()}"
        dialect = self.generation.table.dialect_of(path, None, [])
        refuse(ChannelClient(channel, _nothing), error, dialect, request_id, self.wall())
        self.witness.access(None, path or None, error.status, 0.0, request_id, word_of(error))

    def execute(self, visit: RequestVisit) -> Awaitable[None]:
        """Run the Klein endpoint of a visit's route."""
        request = GatewayRequest(visit.channel, visit.head, b"")
        request.visit = visit
        answered = self.app.execute_endpoint(endpoint_of(visit.matched.route), request)
        return cast(Awaitable[None], answered)  # Klein's type is wider; app.py's endpoints are coroutines

    def ended(self, visit: RequestVisit, status: int) -> None:
        """A visit is over."""
        self._open.pop(id(visit), None)
        self.witness.access(
            visit.head.method.decode("latin-1"),
            visit.raw_path.decode("latin-1"),
            status,
            self.clock.seconds() - visit.started,
            visit.request_id,
            visit.error,
        )
        if not self._open and self.on_idle is not None:
            self.on_idle()

    def cut(self) -> None:
        """End every request under way."""
        for visit in list(self._open.values()):
            visit.cut()

    def _begin(self, visit: RequestVisit) -> None:
        if self.draining and visit.exchange is not None:
            raise GatewayError(
                Reason.DRAINING, "the gateway is shutting down; try another instance", retry_after=1.0
            )
        if visit.matched.fault is not None:
            raise visit.matched.fault
        if visit.head.upgrade is not None and visit.matched.route.treatment is not Treatment.REALTIME:
            raise _no_websocket(visit.matched.route.path)
        if visit.matched.route.treatment is Treatment.REFUSE:
            raise not_implemented(visit.matched.route.path)
        visit.invite()

    def _admit(
        self,
        matched: MatchedRoute | GatewayError,
        dialect: DialectName,
        head: RequestHead,
        raw_query: bytes | None,
    ) -> Caller:
        if isinstance(matched, MatchedRoute) and matched.route.name in OPEN_ROUTES:
            return Caller(None, None, head.headers)
        upload = None
        if isinstance(matched, MatchedRoute) and matched.route.url_rewrite is UrlRewrite.UPLOAD_URL:
            upload = Upload(split_target(head.target)[0], self.wall())
        try:
            return self.gate.admit(dialect.family, head.headers, raw_query, upload)
        except GatewayError:
            self.witness.edge_rejected()
            raise


def _is_wrong_upgrade(refused: GatewayError, head: RequestHead) -> bool:
    """Whether a path that is served, but to no GET, was asked for a WebSocket: Codex falls back at a 426."""
    return refused.reason is Reason.WRONG_METHOD and head.upgrade is not None


def _no_websocket(path: str) -> GatewayError:
    message = f"{path} is not available over WebSocket: send an ordinary HTTP request"
    return GatewayError(Reason.NO_WEBSOCKET, message)


def _nothing() -> None:
    """There is no body to let go of."""
