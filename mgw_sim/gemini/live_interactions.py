"""Google's interactions over a WebSocket: a message of the client's is one event, or has several.

Source: ``google.genai._interactions_websocket`` 3.6 with its types (``ClientEvent``, ``ServerEvent``).

A client creates an interaction, or connects to one that is there, before all else.  An interaction is over
once it is completed or cancelled; a client that disconnects may come back.
"""

from collections.abc import Callable, Iterator
from typing import Final

from mgw_sim.api import ApiError, Close, Json, Outgoing, Request, WebSocketResponse, dump_json
from mgw_sim.faults import Faults
from mgw_sim.gemini.interactions import input_text, usage_of
from mgw_sim.gemini.live import CLOSE_CODES, MAX_REASON, faults_of, parse_message
from mgw_sim.model import token_count
from mgw_sim.platform.resources import store_new
from mgw_sim.platform.store import Entry

_COLLECTION: Final = "/v1beta/interactions"


def live_interaction(request: Request) -> WebSocketResponse:
    """``GET …/interactions/live``."""
    return WebSocketResponse(InteractionSession(request))


class InteractionSession:
    """One session: ``receive`` answers a message of the client's."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.faults = request.faults
        self.interaction: Entry | None = None
        self.steps = 0
        self.tokens_in = self.tokens_out = 0

    def open(self) -> Iterator[Outgoing]:
        """Nothing: the client speaks first."""
        return iter(())

    def receive(self, message: str | bytes) -> Iterator[Outgoing]:
        """What a message leads to; an error is told, and is the end of the session."""
        try:
            for event in _events(parse_message(message)):
                yield from self._answer(event)
        except ApiError as error:
            yield _said("error", error={"code": str(error.status), "message": error.message})
            reason = error.message.encode()[:MAX_REASON].decode("utf-8", "ignore")
            yield Close(CLOSE_CODES.get(error.status, 1011), reason)

    def _answer(self, event: Json) -> Iterator[Outgoing]:
        kind = str(event.get("event_type"))
        handler = _HANDLERS.get(kind)
        if handler is None and kind not in _UNANSWERED and kind not in _ENDS:
            raise ApiError(400, f"Unknown event_type: {kind}")
        if (self.interaction is None) is not (kind in _FIRST):
            raise ApiError(400, "interaction.create or interaction.connect must come first and only first")
        if handler is not None:
            return handler(self, event)
        return self._end(_ENDS[kind]) if kind in _ENDS else iter(())

    def on_create(self, event: Json) -> Iterator[Outgoing]:
        """``interaction.create``: a new one."""
        fields = {**event, **(event.get("interaction") or {})}
        model = fields.get("model")
        if not isinstance(model, str) or not model:
            raise ApiError(400, "model is not specified")
        self.faults = Faults({**self.request.faults.words, **faults_of(model).words})
        status = self.faults.number("status")
        if status is not None and status >= 400:
            raise ApiError(status, f"The simulator was asked for status {status}.")
        if model.rpartition("/")[2].startswith("missing"):
            raise ApiError(404, f"{model} is not found.")
        self.interaction = store_new(self.request, _COLLECTION, {"model": model, "status": "in_progress"})
        yield _said("interaction.created", interaction_id=self.interaction["id"])

    def on_connect(self, event: Json) -> Iterator[Outgoing]:
        """``interaction.connect``: one that is there, or any where that is asked for."""
        name, request = str(event.get("id")), self.request
        found = request.store.get((request.family.value, "/interactions", name))
        if found is None and not request.lenient and "lenient" not in self.faults:
            raise ApiError(404, f"Requested entity was not found: {name}")
        self.interaction = found or {"id": name}
        yield _said("interaction.connected")

    def on_input(self, event: Json) -> Iterator[Outgoing]:
        """``input``: what the user says, which is answered at once."""
        text = input_text(event.get("content"))
        reply, index = f"You said: {text}", self.steps
        self.steps += 1
        self.tokens_in += token_count(text)
        self.tokens_out += token_count(reply)
        yield _said("step.start", index=index, step={"type": "model_output"})
        yield _said("step.delta", index=index, delta={"type": "text", "text": reply})
        yield _said("step.stop", index=index, usage=self._usage())

    def _end(self, told: str | None) -> Iterator[Outgoing]:
        if told is not None:
            yield _said(told, usage=self._usage())
        yield Close(1000)

    def _usage(self) -> Json:
        return usage_of(self.tokens_in, self.tokens_out)


def _events(message: Json) -> list[Json]:
    events = message.get("events", [message])
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise ApiError(400, "events must be a list of events")
    return events


def _said(kind: str, **fields: object) -> str:
    return dump_json({"event_type": kind, **fields}).decode()


_HANDLERS: Final[dict[str, Callable[[InteractionSession, Json], Iterator[Outgoing]]]] = {
    "interaction.create": InteractionSession.on_create,
    "interaction.connect": InteractionSession.on_connect,
    "input": InteractionSession.on_input,
}
_FIRST: Final = frozenset({"interaction.create", "interaction.connect"})
_UNANSWERED: Final = frozenset({"user_action", "world_setup"})
_ENDS: Final = {
    "interaction.complete": "interaction.completed",
    "interaction.cancel": "interaction.cancelled",
    "interaction.disconnect": None,  # the client may come back
}
"""What ends an interaction, or its session, and what the server says of that."""
