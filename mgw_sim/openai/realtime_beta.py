"""The realtime protocol as it was in its beta, for clients that say ``OpenAI-Beta: realtime=v1``.

Source: ``openai.types.beta.realtime`` 3.54, and OpenAI's guide of the way from the beta to the protocol of
today.  Events have other names, settings stand beside each other that now stand below ``audio``, and an item
is announced once.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mgw_sim.api import Json
from mgw_sim.http.upgrade import offered_subprotocols

_SUBPROTOCOL: Final = "openai-beta.realtime-v1"
_EVENTS: Final = (
    ("response.output_text.", "response.text."),
    ("response.output_audio_transcript.", "response.audio_transcript."),
    ("response.output_audio.", "response.audio."),
    ("conversation.item.added", "conversation.item.created"),
)
"""How the types of events begin, today and then."""
_FORMATS: Final = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
_FORMAT_NAMES: Final = {now: then for then, now in _FORMATS.items()}
_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "modalities": ("output_modalities",),
    "max_response_output_tokens": ("max_output_tokens",),
    "input_audio_format": ("audio", "input", "format"),
    "input_audio_transcription": ("audio", "input", "transcription"),
    "input_audio_noise_reduction": ("audio", "input", "noise_reduction"),
    "turn_detection": ("audio", "input", "turn_detection"),
    "output_audio_format": ("audio", "output", "format"),
    "voice": ("audio", "output", "voice"),
    "speed": ("audio", "output", "speed"),
}
"""Where a setting of the beta stands today; any other has kept its name."""
_SAME: Final = ("id", "object", "model", "expires_at", "instructions", "tools", "tool_choice", "tracing")
_TEMPERATURE: Final = 0.8
_RESPONSE_FIELDS: Final = ("object", "id", "status", "status_details", "conversation_id", "usage", "metadata")


def is_beta(headers: Mapping[str, str]) -> bool:
    """Whether a client speaks the beta."""
    return "realtime=v1" in headers.get("openai-beta", "") or _SUBPROTOCOL in offered_subprotocols(headers)


def from_beta(event: Json) -> Json:
    """A client's event as it would be today."""
    for name, more in (("session", {"type": "realtime"}), ("response", {})):
        if isinstance(event.get(name), dict):
            event = {**event, name: {**more, **_settings_from_beta(event[name])}}
    return event


def _settings_from_beta(settings: Json) -> Json:
    found: Json = {}
    for name, value in settings.items():
        *above, last = _PATHS.get(name, (name,))
        place = found
        for step in above:
            place = place.setdefault(step, {})
        if name == "modalities" and isinstance(value, list):
            place[last] = ["audio"] if "audio" in value else ["text"]
        elif name in {"input_audio_format", "output_audio_format"}:
            place[last] = {"type": _FORMATS.get(value, value)}
        elif name not in {"temperature", "client_secret"}:
            place[last] = value
    return found


def to_beta(event: Json) -> Iterator[Json]:
    """A server's event as it was then, or none."""
    if event["type"] == "conversation.item.done":
        return
    kind = event["type"]
    for now, then in _EVENTS:
        if kind.startswith(now):
            kind = then + kind.removeprefix(now)
            break
    event = {**event, "type": kind}
    if "session" in event:
        event["session"] = _session_to_beta(event["session"])
    if "item" in event:
        event["item"] = _item_to_beta(event["item"])
    if "response" in event:
        event["response"] = _response_to_beta(event["response"])
    yield event
    if kind == "session.created":
        conversation = {
            "id": event["session"]["id"].replace("sess_", "conv_"),
            "object": "realtime.conversation",
        }
        yield {"type": "conversation.created", "conversation": conversation}


def _session_to_beta(settings: Json) -> Json:
    session: Json = {name: settings.get(name) for name in _SAME}
    for name, path in _PATHS.items():
        value: Any = settings
        for step in path:
            value = value[step]
        session[name] = value
    session["modalities"] = _modalities(settings)
    for name in ("input_audio_format", "output_audio_format"):
        session[name] = _FORMAT_NAMES.get(session[name]["type"])
    return {**session, "temperature": _TEMPERATURE}


def _modalities(settings: Json) -> list[str]:
    return ["audio", "text"] if "audio" in settings["output_modalities"] else ["text"]


def _item_to_beta(item: Json) -> Json:
    if item.get("role") != "assistant":
        return item
    parts = [{**part, "type": part["type"].removeprefix("output_")} for part in item["content"]]
    return {**item, "content": parts}


def _response_to_beta(response: Json) -> Json:
    output = response["audio"]["output"]
    return {
        **{name: response[name] for name in _RESPONSE_FIELDS},
        "output": [_item_to_beta(item) for item in response["output"]],
        "modalities": _modalities(response),
        "voice": output["voice"],
        "output_audio_format": _FORMAT_NAMES.get(output["format"]["type"]),
        "temperature": _TEMPERATURE,
        "max_output_tokens": response["max_output_tokens"],
    }
