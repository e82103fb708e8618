"""What a client is charged for an exchange, where a limit on money counts it.

That is the cost if it is known.  Else it is an estimate by the same row of prices: of the tokens that were
told, or estimated where those are more, also of an exchange that broke off.  Images and spoken characters are
what the request has asked for.  What no row has a price for is charged nothing.
"""

from __future__ import annotations

from msgspec.structs import replace

from mgw.nouns.vocabulary import Modality
from mgw.routing.resolve import Target
from mgw.routing.route import Route
from mgw.usage.event import Outcome, SettledExchange
from mgw.usage.price_row import Quantities
from mgw.usage.prices import PriceTable

_REFUSED = 400
_MILLISECONDS_A_TOKEN = 100
"""Sound is estimated at ten tokens a second."""


def priced_modality(route: Route) -> Modality | None:
    """Return as what kind of exchange a route's requests are priced; ``None``: they ask no model.

    A few rows of platforms have models that answer at once, and tell their tokens.
    """
    if route.modality is not Modality.PLATFORM:
        return route.modality
    return Modality.TEXT if route.metered else None


def charge_for(
    row: SettledExchange,
    route: Route,
    target: Target | None,
    prices: PriceTable | None,
    held: int,
    *,
    has_answer: bool,
) -> int:
    """Return what a client is charged for an exchange, in nanodollars.

    :param held: the nanodollars that it has held.
    :param has_answer: whether anything of an answer has come.
    """
    if row.cost is not None:
        return row.cost
    billed = row.usage.billed
    if route.modality is Modality.PLATFORM and billed is not None and billed.nanodollars is not None:
        return billed.nanodollars  # such as what an answer that was deferred costs
    modality = priced_modality(route)
    model = None if target is None else target.upstream_model
    if target is None or model is None or prices is None or modality is None:
        return 0
    if modality in (Modality.IMAGE_GEN, Modality.AUDIO_SPEECH):
        is_refused = row.outcome is Outcome.UPSTREAM_ERROR and (row.http_status or _REFUSED) >= _REFUSED
        if not has_answer or is_refused:  # one that was cut with its key has been answered
            return 0
        if held:
            return held
    return _charge_for_tokens(row, modality, target.provider_name, model, prices)


def _charge_for_tokens(
    row: SettledExchange, modality: Modality, provider: str, model: str, prices: PriceTable
) -> int:
    usage, wall = row.usage, row.time
    tokens_in = _larger(usage.tokens_in, row.tokens_in_estimated)
    tokens_out = _larger(usage.tokens_out, row.tokens_out_estimated)
    if tokens_in is tokens_out is None:
        return 0
    known = replace(usage, tokens_in=tokens_in or 0, tokens_out=tokens_out or 0)
    simple = replace(known, parts=None, cache_read=None, cache_write=None, reasoning=None, service_tier=None)
    milliseconds = None if usage.billed is None else usage.billed.milliseconds
    if milliseconds is None and modality is Modality.AUDIO_TRANSCRIBE:
        milliseconds = (row.tokens_in_estimated or 0) * _MILLISECONDS_A_TOKEN
    for counted in (known, simple):  # what is told may have no price: then as if it were not told
        found = prices.estimate(provider, model, modality, Quantities(counted, milliseconds), wall)
        if found is not None:
            return found
    return prices.hold(provider, model, tokens_in or 0, tokens_out or 0, wall) or 0


def _larger(told: int | None, estimated: int | None) -> int | None:
    if told is None or estimated is None:
        return estimated if told is None else told
    return max(told, estimated)
