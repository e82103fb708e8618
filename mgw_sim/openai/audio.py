"""OpenAI's speech, transcriptions and translations (types: ``openai.types.audio`` 3.54)."""

import base64
from typing import Any, Final

from mgw_sim.api import (
    ApiError,
    FormPart,
    Handler,
    Json,
    Request,
    Response,
    StreamResponse,
    UnaryResponse,
    json_response,
    sse_event,
)
from mgw_sim.media import AUDIO_MEDIA_TYPES, SAMPLE_RATE, encode_speech
from mgw_sim.model import token_count, tokenize
from mgw_sim.openai.chat import DONE
from mgw_sim.openai.errors import error_value, validate
from mgw_sim.validation import Shape, either, mapping, number, string

_SPEECH: Final = Shape(
    {
        "model": string(),
        "input": string(),
        "voice": either(string(), mapping(Shape({"id": string()}, required=("id",)))),
        "instructions": string(),
        "response_format": string(*AUDIO_MEDIA_TYPES),
        "speed": number(0.25, 4),
        "stream_format": string("sse", "audio"),
    },
    required=("model", "input", "voice"),
)
_MAX_INPUT: Final = 4096  # characters
_CHUNK_SIZE: Final = 4096  # bytes
_FORMATS: Final = ("json", "text", "srt", "verbose_json", "vtt", "diarized_json")
_ERROR_EVENT: Final = sse_event(error_value(ApiError(500, "The server broke.")))


def speech(request: Request) -> Response:
    """``POST /v1/audio/speech``."""
    body = request.body
    validate(body, _SPEECH, lenient="lenient" in request.faults)
    if not 1 <= len(body["input"]) <= _MAX_INPUT:
        message = f"Invalid 'input': string should have 1 to {_MAX_INPUT} characters."
        raise ApiError(400, message, "input", "string_above_max_length")
    format_name = body.get("response_format") or "mp3"
    voice = body["voice"] if isinstance(body["voice"], str) else body["voice"]["id"]
    data = encode_speech(body["input"], voice, format_name, request.faults.number("size"))
    pieces = [data[at : at + _CHUNK_SIZE] for at in range(0, len(data), _CHUNK_SIZE)]
    if body.get("stream_format") != "sse":
        return StreamResponse(tuple(pieces), b"", AUDIO_MEDIA_TYPES[format_name])
    if request.model.startswith("tts-1"):
        raise ApiError(400, "stream_format 'sse' is not supported with this model.", "stream_format")
    return StreamResponse(
        (*(_delta_event(piece) for piece in pieces), sse_event(_done_event(body))), _ERROR_EVENT
    )


def _delta_event(piece: bytes) -> bytes:
    return sse_event({"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()})


def _done_event(body: Json) -> Json:
    input_tokens, spoken_tokens = (
        token_count(body.get("instructions") or "") + token_count(body["input"]),
        token_count(body["input"]),
    )
    usage = {
        "input_tokens": input_tokens,
        "output_tokens": spoken_tokens,
        "total_tokens": input_tokens + spoken_tokens,
    }
    return {"type": "speech.audio.done", "usage": usage}


class _Transcription:
    """What was heard in a file: so many bytes."""

    def __init__(self, request: Request) -> None:
        fields = request.form.fields() if request.form else {}
        part = request.form.file("file") if request.form else None
        for name, there in (("file", part), ("model", fields.get("model"))):
            if not there:
                raise ApiError(
                    400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter"
                )
        assert part is not None
        self.call = request
        self.wanted = fields.get("response_format", "json")
        if self.wanted not in _FORMATS:
            raise ApiError(400, f"Invalid value: '{self.wanted}'.", "response_format", "invalid_value")
        self.streams = fields.get("stream") == "true"
        self.text = self._text(part)
        self.seconds = round(len(part.data) / (SAMPLE_RATE * 2), 2)
        output_tokens = token_count(self.text)
        prompt = token_count(fields.get("prompt", ""))
        self.usage: Json = {
            "type": "tokens",
            "input_tokens": len(part.data) // 1000 + prompt,
            "input_token_details": {"audio_tokens": len(part.data) // 1000, "text_tokens": prompt},
            "output_tokens": output_tokens,
            "total_tokens": len(part.data) // 1000 + prompt + output_tokens,
        }

    def _text(self, part: FormPart) -> str:
        return f"You said {len(part.data)} bytes in {part.filename or 'a file'}."

    @property
    def segment(self) -> Json:
        """All of it as one segment."""
        fields: Json = {"id": 0, "seek": 0, "start": 0.0, "end": self.seconds, "text": self.text}
        odds = {"avg_logprob": -0.25, "compression_ratio": 1.0, "no_speech_prob": 0.01, "temperature": 0.0}
        return {**fields, "tokens": [1, 2, 3], **odds}


def transcribe(request: Request) -> Response:
    """``POST /v1/audio/transcriptions``."""
    transcription = _Transcription(request)
    if transcription.streams and not request.model.startswith("whisper"):
        deltas = [
            sse_event({"type": "transcript.text.delta", "delta": word})
            for word in tokenize(transcription.text)
        ]
        last = sse_event(
            {"type": "transcript.text.done", "text": transcription.text, "usage": transcription.usage}
        )
        return StreamResponse((*deltas, last, DONE), _ERROR_EVENT)
    return _transcription_response(transcription, "transcribe")


def translate(request: Request) -> Response:
    """``POST /v1/audio/translations``."""
    transcription = _Transcription(request)
    return (
        json_response({"text": transcription.text})
        if transcription.wanted == "json"
        else _transcription_response(transcription, "translate")
    )


def _transcription_response(transcription: _Transcription, task: str) -> Response:
    match transcription.wanted:
        case "text":
            return _text_response(f"{transcription.text}\n")
        case "srt":
            end = _timestamp(transcription.seconds, ",")
            return _text_response(f"1\n00:00:00,000 --> {end}\n{transcription.text}\n\n")
        case "vtt":
            end = _timestamp(transcription.seconds, ".")
            return _text_response(f"WEBVTT\n\n00:00:00.000 --> {end}\n{transcription.text}\n\n")
        case "verbose_json":
            return json_response(_verbose_transcription(transcription, task))
        case "diarized_json":
            segment = {
                "id": "seg_0",
                "type": "transcript.text.segment",
                "speaker": "A",
                "text": transcription.text,
            }
            segments = [{**segment, "start": 0.0, "end": transcription.seconds}]
            fields = {
                "task": task,
                "duration": transcription.seconds,
                "text": transcription.text,
                "segments": segments,
            }
            return json_response({**fields, "usage": transcription.usage})
    return json_response({"text": transcription.text, "usage": transcription.usage})


def _verbose_transcription(transcription: _Transcription, task: str) -> Json:
    duration: dict[str, Any] = {"type": "duration", "seconds": max(1, round(transcription.seconds))}
    fields = {
        "task": task,
        "language": "english",
        "duration": transcription.seconds,
        "text": transcription.text,
    }
    return {**fields, "segments": [transcription.segment], "usage": duration}


def _text_response(text: str) -> UnaryResponse:
    return UnaryResponse(text.encode(), content_type="text/plain; charset=utf-8")


def _timestamp(seconds: float, point: str) -> str:
    whole, thousandths = divmod(round(seconds * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{point}{thousandths:03}"


AUDIO_HANDLERS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/audio/speech"): speech,
    ("POST", "/audio/transcriptions"): transcribe,
    ("POST", "/audio/translations"): translate,
}
