"""What is said to clients that may not go on: a limit is used up, or nobody can know what a request costs.

A used-up row of a day and longer is worth no retry: its refusal says so in a header that the vendors' SDKs
obey, and names the moment at which the row resets.  Where requests in progress hold what is left of it, a
retry may succeed soon.
"""

from __future__ import annotations

from math import ceil, isinf
from typing import Final

from mgw.clients.client_limits import is_own
from mgw.clients.limits import LimitReached, Unit
from mgw.config.time_zones import rfc3339, zone_of
from mgw.nouns.errors import GatewayError, Reason

_NANODOLLARS: Final = 10**9
_MOST_SHOWN: Final = 200


def limit_refusal(reached: LimitReached, zone: str = "UTC") -> GatewayError:
    """Return the refusal of a request that is one too many.

    :param zone: where the periods of the calendar begin.
    """
    limit, holder = reached.limit, reached.holder
    is_money = limit.unit is Unit.NANODOLLAR
    is_long = limit.window.is_calendar and not reached.is_only_held
    who = "this key" if is_own(holder) and not limit.window.is_calendar else holder
    most = _dollars(reached.most) if is_money else str(reached.most)
    message = f"{who} has reached its limit: {limit.name} is {most}"
    if is_long:
        message += _when(reached.resets, zone)
    elif reached.is_only_held:
        message += "; requests in progress hold the rest of it: try again soon"
    seconds = None if isinf(reached.seconds) else float(max(1, ceil(reached.seconds)))
    reason = Reason.CLIENT_BUDGET if is_money and is_long else Reason.CLIENT_LIMIT
    refusal = GatewayError(reason, message, retry_after=seconds)
    return refusal.finally_refused() if is_long else refusal


def model_not_priced(model: str) -> GatewayError:
    """Return the refusal of a model whose cost nobody knows, for a client under a limit on money.

    :param model: empty: the request names none.
    """
    message = "the request names no model, and limits on usd apply to this client: name one that has a price"
    if model:
        message = (
            f"the model {model[:_MOST_SHOWN]!r} has no price, and limits on usd apply to this client: use "
            "another model, or ask the operator for a price"
        )
    return GatewayError(Reason.MODEL_NOT_PRICED, message)


def route_not_priced(path: str) -> GatewayError:
    """Return the refusal of a route that starts work whose cost no response reports, likewise."""
    message = f"{path} starts work at a cost that no response reports, and limits on usd apply to this client"
    return GatewayError(Reason.ROUTE_NOT_PRICED, message)


def _when(resets: float | None, zone: str) -> str:
    if resets is None or isinf(resets):
        return "; it never resets"
    return f"; it resets at {rfc3339(resets, zone_of(zone))}"


def _dollars(nanodollars: int) -> str:
    """Return an amount of money without zeros at its end."""
    whole, part = divmod(nanodollars, _NANODOLLARS)
    return f"{whole}.{part:09}".rstrip("0").rstrip(".")
