"""Google's speech: a generateContent that asks for audio gets it as one part (source: the speech guide)."""

import base64
from typing import Any, Final

from mgw.simulator.answer import Call, Json
from mgw.simulator.mind import Prompt, count
from mgw.simulator.sound import RATE, samples
from mgw.simulator.store import Made

MEDIA_TYPE: Final = f"audio/L16;codec=pcm;rate={RATE}"
_PIECE: Final = 960 * 4  # bytes of samples in one piece of a stream


def wants_speech(body: Json) -> bool:
    """Whether audio is what the answer is to be."""
    wanted = (body.get("generationConfig") or {}).get("responseModalities") or ()
    return any(str(one).upper() == "AUDIO" for one in wanted)


def _voice(body: Json) -> str:
    """The voice, or that of the first speaker; "" where none was named."""
    said = _field(body.get("generationConfig") or {}, "speechConfig") or {}
    several = _field(_field(said, "multiSpeakerVoiceConfig") or {}, "speakerVoiceConfigs") or [said]
    one = _field(_field(several[0], "voiceConfig") or {}, "prebuiltVoiceConfig") or {}
    return str(_field(one, "voiceName") or "")


def _field(value: Json, name: str) -> Any:  # any JSON value
    """A field in either of the spellings that Google takes: its SDK sends some with underscores."""
    underscored = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return value.get(name, value.get(underscored))


def spoken(call: Call, body: Json, prompt: Prompt) -> Json:
    """The whole answer."""
    return _response(call, prompt, _samples(call, body, prompt), last=True)


def spoken_in_pieces(call: Call, body: Json, prompt: Prompt) -> list[Json]:
    """The same in pieces; the last counts everything."""
    data = _samples(call, body, prompt)
    pieces = [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)] or [b""]
    return [
        _response(call, prompt, piece, last=place == len(pieces) - 1) for place, piece in enumerate(pieces)
    ]


def _samples(call: Call, body: Json, prompt: Prompt) -> bytes:
    size = call.faults.number("size")
    return samples(prompt.text, _voice(body)) if size is None else Made(size).read(0, size)


def _response(call: Call, prompt: Prompt, data: bytes, *, last: bool) -> Json:
    part = {"inlineData": {"mimeType": MEDIA_TYPE, "data": base64.b64encode(data).decode()}}
    candidate: Json = {"content": {"parts": [part], "role": "model"}, "index": 0}
    usage: Json = {"promptTokenCount": prompt.tokens, "totalTokenCount": prompt.tokens}
    if last:
        candidate["finishReason"] = "STOP"
        said = count(prompt.text)
        usage = {
            "promptTokenCount": prompt.tokens,
            "candidatesTokenCount": said,
            "totalTokenCount": prompt.tokens + said,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt.tokens}],
            "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": said}],
        }
    name = call.model.removeprefix("models/")
    shown = {"candidates": [candidate], "usageMetadata": usage}
    return {**shown, "modelVersion": name, "responseId": call.id("resp")}
