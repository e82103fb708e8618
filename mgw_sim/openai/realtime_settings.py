"""The settings of a realtime session: what they are at first, and what a client may change.

Source: ``RealtimeSessionCreateRequest`` and ``RealtimeTranscriptionSessionCreateRequest`` of
``openai.types.realtime`` 3.54.
"""

from typing import Final

from mgw_sim.api import Json, Request

_LIFETIME_SECONDS: Final = 3600
_VAD: Final[Json] = {
    "type": "server_vad",
    "threshold": 0.5,
    "prefix_padding_ms": 300,
    "silence_duration_ms": 200,
    "idle_timeout_ms": None,
    "create_response": True,
    "interrupt_response": True,
}
_FORMAT: Final[Json] = {"type": "audio/pcm", "rate": 24000}
_AUDIO: Final[Json] = {
    "input": {"format": _FORMAT, "transcription": None, "noise_reduction": None, "turn_detection": _VAD},
    "output": {"format": _FORMAT, "voice": "marin", "speed": 1.0},
}
_OF_RESPONSES: Final = (
    "output_modalities",
    "max_output_tokens",
    "instructions",
    "tools",
    "tool_choice",
    "audio",
)


def initial_settings(request: Request) -> Json:
    """What holds before the client has changed anything."""
    is_transcription = request.query.get("intent") == "transcription"
    return {
        "object": "realtime.session",
        "type": "transcription" if is_transcription else "realtime",
        "id": request.id("sess_"),
        "model": request.model or "sim-realtime",
        "output_modalities": ["audio"],
        "instructions": "",
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": "inf",
        "tracing": None,
        "prompt": None,
        "truncation": "auto",
        "expires_at": request.now + _LIFETIME_SECONDS,
        "include": None,
        "audio": _AUDIO,
    }


def change_settings(settings: Json, changes: Json) -> Json:
    """What holds after a ``session.update``; the model stays what it is."""
    return _merge(settings, {**changes, "model": settings["model"]})


def response_settings(settings: Json, wanted: Json) -> Json:
    """What holds for one response: the session's settings, and what its ``response.create`` says."""
    named: Json = {name: wanted[name] for name in _OF_RESPONSES if name in wanted}
    return {**_merge(settings, named), "metadata": wanted.get("metadata")}


def _merge(settings: Json, changes: Json) -> Json:
    """Settings with changes in them, objects within objects merged alike."""
    merged = dict(settings)
    for name, value in changes.items():
        old = merged.get(name)
        merged[name] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged
