"""Serve one request, for callers that await it."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from mgw.bodies.source import BodySource
from mgw.exchange.exchange import Exchange
from mgw.exchange.pipeline import ExchangeRun
from mgw.exchange.request import ClientRequest, ResponseChannel


async def serve(
    exchange: Exchange, request: ClientRequest, body: bytes | BodySource, channel: ResponseChannel
) -> None:
    """Answer a request, and leave its usage event behind.

    :raises GatewayError: a refusal that the caller says in the client's dialect if nothing was sent yet.
    """

    def on_end(error: Exception | None) -> None:
        if error is None:
            ended.callback(None)
        else:
            ended.errback(error)

    run = ExchangeRun(exchange, request, channel, on_end)
    ended: Deferred[None] = Deferred(lambda _: run.cancel())
    run.start(body)
    await ended
