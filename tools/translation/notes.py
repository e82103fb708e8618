"""What the code cannot tell about request fields: how they are adapted, and when nothing is lost."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tools.translation.sdk_types import Json

THROUGH_RESPONSES: Final = "through Responses"
"""What the names of targets end with that are asked so."""


def _is_of(target: str, named: str) -> bool:
    """Whether a target is what is named: a kind of providers, in whichever dialect, or a dialect."""
    return target.startswith(named) or target.endswith(named)


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
            and _is_of(target, self.target)
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
            and _is_of(target, self.target)
            and re.fullmatch(self.path, path) is not None
        )


_ANY: Final = r".*"
NOTHING_LOST: Final = (
    Unsaid("", _ANY, "an empty object has no effect", ({},)),
    Unsaid("", "model", "selects the provider and its model, wherever the dialect puts it"),
    Unsaid("", "stream", "not streaming is the default", (False,)),
    Unsaid("chat", r".*\.detail", "the default", ("auto",)),
    Unsaid("chat", "logprobs", "the default", (False,)),
    Unsaid("chat", "modalities", "the default", (["text"],)),
    Unsaid("chat", "response_format", "the default", ({"type": "text"},)),
    Unsaid("chat", r"stream_options(\.include_usage)?", "applied by the gateway itself"),
    Unsaid("", r"tools\[.*\]\.strict|tools\[.*\]\.function\.strict", "the default", (False,)),
    Unsaid("chat", r".*\.json_schema\.strict", "always enforced", (True,)),
    Unsaid("chat", r"reasoning\.exclude", "thoughts are shown if requested", (False,)),
    Unsaid("messages", r".*\.citations\.enabled", "the default", (False,)),
    Unsaid("messages", r".*\.is_error", "the default", (False,)),
    Unsaid("messages", r".*\.disable_parallel_tool_use", "the default", (False,)),
    Unsaid("messages", r".*\.caller", "the default", ({"type": "direct"},)),
    Unsaid(
        "messages", r"thinking\[.*\]\.display", "this dialect never shows thoughts", ("omitted",), "openai"
    ),
    Unsaid(
        "messages",
        r"thinking\[.*\]\.display",
        "thoughts are shown if requested",
        ("summarized",),
        "gemini",
    ),
    Unsaid(
        "messages",
        r"thinking\[.*\]\.display",
        "thoughts are shown if requested",
        ("summarized",),
        THROUGH_RESPONSES,
    ),
    Unsaid(
        "generateContent",
        r".*\.includeThoughts",
        "thoughts are shown if requested",
        (True,),
        THROUGH_RESPONSES,
    ),
    Unsaid("generateContent", r".*\.responseLogprobs", "the default", (False,), THROUGH_RESPONSES),
    Unsaid("generateContent", r".*\.thought", "the default", (False,)),
    Unsaid(
        "generateContent",
        r"contents\[user\]\.parts\[\]\.thoughtSignature",
        "Google signs only the model's parts",
    ),
    Unsaid(
        "generateContent",
        r".*\.functionResponse\.(id|name)",
        "identifies the call to which the result belongs",
    ),
    Unsaid("generateContent", r".*\.fileData\.mimeType", "the type is known once the URL is fetched"),
    Unsaid("generateContent", r"systemInstruction\.role", "clear from the position"),
    Unsaid("generateContent", r".*\.responseModalities", "the default", (["TEXT"],)),
    Unsaid("generateContent", r".*\.nullable", "the default", (False,)),
    Unsaid("generateContent", r".*\.propertyOrdering", "becomes the order of ``properties``"),
    Unsaid(
        "generateContent",
        r"tools.*\.parameters\.nullable",
        "arguments are always an object",
        (True,),
        "anthropic",
    ),
    Unsaid("generateContent", r"tools.*\.parameters\.type", "arguments are always an object", ("OBJECT",)),
    Unsaid("generateContent", r".*\.responseSchema\.type", "the provider assumes it", ("OBJECT",), "openai"),
    Unsaid(
        "generateContent", r".*\.includeThoughts", "this dialect never shows thoughts", (False,), "openai"
    ),
    Unsaid(
        "generateContent",
        r".*\.includeThoughts",
        "thoughts are shown if requested",
        (True,),
        "anthropic",
    ),
    Unsaid(
        "chat", r"messages\[assistant\].*\.extra_content", "an empty object has no effect", ({"google": {}},)
    ),
    Unsaid("chat", "function_call", "the default", ("auto",)),
    Unsaid("chat", "parallel_tool_calls", "the default", (True,)),
    Unsaid("chat", r"thinking\[disabled\]\.budget_tokens", "the model does not think"),
    Unsaid("chat", r"reasoning_effort|reasoning\.effort", "the model does not think", ("none",)),
    Unsaid("chat", r"reasoning\.enabled", "the model does not think", (False,)),
    Unsaid(
        "",
        "thinking",
        "the model does this by default",
        tuple({"type": kind} for kind in ("enabled", "adaptive", "disabled", "between_tools")),
    ),
    Unsaid(
        "",
        r".*(budget_tokens|thinkingBudget)",
        "becomes the nearest effort name",
        (2048, 9000),
        "openai",
    ),
    Unsaid("chat", r"reasoning\.exclude", "no thoughts to show", (True,)),
    Unsaid("messages", r"thinking\[.*\]\.display", "no thoughts to show", ("omitted",)),
    Unsaid("generateContent", r".*\.includeThoughts", "no thoughts to show", (False,)),
)
_WITH_RESULT: Final = "connects the call and its result"
_WHERE_IT_FITS: Final = "if the schema follows the rules of the provider's strict mode"
_BY_NAME: Final = "by name or in tokens, see `models.rst <models.rst>`_"
_DECOMPOSED: Final = "``data:`` URLs are split into type and data; the provider fetches all others"
_ONE_RESOLUTION: Final = "one resolution for all images; different ones are dropped"
_ARGUMENTS: Final = "the parsed JSON object; any other text under the key ``arguments``"
_FORMAT: Final = "any JSON object, or one with a schema"
_IN_WORDS: Final = "described in text, not enforced"
_OWN_THOUGHTS: Final = "the provider's own thoughts become ``reasoning`` items; others are dropped"
_TO_RESPONSES: Final[tuple[Note, ...]] = (
    Note("chat", r".*image_url\.detail", "``original`` as ``high``", THROUGH_RESPONSES),
    Note("chat", "logprobs", "as ``message.output_text.logprobs``", THROUGH_RESPONSES),
    Note(
        "generateContent", r".*\.responseLogprobs", "as ``message.output_text.logprobs``", THROUGH_RESPONSES
    ),
    Note("chat", "response_format", _FORMAT, THROUGH_RESPONSES),
    Note("chat", r"reasoning\.exclude", "``false`` becomes ``auto``", THROUGH_RESPONSES),
    Note(
        "messages",
        r"thinking.*\.display",
        "``auto``, unless it is ``omitted``",
        THROUGH_RESPONSES,
    ),
    Note("generateContent", r".*\.includeThoughts", "``true`` becomes ``auto``", THROUGH_RESPONSES),
    Note(
        "messages",
        r".*\.content\[tool_result\]\.content",
        "a string, or each part separately",
        THROUGH_RESPONSES,
    ),
    Note(
        "messages",
        r"messages\[assistant\]\.content\[(thinking|redacted_thinking)\]\.(signature|data)",
        _OWN_THOUGHTS,
        THROUGH_RESPONSES,
        partly=True,
    ),
    Note(
        "generateContent",
        r"contents\[model\]\.parts\[\]\.thoughtSignature",
        _OWN_THOUGHTS,
        THROUGH_RESPONSES,
        partly=True,
    ),
)
_ENFORCED: Final = (
    "a schema is always enforced, as far as it follows the provider's rules; ``false`` is dropped"
)
_OF_RESPONSES: Final[tuple[Note, ...]] = (
    Note("responses", r".*\[input_image\]\.image_url", _DECOMPOSED),
    Note("responses", r".*\[input_image\]\.detail", _ONE_RESOLUTION, "gemini"),
    Note("responses", r".*\[input_image\]\.detail", "``original`` as ``high``", "openai"),
    Note("responses", r".*\[input_file\]\.file_data", "as a ``data:`` URL", "openai"),
    Note("responses", r".*\[input_file\]\.file_data", "a ``data:`` URL is split into type and data"),
    Note("responses", r"input\[user\]\.content\[input_text\]\.text", "adjacent texts are joined", "openai"),
    Note("responses", r".*\.arguments", _ARGUMENTS),
    Note("responses", r".*_output\]\.(call_id|id)", _WITH_RESULT),
    Note("responses", r"input\[.*_call\]\.namespace|tools\[namespace\]\.name", "``NAMESPACE__NAME``"),
    Note("responses", r".*\.execution", "a search on OpenAI's servers is dropped"),
    Note("responses", r"input\[.*\]\.(action|operation|input).*", "as JSON text", "openai"),
    Note("responses", r"input\[shell_call_output\]\.output\[\].*", "the list as JSON text"),
    Note(
        "responses",
        r"input\[apply_patch_call_output\]\.status",
        "JSON text with ``status`` and ``output``; ``failed`` is an error, which chat cannot express",
        "openai",
    ),
    Note(
        "responses",
        r"input\[apply_patch_call_output\]\.(status|output)",
        "JSON text with ``status`` and ``output``; ``failed`` is an error",
    ),
    Note(
        "responses", r"input\[image_generation_call\]\.result", "an image, in the user turn except for Gemini"
    ),
    Note("responses", r"input\[image_generation_call\]\.output_format", "as its media type"),
    Note("responses", r"input\[reasoning\]\..*", "if the target's family signed it, otherwise dropped"),
    Note("responses", "include", "log probabilities; anything else is dropped"),
    Note("responses", "parallel_tool_calls", "only ``false`` is sent"),
    Note("responses", r"reasoning\.effort", _BY_NAME),
    Note(
        "responses",
        r"reasoning\.(generate_)?summary",
        "any value requests thoughts; the value itself is dropped",
    ),
    Note("responses", r"text\.format", "only one with a schema", "anthropic"),
    Note(
        "responses",
        r"text\.format",
        f"{_FORMAT}; not together with tools if the model rejects that",
        "gemini",
    ),
    Note("responses", r"text\.format", _FORMAT),
    *(
        Note(
            "responses",
            r"tool_choice\[allowed_tools\]\.tools",
            "if it lists only one tool; several are dropped",
            target,
            partly=True,
        )
        for target in ("anthropic", "openai")
    ),
    Note("responses", r"tool_choice\[custom\]\.name", "the function that stands for the tool"),
    Note("responses", r"tools\[function\]\.strict", _WHERE_IT_FITS, "anthropic", partly=True),
    Note("responses", r"tools\[function\]\.strict", _WHERE_IT_FITS, "openai", partly=True),
    Note("responses", r"tools\[custom\]\.description", "followed by a description of the input"),
    Note("responses", r"tools\[custom\]\.format.*", _IN_WORDS),
)
_FOR_IMAGE_MODELS: Final = "for models with ``images`` in their row, otherwise dropped"
_JOINED: Final = "adjacent messages of one role are joined, unless ``chat_template`` is ``open``"
NOTES: Final[tuple[Note, ...]] = (
    *_TO_RESPONSES,
    *_OF_RESPONSES,
    *(
        Note(client, r".*json_schema\]?\.strict", _ENFORCED, target, partly=True)
        for client in ("chat", "responses")
        for target in ("anthropic", "gemini")
    ),
    Note("chat", r".*\[input_audio\]\.cache_control.*", "set on the text that replaces it", "anthropic"),
    Note(
        "chat",
        r"messages\[(developer|system)\]\.content",
        "only leading messages; later ones keep their position",
    ),
    Note("messages", r"messages\[(user|system)\]\.content\[text\]\.text", _JOINED, "openai_compat"),
    Note("generateContent", r"contents\[(user|model)\]\.parts\[\]\.text", _JOINED, "openai_compat"),
    Note("", r"messages\[(user|assistant|system|tool)\]\.content", "a string, or each part separately"),
    Note("", r"system", "a string, or each part separately"),
    Note(
        "chat",
        r".*image_url\.url",
        _DECOMPOSED,
    ),
    Note("chat", r".*image_url\.detail", _ONE_RESOLUTION, "gemini"),
    Note("chat", r".*input_audio\.format", "as a media type"),
    Note("chat", r".*file\.file_data", "its ``data:`` URL is split into type and data"),
    Note(
        "chat",
        r".*\.arguments",
        _ARGUMENTS,
    ),
    Note("chat", r".*\.tool_call_id|messages\[function\]\.name", _WITH_RESULT),
    Note("messages", r".*\.tool_use_id", _WITH_RESULT),
    Note("generateContent", r".*\.functionResponse\.name", _WITH_RESULT),
    Note("chat", r"functions\[\]\.parameters", "as the schema of an object"),
    Note("", r"function_call|tool_choice(\[allowed_tools\].*)?", "the equivalent mode"),
    Note(
        "generateContent",
        r".*\.functionCallingConfig\..*",
        "the equivalent mode; several names only if the provider accepts them",
    ),
    Note("chat", "parallel_tool_calls", "only ``false`` is sent"),
    Note("messages", r".*\.disable_parallel_tool_use", "only ``true`` is sent"),
    Note("chat", r"reasoning_effort|reasoning\.(effort|max_tokens|enabled)|thinking.*", _BY_NAME),
    Note("messages", r"output_config\.effort|thinking(\[enabled\]\.budget_tokens)?", _BY_NAME),
    Note("generateContent", r".*\.thinkingConfig\.thinking(Budget|Level)", _BY_NAME),
    Note("chat", "modalities", f"``responseModalities`` {_FOR_IMAGE_MODELS}", "gemini", partly=True),
    Note("chat", r"image_config\..*", f"``imageConfig`` {_FOR_IMAGE_MODELS}", "gemini", partly=True),
    Note("chat", r"reasoning\.exclude", "inverted"),
    Note("messages", r"thinking.*\.display", "``omitted`` becomes ``false``, anything else ``true``"),
    Note("generateContent", r".*\.includeThoughts", "``false`` becomes ``omitted``"),
    Note(
        "chat",
        "response_format",
        "any JSON object, or one with a schema; not together with tools if the model rejects that",
        "gemini",
    ),
    Note(
        "chat",
        "response_format",
        "any JSON object, or one with a schema; only the latter if the provider enforces nothing else",
    ),
    Note("chat", r".*\.function\.strict", _WHERE_IT_FITS, "anthropic", partly=True),
    Note("messages", r"tools\[custom\]\.strict", _WHERE_IT_FITS, "openai", partly=True),
    Note("", "stream", "selects the method ``streamGenerateContent``", "gemini"),
    Note("messages", r".*\.source\[base64\]\.(data|media_type)", "as a ``data:`` URL", "openai"),
    Note(
        "messages",
        r".*\[image\]\.source\[base64\]\.media_type",
        "PNG, JPEG and WebP; others are dropped",
        "gemini",
    ),
    Note(
        "messages",
        r".*\[document\]\.source\[content\]\.content",
        "texts become one document; with images, each becomes a separate part",
    ),
    Note("messages", r".*\[document\]\.source\[(text|content)\].*\.(data|text)", "as text", "openai"),
    Note("messages", r".*\[search_result\].*", "as text: title and source, then the content"),
    Note(
        "messages",
        r".*\.content\[tool_result\]\.content",
        "text stays; media move to the next user message if the tool message can hold only text",
    ),
    Note("messages", r"metadata\.user_id", "hashed if longer than 64 characters", "openai", partly=True),
    Note("messages", r".*\.is_error", "as the key ``error``", "gemini"),
    Note(
        "messages",
        r"messages\[assistant\]\.content\[text\]\.text",
        "all texts of a turn are joined",
        "openai",
    ),
    Note("messages", r".*\.content\[tool_use\]\.input", "as JSON text", "openai"),
    Note("generateContent", r".*\.functionCall\.args", "as JSON text", "openai"),
    Note("generateContent", r".*\.mediaResolution(\.level)?", "``ULTRA_HIGH`` as ``high``", "openai"),
    Note(
        "generateContent",
        r".*\.functionResponse\.response",
        "a single key ``result``, ``output`` or ``error`` as its text, anything else as JSON text",
    ),
    Note("generateContent", r".*\.inlineData\.(data|mimeType)", "as a ``data:`` URL", "openai"),
    Note(
        "generateContent",
        r".*\.parts\[\]\.thought",
        "a thought is sent only to the family that signed it, otherwise dropped",
    ),
    Note(
        "generateContent", r".*\.responseMimeType", "JSON without a schema; other types are dropped", "openai"
    ),
    Note("generateContent", r".*\.(ref|nullable|type|example)", "in JSON Schema spelling"),
    Note(
        "generateContent",
        r".*\.responseSchema\..*",
        "moved to the description if the provider does not enforce it",
        "anthropic",
    ),
)
