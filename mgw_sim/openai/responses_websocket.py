"""OpenAI's responses over one WebSocket: ``GET /v1/responses`` with an upgrade.

Source: ``ResponsesClientEvent`` and ``ResponsesServerEvent`` of ``openai.types.responses`` 3.54, and OpenAI's
guide of the WebSocket mode.  Each ``response.create`` is a request of ``POST /v1/responses``, and its events
are those of the stream.  A connection knows its own responses, stored or not; of two that are asked for at
once the second waits, on whichever lane.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from mgw_sim.api import ApiError, Json, Outgoing, Request, StreamResponse, WebSocketResponse
from mgw_sim.families import unknown_model
from mgw_sim.faults import Faults, UnknownFaultError, read_faults
from mgw_sim.openai.chat import COMMENT
from mgw_sim.openai.errors import error_value, validate
from mgw_sim.openai.responses import responses_and_store
from mgw_sim.openai.responses_items import input_items
from mgw_sim.openai.responses_request import REQUEST

_NUMBERS: Final = 100_000_000
"""The responses of a connection are numbered in steps of this, so that none has the name of another's."""
_HTTP_ONLY: Final = ("background", "background_options")


def responses_websocket(request: Request) -> WebSocketResponse:
    """``GET /v1/responses``: the models come with the messages."""
    return WebSocketResponse(ResponsesSession(request))


class ResponsesSession:
    """One connection: ``receive`` answers a ``response.create``."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.faults = request.faults
        self._items: dict[str, list[Json]] = {}
        """The conversation up to the end of each response, by the response's name."""
        self._count = 0

    def open(self) -> Iterator[Outgoing]:
        """Nothing: the client speaks first."""
        return iter(())

    def receive(self, message: str | bytes) -> Iterator[Outgoing]:
        """The events of a response, or an ``error``."""
        lane: Json = {}
        try:
            event = _parse(message)
            if event.get("stream_id") is not None:
                lane = {"stream_id": event["stream_id"]}
            if event.get("type") != "response.create":
                name = f"'{event.get('type')}'"
                message_text = f"Invalid value: {name}. Supported values are: 'response.create'."
                raise ApiError(400, message_text, "type", "invalid_value")
            body = {name: value for name, value in event.items() if name not in {"type", "stream_id"}}
            return iter([json.dumps({**one, **lane}, ensure_ascii=False) for one in self._create(body)])
        except ApiError as error:
            value = {"type": "error", "status": error.status, **error_value(error), **lane}
            return iter([json.dumps(value, ensure_ascii=False)])

    def _create(self, body: Json) -> list[Json]:
        """The events of one response.  Raises ApiError."""
        for name in _HTTP_ONLY:
            if body.get(name):
                raise ApiError(
                    400, f"Unsupported parameter over WebSocket: '{name}'.", name, "unsupported_parameter"
                )
        model = str(body.get("model") or "")
        self._obey(model)
        is_generated = body.pop("generate", None) is not False
        validate(body, REQUEST, lenient="lenient" in self.faults)
        is_prewarm = (body.get("prompt_cache_options") or {}).get("prewarm") is True
        self._count += 1
        previous = body.get("previous_response_id")
        earlier = self._conversation(str(previous)) if previous else []
        items = [*earlier, *input_items(body)]
        response = responses_and_store(
            replace(
                self.request,
                body={**body, "stream": True, **({"input": items} if "input" in body or previous else {})},
                model=model,
                faults=self.faults,
                number=self.request.number + self._count * _NUMBERS,
            ),
            {item["id"] for item in earlier if item.get("id")},
        )
        assert isinstance(response, StreamResponse)
        events = [_event_of(piece) for piece in response.pieces if piece != COMMENT]
        if is_prewarm or not is_generated:
            events = _without_output(events)
        whole = events[-1]["response"]
        self._items[whole["id"]] = [*items, *whole["output"]]
        failing = self.faults.number("error-in-stream-after")
        return events if failing is None else [*events[:failing], _event_of(response.error_piece)]

    def _obey(self, model: str) -> None:
        """Take the faults of a model's name; raise the ApiError of those that refuse."""
        try:
            words = read_faults(model, ()).words
        except UnknownFaultError as error:
            raise ApiError(400, str(error), "model") from None
        self.faults = Faults({**self.request.faults.words, **words})
        if model.startswith("missing"):
            raise unknown_model(self.request.family, model)
        status = self.faults.number("status")
        if status is not None and status >= 400:
            raise ApiError(status, f"The simulator was asked for status {status}.")

    def _conversation(self, name: str) -> list[Json]:
        """What was said up to the end of a response: one of this connection, or a stored one."""
        if name in self._items:
            return self._items[name]
        family, store = self.request.family.value, self.request.store
        stored = store.get((family, "/responses", name))
        if stored is not None:
            return [*store.all(family, f"/responses/{name}/input_items"), *stored.get("output", ())]
        if self.request.lenient or "lenient" in self.faults:
            return []
        message = f"Previous response with id '{name}' not found."
        raise ApiError(400, message, "previous_response_id", "previous_response_not_found")


def _without_output(events: list[Json]) -> list[Json]:
    """The events of a response that only prepares those that follow it."""
    *begun, last = [event for event in events if "response" in event]
    usage = {**last["response"]["usage"], "output_tokens": 0}
    usage["total_tokens"] = usage["input_tokens"]
    whole = {**last["response"], "status": "completed", "output": [], "usage": usage}
    return [*begun, {"type": "response.completed", "sequence_number": len(begun), "response": whole}]


def _event_of(piece: bytes) -> Json:
    """The JSON of a server-sent event."""
    event: Json = json.loads(piece.partition(b"data: ")[2])
    return event


def _parse(message: str | bytes) -> Json:
    try:
        event: Any = json.loads(message)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict) or isinstance(message, bytes):
        raise ApiError(400, "Expected a text message with a JSON object.", code="invalid_json")
    return event
