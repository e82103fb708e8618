"""Assume roles with the Security Token Service: with keys (AssumeRole), or with a web identity token.

A role may be assumed with the keys of another one.  Each role of such a chain is renewed by itself, so the
keys below are at hand, and they are renewed too where the service says that they have expired.

Sources: API reference of STS, version 2011-06-15 (``AssumeRole``, ``AssumeRoleWithWebIdentity``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Final
from urllib.parse import urlencode, urlsplit

from mgw.credentials.aws.clock import HostClock
from mgw.credentials.aws.errors import EXPIRED
from mgw.credentials.aws.keys import AssumedRole, AwsKeys, WebIdentity
from mgw.credentials.aws.signed_keys import KeyGiver, SignedKeys
from mgw.credentials.aws.signer import SigV4
from mgw.credentials.aws.sts_response import parse_role_keys
from mgw.credentials.provider import Credential
from mgw.credentials.signing import Signing
from mgw.credentials.token_request import (
    EndpointRequest,
    HeaderPairs,
    TokenClient,
    TokenRequestError,
    TokenResponse,
    parse_token_text,
)
from mgw.nouns.secret import Secret
from mgw.reactor.daemon_threads import ThreadRunner
from mgw.reactor.regular_file import MAX_TOKEN_FILE, read_regular_file

SERVICE_NAME: Final = "AWS STS"
API_VERSION: Final = "2011-06-15"
_PORTS: Final = {"http": 80, "https": 443}
_ANY: Final = b"*/*"
"""Gets XML: asked for JSON, the service answers in JSON."""
_CONTENT_TYPE: Final = (b"Content-Type", b"application/x-www-form-urlencoded; charset=utf-8")


def assume_role_form(role: AssumedRole) -> bytes:
    """Return the form that asks for the keys of a role."""
    fields = {
        "Action": "AssumeRole",
        "Version": API_VERSION,
        "RoleArn": role.role_arn,
        "RoleSessionName": role.session_name,
    }
    if role.external_id is not None:
        fields["ExternalId"] = role.external_id
    return urlencode(fields).encode("ascii")


def web_identity_form(identity: WebIdentity, token: Secret) -> bytes:
    """Return the form that exchanges a web identity token for the keys of a role."""
    fields = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": API_VERSION,
        "RoleArn": identity.role_arn,
        "RoleSessionName": identity.session_name,
        "WebIdentityToken": token.reveal(),
    }
    return urlencode(fields).encode("ascii")


class RoleKeys:
    """Asks for the keys of a role that is assumed with other keys.

    :param base: gives those.
    :param wall: unix seconds.
    """

    def __init__(
        self, role: AssumedRole, base: KeyGiver, client: TokenClient, wall: Callable[[], float]
    ) -> None:
        self._role = role
        self._base = base
        self._wall = wall
        self._endpoint = _Endpoint(role.role_arn, role.sts_url, client, wall)
        self._clock = HostClock(self._endpoint.host.decode())
        self._signed = SignedKeys(self._signer_of)

    async def fetch(self) -> TokenResponse:
        """Return new keys.

        :raises TokenRequestError: there are none.
        """
        keys = await self._base.obtain(None)
        try:
            return await self._request(keys)
        except TokenRequestError as error:
            refusal = error
        if refusal.error_code not in EXPIRED:
            raise refusal
        others = await self._base.another(keys)
        if others is None:
            raise refusal
        return await self._request(others)

    def _signer_of(self, keys: AwsKeys) -> SigV4:
        return SigV4(keys, self._role.region, "sts", self._clock)

    async def _request(self, keys: Credential) -> TokenResponse:
        """Ask, and once more where this machine's clock was what the service did not accept."""
        correction = self._clock.correction
        try:
            return await self._endpoint.ask(assume_role_form(self._role), self._headers(keys), self._clock)
        except TokenRequestError as error:
            refusal = error
        if not self._clock.explains(refusal.error_code, correction):
            raise refusal
        return await self._endpoint.ask(assume_role_form(self._role), self._headers(keys), self._clock)

    def _headers(self, keys: Credential) -> HeaderPairs:
        signer, endpoint = self._signed.of(keys).signer, self._endpoint
        assert signer is not None, "it was made to sign"
        signing = Signing(signer, sha256(assume_role_form(self._role)).digest(), self._wall())
        return tuple(signing.signed(b"POST", endpoint.target, [_CONTENT_TYPE], endpoint.host))


class WebIdentityKeys:
    """Asks for the keys of a role that is assumed with a token in a file.

    :param wall: unix seconds.
    :param run: reads the file.
    """

    def __init__(
        self, identity: WebIdentity, client: TokenClient, wall: Callable[[], float], run: ThreadRunner
    ) -> None:
        self._identity = identity
        self._recent = client.recent
        self._run = run
        self._endpoint = _Endpoint(identity.role_arn, identity.sts_url, client, wall)

    async def fetch(self) -> TokenResponse:
        """Return new keys.

        :raises TokenRequestError: there are none.
        """
        token = await self._run(partial(read_web_identity, self._identity.token_file))
        self._recent.note(token)
        return await self._endpoint.ask(web_identity_form(self._identity, token), (_CONTENT_TYPE,))


def read_web_identity(file: str) -> Secret:
    """Read a web identity token as the file has it now; this blocks.

    :raises TokenRequestError: there is none, or the file cannot be read.
    """
    try:
        content = read_regular_file(file, MAX_TOKEN_FILE)
        return parse_token_text(content.decode("latin-1").strip(), "content")
    except OSError as error:
        message = f"the web identity token file cannot be read ({error.strerror}): check its path"
    except ValueError:
        message = "the web identity token file does not contain exactly one token"
    failure = TokenRequestError(message)
    failure.detail = file
    raise failure


class _Endpoint:
    """The service in one region, asked for one role."""

    def __init__(self, role_arn: str, url: str, client: TokenClient, wall: Callable[[], float]) -> None:
        parts = urlsplit(url)
        name = parts.hostname or ""
        if ":" in name:
            name = f"[{name}]"
        where = name if parts.port in (None, _PORTS.get(parts.scheme)) else f"{name}:{parts.port}"
        path = parts.path or "/"
        self.target = path.encode("ascii")
        self.host = where.encode("ascii")
        """What ``Host`` says there (RFC 9110 7.2)."""
        self._url = f"{parts.scheme}://{where}{path}"
        self._where = f"{parts.scheme}://{where}, role {role_arn}"
        self._client = client
        self._wall = wall

    async def ask(self, form: bytes, headers: HeaderPairs, clock: HostClock | None = None) -> TokenResponse:
        """Return the keys that a request gives.

        :param clock: learns from the response.
        :raises TokenRequestError: it gives none; which role that was is in the detail, for the log alone.
        """
        try:
            return await self._ask(form, headers, clock)
        except TokenRequestError as error:
            error.detail = self._where
            raise

    async def _ask(self, form: bytes, headers: HeaderPairs, clock: HostClock | None) -> TokenResponse:
        sent_at = self._wall()
        request = EndpointRequest("POST", self._url, headers, form, _ANY)
        response = await self._client.ask(request, SERVICE_NAME)
        dates = response.headers.getRawHeaders(b"date")
        if clock is not None and dates and not response.headers.hasHeader(b"age"):
            clock.note(dates[0], sent_at, self._wall())
        keys = parse_role_keys(response, SERVICE_NAME, self._wall)
        self._client.recent.note(keys)
        return keys
