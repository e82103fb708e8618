"""Hints for values of ``kind`` that people try: names of vendors, of hosts and of other gateways.

The addresses are those of ``docs/providers.rst``; a test compares them.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.nouns.kinds import KINDS

_SEE: Final = "docs/providers.rst"

ADDRESSES: Final = MappingProxyType(
    {
        "openrouter": "https://openrouter.ai/api/v1",
        "groq": "https://api.groq.com/openai/v1",
        "mistral": "https://api.mistral.ai/v1",
        "deepseek": "https://api.deepseek.com/v1",
        "xai": "https://api.x.ai/v1",
        "together": "https://api.together.xyz/v1",
        "vllm": "http://vllm.internal:8000/v1",
        "ollama": "http://127.0.0.1:11434/v1",
        "lm_studio": "http://127.0.0.1:1234/v1",
    }
)
"""Hosts of OpenAI's API that have a section in the document."""
_OTHER_HOSTS: Final = frozenset(
    {
        *("anyscale", "cerebras", "cohere", "dashscope", "databricks", "deepinfra", "fireworks"),
        *("fireworks_ai", "github", "hugging_face", "huggingface", "ibm", "litellm", "llamacpp", "llama_cpp"),
        *("localai", "moonshot", "nebius", "novita", "nvidia", "nvidia_nim", "oci", "oci_genai", "oracle"),
        *("perplexity", "qwen", "sambanova", "sglang", "snowflake", "tgi", "watsonx", "zai"),
        *("zhipu", "custom", "compat", "compatible", "generic", "local", "openai_compatible", "self_hosted"),
    }
)
"""Others that have OpenAI's API, and words for them all."""
_OTHER_NAMES: Final = MappingProxyType(
    {
        "grok": "xai",
        "hosted_vllm": "vllm",
        "lmstudio": "lm_studio",
        "mistral_ai": "mistral",
        "mistralai": "mistral",
        "ollama_chat": "ollama",
        "open_router": "openrouter",
        "together_ai": "together",
        "togetherai": "together",
    }
)
_KIND_MEANT: Final = MappingProxyType(
    {name: row.kind for row in KINDS.values() for name in row.mistaken_names}
)
_VERTEX: Final = frozenset({"vertex", "vertexai", "vertex_ai", "google_vertex", "gcp"})
_FOUNDRY: Final = frozenset({"foundry", "ai_foundry", "azure_ai_foundry", "microsoft_foundry"})
_AMAZON: Final = frozenset({"aws", "amazon", "aws_bedrock", "amazon_bedrock", "bedrock_converse"})


def kind_hint(word: str) -> str | None:
    """Return what to write in place of a word that is no kind, where it is known what was meant."""
    name = word.lower().replace("-", "_").replace(" ", "_")
    name = _OTHER_NAMES.get(name, name)
    if name in _KIND_MEANT:
        return f"did you mean {_KIND_MEANT[name]}?"
    if name in ADDRESSES:
        return f"write kind: openai_compat with base_url: {ADDRESSES[name]} ({_SEE})"
    if name in _OTHER_HOSTS:
        return f"write kind: openai_compat with the base_url of the host ({_SEE})"
    if name in _VERTEX:
        return (
            "for Gemini on Vertex AI, write kind: gemini with the base_url of Vertex AI and auth: adc; "
            f"for Claude there, kind: vertex_anthropic ({_SEE})"
        )
    if name in _FOUNDRY:
        return (
            "for Claude in Microsoft Foundry, write kind: anthropic with its base_url; for other models "
            f"there, kind: openai_compat ({_SEE})"
        )
    if name in _AMAZON:
        return (
            "for Claude on Amazon Bedrock, write kind: bedrock; for other models there, kind: openai_compat "
            f"with the base_url of Bedrock's OpenAI-compatible API ({_SEE})"
        )
    return None
