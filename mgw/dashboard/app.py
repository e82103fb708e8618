"""The dashboard as a resource tree of Klein: its page, its API, and who may ask for what.

Paths are compared as they were sent, so that no other spelling of one is taken for it; what stands for a
parameter is decoded.  What goes wrong is raised as a :class:`~mgw.nouns.errors.GatewayError`, which whoever
serves the request renders in OpenAI's shape.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final
from urllib.parse import unquote

from msgspec import to_builtins
from twisted.python.failure import Failure
from twisted.web.iweb import IRequest
from twisted.web.server import Request
from werkzeug.exceptions import MethodNotAllowed, NotFound

from mgw.clients.key_rows import KeyRow
from mgw.config.settings import Config
from mgw.dashboard.access import SAFE_METHODS, Access
from mgw.dashboard.limits import DashboardLimits
from mgw.dashboard.live import LiveParts
from mgw.dashboard.logins import Logins
from mgw.dashboard.openapi import describe_api
from mgw.dashboard.profiles import Profiles
from mgw.dashboard.request_list import DashboardRequests
from mgw.dashboard.responses import EVENT_STREAM, NO_STORE, body_of, query_of, send, send_json, send_nothing
from mgw.dashboard.sign_in import SignIn
from mgw.dashboard.static import HOME, SIGN_IN, StaticFiles
from mgw.dashboard.try_it import TryIt
from mgw.dashboard.usage import DashboardUsage
from mgw.nouns.errors import GatewayError, Reason
from mgw.reactor.resource_tree import ResourceTree
from mgw.routing.match import unknown_endpoint

_API: Final = "/v1/dashboard"
_ENTRY: Final = f"{_API}/oauth/<entry>"
_ASSETS: Final = "/ui/assets/"
_OPEN: Final = frozenset({"/ui", "/ui/", "/ui/login", "/ui/logout"})
"""What checks by itself who may come in, as do the files of the page: these nobody has to check."""
_OF_SIGN_IN: Final = frozenset({Reason.EDGE_KEY, Reason.INVALID_TOKEN, Reason.ACCESS_DENIED})
"""Refusals in place of which a browser gets the page to sign in with."""
_API_HINT: Final = "; /v1/dashboard/openapi.json describes the endpoints, and the dashboard's page is at /ui"


@dataclass(slots=True)
class Dashboard:
    """The parts of the dashboard, and the endpoints that lead to them.

    :param refresh: asks other processes for what they have; ``None``: there are none.
    """

    app: ClassVar[ResourceTree] = ResourceTree()
    access: Access
    sign_in: SignIn
    files: StaticFiles
    profiles: Profiles
    requests: DashboardRequests
    usage: DashboardUsage
    live: LiveParts
    logins: Logins
    try_it: TryIt
    limits: DashboardLimits
    keys: Callable[[], Sequence[KeyRow]]
    refresh: Callable[[], Awaitable[None]] | None = None
    _tree: ResourceTree = field(init=False)
    _open: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._tree = self.app
        self._open = _OPEN | {_ASSETS + name for name in self.files.assets()}

    async def serve(self, request: Request) -> None:
        """Respond to a request.

        :raises GatewayError: what it is refused with.
        """
        path = request.path.decode("ascii")
        await self.access.wait_for_keys(request)
        if path not in self._open:  # first: who has no key learns nothing of what is served
            self.access.check(request)
        await self._tree.serve(request, path)

    @app.route("/ui", methods=["GET"])
    def page(self, request: Request) -> None:
        """Send the page, or the one to sign in with."""
        try:
            self.access.check(request)
        except GatewayError as error:
            if error.reason not in _OF_SIGN_IN or not self.access.has_keys:
                raise
            self.files.send_page(request, SIGN_IN, 401)
        else:
            self.files.send_page(request, HOME)

    @app.route("/ui/", methods=["GET"])
    def lead_to_page(self, request: Request) -> None:
        """Lead who has added a slash to the page; whether it may be seen, the page says."""
        _, mark, query = request.uri.partition(b"?")
        where = b"../ui" + mark + query  # relative: a proxy may add a path
        send_nothing(request, 308, [NO_STORE, (b"Location", where)])

    @app.route(f"{_ASSETS}<path:name>")
    def asset(self, request: Request, name: str) -> None:
        """Send what the page is made of; what is not among it takes no method at all."""
        if _ASSETS + name not in self._open:
            raise NotFound
        if request.method not in SAFE_METHODS:
            raise MethodNotAllowed(["GET"])
        self.files.send_asset(request, name)

    @app.route("/ui/login", methods=["POST"])
    async def login(self, request: Request) -> None:
        """Begin a session of a browser."""
        await self.sign_in.login(request)

    @app.route("/ui/logout", methods=["POST"])
    def logout(self, request: Request) -> None:
        """End the session of a browser."""
        self.sign_in.logout(request)

    @app.route(f"{_API}/profiles", methods=["GET"])
    async def read_profiles(self, request: Request) -> None:
        """Send the gateway, its providers, aliases, models and logins."""
        await self._ask_others()
        answer, found = self.profiles.answer(query_of(request)), self.try_it.describe(request)
        send_json(request, answer if found is None else {**answer, "try_it": found})

    @app.route(f"{_API}/sessions", methods=["GET"])
    async def read_sessions(self, request: Request) -> None:
        """Send the open realtime sessions."""
        await self._ask_others()
        send_json(request, self.live.answer_sessions(query_of(request)))

    @app.route(f"{_API}/requests", methods=["GET"])
    async def read_requests(self, request: Request) -> None:
        """Send the requests in progress, and those that have completed."""
        send_json(request, await self.requests.answer(query_of(request)))

    @app.route(f"{_API}/usage", methods=["GET"])
    async def read_usage(self, request: Request) -> None:
        """Send totals of usage events."""
        send_json(request, await self.usage.answer(query_of(request)))

    @app.route(f"{_API}/limits", methods=["GET"])
    async def read_limits(self, request: Request) -> None:
        """Send what is used of limits that last longer than a minute."""
        send_json(request, await self.limits.answer(query_of(request)))

    @app.route(f"{_API}/keys", methods=["GET"])
    def read_keys(self, request: Request) -> None:
        """Send the gateway keys with names, none of which is told."""
        query_of(request)
        send_json(request, {"keys": list(map(to_builtins, self.keys()))})

    @app.route(f"{_API}/logs", methods=["GET"])
    def read_logs(self, request: Request) -> None:
        """Send the last lines of the process log."""
        send_json(request, self.live.answer_logs(query_of(request)))

    @app.route(f"{_API}/events", methods=["GET"])
    async def read_events(self, request: Request) -> None:
        """Send events as they happen, for as long as the client stays."""
        if request.method == b"HEAD":
            send(request, 200, EVENT_STREAM, b"")
        else:
            await self.live.serve_events(request, query_of(request))

    @app.route(f"{_API}/openapi.json", methods=["GET"])
    def read_description(self, request: Request) -> None:
        """Send the description of this API."""
        query_of(request)
        send_json(request, describe_api())

    @app.route(_ENTRY, methods=["POST"])
    async def begin_login(self, request: Request, entry: str) -> None:
        """Begin a log-in of an account to its vendor, or go on with one."""
        status, answer = await self.logins.begin(unquote(entry), body_of(request))
        send_json(request, answer, status)

    @app.route(_ENTRY, methods=["GET"])
    async def read_login(self, request: Request, entry: str) -> None:
        """Say how a log-in is getting on."""
        send_json(request, await self.logins.state(unquote(entry)))

    @app.route(_ENTRY, methods=["DELETE"])
    async def cancel_login(self, request: Request, entry: str) -> None:
        """Give up a log-in."""
        await self.logins.cancel(unquote(entry))
        send_nothing(request)

    @app.route(f"{_API}/try", methods=["POST"])
    def begin_try(self, request: Request) -> None:
        """Set the cookie with which the page may send a request to a model."""
        self.try_it.begin(request)

    @app.handle_errors(NotFound)
    def on_unknown_path(self, request: IRequest, failure: Failure) -> None:  # noqa: ARG002  Klein's signature
        """Say that there is no such endpoint."""
        path = request.path.decode("ascii")
        raise unknown_endpoint(path, _API_HINT if path.rstrip("/") == _API else "")

    @app.handle_errors(MethodNotAllowed)
    def on_wrong_method(self, request: IRequest, failure: Failure) -> None:
        """Say which methods a path takes."""
        assert isinstance(failure.value, MethodNotAllowed)
        allow = sorted({*(failure.value.valid_methods or ())} - {"HEAD"})
        if "GET" in allow:
            allow.append("HEAD")
        message = f"this path takes {', '.join(allow)}, not {request.method.decode('ascii')[:32]}"
        raise GatewayError(Reason.WRONG_METHOD, message, allow=tuple(allow))

    def use(self, config: Config) -> None:
        """Follow another configuration from now on, as the recorder does."""
        self.try_it.use(config)
        self.logins.reloaded()

    def drain(self) -> None:
        """End what would go on for ever."""
        self.logins.stop()
        self.requests.queries.stop()

    async def _ask_others(self) -> None:
        if self.refresh is not None:
            await self.refresh()
