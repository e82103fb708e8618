"""Tokens shared by all processes: the supervisor obtains them, and workers ask it.

::

    worker                                 supervisor
      the token ends soon ──── question ───► its token is good: that one
      401 ──── question, names the token ──► it has another one: that one, else a new one, once for all
      the same question again ◄── pending ── it takes long: each role of a chain has its own request

The supervisor has built the same configuration, so a digest of what is configured says which token is meant.
It knows no such identity for a moment while a reload is under way: then a worker gets a token itself.  It
never uses a refresh token, though: two processes that use the same one may lock the account out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mgw.credentials.renewed_token import SharedFetch, TokenFetch, token_digest
from mgw.credentials.sources import CredentialSources
from mgw.credentials.token_request import TokenRequestError, TokenResponse
from mgw.nouns.secret import Secret
from mgw.workers.channel import ChannelError, RequestSender
from mgw.workers.messages import (
    ChannelMessage,
    Failed,
    TokenAnswer,
    TokenFailure,
    TokenPending,
    TokenQuestion,
)

ANSWER_SECONDS: Final = 25.0
"""How long the supervisor has to answer: longer than a token endpoint has."""
PENDING_SECONDS: Final = 15.0
"""After how long it answers that the token is still being obtained, so that a worker can tell a supervisor at
work from one that hangs."""


@dataclass(frozen=True, slots=True, eq=False)
class SupervisorTokens:
    """Asks the supervisor for tokens: the ``share`` of a worker's :class:`CredentialSources`."""

    channel: RequestSender

    def __call__(self, identity: str, fetch: TokenFetch, *, single_use: bool) -> SharedFetch:
        """Return what asks for the token of an identity; see :class:`mgw.credentials.sources.TokenShare`."""

        async def ask(refused: Secret | None, at_once: bool) -> TokenResponse:  # noqa: FBT001  (a protocol's)
            digest = None if refused is None else token_digest(refused)
            answer = await self._answer(TokenQuestion(identity, digest, at_once))
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

    async def _answer(self, question: TokenQuestion) -> ChannelMessage:
        """Ask as long as the supervisor says that it is at work; each of its own requests has a limit."""
        answer: ChannelMessage = TokenPending()
        while isinstance(answer, TokenPending):
            try:
                answer = await self.channel.ask(question, ANSWER_SECONDS)
            except ChannelError as error:
                answer = Failed(str(error))
        return answer


def answer_token_question(question: TokenQuestion, sources: CredentialSources) -> Deferred[ChannelMessage]:
    """Fire with the token that a worker asks for, with why there is none, or with that it takes long.

    :param sources: of the supervisor's process.
    """
    answering = Deferred.fromCoroutine(_answer(question, sources))
    found: Deferred[ChannelMessage] = Deferred(lambda _: answering.cancel())

    def on_limit() -> None:
        found.callback(TokenPending())
        answering.cancel()  # one who waits for a renewal leaves it under way

    limit = sources.clock.callLater(PENDING_SECONDS, on_limit)

    def on_answer(answer: ChannelMessage | Failure) -> None:
        if limit.active():
            limit.cancel()
        if not found.called:
            found.callback(answer)  # a failure as well

    _ = answering.addBoth(on_answer)
    return found


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
