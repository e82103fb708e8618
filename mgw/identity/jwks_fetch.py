"""Fetch the public keys of an issuer over HTTP, by treq: imported where a configuration has an issuer.

Sources: OpenID Connect Discovery 1.0, 4; RFC 7517 5 (the set of keys).

The bearer token of ``token_file`` is for whoever the operator has named: the issuer, or ``jwks_url``.  The
host of a ``jwks_uri`` is named by the issuer alone.  It gets the token if it is the issuer's own host, or if
there is a ``ca_file``: then it must show a certificate from the operator's own authorities, as API servers of
Kubernetes do, whose ``jwks_uri`` is their address rather than the name in ``issuer``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from twisted.internet.error import MessageLengthError
from twisted.web.http_headers import Headers

from mgw import __version__
from mgw.clients.tokens.key_set import MAX_SET_BYTES, KeySet, parse_key_set
from mgw.config.proxy import ProxyAddress
from mgw.identity.jwks_answer import jwks_uri_in, seconds_until_next
from mgw.identity.key_source import FetchedKeys, KeyFetchError, KeySource
from mgw.nouns.errors import GatewayError, forget_frames
from mgw.nouns.secret import Secret
from mgw.reactor.daemon_threads import ThreadRunner
from mgw.reactor.regular_file import MAX_TOKEN_FILE, read_regular_file
from mgw.reactor.treq_arguments import ExactURL, headers_of
from mgw.reactor.treq_client import HTTPClient, ResponseFailed

_REDIRECTS: Final = range(300, 400)
_USER_AGENT: Final = (b"User-Agent", f"mgw/{__version__}".encode())
_ACCEPT: Final = (b"Accept", b"application/json, application/jwk-set+json")
_PORTS: Final = {"http": 80, "https": 443}

OpenHttp = Callable[[str | None, ProxyAddress | None], Awaitable[tuple[HTTPClient, Callable[[], None]]]]
"""Takes a ``ca_file`` and a proxy.  Returns treq's client over an agent that answers with whole responses of
:data:`MAX_SET_BYTES` or less, and what closes it; raises :class:`OSError` or :class:`ValueError` if the file
cannot be used."""


@dataclass(slots=True, eq=False, repr=False)
class HttpKeyFetch:
    """Fetches the keys of one source; whoever calls it limits the time, by cancelling.

    :param run: reads files.
    :param compute: parses answers: a large one takes long.
    :param note_secret: is told of each bearer token.
    """

    source: KeySource
    open_http: OpenHttp
    run: ThreadRunner
    compute: ThreadRunner
    note_secret: Callable[[Secret], None]
    _last: FetchedKeys | None = None

    async def __call__(self) -> FetchedKeys:
        """Return the keys as they are now.

        :raises KeyFetchError: there are none.
        """
        source = self.source
        token = None if source.token_file is None else await self._read_token(source.token_file)
        url = source.jwks_url or await self._discover(token)
        document, headers = await self._get(url, "the address of the keys", self._for(url, token))
        seconds = seconds_until_next(headers.getRawHeaders(b"cache-control", []))
        self._last = found = FetchedKeys(document, await self._keys_in(document), seconds)
        return found

    async def _discover(self, token: Secret | None) -> str:
        """Return the address of the keys."""
        url, name = self.source.discovery_url, "the discovery document"
        document, _ = await self._get(url, name, token)
        try:
            return await self.compute(partial(jwks_uri_in, document, self.source.issuer))
        except ValueError as error:
            raise KeyFetchError(f"{name} at {origin_of(url)} cannot be used: {error}") from None

    async def _get(self, url: str, name: str, token: Secret | None) -> tuple[bytes, Headers]:
        source = self.source
        # Without TLS only this machine is asked: through a proxy, it would be whatever is on the proxy's.
        proxy = source.proxy if _has_tls(url) else None
        try:
            http, close = await self.open_http(source.ca_file, proxy)
        except (OSError, ValueError) as error:
            raise KeyFetchError(f"ca_file cannot be used: {_reason(error)}") from None
        try:
            return await _get(http, url, name, token)
        finally:
            close()

    async def _keys_in(self, document: bytes) -> KeySet:
        if self._last is not None and self._last.document == document:
            return self._last.keys
        return await parsed(self.compute, document, "the set of keys")

    def _for(self, url: str, token: Secret | None) -> Secret | None:
        """Return the token if the host of ``url`` may have it."""
        source = self.source
        is_named = source.jwks_url is not None or origin_of(url) == origin_of(source.issuer)
        is_vouched_for = source.ca_file is not None and _has_tls(url)
        return token if is_named or is_vouched_for else None

    async def _read_token(self, path: str) -> Secret:
        try:
            content = await self.run(partial(read_regular_file, path, MAX_TOKEN_FILE))
        except OSError as error:
            raise KeyFetchError(f"token_file cannot be read: {_reason(error)}") from None
        token = content.strip()
        if not token or any(byte <= 0x20 or byte >= 0x7F for byte in token):
            raise KeyFetchError("token_file does not contain exactly one token")
        found = Secret(token.decode("ascii"))
        self.note_secret(found)
        return found


async def parsed(compute: ThreadRunner, document: bytes, name: str) -> KeySet:
    """Return the keys in a document.

    :raises KeyFetchError: it has none that can be used.
    """
    try:
        return await compute(partial(parse_key_set, document))
    except ValueError as error:
        raise KeyFetchError(f"{name} cannot be used: {error}") from None


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address, as messages may show it."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = _PORTS.get(parts.scheme) if parts.port is None else parts.port
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _has_tls(url: str) -> bool:
    return urlsplit(url).scheme == "https"


async def _get(http: HTTPClient, url: str, name: str, token: Secret | None) -> tuple[bytes, Headers]:
    where = f"{name} at {origin_of(url)}"
    own = () if token is None else ((b"Authorization", b"Bearer " + token.reveal().encode()),)
    body: bytes | None = None
    try:
        response: Any = await http.request(  # Any: treq has no types
            "GET", ExactURL(url), headers=headers_of((_ACCEPT, _USER_AGENT, *own)), allow_redirects=False
        )
        if response.code == 200:
            body = await response.content()
    except MessageLengthError as failure:
        forget_frames(failure)  # of all these errors: they hold the token
        raise KeyFetchError(f"{where} answered with more than {MAX_SET_BYTES} bytes") from None
    except (GatewayError, ResponseFailed) as failure:
        forget_frames(failure)
        cause = failure.cause if isinstance(failure, GatewayError) else None
        how = "" if cause is None else f" ({cause.value})"
        raise KeyFetchError(f"{where} cannot be reached{how}") from None
    if body is None:
        hint = " (a redirect, and redirects are not followed)" if response.code in _REDIRECTS else ""
        raise KeyFetchError(f"{where} answered {response.code}{hint}")
    return body, response.headers


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror or "unreadable") if isinstance(error, OSError) else str(error)
