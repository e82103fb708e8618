"""One row per provider kind: everything that follows from the kind alone.

Sources: contract 2.7 and 2.8 (default capabilities, what a kind cannot do), contract 3.8 (key headers and
required headers), contract 8.9 (what hosts of OpenAI's wire take); for Azure OpenAI,
Microsoft's pages on the life cycle of its API and its REST references of the versions ``v1`` and
``2024-10-21``; for Claude on Amazon Bedrock and on Vertex AI, botocore's model of ``bedrock-runtime`` and
Anthropic's own SDK.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.nouns.vocabulary import Capability, DialectName, Family, Kind, MaxTokensField


class KindRow(Struct, frozen=True, kw_only=True, dict=True):
    """What a provider kind implies."""

    kind: Kind
    dialects: tuple[DialectName, ...]
    """The dialects in which its providers can be asked for a conversation; the first is the usual one."""
    mistaken_names: tuple[str, ...] = ()
    """What people write in its place, in lower case and with ``_`` between words."""
    genai_name: str | None = None
    """What OpenTelemetry's GenAI conventions call the provider (``gen_ai.provider.name``)."""
    base_url: str | None = None
    """The vendor's own address, which rejects requests without a credential; ``None``: hosts are many."""
    regional_url: str | None = None
    """The same where the vendor has an address in each region: ``{region}`` and ``{suffix}`` stand in it."""
    versions: tuple[str, ...] = ()
    """Endings of a base address that are usual for the kind, as ``--check`` names them; empty: the version
    of the API stands elsewhere."""
    version: re.Pattern[str] | None = None
    """A segment of such an address; ``--check`` warns about addresses without one."""
    version_parameter: str | None = None
    """The parameter of each call's query that says the version of the API (``api_version``)."""
    unversioned: re.Pattern[str] | None = None
    """Part of a base address whose calls need that parameter."""
    sample_version: str = ""
    """What may stand there."""
    key_header: bytes
    """The header that carries a static key, in the vendor's spelling."""
    key_prefix: bytes = b""
    """What stands before the key in that header."""
    required_headers: tuple[tuple[bytes, bytes], ...] = ()
    """Sent when the client sent no header of that name; the names are in lower case."""
    capabilities: frozenset[Capability]
    """The capabilities that are on by default."""
    impossible: frozenset[Capability] = frozenset()
    """Cannot be done, whatever an operator says."""
    max_tokens_field: MaxTokensField = MaxTokensField.MAX_TOKENS
    """Chat: the usual name of the field that limits an answer."""
    takes_extra_fields: bool = False
    """Chat: some hosts of the kind take fields beyond OpenAI's own."""
    may_lack_an_api: bool = False
    """Some hosts of the kind serve only one of chat completions and Responses."""
    takes_model_list: bool = False
    """Some hosts of the kind take a list of models beside the one, and use whichever can answer."""
    has_chat_template: bool = False
    """Chat: messages go through a template of the model's, which may refuse some orders (contract 8.29)."""
    through_responses: bool = False
    """The models' rows say when they are asked in the second dialect (contract 11.9)."""
    is_strict: bool = False
    """Chat: texts in parts, ``refusal``, four stop sequences and four types of images, as OpenAI's models
    have it; without it, the customs of other hosts."""
    has_safety_identifier: bool = False
    """Chat: the field of that name says who the user is, not ``user``."""
    has_allowed_tools: bool = False
    """Chat: a tool may be chosen from among several."""
    takes_breakpoints: bool = False
    """Requests say what is to be cached."""
    fetches_addresses: bool = True
    """Images and documents may be at addresses, if the model's row says so; else nothing fetches them."""
    takes_aws: bool = False
    """Some hosts of the kind are AWS's, which take requests with a signature."""
    aws_service: str | None = None
    """The name of the service that they are signed for, where the host does not say another."""
    takes_keys: bool = True
    """There are static keys for the kind's hosts."""
    needs_credential: bool = False
    """Each provider has a credential of its own: those of clients are for another vendor."""
    chat_path: str
    """The path of a conversation below a base address, with ``{model}`` where the model stands in it."""
    wire: str | None = None
    """The module of :mod:`mgw.upstream.wires` that says how hosts are called; ``None``: like the vendor."""
    wire_on_vertex: str | None = None
    """The same where the address is one of Vertex AI."""
    impossible_on_vertex: frozenset[Capability] = frozenset()
    """What cannot be done there, in addition to :attr:`impossible`."""
    vendor: str = ""
    """The name of the vendor that runs these hosts; empty: anybody may."""
    host_suffix: str = ""
    """How the names of the vendor's hosts end, where each customer has one."""

    @cached_property
    def dialect(self) -> DialectName:
        """The dialect in which its providers are asked, where nothing else is said."""
        return self.dialects[0]

    @cached_property
    def family(self) -> Family:
        """The family that its providers are of."""
        return self.dialects[0].family


_ALL: Final = frozenset(Capability)
_TEXT: Final = frozenset({Capability.TEXT})
_OPENAI: Final = (DialectName.OPENAI_CHAT, DialectName.OPENAI_RESPONSES)

KINDS: Final = MappingProxyType(
    {
        row.kind: row
        for row in (
            KindRow(
                kind=Kind.OPENAI,
                vendor="OpenAI",
                dialects=_OPENAI,
                chat_path="/chat/completions",
                takes_aws=True,
                mistaken_names=("gpt", "chatgpt", "open_ai", "codex"),
                genai_name="openai",
                base_url="https://api.openai.com/v1",
                versions=("/v1",),
                version=re.compile("v1"),
                key_header=b"Authorization",
                key_prefix=b"Bearer ",
                capabilities=_ALL,
                max_tokens_field=MaxTokensField.MAX_COMPLETION_TOKENS,
                through_responses=True,
                is_strict=True,
                has_safety_identifier=True,
                has_allowed_tools=True,
            ),
            KindRow(
                kind=Kind.OPENAI_COMPAT,
                dialects=_OPENAI,
                chat_path="/chat/completions",
                versions=("/v1",),
                version=re.compile("v[0-9]+[a-z0-9]*"),  # hosts number their versions as they like
                key_header=b"Authorization",
                key_prefix=b"Bearer ",
                capabilities=_TEXT,
                takes_extra_fields=True,
                may_lack_an_api=True,
                takes_model_list=True,
                has_chat_template=True,
                takes_aws=True,
            ),
            KindRow(
                kind=Kind.AZURE_OPENAI,
                vendor="Azure OpenAI",
                host_suffix=".openai.azure.com",
                dialects=_OPENAI,
                chat_path="/chat/completions",
                mistaken_names=("azure", "azure_ai", "azureopenai", "azure_foundry", "azure_open_ai"),
                genai_name="azure.ai.openai",
                versions=("/openai/v1",),
                version=re.compile("v1|deployments"),
                wire="azure",
                version_parameter="api-version",
                unversioned=re.compile("/deployments(?:/|$)"),
                sample_version="2024-10-21",
                key_header=b"api-key",
                capabilities=_ALL,
                max_tokens_field=MaxTokensField.MAX_COMPLETION_TOKENS,
                is_strict=True,  # but without the newest fields, which dated versions do not know
            ),
            KindRow(
                kind=Kind.ANTHROPIC,
                vendor="Anthropic",
                dialects=(DialectName.ANTHROPIC,),
                chat_path="/messages",
                takes_breakpoints=True,
                takes_aws=True,
                mistaken_names=("claude", "claude_code"),
                genai_name="anthropic",
                base_url="https://api.anthropic.com/v1",
                versions=("/v1",),
                version=re.compile("v1"),
                key_header=b"x-api-key",
                required_headers=((b"anthropic-version", b"2023-06-01"),),
                capabilities=_TEXT,
                impossible=_ALL - _TEXT,
            ),
            KindRow(
                kind=Kind.BEDROCK,
                vendor="Amazon Bedrock",
                dialects=(DialectName.ANTHROPIC,),
                chat_path="/model/{model}/invoke",
                wire="bedrock",
                takes_aws=True,
                aws_service="bedrock",
                needs_credential=True,
                takes_breakpoints=True,
                mistaken_names=("anthropic_bedrock", "bedrock_anthropic", "claude_bedrock", "bedrock_claude"),
                genai_name="aws.bedrock",
                regional_url="https://bedrock-runtime.{region}.{suffix}",
                fetches_addresses=False,
                key_header=b"Authorization",
                key_prefix=b"Bearer ",
                capabilities=_TEXT,
                impossible=_ALL - _TEXT,
            ),
            KindRow(
                kind=Kind.VERTEX_ANTHROPIC,
                vendor="Vertex AI",
                dialects=(DialectName.ANTHROPIC,),
                chat_path="/models/{model}:rawPredict",
                wire="vertex_anthropic",
                fetches_addresses=False,
                takes_keys=False,
                needs_credential=True,
                takes_breakpoints=True,
                mistaken_names=("anthropic_vertex", "vertex_ai_anthropic", "vertex_claude", "claude_vertex"),
                genai_name="gcp.vertex_ai",
                key_header=b"Authorization",
                key_prefix=b"Bearer ",
                capabilities=_TEXT,
                impossible=_ALL - _TEXT,
            ),
            KindRow(
                kind=Kind.GEMINI,
                vendor="Gemini",
                dialects=(DialectName.GEMINI,),
                chat_path="/models/{model}:generateContent",
                wire_on_vertex="vertex_gemini",
                impossible_on_vertex=frozenset({Capability.REALTIME}),
                mistaken_names=("google_ai", "google_ai_studio", "ai_studio", "google_genai", "gemini_api"),
                genai_name="gcp.gemini",
                base_url="https://generativelanguage.googleapis.com/v1beta",
                versions=("/v1beta", "/v1", "/v1alpha"),
                version=re.compile("v1beta|v1|v1alpha"),
                key_header=b"x-goog-api-key",
                capabilities=_ALL,
                impossible=frozenset({Capability.AUDIO_TRANSCRIBE}),
            ),
        )
    }
)
"""Every kind's row."""


def kinds_where(fits: Callable[[KindRow], object]) -> list[Kind]:
    """Return the kinds whose row fits."""
    return [kind for kind, row in KINDS.items() if fits(row)]


def enumerated(kinds: Sequence[str]) -> str:
    """Return names as a sentence has them: ``a``, ``a and b``, ``a, b and c``."""
    *most, last = kinds
    return f"{', '.join(most)} and {last}" if most else str(last)


def of_chat(row: KindRow) -> bool:
    """Whether providers of a kind speak OpenAI's wire, and so have the settings of chat."""
    return row.family is Family.OPENAI


def has_betas(row: KindRow) -> bool:
    """Whether requests to providers of a kind may name betas, as Anthropic's API has them."""
    return row.family is Family.ANTHROPIC
