"""Estimate the tokens of a request that its provider does not tell, once the answer has ended.

A chat stream has no usage unless the client asks for it, so limits on tokens would not hold.  Where a limit
on tokens or costs applies, the request is kept until its answer has ended, and so is what the answer says
(:mod:`mgw.exchange.answer_copy`).  If the tokens are told, both are let go.  Else they are counted in a
thread: the request as a count of tokens is estimated, the answer by its text.  Usage event and limits wait
for that, the client does not.

Of a request that broke off or was left, what was told counts, or the estimate if that is larger.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import MsgspecError
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mgw.bodies.source import BodySource, body_size
from mgw.dialects import client_side_of
from mgw.dialects.dialect import RequestContext
from mgw.exchange.answer_copy import AnswerCopy
from mgw.memo.client_request import ClientRequest
from mgw.nouns.errors import GatewayError
from mgw.reactor.daemon_threads import SerialRunner
from mgw.routing.route import Route, Treatment
from mgw.tokens.estimate import estimate_tokens
from mgw.tokens.text import estimate_text_tokens
from mgw.usage.event import Outcome, SettledExchange
from mgw.wire.encodings import decode_content
from mgw.wire.json_document import has_more_values

_log: Final = Logger()
MAX_PENDING: Final = 64
"""How many estimates may wait for the thread; beyond them, tokens are guessed by the length."""
MAX_OBJECTS: Final = 100_000
MAX_VALUES: Final = 400_000
"""What has more is read as a text, not as a conversation."""
_BYTES_A_TOKEN: Final = 4
_TOKENS_A_RUN: Final = 1000
"""What a run of base64 is taken for: media."""
_PIECE_BYTES: Final = 2**20
"""How much of a text is searched at once: a search lets no other thread run."""
_BASE64: Final = rb"[A-Za-z0-9+/_=-]"
_WORD: Final = re.compile(_BASE64 + rb"*+")
_RUN: Final = re.compile(rb"(?<!%b)%b{1024,}+" % (_BASE64, _BASE64))
"""It begins where a word does: at any other place the search would go through the rest of the word again."""
_UNREADABLE: Final = (GatewayError, MsgspecError, UnicodeDecodeError, RecursionError)
_ANSWERED: Final = 400

Tokens = tuple[int | None, int | None]
"""The tokens of the request and of the answer, as far as they are estimated."""


def may_be_estimated(route: Route) -> bool:
    """Whether a model writes the answers of a route, as it does where a host may choose among models."""
    return route.has_known_end and (route.treatment is Treatment.CHAT or bool(route.models.others))


class Estimates:
    """Makes the estimates of one process.

    :param threads: the thread in which they are made.
    """

    def __init__(self, threads: SerialRunner) -> None:
        self._threads = threads
        self.pending = 0
        """How many are not known yet."""
        self._idle: list[Deferred[None]] = []

    def run(
        self, work: Callable[[], Tokens], rough: Callable[[], Tokens], then: Callable[[Tokens], None]
    ) -> None:
        """Do the work in the thread, and call ``then`` with the result; with ``rough()`` if that fails."""
        if self.pending >= MAX_PENDING:
            then(rough())
            return

        def on_result(result: Tokens | Exception) -> None:
            self.pending -= 1
            if isinstance(result, Exception):
                _log.error(
                    "the tokens of a request could not be estimated: {kind}", kind=type(result).__name__
                )
                result = rough()
            try:
                then(result)
            finally:
                self._note_idle()

        self.pending += 1
        try:
            self._threads.run(work, on_result)
        except OSError:
            self.pending -= 1
            then(rough())

    async def stop(self) -> None:
        """Wait until all estimates are known, and end the thread."""
        if self.pending:
            idle: Deferred[None] = Deferred(self._idle.remove)
            self._idle.append(idle)
            await idle
        self._threads.stop()

    def _note_idle(self) -> None:
        if not self.pending:
            waiting, self._idle = self._idle, []
            for idle in waiting:
                idle.callback(None)


class UntoldUsage:
    """One request whose tokens are estimated if nobody tells them."""

    __slots__ = (
        *("_body", "_estimates", "_request", "_reserve", "_route", "_size", "answer", "is_answered"),
        "max_body_bytes",
    )

    def __init__(self, estimates: Estimates, route: Route, seed: str, max_body_bytes: int) -> None:
        self._estimates = estimates
        self._route = route
        self._request: ClientRequest | None = None
        self._body: bytes | BodySource | None = None
        self._size = 0
        self._reserve: Callable[[int], None] = lambda _: None
        self.max_body_bytes = max_body_bytes
        dialect = route.dialect if route.treatment is Treatment.CHAT else None
        self.answer = AnswerCopy(dialect, seed, in_pieces=route.in_pieces)
        self.is_answered = False
        """Whether the provider has answered, and not with a refusal."""

    def __repr__(self) -> str:  # it holds the request
        return "UntoldUsage()"

    @property
    def has_begun(self) -> bool:
        """Whether the request is known."""
        return self._request is not None

    def begin(self, request: ClientRequest, body: bytes | BodySource, reserve: Callable[[int], None]) -> None:
        """Keep the request.

        :param reserve: as :attr:`mgw.exchange.exchange.Exchange.reserve`.
        """
        self._request, self._body, self._size = request, body, body_size(body)
        self._reserve = reserve

    def keep_body(self) -> None:
        """Reserve the memory of the body once more, which a response that begins has released."""
        if isinstance(self._body, bytes):
            try:
                self._reserve(self._size)
            except GatewayError:  # there is none left: its length has to do
                self._body = None

    def estimate(
        self, settled: SettledExchange, model: str, factor: float, then: Callable[[Tokens], None]
    ) -> bool:
        """Estimate what is not told; return whether anything is, which ``then`` is called with.

        :param model: the one that the client names.
        :param factor: how many tokens the model's tokenizer makes where o200k makes one.
        """
        request, body, size, answer = self._request, self._body, self._size, self.answer
        self._request = self._body = None
        usage, status = settled.usage, settled.http_status
        is_left = settled.outcome is Outcome.CLIENT_ABORT
        if request is None or not self.is_answered or status is None or (status >= _ANSWERED and not is_left):
            return False
        broke_off = settled.outcome is not Outcome.OK
        needs_in = usage.tokens_in is None or broke_off
        needs_out = usage.tokens_out is None or broke_off
        if not (needs_in or needs_out):
            return False
        context = RequestContext(model, self._route.in_pieces, request.raw_query, drop_hosted_tools=True)
        codings, route, most = request.content_codings, self._route, self.max_body_bytes

        def count() -> int:
            if not isinstance(body, bytes):
                return size // _BYTES_A_TOKEN
            return _count_request(route, body, codings, most, context, factor)

        def work() -> Tokens:
            return count() if needs_in else None, answer.estimate(factor) if needs_out else None

        def rough() -> Tokens:
            tokens_in = size // _BYTES_A_TOKEN if needs_in else None
            return tokens_in, answer.estimate_roughly() if needs_out else None

        told = usage.tokens_in, usage.tokens_out
        self._estimates.run(work, rough, lambda found: then(_larger(found, told)))
        return True


def _larger(found: Tokens, told: Tokens) -> Tokens:
    """Return those estimates that are larger than what was told."""
    tokens_in, tokens_out = (
        None if new is None or (old is not None and old >= new) else new
        for new, old in zip(found, told, strict=True)
    )
    return tokens_in, tokens_out


def _count_request(
    route: Route,
    body: bytes,
    codings: Sequence[bytes],
    max_bytes: int,
    context: RequestContext,
    factor: float,
) -> int:
    """Return about how many tokens a request has, as a count of tokens is estimated."""
    try:
        if codings:
            body = decode_content(body, b",".join(codings), max_bytes)
        if route.treatment is Treatment.CHAT and not has_more_values(body, MAX_OBJECTS, MAX_VALUES):
            parsed = client_side_of(route.dialect).text.parse_request(body, context)
            return estimate_tokens(parsed.request, factor)
    except _UNREADABLE:  # the provider has understood it all the same
        pass
    texts, runs = [], 0
    for piece in _cut_between_words(body):
        text, found = _RUN.subn(b"", piece)
        texts.append(text.decode("utf-8", "replace"))
        runs += found
    return round(estimate_text_tokens(texts) * factor) + runs * _TOKENS_A_RUN


def _cut_between_words(text: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(text):
        word = _WORD.match(text, at + _PIECE_BYTES)
        end = len(text) if word is None else word.end()
        yield text[at:end]
        at = end
