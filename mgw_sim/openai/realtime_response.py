"""One response of a realtime session: its events in order, its items and its usage.

Source: ``openai.types.realtime`` 3.54 (``RealtimeServerEvent``), and the order of events in OpenAI's guide of
realtime conversations.  A response makes its events as they are taken, so that it can be cancelled in
between.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from mgw_sim.api import Json
from mgw_sim.faults import Faults
from mgw_sim.media import speech_samples
from mgw_sim.model import Completion, FinishReason, Prompt, Text, ToolCall, tokenize
from mgw_sim.openai.realtime_items import Conversation

_STATUSES: Final = {
    FinishReason.LENGTH: ("incomplete", "max_output_tokens"),
    FinishReason.BLOCKED: ("incomplete", "content_filter"),
}


@dataclass(slots=True)
class RealtimeResponse:
    """A response under way; ``cancel_reason`` ends it before its next event."""

    id: str
    settings: Json
    conversation: Conversation
    prompt: Prompt
    audio_tokens: int
    """The prompt's tokens of audio."""
    completion: Completion
    faults: Faults
    is_in_conversation: bool = True
    cancel_reason: str | None = None
    is_over: bool = False
    output: list[Json] = field(default_factory=list)
    tokens_sent: int = 0

    def events(self) -> Iterator[Json]:
        """All events, without their identifiers."""
        yield {"type": "response.created", "response": self._resource("in_progress")}
        limits = {"name": "tokens", "limit": 40000, "remaining": 39000, "reset_seconds": 0.5}
        yield {"type": "rate_limits.updated", "rate_limits": [limits]}
        for index, part in enumerate(self.completion.parts):
            if self.cancel_reason is None and isinstance(part, Text | ToolCall):
                yield from self._item_events(index, part)
        if self.cancel_reason is not None:
            yield self._done("cancelled", {"type": "cancelled", "reason": self.cancel_reason})
            return
        if self._is_broken():
            error = {"type": "server_error", "code": "server_error", "message": "The server broke."}
            yield self._done("failed", {"type": "failed", "error": error})
            return
        status, reason = _STATUSES.get(self.completion.finish_reason, ("completed", None))
        yield self._done(status, {"type": status, "reason": reason} if reason else None)

    def _is_broken(self) -> bool:
        """Whether the error that was asked for is due: behind so many pieces of the answer."""
        limit = self.faults.number("error-in-stream-after")
        return limit is not None and self.tokens_sent >= limit

    def _done(self, status: str, details: Json | None) -> Json:
        self.is_over = True
        usage = None if self.faults.text("usage") == "none" else self.usage()
        resource = {**self._resource(status), "status_details": details, "usage": usage}
        return {"type": "response.done", "response": resource}

    def _resource(self, status: str) -> Json:
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": status,
            "status_details": None,
            "output": list(self.output),
            "conversation_id": self.conversation.id if self.is_in_conversation else None,
            "output_modalities": self.settings["output_modalities"],
            "max_output_tokens": self.settings["max_output_tokens"],
            "audio": {"output": self.settings["audio"]["output"]},
            "usage": None,
            "metadata": self.settings.get("metadata"),
        }

    def usage(self) -> Json:
        """Tokens by what they are of; those of speech count as text and as audio."""
        spoken = sum(len(tokenize(_spoken(item))) for item in self.output)
        tokens_in, output_tokens = self.faults.counts(
            self.prompt.tokens + self.audio_tokens, self.tokens_sent + spoken
        )
        audio = min(self.faults.number("audio") or self.audio_tokens, tokens_in)
        spoken = min(self.faults.number("audio", place=1) or spoken, output_tokens)
        text = tokens_in - audio
        cached = min(self.faults.number("cached") or 0, text + audio)
        details = {"text_tokens": min(cached, text), "audio_tokens": max(0, cached - text), "image_tokens": 0}
        return {
            "total_tokens": text + audio + output_tokens,
            "input_tokens": text + audio,
            "output_tokens": output_tokens,
            "input_token_details": {
                "text_tokens": text,
                "audio_tokens": audio,
                "image_tokens": 0,
                "cached_tokens": cached,
                "cached_tokens_details": details,
            },
            "output_token_details": {"text_tokens": output_tokens - spoken, "audio_tokens": spoken},
        }

    def _item_events(self, index: int, part: Text | ToolCall) -> Iterator[Json]:
        at: Json = {"response_id": self.id, "output_index": index}
        item: Json = {"id": f"item_{self.id.removeprefix('resp_')}_{index}", "object": "realtime.item"}
        if isinstance(part, Text):
            item = {**item, "type": "message", "role": "assistant", "content": []}
        else:
            call_id = f"call_{self.id.removeprefix('resp_')}_{index}"
            item = {
                **item,
                "type": "function_call",
                "name": part.name,
                "call_id": call_id,
                "arguments": "",
            }
        begun = {**item, "status": "in_progress"}
        yield {"type": "response.output_item.added", **at, "item": begun}
        if self.is_in_conversation:
            previous = self.conversation.add(begun)
            yield {"type": "conversation.item.added", "previous_item_id": previous, "item": begun}
        at["item_id"] = item["id"]
        if isinstance(part, Text):
            yield from self._message_events(at, part.text, item)
        else:
            yield from self._call_events({**at, "call_id": item["call_id"]}, part, item)
        is_whole = self.cancel_reason is None and self.completion.finish_reason is not FinishReason.LENGTH
        done = {**item, "status": "completed" if is_whole else "incomplete"}
        self.output.append(done)
        if self.is_in_conversation:
            self.conversation.replace(done)
            yield {"type": "conversation.item.done", "previous_item_id": previous, "item": done}
        del at["item_id"]
        yield {"type": "response.output_item.done", **at, "item": done}

    def _message_events(self, at: Json, text: str, item: Json) -> Iterator[Json]:
        is_spoken = "audio" in self.settings["output_modalities"]
        at = {**at, "content_index": 0}
        field_name = "transcript" if is_spoken else "text"
        part_type = "audio" if is_spoken else "text"
        delta_type = "output_audio_transcript" if is_spoken else "output_text"
        yield {"type": "response.content_part.added", **at, "part": {"type": part_type, field_name: ""}}
        said: list[str] = []
        for piece in tokenize(text):
            if self.cancel_reason is not None or self._is_broken():
                break
            said.append(piece)
            self.tokens_sent += 1
            yield {"type": f"response.{delta_type}.delta", **at, "delta": piece}
            if is_spoken:
                voice = str(self.settings["audio"]["output"].get("voice"))
                audio = base64.b64encode(speech_samples(piece, voice)).decode()
                yield {"type": "response.output_audio.delta", **at, "delta": audio}
        whole = "".join(said)
        if is_spoken:
            yield {"type": "response.output_audio.done", **at}
        yield {"type": f"response.{delta_type}.done", **at, field_name: whole}
        done_part = {"type": part_type, field_name: whole}
        yield {"type": "response.content_part.done", **at, "part": done_part}
        item["content"] = [{"type": f"output_{part_type}", field_name: whole}]

    def _call_events(self, at: Json, call: ToolCall, item: Json) -> Iterator[Json]:
        self.tokens_sent += 1
        said: list[str] = []
        for piece in tokenize(call.arguments):
            if self.cancel_reason is not None or self._is_broken():
                break
            said.append(piece)
            self.tokens_sent += 1
            yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
        item["arguments"] = "".join(said)
        fields = {"name": call.name, "arguments": item["arguments"]}
        yield {"type": "response.function_call_arguments.done", **at, **fields}


def _spoken(item: Json) -> str:
    return "".join(part.get("transcript") or "" for part in item.get("content") or ())
