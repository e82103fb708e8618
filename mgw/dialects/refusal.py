"""What the errors of all dialects share: the machine-readable code, the message, and encodable text.

Source: the table of contract 6.2, column "OpenAI's code".  The code is the same in every dialect
that can carry one; each dialect's own words stand in its ``errors.py``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from string import ascii_letters, digits
from types import MappingProxyType
from typing import Any, Final

from mgw.canonical.reply import Broke, UpstreamError
from mgw.dialects.fields import Fields
from mgw.nouns.errors import Cause, GatewayError, Reason

_BARE_ADDRESS: Final = re.compile(r"(\w+://)(?:[^/\\?#]*@)?([^?#]*)")
_MOST_SHOWN: Final = 200
_MOST_OF_A_PAGE: Final = 16 * 1024
_MOST_WORDS: Final = 500
_TITLE: Final = re.compile(r"<title[^<>]*>([^<]*)</title", re.IGNORECASE)
_UNSPOKEN: Final = re.compile(
    r"<(style|script)\b.*?(?:</\1[^>]*>|\Z)|<!--.*?(?:-->|\Z)", re.IGNORECASE | re.DOTALL
)
_TAG: Final = re.compile(r"<[^<>]*>?")
MAX_OWN_MESSAGE: Final = 8192
"""Characters of a provider's message that are looked at for logs, which show much less."""
_OF_WORDS: Final = f"{ascii_letters}{digits}_-.~+/=%"
"""What keys consist of."""
_CONTROL: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f\ufffd]")

CODES: Final = MappingProxyType(
    {
        Reason.MALFORMED: None,
        Reason.EDGE_KEY: "invalid_api_key",
        Reason.INVALID_TOKEN: "invalid_token",
        Reason.ACCESS_DENIED: "access_denied",
        Reason.NO_ISSUER_KEYS: "identity_provider_unavailable",
        Reason.NO_PROVIDER_KEY: "no_provider_key",
        Reason.CAPABILITY_OFF: "unsupported_modality",
        Reason.UNSUPPORTED_BY_KIND: "unsupported_provider_capability",
        Reason.UNKNOWN_MODEL: "model_not_found",
        Reason.UNKNOWN_ROUTE: "not_found",
        Reason.WRONG_METHOD: "method_not_allowed",
        Reason.NO_WEBSOCKET: "websocket_not_supported",
        Reason.ONLY_WEBSOCKET: "websocket_required",
        Reason.ORIGIN: "origin_not_allowed",
        Reason.MISDIRECTED: "misdirected_request",
        Reason.CLIENT_TOO_SLOW: "request_timeout",
        Reason.HEAD_TOO_LARGE: "headers_too_large",
        Reason.BODY_TOO_LARGE: "request_too_large",
        Reason.TOO_MANY_SESSIONS: "too_many_sessions",
        Reason.CLIENT_LIMIT: "rate_limit_exceeded",
        Reason.CLIENT_BUDGET: "insufficient_quota",
        Reason.MODEL_NOT_PRICED: "model_not_priced",
        Reason.ROUTE_NOT_PRICED: "route_not_priced",
        Reason.NOT_IMPLEMENTED: "not_implemented",
        Reason.NO_ACCOUNT: "no_account_available",
        Reason.INTERNAL: "internal_error",
        Reason.UPSTREAM_BROKEN: None,
        Reason.CREDENTIAL_SOURCE: "credential_source_failed",
        Reason.OVERLOADED: "overloaded",
        Reason.DRAINING: "draining",
        Reason.UPSTREAM_TOO_SLOW: None,
    }
)
"""Each row's own code; ``None`` where the row has none."""


def code_of(error: GatewayError) -> str | None:
    """Return the error's own code, else its row's."""
    return CODES[error.reason] if error.code is None else error.code


_CAUSES: Final = MappingProxyType(
    {
        Reason.CLIENT_TOO_SLOW: Cause.CLIENT_TIMEOUT,
        Reason.CREDENTIAL_SOURCE: Cause.CREDENTIAL,
        Reason.UPSTREAM_BROKEN: Cause.UNREADABLE,
        Reason.UPSTREAM_TOO_SLOW: Cause.FIRST_BYTE_TIMEOUT,
    }
)
WORDS: Final = frozenset(
    {*(cause.value for cause in Cause), *(code or reason.value[0] for reason, code in CODES.items())}
)
"""All that :func:`word_of` returns, but for codes that a single refusal brings."""


def word_of(error: GatewayError) -> str:
    """Return the word for an error in logs, events and metrics: its cause, or the code of a refusal."""
    cause = error.cause or _CAUSES.get(error.reason)
    if cause is not None:
        return cause.value
    name: str = error.reason.value[0]
    return code_of(error) or name


def no_messages() -> GatewayError:
    """Return the refusal of a request of which the provider's wire can say nothing."""
    return GatewayError(Reason.MALFORMED, "no message has content that this provider accepts")


def no_addresses(url: str) -> GatewayError:
    """Return the refusal of media at an address, for a model that fetches none.

    The address is shown as far as it contains no key: without user and query, and at most 200 characters.
    """
    message = "this model does not fetch URLs: send the file itself, in base64"
    shown = _BARE_ADDRESS.match(url)
    if shown is not None:
        message += f", instead of {(shown[1] + shown[2])[:_MOST_SHOWN]!r}"
    return GatewayError(Reason.MALFORMED, message)


def no_tools() -> GatewayError:
    """Return the refusal of tools for a model that takes none: without them it would be another request."""
    message = "this model does not accept tools: send the request without them, or to another model"
    return GatewayError(Reason.MALFORMED, message, param="tools")


def no_base64() -> GatewayError:
    """Return the refusal of embeddings in base64 where the operator has not asked the gateway to write it."""
    message = (
        'encoding_format: this provider returns floats only; pass encoding_format="float" '
        "(the OpenAI SDKs request base64 by default), or let the gateway encode base64 "
        "(translation.base64_embeddings: encode)"
    )
    return GatewayError(Reason.MALFORMED, message, param="encoding_format")


def not_a_function(tool: Fields, kind: str, name: str | None) -> GatewayError:
    """Return the refusal of a tool that is no function, which no other family runs (contract 8.5)."""
    called = "" if name is None else f" {name[:64]!r}"
    message = (
        f"the tool{called} is of type {kind[:64]!r}; only functions can be translated, and a provider of the "
        "client's own family accepts it unchanged"
    )
    return tool.wrong("type", message)


def proxy_message(body: bytes) -> str:
    """Return the words of what is no JSON: plain text, or the title or text of an HTML page; else nothing.

    Proxies and load balancers before a provider answer so.  At most 500 characters are told.
    """
    text = body[:_MOST_OF_A_PAGE].decode("utf-8", "replace").strip()
    if text.startswith("<"):
        titles = (title for title in _TITLE.findall(text) if not title.isspace())
        text = unescape(_TAG.sub(" ", _UNSPOKEN.sub(" ", next(filter(None, titles), text))))
    elif not text or text[0] in '{["' or _CONTROL.search(text):
        return ""
    return " ".join(text.split())[:_MOST_WORDS]


class AnswerError(GatewayError):
    """A whole answer of good status that is an error: the client gets the status that its words stand for."""

    def __init__(self, error: UpstreamError) -> None:
        super().__init__(Reason.UPSTREAM_BROKEN, f"the upstream failed: {error.message}")
        self.error = error


UNREADABLE_EVENT: Final = Broke(UpstreamError(502, "the upstream sent an event that cannot be read"))
"""Ends a stream in which something stands that is no event: what it said must not be lost in silence."""


def own_message(document: Any, error: Any, keys: Sequence[str]) -> str | None:  # Any: JSON
    """Return what stands in the message field of an error, or in that of the error in its place.

    Nothing else of a document is ever returned: hosts put the request beside the message.

    :param error: what the document has for an error; a text is its message, but where it is all there is.
    :param keys: where an error may have its message.
    """
    first = document[0] if type(document) is list and document else document
    return None if error is first and type(error) is str else _message_in(error, keys)


def _message_in(error: Any, keys: Sequence[str], depth: int = 3) -> str | None:  # Any: JSON
    if type(error) is list:
        error = error[0] if error else None  # as validators do: one element for each problem
    if type(error) is str:
        return _limited(error) or None
    if type(error) is dict and depth:
        return next((found for key in keys if (found := _message_in(error.get(key), keys, depth - 1))), None)
    return None


def _limited(message: str) -> str:
    """Return so much of a message as is looked at; a word that is cut is left out, since it may be a key."""
    if len(message) <= MAX_OWN_MESSAGE:
        return message
    return message[:MAX_OWN_MESSAGE].rstrip(_OF_WORDS) + "…"


def make_encodable(text: str) -> str:
    """Return ``text`` with each lone surrogate replaced by ``?``: a refusal may quote what a client sent."""
    return text.encode("utf-8", "replace").decode()
