"""OpenAI's speech, transcriptions and translations (types: ``openai.types.audio`` 3.54)."""

import base64
from typing import Any, Final

from mgw.simulator import mind
from mgw.simulator.answer import Answer, Call, Handler, Json, Refusal, Stream, Unary, sse, unary
from mgw.simulator.checks import Shape, either, mapping, number, string
from mgw.simulator.forms import Part
from mgw.simulator.openai_errors import error_value, require
from mgw.simulator.openai_stream import DONE
from mgw.simulator.sound import MEDIA_TYPES, RATE, encoded

_SPEECH: Final = Shape(
    {
        "model": string(),
        "input": string(),
        "voice": either(string(), mapping(Shape({"id": string()}, required=("id",)))),
        "instructions": string(),
        "response_format": string(*MEDIA_TYPES),
        "speed": number(0.25, 4),
        "stream_format": string("sse", "audio"),
    },
    required=("model", "input", "voice"),
)
_MOST_INPUT: Final = 4096  # characters
_CHUNK: Final = 4096  # bytes
_FORMATS: Final = ("json", "text", "srt", "verbose_json", "vtt", "diarized_json")
_BROKEN: Final = sse(error_value(Refusal(500, "The server broke.")))


def speech(call: Call) -> Answer:
    """``POST /v1/audio/speech``."""
    body = call.body
    require(body, _SPEECH, lenient="lenient" in call.faults)
    if not 1 <= len(body["input"]) <= _MOST_INPUT:
        message = f"Invalid 'input': string should have 1 to {_MOST_INPUT} characters."
        raise Refusal(400, message, "input", "string_above_max_length")
    wanted = body.get("response_format") or "mp3"
    voice = body["voice"] if isinstance(body["voice"], str) else body["voice"]["id"]
    data = encoded(body["input"], voice, wanted, call.faults.number("size"))
    pieces = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
    if body.get("stream_format") != "sse":
        return Stream(tuple(pieces), b"", MEDIA_TYPES[wanted])
    if call.model.startswith("tts-1"):
        raise Refusal(400, "stream_format 'sse' is not supported with this model.", "stream_format")
    return Stream((*(_delta(piece) for piece in pieces), sse(_done(body))), _BROKEN)


def _delta(piece: bytes) -> bytes:
    return sse({"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()})


def _done(body: Json) -> Json:
    read, said = (
        mind.count(body.get("instructions") or "") + mind.count(body["input"]),
        mind.count(body["input"]),
    )
    usage = {"input_tokens": read, "output_tokens": said, "total_tokens": read + said}
    return {"type": "speech.audio.done", "usage": usage}


class _Heard:
    """What was heard in a file: so many bytes."""

    def __init__(self, call: Call) -> None:
        fields = call.form.fields() if call.form else {}
        part = call.form.file("file") if call.form else None
        for name, there in (("file", part), ("model", fields.get("model"))):
            if not there:
                raise Refusal(
                    400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter"
                )
        assert part is not None
        self.call = call
        self.wanted = fields.get("response_format", "json")
        if self.wanted not in _FORMATS:
            raise Refusal(400, f"Invalid value: '{self.wanted}'.", "response_format", "invalid_value")
        self.streams = fields.get("stream") == "true"
        self.text = self._text(part)
        self.seconds = round(len(part.data) / (RATE * 2), 2)
        said = mind.count(self.text)
        prompt = mind.count(fields.get("prompt", ""))
        self.usage: Json = {
            "type": "tokens",
            "input_tokens": len(part.data) // 1000 + prompt,
            "input_token_details": {"audio_tokens": len(part.data) // 1000, "text_tokens": prompt},
            "output_tokens": said,
            "total_tokens": len(part.data) // 1000 + prompt + said,
        }

    def _text(self, part: Part) -> str:
        return f"You said {len(part.data)} bytes in {part.filename or 'a file'}."

    @property
    def segment(self) -> Json:
        """All of it as one segment."""
        shown: Json = {"id": 0, "seek": 0, "start": 0.0, "end": self.seconds, "text": self.text}
        odds = {"avg_logprob": -0.25, "compression_ratio": 1.0, "no_speech_prob": 0.01, "temperature": 0.0}
        return {**shown, "tokens": [1, 2, 3], **odds}


def transcribe(call: Call) -> Answer:
    """``POST /v1/audio/transcriptions``."""
    heard = _Heard(call)
    if heard.streams and not call.model.startswith("whisper"):
        deltas = [sse({"type": "transcript.text.delta", "delta": word}) for word in mind.tokens(heard.text)]
        done = sse({"type": "transcript.text.done", "text": heard.text, "usage": heard.usage})
        return Stream((*deltas, done, DONE), _BROKEN)
    return _written(heard, "transcribe")


def translate(call: Call) -> Answer:
    """``POST /v1/audio/translations``."""
    heard = _Heard(call)
    return unary({"text": heard.text}) if heard.wanted == "json" else _written(heard, "translate")


def _written(heard: _Heard, task: str) -> Answer:
    match heard.wanted:
        case "text":
            return _plain(f"{heard.text}\n")
        case "srt":
            return _plain(f"1\n00:00:00,000 --> {_clock(heard.seconds, ',')}\n{heard.text}\n\n")
        case "vtt":
            return _plain(f"WEBVTT\n\n00:00:00.000 --> {_clock(heard.seconds, '.')}\n{heard.text}\n\n")
        case "verbose_json":
            return unary(_verbose(heard, task))
        case "diarized_json":
            segment = {"id": "seg_0", "type": "transcript.text.segment", "speaker": "A", "text": heard.text}
            segments = [{**segment, "start": 0.0, "end": heard.seconds}]
            told = {"task": task, "duration": heard.seconds, "text": heard.text, "segments": segments}
            return unary({**told, "usage": heard.usage})
    return unary({"text": heard.text, "usage": heard.usage})


def _verbose(heard: _Heard, task: str) -> Json:
    duration: dict[str, Any] = {"type": "duration", "seconds": max(1, round(heard.seconds))}
    told = {"task": task, "language": "english", "duration": heard.seconds, "text": heard.text}
    return {**told, "segments": [heard.segment], "usage": duration}


def _plain(text: str) -> Unary:
    return Unary(text.encode(), content_type="text/plain; charset=utf-8")


def _clock(seconds: float, point: str) -> str:
    whole, thousandths = divmod(round(seconds * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{point}{thousandths:03}"


CLAIMS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/audio/speech"): speech,
    ("POST", "/audio/transcriptions"): transcribe,
    ("POST", "/audio/translations"): translate,
}
