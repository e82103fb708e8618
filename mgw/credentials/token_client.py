"""Send requests to token endpoints, by treq: it is imported where a configuration has such an endpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from twisted.internet.defer import CancelledError
from twisted.internet.error import MessageLengthError
from twisted.internet.interfaces import IReactorTime
from twisted.web.http_headers import Headers

from mgw import __version__
from mgw.credentials.recent_secrets import NOWHERE, RecentSecrets
from mgw.credentials.token_request import (
    MAX_RESPONSE_BYTES,
    REQUEST_SECONDS,
    EndpointRequest,
    JsonResponse,
    TokenRequestError,
    located,
)
from mgw.nouns.errors import GatewayError, forget_frames
from mgw.reactor.treq_arguments import ExactURL, TimeLimit, as_reactor, headers_of
from mgw.reactor.treq_client import HTTPClient, ResponseFailed

_REDIRECTS: Final = range(300, 400)
_USER_AGENT: Final = (b"User-Agent", f"mgw/{__version__}".encode())


class HttpTokenClient:
    """Sends requests to endpoints that give tokens.

    :param http: treq's client over an agent that answers with whole responses, of :data:`MAX_RESPONSE_BYTES`
        or less.
    :param close: closes the connections of ``http``.
    :param recent: is told of the secrets that are sent and that come.
    """

    def __init__(
        self,
        http: HTTPClient,
        clock: IReactorTime,
        close: Callable[[], None] = lambda: None,
        recent: RecentSecrets = NOWHERE,
    ) -> None:
        self._http = http
        self._clock = clock
        self._close = close
        self.recent = recent

    async def ask(
        self, request: EndpointRequest, name: str, seconds: float = REQUEST_SECONDS
    ) -> JsonResponse:
        """Return the response to a request, whatever its status.  Cancelling closes the connection.

        :param name: the endpoint's, for messages.
        :param seconds: how long it has.
        :raises TokenRequestError: it cannot be reached, takes too long, redirects or says too much.
        """
        try:
            return await self._ask(request, name, seconds)
        except TokenRequestError as error:
            raise located(error, request.url) from None

    async def _ask(self, request: EndpointRequest, name: str, seconds: float) -> JsonResponse:
        limit = TimeLimit(self._clock)
        try:
            response = await self._http.request(
                request.method,
                ExactURL(request.url),
                headers=headers_of(((b"Accept", request.accept), _USER_AGENT, *request.headers)),
                data=request.data,
                timeout=seconds,
                reactor=as_reactor(limit),
                allow_redirects=False,
            )
            body = await response.content()
        except MessageLengthError as failure:
            forget_frames(failure)  # of all these errors: they hold the secrets of the request
            body = None
        except CancelledError as failure:
            if not limit.has_run_out:
                raise  # by whoever waits for the response, and not by treq's timer
            forget_frames(failure)
            raise TokenRequestError(
                f"{name} did not respond within {seconds:g} s; check that it is up"
            ) from None
        except (GatewayError, ResponseFailed) as failure:
            forget_frames(failure)
            cause = failure.cause if isinstance(failure, GatewayError) else None
            how = "" if cause is None else f" ({cause.value})"
            raise TokenRequestError(f"{name} cannot be reached{how}: check its URL and the network") from None
        return _read(response.code, response.headers, body, name)

    def close(self) -> None:
        """Close its connections."""
        self._close()


def _read(status: int, headers: Headers, body: bytes | None, name: str) -> JsonResponse:
    if status in _REDIRECTS:
        what = "a redirect, and redirects are not followed: set the URL of the endpoint itself"
        raise TokenRequestError(f"{name} answered {status}, {what}", status)
    if body is None:
        what = f"with more than {MAX_RESPONSE_BYTES} bytes; it may not be a token endpoint: check its URL"
        raise TokenRequestError(f"{name} answered {status} {what}", status)
    try:
        fields = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        fields = None
    return JsonResponse(status, fields if isinstance(fields, dict) else None, headers, body)
