"""The credentials of a request: what it begins with, and what follows where a response refuses one."""

from __future__ import annotations

from typing import Final

from mgw.credentials.provider import Credential, CredentialProvider, CredentialRefusal
from mgw.credentials.signed_again import REFUSALS, another_try
from mgw.credentials.signing import Signing
from mgw.credentials.static import OptionalCredential
from mgw.exchange.exchange import Exchange
from mgw.exchange.refusals import readable
from mgw.http.response_head import ResponseHead
from mgw.memo.client_request import ClientRequest
from mgw.routing.route import Treatment
from mgw.upstream.client import UpstreamResponse
from mgw.wire.headers import value_of
from mgw.wire.target import query_value

MAX_REASON_BYTES: Final = 16 * 1024
"""The most bytes of a body that are searched for the reason."""
_UNAUTHORIZED: Final = 401


async def another_credential(
    exchange: Exchange,
    credentials: CredentialProvider,
    refused: Credential,
    response: UpstreamResponse,
    *,
    renewed: bool,
) -> Credential | None:
    """Return another credential in place of one that a response refuses; ``None``: there is none.

    One that signs may be the same again, where it signs in another time now.

    :param renewed: whether it is another one already.
    :raises GatewayError: as :meth:`~mgw.credentials.provider.CredentialProvider.refused` does.
    """
    refusal, signing = await _refusal_of(exchange, response, renewed=renewed), exchange.signing
    if signing is None or refusal.status not in REFUSALS:
        return await credentials.refused(refused, refusal)
    found = await another_try(credentials, refused, signing, refusal, exchange.signed_again)
    if found is None:
        return None
    assert exchange.target is not None, "it was sent there"
    exchange.signed_again = (*exchange.signed_again, found.reason)
    exchange.generation.signed_again.note(exchange.target.provider_name, found.reason)
    return found.credential


def may_be_replaced(
    credentials: CredentialProvider, credential: Credential, status: int, *, renewed: bool
) -> bool:
    """Whether the source of a credential is asked for another one in place of it.

    :param renewed: whether it is another one already.
    """
    if credential.signer is not None and status in REFUSALS:
        return True
    # A source with several accounts knows itself which of them has been renewed.
    is_settled = renewed and status == _UNAUTHORIZED and credential.account is None
    return credentials.refusable(status) and not is_settled


def credentials_of(exchange: Exchange, request: ClientRequest, provider: str) -> CredentialProvider:
    """Return the source of a provider's credentials for a request: its caller's own where callers have one.

    The chunks of an upload need no credential: their URL is enough.
    """
    credentials = exchange.generation.credentials_for(provider, request.token)
    is_chunk = exchange.route.is_upload and query_value(request.raw_query, "upload_id")
    return OptionalCredential(credentials) if is_chunk else credentials


def note_answer(exchange: Exchange, signing: Signing, head: ResponseHead) -> None:
    """Have the signer learn of the host's clock."""
    if (date := head.date) is not None:
        signing.signer.clock.note(date, signing.now, exchange.now())


async def _refusal_of(exchange: Exchange, response: UpstreamResponse, *, renewed: bool) -> CredentialRefusal:
    """Return what a source of credentials is told of a response; a count uses up nothing of a model.

    Why something is forbidden, or a signature refused, is said in the body, whose beginning is waited for.
    """
    counts = exchange.route.treatment is Treatment.COUNT
    model = None if counts or exchange.target is None else exchange.target.upstream_model
    body = b""
    if response.status in REFUSALS:
        await response.read_ahead(MAX_REASON_BYTES)
        headers, body = response.headers, response.arrived
        if value_of(headers, b"content-encoding") is not None:
            body = readable(headers, body)
    attempts = exchange.attempts - exchange.given_up
    return CredentialRefusal(response.status, response.headers, model, body, attempts, renewed)
