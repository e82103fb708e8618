"""OpenAI's realtime sessions over WebSockets: ``GET /v1/realtime`` with an upgrade.

Source: the client and server events of ``openai.types.realtime`` 3.54, and OpenAI's realtime guides.  Speech
is what is not silent: a buffer with a sample other than 0 begins it, an appended piece without one ends it.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from mgw_sim.api import ApiError, Json, Outgoing, Request, WebSocketResponse
from mgw_sim.http.upgrade import offered_subprotocols
from mgw_sim.model import complete
from mgw_sim.openai.errors import error_value, validate
from mgw_sim.openai.realtime_beta import from_beta, is_beta, to_beta
from mgw_sim.openai.realtime_fields import EVENTS
from mgw_sim.openai.realtime_items import (
    Conversation,
    audio_tokens,
    check_item,
    decode_audio,
    duration_ms,
    heard,
    invalid,
    prompt_of,
)
from mgw_sim.openai.realtime_response import RealtimeResponse
from mgw_sim.openai.realtime_settings import change_settings, initial_settings, response_settings

_MIN_AUDIO_MS: Final = 100
_SUBPROTOCOL: Final = "realtime"
_Events = Iterator[Json]


def realtime(request: Request) -> WebSocketResponse:
    """``GET /v1/realtime``: a session of a model, or beside the session of a call (``?call_id=``)."""
    query = request.query
    if not (request.model or query.get("call_id") or query.get("intent") == "transcription"):
        raise ApiError(400, "You must provide a model parameter.", "model", "missing_model")
    subprotocol = _SUBPROTOCOL if _SUBPROTOCOL in offered_subprotocols(request.headers) else None
    return WebSocketResponse(RealtimeSession(request), subprotocol)


class RealtimeSession:
    """One session: ``receive`` answers an event of the client's."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.faults = request.faults
        self.is_beta = is_beta(request.headers)
        self.settings = initial_settings(request)
        self.conversation = Conversation(request.id("conv_"))
        self.response: RealtimeResponse | None = None
        self.buffer = bytearray()
        self.is_speaking = False
        self.heard_ms = 0
        """The length of the audio that came before the buffer."""
        self._event_count = 0
        self._item_count = 0
        self._response_count = 0

    def open(self) -> Iterator[Outgoing]:
        """``session.created``."""
        return self._encode(iter([{"type": "session.created", "session": self.settings}]))

    def receive(self, message: str | bytes) -> Iterator[Outgoing]:
        """The events that an event leads to; an ``error`` where it breaks a rule."""
        event_id = None
        try:
            event = _parse(message)
            event_id = event.get("event_id")
            kind = event.get("type")
            handler = _HANDLERS.get(str(kind))
            if handler is None:
                names = ", ".join(f"'{name}'" for name in _HANDLERS)
                raise invalid("type", f"Invalid value: '{kind}'. Supported values are: {names}.")
            event = from_beta(event) if self.is_beta else event
            validate(event, EVENTS[str(kind)], lenient="lenient" in self.faults)
            return self._encode(handler(self, event))
        except ApiError as error:
            value = {**error_value(error)["error"], "event_id": event_id}
            return self._encode(iter([{"type": "error", "error": value}]))

    def _encode(self, events: _Events) -> Iterator[Outgoing]:
        for event in events:
            for one in to_beta(event) if self.is_beta else (event,):
                self._event_count += 1
                event_id = self.request.id("event_", f"_{self._event_count}")
                yield json.dumps({"type": one["type"], "event_id": event_id, **one}, ensure_ascii=False)

    def _item_id(self) -> str:
        self._item_count += 1
        return self.request.id("item_", f"_{self._item_count}")

    def on_session_update(self, event: Json) -> _Events:
        """``session.update``: what it names is changed, what it does not name stays."""
        self.settings = change_settings(self.settings, event["session"])
        return iter([{"type": "session.updated", "session": self.settings}])

    def on_item_create(self, event: Json) -> _Events:
        """``conversation.item.create``."""
        item = check_item(event["item"])
        given = {"id": item.get("id") or self._item_id(), "object": "realtime.item", "status": "completed"}
        item = {**item, **given}
        for part in item.get("content") or ():
            if part["type"] == "input_audio":
                audio = decode_audio(part.pop("audio", ""))
                milliseconds = duration_ms(audio, self._input["format"])
                self.conversation.audio_ms[item["id"]] = milliseconds
        return iter(self._add(item, event.get("previous_item_id")))

    def _add(self, item: Json, after: str | None = None) -> list[Json]:
        previous = self.conversation.add(item, after)
        fields = {"previous_item_id": previous, "item": item}
        return [{"type": f"conversation.item.{word}", **fields} for word in ("added", "done")]

    def on_item_retrieve(self, event: Json) -> _Events:
        """``conversation.item.retrieve``."""
        item = self.conversation.find(event.get("item_id"), "retrieve")
        return iter([{"type": "conversation.item.retrieved", "item": item}])

    def on_item_delete(self, event: Json) -> _Events:
        """``conversation.item.delete``."""
        self.conversation.remove(self.conversation.find(event.get("item_id"), "delete"))
        return iter([{"type": "conversation.item.deleted", "item_id": event["item_id"]}])

    def on_item_truncate(self, event: Json) -> _Events:
        """``conversation.item.truncate``: the user has heard only so much of what was said."""
        item = self.conversation.find(event.get("item_id"), "truncate")
        if item.get("role") != "assistant":
            raise invalid("item_id", "Only model output audio messages can be truncated.")
        fields = {name: event.get(name) for name in ("item_id", "content_index", "audio_end_ms")}
        return iter([{"type": "conversation.item.truncated", **fields}])

    @property
    def _input(self) -> Json:
        found: Json = self.settings["audio"]["input"]
        return found

    def on_audio_append(self, event: Json) -> _Events:
        """``input_audio_buffer.append``: has no answer but where a turn is detected to begin or to end."""
        audio = decode_audio(event.get("audio"))
        self.buffer += audio
        detection = self._input["turn_detection"]
        is_silent = not any(audio)
        if detection is None or self.is_speaking is not is_silent:
            return iter(())
        self.is_speaking = not is_silent
        end_ms = self.heard_ms + duration_ms(self.buffer, self._input["format"])
        if self.is_speaking:
            if detection.get("interrupt_response", True):
                self._cancel("turn_detected")
            start_ms = end_ms - duration_ms(audio, self._input["format"])
            started: Json = {"type": "input_audio_buffer.speech_started", "audio_start_ms": start_ms}
            return iter([{**started, "item_id": self._next_item_id()}])
        stopped: Json = {"type": "input_audio_buffer.speech_stopped", "audio_end_ms": end_ms}
        events = [{**stopped, "item_id": self._next_item_id()}, *self._commit()]
        is_asked = detection.get("create_response", True) and self.settings["type"] == "realtime"
        response = self._begin_response({}) if is_asked and not self._is_active() else None
        return _joined(events, response)

    def _next_item_id(self) -> str:
        return self.request.id("item_", f"_{self._item_count + 1}")

    def on_audio_commit(self, _event: Json) -> _Events:
        """``input_audio_buffer.commit``."""
        return iter(self._commit())

    def _commit(self) -> list[Json]:
        """Make the buffer a message of the user's."""
        milliseconds = duration_ms(self.buffer, self._input["format"])
        if milliseconds < _MIN_AUDIO_MS:
            raise invalid(
                None,
                "Error committing input audio buffer: buffer too small. Expected at least 100ms of audio, "
                f"but buffer only has {milliseconds:.2f}ms of audio.",
                "input_audio_buffer_commit_empty",
            )
        self.heard_ms += milliseconds
        self.buffer.clear()
        self.is_speaking = False
        item_id = self._item_id()
        self.conversation.audio_ms[item_id] = milliseconds
        content = [{"type": "input_audio", "transcript": None}]
        item = {"id": item_id, "object": "realtime.item", "type": "message", "status": "completed"}
        added, done = self._add({**item, "role": "user", "content": content})
        committed = {"type": "input_audio_buffer.committed", "item_id": item_id}
        events = [{**committed, "previous_item_id": added["previous_item_id"]}, added, done]
        return [
            *events,
            *(self._transcription(item_id, milliseconds) if self._input["transcription"] else ()),
        ]

    def _transcription(self, item_id: str, milliseconds: int) -> list[Json]:
        name, text = "conversation.item.input_audio_transcription", heard(milliseconds)
        place = {"item_id": item_id, "content_index": 0}
        heard_tokens, said_tokens = -(-milliseconds // 100), len(text.split())
        usage = {
            "type": "tokens",
            "input_tokens": heard_tokens,
            "input_token_details": {"text_tokens": 0, "audio_tokens": heard_tokens},
            "output_tokens": said_tokens,
            "total_tokens": heard_tokens + said_tokens,
        }
        delta = {"type": f"{name}.delta", **place, "delta": text}
        return [delta, {"type": f"{name}.completed", **place, "transcript": text, "usage": usage}]

    def on_audio_clear(self, _event: Json) -> _Events:
        """``input_audio_buffer.clear``."""
        self.buffer.clear()
        self.is_speaking = False
        return iter([{"type": "input_audio_buffer.cleared"}])

    def on_response_create(self, event: Json) -> _Events:
        """``response.create``."""
        if self._is_active():
            assert self.response is not None
            message = (
                f"Conversation already has an active response in progress: {self.response.id}. "
                "Wait until the response is finished before creating a new one."
            )
            raise invalid(None, message, "conversation_already_has_active_response")
        return self._begin_response(event.get("response") or {}).events()

    def _is_active(self) -> bool:
        return self.response is not None and not self.response.is_over

    def _begin_response(self, wanted: Json) -> RealtimeResponse:
        settings = response_settings(self.settings, wanted)
        items = self.conversation.items
        if wanted.get("input") is not None:
            items = [
                self.conversation.find(item.get("id"), "reference")
                if item["type"] == "item_reference"
                else check_item(item)
                for item in wanted["input"]
            ]
        self._response_count += 1
        prompt = prompt_of(settings, self.conversation, items)
        self.response = RealtimeResponse(
            self.request.id("resp_", f"_{self._response_count}"),
            settings,
            self.conversation,
            prompt,
            audio_tokens(self.conversation, items),
            complete(prompt, self.faults),
            self.faults,
            is_in_conversation=wanted.get("conversation") != "none",
        )
        return self.response

    def on_response_cancel(self, _event: Json) -> _Events:
        """``response.cancel``: the response itself says that it is done."""
        if not self._is_active():
            message = "Cancellation failed: no active response found"
            raise invalid(None, message, "response_cancel_not_active")
        self._cancel("client_cancelled")
        return iter(())

    def _cancel(self, reason: str) -> None:
        if self.response is not None and self._is_active():
            self.response.cancel_reason = reason


def _joined(events: list[Json], response: RealtimeResponse | None) -> _Events:
    yield from events
    if response is not None:
        yield from response.events()


def _parse(message: str | bytes) -> Json:
    try:
        event: Any = json.loads(message)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict) or isinstance(message, bytes):
        raise invalid(
            None, "We could not parse the event: expected a text message with a JSON object.", "invalid_json"
        )
    return event


_HANDLERS: Final[dict[str, Callable[[RealtimeSession, Json], _Events]]] = {
    "session.update": RealtimeSession.on_session_update,
    "input_audio_buffer.append": RealtimeSession.on_audio_append,
    "input_audio_buffer.commit": RealtimeSession.on_audio_commit,
    "input_audio_buffer.clear": RealtimeSession.on_audio_clear,
    "conversation.item.create": RealtimeSession.on_item_create,
    "conversation.item.truncate": RealtimeSession.on_item_truncate,
    "conversation.item.delete": RealtimeSession.on_item_delete,
    "conversation.item.retrieve": RealtimeSession.on_item_retrieve,
    "response.create": RealtimeSession.on_response_create,
    "response.cancel": RealtimeSession.on_response_cancel,
}
