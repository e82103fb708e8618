"""All routes of the simulator: the text routes, the three vendors' resources, and the handler of each.

A path without a handler of its own is served by ``platform.resources``.
"""

from collections.abc import Iterator
from typing import Final

from mgw_sim.anthropic.messages import count_tokens, messages
from mgw_sim.anthropic.paths import PATHS as ANTHROPIC_PATHS
from mgw_sim.anthropic.platform import HANDLERS as ANTHROPIC_HANDLERS
from mgw_sim.api import Family, Handler
from mgw_sim.aws.bedrock import count_tokens as count_bedrock_tokens
from mgw_sim.aws.bedrock import foundation_models, inference_profiles, invoke, invoke_stream
from mgw_sim.families import delete_model, get_model, list_models
from mgw_sim.gemini.content import (
    batch_embed_contents,
    embed_content,
    generate_content,
    predict,
    stream_generate_content,
)
from mgw_sim.gemini.content import (
    count_tokens as count_gemini_tokens,
)
from mgw_sim.gemini.live import constrained_live, live
from mgw_sim.gemini.live_interactions import live_interaction
from mgw_sim.gemini.paths import PATHS as GEMINI_PATHS
from mgw_sim.gemini.paths import UPLOAD_PATHS, VERSIONS
from mgw_sim.gemini.platform import HANDLERS as GEMINI_HANDLERS
from mgw_sim.gemini.uploads import upload
from mgw_sim.gemini.vertex_anthropic import raw_predict, stream_raw_predict
from mgw_sim.http.router import WEBSOCKET, BodyKind, Route, Router
from mgw_sim.openai.audio import AUDIO_HANDLERS
from mgw_sim.openai.chat import chat_and_store
from mgw_sim.openai.compatible import COMPATIBLE_HANDLERS
from mgw_sim.openai.completions import completions, embeddings, moderations
from mgw_sim.openai.images import IMAGE_HANDLERS
from mgw_sim.openai.paths import PATHS as OPENAI_PATHS
from mgw_sim.openai.platform import PLATFORM_HANDLERS, require_beta_header
from mgw_sim.openai.realtime import realtime
from mgw_sim.openai.responses import RESPONSE_HANDLERS, responses_and_store
from mgw_sim.openai.responses_websocket import responses_websocket
from mgw_sim.platform.files import FILE_HANDLERS
from mgw_sim.platform.resources import handler_for

_Handlers = dict[tuple[str, str], Handler]
"""The handlers by method and path, below the version."""
_OPENAI_HANDLERS: Final[_Handlers] = {
    **FILE_HANDLERS,
    **RESPONSE_HANDLERS,
    **IMAGE_HANDLERS,
    **AUDIO_HANDLERS,
    **COMPATIBLE_HANDLERS,
    **PLATFORM_HANDLERS,
}
_VERTEX: Final = "/projects/{}/locations/{}/publishers/google"
_VERBS: Final[dict[str, Handler]] = {
    "generateContent": generate_content,
    "streamGenerateContent": stream_generate_content,
    "countTokens": count_gemini_tokens,
    "embedContent": embed_content,
    "batchEmbedContents": batch_embed_contents,
}
_CLAUDE_ON_VERTEX: Final = "/v1/projects/{}/locations/{}/publishers/anthropic/models/{...}"
_TEXT_ROUTES: Final = (
    Route(Family.OPENAI, "POST", "/v1/chat/completions", chat_and_store, BodyKind.JSON),
    Route(Family.OPENAI, "POST", "/v1/completions", completions, BodyKind.JSON),
    Route(Family.OPENAI, "POST", "/beta/completions", completions, BodyKind.JSON),
    Route(Family.OPENAI, "POST", "/v1/responses", responses_and_store, BodyKind.JSON),
    Route(Family.OPENAI, "POST", "/v1/embeddings", embeddings, BodyKind.JSON),
    Route(Family.OPENAI, "POST", "/v1/moderations", moderations, BodyKind.JSON),
    Route(Family.ANTHROPIC, "POST", "/v1/messages", messages, BodyKind.JSON),
    Route(Family.ANTHROPIC, "POST", "/v1/messages/count_tokens", count_tokens, BodyKind.JSON),
    Route(Family.OPENAI, "DELETE", "/v1/models/{...}", delete_model, BodyKind.NOTHING, names_model=True),
)


_CLOUD_ROUTES: Final = (
    Route(Family.BEDROCK, "POST", "/model/{}/invoke", invoke, BodyKind.JSON, names_model=True),
    Route(
        Family.BEDROCK,
        "POST",
        "/model/{}/invoke-with-response-stream",
        invoke_stream,
        BodyKind.JSON,
        names_model=True,
    ),
    Route(
        Family.BEDROCK,
        "POST",
        "/model/{}/count-tokens",
        count_bedrock_tokens,
        BodyKind.JSON,
        names_model=True,
    ),
    Route(Family.BEDROCK, "GET", "/foundation-models", foundation_models, BodyKind.NOTHING),
    Route(Family.BEDROCK, "GET", "/inference-profiles", inference_profiles, BodyKind.NOTHING),
    Route(
        Family.VERTEX,
        "POST",
        f"{_CLAUDE_ON_VERTEX}:rawPredict",
        raw_predict,
        BodyKind.JSON,
        names_model=True,
    ),
    Route(
        Family.VERTEX,
        "POST",
        f"{_CLAUDE_ON_VERTEX}:streamRawPredict",
        stream_raw_predict,
        BodyKind.JSON,
        names_model=True,
    ),
)


def _resource_routes(
    family: Family, version: str, paths: tuple[tuple[str, str], ...], handlers: _Handlers
) -> Iterator[Route]:
    """The routes of a vendor's table."""
    for path, methods in paths:
        for method in methods.split():
            handler = handlers.get((method, path)) or handler_for(method, version + path, methods.split())
            if family is Family.OPENAI:
                handler = require_beta_header(path, handler)
            is_of_model = path.startswith(("/models/{...}", "/tunedModels/{}:"))
            yield Route(family, method, version + path, handler, names_model=is_of_model)


def _gemini_routes(version: str) -> Iterator[Route]:
    yield from _resource_routes(Family.GEMINI, f"/{version}", GEMINI_PATHS, GEMINI_HANDLERS)
    for path in UPLOAD_PATHS:
        for method in ("POST", "PUT"):
            template = f"/upload/{version}{path}"
            yield Route(Family.GEMINI, method, template, upload, is_upload=True)
    for below in ("", _VERTEX):
        for models in ("models", "tunedModels"):
            for verb, handler in _VERBS.items():
                template = f"/{version}{below}/{models}/{{...}}:{verb}"
                yield Route(Family.GEMINI, "POST", template, handler, BodyKind.JSON, names_model=True)
    template = f"/{version}{_VERTEX}/models/{{...}}:predict"
    yield Route(Family.GEMINI, "POST", template, predict, BodyKind.JSON, names_model=True)


def _websocket_routes() -> Iterator[Route]:
    """Yield the routes that a client gets to by an upgrade."""
    none = BodyKind.NOTHING
    yield Route(Family.OPENAI, WEBSOCKET, "/v1/realtime", realtime, none)
    yield Route(Family.OPENAI, WEBSOCKET, "/v1/responses", responses_websocket, none)
    for version in VERSIONS:
        service = f"/ws/google.ai.generativelanguage.{version}.GenerativeService"
        yield Route(Family.GEMINI, WEBSOCKET, f"{service}.BidiGenerateContent", live, none)
        constrained = f"{service}.BidiGenerateContentConstrained"
        yield Route(Family.GEMINI, WEBSOCKET, constrained, constrained_live, none)
        yield Route(Family.GEMINI, WEBSOCKET, f"/{version}/interactions/live", live_interaction, none)
        template = f"/{version}/models/{{...}}:bidiGenerateContent"
        yield Route(Family.GEMINI, WEBSOCKET, template, live, none, names_model=True)


def _model_routes() -> Iterator[Route]:
    """The lists of models, which the vendors have at one path."""
    for family in (Family.OPENAI, Family.ANTHROPIC, Family.GEMINI):
        for version in VERSIONS if family is Family.GEMINI else ("v1",):
            yield Route(family, "GET", f"/{version}/models", list_models, BodyKind.NOTHING)
            one = f"/{version}/models/{{...}}"
            yield Route(family, "GET", one, get_model, BodyKind.NOTHING, names_model=True)


def _all_routes() -> Iterator[Route]:
    """Every route; of two for the same the last counts, so the generic ones come first."""
    yield from _resource_routes(Family.OPENAI, "/v1", OPENAI_PATHS, _OPENAI_HANDLERS)
    yield from _resource_routes(Family.ANTHROPIC, "/v1", ANTHROPIC_PATHS, ANTHROPIC_HANDLERS)
    for version in VERSIONS:
        yield from _gemini_routes(version)
    yield from _model_routes()
    yield from _TEXT_ROUTES
    yield from _CLOUD_ROUTES
    yield from _websocket_routes()


ROUTES: Final = tuple(_all_routes())
ROUTER: Final = Router(ROUTES)
