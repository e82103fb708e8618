"""Estimate the tokens of a request that its provider does not tell, once the answer has ended.

A chat stream has no usage unless the client asks for it, so limits on tokens would not hold.  Where a limit
on tokens or costs applies, the request is kept until its answer has ended, and so is what the answer says
(:mod:`mgw.exchange.answer_copy`).  If the tokens are told, both are let go.  Else they are counted in a
thread: the request as a count of tokens is estimated, the answer by its text.  Usage event and limits wait
for that, the client does not.

Of a request that broke off or was left, what was told counts, or the estimate if that is larger.

Where a provider goes on with an answer in the background, the request ends as soon as it is accepted, and
nobody tells what the answer comes to: its output counts as what it may come to (:mod:`mgw.tokens.hold`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import MsgspecError
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mgw.bodies.source import BodySource, body_size
from mgw.canonical.answer_places import AnswerPlaces
from mgw.config.settings import Config
from mgw.dialects import client_side_of, dialect_of
from mgw.dialects.dialect import RequestContext
from mgw.exchange.answer_copy import AnswerCopy
from mgw.memo.client_request import ClientRequest
from mgw.nouns.errors import Cause, GatewayError
from mgw.nouns.vocabulary import Modality
from mgw.reactor.daemon_threads import SerialRunner
from mgw.routing.route import Route, Treatment
from mgw.tokens.estimate import UNSEEN_IMAGE, estimate_sound, estimate_tokens
from mgw.tokens.hold import answers_asked, output_hold, runs_in_background
from mgw.tokens.media_runs import BYTES_A_TOKEN
from mgw.tokens.unparsed import estimate_unparsed, guess_unparsed
from mgw.usage.event import Outcome, SettledExchange
from mgw.wire.encodings import decode_content
from mgw.wire.headers import value_of
from mgw.wire.json_document import has_more_values
from mgw.wire.media_types import FORM, media_type

_log: Final = Logger()
MAX_PENDING: Final = 64
"""How many estimates may wait for the thread; beyond them, tokens are guessed by the length."""
MAX_PENDING_BYTES: Final = 64 * 2**20
"""How much their requests may have together, unless it is one alone: nobody has reserved that any more."""
MAX_OBJECTS: Final = 100_000
MAX_VALUES: Final = 400_000
"""What has more is read as a text, not as a conversation."""
_UNREADABLE: Final = (GatewayError, MsgspecError, UnicodeDecodeError, RecursionError)
_ANSWERED: Final = 400
_BROKE_OFF: Final = frozenset(
    {
        *(Cause.CLIENT_ABORT, Cause.CLIENT_TIMEOUT, Cause.IDLE_TIMEOUT, Cause.LIMIT, Cause.REVOKED),
        *(Cause.TRUNCATED, Cause.UNREADABLE),
    }
)
"""Why an answer was not handed on, or not all of it, though it has come."""
_IN_BACKGROUND: Final = AnswerPlaces(background="background")
"""How the routes say it whose answers are no chat."""

Tokens = tuple[int | None, int | None]
"""The tokens of the request and of the answer, as far as they are estimated."""


def may_be_estimated(route: Route) -> bool:
    """Whether a model is asked by a route: moderations cost nothing."""
    is_asked = route.metered and route.method == "POST"
    return writes_text(route) or (is_asked and route.modality is not Modality.TEXT)


def writes_text(route: Route) -> bool:
    """Whether a model writes the answers of a route, as it does where a host may choose among models."""
    if route.answers_in_text or route.modality is Modality.AUDIO_TRANSCRIBE:
        return True
    return route.has_known_end and (route.treatment is Treatment.CHAT or bool(route.models.others))


class Estimates:
    """Makes the estimates of one process.

    :param threads: the thread in which they are made.
    """

    def __init__(self, threads: SerialRunner) -> None:
        self._threads = threads
        self.pending = 0
        """How many are not known yet."""
        self.pending_bytes = 0
        """The size of their requests."""
        self._idle: list[Deferred[None]] = []

    def run(
        self,
        work: Callable[[], Tokens],
        rough: Callable[[], Tokens],
        then: Callable[[Tokens], None],
        size: int = 0,
    ) -> None:
        """Do the work in the thread, and call ``then`` with the result; with ``rough()`` if that fails.

        :param size: how many bytes the work keeps in memory.
        """
        is_too_much = self.pending and self.pending_bytes + size > MAX_PENDING_BYTES
        if self.pending >= MAX_PENDING or is_too_much:
            then(rough())
            return

        def on_result(result: Tokens | Exception) -> None:
            self.pending -= 1
            self.pending_bytes -= size
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
        self.pending_bytes += size
        try:
            self._threads.run(work, on_result)
        except OSError:
            self.pending -= 1
            self.pending_bytes -= size
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
        *("_body", "_estimates", "_guess", "_request", "_reserve", "_route", "answer", "is_answered"),
        *("_config", "writes_text"),
    )

    def __init__(self, estimates: Estimates, route: Route, seed: str, config: Config) -> None:
        self._estimates = estimates
        self._route = route
        self._request: ClientRequest | None = None
        self._body: bytes | BodySource | None = None
        self._guess: int | None = None
        """The tokens of a body that could not be kept."""
        self._reserve: Callable[[int], None] = lambda _: None
        self._config = config
        dialect = route.dialect if route.treatment is Treatment.CHAT else None
        self.answer = AnswerCopy(dialect, seed, in_pieces=route.in_pieces)
        self.is_answered = False
        """Whether the provider has answered, and not with a refusal."""
        self.writes_text = writes_text(route)
        """Whether the answer has tokens."""

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
        self._request, self._body = request, body
        self._reserve = reserve
        tokens = _tokens_of_upload(self._route, request, body)
        if tokens is not None:
            self._guess, self._body = tokens, None

    @property
    def _has_output(self) -> bool:
        return self.writes_text or self._route.modality is Modality.IMAGE_GEN

    def keep_body(self) -> None:
        """Reserve the memory of the body once more, which a response that begins has released."""
        if isinstance(self._body, bytes):
            try:
                self._reserve(len(self._body))
            except GatewayError:  # there is none left
                self._guess, self._body = guess_unparsed(self._body), None

    def estimate(
        self, settled: SettledExchange, model: str, factor: float, then: Callable[[Tokens], None]
    ) -> bool:
        """Estimate what is not told; return whether anything is, which ``then`` is called with.

        :param model: the one that the client names.
        :param factor: how many tokens the model's tokenizer makes where o200k makes one.
        """
        request, body, guess, answer = self._request, self._body, self._guess, self.answer
        self._request = self._body = None
        usage = settled.usage
        if request is None or not self.is_answered or _is_refused(settled):
            return False
        broke_off = settled.outcome is not Outcome.OK
        needs_in = usage.tokens_in is None or broke_off
        needs_out = self._has_output and (usage.tokens_out is None or broke_off)
        if not (needs_in or needs_out):
            return False
        context = RequestContext(model, self._route.in_pieces, request.raw_query, drop_hosted_tools=True)
        codings, route, config = request.content_codings, self._route, self._config
        usual, told = config.edge_auth.reserve_output_tokens, (usage.tokens_in, usage.tokens_out)

        def work() -> Tokens:
            text = _decoded(body, codings, config.max_body_bytes) if isinstance(body, bytes) else None
            if not needs_in:
                tokens_in = None
            elif text is None:
                tokens_in = _guess_request(body, guess)
            else:
                tokens_in = _count_request(route, text, context, factor)
            return tokens_in, _count_answer(route, text or b"", answer, usual, factor) if needs_out else None

        def rough() -> Tokens:
            tokens_in = _guess_request(body, guess) if needs_in else None
            return tokens_in, _guess_answer(route, body, answer, usual) if needs_out else None

        size = len(body) if isinstance(body, bytes) else 0
        self._estimates.run(work, rough, lambda found: then(_larger(found, told)), size)
        return True


def _is_refused(settled: SettledExchange) -> bool:
    """Whether an exchange ended with an error that is no more than that: nothing broke off."""
    status = settled.http_status
    if status is None:
        return True
    return status >= _ANSWERED and settled.error not in _BROKE_OFF


def _larger(found: Tokens, told: Tokens) -> Tokens:
    """Return those estimates that are larger than what was told."""
    tokens_in, tokens_out = (
        None if new is None or (old is not None and old >= new) else new
        for new, old in zip(found, told, strict=True)
    )
    return tokens_in, tokens_out


def _guess_request(body: bytes | BodySource | None, guess: int | None) -> int:
    """Return about how many tokens a request has, at hardly any cost.

    :param guess: what was guessed while there was a body.
    """
    if body is None:
        return guess or 0
    return guess_unparsed(body) if isinstance(body, bytes) else body_size(body) // BYTES_A_TOKEN


def _decoded(body: bytes, codings: Sequence[bytes], max_bytes: int) -> bytes:
    """Return a request's body without its content codings; as it is where they cannot be undone."""
    try:
        return decode_content(body, b",".join(codings), max_bytes) if codings else body
    except GatewayError:
        return body


def _tokens_of_upload(route: Route, request: ClientRequest, body: bytes | BodySource) -> int | None:
    """Return about how many tokens a request has that uploads sound or an image; ``None``: its text says."""
    if route.modality is Modality.AUDIO_TRANSCRIBE:
        return estimate_sound(body_size(body) * 4 // 3)
    is_form = media_type(value_of(request.headers, b"content-type") or b"") == FORM
    return UNSEEN_IMAGE if is_form and route.modality is Modality.IMAGE_GEN else None


def _count_answer(route: Route, body: bytes, answer: AnswerCopy, usual: int, factor: float) -> int:
    """Return about how many tokens an answer has, or may come to where it goes on in the background.

    A run of an assistant does, unless it is a stream.

    :param body: of the request; empty where that could not be kept.
    """
    dialect = dialect_of(route.dialect)
    if route.modality is Modality.IMAGE_GEN:
        return UNSEEN_IMAGE * answers_asked(body, dialect.image_places)
    tokens, places = answer.estimate(factor), dialect.answer_places
    goes_on = answer.is_background or (route.hides_cost and not answer.is_stream)
    asked = _IN_BACKGROUND if route.answers_in_text else places
    if answer.has_ended or not (goes_on or runs_in_background(body, asked)):
        return tokens
    return max(tokens, output_hold(body, places, usual))


def _guess_answer(route: Route, body: bytes | BodySource | None, answer: AnswerCopy, usual: int) -> int:
    """Return the same at hardly any cost."""
    if route.modality is Modality.IMAGE_GEN:
        return UNSEEN_IMAGE
    places = _IN_BACKGROUND if route.answers_in_text else dialect_of(route.dialect).answer_places
    tokens, name = answer.estimate_roughly(), places.background
    if name is None or not isinstance(body, bytes) or b'"%b"' % name.encode() not in body:
        return tokens
    return max(tokens, usual)


def _count_request(
    route: Route,
    body: bytes,
    context: RequestContext,
    factor: float,
) -> int:
    """Return about how many tokens a request has, as a count of tokens is estimated."""
    try:
        if route.treatment is Treatment.CHAT and not has_more_values(body, MAX_OBJECTS, MAX_VALUES):
            parsed = client_side_of(route.dialect).text.parse_request(body, context)
            return estimate_tokens(parsed.request, factor)
    except _UNREADABLE:  # the provider has understood it all the same
        pass
    return estimate_unparsed(body, factor)
