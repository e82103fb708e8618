"""A request to a model, independent of its wire format.

A :class:`Conversation` is what a client asks: instructions, turns made of parts, tools, and how to answer.
Everything is immutable, holds nothing that leads back to it (hence ``gc=False``, which spares the garbage
collector), and means the same for every family; what a family cannot say is a
:class:`mgw.canonical.features.Feature` that its renderer returns as lost.

Sources: the vendors' references of chat completions, messages and generateContent; contract 8.1.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Any, Final

from msgspec import Struct

from mgw.nouns.vocabulary import Effort, Family

JsonObject = dict[str, Any]  # Any: JSON that is carried, never looked into; its key order is the sender's


class Role(Enum):
    """The side that speaks in a turn."""

    __hash__ = object.__hash__  # members are single objects; Enum's own hashes the name, in Python

    USER = "user"
    """The user, and the results of tools."""
    ASSISTANT = "assistant"
    SYSTEM = "system"
    """An instruction in mid-conversation; leading ones are :attr:`Conversation.system`."""


class MediaKind(StrEnum):
    """What a piece of media is."""

    IMAGE = "image"
    DOCUMENT = "document"
    AUDIO = "audio"
    VIDEO = "video"


class CacheMark(Struct, frozen=True):
    """The prompt up to and including the bearer is to be cached."""

    ttl: str | None = None
    """``5m`` or ``1h``; ``None``: the provider's default."""


class Signature(Struct, frozen=True):
    """What a family puts beside a thought, a text or a call to know it again."""

    family: Family
    """The family that made it, the only one that may get it back."""
    value: str
    """The signature as its family wrote it; may be empty where a family signs no thoughts."""
    redacted: bool = False
    """``value`` is the whole of a thought that is not shown."""

    def __repr__(self) -> str:  # a signature holds an encrypted thought
        return f"Signature({self.family}, redacted={self.redacted})"


class Citation(Struct, frozen=True):
    """Where a stretch of text comes from."""

    url: str | None = None
    title: str | None = None
    start: int | None = None
    """The first character of the stretch, in the text of the whole answer."""
    end: int | None = None
    """The character after its last."""


class Text(Struct, frozen=True, tag="text", gc=False):
    """Plain text."""

    text: str
    cache: CacheMark | None = None
    citations: tuple[Citation, ...] = ()
    signature: Signature | None = None
    """The signature of the text, which Gemini has."""


class Media(Struct, frozen=True, tag="media", gc=False):
    """An image, a document, audio or video: exactly one of ``data``, ``url``, ``file_id`` and ``text``."""

    kind: MediaKind
    media_type: str | None = None
    data: str | None = None
    """Standard base64, with padding."""
    url: str | None = None
    """An address that the provider is to fetch: ``https:``, ``gs:``."""
    file_id: str | None = None
    """A file that the client uploaded to its own vendor; no other family has it."""
    text: str | None = None
    """A document that is plain text."""
    name: str | None = None
    """The title or file name of the document."""
    context: str | None = None
    """What the model should know about it."""
    detail: str | None = None
    """The resolution at which an image is read: ``low``, ``medium``, ``high``, ``auto``, ``ultra_high``."""
    cache: CacheMark | None = None
    signature: Signature | None = None
    """The signature of an image that Gemini has made."""


class ToolCall(Struct, frozen=True, tag="tool_call", gc=False):
    """The model asks for a tool; ``arguments`` is JSON text, as streamed."""

    id: str
    name: str
    arguments: str
    """JSON text of an object; empty where the model wrote none."""
    signature: Signature | None = None
    cache: CacheMark | None = None


class ToolResult(Struct, frozen=True, tag="tool_result", gc=False):
    """What a tool gave back."""

    call_id: str
    parts: tuple[Text | Media, ...]
    name: str | None = None
    """The tool's name where the dialect has a place for it."""
    is_error: bool = False
    cache: CacheMark | None = None


class Thinking(Struct, frozen=True, tag="thinking", gc=False):
    """What the model thought, as far as its provider shows it.

    A redacted thought has no text and a signature whose ``redacted`` is set.
    """

    text: str
    signature: Signature | None = None


class Refusal(Struct, frozen=True, tag="refusal", gc=False):
    """The model declines, in words of its own."""

    text: str


Part = Text | Media | ToolCall | ToolResult | Thinking | Refusal


class Turn(Struct, frozen=True, gc=False):
    """One message."""

    role: Role
    parts: tuple[Part, ...]
    name: str | None = None
    """The participant's name where the dialect has one."""


class Tool(Struct, frozen=True):
    """A function that the model may call."""

    name: str
    description: str | None = None
    schema: JsonObject | None = None
    """JSON Schema of its arguments, in the sender's key order; ``None``: it takes none."""
    strict: bool | None = None
    cache: CacheMark | None = None


class ToolMode(Enum):
    """Whether the model calls tools."""

    AUTO = "auto"
    NONE = "none"
    ANY = "any"
    """The model must call at least one tool, one of ``names`` where there are any."""


class ToolChoice(Struct, frozen=True):
    """How the model chooses tools; a forced tool is ``ANY`` with its one name."""

    mode: ToolMode
    names: tuple[str, ...] = ()
    """The tools to choose from; empty: all."""


class OutputKind(Enum):
    """What shape the answer's text has."""

    TEXT = "text"
    JSON = "json"
    """Any JSON object."""
    SCHEMA = "schema"


class OutputFormat(Struct, frozen=True):
    """Structured output."""

    kind: OutputKind
    schema: JsonObject | None = None
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class Reasoning(Struct, frozen=True):
    """How the model is to think; all unset: as it does by itself."""

    effort: Effort | None = None
    budget: int | None = None
    """The budget in tokens; -1: the model's own choice, 0: off."""
    adaptive: bool = False
    """The model decides how much, and whether."""
    thoughts: bool | None = None
    """Whether the client wants to read the thoughts."""


NO_REASONING: Final = Reasoning()
"""Nothing is asked."""


class Sampling(Struct, frozen=True):
    """How tokens are drawn."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None


NO_SAMPLING: Final = Sampling()
"""Nothing is asked."""


class ImageShape(Struct, frozen=True):
    """What images of the answer are to look like."""

    aspect_ratio: str | None = None
    """The proportions, such as ``16:9``."""
    size: str | None = None
    """The size, such as ``2K``."""


NO_SHAPE: Final = ImageShape()
"""Nothing is asked."""


class Conversation(Struct, frozen=True):
    """Everything that a client asks of a model."""

    turns: tuple[Turn, ...]
    system: tuple[Text, ...] = ()
    """The leading instructions."""
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_calls: bool | None = None
    """Whether one answer may hold several calls; ``None``: unsaid."""
    sampling: Sampling = NO_SAMPLING
    max_tokens: int | None = None
    """The limit of the answer in tokens, thinking included."""
    stop: tuple[str, ...] = ()
    candidates: int | None = None
    output: OutputFormat | None = None
    reasoning: Reasoning = NO_REASONING
    image_answers: bool = False
    """Whether the client asks for images beside text."""
    image_shape: ImageShape = NO_SHAPE
    user: str | None = None
    """The end user as the client calls them."""
    prompt_cache_key: str | None = None
    """Requests with the same key share the beginning of their prompts."""
    stream: bool = False
