"""Sign-in with a key or a token, which sets a cookie, and sign-out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final
from urllib.parse import parse_qs

from twisted.web.server import Request

from mgw.clients.peers import network_of
from mgw.clients.try_it import try_it_cookie
from mgw.dashboard.access import Access
from mgw.dashboard.cookies import cookie_name, set_cookie
from mgw.dashboard.responses import NO_STORE, body_of, send_nothing
from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.headers import RawHeaders

MAX_FAILURES: Final = 10
"""How many sign-ins of one client may fail in :data:`WINDOW_SECONDS`."""
WINDOW_SECONDS: Final = 60.0
MAX_CLIENTS: Final = 1_000
"""The most clients whose failures are counted; the one that came first is forgotten then."""

_MOST_FIELDS: Final = 16
_FORM: Final = b"application/x-www-form-urlencoded"
_TO_PAGE: Final = b"../ui"
"""The page as seen from ``/ui/login``; relative, since a proxy may serve us below a path."""
_TO_PAGE_AFTER_FAILURE: Final = b"../ui#failed"
_WRONG: Final = "this key or token does not give access to the dashboard"


@dataclass(slots=True)
class FailureCounts:
    """How often sign-ins have failed lately, by client: a peer, or who is behind a proxy that is trusted.

    :param now: returns seconds of a clock that never goes back.
    """

    now: Callable[[], float]
    _times: dict[str, list[float]] = field(default_factory=dict)

    def check(self, client: str) -> None:
        """Refuse a client that has failed too often.

        :raises GatewayError: ``CLIENT_LIMIT``.
        """
        times = self._recent(client)
        if len(times) >= MAX_FAILURES:
            seconds = float(max(1, ceil(times[0] + WINDOW_SECONDS - self.now())))
            message = f"too many failed sign-ins: try again in {seconds:.0f} s"
            raise GatewayError(Reason.CLIENT_LIMIT, message, retry_after=seconds)

    def add(self, client: str) -> None:
        """Count a failure."""
        times = [*self._recent(client), self.now()]
        self._times.pop(client, None)
        if len(self._times) >= MAX_CLIENTS:
            del self._times[next(iter(self._times))]
        self._times[client] = times

    def _recent(self, client: str) -> list[float]:
        since = self.now() - WINDOW_SECONDS
        return [time for time in self._times.get(client, ()) if time > since]


@dataclass(slots=True)
class SignIn:
    """The two paths of a browser's session."""

    access: Access
    failures: FailureCounts

    async def login(self, request: Request) -> None:
        """Begin a session for whoever sends a key or a token, in a form or in JSON.

        :raises GatewayError: for a page of another origin, a wrong key, or too many of them.
        """
        access, client = self.access, network_of(self.access.client_of(request))
        access.check_origin(request)
        if not access.has_keys:
            access.check(request)
            _send_done(request, [])
            return
        value = _key_in(request)
        await access.tokens.wait(value)
        begun = access.begin_session(value)
        if begun is not None:  # whatever others, or its own page, have tried before
            _send_done(request, [self._cookie(*begun, request)])
            return
        of_token = access.tokens.refusal_of(value)
        if (
            of_token is not None and of_token.reason is Reason.NO_ISSUER_KEYS
        ):  # nobody's fault: it may be good
            raise access.refused_token(of_token)
        self.failures.check(client)
        self.failures.add(client)
        refusal = access.refused("key", _WRONG) if of_token is None else access.refused_token(of_token)
        if not _is_form(request):
            raise refusal
        send_nothing(request, 303, [NO_STORE, (b"Location", _TO_PAGE_AFTER_FAILURE)])

    def logout(self, request: Request) -> None:
        """End the session of a browser.

        :raises GatewayError: for a page of another origin.
        """
        self.access.check_origin(request)
        self.access.sign_out(request)
        secure = self.access.is_secure(request)
        token = set_cookie(try_it_cookie(secure=secure), b"", 0, secure=secure)
        _send_done(request, [token, self._cookie(b"", 0, request)])

    def _cookie(self, value: bytes, seconds: int, request: Request) -> tuple[bytes, bytes]:
        secure = self.access.is_secure(request)
        return set_cookie(cookie_name(secure=secure), value, seconds, secure=secure)


def _send_done(request: Request, headers: RawHeaders) -> None:
    """Lead a form back to the page, and tell a script that it is done."""
    if _is_form(request):
        send_nothing(request, 303, [NO_STORE, (b"Location", _TO_PAGE), *headers])
    else:
        send_nothing(request, 204, [NO_STORE, *headers])


def _is_form(request: Request) -> bool:
    stated = request.getHeader(b"content-type") or b""
    return stated.partition(b";")[0].strip().lower() == _FORM


def _key_in(request: Request) -> bytes:
    """Return the key that a form or JSON holds.

    :raises GatewayError: ``MALFORMED``.
    """
    found: Any  # Any: JSON
    if _is_form(request):
        data = b"" if request.content is None else request.content.read()
        try:
            found = parse_qs(data.decode("latin-1"), max_num_fields=_MOST_FIELDS).get("key", [""])[0]
        except ValueError:
            raise GatewayError(Reason.MALFORMED, "the form has too many fields") from None
    else:
        found = body_of(request).get("key")
    if not isinstance(found, str) or not found:
        raise GatewayError(Reason.MALFORMED, "a key is required", param="key")
    return found.strip().encode("latin-1", "replace")
