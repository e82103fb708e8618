"""Names of operations, providers and models in OpenTelemetry's GenAI conventions.

Sources: github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-spans.md (operation names,
output types, provider names).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.json import encode

from mgw.config.provider import Provider
from mgw.config.settings import Config

_GENERATE: Final = "generate_content"
_BY_OPERATION: Final = {
    "chat": ("chat", "responses", "responses_compact", "messages"),
    "text_completion": ("completions", "beta_completions", "complete"),
    "embeddings": ("embeddings", "embed_content", "batch_embed_contents"),
    _GENERATE: (
        *("generate_content", "stream_generate_content", "gemini_models_generate_answer"),
        *("images_generations", "images_edits", "images_variations", "gemini_models_predict"),
        *("videos_create", "videos_edits", "videos_extensions", "videos_remix"),
        *("gemini_models_predict_long_running",),
        *("audio_speech", "anthropic_audio_speech", "generate_speech"),
    ),
}
OPERATIONS: Final = MappingProxyType(
    {route: operation for operation, routes in _BY_OPERATION.items() for route in routes}
)
"""The operation of a route that generates something; those of other routes have names of our own."""
REALTIME: Final = "realtime_session"
"""Ours: the conventions have spans for what a model says within a session, and none for the session."""
_OUTPUTS: Final = MappingProxyType({"image_gen": "image", "audio_speech": "speech", "video_gen": "video"})
"""The type of what is generated, by modality; the last is ours."""
_HOSTS: Final = MappingProxyType(
    {
        "api.anthropic.com": "anthropic",
        "api.cohere.ai": "cohere",
        "api.cohere.com": "cohere",
        "api.deepseek.com": "deepseek",
        "api.groq.com": "groq",
        "api.mistral.ai": "mistral_ai",
        "api.moonshot.ai": "moonshot_ai",
        "api.openai.com": "openai",
        "api.perplexity.ai": "perplexity",
        "api.x.ai": "x_ai",
        "generativelanguage.googleapis.com": "gcp.gemini",
    }
)
_HOST_ENDINGS: Final = MappingProxyType(
    {
        "aiplatform.googleapis.com": "gcp.vertex_ai",
        ".amazonaws.com": "aws.bedrock",
        ".openai.azure.com": "azure.ai.openai",
    }
)
_PORTS: Final = MappingProxyType({"http": 80, "https": 443})


class ProviderFacts(Struct, frozen=True):
    """What spans and metrics say of a provider."""

    name: str
    """The provider's name in the configuration."""
    system: str
    """``gen_ai.provider.name``."""
    address: str
    port: int

    @property
    def attributes(self) -> dict[str, str | int]:
        """The same, as attributes."""
        return {
            "gen_ai.provider.name": self.system,
            "server.address": self.address,
            "server.port": self.port,
            "mgw.provider": self.name,
        }

    def json_fields(self) -> bytes:
        """Return what :func:`mgw.usage.otlp_span.read_line` reads of it in a line, up to a comma."""
        fields = {"system": self.system, "address": self.address, "port": self.port}
        return encode(fields)[1:-1] + b","


def operation_of(route: str, modality: str) -> str:
    """Return ``gen_ai.operation.name``: one of the conventions where that fits, else the route's own name."""
    return OPERATIONS.get(route) or (REALTIME if modality == "realtime" else route)


def output_of(operation: str, modality: str) -> str | None:
    """Return ``gen_ai.output.type``, where the operation says it."""
    return _OUTPUTS.get(modality) if operation == _GENERATE else None


def facts_of(provider: Provider) -> ProviderFacts:
    """Return what is known of a provider.

    Its host decides what it is called, then its kind, and then its name.
    """
    parts = urlsplit(provider.base_url)
    host = parts.hostname or ""
    system = _HOSTS.get(host) or next(
        (name for ending, name in _HOST_ENDINGS.items() if host.endswith(ending)), None
    )
    system = system or provider.row.genai_name or provider.name
    return ProviderFacts(provider.name, system, host, parts.port or _PORTS.get(parts.scheme, 443))


def known_models(config: Config) -> frozenset[str]:
    """Return the names of models that the configuration has, in any spelling that a request may use."""
    targets = {str(target) for targets in config.aliases.values() for target in targets}
    targets |= {
        f"{provider.name}/{model}" for provider in config.providers.values() for model in provider.models
    }
    models = {target.partition("/")[2] for target in targets}
    return frozenset(targets | models | config.aliases.keys())
