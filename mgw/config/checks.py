"""Valid addresses, headers, names and keys: checks, and patterns for the JSON schema.

Each check returns the text as it will be used and raises ``ValueError`` with a sentence that says what is
wrong and never quotes a value that could hold a secret.

A pattern is for editors.  It never refuses what the loader takes; where the loader is stricter than a pattern
can say (whether an address exists), the pattern is the wider of the two.  They are written for the regular
expressions of ECMAScript, without flags, as the standard of JSON schema demands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from mgw.config.listen import ENDPOINT_TYPES
from mgw.config.quoting import quote

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_BLANK_OR_CONTROL: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_.])?")
_BRACKETED: Final = re.compile(r"\[[^\[\]]*\](?::[0-9]*)?")
_URL_PATH: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*")
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110 5.6.2
_HEADER_VALUE: Final = re.compile(r"[\x20-\x7e\xa0-\xff]*")
_ENTRY_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_PROVIDER_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_PLACEHOLDER: Final = re.compile(
    r"\$\{[^}]*\}|\$[A-Za-z_][A-Za-z0-9_]*|os\.environ/.*|<.*>"  # of shells, of LiteLLM, of documents
)
_NOT_FILLED_IN: Final = "a placeholder, and placeholders are not filled in: write the address itself"
_NO_USER: Final = "an issuer's keys are public; for those that require a token, set token_file"
_QUOTES: Final = frozenset({"'", '"', "`"})
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_A_VARIABLE: Final = "expected the name of an environment variable (letters, digits and _)"

CREDENTIAL_HEADERS: Final = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "x-api-key",
        "x-goog-api-key",
        "cookie",
        "set-cookie",
        "openai-insecure-api-key",
    }
)
"""Carriers of credentials (contract 2.12): keys belong into ``api_key`` and its like."""

FRAMING_HEADERS: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""What belongs to one connection or one body (RFC 9110 7.6.1): the gateway's own to write."""


_WEBSOCKET_SCHEME: Final = re.compile("wss?://", re.IGNORECASE)
_ORIGIN: Final = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/?#@\s]+")


def checked_text(text: str) -> str:
    """Take any text that is not empty and has no control characters."""
    if not text:
        raise ValueError("expected a string, found an empty string")
    if _CONTROL.search(text):
        raise ValueError("expected a string without control characters")
    return text


def checked_name(text: str) -> str:
    """Take a model id or an alias: text without blanks or control characters."""
    if not text:
        raise ValueError("expected a name, found an empty string")
    if _BLANK_OR_CONTROL.search(text) or _CONTROL.search(text):
        raise ValueError(f"expected a name without spaces or control characters, found {quote(text)}")
    return text


def checked_variable(text: str) -> str:
    """Take the name of an environment variable; anything else may be a key in the wrong place."""
    if not _VARIABLE.fullmatch(text):
        if _VARIABLE.fullmatch(text.removeprefix("$").strip("{}")):
            raise ValueError(f"{_A_VARIABLE}: write the name alone, without $ and braces")
        raise ValueError(f"{_A_VARIABLE}, not its value")
    return text


def checked_provider_name(text: str) -> str:
    """Take a provider's name: it stands before ``/`` in a model id, in a query and in a header."""
    if not _PROVIDER_NAME.fullmatch(text):
        raise ValueError(
            f"a provider's name may contain only letters, digits, '.', '_' and '-', found {quote(text)}"
        )
    return text


def checked_entry_name(text: str) -> str:
    """Take the name of an entry of the credential store: it becomes part of a file's name."""
    if not _ENTRY_NAME.fullmatch(text):
        raise ValueError(
            "expected a name of at most 64 letters, digits, '.', '_' and '-' that does not begin with '.' "
            f"or '-', found {quote(text)}"
        )
    return text


def is_placeholder(text: str) -> bool:
    """Say whether a text only stands for another, in a notation that somebody else fills in."""
    return _PLACEHOLDER.fullmatch(text) is not None


def checked_key(text: str, instead: str) -> str:
    """Take a key that can travel in a header, as it is.

    :param instead: what to do where it only stands for a key.
    """
    if not text:
        raise ValueError("is empty")
    if is_placeholder(text):
        raise ValueError(f"is a placeholder, and placeholders are not filled in: {instead}")
    if text.endswith(("\n", "\r")):
        raise ValueError("ends with a line break: store it without one (printf %s, not echo)")
    if text.lower().startswith("bearer "):
        raise ValueError('begins with "Bearer ": store the key alone')
    if len(text) > 2 and text[0] == text[-1] and text[0] in _QUOTES:
        raise ValueError("has quotes around it that are part of its value: store it without them")
    if _BLANK_OR_CONTROL.search(text):
        raise ValueError("contains spaces or control characters, which no key can (a line break at the end?)")
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        raise ValueError("contains characters that cannot be sent in a header (outside Latin-1)") from None
    return text


def checked_field_name(text: str) -> str:
    """Take any header name (RFC 9110 5.1)."""
    if not _TOKEN.fullmatch(text):
        raise ValueError(f"expected a header name, found {quote(text)}")
    return text


def checked_header_name(text: str) -> str:
    """Take a header name that an operator may edit."""
    checked_field_name(text)
    lower = text.lower()
    if lower in CREDENTIAL_HEADERS:
        raise ValueError(
            f"{text} carries credentials: set the provider's api_key, token_file or auth instead"
        )
    if lower in FRAMING_HEADERS or lower.startswith("sec-websocket-"):
        raise ValueError(f"{text} describes the connection, so only the gateway sets it")
    return text


def checked_header_value(text: str) -> str:
    """Take a header value (RFC 9110 5.5) without blanks around it."""
    if not _HEADER_VALUE.fullmatch(text):
        raise ValueError("expected a header value without control characters or characters outside Latin-1")
    if text != text.strip():
        raise ValueError("expected a header value without leading or trailing spaces")
    return text


def checked_absolute_path(text: str) -> str:
    """Take a path that means the same wherever the process changes to."""
    if not checked_text(text).startswith("/"):
        raise ValueError(f"expected an absolute path (one that begins with /), found {quote(text)}")
    return text


def checked_base_url(text: str) -> str:
    """Take a provider's base address; scheme and host become lower case, a trailing ``/`` goes.

    ``ws`` and ``wss`` are other words for ``http`` and ``https`` (how realtime providers are told).
    """
    if is_placeholder(text):
        raise ValueError(_NOT_FILLED_IN)
    scheme = _WEBSOCKET_SCHEME.match(text)
    if scheme is not None:
        text = "http" + text[2:]
    return _checked_address(text, "keys belong in api_key")


def is_loopback(host: str) -> bool:
    """Say whether what is sent to a host stays on this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def checked_origin(text: str) -> str:
    """Take the origin of web pages as browsers state it (RFC 6454 6.2), or ``*`` for any."""
    lowered = text.lower()
    if not _ORIGIN.fullmatch(lowered):
        raise ValueError(f"expected an origin such as https://app.example.com, or *, found {quote(text)}")
    return lowered


def checked_public_url(text: str) -> str:
    """Take the gateway's own address as clients know it, in the same way."""
    return _checked_address(text, "each client sends its own credentials")


def checked_token_url(text: str) -> str:
    """Take the address of a token endpoint, which is used as it is (RFC 6749 3.2: it may have a query)."""
    return _checked_full_address(text, "the client's id and secret have settings of their own")


def checked_issuer(text: str) -> str:
    """Take an issuer of tokens, which they state in exactly the same characters."""
    if is_placeholder(text):
        raise ValueError(_NOT_FILLED_IN)
    _need_tls(_checked_address(text, _NO_USER))
    return text


def checked_jwks_url(text: str) -> str:
    """Take the address of an issuer's keys, which is used as it is."""
    if is_placeholder(text):
        raise ValueError(_NOT_FILLED_IN)
    return _need_tls(_checked_full_address(text, _NO_USER))


def _need_tls(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise ValueError(
            "expected an https:// address: anyone who can change an answer on its way could sign tokens "
            "(http:// is possible only for this machine, such as http://localhost:8080)"
        )
    return address


def checked_sts_url(text: str) -> str:
    """Take the address of AWS's token service, in the same way as a provider's."""
    return _checked_address(text, "keys have settings of their own")


def checked_webhook_url(text: str) -> str:
    """Take the address of a webhook, in the same way."""
    return _checked_full_address(text, "write an Authorization header into headers")


def checked_otlp_endpoint(text: str) -> str:
    """Take the address of a collector of traces and metrics, in the same way as a provider's."""
    found = _checked_address(text, "write an Authorization header into headers")
    for signal in ("/v1/traces", "/v1/metrics"):
        if found.endswith(signal):
            raise ValueError(f"expected an address without {signal}, which is added to it")
    return found


def _checked_full_address(text: str, instead_of_user: str) -> str:
    if "#" in text:
        raise ValueError("expected an address without a fragment (no #)")
    address, mark, query = text.partition("?")
    checked = _checked_address(address, instead_of_user)
    if not _URL_PATH.fullmatch(query.replace("?", "/")):
        raise ValueError("expected a percent-encoded query")
    parts = urlsplit(address)
    root = checked.removesuffix(parts.path.rstrip("/"))
    return f"{root}{parts.path}{mark}{query}"


def _checked_address(text: str, instead_of_user: str) -> str:
    if "${" in text:
        raise ValueError("the address has a placeholder in it, and placeholders are not filled in")
    if not text.isascii():
        raise ValueError(
            "expected an address in ASCII: write the host name in its xn-- form and percent-encode the path"
        )
    if _BLANK_OR_CONTROL.search(text):
        raise ValueError("expected an address without spaces or control characters")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("expected an address with a host and a port from 1 to 65535") from None
    if parts.scheme not in ("http", "https") or not text[len(parts.scheme) :].startswith("://"):
        raise ValueError("expected an address that begins with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError(f"expected an address without a user name or password: {instead_of_user}")
    if "?" in text or "#" in text:
        raise ValueError("expected an address without a query or fragment (no ? or #)")
    if not _URL_PATH.fullmatch(parts.path) or {".", ".."} & set(parts.path.split("/")):
        raise ValueError("expected a plain, percent-encoded path without . and .. segments")
    if port == 0:
        raise ValueError("expected a port from 1 to 65535, found 0")
    return (
        f"{parts.scheme}://{checked_host(parts)}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"
    )


def checked_host(parts: SplitResult) -> str:
    """Take the host of an address: a name, or an IP address, one of version 6 in brackets."""
    host = parts.hostname or ""
    if "[" in parts.netloc:
        if not _BRACKETED.fullmatch(parts.netloc):  # urlsplit passes over what stands around them
            raise ValueError("expected only a port after an address in brackets")
        try:
            return f"[{IPv6Address(host).compressed}]"
        except ValueError:
            raise ValueError("expected an IPv6 address between the brackets") from None
    if not _HOST_NAME.fullmatch(host):
        raise ValueError("expected a host name or an IP address after ://")
    return host


Schema = dict[str, Any]  # Any: JSON

_CONTROL_CLASS: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
_HOST_PATTERN: Final = r"(?:\[[^\]\s]+\]|[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_.])?)"
_PORT_PATTERN: Final = (
    "0*(?:[0-5]?[0-9]{1,4}|6(?:[0-4][0-9]{3}|5(?:[0-4][0-9]{2}|5(?:[0-2][0-9]|3[0-5]))))"  # up to 65535
)
_NO_DOT_SEGMENT: Final = r"(?!.*/\.\.?(?:/|$))"
_URL_PATH_PATTERN: Final = r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*)?"


def text_like(pattern: str) -> Schema:
    """Return the schema of a text with this pattern."""
    return {"type": "string", "pattern": f"^{pattern}$"}


def any_case(names: Iterable[str]) -> str:
    """Return a pattern of these names in whatever case."""
    return "|".join(
        "".join(f"[{letter}{letter.upper()}]" if letter.isalpha() else letter for letter in name)
        for name in sorted(names)
    )


TEXT: Final = text_like(f"[^{_CONTROL_CLASS}]+")
NAME: Final = text_like(rf"[^\s{_CONTROL_CLASS}]+")
VARIABLE: Final = text_like("[A-Za-z_][A-Za-z0-9_]*")
ENTRY_NAME: Final = text_like("[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
PROVIDER_NAME: Final = text_like("[A-Za-z0-9._-]+")
KEY: Final = text_like(r"[\x21-\x7e\xa1-\xff]+") | {
    "not": {"pattern": r"^(?:\$\{[^}]*\}|\$[A-Za-z_][A-Za-z0-9_]*|os\.environ/.*|<.*>)$"}
}
_NOT_EDITED: Final = any_case(CREDENTIAL_HEADERS | FRAMING_HEADERS)
_OF_UPGRADES: Final = any_case(["sec-websocket-"])
HEADER_NAME: Final = text_like(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+") | {
    "not": {"pattern": f"^(?:{_NOT_EDITED})$|^{_OF_UPGRADES}"}
}
HEADER_VALUE: Final = text_like(r"(?:[\x21-\x7e\xa1-\xff](?:[\x20-\x7e\xa0-\xff]*[\x21-\x7e\xa1-\xff])?)?")
ADDRESS: Final = text_like(
    f"{_NO_DOT_SEGMENT}[hH][tT][tT][pP][sS]?://{_HOST_PATTERN}(?::{_PORT_PATTERN}?)?{_URL_PATH_PATTERN}"
)
UPSTREAM_ADDRESS: Final = text_like(
    f"{_NO_DOT_SEGMENT}(?:[hH][tT][tT][pP]|[wW][sS])[sS]?://{_HOST_PATTERN}(?::{_PORT_PATTERN}?)?"
    f"{_URL_PATH_PATTERN}"
)
OTLP_ENDPOINT: Final = text_like(
    f"{_NO_DOT_SEGMENT}(?!.*/v1/(?:traces|metrics)/?$)[hH][tT][tT][pP][sS]?://{_HOST_PATTERN}"
    f"(?::{_PORT_PATTERN}?)?{_URL_PATH_PATTERN}"
)
_ENCODED_PATTERN: Final = r"[\x21\x22\x24-\x3e\x40-\x7e]+"
_USER_PATTERN: Final = r"(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})+"
PROXY_ADDRESS: Final = text_like(
    f"[hH][tT][tT][pP][sS]?://(?:{_USER_PATTERN}@)?{_HOST_PATTERN}:{_PORT_PATTERN}/?"
)
REDIS_ADDRESS: Final = text_like(
    f"(?:[rR][eE][dD][iI][sS][sS]?://(?:{_USER_PATTERN}@)?{_HOST_PATTERN}(?::{_PORT_PATTERN}?)?(?:/[0-9]{{0,5}})?"
    f"|[uU][nN][iI][xX]://(?:{_USER_PATTERN}@)?/{_ENCODED_PATTERN}(?:[?](?:db=[0-9]{{1,5}})?)?)"
)
_QUERY_PATTERN: Final = r"(?:\?(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?"
TOKEN_URL: Final = text_like(
    rf"(?![^?]*/\.\.?(?:[/?]|$))[hH][tT][tT][pP][sS]?://{_HOST_PATTERN}(?::{_PORT_PATTERN}?)?{_URL_PATH_PATTERN}"
    f"{_QUERY_PATTERN}"
)
_LOOPBACK_PATTERN: Final = (
    rf"(?:127\.[0-9.]+|(?:[A-Za-z0-9_][A-Za-z0-9._-]*\.)?(?:{any_case(['localhost'])})|\[[^\]\s]+\])"
)
_TLS_OR_LOOPBACK: Final = f"(?:[hH][tT][tT][pP][sS]://{_HOST_PATTERN}|[hH][tT][tT][pP]://{_LOOPBACK_PATTERN})"
ISSUER: Final = text_like(f"{_NO_DOT_SEGMENT}{_TLS_OR_LOOPBACK}(?::{_PORT_PATTERN}?)?{_URL_PATH_PATTERN}")
JWKS_URL: Final = text_like(
    rf"(?![^?]*/\.\.?(?:[/?]|$)){_TLS_OR_LOOPBACK}(?::{_PORT_PATTERN}?)?{_URL_PATH_PATTERN}{_QUERY_PATTERN}"
)
ORIGIN: Final = text_like(r"(?:\*|[nN][uU][lL][lL]|[A-Za-z][A-Za-z0-9+.-]*://[^/?#@\s]+)")
ABSOLUTE_PATH: Final = text_like(f"/[^{_CONTROL_CLASS}]*")
NETWORK: Final = text_like("[0-9A-Fa-f:.]+(?:/[0-9]{1,3})?")
TARGET: Final = text_like(rf"[^/\s{_CONTROL_CLASS}]+/[^\s{_CONTROL_CLASS}]+")
LISTEN: Final = text_like(
    rf"(?:(?:{'|'.join(sorted(ENDPOINT_TYPES))}):\S(?:.*\S)?|(?:\[[^\]\s]+\]|[A-Za-z0-9](?:[A-Za-z0-9._-]*"
    r"[A-Za-z0-9])?)?:"
    f"{_PORT_PATTERN})"
)
