"""Every error that the gateway itself can return.

A :class:`Reason` is one row of the table of errors (contract 6.2): a cause and its HTTP status.  What
each dialect calls it stands in ``dialects/<name>/errors.py``.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from traceback import clear_frames
from typing import Final, Self


class Reason(Enum):
    """Why the gateway refuses; the value is ``(name, HTTP status)``."""

    MALFORMED = ("malformed", 400)
    EDGE_KEY = ("edge_key", 401)
    INVALID_TOKEN = ("invalid_token", 401)
    ACCESS_DENIED = ("access_denied", 403)
    NO_ISSUER_KEYS = ("no_issuer_keys", 503)
    NO_PROVIDER_KEY = ("no_provider_key", 401)
    CAPABILITY_OFF = ("capability_off", 403)
    UNSUPPORTED_BY_KIND = ("unsupported_by_kind", 400)
    UNKNOWN_MODEL = ("unknown_model", 404)
    UNKNOWN_ROUTE = ("unknown_route", 404)
    WRONG_METHOD = ("wrong_method", 405)
    NO_WEBSOCKET = ("no_websocket", 426)
    ONLY_WEBSOCKET = ("only_websocket", 426)
    ORIGIN = ("origin", 403)
    MISDIRECTED = ("misdirected", 421)
    CLIENT_TOO_SLOW = ("client_too_slow", 408)
    HEAD_TOO_LARGE = ("head_too_large", 431)
    BODY_TOO_LARGE = ("body_too_large", 413)
    TOO_MANY_SESSIONS = ("too_many_sessions", 429)
    CLIENT_LIMIT = ("client_limit", 429)
    CLIENT_BUDGET = ("client_budget", 429)
    MODEL_NOT_PRICED = ("model_not_priced", 403)
    ROUTE_NOT_PRICED = ("route_not_priced", 403)
    NOT_IMPLEMENTED = ("not_implemented", 501)
    NO_ACCOUNT = ("no_account", 429)
    INTERNAL = ("internal", 500)
    UPSTREAM_BROKEN = ("upstream_broken", 502)
    CREDENTIAL_SOURCE = ("credential_source", 502)
    OVERLOADED = ("overloaded", 503)
    DRAINING = ("draining", 503)
    UPSTREAM_TOO_SLOW = ("upstream_too_slow", 504)

    @property
    def status(self) -> int:
        """The HTTP status of this refusal."""
        status: int = self.value[1]
        return status


LIMIT_REASONS: Final = frozenset({Reason.CLIENT_LIMIT, Reason.CLIENT_BUDGET})
"""Refusals of a request that is one too many for a limit."""


class Cause(StrEnum):
    """Why an exchange did not end well, in a word for logs, events and metrics (contract 7.5).

    A refusal of our own has none: its code says it.
    """

    REFUSED_CONNECTION = "refused_connection"
    """No connection could be made."""
    DNS = "dns"
    TLS = "tls"
    CONNECT_TIMEOUT = "connect_timeout"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    RESET = "reset"
    """The connection ended before the head of the answer was there."""
    NOT_HTTP = "not_http"
    TRUNCATED = "truncated"
    """The answer broke off behind its head."""
    UNREADABLE = "unreadable"
    """The answer came and cannot be understood."""
    CREDENTIAL = "credential"
    """The source of the credential gave none."""
    UPSTREAM_4XX = "upstream_4xx"
    UPSTREAM_5XX = "upstream_5xx"
    UPSTREAM_ERROR_EVENT = "upstream_error_event"
    """The provider ended its stream with an error."""
    CLIENT_TIMEOUT = "client_timeout"
    CLIENT_ABORT = "client_abort"
    REVOKED = "revoked"
    """The client's key has expired, was disabled or was removed while the request was in progress."""
    LIMIT = "limit"
    """The answer was larger than what is kept of one."""


CLIENT_CLOSED: Final = 499
"""The status that an event carries when the client left first; it is never sent."""


class GatewayError(Exception):
    """A refusal that the client may read.

    :param reason: the row of the table.
    :param message: a sentence that says what to change; it never holds a key, a body or a traceback.
    :param param: the field or header at fault, in the client's own spelling.
    :param code: a more precise machine-readable code than the row's own.
    :param retry_after: seconds after which another try makes sense.
    :param allow: the methods that the path takes, for a wrong method (RFC 9110 15.5.6).
    """

    cause: Cause | None = None
    """A more precise word than the row's own."""
    detail: str = ""
    """What stands behind the message in the log and is none of the client's business, as an address."""
    provider_message: str | None = None
    """How the provider's own error says it, as it came; never shown as it is."""
    challenge: bytes | None = None
    """What ``WWW-Authenticate`` says beside it (RFC 9110 11.6.1), but for that of a missing key."""
    is_final: bool = False
    """Whether the client's SDK is told not to try again by itself."""

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        allow: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.param = param
        self.code = code
        self.retry_after = retry_after
        self.allow = allow

    def because(self, cause: Cause, detail: str = "") -> Self:
        """Return this error with its cause and what the log adds."""
        self.cause, self.detail = cause, detail
        return self

    def finally_refused(self) -> Self:
        """Return this error as one after which SDKs do not try again by themselves."""
        self.is_final = True
        return self

    def quoting(self, provider_message: str | None) -> Self:
        """Return this error with the message of the provider's own one."""
        self.provider_message = provider_message
        return self

    @property
    def status(self) -> int:
        """The HTTP status to answer with."""
        return self.reason.status


_MAX_CAUSES: Final = 16
"""Errors that led to one another; a circle of them ends here."""


def forget_frames(error: BaseException) -> None:
    """Release the frames behind an error that has been dealt with, and behind those that led to it.

    A traceback keeps the variables of every function that the error rose through, and with them the body of
    the request.  Errors, failures and frames refer to one another, so only the garbage collector would free
    them, and that counts objects, not the tens of megabytes that one of them may have.
    """
    found: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if found is None:
            return
        clear_frames(found.__traceback__)
        found.__traceback__ = None  # some frames still run, and could not be emptied
        found = found.__cause__ or found.__context__
