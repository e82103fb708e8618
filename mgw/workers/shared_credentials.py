"""Tokens shared by all processes: the supervisor obtains them, and workers ask it.

::

    worker                                 supervisor
      the token ends soon ──── question ───► its token is good: that one
      401 ──── question, names the token ──► it has another one: that one, else a new one, once for all

The supervisor has built the same configuration, so a digest of what is configured says which token is meant.
It knows no such identity for a moment while a reload is under way: then a worker gets a token itself.  It
never uses a refresh token, though: two processes that use the same one may lock the account out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from twisted.internet.defer import Deferred

from mgw.credentials.renewed_token import SharedFetch, TokenFetch, token_digest
from mgw.credentials.sources import CredentialSources
from mgw.credentials.token_request import TokenRequestError, TokenResponse
from mgw.nouns.secret import Secret
from mgw.workers.channel import ChannelError, RequestSender
from mgw.workers.messages import ChannelMessage, Failed, TokenAnswer, TokenFailure, TokenQuestion

ANSWER_SECONDS: Final = 25.0
"""How long the supervisor has to answer: longer than a token endpoint has."""


@dataclass(frozen=True, slots=True, eq=False)
class SupervisorTokens:
    """Asks the supervisor for tokens: the ``share`` of a worker's :class:`CredentialSources`."""

    channel: RequestSender

    def __call__(self, identity: str, fetch: TokenFetch, *, single_use: bool) -> SharedFetch:
        """Return what asks for the token of an identity; see :class:`mgw.credentials.sources.TokenShare`."""

        async def ask(refused: Secret | None, at_once: bool) -> TokenResponse:  # noqa: FBT001  (a protocol's)
            digest = None if refused is None else token_digest(refused)
            try:
                answer = await self.channel.ask(TokenQuestion(identity, digest, at_once), ANSWER_SECONDS)
            except ChannelError as error:
                answer = Failed(str(error))
            match answer:
                case TokenAnswer(token, seconds, further):
                    return TokenResponse(Secret(token), seconds, further=tuple(map(Secret, further)))
                case TokenFailure(message, detail):
                    raise _error(message, detail)
            if single_use:
                detail = answer.reason if isinstance(answer, Failed) else type(answer).__name__
                raise _error(_UNANSWERED, detail)
            return await fetch()

        return ask


def answer_token_question(question: TokenQuestion, sources: CredentialSources) -> Deferred[ChannelMessage]:
    """Fire with the token that a worker asks for, or with why there is none.

    :param sources: of the supervisor's process.
    """
    return Deferred.fromCoroutine(_answer(question, sources))


async def _answer(question: TokenQuestion, sources: CredentialSources) -> ChannelMessage:
    source = await sources.look_for_token(question.identity)
    if source is None:
        return Failed("no provider in the current configuration has this identity")
    try:
        token = await source.lend(question.refused, at_once=question.at_once)
    except TokenRequestError as error:
        return TokenFailure(error.message, error.detail)
    further = tuple(part.reveal() for part in token.further)
    return TokenAnswer(token.access_token.reveal(), token.expires_in, further)


_UNANSWERED: Final = (
    "the gateway process that renews tokens did not respond, and no other process may use a refresh token: "
    "try again"
)


def _error(message: str, detail: str) -> TokenRequestError:
    error = TokenRequestError(message)
    error.detail = detail
    return error
