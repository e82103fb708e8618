"""The settings of one provider."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Final
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field

from mgw.config.auths import AUTHS, AuthSettings
from mgw.config.body_rules import BodyRuleSettings, Token, TokenPattern
from mgw.config.field_types import (
    BaseUrl,
    BetaPattern,
    Connections,
    HeaderName,
    HeaderValue,
    KindName,
    Name,
    OnOff,
    ProxyUrl,
    Seconds,
    Text,
    Variable,
)
from mgw.config.listed_models import ListedModel
from mgw.config.profile import CloakModeName
from mgw.config.resilience import RetriesSettings
from mgw.config.settings_base import (
    Documentation,
    EmptyIfNull,
    ListOf,
    NotInFile,
    Omittable,
    Settings,
    UniqueList,
    defaults_of,
    required,
    setting,
)
from mgw.config.translation import ChatTemplateName, ExtraFieldName, MaxTokensFieldName, SpokenApis
from mgw.nouns.kinds import KINDS, KindRow, enumerated, has_betas, kinds_where, of_chat
from mgw.nouns.vocabulary import Capability, ChatTemplate, DialectName, Kind, MaxTokensField, TextApi

VERTEX: Final = re.compile("(?:^|/)publishers/google(?:/|$)")
"""A part of the path of an address of Gemini on Vertex AI."""


class UpstreamTimeoutsSettings(Settings):
    """Time limits for a provider, in seconds."""

    connect: Seconds = setting("Time limit for connecting to the provider", default=10.0)
    first_byte: Seconds = setting("Time limit for the first byte of the provider's response", default=600.0)
    idle: Seconds = setting("Longest pause between two chunks of the provider's response", default=300.0)


class CapabilitiesSettings(Settings):
    """What a provider may be used for; the defaults depend on its kind."""

    text: Omittable[OnOff] = setting(
        "Chat completions, messages, responses and content generation", shown="depends on the kind"
    )
    image_gen: Omittable[OnOff] = setting("Image generation", shown="depends on the kind")
    video_gen: Omittable[OnOff] = setting("Video generation", shown="depends on the kind")
    audio_speech: Omittable[OnOff] = setting("Speech synthesis", shown="depends on the kind")
    audio_transcribe: Omittable[OnOff] = setting(
        "Transcription and translation of audio", shown="depends on the kind"
    )
    realtime: Omittable[OnOff] = setting("Realtime sessions over WebSockets", shown="depends on the kind")

    def of(self, kind: Kind) -> frozenset[Capability]:
        """Return what is on, where what the file does not set is as usual for the kind (contract 2.7)."""
        usual = KINDS[kind].capabilities
        return frozenset(
            capability
            for capability in Capability
            if (capability in usual if (own := getattr(self, capability)) is None else own)
        )


class HeadersSettings(Settings):
    """Changes to the headers that are sent upstream."""

    set: EmptyIfNull[dict[str, HeaderValue]] = Field(
        default={},
        repr=False,
        json_schema_extra=Documentation(
            "Headers that are always sent, in place of the client's",
            "Values are never shown or logged.",
            default="empty",
        ),
    )
    """Names as spelled in the file; the values may be secrets and do not print."""
    remove: UniqueList[HeaderName] = setting("Client headers that are not sent upstream", default=())
    forward: UniqueList[HeaderName] = setting(
        "Client headers that are sent upstream in addition to the usual ones", default=()
    )
    remove_tokens: EmptyIfNull[dict[str, UniqueList[TokenPattern]]] = setting(
        "Patterns for elements to remove from headers with comma-separated lists, by header",
        "They apply to headers as they would be sent, after ``set``, ``remove`` and ``forward``. Patterns "
        "are those of a key's ``models``. A header without any element left is not sent.",
        default={},
    )
    add_tokens: EmptyIfNull[dict[str, UniqueList[Token]]] = setting(
        "Elements to add to such headers unless they are there",
        "A header that is missing is added.",
        default={},
    )


def _max_tokens_fields() -> str:
    """Say which kinds have which field by default."""
    found: dict[MaxTokensField, list[Kind]] = {}
    for kind in kinds_where(of_chat):
        found.setdefault(KINDS[kind].max_tokens_field, []).append(kind)
    return ", ".join(f"``{name}`` for {enumerated(_code(kinds))}" for name, kinds in found.items())


def _base_urls() -> str:
    """Say which kinds have which address by default."""
    found = [f"``{KINDS[kind].base_url}`` for ``{kind}``" for kind in kinds_where(lambda row: row.base_url)]
    found += [
        f"``{row.regional_url.format(region='REGION', suffix='amazonaws.com')}`` for ``{row.kind}``"
        for row in KINDS.values()
        if row.regional_url is not None
    ]
    return f"{', '.join(found)}; required for {enumerated(_code(kinds_where(has_no_address)))}"


def has_no_address(row: KindRow) -> bool:
    """Whether providers of a kind must say where their host is."""
    return row.base_url is None and row.regional_url is None


def is_on_vertex(row: KindRow, base_url: str | None) -> bool:
    """Whether the hosts of a kind are called as those of Vertex AI are at this address."""
    return row.wire_on_vertex is not None and VERTEX.search(urlsplit(base_url or "").path) is not None


def _kinds(having: Callable[[KindRow], object]) -> str:
    """Name the kinds that a setting is for."""
    kinds = _code(kinds_where(having))
    return f"the kind{'s' if len(kinds) > 1 else ''} {enumerated(kinds)}"


def _code(words: Iterable[str]) -> list[str]:
    return [f"``{word}``" for word in words]


class _Hosts(Settings):
    """What a provider is, and where."""

    name: NotInFile[str] = ""
    """The key of its block."""
    kind: KindName = required(
        "API of the provider",
        "``openai_compat`` is any other host with an OpenAI-compatible API. ``bedrock`` is Claude on Amazon "
        "Bedrock by InvokeModel, and ``vertex_anthropic`` is Claude on Vertex AI.",
    )
    base_url: BaseUrl = setting(
        "Address of the provider with the version prefix (``…/v1``, ``…/v1beta``)",
        "The address of a call is ``base_url`` plus the client's path without its version prefix; "
        "nothing else is added. A trailing ``/`` is removed. A user, password, query or fragment "
        "is not allowed.",
        shown=_base_urls(),
    )
    """The address without a trailing ``/``."""
    api_version: Omittable[Name] = setting(
        "Version of Azure's API, sent as ``api-version`` in the query of each call unless the "
        "client sends one",
        f"Only for {_kinds(lambda row: row.version_parameter)}. It is required if ``base_url`` contains "
        "``/deployments/``, and optional for Azure's ``v1`` API. For all other kinds, the version is part of "
        "``base_url``.",
    )


class Provider(AuthSettings, _Hosts):  # the settings of the last base come first
    """One provider."""

    model_config = ConfigDict(json_schema_extra={"required": ["kind"]})

    cloak: Omittable[CloakModeName] = setting(
        "When to make requests look like those of the vendor's own client, as the profile describes",
        "``auto``: unless they come from it. Only for subscription credentials.",
        shown="as in the profile",
    )
    own_capabilities: EmptyIfNull[CapabilitiesSettings] = setting(
        "What the provider may be used for; other requests are rejected before anything is sent upstream",
        default=defaults_of(CapabilitiesSettings),
        key="capabilities",
    )
    listed_models: ListOf[ListedModel] = setting(
        "Models that ``GET /v1/models`` lists for the provider, in addition to aliases",
        "Each element is an id, or a mapping that says more about the model.",
        default=(),
        key="models",
    )
    betas: UniqueList[BetaPattern] = setting(
        "Names of betas that are sent upstream",
        "Clients of Anthropic's API name betas in the header ``anthropic-beta``. A name that matches none of "
        "these patterns, in which ``*`` stands for any characters, is left out and reported as dropped. With "
        f"an empty list, none are sent. Only for {_kinds(has_betas)}.",
        default=("*",),
        shown="``*``, which is all of them",
    )
    headers: EmptyIfNull[HeadersSettings] = setting(
        "Changes to the headers that are sent upstream", default=defaults_of(HeadersSettings)
    )
    body: ListOf[BodyRuleSettings] = setting(
        "Rules that change the bodies of requests to the provider",
        "All rules that match apply in their order, after those of the alias and after any translation, to "
        "JSON bodies of text and embedding routes.",
        default=(),
    )
    ca_file: Omittable[Text] = setting(
        "PEM file with certificates to trust instead of the system's",
        "The certificate of a provider must also have the host of ``base_url`` in its "
        "``subjectAltName``. If it does not, or if any name in it is not valid (``*``, "
        "``*.internal``), the client gets a 502 and nothing is sent.",
    )
    proxy: Omittable[ProxyUrl] = setting(
        "HTTP proxy for connections to the provider: ``http://host:port`` or "
        "``http://user:password@host:port``",
        "Every connection to the provider, for HTTP or WebSocket, is a tunnel through it "
        "(``CONNECT``). In the user and the password, percent-encode everything but letters, "
        "digits and ``-._~``. ``https://`` is for a proxy that itself uses TLS. Cannot be combined "
        "with ``proxy_env``.",
    )
    proxy_env: Omittable[Variable] = setting("Environment variable that contains the address of the proxy")
    max_connections: Omittable[Connections] = setting(
        "Maximum number of connections to the provider",
        "A connection is not reused within 20 ms of a response, so that an unexpected second "
        "response cannot reach another client.",
        shown="unlimited",
    )
    timeouts: EmptyIfNull[UpstreamTimeoutsSettings] = setting(
        "Time limits for this provider, in place of the general ones",
        default=defaults_of(UpstreamTimeoutsSettings),
    )
    retries: EmptyIfNull[RetriesSettings] = setting(
        "When requests to this provider are retried, in place of the general rule",
        default=defaults_of(RetriesSettings),
    )
    stream_usage: OnOff = setting(
        "Whether translated chat streams ask the provider for usage (``stream_options.include_usage``)",
        "If off, their usage events have no token counts. For streams that pass through, see "
        "``meter_streams``. "
        f"Only for {_kinds(of_chat)}.",
        default=True,
    )
    meter_streams: OnOff = setting(
        "Whether chat streams that pass through ask the provider for usage "
        "(``stream_options.include_usage``), where the client does not ask for it",
        "The chunk that the provider then adds for the usage, which has no choices, is taken out again. "
        f"Other chunks pass as they come, also if they have ``usage: null``. Only for {_kinds(of_chat)}.",
        default=False,
    )
    own_max_tokens_field: Omittable[MaxTokensFieldName] = setting(
        "Name of the field that limits the output in translated chat requests",
        "Only for these kinds.",
        shown=_max_tokens_fields(),
        key="max_tokens_field",
    )
    speaks: SpokenApis = setting(
        "Which of OpenAI's two text APIs the host serves: chat completions, Responses, or both",
        "A request for an API that the host does not serve is translated to the other one; Responses to "
        "chat completions only if ``translation.responses.enabled`` is on. Only for "
        f"{_kinds(lambda row: row.may_lack_an_api)}.",
        default=frozenset(TextApi),
        shown="both",
    )
    chat_template: ChatTemplateName = setting(
        "Order of messages that the host's models accept, in translated chat requests",
        "``strict``: at most one system message, which comes first. Later instructions become text of the "
        "user message at that point, neighboring messages of one role are joined, and the first one is the "
        "user's. The chat templates of Qwen, Gemma, Llama and Mistral reject anything else. ``open``: "
        "messages keep their order and roles. Only for "
        f"{_kinds(lambda row: row.has_chat_template)}.",
        default=ChatTemplate.STRICT,
    )
    extra_fields: UniqueList[ExtraFieldName] = setting(
        "Fields beyond OpenAI's own API that the provider accepts",
        "Some OpenAI-compatible hosts reject requests with unknown fields. Translated chat requests contain "
        "such a field only if it is listed here; otherwise it is reported as dropped. Only for "
        f"{_kinds(lambda row: row.takes_extra_fields)}.",
        default=(),
    )

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """The entries of the credential store that it uses."""
        if self.pool is not None:
            return self.pool.credentials
        return () if self.oauth is None or self.oauth.credentials is None else (self.oauth.credentials,)

    @property
    def profile(self) -> str | None:
        """The name of their profile."""
        if self.pool is not None:
            return self.pool.profile
        return None if self.oauth is None else self.oauth.profile

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Return the ids of the listed models, each once."""
        return tuple(dict.fromkeys(model.id for model in self.listed_models))

    @cached_property
    def capabilities(self) -> frozenset[Capability]:
        """Return the capabilities that are on."""
        found = self.own_capabilities.of(self.kind)
        if self.is_vertex:
            found -= self.row.impossible_on_vertex
        return found if self.auth is None else found - AUTHS[self.auth].impossible

    @cached_property
    def row(self) -> KindRow:
        """What its kind implies."""
        return KINDS[self.kind]

    @cached_property
    def dialects(self) -> tuple[DialectName, ...]:
        """Those of its kind's dialects that the host serves, the usual one first."""
        missing = self.missing_api
        found = self.row.dialects
        return found if missing is None else tuple(name for name in found if name.text_api is not missing)

    @cached_property
    def missing_api(self) -> TextApi | None:
        """The one of OpenAI's two APIs for text that it does not serve; ``None``: it serves both."""
        served = self.speaks
        if of_chat(self.row):
            served &= {name.text_api for name in self.row.dialects}
        return next((api for api in TextApi if api not in served), None)

    @cached_property
    def is_vertex(self) -> bool:
        """Whether it is Gemini on Vertex AI, which its address says and nothing else (contract 8.30)."""
        return is_on_vertex(self.row, self.base_url)

    @property
    def max_tokens_field(self) -> MaxTokensField:
        """The field of an answer's limit in translated chat requests; other families have no choice."""
        return self.own_max_tokens_field or self.row.max_tokens_field
