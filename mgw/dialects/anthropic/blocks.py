"""Parts, written as content blocks.

What the vendor refuses of content: texts without a visible character, thoughts of others, and a message that
ends with a thought ("The final block in an assistant message cannot be `thinking`").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mgw.canonical.conversation import (
    JsonObject,
    Media,
    Part,
    Refusal,
    Role,
    Signature,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from mgw.canonical.features import Feature
from mgw.dialects.anthropic.marks import Marks
from mgw.dialects.anthropic.media import rendered
from mgw.dialects.arguments import embedded
from mgw.dialects.fillers import NO_RESULT, left_out, orphaned
from mgw.dialects.media import FEATURES
from mgw.dialects.model_row import ModelRow
from mgw.dialects.names import Names
from mgw.dialects.pairs import Call
from mgw.vocabulary import Family

THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})


def text_block(text: str) -> JsonObject:
    """Return a block of text."""
    return {"type": "text", "text": text}


@dataclass(slots=True)
class Blocks:
    """Writes the parts of one request."""

    row: ModelRow
    names: Names
    marks: Marks
    lost: set[Feature]
    thoughts: bool = True
    """Whether thoughts go with the request."""

    def texts(self, parts: tuple[Part, ...]) -> list[JsonObject]:
        """Return the texts of an instruction."""
        found = (self._text(part) for part in parts if isinstance(part, Text))
        return [block for block in found if block is not None]

    def part(self, part: Part, role: Role, call: Call | None) -> list[JsonObject]:
        """Return the blocks of a part; ``call`` is what a call goes by."""
        match part:
            case Text():
                block = self._text(part)
            case Refusal():
                block = text_block(part.text) if part.text.strip() else None
            case Media():
                return self._media(part)
            case Thinking():
                block = self._thinking(part, role)
            case ToolCall():
                block = self._call(part, call) if call is not None else None
            case ToolResult():
                return [block for inner in orphaned(part) for block in self.part(inner, role, None)]
        return [] if block is None else [block]

    def result(self, call: Call) -> JsonObject:
        """Return the answer to a call."""
        said: JsonObject = {"type": "tool_result", "tool_use_id": call.id}
        result = call.result
        if result is None:
            said["content"] = NO_RESULT
            said["is_error"] = True
            return said
        content = self._result_content(result)
        if content:
            said["content"] = content
        if result.is_error:
            said["is_error"] = True
        return self.marks.put(said, result.cache)

    def _result_content(self, result: ToolResult) -> str | list[JsonObject]:
        parts = result.parts
        if len(parts) == 1 and isinstance(parts[0], Text) and parts[0].cache is None:
            return parts[0].text  # a text may be blank, a block may not
        found = [block for part in parts for block in self.part(part, Role.USER, None)]
        if len(found) == 1 and found[0].keys() == {"type", "text"}:
            return str(found[0]["text"])
        return found

    def _text(self, text: Text) -> JsonObject | None:
        if text.signature is not None:
            self.lost.add(Feature.THINKING)
        if not text.text or text.text.isspace():
            if text.cache is not None:
                self.lost.add(Feature.CACHE)
            return None
        return self.marks.put(text_block(text.text), text.cache)

    def _media(self, media: Media) -> list[JsonObject]:
        block = rendered(media, self.lost, self.row)
        if block is None:
            self.lost.add(FEATURES[media.kind] if media.file_id is None else Feature.FILE_ID)
            block = text_block(left_out(media))
        block = self.marks.put(block, media.cache)
        context = (media.context or "").strip()
        if context and "context" not in block:  # documents alone have a place for it
            return [text_block(context), block]
        return [block]

    def _thinking(self, thinking: Thinking, role: Role) -> JsonObject | None:
        signature = thinking.signature
        if role is not Role.ASSISTANT or not is_own(signature) or not self.thoughts:
            self.lost.add(Feature.THINKING)
            return None
        assert signature is not None, "is_own"
        if signature.redacted:
            return {"type": "redacted_thinking", "data": signature.value}
        return {"type": "thinking", "thinking": thinking.text, "signature": signature.value}

    def _call(self, part: ToolCall, call: Call) -> JsonObject:
        if part.signature is not None and not is_own(part.signature):
            self.lost.add(Feature.THINKING)
        block: JsonObject = {
            "type": "tool_use",
            "id": call.id,
            "name": self.names[part.name],
            "input": embedded(part.arguments),
        }
        return self.marks.put(block, part.cache)


def is_own(signature: Signature | None) -> bool:
    """Whether this vendor made the signature, and it says something."""
    return signature is not None and signature.family is Family.ANTHROPIC and signature.value != ""


def without_last_thoughts(blocks: list[JsonObject], lost: set[Feature]) -> list[JsonObject]:
    """Return the blocks of an assistant's turn without thoughts at its end."""
    end = len(blocks)
    while end and blocks[end - 1]["type"] in THOUGHTS:
        end -= 1
        lost.add(Feature.THINKING)
    return blocks[:end]
