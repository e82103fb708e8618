"""What the code cannot tell of the fields of a request: how they are adapted, and where nothing is missed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tests.support.sdk_types import Json


@dataclass(frozen=True)
class Unsaid:
    """A value that changes nothing and need not be reported."""

    client: str
    path: str
    """A regular expression for the whole path."""
    why: str
    values: tuple[Json, ...] = ()
    """Which; none: any."""
    target: str = ""

    def covers(self, client: str, target: str, path: str, value: Json) -> bool:
        """Whether this is said of a value."""
        return (
            self.client in {client, ""}
            and target.startswith(self.target)
            and re.fullmatch(self.path, path) is not None
            and (not self.values or any(value == one and type(value) is type(one) for one in self.values))
        )


@dataclass(frozen=True)
class Note:
    """How a field is adapted."""

    client: str
    path: str
    """A regular expression for the whole path."""
    text: str
    target: str = ""
    partly: bool = False
    """It goes over in some cases only, which the samples do not show."""

    def covers(self, client: str, target: str, path: str) -> bool:
        """Whether this is said of a field."""
        return (
            self.client in {client, ""}
            and target.startswith(self.target)
            and re.fullmatch(self.path, path) is not None
        )


_ANY: Final = r".*"
NOTHING_LOST: Final = (
    Unsaid("", _ANY, "an empty object says nothing", ({},)),
    Unsaid("", "model", "names the provider and its model, wherever the wire says it"),
    Unsaid("", "stream", "an answer in one piece is the default", (False,)),
    Unsaid("chat", r".*\.detail", "the default", ("auto",)),
    Unsaid("chat", "logprobs", "the default", (False,)),
    Unsaid("chat", "modalities", "the default", (["text"],)),
    Unsaid("chat", "response_format", "the default", ({"type": "text"},)),
    Unsaid("chat", r"stream_options(\.include_usage)?", "the gateway's own writer obeys it"),
    Unsaid("", r"tools\[.*\]\.strict|tools\[.*\]\.function\.strict", "the default", (False,)),
    Unsaid("chat", r".*\.json_schema\.strict", "enforced, asked or not", (True,)),
    Unsaid("chat", r"reasoning\.exclude", "thoughts are shown where they are asked for", (False,)),
    Unsaid("messages", r".*\.citations\.enabled", "the default", (False,)),
    Unsaid("messages", r".*\.is_error", "the default", (False,)),
    Unsaid("messages", r".*\.disable_parallel_tool_use", "the default", (False,)),
    Unsaid("messages", r".*\.caller", "the default", ({"type": "direct"},)),
    Unsaid("messages", r"thinking\[.*\]\.display", "this wire never shows thoughts", ("omitted",), "openai"),
    Unsaid(
        "messages",
        r"thinking\[.*\]\.display",
        "thoughts are shown where they are asked for",
        ("summarized",),
        "gemini",
    ),
    Unsaid("generateContent", r".*\.thought", "the default", (False,)),
    Unsaid(
        "generateContent",
        r"contents\[user\]\.parts\[\]\.thoughtSignature",
        "Google signs parts of the model alone",
    ),
    Unsaid("generateContent", r".*\.functionResponse\.(id|name)", "finds the call that it answers"),
    Unsaid("generateContent", r".*\.fileData\.mimeType", "whoever fetches an address is told its type"),
    Unsaid("generateContent", r"systemInstruction\.role", "the place says it"),
    Unsaid("generateContent", r".*\.responseModalities", "the default", (["TEXT"],)),
    Unsaid("generateContent", r".*\.nullable", "the default", (False,)),
    Unsaid("generateContent", r".*\.propertyOrdering", "as the order of ``properties``"),
    Unsaid(
        "generateContent", r"tools.*\.parameters\.nullable", "arguments are an object", (True,), "anthropic"
    ),
    Unsaid("generateContent", r"tools.*\.parameters\.type", "arguments are an object", ("OBJECT",)),
    Unsaid("generateContent", r".*\.responseSchema\.type", "what it takes it for", ("OBJECT",), "openai"),
    Unsaid("generateContent", r".*\.includeThoughts", "this wire never shows thoughts", (False,), "openai"),
    Unsaid(
        "generateContent",
        r".*\.includeThoughts",
        "thoughts are shown where they are asked for",
        (True,),
        "anthropic",
    ),
    Unsaid(
        "chat", r"messages\[assistant\].*\.extra_content", "an empty object says nothing", ({"google": {}},)
    ),
    Unsaid("chat", "function_call", "the default", ("auto",)),
    Unsaid("chat", "parallel_tool_calls", "the default", (True,)),
    Unsaid("chat", r"thinking\[disabled\]\.budget_tokens", "nothing is thought"),
    Unsaid("chat", r"reasoning_effort|reasoning\.effort", "it does not think", ("none",)),
    Unsaid("chat", r"reasoning\.enabled", "it does not think", (False,)),
    Unsaid(
        "",
        "thinking",
        "asks for what the model does by itself",
        tuple({"type": kind} for kind in ("enabled", "adaptive", "disabled", "between_tools")),
    ),
    Unsaid(
        "",
        r".*(budget_tokens|thinkingBudget)",
        "goes by the nearest name that there is",
        (2048, 9000),
        "openai",
    ),
    Unsaid("chat", r"reasoning\.exclude", "nothing is thought that could be shown", (True,)),
    Unsaid("messages", r"thinking\[.*\]\.display", "nothing is thought that could be shown", ("omitted",)),
    Unsaid("generateContent", r".*\.includeThoughts", "nothing is thought that could be shown", (False,)),
)
_WITH_RESULT: Final = "the call and its result find one another by it"
_WHERE_IT_FITS: Final = "where the schema keeps the rules of the provider's strict mode"
_BY_NAME: Final = "by name or in tokens, as `models.rst <models.rst>`_ says"
NOTES: Final[tuple[Note, ...]] = (
    Note("chat", r".*\[input_audio\]\.cache_control.*", "the mark of the words in its place", "anthropic"),
    Note("chat", r"messages\[(developer|system)\]\.content", "leading ones; later ones keep their place"),
    Note("", r"messages\[(user|assistant|system|tool)\]\.content", "a string, or its parts one by one"),
    Note("", r"system", "a string, or its parts one by one"),
    Note(
        "chat",
        r".*image_url\.url",
        "``data:`` addresses are taken apart, others are left to the provider to fetch",
    ),
    Note("chat", r".*image_url\.detail", "one resolution for all images; several are dropped", "gemini"),
    Note("chat", r".*input_audio\.format", "as media type"),
    Note("chat", r".*file\.file_data", "its ``data:`` address is taken apart"),
    Note(
        "chat",
        r".*\.arguments",
        "the object that the text holds; other text stands under the key ``arguments``",
    ),
    Note("chat", r".*\.tool_call_id|messages\[function\]\.name", _WITH_RESULT),
    Note("messages", r".*\.tool_use_id", _WITH_RESULT),
    Note("generateContent", r".*\.functionResponse\.name", _WITH_RESULT),
    Note("chat", r"functions\[\]\.parameters", "as the schema of an object"),
    Note("", r"function_call|tool_choice(\[allowed_tools\].*)?", "each mode by its name there"),
    Note(
        "generateContent",
        r".*\.functionCallingConfig\..*",
        "each mode by its name there; several names only where the provider takes them",
    ),
    Note("chat", "parallel_tool_calls", "``false`` alone is said"),
    Note("messages", r".*\.disable_parallel_tool_use", "``true`` alone is said"),
    Note("chat", r"reasoning_effort|reasoning\.(effort|max_tokens|enabled)|thinking.*", _BY_NAME),
    Note("messages", r"output_config\.effort|thinking(\[enabled\]\.budget_tokens)?", _BY_NAME),
    Note("generateContent", r".*\.thinkingConfig\.thinking(Budget|Level)", _BY_NAME),
    Note("chat", r"reasoning\.exclude", "the other way round"),
    Note("messages", r"thinking.*\.display", "``omitted`` is no, all else yes"),
    Note("generateContent", r".*\.includeThoughts", "``false`` is ``omitted``"),
    Note(
        "chat",
        "response_format",
        "any JSON object, or one of a schema; not beside tools where the model refuses that",
        "gemini",
    ),
    Note(
        "chat",
        "response_format",
        "any JSON object, or one of a schema; a provider that enforces schemas alone gets no other",
    ),
    Note(
        "chat",
        r".*\.json_schema\.strict",
        "a schema is enforced, asked or not, as far as it keeps the provider's rules; ``false`` is dropped",
        partly=True,
    ),
    Note("chat", r".*\.function\.strict", _WHERE_IT_FITS, "anthropic", partly=True),
    Note("messages", r"tools\[custom\]\.strict", _WHERE_IT_FITS, "openai", partly=True),
    Note("", "stream", "the method ``streamGenerateContent``", "gemini"),
    Note("messages", r".*\.source\[base64\]\.(data|media_type)", "as a ``data:`` address", "openai"),
    Note(
        "messages",
        r".*\[image\]\.source\[base64\]\.media_type",
        "PNG, JPEG and WebP; others are dropped",
        "gemini",
    ),
    Note(
        "messages",
        r".*\[document\]\.source\[content\]\.content",
        "texts become one document, with images they become parts of their own",
    ),
    Note("messages", r".*\[document\]\.source\[(text|content)\].*\.(data|text)", "as text", "openai"),
    Note("messages", r".*\[search_result\].*", "as text: title and source, then what it says"),
    Note(
        "messages",
        r".*\.content\[tool_result\]\.content",
        "text stays; media move to the next user message where the tool's own holds text only",
    ),
    Note("messages", r"metadata\.user_id", "hashed above 64 characters", "openai", partly=True),
    Note("messages", r".*\.is_error", "as the key ``error``", "gemini"),
    Note(
        "messages", r"messages\[assistant\]\.content\[text\]\.text", "all texts of a turn are one", "openai"
    ),
    Note("messages", r".*\.content\[tool_use\]\.input", "as JSON text", "openai"),
    Note("generateContent", r".*\.functionCall\.args", "as JSON text", "openai"),
    Note("generateContent", r".*\.mediaResolution(\.level)?", "``ULTRA_HIGH`` as ``high``", "openai"),
    Note(
        "generateContent",
        r".*\.functionResponse\.response",
        "``result``, ``output`` or ``error`` alone as its text, else as JSON text",
    ),
    Note("generateContent", r".*\.inlineData\.(data|mimeType)", "as a ``data:`` address", "openai"),
    Note(
        "generateContent",
        r".*\.parts\[\]\.thought",
        "a thought goes back to the family that signed it only; elsewhere it is dropped",
    ),
    Note(
        "generateContent", r".*\.responseMimeType", "JSON without a schema; other types are dropped", "openai"
    ),
    Note("generateContent", r".*\.(ref|nullable|type|example)", "as JSON Schema spells it"),
    Note(
        "generateContent",
        r".*\.responseSchema\..*",
        "described, where the provider does not enforce it",
        "anthropic",
    ),
)
