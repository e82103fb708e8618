"""Paths that Gemini clients call besides text and media (contract 4.4).

The paths are those of Google's SDK and of the discovery document of its Developer API.  Its servers read the
names of members in either spelling, ``likeThis`` and ``like_this``.
"""

from __future__ import annotations

from typing import Final

from mgw.nouns.vocabulary import DialectName, Modality
from mgw.routing.model_source import IN_PATH, ModelAt, ModelSource, Path, in_body
from mgw.routing.resources import Resource, routes_of
from mgw.routing.route import Call, UrlRewrite

_MODEL: Final = in_body(("model",))
_BASE_MODEL: Final = in_body(("baseModel",), ("base_model",))
_EMBEDDING_MODEL: Final = in_body(("embeddingModel",), ("embedding_model",))
_SETUP: Final = in_body(
    *(
        (name, *path)
        for name in ("bidiGenerateContentSetup", "bidi_generate_content_setup")
        for path in (("setup", "model"), ("model",))
    )
)
_OF_AGENT: Final = (("agent_config", "model"), ("agentConfig", "model"))
_AGENT: Final = in_body(*_OF_AGENT)
_OF_INTERACTION: Final = (("model",), *_OF_AGENT)
_INTERACTION: Final = in_body(*_OF_INTERACTION)
_TRIGGER: Final = in_body(*(("interaction", *path) for path in _OF_INTERACTION))
_OF_INLINED: Final[tuple[Path, ...]] = (
    ("batch", "model"),
    ("batch", "inputConfig", "requests", "requests", None, "request", "model"),
    ("batch", "input_config", "requests", "requests", None, "request", "model"),
)
"""The requests of a batch that stands in the body; each may repeat the model of the path."""
_INLINED: Final = ModelSource(ModelAt.PATH, _OF_INLINED)
_UPLOAD: Final = Call(prefix="/upload")

_RESOURCES: Final = (
    Resource("/v1beta/files", "GET POST"),
    Resource("/v1beta/files:register", "POST"),
    Resource("/v1beta/files/{file}", "GET DELETE"),
    Resource("/v1beta/files/{file}:download", "GET"),
    Resource("/upload/v1beta/files", "POST PUT", url_rewrite=UrlRewrite.UPLOAD_URL, call=_UPLOAD),
    Resource("/v1beta/batches", "GET"),
    Resource("/v1beta/batches/{batch}", "GET DELETE"),
    Resource("/v1beta/batches/{batch}:cancel", "POST"),
    Resource("/v1beta/batches/{batch}:updateGenerateContentBatch", "PATCH"),
    Resource("/v1beta/batches/{batch}:updateEmbedContentBatch", "PATCH"),
    Resource("/v1beta/models/{model}:batchGenerateContent", "POST", _INLINED, hides_cost=True),
    Resource("/v1beta/models/{model}:asyncBatchEmbedContent", "POST", _INLINED, hides_cost=True),
    Resource(
        "/v1beta/models/{model}:generateAnswer",
        "POST",
        models=IN_PATH,
        modality=Modality.TEXT,
        metered=True,
        answers_in_text=True,
    ),
    Resource("/v1beta/models/{model}", "PATCH DELETE", IN_PATH),
    Resource("/v1beta/models/{model}/operations", "GET"),
    Resource("/v1beta/models/{model}/operations/{operation}", "GET"),
    Resource("/v1beta/operations", "GET"),
    Resource("/v1beta/operations/{operation}", "GET DELETE"),
    Resource("/v1beta/operations/{operation}:cancel", "POST"),
    Resource("/v1beta/cachedContents", "GET POST", _MODEL),
    Resource("/v1beta/cachedContents/{cache}", "GET PATCH DELETE"),
    Resource("/v1beta/corpora", "GET POST"),
    Resource("/v1beta/corpora/{corpus}", "GET DELETE"),
    Resource("/v1beta/corpora/{corpus}/operations/{operation}", "GET"),
    Resource("/v1beta/corpora/{corpus}/permissions", "GET POST"),
    Resource("/v1beta/corpora/{corpus}/permissions/{permission}", "GET PATCH DELETE"),
    Resource("/v1beta/fileSearchStores", "GET POST", _EMBEDDING_MODEL),
    Resource("/v1beta/fileSearchStores/{store}", "GET DELETE"),
    Resource("/v1beta/fileSearchStores/{store}:importFile", "POST"),
    Resource("/v1beta/fileSearchStores/{store}/documents", "GET"),
    Resource("/v1beta/fileSearchStores/{store}/documents/{document}", "GET DELETE"),
    Resource("/v1beta/fileSearchStores/{store}/media/{media}", "GET"),
    Resource("/v1beta/fileSearchStores/{store}/operations/{operation}", "GET"),
    Resource("/v1beta/fileSearchStores/{store}/upload/operations/{operation}", "GET"),
    Resource(
        "/upload/v1beta/fileSearchStores/{store}:uploadToFileSearchStore",
        "POST PUT",
        url_rewrite=UrlRewrite.UPLOAD_URL,
        call=_UPLOAD,
    ),
    Resource("/v1beta/generatedFiles", "GET"),
    Resource("/v1beta/generatedFiles/{file}/operations/{operation}", "GET"),
    Resource("/v1beta/tunedModels", "GET POST", _BASE_MODEL, hides_cost=True),
    Resource("/v1beta/tunedModels/{tuned_model}", "GET PATCH DELETE"),
    Resource("/v1beta/tunedModels/{tuned_model}:cancel", "POST"),
    Resource("/v1beta/tunedModels/{tuned_model}:transferOwnership", "POST"),
    Resource("/v1beta/tunedModels/{tuned_model}/operations", "GET"),
    Resource("/v1beta/tunedModels/{tuned_model}/operations/{operation}", "GET"),
    Resource("/v1beta/tunedModels/{tuned_model}/permissions", "GET POST"),
    Resource("/v1beta/tunedModels/{tuned_model}/permissions/{permission}", "GET PATCH DELETE"),
    Resource("/v1beta/interactions", "POST", _INTERACTION, metered=True, answers_in_text=True),
    Resource("/v1beta/interactions/{interaction}", "GET DELETE"),
    Resource("/v1beta/interactions/{interaction}/cancel", "POST"),
    Resource("/v1beta/interactions/{interaction}/auth_tokens", "POST", hides_cost=True),
    Resource("/v1beta/interactions/{interaction}/auth_tokens/{auth_token}", "DELETE"),
    Resource("/v1beta/agents", "GET POST", _AGENT),
    Resource("/v1beta/agents/{agent}", "GET DELETE"),
    Resource("/v1beta/environments", "GET POST"),
    Resource("/v1beta/environments/{environment}", "GET DELETE"),
    Resource("/v1beta/environments/{environment}/files/{path}", "GET"),
    Resource(
        "/upload/v1beta/environments/{environment}/files/{path}",
        "POST PUT",
        url_rewrite=UrlRewrite.UPLOAD_URL,
        call=_UPLOAD,
    ),
    Resource("/v1beta/triggers", "GET POST", _TRIGGER, hides_cost=True),
    Resource("/v1beta/triggers/{trigger}", "GET PATCH DELETE", _TRIGGER, hides_cost=True),
    Resource("/v1beta/triggers/{trigger}/executions", "GET POST", hides_cost=True),
    Resource("/v1beta/voices", "GET POST", in_body(("voice", "model"))),
    Resource("/v1beta/voices/{voice}", "GET DELETE"),
    Resource("/v1beta/webhooks", "GET POST"),
    Resource("/v1beta/webhooks/{webhook}", "GET PATCH DELETE"),
    Resource("/v1beta/webhooks/{webhook}:ping", "POST"),
    Resource("/v1beta/webhooks/{webhook}:rotateSigningSecret", "POST"),
    Resource("/v1beta/credentials", "GET POST"),
    Resource("/v1beta/credentials/{credential}", "GET PATCH DELETE"),
    Resource("/v1beta/decisions", "POST", _MODEL, metered=True, answers_in_text=True),
    Resource("/v1beta/auth_tokens", "POST", _SETUP, hides_cost=True),
)

GEMINI_ROUTES: Final = routes_of(DialectName.GEMINI, _RESOURCES)
"""Files and uploads, batches, caches, stores, tuned models, interactions and agents."""
