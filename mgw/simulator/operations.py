"""The simulator's own routes, under ``/_sim/``: what it saw, for whoever tests against it."""

from typing import Final

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime

from mgw.simulator.answer import Answer, Unary, unary
from mgw.simulator.recording import RecordedRequest, Recorder

_LONGEST_WAIT: Final = 60.0


async def answer(
    recorder: Recorder, reactor: IReactorTime, request: RecordedRequest, path: str, query: dict[str, str]
) -> Answer:
    """Answer a request for ``/`` or below ``/_sim/``."""
    match request.method, path:
        case "GET" | "HEAD", "/":
            return unary({"service": "mgw-sim"})
        case "GET", "/_sim/requests":
            return unary([kept.as_json() for kept in recorder.requests])
        case "DELETE", "/_sim/requests":
            recorder.clear()
            return unary({})
        case "PUT", "/_sim/settings":
            recorder.keeps_all = query.get("keep") == "all"
            recorder.lenient = query.get("lenient") == "on"
            return unary({"keep": query.get("keep", "some"), "lenient": query.get("lenient", "off")})
        case "GET", "/_sim/counters":
            return unary(recorder.counters())
        case "GET", "/_sim/wait":
            return await _wait(recorder, reactor, query)
    return Unary(b'{"error":"no such route"}', status=404)


async def _wait(recorder: Recorder, reactor: IReactorTime, query: dict[str, str]) -> Answer:
    """Answer when a counter has come to a number: ``?counter=client_left&count=1&seconds=10``, else 504."""
    name, count = query.get("counter", "received"), int(query.get("count", "1"))
    if name not in recorder.counters():
        return Unary(b'{"error":"no such counter"}', status=400)
    waiter = recorder.when(lambda: recorder.counters()[name] >= count)
    limit = reactor.callLater(min(float(query.get("seconds", "10")), _LONGEST_WAIT), waiter.cancel)
    try:
        await waiter
    except CancelledError:
        if limit.active():  # the asker left
            limit.cancel()
            raise
        return Unary(b'{"error":"it did not happen"}', status=504)
    if limit.active():
        limit.cancel()
    return unary(recorder.counters())
