"""Request a token from an endpoint: the request, its limits, and valid responses.

Sources: RFC 6749 4 to 6 (grants, responses, errors), RFC 6750 3.1 (``invalid_token``), RFC 8628 3.5 (device
codes), RFC 8693 2.2 (token exchange).

::

    client = HttpTokenClient(http, reactor)  # of mgw.credentials.token_client
    endpoint = TokenEndpoint(client, "https://idp.example/token", "the token endpoint of provider 'main'")
    token = await endpoint.request({"grant_type": "client_credentials", "client_secret": secret})

What goes wrong is a :class:`TokenRequestError`, whose message says what to do and repeats neither a secret
nor anything of a response but its status and an error code that is a word of these RFCs.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from enum import Enum
from math import isnan
from types import MappingProxyType
from typing import Any, Final, Protocol
from urllib.parse import quote_plus, urlsplit

import msgspec
from msgspec import Struct, field
from twisted.web.http_headers import Headers

from mgw.credentials.recent_secrets import RecentSecrets
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import Secret

REQUEST_SECONDS: Final = 20.0
"""How long a request may take, its response included (contract 3.15)."""
MAX_RESPONSE_BYTES: Final = 256 * 1024
MAX_TOKEN_BYTES: Final = 64 * 1024
USUAL_SECONDS: Final = 600.0
"""The life of a token whose response states none (contract 3.15)."""
MIN_SECONDS: Final = 1.0
"""The shortest life of a token: a response that states less, or a negative number, means this."""
MAX_SECONDS: Final = 366 * 86400.0
"""The longest life of a token: a response that states more means this."""

ERROR_HINTS: Final = MappingProxyType(
    {
        "invalid_request": "check the settings of the request",
        "invalid_client": "check the client id and secret, and how they are sent",
        "invalid_grant": "the refresh token, code or assertion has expired, was revoked or was used before; "
        "get a new one",
        "unauthorized_client": "the client may not use this grant; allow it at the identity provider",
        "unsupported_grant_type": "the endpoint does not support this grant; use another one",
        "invalid_scope": "check the scopes",
        "invalid_target": "check the audience or resource",
        "authorization_pending": "the user has not finished signing in yet",
        "slow_down": "too many requests to the endpoint",
        "access_denied": "the user or the identity provider refused",
        "invalid_token": "the token has expired or was revoked; get a new one",
        "interaction_required": "the user has to sign in again, or to confirm something",
        "login_required": "the user has to sign in again",
        "consent_required": "the user or an administrator has to give consent",
        "expired_token": "the sign-in took too long; start again",
        "temporarily_unavailable": "try again later",
        "server_error": "try again later",
    }
)
"""Error codes of the RFCs and of OpenID Connect Core 3.1.2.6, each with what to do; no other word of a
response is repeated."""

AUTHORIZATION: Final = b"Authorization"
_TOKEN_TYPES: Final = frozenset({"bearer", "n_a"})
"""Token types that are sent as Bearer; ``N_A`` stands for a token that is not an access token (RFC 8693)."""

HeaderPairs = tuple[tuple[bytes, bytes], ...]


class TokenRequestError(GatewayError):
    """No token came.

    :param response_status: ``None`` where no response came.
    :param error_code: the response's own if it is one of :data:`ERROR_HINTS`.
    :param reason: ``NO_PROVIDER_KEY`` where it is for the client to do something about it.
    """

    def __init__(
        self,
        message: str,
        response_status: int | None = None,
        error_code: str | None = None,
        reason: Reason = Reason.CREDENTIAL_SOURCE,
    ) -> None:
        code = "credential_source_failed" if reason is Reason.CREDENTIAL_SOURCE else None
        super().__init__(reason, message, code=code)
        self.response_status = response_status
        self.error_code = error_code

    def copy(self) -> TokenRequestError:
        """Return the same for another who waits: an exception keeps a traceback for each raise."""
        again = TokenRequestError(self.message, self.response_status, self.error_code, self.reason)
        again.detail = self.detail
        return again


class TokenResponse(Struct, frozen=True):
    """A token, and what came with it."""

    access_token: Secret
    expires_in: float
    """The token's life from when it was requested, from :data:`MIN_SECONDS` to :data:`MAX_SECONDS`."""
    refresh_token: Secret | None = None
    """The refresh token that replaces the one that was used; ``None``: that one stays good."""
    id_token: Secret | None = None
    further: tuple[Secret, ...] = ()
    """The other parts of a credential that has several, of which the token is the secret one."""


class JsonResponse(Struct, frozen=True):
    """A response whose body may be a JSON object."""

    status: int
    fields: dict[str, Any] | None  # Any: JSON
    """The JSON object; ``None``: the body is something else."""
    headers: Headers = field(default_factory=Headers)
    body: bytes = b""
    """The body as it came, for endpoints that answer with something else."""

    def __repr__(self) -> str:
        return f"JsonResponse({self.status})"


FieldValue = str | Secret | list[str]
Fields = Mapping[str, FieldValue]
"""The fields of a request; in a form, a list is a field for each of its texts."""


class Encoding(Enum):
    """How the fields of a request are written."""

    FORM = "form"
    """A form, as RFC 6749 asks for."""
    JSON = "json"


class EndpointRequest(Struct, frozen=True):
    """A request to an endpoint, as treq's client takes it."""

    method: str
    url: str
    headers: HeaderPairs
    """The headers beside those that every request has."""
    data: bytes | list[tuple[str, str]] | None
    """The body: bytes as they are, pairs as a form."""
    accept: bytes = b"application/json"
    """The media types that the response may have."""

    def __repr__(self) -> str:
        return f"EndpointRequest({self.method})"


class TokenClient(Protocol):
    """Sends requests to endpoints that give tokens (:mod:`mgw.credentials.token_client`)."""

    recent: RecentSecrets
    """Is told of the secrets that are sent and that come."""

    async def ask(
        self, request: EndpointRequest, name: str, seconds: float = REQUEST_SECONDS
    ) -> JsonResponse:
        """Return the response to a request, whatever its status.  Cancelling closes the connection.

        :param name: the endpoint's, for messages.
        :param seconds: how long it has.
        :raises TokenRequestError: it cannot be reached, takes too long, redirects or says too much.
        """
        ...

    def close(self) -> None:
        """Close its connections."""
        ...


class TokenEndpoint:
    """One endpoint, and how it is asked.

    :param url: ``http`` or ``https``, with its query if it has one.
    :param name: how messages name it, such as ``the token endpoint of provider 'main'``.
    :param headers: in addition to the usual ones.
    """

    def __init__(
        self,
        client: TokenClient,
        url: str,
        name: str,
        headers: HeaderPairs = (),
        encoding: Encoding = Encoding.FORM,
    ) -> None:
        self._client = client
        self._url = url
        self._headers = headers
        self._encoding = encoding
        self._shown = tuple(Secret(value.decode("latin-1")) for key, value in headers if key == AUTHORIZATION)
        self.name = name

    async def request(self, fields: Fields) -> TokenResponse:
        """Return the token that a POST of these fields gives.

        :raises TokenRequestError: there is none.
        """
        self._client.recent.note(fields, self._shown)
        request = post_request(self._url, fields, self._headers, self._encoding)
        response = await self._client.ask(request, self.name)
        try:
            token = parse_token(response, self.name)
        except TokenRequestError as error:
            raise located(error, self._url) from None
        self._client.recent.note(token)
        return token


def post_request(
    url: str, fields: Fields, headers: HeaderPairs = (), encoding: Encoding = Encoding.FORM
) -> EndpointRequest:
    """Return the POST of some fields."""
    revealed = {
        name: value.reveal() if isinstance(value, Secret) else value for name, value in fields.items()
    }
    if encoding is Encoding.JSON:
        typed = ((b"Content-Type", b"application/json"), *headers)
        return EndpointRequest("POST", url, typed, msgspec.json.encode(revealed))
    pairs = [
        (name, text)
        for name, value in revealed.items()
        for text in ([value] if isinstance(value, str) else value)
    ]
    return EndpointRequest("POST", url, headers, pairs)


def get_request(url: str, headers: HeaderPairs = ()) -> EndpointRequest:
    """Return a GET."""
    return EndpointRequest("GET", url, headers, None)


def basic_authorization(client_id: str, client_secret: Secret) -> tuple[bytes, bytes]:
    """Return the header by which a client shows itself (RFC 6749 2.3.1: both halves are form-encoded)."""
    pair = f"{quote_plus(client_id)}:{quote_plus(client_secret.reveal())}"
    return AUTHORIZATION, b"Basic " + b64encode(pair.encode())


def parse_token(response: JsonResponse, name: str) -> TokenResponse:
    """Return the token in a response.

    :raises TokenRequestError: it is an error, or none that can be used.
    """
    fields, status = response.fields, response.status
    if fields is None:
        what = "its body is not a JSON object, so this is probably not a token endpoint: check its URL"
        raise TokenRequestError(f"{name} answered {status}, but {what}", status)
    error = fields.get("error")
    if isinstance(error, str) and error in ERROR_HINTS and ("access_token" not in fields or status >= 300):
        raise TokenRequestError(f"{name} answered {status} {error}: {ERROR_HINTS[error]}", status, error)
    if not 200 <= status < 300:
        raise TokenRequestError(f"{name} answered {status}: {_status_hint(status)}", status)
    try:
        return _token_in(fields)
    except ValueError as fault:
        raise TokenRequestError(f"{name} answered {status}, but {fault}", status) from None


def parse_token_text(value: object, name: str) -> Secret:
    """Take a token that can travel in a header.

    :raises ValueError: it cannot; the text says why and does not repeat it.
    """
    if not isinstance(value, str) or not value:
        raise ValueError(f"its {name} is missing or not a string")
    if len(value) > MAX_TOKEN_BYTES:
        raise ValueError(f"its {name} is longer than {MAX_TOKEN_BYTES} bytes")
    if any(not "\x21" <= character <= "\x7e" for character in value):
        raise ValueError(f"its {name} has characters that a token cannot have")
    return Secret(value)


def _token_in(fields: Mapping[str, Any]) -> TokenResponse:
    access_token = parse_token_text(fields.get("access_token"), "access_token")
    token_type = fields.get("token_type")
    if token_type is not None and str(token_type).lower() not in _TOKEN_TYPES:
        raise ValueError("its token_type is not Bearer, and no other is supported")
    refresh_token, id_token = (
        None if fields.get(name) in (None, "") else parse_token_text(fields[name], name)
        for name in ("refresh_token", "id_token")
    )
    return TokenResponse(access_token, _seconds(fields.get("expires_in")), refresh_token, id_token)


def _seconds(value: object) -> float:
    """Read how long a token lives: a number, or a text that is one; bounded."""
    if value is None:
        return USUAL_SECONDS
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("its expires_in is not a number")
    try:
        seconds = max(MIN_SECONDS, min(MAX_SECONDS, float(value)))
    except OverflowError:  # a whole number beyond what a float can be
        return MAX_SECONDS
    except ValueError:
        raise ValueError("its expires_in is not a number") from None
    if isnan(float(value)):
        raise ValueError("its expires_in is not a number")
    return seconds


def _status_hint(status: int) -> str:
    if status == 429:
        return "too many requests to the endpoint"
    if status >= 500:
        return "the endpoint has an internal error; try again later"
    return "check its URL and the settings of the request"


def located(error: TokenRequestError, url: str) -> TokenRequestError:
    """Add the endpoint's origin, for the log alone."""
    parts = urlsplit(url)
    error.detail = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return error
