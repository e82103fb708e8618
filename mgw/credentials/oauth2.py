"""``auth: oauth2``: the requests of each grant.

Sources: RFC 6749 4.4, 4.5 and 6 (client credentials, grants of vendors, refresh tokens), RFC 8693 2.1 (token
exchange), RFC 7523 2.1 and 2.2 (assertions as grants, and in place of a client's secret).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from msgspec import Struct

from mgw.config.oauth import JWT_TYPE, BodyFormat, ClientAuth, Grant, OAuthSettings, is_on_behalf
from mgw.config.provider import Provider
from mgw.config.proxy import ProxyAddress
from mgw.credentials.on_behalf import OnBehalfOf
from mgw.credentials.refresh_tokens import RefreshTokens
from mgw.credentials.renewed_token import RenewedToken
from mgw.credentials.sources import CredentialSources
from mgw.credentials.token_request import (
    Encoding,
    TokenClient,
    TokenEndpoint,
    TokenRequestError,
    TokenResponse,
    basic_authorization,
    parse_token_text,
)
from mgw.nouns.secret import Secret, key_hash
from mgw.reactor.daemon_threads import ThreadRunner
from mgw.reactor.regular_file import MAX_TOKEN_FILE, read_regular_file

ENDPOINT_NAME: Final = "the provider's token endpoint"
JWT_BEARER_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
TOKEN_EXCHANGE_GRANT: Final = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 (a grant's name)
ACCESS_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 (a type's name)

CALLER_REFUSALS: Final = frozenset(
    {"invalid_grant", "invalid_token", "interaction_required", "login_required", "consent_required"}
)
"""Errors of an endpoint that refuse the token of a caller, and are not the gateway's to mend."""

Form = dict[str, str | Secret]


class OAuthGrant(Struct, frozen=True):
    """All that a request for a token says; two that are equal are one source."""

    token_url: str
    grant: str
    """A :class:`~mgw.config.oauth.Grant`, or the name of a vendor's own."""
    client_id: str | None = None
    client_secret: Secret | None = None
    client_auth: ClientAuth = ClientAuth.FORM
    refresh_token: Secret | None = None
    file: str | None = None
    """The file that holds the subject token or the assertion."""
    of_caller: bool = False
    """Whether the subject token or the assertion is the one that a caller has sent."""
    fields: tuple[tuple[str, str | Secret], ...] = ()
    """The other fields of the form, in order; the operator's own may be secret."""
    headers: tuple[tuple[str, Secret], ...] = ()
    body: BodyFormat = BodyFormat.FORM

    @property
    def identity(self) -> str:
        """What ``key_hash`` is made of (contract 3.14)."""
        audience = dict(self.fields).get("audience")
        stated = audience if isinstance(audience, str) else None
        return self.client_id or stated or self.file or self.token_url

    @property
    def refusals(self) -> frozenset[str]:
        """The errors that refuse a caller's token; RFC 8693 2.2.2 has one of its own."""
        own = {"invalid_request"} if self.grant == Grant.TOKEN_EXCHANGE else set()
        return CALLER_REFUSALS | own


def grant_of(oauth: OAuthSettings) -> OAuthGrant:
    """Return the grant that settings, complete and checked, describe."""
    assert oauth.token_url is not None
    assert oauth.grant is not None
    is_exchange = oauth.grant == Grant.TOKEN_EXCHANGE
    stated = {
        "scope": " ".join(oauth.scopes) or None,
        "audience": oauth.audience,
        "resource": oauth.resource,
        "subject_token_type": (oauth.subject_token_type or JWT_TYPE) if is_exchange else None,
        "requested_token_type": oauth.requested_token_type,
    }
    fields: list[tuple[str, str | Secret]] = [
        (name, text) for name, text in stated.items() if text is not None
    ]
    fields += [(name, Secret(value)) for name, value in oauth.extra.items() if isinstance(value, str)]
    return OAuthGrant(
        token_url=oauth.token_url,
        grant=oauth.grant,
        client_id=oauth.client_id,
        client_secret=oauth.client_secret,
        client_auth=oauth.client_auth,
        refresh_token=oauth.refresh_token if oauth.grant == Grant.REFRESH_TOKEN else None,
        file=oauth.subject_token_file if is_exchange else oauth.assertion_file,
        of_caller=is_on_behalf(oauth),
        fields=tuple(fields),
        headers=tuple((name, Secret(value)) for name, value in oauth.headers.items()),
        body=oauth.body,
    )


class OAuthTokens:
    """Asks for tokens by one grant.

    :param refresh_tokens: of the whole process.
    :param run: reads files.
    """

    def __init__(
        self, grant: OAuthGrant, client: TokenClient, refresh_tokens: RefreshTokens, run: ThreadRunner
    ) -> None:
        self._grant = grant
        self._run = run
        headers = [(name.encode("ascii"), value.reveal().encode("latin-1")) for name, value in grant.headers]
        if grant.client_auth is ClientAuth.BASIC:
            assert grant.client_id is not None
            assert grant.client_secret is not None
            headers.append(basic_authorization(grant.client_id, grant.client_secret))
        encoding = Encoding.JSON if grant.body is BodyFormat.JSON else Encoding.FORM
        self._endpoint = TokenEndpoint(client, grant.token_url, ENDPOINT_NAME, tuple(headers), encoding)
        self._refresh_token = (
            None
            if grant.refresh_token is None
            else refresh_tokens.of(grant.token_url, grant.client_id, grant.refresh_token)
        )

    async def fetch(self) -> TokenResponse:
        """Return a new token.

        :raises TokenRequestError: there is none.
        """
        match self._grant.grant:
            case Grant.CLIENT_CREDENTIALS:
                return await self._request({"grant_type": "client_credentials", **await self._assertion()})
            case Grant.REFRESH_TOKEN:
                return await self._refresh()
            case Grant.TOKEN_EXCHANGE:
                return await self.exchange(
                    await self._run(partial(read_token, self._grant.file, "the subject token"))
                )
            case Grant.JWT_BEARER:
                return await self.exchange(
                    await self._run(partial(read_token, self._grant.file, "the assertion"))
                )
            case vendors:
                return await self._request({"grant_type": vendors})

    async def exchange(self, token: Secret) -> TokenResponse:
        """Return a new token for another one, by token exchange or as an assertion.

        :raises TokenRequestError: there is none.
        """
        if self._grant.grant == Grant.TOKEN_EXCHANGE:
            return await self._request({"grant_type": TOKEN_EXCHANGE_GRANT, "subject_token": token})
        return await self._request({"grant_type": JWT_BEARER_GRANT, "assertion": token})

    async def _assertion(self) -> Form:
        """Return what shows the client in place of a secret, if there is an assertion."""
        if self._grant.file is None:
            return {}
        assertion = await self._run(partial(read_token, self._grant.file, "the assertion"))
        return {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}

    async def _refresh(self) -> TokenResponse:
        token = self._refresh_token
        assert token is not None

        async def request(used: Secret) -> TokenResponse:
            return await self._request({"grant_type": "refresh_token", "refresh_token": used})

        return await token.use(request, ENDPOINT_NAME)

    async def _request(self, form: Mapping[str, str | Secret]) -> TokenResponse:
        grant = self._grant
        whole: Form = {**form, **dict(grant.fields)}
        if grant.client_auth is ClientAuth.FORM:
            if grant.client_id is not None:
                whole["client_id"] = grant.client_id
            if grant.client_secret is not None:
                whole["client_secret"] = grant.client_secret
        return await self._endpoint.request(whole)


def oauth_source(
    grant: OAuthGrant, sources: CredentialSources, proxy: ProxyAddress | None = None
) -> RenewedToken:
    """Return the source of a grant, whose endpoint is reached through a proxy where there is one."""
    tokens = OAuthTokens(grant, sources.client(proxy), sources.refresh_tokens, sources.run)
    single_use = grant.grant == Grant.REFRESH_TOKEN
    return sources.use_token((grant, proxy), grant.identity, tokens.fetch, single_use=single_use)


def on_behalf_source(grant: OAuthGrant, sources: CredentialSources, proxy: ProxyAddress | None) -> OnBehalfOf:
    """Return the sources of the callers whose tokens a grant exchanges."""

    def build() -> OnBehalfOf:
        tokens = OAuthTokens(grant, sources.client(proxy), sources.refresh_tokens, sources.run)
        queue = sources.exchange_queue(grant.token_url)

        async def exchange(token: Secret) -> TokenResponse:
            return await queue.run(partial(tokens.exchange, token))

        named, recent = key_hash(grant.identity), sources.recent
        return OnBehalfOf(exchange, named, grant.refusals, sources.monotonic, sources.wall, recent=recent)

    return sources.use((grant, proxy), build)


def make_credentials(provider: Provider, sources: CredentialSources) -> RenewedToken | OnBehalfOf:
    """Return the source of the tokens that a provider's ``oauth`` block describes."""
    assert provider.oauth is not None
    grant = grant_of(provider.oauth)
    if grant.of_caller:
        return on_behalf_source(grant, sources, provider.proxy)
    return oauth_source(grant, sources, provider.proxy)


def read_token(file: str | None, what: str) -> Secret:
    """Read a token from a file as it is now; this blocks.

    :raises TokenRequestError: there is none, or the file cannot be read.
    """
    assert file is not None
    try:
        content = read_regular_file(file, MAX_TOKEN_FILE)
        return parse_token_text(content.decode("latin-1").strip(), "content")
    except OSError as error:
        message = f"the file with {what} cannot be read ({error.strerror}): check its path and permissions"
    except ValueError:
        message = f"the file with {what} does not contain exactly one token"
    raise TokenRequestError(message)
