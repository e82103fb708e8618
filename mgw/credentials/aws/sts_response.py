"""What the Security Token Service answers: keys, or an error, in XML.

Of XML this reads what the service writes, elements that hold elements or text.  A document type, which could
define entities that grow without bound or lead to files, is refused as soon as it begins; so is a document
that is nested deeper than any response is.  How long it is has been bounded before.

Sources: API reference of STS, version 2011-06-15 (``AssumeRole``, "Common errors").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final
from xml.parsers.expat import ExpatError, ParserCreate

from mgw.credentials.aws.obtained import read_keys
from mgw.credentials.token_request import JsonResponse, TokenRequestError, TokenResponse

MAX_DEPTH: Final = 16
"""How deeply elements are nested; in a response with keys it is four."""
_MAX_TEXTS: Final = 256
"""How many elements with a text are read."""

_KEYS: Final = "the keys that the role is assumed with are not accepted"
_POLICIES: Final = (
    "check the role's trust policy, the external id that it may require (aws.external_id), and the policies "
    "of the identity that assumes it"
)
ERROR_HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AccessDenied": _POLICIES,
        "AccessDeniedException": _POLICIES,
        "ExpiredToken": f"{_KEYS}: they have expired",
        "ExpiredTokenException": "the web identity token or the keys to assume the role with have expired",
        "IDPCommunicationError": "AWS cannot reach the identity provider: try again",
        "IDPRejectedClaim": "the identity provider has rejected the web identity token",
        "IncompleteSignature": "a proxy may have changed the request",
        "InvalidAction": "this is not an endpoint of STS: check aws.sts_url",
        "InvalidClientTokenId": f"{_KEYS}: no such access key is active",
        "InvalidIdentityToken": "the web identity token is not valid: check its file, its audience and the "
        "identity provider in IAM",
        "MalformedPolicyDocument": "check the policies of the role",
        "MissingAuthenticationToken": "this is not an endpoint of STS: check aws.sts_url",
        "OptInRequired": "the account does not have this service",
        "PackedPolicyTooLarge": "the session has too many policies and tags",
        "RegionDisabledException": "STS is turned off in this region: turn it on in IAM, or set aws.sts_url",
        "RequestExpired": "check the clock of this machine",
        "RequestInTheFuture": "check the clock of this machine",
        "RequestTimeTooSkewed": "check the clock of this machine",
        "ServiceUnavailable": "try again later",
        "SignatureDoesNotMatch": f"{_KEYS}: check the secret access key and the clock of this machine",
        "Throttling": "too many requests to STS",
        "ThrottlingException": "too many requests to STS",
        "UnrecognizedClientException": f"{_KEYS}: no such access key is active",
        "ValidationError": "check aws.role_arn, aws.session_name and aws.external_id",
    }
)
"""Codes of errors, each with what to do; no other word of a response is repeated."""


def parse_role_keys(response: JsonResponse, name: str, wall: Callable[[], float]) -> TokenResponse:
    """Return the keys in a response.

    :param name: how messages name the endpoint.
    :param wall: unix seconds, for a response without a date.
    :raises TokenRequestError: it is an error, with its code if that is known, or none that can be used.
    """
    status = response.status
    try:
        texts = read_texts(response.body)
    except ValueError:
        what = "its body is not a response of STS: check aws.sts_url"
        raise TokenRequestError(f"{name} answered {status}, but {what}", status) from None
    if status != 200:
        raise _error(status, texts.get("Code"), name)
    try:
        return read_keys(texts, "SessionToken", response.headers, wall)
    except ValueError as fault:
        raise TokenRequestError(f"{name} answered {status}, but {fault}", status) from None


def read_texts(document: bytes) -> dict[str, str]:
    """Return the texts of a document by the names of their elements; of several, the first counts.

    :raises ValueError: it is not XML, has a document type, or is nested too deeply.
    """
    reader = _Reader()
    parser = ParserCreate("utf-8")  # whatever it says of itself
    parser.StartElementHandler = reader.on_start
    parser.EndElementHandler = reader.on_end
    parser.CharacterDataHandler = reader.on_text
    parser.StartDoctypeDeclHandler = reader.on_document_type
    parser.buffer_text = True
    try:
        parser.Parse(document, True)  # noqa: FBT003  (it takes no names)
    except ExpatError:
        raise ValueError("it is not XML") from None
    return reader.texts


class _Reader:
    """Collects the texts of the innermost elements."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._depth = 0
        self._text: list[str] = []

    def on_start(self, _name: str, _attributes: dict[str, str]) -> None:
        """Begin an element; what stood before it was the space between elements."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        self._text.clear()

    def on_end(self, name: str) -> None:
        """End an element."""
        self._depth -= 1
        text = "".join(self._text).strip()
        self._text.clear()
        if text and len(self.texts) < _MAX_TEXTS:
            self.texts.setdefault(name, text)

    def on_text(self, text: str) -> None:
        """Read a piece of text."""
        self._text.append(text)

    def on_document_type(self, *_: object) -> None:
        """Refuse a document type, with all that it could define."""
        raise ValueError("it has a document type")


def _error(status: int, code: str | None, name: str) -> TokenRequestError:
    if code is not None and code in ERROR_HINTS:
        return TokenRequestError(f"{name} answered {status} {code}: {ERROR_HINTS[code]}", status, code)
    if status == 429 or status >= 500:
        return TokenRequestError(f"{name} answered {status}: try again later", status)
    return TokenRequestError(f"{name} answered {status}: check aws.role_arn and aws.sts_url", status)
