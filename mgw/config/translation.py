"""Settings of translation: models, automatic cache breakpoints, keep-alives in streams.

Source: contract 2.14, 4.25, 8.4, 8.7, 8.9, 8.25 and 8.27.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_args, get_type_hints

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema, create_model

from mgw.config.field_types import (
    Answers,
    AnswerTokens,
    Budget,
    CallIdsName,
    Characters,
    ChatToolsName,
    DefaultEffort,
    EffortName,
    FamilyName,
    ForcedToolsName,
    ModelPattern,
    OneOf,
    OnOff,
    OutputTokens,
    Seconds,
    ThroughResponsesName,
    TokenFactor,
    VoiceNames,
)
from mgw.config.settings_base import (
    Documentation,
    EmptyIfNull,
    ListOf,
    Omittable,
    SetOf,
    Settings,
    UniqueList,
    defaults_of,
    setting,
    wrong_value,
)
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import (
    CallIds,
    ChatTemplate,
    ChatTools,
    Effort,
    Family,
    ForcedTools,
    MaxTokensField,
    TextApi,
    ThroughResponses,
)

T_Settings = TypeVar("T_Settings", bound=Settings)


class CacheTarget(StrEnum):
    """Where an automatic cache breakpoint goes."""

    SYSTEM = "system"
    TOOLS = "tools"


class ExtraField(StrEnum):
    """A field beyond OpenAI's own that some hosts of its API take."""

    TOP_K = "top_k"
    PROMPT_CACHE_KEY = "prompt_cache_key"


class Base64Embeddings(StrEnum):
    """What becomes of a wish for embeddings in base64 where the provider gives floats."""

    REFUSE = "refuse"
    ENCODE = "encode"


class HostedTools(StrEnum):
    """What becomes of tools that only OpenAI's servers run, where another provider answers."""

    REFUSE = "refuse"
    DROP = "drop"


class ResponsesUpstream(StrEnum):
    """The clients whose requests may reach OpenAI's models through Responses."""

    FOREIGN = "foreign"
    """Clients of other families, where the model's row says so."""
    NONE = "none"


def _some(targets: frozenset[CacheTarget]) -> frozenset[CacheTarget]:
    if targets:
        return targets
    words = " or ".join(CacheTarget)
    raise wrong_value(f"expected {words} or both, found an empty list (to have none: enabled: false)")


def _some_apis(apis: frozenset[TextApi]) -> frozenset[TextApi]:
    if apis:
        return apis
    raise wrong_value(f"expected {' or '.join(TextApi)} or both, found an empty list")


MaxTokensFieldName = Annotated[MaxTokensField, OneOf()]
ChatTemplateName = Annotated[ChatTemplate, OneOf()]
ExtraFieldName = Annotated[ExtraField, OneOf()]
Base64EmbeddingsWord = Annotated[Base64Embeddings, OneOf()]
HostedToolsWord = Annotated[HostedTools, OneOf()]
ResponsesUpstreamWord = Annotated[ResponsesUpstream, OneOf()]
SpokenApis = Annotated[
    SetOf[Annotated[TextApi, OneOf()]],
    AfterValidator(_some_apis),
    WithJsonSchema({"type": "array", "items": {"type": "string", "enum": list(TextApi)}, "minItems": 1}),
]
CacheTargets = Annotated[
    SetOf[Annotated[CacheTarget, OneOf()]],
    AfterValidator(_some),
    WithJsonSchema({"type": "array", "items": {"type": "string", "enum": list(CacheTarget)}, "minItems": 1}),
]

_SETTING_OF: Final = MappingProxyType(
    {
        tuple[Effort, ...]: UniqueList[EffortName],
        tuple[int, int] | None: Budget,
        Effort | None: DefaultEffort,
        ForcedTools: ForcedToolsName,
        ChatTools: ChatToolsName,
        ThroughResponses: ThroughResponsesName,
        CallIds: CallIdsName,
        tuple[Effort, ...] | None: UniqueList[EffortName],
        bool: OnOff,
        int: Answers,
        int | None: OutputTokens,
        float: TokenFactor,
    }
)
"""How an operator states a column of the table of models; ``false`` stands for its ``None``."""
_OF_EVERY_ROW: Final = frozenset({"match", "family", "source"})


def _with_columns(block: type[T_Settings]) -> type[T_Settings]:
    """Add a setting for each column of the table of models."""
    columns: dict[str, Any] = {}  # Any: pydantic's own signature
    for name, hint in get_type_hints(ModelRow, include_extras=True).items():
        if name not in _OF_EVERY_ROW:
            column, *marks = get_args(hint)
            omittable: Any = Omittable
            columns[name] = (
                omittable[_SETTING_OF[column]],
                setting(marks[0].description.removesuffix(".")),
            )
    return create_model(
        block.__name__, __base__=block, __doc__=block.__doc__, __module__=block.__module__, **columns
    )


@_with_columns
class ModelRowSettings(Settings):
    """What the models that match a pattern accept; missing fields are as the gateway knows them."""

    model_config = ConfigDict(json_schema_extra={"required": ["match", "family"]})

    match: ModelPattern = Field(
        default=None,
        validate_default=True,
        json_schema_extra=Documentation(
            "Pattern for the vendor's model ids",
            "``*`` matches any characters, ``?`` one character, ``[...]`` one of these. Case does not "
            "matter.",
        ),
    )
    family: FamilyName = Field(
        default=None,
        validate_default=True,
        json_schema_extra=Documentation("Family of providers to which the row applies"),
    )

    if TYPE_CHECKING:

        def __init__(self, *, match: str, family: Family, **columns: Any) -> None: ...

        def __getattr__(self, column: str) -> Any: ...


class ResponsesSettings(Settings):
    """Translation of Responses."""

    enabled: OnOff = setting(
        "Whether ``/v1/responses`` is translated for providers that have only other APIs",
        "Codex, OpenAI's Agents SDK and the Vercel AI SDK then work with Anthropic, Gemini and "
        "hosts that have only chat completions. Nothing is stored. If off, such a request is "
        "rejected with a 400.",
        default=False,
    )
    hosted_tools: HostedToolsWord = setting(
        "What happens to tools that only OpenAI's servers run, such as ``web_search``, in "
        "translated requests",
        "``refuse`` returns a 400 that names the tool; ``drop`` leaves the tool out and reports it "
        "as a dropped field.",
        default=HostedTools.REFUSE,
    )
    upstream: ResponsesUpstreamWord = setting(
        "Which requests may reach providers of kind ``openai`` through Responses",
        "``foreign``: requests of Anthropic and Gemini clients for models that reject tools "
        "together with reasoning in chat completions (``through_responses`` in their row). "
        "``none``: such requests always use chat completions.",
        default=ResponsesUpstream.FOREIGN,
    )


class TranslationSettings(Settings):
    """How requests are translated into another API."""

    default_max_tokens: AnswerTokens = setting(
        "``max_tokens`` in requests to Anthropic, which requires it, if the client sets none", default=8192
    )
    clean_history: OnOff = setting(
        "Whether the gateway's additions for another family are removed from the history",
        "Such additions are, for example, tagged signatures in earlier responses. They are removed "
        "from the history that a client sends back, even if its request passes through. If off, "
        "the history is sent upstream unchanged.",
        default=True,
    )
    base64_embeddings: Base64EmbeddingsWord = setting(
        "What happens if a client asks for base64 embeddings but the provider returns floats (Gemini)",
        "OpenAI's SDKs ask for base64 by default. ``refuse`` returns a 400 that explains this; "
        "``encode`` encodes the numbers as base64 of little-endian float32.",
        default=Base64Embeddings.REFUSE,
    )
    models: ListOf[ModelRowSettings] = setting(
        "Rows that describe what models accept",
        "Add rows for models that have no built-in row, or that your host serves differently. They take "
        "precedence over the built-in rows, in the order of the file. Anything that a row leaves out is "
        "taken from the built-in row.",
        default=(),
    )
    responses: EmptyIfNull[ResponsesSettings] = setting(
        "Translation of Responses", default=defaults_of(ResponsesSettings)
    )
    voices: EmptyIfNull[VoiceNames] = setting(
        "For each family of providers, voice names that clients use and the names to send instead",
        "They apply to translated speech and take precedence over the gateway's own table. A name "
        "that is in neither is sent unchanged. The case of the requested name does not matter. "
        "Anthropic has no speech.",
        default={},
    )


class AutoBreakpointsSettings(Settings):
    """Cache breakpoints that the gateway sets in requests translated to the Anthropic API."""

    enabled: OnOff = setting(
        "Whether requests translated to the Anthropic API get cache breakpoints",
        "The breakpoints (``cache_control``) are set only if the client set none. The response "
        "header ``X-Gateway-Cache-Auto`` says where. A client can turn this off with the request "
        "header ``X-Gateway-Cache-Auto: off``.",
        default=False,
    )
    min_chars: Characters = setting(
        "Minimum number of characters before a breakpoint",
        "The default is about 1024 tokens, the minimum that most Anthropic models cache.",
        default=4096,
    )
    targets: CacheTargets = setting("Where to set breakpoints", default=frozenset(CacheTarget), shown="both")


class CachingSettings(Settings):
    """Prompt caching."""

    auto_breakpoints: EmptyIfNull[AutoBreakpointsSettings] = setting(
        "Automatic cache breakpoints", default=defaults_of(AutoBreakpointsSettings)
    )


class StreamKeepaliveSettings(Settings):
    """Keep-alives in streams while the upstream is silent; {} turns them on with the defaults."""

    interval: Seconds = setting(
        "How long the upstream must be silent before each keep-alive, in seconds", default=15.0
    )
    passthrough: OnOff = setting(
        "Whether streams that pass through also get keep-alives, between two events",
        "Their bytes are then no longer exactly those of the upstream.",
        default=False,
    )
