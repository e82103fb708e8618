"""All rows of the simulator: the text routes, the three vendors' resources, and what answers each.

A row that no module claims is answered by ``resources``.
"""

from collections.abc import Iterator
from typing import Final

from mgw.simulator import (
    anthropic_batches,
    gemini_batches,
    gemini_uploads,
    hosts,
    openai_audio,
    openai_files,
    openai_images,
    openai_more,
    openai_stored,
    openai_videos,
    platforms,
    resources_anthropic,
    resources_gemini,
    resources_openai,
)
from mgw.simulator.answer import Family, Handler
from mgw.simulator.anthropic_messages import count_tokens, messages
from mgw.simulator.gemini_content import generate, stream_generate
from mgw.simulator.gemini_more import batch_embed, count_gemini_tokens, embed
from mgw.simulator.models import drop_model, model_of, models_of
from mgw.simulator.openai_stored import chat, responses
from mgw.simulator.resources import handler_for
from mgw.simulator.table import Reads, Row, Table

Claims = dict[tuple[str, str], Handler]
"""By method and path, below the version."""

_OPENAI: Final[Claims] = {
    **openai_files.CLAIMS,
    **openai_stored.CLAIMS,
    **openai_images.CLAIMS,
    **openai_audio.CLAIMS,
    **openai_videos.CLAIMS,
    **hosts.CLAIMS,
    **platforms.OPENAI,
}
_ANTHROPIC: Final[Claims] = {**anthropic_batches.CLAIMS, **platforms.ANTHROPIC}
_GEMINI: Final[Claims] = {**gemini_batches.CLAIMS, **platforms.GEMINI}
_VERTEX: Final = "/projects/{}/locations/{}/publishers/google"
_VERBS: Final[dict[str, Handler]] = {
    "generateContent": generate,
    "streamGenerateContent": stream_generate,
    "countTokens": count_gemini_tokens,
    "embedContent": embed,
    "batchEmbedContents": batch_embed,
}
_TEXT: Final = (
    Row(Family.OPENAI, "POST", "/v1/chat/completions", chat, Reads.JSON),
    Row(Family.OPENAI, "POST", "/v1/completions", openai_more.completions, Reads.JSON),
    Row(Family.OPENAI, "POST", "/beta/completions", openai_more.completions, Reads.JSON),
    Row(Family.OPENAI, "POST", "/v1/responses", responses, Reads.JSON),
    Row(Family.OPENAI, "POST", "/v1/embeddings", openai_more.embeddings, Reads.JSON),
    Row(Family.OPENAI, "POST", "/v1/moderations", openai_more.moderations, Reads.JSON),
    Row(Family.ANTHROPIC, "POST", "/v1/messages", messages, Reads.JSON),
    Row(Family.ANTHROPIC, "POST", "/v1/messages/count_tokens", count_tokens, Reads.JSON),
    Row(Family.OPENAI, "DELETE", "/v1/models/{...}", drop_model, Reads.NOTHING, names_model=True),
)


def _resources(
    family: Family, version: str, paths: tuple[tuple[str, str], ...], claims: Claims
) -> Iterator[Row]:
    """The rows of a vendor's table."""
    for path, methods in paths:
        for method in methods.split():
            handler = claims.get((method, path)) or handler_for(method, version + path, methods.split())
            if family is Family.OPENAI:
                handler = platforms.demanding(path, handler)
            is_of_model = path.startswith(("/models/{...}", "/tunedModels/{}:"))
            yield Row(family, method, version + path, handler, names_model=is_of_model)


def _gemini(version: str) -> Iterator[Row]:
    yield from _resources(Family.GEMINI, f"/{version}", resources_gemini.PATHS, _GEMINI)
    for path in resources_gemini.UPLOADS:
        for method in ("POST", "PUT"):
            template = f"/upload/{version}{path}"
            yield Row(Family.GEMINI, method, template, gemini_uploads.upload, is_upload=True)
    for below in ("", _VERTEX):
        for models in ("models", "tunedModels"):
            for verb, handler in _VERBS.items():
                template = f"/{version}{below}/{models}/{{...}}:{verb}"
                yield Row(Family.GEMINI, "POST", template, handler, Reads.JSON, names_model=True)


def _models() -> Iterator[Row]:
    """The lists of models, which the vendors have at one path."""
    for family in Family:
        for version in resources_gemini.VERSIONS if family is Family.GEMINI else ("v1",):
            yield Row(family, "GET", f"/{version}/models", models_of, Reads.NOTHING)
            one = f"/{version}/models/{{...}}"
            yield Row(family, "GET", one, model_of, Reads.NOTHING, names_model=True)


def _all() -> Iterator[Row]:
    """Every row; of two for the same the last counts, so the generic ones come first."""
    yield from _resources(Family.OPENAI, "/v1", resources_openai.PATHS, _OPENAI)
    yield from _resources(Family.ANTHROPIC, "/v1", resources_anthropic.PATHS, _ANTHROPIC)
    for version in resources_gemini.VERSIONS:
        yield from _gemini(version)
    yield from _models()
    yield from _TEXT


ROWS: Final = tuple(_all())
TABLE: Final = Table(ROWS)
