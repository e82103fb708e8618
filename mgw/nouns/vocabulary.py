"""The gateway's nouns, and the one table of their neutral and vendor spellings.

Source: contract 1.4 and 1.5.  Operators may write either spelling; the code, the
documents and the logs use the vendor's.  No other module spells a neutral word.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Final, Self


class Family(StrEnum):
    """The vendors in whose wire format a client or a provider speaks."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"


class DialectName(StrEnum):
    """One wire format of a family: what decides how tokens are counted and errors are shaped."""

    _value_: str
    family: Family
    """The family that this dialect belongs to."""

    OPENAI_CHAT = "openai_chat", Family.OPENAI
    OPENAI_RESPONSES = "openai_responses", Family.OPENAI
    OPENAI = "openai", Family.OPENAI
    """All of OpenAI's other routes."""
    ANTHROPIC = "anthropic", Family.ANTHROPIC
    GEMINI = "gemini", Family.GEMINI

    def __new__(cls, name: str, family: Family) -> Self:
        """Return a member, which is its name."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.family = family
        return member

    @property
    def text_api(self) -> TextApi | None:
        """Which of OpenAI's two APIs for text it is, if it is one of them."""
        return _TEXT_API_OF.get(self)

    @property
    def in_rules(self) -> RuleDialect | None:
        """What rules for request bodies call conversations in it."""
        return _IN_RULES.get(self)


class Kind(StrEnum):
    """What a provider is (contract 1.3)."""

    OPENAI = "openai"
    OPENAI_COMPAT = "openai_compat"
    AZURE_OPENAI = "azure_openai"
    ANTHROPIC = "anthropic"
    BEDROCK = "bedrock"
    VERTEX_ANTHROPIC = "vertex_anthropic"
    GEMINI = "gemini"


class Capability(StrEnum):
    """What a provider may be asked for (contract 2.7)."""

    TEXT = "text"
    IMAGE_GEN = "image_gen"
    VIDEO_GEN = "video_gen"
    AUDIO_SPEECH = "audio_speech"
    AUDIO_TRANSCRIBE = "audio_transcribe"
    REALTIME = "realtime"


class Modality(StrEnum):
    """What a route is about; the usage event says it."""

    TEXT = "text"
    EMBEDDING = "embedding"
    IMAGE_GEN = "image_gen"
    VIDEO_GEN = "video_gen"
    AUDIO_SPEECH = "audio_speech"
    AUDIO_TRANSCRIBE = "audio_transcribe"
    REALTIME = "realtime"
    PLATFORM = "platform"


class Operation(StrEnum):
    """What a provider is asked for; each kind has an address of its own for it."""

    CHAT = "chat"
    """The next turn of a conversation."""
    COUNT = "count"
    """The tokens of a conversation."""
    EMBED = "embed"
    SPEECH = "speech"
    MODELS = "models"
    """The provider's own list of its models."""
    RELAY = "relay"
    """Anything else: its path says what."""


class Effort(StrEnum):
    """How much a model thinks, by name; in this order (contract 8.8)."""

    NONE = "none"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


class MaxTokensField(StrEnum):
    """The field in which a chat upstream takes the limit of an answer."""

    MAX_TOKENS = "max_tokens"
    MAX_COMPLETION_TOKENS = "max_completion_tokens"


class ForcedTools(StrEnum):
    """When an Anthropic model lets a tool be forced (``tool_choice`` ``any`` or ``tool``)."""

    ALWAYS = "always"
    UNTHINKING = "unthinking"
    """The model takes it only while thinking is off."""
    NEVER = "never"


class ChatTools(StrEnum):
    """When an OpenAI model takes function tools on chat completions."""

    ALWAYS = "always"
    UNREASONED = "unreasoned"
    """The model takes it only if the request says ``reasoning_effort: none``."""
    NEVER = "never"


class TextApi(StrEnum):
    """One of OpenAI's two APIs for text; many hosts serve only one of them (contract 11.1)."""

    CHAT = "chat"
    """Chat completions."""
    RESPONSES = "responses"


class RuleDialect(StrEnum):
    """What a request is as it goes to the provider, in the words of rules for request bodies."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    EMBEDDINGS = "embeddings"
    MESSAGES = "messages"
    GENERATE = "generate"


_IN_RULES: Final = MappingProxyType(
    {
        DialectName.OPENAI_CHAT: RuleDialect.CHAT,
        DialectName.OPENAI_RESPONSES: RuleDialect.RESPONSES,
        DialectName.ANTHROPIC: RuleDialect.MESSAGES,
        DialectName.GEMINI: RuleDialect.GENERATE,
    }
)
_TEXT_API_OF: Final = MappingProxyType(
    {DialectName.OPENAI_CHAT: TextApi.CHAT, DialectName.OPENAI_RESPONSES: TextApi.RESPONSES}
)


class ChatTemplate(StrEnum):
    """How a host of OpenAI's wire wants the messages of chat completions (contract 8.29)."""

    STRICT = "strict"
    """The order of the chat templates of open models: one system message, then the two sides in turn."""
    OPEN = "open"
    """The template takes messages in any order, as OpenAI's own models do."""


class CallIds(StrEnum):
    """What a model takes as the identifier of a tool call."""

    ANY = "any"
    NINE = "nine"
    """Nine letters and digits, as Mistral's chat templates demand."""


class Priority(StrEnum):
    """How urgent the requests of a client are, where requests wait; the most urgent first."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


class ThroughResponses(StrEnum):
    """When a request of another family's client reaches an OpenAI model through Responses (contract 11.9)."""

    NEVER = "never"
    TOOLS = "tools"
    """When it has tools, or its history has thoughts that OpenAI signed."""
    ALWAYS = "always"


KIND_SPELLINGS: Final = MappingProxyType(
    {
        "openai": Kind.OPENAI,
        "alpha": Kind.OPENAI,
        "openai_compat": Kind.OPENAI_COMPAT,
        "alpha_compat": Kind.OPENAI_COMPAT,
        "azure_openai": Kind.AZURE_OPENAI,
        "anthropic": Kind.ANTHROPIC,
        "beta": Kind.ANTHROPIC,
        "bedrock": Kind.BEDROCK,
        "vertex_anthropic": Kind.VERTEX_ANTHROPIC,
        "gemini": Kind.GEMINI,
        "gamma": Kind.GEMINI,
        "google": Kind.GEMINI,
    }
)
"""Every accepted spelling of a provider's ``kind``."""

DEFAULT_SPELLINGS: Final = MappingProxyType(
    {
        "openai_dialect": Family.OPENAI,
        "alpha_dialect": Family.OPENAI,
        "anthropic_dialect": Family.ANTHROPIC,
        "beta_dialect": Family.ANTHROPIC,
        "gemini_dialect": Family.GEMINI,
        "gamma_dialect": Family.GEMINI,
        "google_dialect": Family.GEMINI,
    }
)
"""Every accepted key of the ``defaults`` block."""

NEUTRAL_HEADERS: Final = MappingProxyType(
    {
        Family.OPENAI: (b"alpha-organization", b"alpha-project", b"alpha-beta"),
        Family.ANTHROPIC: (b"beta-version", b"beta-beta"),
        Family.GEMINI: (),
    }
)
"""Lower-case neutral header names by their family; they travel as the client spelled them."""

VERSION_HEADERS: Final = frozenset({b"anthropic-version", b"beta-version"})
"""The lower-case names under which an Anthropic client states its API version."""
