"""What Gemini's clients ask for."""

from __future__ import annotations

from typing import Final

from tests.support.grid import GEMINI
from tests.support.surface.asked import read

_TEXT: Final = r"""
POST /v1beta/models/MODEL:generateContent { "contents":[{"parts":[{"text":"H\u0069"}]}], "model":"x" }
POST /v1beta/models/MODEL:streamGenerateContent?alt=sse { "contents":[{"parts":[{"text":"Hi"}]}] }
"""
_ANSWER: Final = r"""
POST /v1beta/models/MODEL:generateAnswer { "contents":[{"parts":[{"text":"Hi"}]}], "answerStyle":"VERBOSE" }
"""
_COUNT: Final = r"""
POST /v1beta/models/MODEL:countTokens {"generateContentRequest":{"model":"models/MODEL", "contents":[]}}
"""
_EMBEDDING: Final = r"""
POST /v1beta/models/MODEL:embedContent {"content":{"parts":[{"text":"Hi"}]}, "model" : "models/MODEL"}
POST /v1beta/models/MODEL:embedContent { "content":{"parts":[{"text":"Hi"}]} }
POST /v1beta/models/MODEL:batchEmbedContents {"requests":[ {"model":"models/MODEL"},{"model" : "MODEL"} ]}
"""
_ANSWERS: Final = r"""
POST /v1beta/interactions {"input":"Hi" , "model" : "MODEL"}
POST /v1beta/interactions { "agent":"agent-1","input" :"Hi" }
POST /v1beta/decisions {"input":"Hi","questions":{}, "model":"models/MODEL"}
"""
_STORED: Final = r"""
GET /v1beta/files?pageSize=2
POST /v1beta/files {"file":{ "displayName":"a" }}
POST /v1beta/files:register { "uris":["gs://b/a"] }
GET /v1beta/files/file-1
DELETE /v1beta/files/file-1
GET /v1beta/files/file-1:download?alt=media
POST /upload/v1beta/files?uploadType=multipart
PUT /upload/v1beta/files?upload_id=u-1&upload_protocol=resumable
POST /upload/v1beta/fileSearchStores/store-1:uploadToFileSearchStore
PUT /upload/v1beta/fileSearchStores/store-1:uploadToFileSearchStore?upload_id=u-1
POST /upload/v1beta/environments/env-1/files/a/b.txt
PUT /upload/v1beta/environments/env-1/files/a/b.txt?upload_id=u-1
GET /v1beta/interactions/int-1?stream=true
DELETE /v1beta/interactions/int-1
POST /v1beta/interactions/int-1/cancel
GET /v1beta/batches?pageSize=2
GET /v1beta/batches/batch-1
DELETE /v1beta/batches/batch-1
POST /v1beta/batches/batch-1:cancel
PATCH /v1beta/batches/batch-1:updateGenerateContentBatch?updateMask=priority { "priority":"2" }
PATCH /v1beta/batches/batch-1:updateEmbedContentBatch?updateMask=priority { "priority":"2" }
POST /v1beta/models/MODEL:batchGenerateContent {"batch":{"displayName":"a", "model" : "models/MODEL",
  "inputConfig":{"requests":{"requests":[{"request":{"model":"models/MODEL"}}, {"request":{}}]}}}}
POST /v1beta/models/MODEL:batchGenerateContent { "batch":{"input_config":{"file_name":"files/file-1"}} }
POST /v1beta/models/MODEL:asyncBatchEmbedContent {"batch":{"inputConfig":{"requests":{"requests":[
  {"request":{ "model" : "models/MODEL","content":{} }}]}}, "model":"models/MODEL"}}
POST /v1beta/models/MODEL:asyncBatchEmbedContent {"batch":{"input_config":{"requests":{"requests":[
  {"request":{ "model":"MODEL"}} ]}} }}
PATCH /v1beta/models/MODEL?updateMask=displayName
DELETE /v1beta/models/MODEL
GET /v1beta/models/veo-3/operations?pageSize=2
GET /v1beta/models/veo-3/operations/op-1
GET /v1beta/operations?filter=done
GET /v1beta/operations/op-1
DELETE /v1beta/operations/op-1
POST /v1beta/operations/op-1:cancel
GET /v1beta/cachedContents?pageSize=2
POST /v1beta/cachedContents {"ttl":"7s" , "model" : "models/MODEL"}
GET /v1beta/cachedContents/cache-1
PATCH /v1beta/cachedContents/cache-1?updateMask=ttl { "ttl":"9s" }
DELETE /v1beta/cachedContents/cache-1
GET /v1beta/corpora?pageSize=2
POST /v1beta/corpora { "displayName":"a" }
GET /v1beta/corpora/c-1
DELETE /v1beta/corpora/c-1
GET /v1beta/corpora/c-1/operations/op-1
GET /v1beta/corpora/c-1/permissions
POST /v1beta/corpora/c-1/permissions {"granteeType":"USER", "emailAddress":"a@x.example","role":"READER"}
GET /v1beta/corpora/c-1/permissions/perm-1
PATCH /v1beta/corpora/c-1/permissions/perm-1?updateMask=role { "role":"WRITER" }
DELETE /v1beta/corpora/c-1/permissions/perm-1
GET /v1beta/generatedFiles?pageSize=2
GET /v1beta/generatedFiles/g-1/operations/op-1
GET /v1beta/fileSearchStores?pageSize=2
POST /v1beta/fileSearchStores {"displayName":"a", "embeddingModel" : "models/MODEL"}
POST /v1beta/fileSearchStores { "embedding_model":"models/MODEL" }
POST /v1beta/fileSearchStores { "display_name":"a" }
GET /v1beta/fileSearchStores/store-1
DELETE /v1beta/fileSearchStores/store-1?force=true
POST /v1beta/fileSearchStores/store-1:importFile { "fileName":"files/file-1" }
GET /v1beta/fileSearchStores/store-1/documents
GET /v1beta/fileSearchStores/store-1/documents/doc-1
DELETE /v1beta/fileSearchStores/store-1/documents/doc-1
GET /v1beta/fileSearchStores/store-1/media/blob-1
GET /v1beta/fileSearchStores/store-1/operations/op-1
GET /v1beta/fileSearchStores/store-1/upload/operations/op-1
GET /v1beta/tunedModels?pageSize=2&filter=me
POST /v1beta/tunedModels?tunedModelId=t-1 {"displayName":"a", "baseModel" : "models/MODEL","tuningTask":{}}
POST /v1beta/tunedModels { "base_model":"models/MODEL" }
GET /v1beta/tunedModels/t-1
PATCH /v1beta/tunedModels/t-1?updateMask=description { "description":"H\u0069" }
DELETE /v1beta/tunedModels/t-1
POST /v1beta/tunedModels/t-1:cancel
POST /v1beta/tunedModels/t-1:transferOwnership { "emailAddress":"a@x.example" }
GET /v1beta/tunedModels/t-1/operations?pageSize=2
GET /v1beta/tunedModels/t-1/operations/op-1
GET /v1beta/tunedModels/t-1/permissions?pageSize=2
POST /v1beta/tunedModels/t-1/permissions {"granteeType":"USER", "emailAddress":"a@x.example","role":"READER"}
GET /v1beta/tunedModels/t-1/permissions/perm-1
PATCH /v1beta/tunedModels/t-1/permissions/perm-1?updateMask=role { "role":"WRITER" }
DELETE /v1beta/tunedModels/t-1/permissions/perm-1
POST /v1beta/auth_tokens {"bidiGenerateContentSetup":{"setup":{ "model":"models/MODEL" }}}
POST /v1beta/auth_tokens {"bidiGenerateContentSetup" : {"model" :"models/MODEL"}}
"""

BY_GEMINI: Final = (
    *read(GEMINI, _TEXT, modality="text", tells=True),
    *read(GEMINI, _ANSWER, modality="text", tells=True),
    *read(GEMINI, _COUNT, modality="text"),
    *read(GEMINI, _EMBEDDING, modality="embedding", tells=True),
    *read(GEMINI, _ANSWERS, tells=True),
    *read(GEMINI, _STORED),
)
