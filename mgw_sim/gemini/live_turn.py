"""One answer of a Live session: its messages in order, in text or in speech, and its usage.

Source: ``LiveServerContent`` and ``UsageMetadata`` of ``google.genai.types`` 3.4.  An answer makes its
messages as they are taken, so that it can be interrupted in between.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mgw_sim.api import Json
from mgw_sim.faults import Faults
from mgw_sim.gemini.candidates import voice_of
from mgw_sim.media import SAMPLE_RATE, speech_samples
from mgw_sim.model import Completion, Prompt, Text, Thinking, ToolCall, tokenize

_AUDIO_TYPE: Final = f"audio/pcm;rate={SAMPLE_RATE}"


@dataclass(slots=True)
class LiveTurn:
    """An answer under way; ``is_interrupted`` ends it before its next message."""

    name: str
    """Begins the identifiers of its calls."""
    setup: Json
    prompt: Prompt
    completion: Completion
    faults: Faults
    audio_tokens: int
    """The prompt's tokens of audio, beside those of text."""
    is_interrupted: bool = False
    is_over: bool = False
    tokens_sent: int = 0

    @property
    def is_spoken(self) -> bool:
        """Whether the answer is speech, as it is unless the client asks for text."""
        modalities = (self.setup.get("generationConfig") or {}).get("responseModalities") or ("AUDIO",)
        return "AUDIO" in {str(one).upper() for one in modalities}

    def calls(self) -> list[Json]:
        """The function calls."""
        return [
            {"id": f"{self.name}_{place}", "name": call.name, "args": call.value}
            for place, call in enumerate(self.completion.tool_calls)
            if call.whole
        ]

    def messages(self) -> Iterator[Json]:
        """All messages: what is said, then the calls, or the end of the turn."""
        for part in self.completion.parts:
            if not isinstance(part, ToolCall):
                yield from self._say(part)
        calls = self.calls()
        self.is_over = True
        if self.is_interrupted:
            yield {"serverContent": {"interrupted": True}}
            yield self._with_usage({"serverContent": {"turnComplete": True}})
        elif calls:
            self.tokens_sent += sum(1 + len(tokenize(call.arguments)) for call in self.completion.tool_calls)
            yield self._with_usage({"toolCall": {"functionCalls": calls}})
        else:
            yield {"serverContent": {"generationComplete": True}}
            yield self._with_usage({"serverContent": {"turnComplete": True}})

    def _say(self, part: Text | Thinking) -> Iterator[Json]:
        if isinstance(part, Thinking):
            thinking = (self.setup.get("generationConfig") or {}).get("thinkingConfig") or {}
            if thinking.get("includeThoughts") and not part.hidden:
                yield _model_turn({"text": part.text, "thought": True})
            return
        for piece in tokenize(part.text):
            if self.is_interrupted:
                return
            self.tokens_sent += 1
            if not self.is_spoken:
                yield _model_turn({"text": piece})
                continue
            audio = speech_samples(piece, voice_of(self.setup))
            blob = {"mimeType": _AUDIO_TYPE, "data": base64.b64encode(audio).decode()}
            yield _model_turn({"inlineData": blob})
            if self.setup.get("outputAudioTranscription") is not None:
                yield {"serverContent": {"outputTranscription": {"text": piece}}}

    def _with_usage(self, message: Json) -> Json:
        return message if self.faults.text("usage") == "none" else {**message, "usageMetadata": self.usage()}

    def usage(self) -> Json:
        """Tokens by what they are of; cached ones are part of the prompt's."""
        prompt_tokens = self.prompt.tokens + self.audio_tokens
        details = [("TEXT", self.prompt.tokens), ("AUDIO", self.audio_tokens)]
        spoken = "AUDIO" if self.is_spoken and not self.completion.tool_calls else "TEXT"
        thoughts = self.completion.thinking_tokens
        usage: Json = {
            "promptTokenCount": prompt_tokens,
            "responseTokenCount": self.tokens_sent,
            "totalTokenCount": prompt_tokens + self.tokens_sent + thoughts,
            "promptTokensDetails": [
                {"modality": one, "tokenCount": count} for one, count in details if count
            ],
            "responseTokensDetails": [{"modality": spoken, "tokenCount": self.tokens_sent}],
        }
        if thoughts:
            usage["thoughtsTokenCount"] = thoughts
        cached = min(self.faults.number("cached") or 0, prompt_tokens)
        if cached:
            usage["cachedContentTokenCount"] = cached
            usage["cacheTokensDetails"] = [{"modality": "TEXT", "tokenCount": cached}]
        return usage


def _model_turn(part: Json) -> Json:
    return {"serverContent": {"modelTurn": {"parts": [part], "role": "model"}}}
