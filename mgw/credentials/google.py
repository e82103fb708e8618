"""``auth: service_account`` and ``auth: adc``: Google tokens.

Sources: AIP-4112 (a service account signs an assertion), AIP-4110 (application default credentials and their
order), AIP-4115 (the metadata server), AIP-4117 (external accounts); RFC 7515 3.1 (the form of a signed
assertion).
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

import msgspec
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from mgw.credentials.google_files import CLOUD_PLATFORM, ExternalAccount, ServiceAccountKey
from mgw.credentials.oauth2 import (
    ACCESS_TOKEN_TYPE,
    JWT_BEARER_GRANT,
    TOKEN_EXCHANGE_GRANT,
    Form,
    read_token,
)
from mgw.credentials.token_request import (
    Encoding,
    JsonResponse,
    TokenClient,
    TokenEndpoint,
    TokenRequestError,
    TokenResponse,
    basic_authorization,
    get_request,
    parse_token,
    parse_token_text,
    post_request,
)
from mgw.nouns.secret import Secret
from mgw.reactor.daemon_threads import ThreadRunner
from mgw.reactor.regular_file import MAX_TOKEN_FILE, read_regular_file

PROBE_SECONDS: Final = 1.0
"""How long a metadata server has to show itself: it is next door, or there is none."""
ASSERTION_SECONDS: Final = 3600
"""The longest life of an assertion that Google accepts."""
ENDPOINT_NAME: Final = "Google's token endpoint"
METADATA_NAME: Final = "Google's metadata server"

_FLAVOR: Final = ((b"Metadata-Flavor", b"Google"),)
_TOKEN_PATH: Final = "/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105 (a path)
_NO_CREDENTIALS: Final = (
    "no application default credentials were found: set service_account_file or "
    "GOOGLE_APPLICATION_CREDENTIALS, run gcloud auth application-default login as the gateway's user, or run "
    "the gateway where there is a metadata server"
)


class ServiceAccountTokens:
    """Asks for tokens with an assertion that the account's key has signed.

    :param wall: seconds since 1970.
    :raises ValueError: the key is none of RSA.
    """

    def __init__(
        self,
        key: ServiceAccountKey,
        scopes: tuple[str, ...],
        client: TokenClient,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._key = key
        self._scope = " ".join(scopes)
        self._wall = wall
        self._private_key = _private_key(key.private_key)
        self._endpoint = TokenEndpoint(client, key.token_uri, ENDPOINT_NAME)

    async def fetch(self) -> TokenResponse:
        """Return a new token.

        :raises TokenRequestError: there is none.
        """
        return await self._endpoint.request({"grant_type": JWT_BEARER_GRANT, "assertion": self._assertion()})

    def _assertion(self) -> Secret:
        """Return a signed assertion of who asks, for what, and until when."""
        now = int(self._wall())
        header = {"alg": "RS256", "typ": "JWT"}
        if self._key.private_key_id is not None:
            header["kid"] = self._key.private_key_id
        claims = {
            "iss": self._key.client_email,
            "scope": self._scope,
            "aud": self._key.token_uri,
            "iat": now,
            "exp": now + ASSERTION_SECONDS,
        }
        signed = b".".join(_base64url(msgspec.json.encode(part)) for part in (header, claims))
        signature = self._private_key.sign(signed, PKCS1v15(), SHA256())
        return Secret(b".".join([signed, _base64url(signature)]).decode("ascii"))


class ExternalAccountTokens:
    """Exchanges a token of another cloud or cluster, and takes on a service account where one is named."""

    def __init__(
        self,
        account: ExternalAccount,
        scopes: tuple[str, ...],
        client: TokenClient,
        run: ThreadRunner,
    ) -> None:
        self._account = account
        self._run = run
        self._scopes = scopes
        self._client = client
        headers: tuple[tuple[bytes, bytes], ...] = ()
        if account.client_id is not None and account.client_secret is not None:
            headers = (basic_authorization(account.client_id, account.client_secret),)
        self._endpoint = TokenEndpoint(client, account.token_url, ENDPOINT_NAME, headers)

    async def fetch(self) -> TokenResponse:
        """Return a new token.

        :raises TokenRequestError: there is none.
        """
        account = self._account
        subject = await self._run(self._subject_token)
        scopes = self._scopes if account.impersonation_url is None else (CLOUD_PLATFORM,)
        form: Form = {
            "grant_type": TOKEN_EXCHANGE_GRANT,
            "audience": account.audience,
            "scope": " ".join(scopes),
            "requested_token_type": ACCESS_TOKEN_TYPE,
            "subject_token": subject,
            "subject_token_type": account.subject_token_type,
        }
        token = await self._endpoint.request(form)
        if account.impersonation_url is None:
            return token
        return await self._impersonate(account.impersonation_url, token.access_token)

    async def _impersonate(self, url: str, token: Secret) -> TokenResponse:
        """Exchange a token for one of the service account (IAM Credentials API, ``generateAccessToken``)."""
        name = "Google's IAM endpoint"
        request = post_request(
            url,
            {"scope": list(self._scopes), "lifetime": f"{self._account.impersonation_seconds}s"},
            ((b"Authorization", b"Bearer " + token.reveal().encode("ascii")),),
            Encoding.JSON,
        )
        return self._impersonated(await self._client.ask(request, name), name)

    def _impersonated(self, response: JsonResponse, name: str) -> TokenResponse:
        """Read a token; it lives as long as was asked for, whatever the machine's clock makes of its end."""
        status = response.status
        if status != 200:
            what = "check that the workload may impersonate the service account"
            raise TokenRequestError(f"{name} answered {status}: {what}", status)
        token = (response.fields or {}).get("accessToken")
        same = {"access_token": token, "expires_in": self._account.impersonation_seconds}
        return parse_token(JsonResponse(status, same), name)

    def _subject_token(self) -> Secret:
        file, field = self._account.subject_file, self._account.subject_field
        if field is None:
            return read_token(file, "the subject token")
        try:
            fields = msgspec.json.decode(read_regular_file(file, MAX_TOKEN_FILE))
            return parse_token_text(fields.get(field) if isinstance(fields, dict) else None, field)
        except OSError as error:
            message = f"the subject token file cannot be read ({error.strerror}): check its path"
        except ValueError:
            message = "the subject token file has no token in the field that the credentials name"
        raise TokenRequestError(message)


class MetadataTokens:
    """Asks the metadata server of the machine that the gateway runs on."""

    def __init__(self, host: str, scopes: tuple[str, ...], client: TokenClient) -> None:
        self._origin = f"http://{host}"
        self._scopes = scopes
        self._client = client
        self._found = False

    async def fetch(self) -> TokenResponse:
        """Return a new token of the machine's service account.

        :raises TokenRequestError: there is no metadata server, or it gives none.
        """
        if not self._found:
            await self._probe()
        scopes = quote(",".join(self._scopes), safe=":/,")
        request = get_request(f"{self._origin}{_TOKEN_PATH}?scopes={scopes}", _FLAVOR)
        response = await self._client.ask(request, METADATA_NAME)
        _check_flavor(response)
        return parse_token(response, METADATA_NAME)

    async def _probe(self) -> None:
        """Look for the server, shortly: a machine without one must not keep a request waiting."""
        try:
            response = await self._client.ask(
                get_request(f"{self._origin}/", _FLAVOR), METADATA_NAME, PROBE_SECONDS
            )
            _check_flavor(response)
        except TokenRequestError as error:
            missing = TokenRequestError(_NO_CREDENTIALS)
            missing.detail = f"{self._origin}: {error.message}"
            raise missing from None
        self._found = True


def _check_flavor(response: JsonResponse) -> None:
    """Refuse what says nothing of being Google's: any router may answer at that address."""
    if response.headers.getRawHeaders(b"metadata-flavor") != [b"Google"]:
        message = f"{METADATA_NAME} did not respond with Metadata-Flavor: Google"
        raise TokenRequestError(message, response.status)


def _private_key(pem: Secret) -> RSAPrivateKey:
    try:
        key = load_pem_private_key(pem.reveal().encode(), None)
    except (ValueError, TypeError):
        raise ValueError("has a private_key that is not an unencrypted PEM key") from None
    if not isinstance(key, RSAPrivateKey):
        raise ValueError("has a private_key that is not an RSA key")
    return key


def _base64url(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")
