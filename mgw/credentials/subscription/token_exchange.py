"""What a profile's endpoints are asked for, and what becomes of an entry of the store by their answers.

Sources: RFC 6749 4.1.3 and 6 (codes, refreshing), RFC 7636 (PKCE), RFC 7009 (revocation), RFC 8628 (device
codes).
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mgw.config.profile import Profile, TokenRequestStyle
from mgw.credentials.subscription.store import StoredCredential
from mgw.credentials.token_request import (
    Encoding,
    JsonResponse,
    TokenClient,
    TokenRequestError,
    parse_token,
    post_request,
)
from mgw.nouns.secret import Secret

MAX_DETAIL_CHARACTERS: Final = 256
DEVICE_INTERVAL: Final = 5.0
"""Seconds between two polls where the endpoint names no interval (RFC 8628 3.2)."""
MIN_INTERVAL: Final = 0.05
MAX_DEVICE_SECONDS: Final = 1800.0
_MAX_SHOWN_CHARACTERS: Final = 2000
_ENCODINGS: Final = {TokenRequestStyle.FORM: Encoding.FORM, TokenRequestStyle.JSON: Encoding.JSON}
_CLAIMS: Final = "id_token"

Fields = Mapping[str, str | Secret]


class DeviceCode(Struct, frozen=True):
    """What a device authorization endpoint says (RFC 8628 3.2); its texts may be shown on a terminal."""

    secret: Secret
    """The device code, with which the gateway polls."""
    user_code: str
    page: str
    """The address of the page where the code is typed in."""
    whole_page: str | None
    """The address of the page with the code filled in; ``None``: the endpoint named none."""
    seconds: float
    """How long the code is valid."""
    interval: float
    """Seconds between two polls."""

    def __repr__(self) -> str:
        return f"DeviceCode({self.seconds:g} s)"


class ProfileEndpoints:
    """The endpoints of one profile.

    :param name: of the profile, for messages.
    """

    def __init__(self, client: TokenClient, name: str, profile: Profile) -> None:
        self._client = client
        self._name = name
        self._profile = profile

    async def log_in(self, fields: Fields, now: float) -> StoredCredential:
        """Return the entry that a grant gives.

        :param fields: of the grant; the client's own are added.
        :param now: unix seconds.
        :raises TokenRequestError: it gives none.
        """
        response = await self._ask_for_token(fields)
        return self._entry(
            response, StoredCredential(profile=self._name, access_token=Secret(""), created_at=now), now
        )

    async def refresh(self, entry: StoredCredential, now: float) -> StoredCredential:
        """Return an entry with a new access token, and the refresh token that belongs to it.

        :raises TokenRequestError: there is none.
        """
        assert entry.refresh_token is not None, "the caller checked it"
        fields: Fields = {"grant_type": "refresh_token", "refresh_token": entry.refresh_token}
        response = await self._ask_for_token(fields)
        return replace(
            self._entry(response, entry, now),
            refreshed_at=now,
            last_error=None,
            last_error_at=None,
            is_lost=False,
        )

    async def poll_device(self, device_code: Secret, now: float) -> StoredCredential:
        """Return the entry that a device code gives, once somebody has approved it (RFC 8628 3.4).

        :raises TokenRequestError: nobody has, or it is refused: its ``error_code`` says which.
        """
        grant = "urn:ietf:params:oauth:grant-type:device_code"
        return await self.log_in({"grant_type": grant, "device_code": device_code}, now)

    async def ask_for_device_code(self) -> DeviceCode:
        """Return what the device authorization endpoint says.

        :raises TokenRequestError: it is an error, or misses something.
        """
        device = self._profile.device
        assert device.url is not None, "the caller checked it"
        name = f"the device endpoint of profile {self._name!r}"
        fields: dict[str, str | Secret] = {**self._client_fields(), **device.parameters}
        if self._profile.scopes:
            fields["scope"] = " ".join(self._profile.scopes)
        request = post_request(device.url, fields, (), Encoding.FORM)
        response = await self._client.ask(request, name)
        if not 200 <= response.status < 300:
            parse_token(response, name)  # says what it knows of an error
        try:
            code = _device_code(response.fields or {})
        except ValueError as error:
            message = f"{name} answered {response.status} without {error}: check its URL"
            raise TokenRequestError(message) from None
        self._client.recent.note(code)
        return code

    async def revoke(self, entry: StoredCredential) -> None:
        """Give the tokens of an entry back (RFC 7009).

        :raises TokenRequestError: it did not work.
        """
        url = self._profile.revocation.url
        assert url is not None, "the caller checked it"
        name = f"the revocation endpoint of profile {self._name!r}"
        token, hint = entry.refresh_token, "refresh_token"
        if token is None:
            token, hint = entry.access_token, "access_token"
        fields = {"token": token, "token_type_hint": hint, **self._client_fields()}
        response = await self._client.ask(post_request(url, fields), name)
        if not 200 <= response.status < 300:
            raise TokenRequestError(f"{name} answered {response.status}", response.status)

    async def _ask_for_token(self, fields: Fields) -> JsonResponse:
        token = self._profile.token
        assert token.url is not None, "a profile that was loaded has one"
        name = f"the token endpoint of profile {self._name!r}"
        headers = tuple(
            (key.encode("latin-1"), value.encode("latin-1")) for key, value in token.headers.items()
        )
        whole = {**fields, **self._client_fields(), **token.parameters}
        self._client.recent.note(whole)
        response = await self._client.ask(
            post_request(token.url, whole, headers, _ENCODINGS[token.style]), name
        )
        self._client.recent.note(parse_token(response, name))
        return response

    def _client_fields(self) -> dict[str, str | Secret]:
        secret = self._profile.client_secret
        own: dict[str, str | Secret] = {"client_id": self._profile.client_id}
        return own if secret is None else {**own, "client_secret": secret}

    def _entry(self, response: JsonResponse, before: StoredCredential, now: float) -> StoredCredential:
        """Return an entry with what a response says; what it does not say stays."""
        token = parse_token(response, f"the token endpoint of profile {self._name!r}")
        fields = response.fields or {}
        account = self._profile.account
        found = {name: _value_at(fields, path) for name, path in account.details.items()}
        details = {**before.details, **{name: value for name, value in found.items() if value is not None}}
        return replace(
            before,
            access_token=token.access_token,
            refresh_token=token.refresh_token or before.refresh_token,
            expires_at=now + token.expires_in if "expires_in" in fields else None,
            scopes=_scopes(fields.get("scope")) or before.scopes or self._profile.scopes,
            account=_value_at(fields, account.label) or before.account,
            details=details,
        )


def _device_code(fields: Mapping[str, Any]) -> DeviceCode:
    """Take a device code.

    :raises ValueError: it has no field of the name that is the error's text.
    """
    secret, user_code = fields.get("device_code"), fields.get("user_code")
    page, whole_page = fields.get("verification_uri"), fields.get("verification_uri_complete")
    if not isinstance(secret, str):
        raise ValueError("device_code")
    if not isinstance(user_code, str):
        raise ValueError("user_code")
    if not _is_page(page):
        raise ValueError("verification_uri")
    return DeviceCode(
        Secret(secret),
        _printable(user_code),
        _printable(page),
        _printable(whole_page) if _is_page(whole_page) else None,
        _number(fields.get("expires_in"), MAX_DEVICE_SECONDS),
        max(MIN_INTERVAL, _number(fields.get("interval"), DEVICE_INTERVAL)),
    )


def _is_page(value: object) -> TypeGuard[str]:
    """Whether somebody may be sent there: of a ``javascript:`` address a page would make a trap."""
    return isinstance(value, str) and value.lower().startswith(("http://", "https://"))


def _printable(text: str) -> str:
    """Return a vendor's text as a terminal may show it."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_MAX_SHOWN_CHARACTERS])


def _number(value: object, otherwise: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
        return otherwise
    return float(min(value, MAX_DEVICE_SECONDS))


def _scopes(value: object) -> tuple[str, ...]:
    return tuple(filter(None, map(header_text, value.split()))) if isinstance(value, str) else ()


def _value_at(fields: Mapping[str, Any], path: Sequence[str]) -> str | None:
    """Return the text or number to which a path leads, if it can stand in a header."""
    if not path:
        return None
    value: Any = _claims(fields.get(_CLAIMS)) if path[0] == _CLAIMS and len(path) > 1 else fields.get(path[0])
    for key in path[1:]:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return header_text(str(value)) or None


def header_text(text: str) -> str:
    """Return a text as it can stand in a header and on a terminal; empty where it cannot."""
    fits = len(text) <= MAX_DETAIL_CHARACTERS and all(" " <= letter <= "~" for letter in text)
    return text.strip() if fits else ""


def _claims(token: object) -> dict[str, Any] | None:
    """Return the claims of a token, unverified: it came from the endpoint itself.

    Source: OpenID Connect Core 3.1.3.7.
    """
    if not isinstance(token, str) or token.count(".") != 2:
        return None
    payload = token.split(".")[1]
    try:
        found = msgspec.json.decode(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
