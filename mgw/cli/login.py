"""The part of ``mgw auth`` that talks to a vendor: runs a reactor until one login completes."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable, Coroutine
from html import escape
from typing import Any, Final, TypeVar

from twisted.internet import reactor as default_reactor
from twisted.internet.defer import Deferred, TimeoutError  # noqa: A004  Twisted's own name
from twisted.internet.error import CannotListenError
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.web.resource import Resource
from twisted.web.server import Site

from mgw.config.profile import Profile
from mgw.config.proxy import ProxyAddress
from mgw.credentials.subscription.login import (
    AuthorizationRequest,
    DeviceLogin,
    LoginError,
    RedirectWaiter,
    Way,
    pasted_redirect,
)
from mgw.credentials.subscription.store import StoredCredential
from mgw.credentials.subscription.token_exchange import DeviceCode, ProfileEndpoints
from mgw.credentials.token_client import HttpTokenClient
from mgw.credentials.token_request import MAX_RESPONSE_BYTES, REQUEST_SECONDS
from mgw.nouns.errors import GatewayError
from mgw.upstream.agent import build_agent, client_over
from mgw.upstream.client import UpstreamLimits

T = TypeVar("T")

_PAGE_SECONDS: Final = 0.1
_LOOPBACK: Final = "127.0.0.1"
_reactor: Any = default_reactor  # Any: a reactor has no one type


_Flow = Callable[[ProfileEndpoints, Profile], Coroutine[Deferred[Any], Any, StoredCredential]]


def log_in(
    name: str, profile: Profile, way: Way, seconds: float, proxy: ProxyAddress | None
) -> StoredCredential | str:
    """Return the entry of a login, or what went wrong.

    :param seconds: for all of it.
    :param proxy: on the way to the profile's endpoints.
    """
    flows: dict[
        Way, Callable[[ProfileEndpoints, Profile], Coroutine[Deferred[Any], Any, StoredCredential]]
    ] = {
        Way.BROWSER: _with_browser,
        Way.PASTE: _with_paste,
        Way.DEVICE: _with_device,
    }
    return _run(flows[way](_endpoints(name, profile, proxy), profile), seconds)


def revoke(name: str, profile: Profile, entry: StoredCredential, proxy: ProxyAddress | None) -> str | None:
    """Give tokens back; return what went wrong, if anything did."""
    found = _run(_endpoints(name, profile, proxy).revoke(entry), 2 * REQUEST_SECONDS)
    return found if isinstance(found, str) else None


def _run(work: Coroutine[Deferred[Any], Any, T], seconds: float) -> T | str:
    """Run the reactor until the work is done, or its time is over."""
    results: list[T | str] = []

    def on_result(result: T) -> None:
        results.append(result)

    def on_failure(failure: Any) -> None:  # Any: Twisted's failures have no types
        if failure.check(LoginError, GatewayError):
            results.append(str(failure.value))
        elif failure.check(TimeoutError):
            results.append(f"the login was not completed within {seconds:g} s")
        else:
            results.append(f"the login failed: {failure.type.__name__}")

    def begin() -> None:
        done = Deferred.fromCoroutine(work).addTimeout(seconds, _reactor)
        _ = done.addCallbacks(on_result, on_failure).addBoth(lambda _: _reactor.stop())

    _reactor.callWhenRunning(begin)
    _reactor.run()
    return results[0] if results else "interrupted"


def _endpoints(name: str, profile: Profile, proxy: ProxyAddress | None) -> ProfileEndpoints:
    limits = UpstreamLimits(connect=REQUEST_SECONDS, first_byte=REQUEST_SECONDS, idle=REQUEST_SECONDS)
    client = client_over(build_agent(_reactor, limits, MAX_RESPONSE_BYTES, proxy=proxy))
    return ProfileEndpoints(HttpTokenClient(client, _reactor), name, profile)


async def _with_browser(endpoints: ProfileEndpoints, profile: Profile) -> StoredCredential:
    """Wait on a port of this machine for the browser to come back (RFC 8252 7.3)."""
    redirect = profile.redirect
    page = _RedirectPage()
    try:
        port = _reactor.listenTCP(redirect.port, Site(page), interface=_LOOPBACK)
    except CannotListenError as error:
        raise LoginError(f"cannot listen on port {redirect.port}: {error.socketError}") from None
    try:
        request = AuthorizationRequest(
            profile, f"http://{redirect.host}:{port.getHost().port}{redirect.path}"
        )
        page.waiter = RedirectWaiter(request, redirect.path)
        _show(f"Open this page in a browser on this machine and log in:\n\n{request.url}\n")
        code = await page.waiter.code
        return await endpoints.log_in(request.grant(code), time.time())
    finally:
        await _closed(port)


async def _with_paste(endpoints: ProfileEndpoints, profile: Profile) -> StoredCredential:
    request = AuthorizationRequest(profile, pasted_redirect(profile))
    _show(
        f"Open this page in any browser and log in:\n\n{request.url}\n\nThen paste the code, or the address "
        "of the page that the browser was redirected to (it may not load):"
    )
    line = await _read_line()
    return await endpoints.log_in(request.grant(request.pasted_code(line)), time.time())


async def _with_device(endpoints: ProfileEndpoints, _: Profile) -> StoredCredential:
    def show(code: DeviceCode) -> None:
        _show(f"Open {code.whole_page or code.page} on any device, and enter the code {code.user_code}")

    return await DeviceLogin(endpoints, _reactor, time.time, show).run()


class _RedirectPage(Resource):
    """Every path of the server that lives for one login."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's
        self.waiter: RedirectWaiter | None = None

    def render(self, request: Any) -> bytes:  # Any: Twisted's requests
        path, _, query = request.uri.partition(b"?")
        assert self.waiter is not None, "it is there before the address is shown"
        status, text = self.waiter.on_request(request.method, path, query)
        request.setResponseCode(status)
        request.setHeader(b"Content-Type", b"text/html; charset=utf-8")
        request.setHeader(b"Cache-Control", b"no-store")
        request.setHeader(b"Connection", b"close")
        return f"<!doctype html><title>mgw</title><p>{escape(text)}</p>".encode()


async def _closed(port: Any) -> None:  # Any: a listening port
    """Stop listening, once the browser has had a moment to read its page."""
    await deferLater(_reactor, _PAGE_SECONDS)
    stopped = port.stopListening()
    if stopped is not None:
        await stopped


async def _read_line() -> str:
    """Return a line of standard input, read in a thread: it may never come.

    :raises LoginError: the input ended.
    """
    stop: list[bool] = []
    reading = deferToThread(_poll_line, stop)
    try:
        line = await reading
    finally:
        stop.append(True)
    if not line:
        raise LoginError("no code: standard input ended")
    return line


def _poll_line(stop: list[bool]) -> str:
    while not stop:
        if select.select([sys.stdin], [], [], 0.1)[0]:
            return sys.stdin.readline()
    return ""


def _show(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
