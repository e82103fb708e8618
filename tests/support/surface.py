"""The vendors' surface as the specification has it (4.2, 4.3, 4.5, and decisions, part 4), a request to each path.

Written from the specification, the decisions, the vendors' references and their SDKs, and from nothing of the
gateway.  Images, videos and sound stand in :mod:`tests.support.grid`; what else the SDKs call is walked in
:mod:`tests.support.sdk_walk`.  What is read by no method of an SDK stands here alone.

In a table, a line is a method, a path and a body, which goes on in the lines below that begin with a blank.
``MODEL`` stands where a request names its model: a bare one, an alias or one with a prefix.  A body that
writes none does so because the vendor's has none there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tests.support.grid import ANTHROPIC, BOUNDARY, COMPAT, FORM_TYPE, GEMINI, JSON_TYPE, OPENAI

SECOND: Final = {OPENAI: COMPAT, ANTHROPIC: f"other_{ANTHROPIC}", GEMINI: f"other_{GEMINI}"}
"""By family: the provider that is not its default, as :mod:`tests.support.stage` names it."""
ALIAS: Final = {family: f"known-to-{family}" for family in SECOND}
"""By family: an alias of a model of that provider."""
ALIASES: Final = "aliases:\n" + "".join(f"  {ALIAS[family]}: {SECOND[family]}/m-1\n" for family in SECOND)

SIGNED: Final = ("anthropic-version: 2023-06-01",)
GOOGLES: Final = ("x-goog-api-client: genai-sdk/3",)
_ASSISTANTS: Final = ("OpenAI-Beta: assistants=v2",)
_CHATKIT: Final = ("OpenAI-Beta: chatkit_beta=v1",)
_SDP: Final = "Content-Type: application/sdp"

PLAIN: Final = b'{ "name":"H\\u0069", "n" : 1.0e0,\n\t"n":2, "metadata": {"model":"known-to-openai"} }'
"""What is sent where a line has no body, and a method takes one: nothing in it names a model."""


@dataclass(frozen=True)
class Asked:
    """One request, and where it belongs."""

    family: str
    method: str
    path: str
    """With its query; Gemini's under ``/v1beta``, though each is served under three versions."""
    body: bytes = b""
    headers: tuple[str, ...] = ()
    modality: str = "platform"
    tells: bool = False
    """Whether the answer tells the tokens of this very request."""
    chooses: bool = True
    """Whether its model chooses the provider; those of a batch do not."""

    @property
    def name(self) -> str:
        """What tests call it."""
        signs = " ".join(header.partition(":")[0] for header in self.headers)
        return f"{self.family} {self.method} {self.path} {signs}".strip()

    @property
    def names_model(self) -> bool:
        """Whether it names a model."""
        return "MODEL" in self.path or b"MODEL" in self.body

    def naming(self, model: str) -> Asked:
        """The same request for a model."""
        body = self.body.replace(b"MODEL", model.encode())
        return replace(self, path=self.path.replace("MODEL", model), body=body)

    def choosing(self, provider: str) -> Asked:
        """The same request, which says in a header which provider it means."""
        return replace(self, headers=(*self.headers, f"X-Provider: {provider}"))

    def in_version(self, version: str) -> Asked:
        """The same request under another version of Gemini's, as Google's SDK sends it."""
        path = self.path.replace("/v1beta/", f"/{version}/", 1)
        return replace(self, path=path, headers=(*self.headers, *GOOGLES))

    def request(self, key: str) -> bytes:
        """The request in HTTP, with a key of the gateway's."""
        head = [f"{self.method} {self.path} HTTP/1.1", "Host: gateway", f"Authorization: Bearer {key}"]
        head += self.headers
        if self.body:
            if not any(header.startswith("Content-Type") for header in self.headers):
                head.append(f"Content-Type: {FORM_TYPE if self.body.startswith(b'--') else JSON_TYPE}")
            head.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*head, "", ""]).encode() + self.body


def _read(
    family: str, table: str, *signs: str, modality: str = "platform", tells: bool = False
) -> Iterator[Asked]:
    for line in re.split(r"\n(?=\S)", table.strip()):
        method, path, *rest = line.split(None, 2)
        plain = PLAIN if method in ("POST", "PATCH", "PUT") else b""
        yield Asked(family, method, path, rest[0].encode() if rest else plain, signs, modality, tells)


def _form(family: str, path: str, *parts: tuple[str, bytes]) -> Asked:
    pieces = [f"--{BOUNDARY}\r\nContent-Disposition: form-data; name={name}\r\n\r\n" for name, _ in parts]
    whole = b"".join(head.encode() + value + b"\r\n" for head, (_, value) in zip(pieces, parts, strict=True))
    return Asked(family, "POST", path, whole + f"--{BOUNDARY}--\r\n".encode())


_FILE: Final = ('"file"; filename="a.bin"', b'\x00\xff--not the boundary\r\n"model":"known-to-openai"')

_OPENAI_TEXT: Final = r"""
POST /v1/chat/completions {"messages":[ {"role":"user", "content":"H\u0069"} ],
  "model" : "MODEL", "n":1.0e0}
POST /v1/responses { "input":"Hi",  "model" : "MODEL", "tools":[{"type":"custom","name":"t"}] }
POST /v1/responses/compact {"model":"MODEL" ,"input":"Hi"}
POST /v1/completions {"prompt":"Hi", "suffix":"!","model"  : "MODEL"}
POST /beta/completions {"prompt":"Hi", "suffix":"!","model"  : "MODEL"}
POST /v1/moderations {"input" :"Hi","model": "MODEL"}
POST /v1/moderations {"input" :"Hi"}
"""
_OPENAI_EMBEDDING: Final = r"""
POST /v1/embeddings { "input":["Hi"], "dimensions" : 8, "model":"MODEL","encoding_format":"float" }
"""
_OPENAI_ANSWERS: Final = r"""
POST /v1/rerank {"query":"q","top_n":1, "documents" : ["a","b"], "model" : "MODEL"}
POST /v1/ocr { "document":{"type":"document_url","document_url":"https://x.example/a.pdf"},"model":"MODEL"}
POST /v1/decisions {"questions" : {}, "input":"Hi", "model": "MODEL"}
GET /v1/chat/deferred-completion/0b7d-11
"""
"""No text routes, and yet each tells what a model took for it: reranking (Cohere, Jina), OCR (Mistral), xAI's."""

_OPENAI_THREADS_ANSWER: Final = r"""
POST /v1/threads/runs {"assistant_id":"asst_1", "model" : "MODEL"}
POST /v1/threads/thread_1/runs {"assistant_id":"asst_1","model" :"MODEL", "temperature":1.0}
POST /v1/threads/thread_1/runs/run_1/submit_tool_outputs { "tool_outputs":[] }
"""
_OPENAI_THREADS: Final = r"""
GET /v1/assistants?limit=2&order=desc
POST /v1/assistants {"name":"a" , "model" : "MODEL","top_p":1e0}
GET /v1/assistants/asst_1
POST /v1/assistants/asst_1 { "model":"MODEL" }
POST /v1/assistants/asst_1
DELETE /v1/assistants/asst_1
POST /v1/threads
GET /v1/threads/thread_1
POST /v1/threads/thread_1
DELETE /v1/threads/thread_1
GET /v1/threads/thread_1/messages?run_id=run_1
POST /v1/threads/thread_1/messages { "role":"user","content" : "Hi" }
GET /v1/threads/thread_1/messages/msg_1
POST /v1/threads/thread_1/messages/msg_1
DELETE /v1/threads/thread_1/messages/msg_1
GET /v1/threads/thread_1/runs
GET /v1/threads/thread_1/runs/run_1
POST /v1/threads/thread_1/runs/run_1
POST /v1/threads/thread_1/runs/run_1/cancel
GET /v1/threads/thread_1/runs/run_1/steps
GET /v1/threads/thread_1/runs/run_1/steps/step_1
"""
_OPENAI_STORED: Final = r"""
GET /v1/chat/completions?limit=2&metadata%5Ba%5D=b
GET /v1/chat/completions/chatcmpl-1
POST /v1/chat/completions/chatcmpl-1
DELETE /v1/chat/completions/chatcmpl-1
GET /v1/chat/completions/chatcmpl-1/messages
GET /v1/responses/resp_1?include%5B%5D=a
DELETE /v1/responses/resp_1
POST /v1/responses/resp_1/cancel
GET /v1/responses/resp_1/input_items?after=x
POST /v1/responses/input_tokens {"input":"Hi" , "model":"MODEL"}
DELETE /v1/models/MODEL
GET /v1/files?purpose=batch
GET /v1/files/file-1
DELETE /v1/files/file-1
GET /v1/files/file-1/content
GET /v1/batches?limit=2
POST /v1/batches {"input_file_id":"file-1","endpoint" : "/v1/chat/completions","completion_window":"24h"}
GET /v1/batches/batch_1
POST /v1/batches/batch_1/cancel
GET /v1/fine_tuning/jobs?limit=2
POST /v1/fine_tuning/jobs {"training_file":"file-1", "model" : "MODEL"}
GET /v1/fine_tuning/jobs/ftjob-1
POST /v1/fine_tuning/jobs/ftjob-1/cancel
GET /v1/fine_tuning/jobs/ftjob-1/events
GET /v1/fine_tuning/jobs/ftjob-1/checkpoints
POST /v1/fine_tuning/jobs/ftjob-1/pause
POST /v1/fine_tuning/jobs/ftjob-1/resume
GET /v1/fine_tuning/checkpoints/ft:gpt-x:acme::1:ckpt-step-2/permissions
POST /v1/fine_tuning/checkpoints/ft:gpt-x:acme::1:ckpt-step-2/permissions { "project_ids":["proj_1"] }
DELETE /v1/fine_tuning/checkpoints/ft:gpt-x:acme::1:ckpt-step-2/permissions/cp_1
POST /v1/fine_tuning/alpha/graders/run {"grader":{"type":"score_model", "model":"MODEL" },"model_sample":"a"}
POST /v1/fine_tuning/alpha/graders/validate { "grader" : {"type":"score_model","model":"MODEL"} }
GET /v1/vector_stores?limit=2
POST /v1/vector_stores
GET /v1/vector_stores/vs_1
POST /v1/vector_stores/vs_1
DELETE /v1/vector_stores/vs_1
POST /v1/vector_stores/vs_1/search { "query":"q" }
GET /v1/vector_stores/vs_1/files
POST /v1/vector_stores/vs_1/files { "file_id":"file-1" }
GET /v1/vector_stores/vs_1/files/file-1
POST /v1/vector_stores/vs_1/files/file-1
DELETE /v1/vector_stores/vs_1/files/file-1
GET /v1/vector_stores/vs_1/files/file-1/content
POST /v1/vector_stores/vs_1/file_batches { "file_ids":["file-1"] }
GET /v1/vector_stores/vs_1/file_batches/vsfb_1
POST /v1/vector_stores/vs_1/file_batches/vsfb_1/cancel
GET /v1/vector_stores/vs_1/file_batches/vsfb_1/files
POST /v1/uploads {"filename":"a", "bytes" : 9,"purpose":"batch","mime_type":"text/plain"}
POST /v1/uploads/upload_1/cancel
POST /v1/uploads/upload_1/complete { "part_ids":["part_1"] }
GET /v1/containers
POST /v1/containers
GET /v1/containers/cntr_1
DELETE /v1/containers/cntr_1
GET /v1/containers/cntr_1/files
GET /v1/containers/cntr_1/files/cfile_1
DELETE /v1/containers/cntr_1/files/cfile_1
GET /v1/containers/cntr_1/files/cfile_1/content
GET /v1/evals?limit=2
POST /v1/evals {"testing_criteria":[{"type":"label_model","model" : "MODEL"}, {"type":"string_check"},
  {"model":"MODEL"}],"data_source_config":{"type":"custom"}}
GET /v1/evals/eval_1
POST /v1/evals/eval_1
DELETE /v1/evals/eval_1
GET /v1/evals/eval_1/runs
POST /v1/evals/eval_1/runs {"data_source":{"type":"completions", "model" :"MODEL"}}
GET /v1/evals/eval_1/runs/run_1
DELETE /v1/evals/eval_1/runs/run_1
POST /v1/evals/eval_1/runs/run_1/cancel
GET /v1/evals/eval_1/runs/run_1/output_items
GET /v1/evals/eval_1/runs/run_1/output_items/item_1
POST /v1/realtime/client_secrets {"session":{"type":"realtime","model" : "MODEL"}}
POST /v1/realtime/client_secrets { "session":{"type":"transcription","audio":{"input":{"transcription":
  {"model":"MODEL"}}}} }
POST /v1/realtime/translations/client_secrets {"session":{ "model": "MODEL"}}
POST /v1/realtime/sessions {"model":"MODEL","input_audio_transcription":{"model" : "MODEL"}}
POST /v1/realtime/transcription_sessions {"input_audio_transcription":{ "model":"MODEL"}}
POST /v1/realtime/calls/rtc_1/accept { "type":"realtime", "model" :"MODEL" }
POST /v1/realtime/calls/rtc_1/hangup
POST /v1/realtime/calls/rtc_1/refer { "target_uri":"tel:+1" }
POST /v1/realtime/calls/rtc_1/reject
GET /v1/organization/admin_api_keys
POST /v1/organization/admin_api_keys
GET /v1/organization/admin_api_keys/key_1
DELETE /v1/organization/admin_api_keys/key_1
GET /v1/organization/audit_logs?limit=2
GET /v1/organization/certificates
GET /v1/organization/costs?start_time=1
GET /v1/organization/invites
POST /v1/organization/invites
DELETE /v1/organization/invites/invite_1
GET /v1/organization/projects
POST /v1/organization/projects
POST /v1/organization/projects/proj_1/archive
GET /v1/organization/projects/proj_1/service_accounts
DELETE /v1/organization/projects/proj_1/service_accounts/svc_1
GET /v1/organization/usage/completions?start_time=1
GET /v1/organization/users
POST /v1/organization/users/user_1
DELETE /v1/organization/users/user_1
GET /v1/skills/skill_1/content
GET /v1/vaults
GET /v1/agents/sessions
POST /v1/tokenizers/estimate-token-count {"messages":[{"role":"user","content":"Hi"}], "model" : "MODEL"}
GET /v1/users/me/balance
GET /v1/credits
GET /v1/key
GET /v1/generation?id=gen-1
"""
_OPENAI_CALLS: Final = """
POST /v1/realtime/calls v=0
  o=- 0 0 IN IP4 127.0.0.1
POST /v1/realtime/translations/calls v=0
  o=- 0 0 IN IP4 127.0.0.1
"""
"""A bare offer: the session was settled with the client's secret."""

_ANTHROPIC_TEXT: Final = r"""
POST /v1/messages { "max_tokens":16,"messages":[{"role":"user","content":"H\u0069"}], "model" : "MODEL" }
"""
_ANTHROPIC_COUNT: Final = r"""
POST /v1/messages/count_tokens {"messages":[{"role":"user","content":"Hi"}] , "model":"MODEL"}
"""
_BATCH: Final = r"""
POST /v1/messages/batches { "requests":[ {"custom_id":"a","params":{"model" : "MODEL", "max_tokens":1.0e0}},
  {"params":{ "model":"MODEL","metadata":{"model":"MODELS"} }, "custom_id":"\u0062"} ] }
"""
_ANTHROPICS_OWN: Final = r"""
GET /v1/messages/batches?limit=2
GET /v1/messages/batches/msgbatch_1
DELETE /v1/messages/batches/msgbatch_1
POST /v1/messages/batches/msgbatch_1/cancel
GET /v1/messages/batches/msgbatch_1/results
GET /v1/skills?limit=2
GET /v1/skills/skill_1
DELETE /v1/skills/skill_1
GET /v1/skills/skill_1/versions
GET /v1/skills/skill_1/versions/1759178010641129
DELETE /v1/skills/skill_1/versions/1759178010641129
GET /v1/skills/skill_1/versions/1759178010641129/content
GET /v1/tunnels
POST /v1/tunnels
GET /v1/tunnels/tunnel_1
POST /v1/tunnels/tunnel_1/archive
GET /v1/tunnels/tunnel_1/certificates
POST /v1/tunnels/tunnel_1/rotate_token
GET /v1/memory_stores
POST /v1/memory_stores
GET /v1/memory_stores/memstore_1
POST /v1/memory_stores/memstore_1
DELETE /v1/memory_stores/memstore_1
GET /v1/memory_stores/memstore_1/memories?path_prefix=%2Fa
POST /v1/memory_stores/memstore_1/memories
DELETE /v1/memory_stores/memstore_1/memories/mem_1
GET /v1/memory_stores/memstore_1/memory_versions/memver_1
GET /v1/agents
POST /v1/agents {"name":"a", "model" : "MODEL"}
POST /v1/agents { "model":{"id":"MODEL", "speed":"fast"} }
GET /v1/agents/agent_1
POST /v1/agents/agent_1 { "model":"MODEL","version":1 }
POST /v1/agents/agent_1/archive
GET /v1/agents/agent_1/versions
GET /v1/sessions
POST /v1/sessions {"agent":{"type":"agent", "model" :"MODEL"},"environment_id":"env_1"}
POST /v1/sessions { "agent":"agent_1" }
GET /v1/sessions/sesn_1
DELETE /v1/sessions/sesn_1
POST /v1/sessions/sesn_1/events { "events":[] }
GET /v1/sessions/sesn_1/events/stream
GET /v1/sessions/sesn_1/resources/res_1
GET /v1/environments
POST /v1/environments
GET /v1/environments/env_1
POST /v1/environments/env_1
DELETE /v1/environments/env_1
POST /v1/environments/env_1/archive
GET /v1/environments/env_1/work/poll
"""
"""The specification names the paths for Anthropic's clients, whatever they sign with."""
_ANTHROPIC_IF_SIGNED: Final = r"""
GET /v1/files?limit=2
GET /v1/files/file_1
DELETE /v1/files/file_1
GET /v1/files/file_1/content
GET /v1/vaults
GET /v1/agents/sessions
GET /v1/skills
GET /v1/environments
"""

_GEMINI_TEXT: Final = r"""
POST /v1beta/models/MODEL:generateContent { "contents":[{"parts":[{"text":"H\u0069"}]}], "model":"x" }
POST /v1beta/models/MODEL:streamGenerateContent?alt=sse { "contents":[{"parts":[{"text":"Hi"}]}] }
POST /v1beta/tunedModels/MODEL:generateContent { "contents":[{"parts":[{"text":"Hi"}]}] }
"""
_GEMINI_COUNT: Final = r"""
POST /v1beta/models/MODEL:countTokens {"generateContentRequest":{"model":"models/MODEL", "contents":[]}}
"""
_GEMINI_EMBEDDING: Final = r"""
POST /v1beta/models/MODEL:embedContent {"content":{"parts":[{"text":"Hi"}]}, "model" : "models/MODEL"}
POST /v1beta/models/MODEL:embedContent { "content":{"parts":[{"text":"Hi"}]} }
POST /v1beta/models/MODEL:batchEmbedContents {"requests":[ {"model":"models/MODEL"},{"model" : "MODEL"} ]}
"""
_GEMINI_ANSWERS: Final = r"""
POST /v1beta/interactions {"input":"Hi" , "model" : "MODEL"}
POST /v1beta/decisions {"input":"Hi","questions":{}, "model":"models/MODEL"}
"""
_GEMINI: Final = r"""
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
POST /v1beta/interactions { "agent":"agent-1","input" :"Hi" }
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

SURFACE: Final = (
    *_read(OPENAI, _OPENAI_TEXT, modality="text", tells=True),
    *_read(OPENAI, _OPENAI_EMBEDDING, modality="embedding", tells=True),
    *_read(OPENAI, _OPENAI_ANSWERS, tells=True),
    *_read(OPENAI, _OPENAI_THREADS_ANSWER, *_ASSISTANTS, tells=True),
    *_read(OPENAI, _OPENAI_THREADS, *_ASSISTANTS),
    *_read(OPENAI, "POST /v1/chatkit/sessions\nGET /v1/chatkit/threads/cthr_1", *_CHATKIT),
    *_read(OPENAI, _OPENAI_STORED),
    *_read(OPENAI, _OPENAI_CALLS, _SDP),
    _form(OPENAI, "/v1/realtime/calls", ('"sdp"', b"v=0"), ('"session"', b'{ "model" : "MODEL"}')),
    _form(OPENAI, "/v1/audio/voices", ('"name"', b"a"), ('"model"', b"MODEL"), _FILE),
    _form(OPENAI, "/v1/files", ('"purpose"', b"batch"), _FILE),
    _form(OPENAI, "/v1/uploads/upload_1/parts", ('"data"; filename="a"', _FILE[1])),
    _form(OPENAI, "/v1/containers/cntr_1/files", _FILE),
    *_read(ANTHROPIC, _ANTHROPIC_TEXT, modality="text", tells=True),
    *_read(ANTHROPIC, _ANTHROPIC_COUNT, modality="text", tells=True),
    *(replace(asked, chooses=False) for asked in _read(ANTHROPIC, _BATCH)),
    *_read(ANTHROPIC, _ANTHROPICS_OWN),
    *_read(ANTHROPIC, _ANTHROPIC_IF_SIGNED, *SIGNED),
    *(replace(_form(ANTHROPIC, path, _FILE), headers=SIGNED) for path in ("/v1/files", "/v1/skills")),
    *(_form(ANTHROPIC, path, _FILE) for path in ("/v1/skills", "/v1/skills/skill_1/versions")),
    *_read(GEMINI, _GEMINI_TEXT, modality="text", tells=True),
    *_read(GEMINI, _GEMINI_COUNT, modality="text", tells=True),
    *_read(GEMINI, _GEMINI_EMBEDDING, modality="embedding", tells=True),
    *_read(GEMINI, _GEMINI_ANSWERS, tells=True),
    *_read(GEMINI, _GEMINI),
)

CONVERSATIONS: Final = tuple(
    Asked(OPENAI, method, f"/v1/conversations{below}", PLAIN if method == "POST" else b"")
    for below in ("", "/conv_1", "/conv_1/items", "/conv_1/items/item_1", "/conv_1/a/b/c")
    for method in ("GET", "POST", "DELETE")
)
"""Not implemented for any provider (specification 4.5)."""

PLANNED: Final = (
    Asked(OPENAI, "POST", "/v1/images", b'{"model":"m-1"}'),
    Asked(GEMINI, "POST", "/v1beta/models/m-1:generateImages", b'{"prompt":"a"}'),
)
"""Nobody's path (specification 4.3, decisions part 4)."""
