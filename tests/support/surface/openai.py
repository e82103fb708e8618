"""What OpenAI's clients ask for, and those of hosts that speak its wire."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.support.grid import OPENAI
from tests.support.surface.asked import FILE, form, read

_ASSISTANTS: Final = ("OpenAI-Beta: assistants=v2",)
_CHATKIT: Final = ("OpenAI-Beta: chatkit_beta=v1",)
_SDP: Final = "Content-Type: application/sdp"
_SESSION: Final = (
    '"session"',
    b'{"audio":{"input":{"transcription":{ "model":"MODEL" }}}, "model" : "MODEL"}',
)

_TEXT: Final = r"""
POST /v1/chat/completions {"messages":[ {"role":"user", "content":"H\u0069"} ],
  "model" : "MODEL", "n":1.0e0}
POST /v1/responses { "input":"Hi",  "model" : "MODEL", "tools":[{"type":"custom","name":"t"}] }
POST /v1/responses/compact {"model":"MODEL" ,"input":"Hi"}
POST /v1/completions {"prompt":"Hi", "suffix":"!","model"  : "MODEL"}
POST /beta/completions {"prompt":"Hi", "suffix":"!","model"  : "MODEL"}
POST /v1/moderations {"input" :"Hi","model": "MODEL"}
POST /v1/moderations {"input" :"Hi"}
"""
_EMBEDDING: Final = r"""
POST /v1/embeddings { "input":["Hi"], "dimensions" : 8, "model":"MODEL","encoding_format":"float" }
"""
_ANSWERS: Final = r"""
POST /v1/rerank {"query":"q","top_n":1, "documents" : ["a","b"], "model" : "MODEL"}
POST /v1/ocr { "document":{"type":"document_url","document_url":"https://x.example/a.pdf"},"model":"MODEL"}
POST /v1/decisions {"questions" : {}, "input":"Hi", "model": "MODEL"}
GET /v1/chat/deferred-completion/0b7d-11
"""
"""No text routes, and yet each tells what a model took: reranking (Cohere, Jina), OCR (Mistral), xAI's."""

_THREADS_ANSWER: Final = r"""
POST /v1/threads/runs {"assistant_id":"asst_1", "model" : "MODEL"}
POST /v1/threads/thread_1/runs {"assistant_id":"asst_1","model" :"MODEL", "temperature":1.0}
POST /v1/threads/thread_1/runs/run_1/submit_tool_outputs { "tool_outputs":[] }
"""
_THREADS: Final = r"""
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
_COUNT: Final = 'POST /v1/responses/input_tokens {"input":"Hi" , "model":"MODEL"}'
_STORED: Final = r"""
GET /v1/chat/completions?limit=2&metadata%5Ba%5D=b
GET /v1/chat/completions/chatcmpl-1
POST /v1/chat/completions/chatcmpl-1
DELETE /v1/chat/completions/chatcmpl-1
GET /v1/chat/completions/chatcmpl-1/messages
GET /v1/responses/resp_1?include%5B%5D=a
DELETE /v1/responses/resp_1
POST /v1/responses/resp_1/cancel
GET /v1/responses/resp_1/input_items?after=x
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
POST /v1/evals/eval_1/runs/run_1
GET /v1/vaults
GET /v1/agents/sessions
POST /v1/tokenizers/estimate-token-count {"messages":[{"role":"user","content":"Hi"}], "model" : "MODEL"}
GET /v1/users/me/balance
GET /v1/credits
GET /v1/key
GET /v1/generation?id=gen-1
"""
_CALLS: Final = """
POST /v1/realtime/calls v=0
  o=- 0 0 IN IP4 127.0.0.1
POST /v1/realtime/translations/calls v=0
  o=- 0 0 IN IP4 127.0.0.1
"""
"""A bare offer: the session was settled with the client's secret."""

_IF_SIGNED: Final = r"""
GET /v1/skills?limit=2
GET /v1/skills/skill_1
POST /v1/skills/skill_1 { "default_version":"2" }
DELETE /v1/skills/skill_1
GET /v1/skills/skill_1/versions
GET /v1/skills/skill_1/versions/2
DELETE /v1/skills/skill_1/versions/2
GET /v1/skills/skill_1/versions/2/content
GET /v1/agents
POST /v1/agents {"name":"a", "model" : "MODEL"}
GET /v1/agents/agent_1
POST /v1/agents/agent_1 { "model":"MODEL" }
DELETE /v1/agents/agent_1
"""
"""Anthropic's paths, where the client does not show that it is OpenAI's."""

BY_OPENAI: Final = (
    *read(OPENAI, _IF_SIGNED, "OpenAI-Organization: org-1"),
    *(
        replace(form(OPENAI, path, FILE), headers=("OpenAI-Project: proj_1",))
        for path in ("/v1/skills", "/v1/skills/skill_1/versions")
    ),
    *read(OPENAI, _TEXT, modality="text", tells=True),
    *read(OPENAI, _EMBEDDING, modality="embedding", tells=True),
    *read(OPENAI, _ANSWERS, tells=True),
    *read(OPENAI, _THREADS_ANSWER, *_ASSISTANTS, tells=True),
    *read(OPENAI, _THREADS, *_ASSISTANTS),
    *read(OPENAI, "POST /v1/chatkit/sessions\nGET /v1/chatkit/threads/cthr_1", *_CHATKIT),
    *read(OPENAI, _STORED),
    *read(OPENAI, _COUNT, modality="text"),
    *read(OPENAI, _CALLS, _SDP),
    form(OPENAI, "/v1/realtime/calls", ('"sdp"', b"v=0"), _SESSION),
    form(OPENAI, "/v1/realtime/translations/calls", _SESSION, ('"sdp"', b"v=0")),
    form(OPENAI, "/v1/audio/voices", ('"name"', b"a"), ('"model"', b"MODEL"), FILE),
    form(OPENAI, "/v1/files", ('"purpose"', b"batch"), FILE),
    form(OPENAI, "/v1/uploads/upload_1/parts", ('"data"; filename="a"', FILE[1])),
    form(OPENAI, "/v1/containers/cntr_1/files", FILE),
)
