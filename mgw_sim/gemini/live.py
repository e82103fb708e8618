"""Google's Live API: sessions over WebSockets, whose messages are JSON in binary frames.

Source: ``google.genai.live`` 3.4 with its types (``LiveClientMessage``, ``LiveServerMessage``), and the Live
API's reference.  The first message is the setup; where the path names the model it may be missing.  Speech is
what is not silent: a piece with a sample other than 0 begins it, one without ends it.
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from mgw_sim.api import ApiError, Close, Json, Outgoing, Request, WebSocketResponse, dump_json
from mgw_sim.faults import Faults, UnknownFaultError, read_faults
from mgw_sim.gemini.content import read_prompt
from mgw_sim.gemini.fields import LIVE, validate
from mgw_sim.gemini.live_turn import LiveTurn
from mgw_sim.model import complete

CLOSE_CODES: Final = {400: 1007, 401: 1008, 403: 1008, 404: 1008}
"""How an error ends a session; any other ends it with 1011."""
MAX_REASON: Final = 123  # bytes: RFC 6455 5.5


def live(request: Request) -> WebSocketResponse:
    """``…GenerativeService.BidiGenerateContent`` and ``…/models/{model}:bidiGenerateContent``."""
    return WebSocketResponse(LiveSession(request))


def constrained_live(request: Request) -> WebSocketResponse:
    """``…GenerativeService.BidiGenerateContentConstrained``: for ephemeral tokens, and for nothing else."""
    if "x-goog-api-key" in request.headers or "key" in request.query:
        raise ApiError(401, "Method expects an ephemeral token.", code="ACCESS_TOKEN_TYPE_UNSUPPORTED")
    return live(request)


class LiveSession:
    """One session: ``receive`` answers a message of the client's."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.faults = request.faults
        self.model = request.model
        self.setup: Json | None = {} if request.model else None
        self.contents: list[Json] = []
        self.turn: LiveTurn | None = None
        self.open_calls: list[Json] = []
        """The calls that wait for their responses."""
        self.audio = bytearray()
        self.is_speaking = False
        self._has_begun = False
        self._turn_count = 0

    def open(self) -> Iterator[Outgoing]:
        """Nothing: the client speaks first."""
        return iter(())

    def receive(self, message: str | bytes) -> Iterator[Outgoing]:
        """What a message leads to; an error is the end of the session."""
        try:
            return _encode(self._answer(parse_message(message)))
        except ApiError as error:
            reason = error.message.encode()[:MAX_REASON].decode("utf-8", "ignore")
            return iter([Close(CLOSE_CODES.get(error.status, 1011), reason)])

    def _answer(self, raw_message: Json) -> Iterator[Json]:
        message = validate(raw_message, LIVE, lenient="lenient" in self.faults)
        if len(message) != 1:
            raise ApiError(400, "A message must have exactly one of " + ", ".join(_HANDLERS))
        [(kind, value)] = message.items()
        is_first, self._has_begun = not self._has_begun, True
        needs_setup = is_first and self.setup is None
        if (kind == "setup") is not needs_setup and not (is_first and kind == "setup"):
            raise ApiError(400, "setup must be the first message and only the first")
        return _HANDLERS[kind](self, value)

    def on_setup(self, setup: Json) -> Iterator[Json]:
        """``setup``: the model, and all that holds for the session."""
        model = str(setup.get("model") or "")
        if not model:
            raise ApiError(400, "BidiGenerateContentSetup.model: model is not specified")
        self.model = model
        self.setup = setup
        self.faults = Faults({**self.request.faults.words, **faults_of(model).words})
        status = self.faults.number("status")
        if status is not None and status >= 400:
            raise ApiError(status, f"The simulator was asked for status {status}.")
        if model.rpartition("/")[2].startswith("missing"):
            message = (
                f"{model} is not found for API version v1beta, or is not supported for bidiGenerateContent."
            )
            raise ApiError(404, message)
        answers: list[Json] = [{"setupComplete": {"sessionId": self.request.id("live_")}}]
        seconds = self.faults.number("go-away")
        if seconds is not None:
            answers.append({"goAway": {"timeLeft": f"{seconds}s"}})
        if setup.get("sessionResumption") is not None:
            answers.append({"sessionResumptionUpdate": {}})
        return iter(answers)

    def on_client_content(self, content: Json) -> Iterator[Json]:
        """``clientContent``: turns of the conversation; the last of them may ask for an answer."""
        interruption = self._interrupt()
        self.contents += content.get("turns") or ()
        return self._begin_turn(interruption) if content.get("turnComplete") else iter(interruption)

    def on_realtime_input(self, value: Json) -> Iterator[Json]:
        """``realtimeInput``: text, audio or pictures as they come, or where an activity begins or ends."""
        if value.get("text") is not None:
            interruption = self._interrupt()
            self.contents.append({"role": "user", "parts": [{"text": value["text"]}]})
            return self._begin_turn(interruption)
        if "activityStart" in value:
            return iter(self._interrupt())
        if "activityEnd" in value or value.get("audioStreamEnd"):
            return self._end_speech()
        blobs = [*(value.get("mediaChunks") or ()), *(value[name] for name in ("audio",) if name in value)]
        return self._hear(b"".join(_decode(blob) for blob in blobs)) if blobs else iter(())

    def _hear(self, audio: bytes) -> Iterator[Json]:
        self.audio += audio
        is_silent = not any(audio)
        if self._detection_is_off() or self.is_speaking is not is_silent:
            return iter(())
        if is_silent:
            return self._end_speech()
        self.is_speaking = True
        return iter(self._interrupt())

    def _detection_is_off(self) -> bool:
        config = (self.setup or {}).get("realtimeInputConfig") or {}
        return bool((config.get("automaticActivityDetection") or {}).get("disabled"))

    def _end_speech(self) -> Iterator[Json]:
        """The user has said all: what was heard is a turn."""
        self.is_speaking = False
        if not self.audio:
            return iter(())
        milliseconds = len(self.audio) // 32  # 16 kHz, 16 bits
        self.audio.clear()
        said = f"{milliseconds} ms of audio"
        self.contents.append({"role": "user", "parts": [{"text": said}]})
        first: list[Json] = []
        if (self.setup or {}).get("inputAudioTranscription") is not None:
            first = [{"serverContent": {"inputTranscription": {"text": said}}}]
        return self._begin_turn(first, audio_tokens=-(-milliseconds // 40))  # 25 a second

    def on_tool_response(self, value: Json) -> Iterator[Json]:
        """``toolResponse``: once every call has its response the answer goes on."""
        parts = []
        for response in value.get("functionResponses") or ():
            call = next((call for call in self.open_calls if call["id"] == response.get("id")), None)
            if call is None:
                message = f"No function call with id {response.get('id')!r} is waiting for a response."
                raise ApiError(400, message)
            self.open_calls.remove(call)
            result = {"name": call["name"], "response": response.get("response") or {}}
            parts.append({"functionResponse": {**result, "id": call["id"]}})
        last = self.contents[-1] if self.contents else {}
        if any("functionResponse" in part for part in last.get("parts") or ()):
            last["parts"] += parts
        else:
            self.contents.append({"role": "user", "parts": parts})
        return iter(()) if self.open_calls else self._begin_turn([])

    def _interrupt(self) -> list[Json]:
        """Stop what is being said; calls that still wait are taken back."""
        if self.turn is not None and not self.turn.is_over:
            self.turn.is_interrupted = True
        names, self.open_calls = [call["id"] for call in self.open_calls], []
        return [{"toolCallCancellation": {"ids": names}}] if names else []

    def _begin_turn(self, first: list[Json], audio_tokens: int = 0) -> Iterator[Json]:
        """Answer the conversation."""
        if not self.contents:
            raise ApiError(400, "Request contains an invalid argument.")
        self._turn_count += 1
        setup = self.setup or {}
        prompt = read_prompt({**setup, "contents": self.contents})
        name = self.request.id("fc_", f"_{self._turn_count}")
        completion = complete(prompt, self.faults)
        self.turn = LiveTurn(name, setup, prompt, completion, self.faults, audio_tokens)
        self.open_calls = self.turn.calls()
        if self.turn.is_spoken or completion.text:
            said = {"role": "model", "parts": [{"text": completion.text}]}
            self.contents = [*self.contents, said]
        return _joined(first, self.turn, self._resumption())

    def _resumption(self) -> list[Json]:
        if (self.setup or {}).get("sessionResumption") is None:
            return []
        handle = self.request.id("handle_", f"_{self._turn_count}")
        return [{"sessionResumptionUpdate": {"newHandle": handle, "resumable": True}}]


def _joined(first: list[Json], turn: LiveTurn, last: list[Json]) -> Iterator[Json]:
    yield from first
    yield from turn.messages()
    yield from last


def _encode(messages: Iterator[Json]) -> Iterator[Outgoing]:
    for message in messages:
        yield dump_json(message) + b"\n"


def parse_message(message: str | bytes) -> Json:
    """The object that a message is.  Raises ApiError."""
    try:
        value: Any = json.loads(message)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ApiError(400, "Invalid JSON payload received.")
    return value


def _decode(blob: Any) -> bytes:  # any JSON value
    try:
        return base64.b64decode(blob["data"].replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, TypeError, KeyError, AttributeError):
        raise ApiError(400, "Request contains an invalid argument.") from None


def faults_of(model: str) -> Faults:
    """What the words of a model's name ask for.  Raises ApiError."""
    try:
        return read_faults(model, ())
    except UnknownFaultError as error:
        raise ApiError(400, str(error)) from None


_HANDLERS: Final[dict[str, Callable[[LiveSession, Json], Iterator[Json]]]] = {
    "setup": LiveSession.on_setup,
    "clientContent": LiveSession.on_client_content,
    "realtimeInput": LiveSession.on_realtime_input,
    "toolResponse": LiveSession.on_tool_response,
}
