"""The text routes (contract 4.2)."""

from __future__ import annotations

import re
from functools import partial
from itertools import product
from typing import Final

from mgw.nouns.vocabulary import DialectName, Family, Modality, TextApi
from mgw.routing.model_source import (
    IN_BODY,
    MESSAGE_MODELS,
    MODEL_LIST,
    ModelAt,
    ModelSource,
    Path,
)
from mgw.routing.route import Call, Route, Treatment

_TEXT: Final = Modality.TEXT
_EMBEDDING: Final = Modality.EMBEDDING
_RELAY: Final = Treatment.RELAY
_CHAT: Final = Treatment.CHAT
_EMBED: Final = Treatment.EMBED
_COUNT: Final = Treatment.COUNT
_OPENAI_CHAT: Final = DialectName.OPENAI_CHAT
_RESPONSES: Final = DialectName.OPENAI_RESPONSES
_OPENAI: Final = DialectName.OPENAI
_ANTHROPIC: Final = DialectName.ANTHROPIC
_GEMINI: Final = DialectName.GEMINI

_BODY: Final = partial(ModelSource, ModelAt.BODY)
_PATH: Final = partial(ModelSource, ModelAt.PATH)
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
        _BODY(others=_OF_OPENAI_HOSTS),
        _CHAT,
        translated_for=_ALL,
        text_api=TextApi.CHAT,
    ),
    Route(
        "responses",
        "POST",
        "/v1/responses",
        _RESPONSES,
        _TEXT,
        _BODY(others=_OF_RESPONSES, optional=True),
        _CHAT,
        translated_for=_ALL,
        text_api=TextApi.RESPONSES,
    ),
    Route(
        "responses_input_tokens",
        "POST",
        "/v1/responses/input_tokens",
        _RESPONSES,
        _TEXT,
        _BODY(optional=True),
        _COUNT,
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
        _BODY(paths=(("model",),), others=_OF_OPENAI_HOSTS, optional=True),
        _RELAY,
        text_api=TextApi.RESPONSES,
        group="stored_responses",
    ),
    Route("completions", "POST", "/v1/completions", _OPENAI, _TEXT, _BODY(others=_OF_OPENAI_HOSTS), _RELAY),
    Route(
        "beta_completions",
        "POST",
        "/beta/completions",
        _OPENAI,
        _TEXT,
        _BODY(others=_OF_OPENAI_HOSTS),
        _RELAY,
        call=Call("/completions", version="beta"),
    ),
    Route(
        "embeddings",
        "POST",
        "/v1/embeddings",
        _OPENAI,
        _EMBEDDING,
        IN_BODY,
        _EMBED,
        translated_for=frozenset({Family.GEMINI}),
    ),
    Route("moderations", "POST", "/v1/moderations", _OPENAI, _TEXT, _BODY(optional=True), _RELAY),
    Route(
        "messages",
        "POST",
        "/v1/messages",
        _ANTHROPIC,
        _TEXT,
        _BODY(others=MESSAGE_MODELS),
        _CHAT,
        translated_for=_ALL,
    ),
    Route(
        "messages_count_tokens",
        "POST",
        "/v1/messages/count_tokens",
        _ANTHROPIC,
        _TEXT,
        IN_BODY,
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
        _PATH(others=_OF_VERTEX),
        _CHAT,
        translated_for=_ALL,
    ),
    Route(
        "stream_generate_content",
        "POST",
        f"{_MODEL}:streamGenerateContent",
        _GEMINI,
        _TEXT,
        _PATH(others=_OF_VERTEX),
        _CHAT,
        in_pieces=True,
        translated_for=_ALL,
    ),
    Route(
        "count_tokens",
        "POST",
        f"{_MODEL}:countTokens",
        _GEMINI,
        _TEXT,
        _PATH(paths=(("generateContentRequest", "model"), ("generate_content_request", "model"))),
        _COUNT,
        translated_for=_ALL,
        metered=False,
    ),
    Route(
        "embed_content",
        "POST",
        f"{_MODEL}:embedContent",
        _GEMINI,
        _EMBEDDING,
        _PATH(paths=(("model",),)),
        _RELAY,
    ),
    Route(
        "batch_embed_contents",
        "POST",
        f"{_MODEL}:batchEmbedContents",
        _GEMINI,
        _EMBEDDING,
        _PATH(paths=(("requests", None, "model"),)),
        _RELAY,
    ),
)
"""The text routes (contract 4.2)."""
