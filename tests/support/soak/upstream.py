"""The provider of the soak: it prints its port, and serves until its input ends.

What it does is said by the model's name (:mod:`tests.support.soak.exchanges`).  Each later line that it
prints is a problem: something reached it that must not.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.raw_client import chunk
from tests.support.raw_upstream import EVENTS, JSON, STREAM_HEAD, RawUpstream, Turn, counted, start_upstream
from tests.support.soak.answers import failure, failure_event, halves, start_up, unended, whole
from tests.support.soak.sessions import ProviderEnd

LATE_SECONDS = 0.004
"""How long behind the answer an answer comes that nobody asked for."""
LATEST_SECONDS = 0.012
"""A busy machine may delay it; later than this it is left out, since the gateway waits for 20 ms only."""
SLOW_SECONDS = 10.0
"""How long a provider takes whose client is about to leave: the gateway hangs up before."""
KEPT_TURNS = 1000
_MODEL = re.compile(rb"m\d+\.([a-z0-9]+)")
_SESSION = re.compile(r"m\d+\.(?:ws(\d)|wlater)")
_STREAM = re.compile(rb'"stream"\s*:\s*true')
_failed_once: set[str] = set()
"""The models of streams that were answered with an error, and are to be answered well."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, and what it asks for."""

    turn: Turn
    wire: str
    model: str
    stream: bool

    def send_whole(self, *headers: bytes) -> None:
        """Answer as it was asked."""
        if self.stream:
            head = b"\r\n".join(
                [b"HTTP/1.1 200 OK", EVENTS, b"Transfer-Encoding: chunked", *headers, b"", b""]
            )
            self.turn.send(head + b"".join(map(chunk, halves(self.wire, self.model))) + chunk(b""))
        else:
            self.turn.send(counted(whole(self.wire, self.model), JSON, *headers))

    def send_events(self, *pieces: bytes, end: bytes = b"0\r\n\r\n", headers: tuple[bytes, ...] = ()) -> None:
        """Answer with a stream."""
        more = b"".join(header + b"\r\n" for header in headers)
        self.turn.send(STREAM_HEAD[:-2] + more + b"\r\n" + b"".join(map(chunk, pieces)) + end)


def play(turn: Turn) -> None:
    """Do what the model's name says."""
    target = turn.target.encode()
    if b".forbidden" in b"".join([target, turn.body, *(value for _, value in turn.headers)]):
        _report(f"asked for a forbidden model: {turn.target}")
    if turn.value(b"sec-websocket-key") is not None:
        _play_session(turn)
        return
    wire = "gemini" if "/models/" in turn.target else "anthropic" if "/messages" in turn.target else "openai"
    found = _MODEL.search(target) or _MODEL.search(turn.body)
    if found is None:
        turn.send(counted(b'{"error":{"message":"no model"}}', JSON, status=400))
        return
    model, scenario = found[0].decode(), found[1].decode()
    asked = Asked(turn, wire, model, b":stream" in target or _STREAM.search(turn.body) is not None)
    if scenario[0] == "s" and scenario[1:].isdigit():
        status = int(scenario[1:])
        turn.send(counted(failure(wire, status, model), JSON, status=status))
    else:
        _PLAYED.get(scenario, Asked.send_whole)(asked)


def _play_session(turn: Turn) -> None:
    found = _MODEL.search(turn.target.encode())
    named = found[0].decode() if found else ""
    session = _SESSION.fullmatch(named)
    if session is None:
        _report(f"a session for {turn.target}")
    turn.switch_protocols()
    end = ProviderEnd(named, int(session[1]) if session and session[1] else None)
    end.read(turn.read)
    turn.closed = True
    for problem in end.problems:
        _report(f"{named}: {problem}")


# What a scenario does in place of a whole answer.


def _close(asked: Asked) -> None:
    """Answer, and close."""
    asked.send_whole(b"Connection: close")
    asked.turn.close()


def _second(asked: Asked) -> None:
    """Answer, and a little later answer again, unless the connection is in use again by then.

    What comes while another request waits for its answer cannot be told from that answer by anybody.
    """
    asked.send_whole()
    latest = time.monotonic() + LATEST_SECONDS
    if not asked.turn.has_more(LATE_SECONDS) and time.monotonic() <= latest:
        asked.send_whole()


def _garbage(asked: Asked) -> None:
    """Say something that is not HTTP."""
    asked.turn.send(b"220 smtp.example ESMTP\r\n")
    asked.turn.close()


def _truncate(asked: Asked) -> None:
    """Close in the middle of an answer."""
    if asked.stream:
        asked.send_events(halves(asked.wire, asked.model)[0], end=b"")
    else:
        response = counted(whole(asked.wire, asked.model), JSON)
        asked.turn.send(response[: len(response) - 100])
    asked.turn.close()


def _again(asked: Asked) -> None:
    """Fail the first time, and answer the second time."""
    if asked.model in _failed_once:
        _failed_once.remove(asked.model)
        asked.send_whole()
    else:
        _failed_once.add(asked.model)
        _fail_at_start(asked)


def _fail_at_start(asked: Asked) -> None:
    """Say that it failed, behind events that say nothing yet."""
    asked.send_events(start_up(asked.wire, asked.model), failure_event(asked.wire, asked.model))


def _fail(asked: Asked) -> None:
    """Say in the middle of a stream that it failed."""
    asked.send_events(halves(asked.wire, asked.model)[0], failure_event(asked.wire, asked.model))


def _end_early(asked: Asked) -> None:
    """End in order in the middle of a stream."""
    asked.send_events(halves(asked.wire, asked.model)[0])


def _finish(asked: Asked) -> None:
    """Break off when all has been said but the last event."""
    asked.send_events(unended(asked.wire, asked.model), end=b"")
    asked.turn.close()


def _answer_late(asked: Asked) -> None:
    """Answer when the client has left."""
    if not asked.turn.has_more(SLOW_SECONDS):
        asked.send_whole()


def _answer_half(asked: Asked) -> None:
    """Answer half, and the rest when the client has left."""
    first, second = halves(asked.wire, asked.model)
    asked.send_events(first, end=b"")
    if not asked.turn.has_more(SLOW_SECONDS):
        asked.turn.send(chunk(second) + chunk(b""))


_PLAYED: dict[str, Callable[[Asked], None]] = {
    "close": _close,
    "second": _second,
    "reset": lambda asked: asked.turn.reset(),
    "garbage": _garbage,
    "trunc": _truncate,
    "error": _fail,
    "starterr": _fail_at_start,
    "again": _again,
    "short": _end_early,
    "finished": _finish,
    "leave": _answer_late,
    "leavemid": _answer_half,
}


def _report(problem: str) -> None:
    print(problem, flush=True)


def _serve(upstream: RawUpstream) -> None:
    def script(turn: Turn) -> None:
        if len(upstream.turns) > KEPT_TURNS:
            upstream.begin(script)  # what was asked before is not needed any more
        play(turn)

    upstream.begin(script)
    print(upstream.port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    with start_upstream() as provider:
        _serve(provider)
