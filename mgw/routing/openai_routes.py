"""What OpenAI's clients ask for beside text and media (specification 4.2 and 4.5, decisions part 4).

The paths are those of OpenAI's SDK, and those of hosts that speak its wire.  Agents and skills are
Anthropic's where both vendors have a path (decisions, part 4), so those of OpenAI's are no rows here.
"""

from __future__ import annotations

from typing import Final

from mgw.routing.resource import Resource, rows
from mgw.routing.route import ANY_METHOD, ModelAt, Route, Treatment
from mgw.vocabulary import Dialect, Modality

_MODEL: Final = (("model",),)
_GRADER: Final = (("grader", "model"),)
_SESSION: Final = (("session", "model"), ("session", "audio", "input", "transcription", "model"))
_DELEGATION: Final = (
    ("session", "delegation", "responses", "model"),
    ("session", "delegation", "decisions", "model"),
)
_LIVE: Final = (("model",), ("session", "model"), *_DELEGATION)
_AUTOMATION: Final = (("target", "agent", "model"),)
_SESSION_PART: Final = (("model",), ("audio", "input", "transcription", "model"))
"""A form's part ``session`` holds JSON."""
_OPENAI: Final = Dialect.OPENAI

_RESOURCES: Final = (
    Resource("/v1/agents/automations", "GET POST", models=_AUTOMATION),
    Resource("/v1/agents/automations/{automation_id}", "GET POST DELETE", models=_AUTOMATION),
    Resource("/v1/agents/automations/{automation_id}/invocations", "GET POST"),
    Resource("/v1/agents/automations/{automation_id}/invocations/{invocation_id}", "GET"),
    Resource("/v1/agents/automations/{automation_id}/pause", "POST"),
    Resource("/v1/agents/automations/{automation_id}/resume", "POST"),
    Resource("/v1/agents/environments", "GET POST"),
    Resource("/v1/agents/environments/templates", "GET POST"),
    Resource("/v1/agents/environments/templates/{environment_template_id}", "GET POST DELETE"),
    Resource("/v1/agents/environments/{environment_id}", "GET"),
    Resource("/v1/agents/environments/{environment_id}/files", "GET POST"),
    Resource("/v1/agents/sessions", "GET POST", models=(("model",), ("agent", "model"))),
    Resource("/v1/agents/sessions/{session_id}", "GET POST DELETE", models=(("model",), ("agent", "model"))),
    Resource("/v1/agents/sessions/{session_id}/artifacts", "GET"),
    Resource("/v1/agents/sessions/{session_id}/artifacts/{artifact_id}", "GET DELETE"),
    Resource("/v1/agents/sessions/{session_id}/artifacts/{artifact_id}/content", "GET"),
    Resource("/v1/agents/sessions/{session_id}/events", "GET POST"),
    Resource("/v1/agents/sessions/{session_id}/items", "GET"),
    Resource("/v1/agents/sessions/{session_id}/subagents", "GET"),
    Resource("/v1/agents/sessions/{session_id}/subagents/{subagent_id}", "GET"),
    Resource("/v1/agents/sessions/{session_id}/subagents/{subagent_id}/items", "GET"),
    Resource("/v1/agents/sessions/{session_id}/subagents/{subagent_id}/turns", "GET"),
    Resource("/v1/agents/sessions/{session_id}/subagents/{subagent_id}/turns/{turn_id}", "GET"),
    Resource("/v1/agents/sessions/{session_id}/subagents/{subagent_id}/turns/{turn_id}/items", "GET"),
    Resource("/v1/agents/sessions/{session_id}/traces", "GET"),
    Resource("/v1/agents/sessions/{session_id}/turns", "GET"),
    Resource("/v1/agents/sessions/{session_id}/turns/{turn_id}", "GET"),
    Resource("/v1/agents/sessions/{session_id}/turns/{turn_id}/items", "GET"),
    Resource("/v1/assistants", "GET POST", models=_MODEL),
    Resource("/v1/assistants/{assistant_id}", "GET POST DELETE", models=_MODEL),
    Resource("/v1/audio/voice_consents", "GET POST"),
    Resource("/v1/audio/voice_consents/{consent_id}", "GET POST DELETE"),
    Resource("/v1/audio/voices", "POST", model_at=ModelAt.FORM),
    Resource("/v1/audio/voices/{voice_id}", "DELETE"),
    Resource("/v1/batches", "GET POST"),
    Resource("/v1/batches/{batch_id}", "GET"),
    Resource("/v1/batches/{batch_id}/cancel", "POST"),
    Resource("/v1/chat/completions", "GET"),
    Resource("/v1/chat/completions/{completion_id}", "GET POST DELETE"),
    Resource("/v1/chat/completions/{completion_id}/messages", "GET"),
    Resource("/v1/chatkit/sessions", "POST"),
    Resource("/v1/chatkit/sessions/{session_id}/cancel", "POST"),
    Resource("/v1/chatkit/threads", "GET"),
    Resource("/v1/chatkit/threads/{thread_id}", "GET DELETE"),
    Resource("/v1/chatkit/threads/{thread_id}/items", "GET"),
    Resource("/v1/containers", "GET POST"),
    Resource("/v1/containers/{container_id}", "GET DELETE"),
    Resource("/v1/containers/{container_id}/files", "GET POST"),
    Resource("/v1/containers/{container_id}/files/{file_id}", "GET DELETE"),
    Resource("/v1/containers/{container_id}/files/{file_id}/content", "GET"),
    Resource("/v1/content_provenance_checks", "POST"),
    Resource("/v1/decisions", "POST", models=_MODEL, metered=True),
    Resource("/v1/evals", "GET POST", models=(("testing_criteria", None, "model"),)),
    Resource("/v1/evals/{eval_id}", "GET POST DELETE"),
    Resource("/v1/evals/{eval_id}/runs", "GET POST", models=(("data_source", "model"),)),
    Resource("/v1/evals/{eval_id}/runs/{run_id}", "GET DELETE"),
    Resource("/v1/evals/{eval_id}/runs/{run_id}/cancel", "POST"),
    Resource("/v1/evals/{eval_id}/runs/{run_id}/output_items", "GET"),
    Resource("/v1/evals/{eval_id}/runs/{run_id}/output_items/{output_item_id}", "GET"),
    Resource("/v1/files", "GET POST"),
    Resource("/v1/files/{file_id}", "GET DELETE"),
    Resource("/v1/files/{file_id}/content", "GET"),
    Resource("/v1/fine_tuning/alpha/graders/run", "POST", models=_GRADER),
    Resource("/v1/fine_tuning/alpha/graders/validate", "POST", models=_GRADER),
    Resource("/v1/fine_tuning/checkpoints/{fine_tuned_model_checkpoint}/permissions", "GET POST"),
    Resource("/v1/fine_tuning/checkpoints/{id}/permissions/{permission_id}", "DELETE"),
    Resource(
        "/v1/fine_tuning/jobs",
        "GET POST",
        models=(("model",), ("method", "reinforcement", "grader", "model")),
    ),
    Resource("/v1/fine_tuning/jobs/{fine_tuning_job_id}", "GET"),
    Resource("/v1/fine_tuning/jobs/{fine_tuning_job_id}/cancel", "POST"),
    Resource("/v1/fine_tuning/jobs/{fine_tuning_job_id}/checkpoints", "GET"),
    Resource("/v1/fine_tuning/jobs/{fine_tuning_job_id}/events", "GET"),
    Resource("/v1/fine_tuning/jobs/{fine_tuning_job_id}/pause", "POST"),
    Resource("/v1/fine_tuning/jobs/{fine_tuning_job_id}/resume", "POST"),
    Resource("/v1/live/sessions", "POST", models=_LIVE),
    Resource("/v1/live/sessions/{session_id}/accept", "POST", models=_LIVE),
    Resource("/v1/live/sessions/{session_id}/content", "GET"),
    Resource("/v1/live/sessions/{session_id}/fork", "POST", models=_DELEGATION),
    Resource("/v1/live/sessions/{session_id}/hangup", "POST"),
    Resource("/v1/live/sessions/{session_id}/refer", "POST"),
    Resource("/v1/live/sessions/{session_id}/reject", "POST"),
    Resource("/v1/realtime/calls", "POST", model_at=ModelAt.FORM, models=_SESSION_PART, form_part="session"),
    Resource("/v1/realtime/calls/{call_id}/accept", "POST", models=_SESSION_PART),
    Resource("/v1/realtime/calls/{call_id}/hangup", "POST"),
    Resource("/v1/realtime/calls/{call_id}/refer", "POST"),
    Resource("/v1/realtime/calls/{call_id}/reject", "POST"),
    Resource("/v1/realtime/client_secrets", "POST", models=_SESSION),
    Resource("/v1/realtime/sessions", "POST", models=(("model",), ("input_audio_transcription", "model"))),
    Resource("/v1/realtime/transcription_sessions", "POST", models=(("input_audio_transcription", "model"),)),
    Resource(
        "/v1/realtime/translations/calls",
        "POST",
        model_at=ModelAt.FORM,
        models=_SESSION_PART,
        form_part="session",
    ),
    Resource("/v1/realtime/translations/client_secrets", "POST", models=_SESSION),
    Resource("/v1/responses/compact", "POST", models=_MODEL, modality=Modality.TEXT, metered=True),
    Resource("/v1/responses/input_tokens", "POST", models=_MODEL),
    Resource("/v1/responses/{response_id}", "GET DELETE"),
    Resource("/v1/responses/{response_id}/cancel", "POST"),
    Resource("/v1/responses/{response_id}/input_items", "GET"),
    Resource("/v1/safety/alerts/{id}", "GET"),
    Resource("/v1/safety/cases/{id}", "GET"),
    Resource("/v1/skills/{skill_id}/content", "GET"),
    Resource("/v1/threads", "POST"),
    Resource("/v1/threads/runs", "POST", models=_MODEL, metered=True),
    Resource("/v1/threads/{thread_id}", "GET POST DELETE"),
    Resource("/v1/threads/{thread_id}/messages", "GET POST"),
    Resource("/v1/threads/{thread_id}/messages/{message_id}", "GET POST DELETE"),
    Resource("/v1/threads/{thread_id}/runs", "GET POST", models=_MODEL, metered=True),
    Resource("/v1/threads/{thread_id}/runs/{run_id}", "GET POST"),
    Resource("/v1/threads/{thread_id}/runs/{run_id}/cancel", "POST"),
    Resource("/v1/threads/{thread_id}/runs/{run_id}/steps", "GET"),
    Resource("/v1/threads/{thread_id}/runs/{run_id}/steps/{step_id}", "GET"),
    Resource("/v1/threads/{thread_id}/runs/{run_id}/submit_tool_outputs", "POST", metered=True),
    Resource("/v1/uploads", "POST"),
    Resource("/v1/uploads/{upload_id}/cancel", "POST"),
    Resource("/v1/uploads/{upload_id}/complete", "POST"),
    Resource("/v1/uploads/{upload_id}/parts", "POST"),
    Resource("/v1/vaults", "GET POST"),
    Resource("/v1/vaults/{vault_id}", "GET POST DELETE"),
    Resource("/v1/vaults/{vault_id}/credentials", "GET POST"),
    Resource("/v1/vaults/{vault_id}/credentials/{credential_id}", "GET POST DELETE"),
    Resource("/v1/vector_stores", "GET POST"),
    Resource("/v1/vector_stores/{vector_store_id}", "GET POST DELETE"),
    Resource("/v1/vector_stores/{vector_store_id}/file_batches", "POST"),
    Resource("/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}", "GET"),
    Resource("/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/cancel", "POST"),
    Resource("/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/files", "GET"),
    Resource("/v1/vector_stores/{vector_store_id}/files", "GET POST"),
    Resource("/v1/vector_stores/{vector_store_id}/files/{file_id}", "GET POST DELETE"),
    Resource("/v1/vector_stores/{vector_store_id}/files/{file_id}/content", "GET"),
    Resource("/v1/vector_stores/{vector_store_id}/search", "POST"),
    Resource("/v1/webhook_endpoints", "GET POST"),
    Resource("/v1/webhook_endpoints/{webhook_endpoint_id}", "GET POST DELETE"),
    Resource("/v1/webhook_endpoints/{webhook_endpoint_id}/rotate_secret", "POST"),
    Resource("/v1/webhook_endpoints/{webhook_endpoint_id}/test", "POST"),
    Resource("/v1/webhook_event_types", "GET"),
)

_OF_COMPATIBLE_HOSTS: Final = (
    Resource("/v1/chat/deferred-completion/{request_id}", "GET", metered=True),
    Resource("/v1/tokenizers/estimate-token-count", "POST", models=_MODEL),
    Resource("/v1/users/me/balance", "GET"),
    Resource("/v1/credits", "GET"),
    Resource("/v1/key", "GET"),
    Resource("/v1/generation", "GET"),
    Resource("/v1/rerank", "POST", models=_MODEL, metered=True),
    Resource("/v1/ocr", "POST", models=_MODEL, metered=True),
)


def _conversations(name: str, path: str) -> Route:
    return Route(
        name,
        ANY_METHOD,
        path,
        _OPENAI,
        Modality.PLATFORM,
        ModelAt.NOWHERE,
        Treatment.REFUSE,
        group="conversations",
    )


OPENAI_ROUTES: Final = (
    *rows(_OPENAI, _RESOURCES),
    *rows(_OPENAI, _OF_COMPATIBLE_HOSTS),
    Route(
        "models_delete",
        "DELETE",
        "/v1/models/{model}",
        _OPENAI,
        Modality.PLATFORM,
        ModelAt.PATH,
        Treatment.RELAY,
        metered=False,
        group="models",
    ),
    _conversations("conversations", "/v1/conversations"),
    _conversations("conversations_below", "/v1/conversations/{path}"),
)
"""Stored objects, files, jobs, vector stores, assistants, agents, realtime over HTTP, and what is refused."""
