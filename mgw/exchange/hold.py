"""Count a request that holds an estimate of what it will come to, before anything of it goes upstream.

Where rows of a client's limits reserve, the head of a request is too early to count it: body and target must
be known.  Then the request is counted in all its rows at once, with the tokens that its body may come to
(:mod:`mgw.tokens.hold`) and what they cost at the dearest target that it may get to.  A further attempt keeps
what is held; its end replaces it (:mod:`mgw.exchange.client_place`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mgw.bodies.source import BodySource, body_size, read_pieces
from mgw.canonical.answer_places import AnswerPlaces
from mgw.canonical.reply import TokenUsage
from mgw.clients.client_refusals import model_not_priced
from mgw.clients.limits import Taken
from mgw.dialects import dialect_of
from mgw.exchange.attempts import Attempts
from mgw.exchange.body import decode_body
from mgw.exchange.charge import priced_modality
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import SEARCHED_BYTES, maybe_offload
from mgw.exchange.passthrough import Passthrough
from mgw.exchange.planning import plan_fallback
from mgw.exchange.response import FullResponse, Plan
from mgw.exchange.target_resolution import has_known_price
from mgw.memo.client_request import ClientRequest
from mgw.nouns.errors import GatewayError
from mgw.nouns.vocabulary import Modality
from mgw.routing.resolve import Target
from mgw.tokens.hold import answers_asked, answers_in_part, input_hold, input_hold_of_size, output_hold
from mgw.usage.price_row import Quantities
from mgw.wire.headers import value_of
from mgw.wire.media_types import FORM, media_type
from mgw.wire.multipart import FormReader, feed_whole

_NO_TOKENS = TokenUsage(0, 0)


async def admit(
    exchange: Exchange,
    request: ClientRequest,
    body: bytes | BodySource,
    plan: Plan,
    attempts: Attempts | None,
) -> Plan | FullResponse:
    """Count a request with what it holds; return its plan, or one for the first target that has a price.

    :raises GatewayError: ``CLIENT_LIMIT`` or ``CLIENT_BUDGET``: it is one too many.  ``MODEL_NOT_PRICED``.
    """
    if not has_known_price(exchange, plan.target):
        name = plan.target.asked_model or ""
        other = None
        if attempts is not None and attempts.targets:
            other = await plan_fallback(exchange, request, body, attempts)
        if other is None:
            raise model_not_priced(name)
        if isinstance(other, FullResponse):
            return other
        plan = other
    others = () if attempts is None else attempts.targets
    held = await _hold_of(exchange, request, body, (*_own_targets(plan), *others))
    exchange.acquire_held(held)
    if exchange.place is not None and exchange.place.pending is not None:
        await exchange.place.granted()
    return plan


def _own_targets(plan: Plan) -> Sequence[Target]:
    """Return where a plan leads: the provider may have been given a list of models to choose from."""
    target, answering = plan.target, plan.answering if isinstance(plan, Passthrough) else None
    if answering is None:
        return (target,)
    return [target, *(Target(target.provider, name, name) for name in sorted(answering.names))]


async def _hold_of(
    exchange: Exchange, request: ClientRequest, body: bytes | BodySource, targets: Sequence[Target]
) -> Taken:
    """Return what a request holds that may get to one of these targets."""
    modality, dialect = priced_modality(exchange.route), dialect_of(exchange.route.dialect)
    usual = exchange.generation.config.edge_auth.reserve_output_tokens
    tokens_in = tokens_out = images = characters = 0
    if modality is Modality.IMAGE_GEN:
        images = await _images_asked(exchange, request, body, dialect.image_places)
    elif modality is Modality.AUDIO_SPEECH:  # no text is longer than the request that has it
        characters = body_size(body) if exchange.characters is None else exchange.characters
    elif modality is Modality.TEXT and isinstance(body, bytes):
        text = await decode_body(exchange, request, body)
        count = partial(_tokens, text, dialect.answer_places, usual)
        tokens_in, tokens_out = await maybe_offload(exchange.offload, count, large=len(text) > SEARCHED_BYTES)
    elif modality is Modality.TEXT:
        tokens_in, tokens_out = input_hold_of_size(body_size(body)), usual
    medium = Quantities(_NO_TOKENS, None, images, characters)
    costs = [_cost(exchange, target, tokens_in, tokens_out, medium) for target in targets]
    return Taken(1, tokens_in + tokens_out, max(costs))


async def _images_asked(
    exchange: Exchange, request: ClientRequest, body: bytes | BodySource, places: AnswerPlaces
) -> int:
    """Return how many images a request asks for, in JSON or in a part of a form; 1 where it does not say."""
    content_type = value_of(request.headers, b"content-type") or b""
    if isinstance(body, bytes):
        body = await decode_body(exchange, request, body)
    if media_type(content_type) != FORM:
        if not isinstance(body, bytes):
            return 1
        count = partial(answers_asked, body, places)
        return await maybe_offload(exchange.offload, count, large=len(body) > SEARCHED_BYTES)
    try:
        reader = FormReader(content_type, places.answers[0])
        if isinstance(body, bytes):
            feed_whole(reader, body)
        else:
            await read_pieces(body, reader.feed)
        part = reader.finish()
    except GatewayError:  # the provider's to refuse
        return 1
    return 1 if part is None else answers_in_part(part.value)


def _tokens(body: bytes, places: AnswerPlaces, usual: int) -> tuple[int, int]:
    return input_hold(body), output_hold(body, places, usual)


def _cost(exchange: Exchange, target: Target, tokens_in: int, tokens_out: int, medium: Quantities) -> int:
    """Return what a request holds in nanodollars if it goes to a target; 0 where nobody knows.

    :param medium: the images and characters that it asks for.
    """
    prices, model, modality = exchange.generation.prices, target.upstream_model, exchange.route.modality
    if prices is None or model is None:
        return 0
    provider, wall = target.provider_name, exchange.wall
    if modality in (Modality.IMAGE_GEN, Modality.AUDIO_SPEECH):
        return prices.estimate(provider, model, modality, medium, wall) or 0
    return prices.hold(provider, model, tokens_in, tokens_out, wall) or 0
