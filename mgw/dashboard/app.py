"""The dashboard as a handler of Twisted requests: which path leads to which part.

A part that is not there has no path.  What goes wrong is raised as a
:class:`~mgw.nouns.errors.GatewayError`, which whoever serves the request renders in OpenAI's shape.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import unquote

from twisted.web.server import Request

from mgw.config.settings import Config
from mgw.dashboard.access import Access
from mgw.dashboard.openapi import describe_api
from mgw.dashboard.responses import (
    EVENT_STREAM,
    NO_STORE,
    Answer,
    Query,
    body_of,
    query_of,
    send,
    send_json,
    send_nothing,
)
from mgw.dashboard.session_list import SessionChange
from mgw.dashboard.sign_in import SignIn
from mgw.dashboard.static import HOME, SIGN_IN, StaticFiles
from mgw.dashboard.try_it import TryIt
from mgw.nouns.errors import GatewayError, Reason
from mgw.routing.match import unknown_endpoint
from mgw.usage.record import SettledExchange

Handler = Callable[[Request], Awaitable[None]]
Methods = Mapping[bytes, Handler]
"""What a path takes; ``HEAD`` goes with ``GET``."""

_PAGE: Final = b"/ui"
_ASSETS: Final = b"/ui/assets/"
_API: Final = b"/v1/dashboard/"
_OAUTH: Final = _API + b"oauth/"
_API_HINT: Final = "; /v1/dashboard/openapi.json describes the endpoints, and the dashboard's page is at /ui"


class LoginFlows(Protocol):
    """Log-ins of accounts to their vendors, by the entry of the credential store that they fill."""

    async def begin(self, entry: str, body: Mapping[str, Any]) -> tuple[int, Answer]:  # Any: JSON
        """Begin a log-in or go on with one; return the status of the response and what it says.

        :raises GatewayError: for an unknown entry, or a body that says nothing sensible.
        """
        ...

    async def state(self, entry: str) -> Answer:
        """Say how a log-in is getting on.

        :raises GatewayError: ``UNKNOWN_ROUTE`` where there is none.
        """
        ...

    async def cancel(self, entry: str) -> None:
        """Give up a log-in.

        :raises GatewayError: ``UNKNOWN_ROUTE`` where there is none.
        """
        ...


@dataclass(slots=True)
class Dashboard:
    """The parts, and the table of what leads to them."""

    access: Access
    sign_in: SignIn
    files: StaticFiles
    profiles: Callable[[Query], Answer] | None = None
    requests: Callable[[Query], Awaitable[Answer]] | None = None
    sessions: Callable[[Query], Answer] | None = None
    logs: Callable[[Query], Answer] | None = None
    usage: Callable[[Query], Awaitable[Answer]] | None = None
    feed: Callable[[Request, Query], Awaitable[None]] | None = None
    """Writes events for as long as the client stays; sends its own head."""
    logins: LoginFlows | None = None
    try_it: TryIt | None = None
    before: Callable[[], Awaitable[None]] | None = None
    """Is awaited before profiles and sessions are answered: others may have to be asked."""
    on_session: Callable[[SessionChange], None] | None = None
    """Is told of a session of another process that was opened or closed."""
    on_config: Sequence[Callable[[Config], None]] = ()
    """Parts that are to know another configuration when it comes into use."""
    on_exchanges: Sequence[Callable[[Sequence[SettledExchange]], None]] = ()
    """Parts that are told of exchanges that have ended."""
    on_drain: Sequence[Callable[[], None]] = ()
    """Parts that are to end what would go on."""
    _open: dict[bytes, Methods] = field(init=False)
    """What checks by itself who may come in."""
    _closed: dict[bytes, Methods] = field(init=False)

    def __post_init__(self) -> None:
        self._open = {
            b"/ui/login": {b"POST": self.sign_in.login},
            b"/ui/logout": {b"POST": self.sign_in.logout},
        }
        if HOME in self.files and SIGN_IN in self.files:
            self._open[_PAGE] = {b"GET": self._page}
            self._open[_PAGE + b"/"] = {b"GET": _lead_to_page}
        for name in self.files.assets():
            self._open[_ASSETS + name.encode()] = {b"GET": self._asset}
        self._closed = {_API + name: {b"GET": handler} for name, handler in self._reads()}
        if self.try_it is not None:
            self._closed[_API + b"try"] = {b"POST": self.try_it.begin}

    def _reads(self) -> list[tuple[bytes, Handler]]:
        """Return what can be read, by the last word of its path."""
        found: list[tuple[bytes, Handler]] = []
        for name, part in ((b"profiles", self.profiles), (b"sessions", self.sessions)):
            if part is not None:
                found.append((name, self._refreshed(part)))
        if self.requests is not None:
            found.append((b"requests", _later(self.requests)))
        if self.logs is not None:
            found.append((b"logs", _at_once(self.logs)))
        if self.usage is not None:
            found.append((b"usage", _later(self.usage)))
        if self.feed is not None:
            found.append((b"events", _streamed(self.feed)))
        names = [name.decode() for name, _ in found]
        names += [name for name, part in (("oauth", self.logins), ("try", self.try_it)) if part is not None]
        description = describe_api(names)
        return [*found, (b"openapi.json", _at_once(lambda _: description))]

    def _refreshed(self, part: Callable[[Query], Answer]) -> Handler:
        async def handler(request: Request) -> None:
            if self.before is not None:
                await self.before()
            answer = part(query_of(request))
            if part is self.profiles and self.try_it is not None and not isinstance(answer, bytes):
                found = self.try_it.describe(request)
                answer = answer if found is None else {**answer, "try_it": found}
            send_json(request, answer)

        return handler

    def use(self, config: Config) -> None:
        """Follow another configuration from now on."""
        self.access.use(config)
        for follow in self.on_config:
            follow(config)

    def drain(self) -> None:
        """End what would go on for ever."""
        for end in self.on_drain:
            end()

    async def serve(self, request: Request) -> None:
        """Respond to a request.

        :raises GatewayError: what it is refused with.
        """
        methods = self._open.get(request.path)
        if methods is None:
            self.access.check(request)
            methods = self._closed.get(request.path) or self._of_entry(request.path)
        if methods is None:
            raise _unknown(request.path)
        method = b"GET" if request.method == b"HEAD" else request.method
        handler = methods.get(method)
        if handler is None:
            raise _wrong_method(request.method, methods)
        await handler(request)

    def _of_entry(self, path: bytes) -> Methods | None:
        """Return what the path of a log-in takes."""
        raw_entry, logins = path.removeprefix(_OAUTH), self.logins
        if logins is None or raw_entry == path or not raw_entry or b"/" in raw_entry:
            return None
        entry = unquote(raw_entry.decode("latin-1"))

        async def begin(request: Request) -> None:
            status, answer = await logins.begin(entry, body_of(request))
            send_json(request, answer, status)

        async def state(request: Request) -> None:
            send_json(request, await logins.state(entry))

        async def cancel(request: Request) -> None:
            await logins.cancel(entry)
            send_nothing(request)

        return {b"POST": begin, b"GET": state, b"DELETE": cancel}

    async def _page(self, request: Request) -> None:
        """Send the page, or the one to sign in with."""
        try:
            self.access.check(request)
        except GatewayError as error:
            if error.reason is not Reason.EDGE_KEY or not self.access.has_keys:
                raise
            self.files.send_page(request, SIGN_IN, 401)
        else:
            self.files.send_page(request, HOME)

    async def _asset(self, request: Request) -> None:
        self.files.send_asset(request, request.path.removeprefix(_ASSETS).decode())


async def _lead_to_page(request: Request) -> None:
    """Lead who has added a slash to the page; whether it may be seen, the page says."""
    _, mark, query = request.uri.partition(b"?")
    where = b"../ui" + mark + query  # relative: a proxy may add a path
    send_nothing(request, 308, [NO_STORE, (b"Location", where)])


def _unknown(path: bytes) -> GatewayError:
    more = _API_HINT if path.rstrip(b"/") == _API.rstrip(b"/") else ""
    return unknown_endpoint(path.decode("latin-1"), more)


def _at_once(part: Callable[[Query], Answer]) -> Handler:
    async def handler(request: Request) -> None:
        send_json(request, part(query_of(request)))

    return handler


def _later(part: Callable[[Query], Awaitable[Answer]]) -> Handler:
    async def handler(request: Request) -> None:
        send_json(request, await part(query_of(request)))

    return handler


def _streamed(part: Callable[[Request, Query], Awaitable[None]]) -> Handler:
    async def handler(request: Request) -> None:
        if request.method == b"HEAD":
            send(request, 200, EVENT_STREAM, b"")
        else:
            await part(request, query_of(request))

    return handler


def _wrong_method(method: bytes, methods: Methods) -> GatewayError:
    allow = sorted(name.decode() for name in methods)
    if "GET" in allow:
        allow.append("HEAD")
    message = f"this path takes {', '.join(allow)}, not {method.decode('latin-1')[:32]}"
    return GatewayError(Reason.WRONG_METHOD, message, allow=tuple(allow))
