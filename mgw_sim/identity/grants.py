"""The exchange of a provider's own tokens for others: what a server sends to act on behalf of its caller.

Sources: RFC 8693 (token exchange), RFC 7523 2.1 (a token as the grant), Microsoft's identity platform
("OAuth 2.0 On-Behalf-Of flow": ``requested_token_use=on_behalf_of`` with that grant).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from mgw_sim.tokens import GrantRequest, TokenRefusedError

TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105  a name
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_TYPE: Final = "urn:ietf:params:oauth:token-type:"
_SUBJECT_TYPES: Final = frozenset({f"{_TYPE}access_token", f"{_TYPE}id_token", f"{_TYPE}jwt"})
_ISSUED_TYPES: Final = frozenset({f"{_TYPE}access_token", f"{_TYPE}jwt"})
_ON_BEHALF: Final = "on_behalf_of"


class Grant(Struct, frozen=True):
    """What is granted: on behalf of whom, and as which type of token (None: its type is not mentioned)."""

    claims: dict[str, Any]
    issued_type: str | None

    @property
    def subject(self) -> str:
        """Whom the token is about."""
        return str(self.claims.get("sub", ""))

    @property
    def is_signed(self) -> bool:
        """Whether the new token is to be a signed one."""
        return self.issued_type == f"{_TYPE}jwt"


def grant(request: GrantRequest, read_token: Callable[[str], dict[str, Any]]) -> Grant:
    """Check a request.  Raises TokenRefusedError.

    :param read_token: returns the claims of a token; raises ValueError where the provider does not accept it.
    """
    if (request.client_secret or "").startswith("wrong"):
        raise TokenRefusedError("invalid_client", 401)
    match request.form.get("grant_type"):
        case None:
            raise TokenRefusedError("invalid_request")
        case grant_type if grant_type == TOKEN_EXCHANGE:
            return _exchange(request, read_token)
        case grant_type if grant_type == JWT_BEARER:
            return _bearer(request, read_token)
    raise TokenRefusedError("unsupported_grant_type")


def opaque_token(provider: str, subject: str, serial: int) -> str:
    """A token that says whose it is: ``sim-idp-corp-ann~40example.com-7``."""
    said = quote(subject, safe="").replace("~", "%7E").replace("%", "~")  # RFC 6750 2.1 has no %
    return f"sim-idp-{provider}-{said}-{serial}"


def exchanged_claims(granted: Grant, request: GrantRequest, serial: int) -> dict[str, Any]:
    """The claims of a signed token in exchange (RFC 8693 4.1: ``act``)."""
    audience = request.form.get("audience") or request.form.get("resource") or "upstream"
    actor = {"act": {"sub": request.client_id}} if request.client_id else {}
    return {"sub": granted.subject, "aud": audience, "jti": f"sim-{serial}", **actor}


def client_authentication(request: GrantRequest) -> str:
    """How the client has authenticated: ``basic``, ``form``, ``assertion`` or ``none``."""
    form: Mapping[str, str] = request.form
    if "client_assertion" in form:
        return "assertion"
    if "client_secret" in form:
        return "form"
    return "basic" if request.client_secret is not None else "none"


def _exchange(request: GrantRequest, read_token: Callable[[str], dict[str, Any]]) -> Grant:
    """RFC 8693 2.1; a bad subject token is an ``invalid_request`` (2.2.2)."""
    token, kind = request.need("subject_token"), request.need("subject_token_type")
    issued_type = request.form.get("requested_token_type", f"{_TYPE}access_token")
    if kind not in _SUBJECT_TYPES or issued_type not in _ISSUED_TYPES:
        raise TokenRefusedError("invalid_request")
    try:
        return Grant(read_token(token), issued_type)
    except ValueError:
        raise TokenRefusedError("invalid_request") from None


def _bearer(request: GrantRequest, read_token: Callable[[str], dict[str, Any]]) -> Grant:
    """RFC 7523 2.1; a bad assertion is an ``invalid_grant`` (RFC 7521 4.1.1)."""
    assertion = request.need("assertion")
    if request.form.get("requested_token_use", _ON_BEHALF) != _ON_BEHALF:
        raise TokenRefusedError("invalid_request")
    try:
        return Grant(read_token(assertion), None)
    except ValueError:
        raise TokenRefusedError("invalid_grant") from None
