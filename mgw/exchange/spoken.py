"""Requests for speech that are passed on: how long their text is, and how audio is asked for."""

from __future__ import annotations

from functools import partial

from mgw.dialects import client_side_of
from mgw.exchange.body import RequestBody, transform
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import SEARCHED_BYTES, maybe_offload
from mgw.memo.client_request import ClientRequest
from mgw.nouns.errors import GatewayError
from mgw.wire.json_spans import find_string


async def count_spoken(exchange: Exchange, body: RequestBody) -> int | None:
    """Return how many characters the text has that is to be spoken, where OpenAI's field names it."""
    text = body.decoded
    if text is None:
        return None
    find = partial(find_string, text, "input")
    try:
        found = await maybe_offload(exchange.offload, find, large=len(text) > SEARCHED_BYTES)
    except GatewayError:  # the provider's to refuse
        return None
    return None if found is None else len(found.value)


async def request_audio(exchange: Exchange, request: ClientRequest, body: RequestBody) -> RequestBody:
    """Return a request for audio in the form that the vendor's own hosts take."""
    speech = client_side_of(exchange.route.dialect).speech
    if speech is None or speech.natively is None:
        return body
    return await transform(exchange, request, body.original, speech.natively)
