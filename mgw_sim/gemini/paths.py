"""The paths of Google's Gemini API below its versions: each with its methods.

Source: ``google.genai`` 3.6 in its Developer API mode: the modules of files, caches, batches, file search
stores, documents, models, operations, tokens and tunings, and the resources of ``_gaos``.  ``{}`` is an
identifier, ``{...}`` whatever is left; a verb stands behind its colon.
"""

from typing import Final

VERSIONS: Final = ("v1", "v1beta", "v1alpha")
PATHS: Final[tuple[tuple[str, str], ...]] = (
    ("/agents", "GET POST"),
    ("/agents/{}", "GET DELETE"),
    ("/auth_tokens", "POST"),
    ("/batches", "GET"),
    ("/batches/{}", "GET DELETE"),
    ("/batches/{}:cancel", "POST"),
    ("/batches/{}:updateEmbedContentBatch", "PATCH"),
    ("/batches/{}:updateGenerateContentBatch", "PATCH"),
    ("/cachedContents", "GET POST"),
    ("/cachedContents/{}", "GET PATCH DELETE"),
    ("/corpora", "GET POST"),
    ("/corpora/{}", "GET DELETE"),
    ("/corpora/{}/operations/{}", "GET"),
    ("/corpora/{}/permissions", "GET POST"),
    ("/corpora/{}/permissions/{}", "GET PATCH DELETE"),
    ("/credentials", "GET POST"),
    ("/credentials/{}", "GET PATCH DELETE"),
    ("/decisions", "POST"),
    ("/environments", "GET POST"),
    ("/environments/{}", "GET DELETE"),
    ("/environments/{}/files/{...}", "GET"),
    ("/files", "GET POST"),
    ("/files/{}", "GET DELETE"),
    ("/files/{}:download", "GET"),
    ("/files:register", "POST"),
    ("/fileSearchStores", "GET POST"),
    ("/fileSearchStores/{}", "GET DELETE"),
    ("/fileSearchStores/{}:importFile", "POST"),
    ("/fileSearchStores/{}/documents", "GET"),
    ("/fileSearchStores/{}/documents/{}", "GET DELETE"),
    ("/fileSearchStores/{}/media/{}", "GET"),
    ("/fileSearchStores/{}/operations/{}", "GET"),
    ("/fileSearchStores/{}/upload/operations/{}", "GET"),
    ("/generatedFiles", "GET"),
    ("/generatedFiles/{}/operations/{}", "GET"),
    ("/interactions", "POST"),
    ("/interactions/{}", "GET DELETE"),
    ("/interactions/{}/auth_tokens", "POST"),
    ("/interactions/{}/auth_tokens/{}", "DELETE"),
    ("/interactions/{}/cancel", "POST"),
    ("/models/{...}", "PATCH DELETE"),
    ("/models/{...}:asyncBatchEmbedContent", "POST"),
    ("/models/{...}:batchGenerateContent", "POST"),
    ("/models/{...}:generateAnswer", "POST"),
    ("/models/{...}:predict", "POST"),
    ("/models/{...}:predictLongRunning", "POST"),
    ("/models/{}/operations/{}", "GET"),
    ("/operations/{}", "GET DELETE"),
    ("/operations/{}:cancel", "POST"),
    ("/triggers", "GET POST"),
    ("/triggers/{}", "GET PATCH DELETE"),
    ("/triggers/{}/executions", "GET POST"),
    ("/tunedModels", "GET POST"),
    ("/tunedModels/{}", "GET PATCH DELETE"),
    ("/tunedModels/{}:asyncBatchEmbedContent", "POST"),
    ("/tunedModels/{}:batchGenerateContent", "POST"),
    ("/tunedModels/{}:cancel", "POST"),
    ("/tunedModels/{}:transferOwnership", "POST"),
    ("/tunedModels/{}/operations", "GET"),
    ("/tunedModels/{}/operations/{}", "GET"),
    ("/tunedModels/{}/permissions", "GET POST"),
    ("/tunedModels/{}/permissions/{}", "GET PATCH DELETE"),
    ("/voices", "GET POST"),
    ("/voices/{}", "GET DELETE"),
    ("/webhooks", "GET POST"),
    ("/webhooks/{}", "GET PATCH DELETE"),
    ("/webhooks/{}:ping", "POST"),
    ("/webhooks/{}:rotateSigningSecret", "POST"),
)
UPLOAD_PATHS: Final = (
    "/environments/{}/files/{...}",
    "/files",
    "/fileSearchStores/{}:uploadToFileSearchStore",
)
"""Below ``/upload`` and the version."""
BY_ID: Final = frozenset(
    {"agents", "credentials", "environments", "executions", "interactions", "triggers", "voices", "webhooks"}
)
"""The collections whose objects have an ``id`` and words with underscores; the others have a ``name``."""
