"""The text routes (contract 4.2)."""

from __future__ import annotations

import re
from itertools import product
from typing import Final

from mgw.nouns.vocabulary import DialectName, Family, Modality, TextApi
from mgw.routing.route import MESSAGE_MODELS, MODEL_LIST, ModelAt, Path, Route, Treatment

_TEXT: Final = Modality.TEXT
_EMBEDDING: Final = Modality.EMBEDDING
_BODY: Final = ModelAt.BODY
_PATH: Final = ModelAt.PATH
_RELAY: Final = Treatment.RELAY
_CHAT: Final = Treatment.CHAT
_EMBED: Final = Treatment.EMBED
_COUNT: Final = Treatment.COUNT
_OPENAI_CHAT: Final = DialectName.OPENAI_CHAT
_RESPONSES: Final = DialectName.OPENAI_RESPONSES
_OPENAI: Final = DialectName.OPENAI
_ANTHROPIC: Final = DialectName.ANTHROPIC
_GEMINI: Final = DialectName.GEMINI

_ALL: Final = frozenset(Family)
_MODEL: Final = "/v1beta/models/{model}"

_CAPITAL: Final = re.compile("[A-Z]")

_OF_TOOLS: Final = (("tools", None, "model"), ("tools", None, "svg", "model"))
_OF_LITELLM: Final = tuple(
    path
    for name in ("fallbacks", "context_window_fallbacks", "content_policy_fallbacks")
    for path in ((name, None), (name, None, "model"))
)
_OF_OPENAI_HOSTS: Final = (
    MODEL_LIST,
    *_OF_LITELLM,
    ("providerOptions", "gateway", "models", None),
    ("moderation", "model"),
    *_OF_TOOLS,
)
"""OpenRouter's list, those of LiteLLM and of Vercel's AI Gateway, and the models of OpenAI's own tools."""

_OF_RESPONSES: Final = (*_OF_OPENAI_HOSTS, *(("input", None, *path) for path in _OF_TOOLS))
"""Items of the input bring tools, too."""


def _in_both_spellings(*keys: str | None) -> tuple[Path, ...]:
    """Return a path as Google's servers read it: each key ``likeThis`` or ``like_this``."""
    spelled = ([key] if key is None else sorted({key, _CAPITAL.sub(_small, key)}) for key in keys)
    return tuple(product(*spelled))


def _small(capital: re.Match[str]) -> str:
    return f"_{capital[0].lower()}"


_OF_VERTEX: Final = (
    *_in_both_spellings("generationConfig", "routingConfig", "manualMode", "modelName"),
    *_in_both_spellings(
        *("tools", None, "retrieval", "vertexRagStore", "ragRetrievalConfig"),
        *("ranking", "llmRanker", "modelName"),
    ),
)
"""The model that a request is routed to, and one that ranks what was found for it."""

TEXT_ROUTES: Final = (
    Route(
        "chat",
        "POST",
        "/v1/chat/completions",
        _OPENAI_CHAT,
        _TEXT,
        _BODY,
        _CHAT,
        other_models=_OF_OPENAI_HOSTS,
        translated_for=_ALL,
        text_api=TextApi.CHAT,
    ),
    Route(
        "responses",
        "POST",
        "/v1/responses",
        _RESPONSES,
        _TEXT,
        _BODY,
        _CHAT,
        other_models=_OF_RESPONSES,
        model_optional=True,
        translated_for=_ALL,
        text_api=TextApi.RESPONSES,
    ),
    Route(
        "responses_input_tokens",
        "POST",
        "/v1/responses/input_tokens",
        _RESPONSES,
        _TEXT,
        _BODY,
        _COUNT,
        model_optional=True,
        translated_for=_ALL,
        text_api=TextApi.RESPONSES,
        metered=False,
        group="stored_responses",
    ),
    Route(
        "responses_compact",
        "POST",
        "/v1/responses/compact",
        _RESPONSES,
        _TEXT,
        _BODY,
        _RELAY,
        model_optional=True,
        body_models=(("model",),),
        other_models=_OF_OPENAI_HOSTS,
        text_api=TextApi.RESPONSES,
        group="stored_responses",
    ),
    Route(
        "completions",
        "POST",
        "/v1/completions",
        _OPENAI,
        _TEXT,
        _BODY,
        _RELAY,
        other_models=_OF_OPENAI_HOSTS,
    ),
    Route(
        "beta_completions",
        "POST",
        "/beta/completions",
        _OPENAI,
        _TEXT,
        _BODY,
        _RELAY,
        other_models=_OF_OPENAI_HOSTS,
        upstream_path="/completions",
        upstream_version="beta",
    ),
    Route(
        "embeddings",
        "POST",
        "/v1/embeddings",
        _OPENAI,
        _EMBEDDING,
        _BODY,
        _EMBED,
        translated_for=frozenset({Family.GEMINI}),
    ),
    Route("moderations", "POST", "/v1/moderations", _OPENAI, _TEXT, _BODY, _RELAY, model_optional=True),
    Route(
        "messages",
        "POST",
        "/v1/messages",
        _ANTHROPIC,
        _TEXT,
        _BODY,
        _CHAT,
        other_models=MESSAGE_MODELS,
        translated_for=_ALL,
    ),
    Route(
        "messages_count_tokens",
        "POST",
        "/v1/messages/count_tokens",
        _ANTHROPIC,
        _TEXT,
        _BODY,
        _COUNT,
        translated_for=_ALL,
        metered=False,
    ),
    Route(
        "generate_content",
        "POST",
        f"{_MODEL}:generateContent",
        _GEMINI,
        _TEXT,
        _PATH,
        _CHAT,
        other_models=_OF_VERTEX,
        translated_for=_ALL,
    ),
    Route(
        "stream_generate_content",
        "POST",
        f"{_MODEL}:streamGenerateContent",
        _GEMINI,
        _TEXT,
        _PATH,
        _CHAT,
        in_pieces=True,
        other_models=_OF_VERTEX,
        translated_for=_ALL,
    ),
    Route(
        "count_tokens",
        "POST",
        f"{_MODEL}:countTokens",
        _GEMINI,
        _TEXT,
        _PATH,
        _COUNT,
        body_models=(("generateContentRequest", "model"), ("generate_content_request", "model")),
        translated_for=_ALL,
        metered=False,
    ),
    Route(
        "embed_content",
        "POST",
        f"{_MODEL}:embedContent",
        _GEMINI,
        _EMBEDDING,
        _PATH,
        _RELAY,
        body_models=(("model",),),
    ),
    Route(
        "batch_embed_contents",
        "POST",
        f"{_MODEL}:batchEmbedContents",
        _GEMINI,
        _EMBEDDING,
        _PATH,
        _RELAY,
        body_models=(("requests", None, "model"),),
    ),
)
"""The text routes (contract 4.2)."""
