"""Paths that OpenAI clients call besides text and media (contract 4.4, 4.6).

The paths are those of OpenAI's SDK and of its OpenAPI document, and those of hosts of its API.
"""

from __future__ import annotations

from typing import Final

from mgw.nouns.vocabulary import DialectName, Modality
from mgw.routing.model_source import IN_FORM, IN_PATH, NOWHERE, ModelAt, ModelSource, in_body
from mgw.routing.resources import Resource, routes_of
from mgw.routing.route import ANY_METHOD, Route, Treatment

_MODEL: Final = in_body(("model",))
_OF_GRADER: Final = (("grader", "model"), ("grader", "graders", "model"))
_GRADER: Final = in_body(*_OF_GRADER)
_SESSION: Final = in_body(("session", "model"), ("session", "audio", "input", "transcription", "model"))
_OF_DELEGATION: Final = (
    ("session", "delegation", "responses", "model"),
    ("session", "delegation", "responses", "tools", None, "model"),
    ("session", "delegation", "responses", "tools", None, "svg", "model"),
    ("session", "delegation", "decisions", "model"),
)
_DELEGATION: Final = in_body(*_OF_DELEGATION)
_LIVE: Final = in_body(("model",), ("session", "model"), *_OF_DELEGATION)
_AUTOMATION: Final = in_body(("target", "agent", "model"))
_OF_SESSION_PART: Final = (("model",), ("audio", "input", "transcription", "model"))
_IN_SESSION_PART: Final = ModelSource(ModelAt.FORM, _OF_SESSION_PART, form_part="session", in_query=True)
"""A form's part ``session`` holds JSON."""
_OPENAI: Final = DialectName.OPENAI
_TRANSLATED_RESPONSE: Final = b"/responses/resp_mgw"

_RESOURCES: Final = (
    Resource("/v1/agents", "GET POST", models=_MODEL),
    Resource("/v1/agents/{agent_id}", "GET POST DELETE", models=_MODEL),
    Resource("/v1/agents/automations", "GET POST", models=_AUTOMATION, hides_cost=True),
    Resource(
        "/v1/agents/automations/{automation_id}", "GET POST DELETE", models=_AUTOMATION, hides_cost=True
    ),
    Resource("/v1/agents/automations/{automation_id}/invocations", "GET POST", hides_cost=True),
    Resource("/v1/agents/automations/{automation_id}/invocations/{invocation_id}", "GET"),
    Resource("/v1/agents/automations/{automation_id}/pause", "POST"),
    Resource("/v1/agents/automations/{automation_id}/resume", "POST", hides_cost=True),
    Resource("/v1/agents/environments", "GET POST"),
    Resource("/v1/agents/environments/templates", "GET POST"),
    Resource("/v1/agents/environments/templates/{environment_template_id}", "GET POST DELETE"),
    Resource("/v1/agents/environments/{environment_id}", "GET"),
    Resource("/v1/agents/environments/{environment_id}/files", "GET POST"),
    Resource(
        "/v1/agents/sessions", "GET POST", models=in_body(("model",), ("agent", "model")), hides_cost=True
    ),
    Resource(
        "/v1/agents/sessions/{session_id}",
        "GET POST DELETE",
        models=in_body(("model",), ("agent", "model")),
        hides_cost=True,
    ),
    Resource("/v1/agents/sessions/{session_id}/artifacts", "GET"),
    Resource("/v1/agents/sessions/{session_id}/artifacts/{artifact_id}", "GET DELETE"),
    Resource("/v1/agents/sessions/{session_id}/artifacts/{artifact_id}/content", "GET"),
    Resource("/v1/agents/sessions/{session_id}/events", "GET POST", hides_cost=True),
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
    Resource("/v1/audio/voices", "POST", models=IN_FORM),
    Resource("/v1/audio/voices/{voice_id}", "DELETE"),
    Resource("/v1/batches", "GET POST", hides_cost=True),
    Resource("/v1/batches/{batch_id}", "GET"),
    Resource("/v1/batches/{batch_id}/cancel", "POST"),
    Resource("/v1/chat/completions", "GET"),
    Resource("/v1/chat/completions/{completion_id}", "GET POST DELETE"),
    Resource("/v1/chat/completions/{completion_id}/messages", "GET"),
    Resource("/v1/chatkit/sessions", "POST", hides_cost=True),
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
    Resource("/v1/evals", "GET POST", models=in_body(("testing_criteria", None, "model")), hides_cost=True),
    Resource("/v1/evals/{eval_id}", "GET POST DELETE"),
    Resource(
        "/v1/evals/{eval_id}/runs", "GET POST", models=in_body(("data_source", "model")), hides_cost=True
    ),
    Resource("/v1/evals/{eval_id}/runs/{run_id}", "GET POST DELETE", hides_cost=True),
    Resource("/v1/evals/{eval_id}/runs/{run_id}/cancel", "POST"),
    Resource("/v1/evals/{eval_id}/runs/{run_id}/output_items", "GET"),
    Resource("/v1/evals/{eval_id}/runs/{run_id}/output_items/{output_item_id}", "GET"),
    Resource("/v1/files", "GET POST"),
    Resource("/v1/files/{file_id}", "GET DELETE"),
    Resource("/v1/files/{file_id}/content", "GET"),
    Resource("/v1/fine_tuning/alpha/graders/run", "POST", models=_GRADER, hides_cost=True),
    Resource("/v1/fine_tuning/alpha/graders/validate", "POST", models=_GRADER),
    Resource("/v1/fine_tuning/checkpoints/{fine_tuned_model_checkpoint}/permissions", "GET POST"),
    Resource("/v1/fine_tuning/checkpoints/{id}/permissions/{permission_id}", "DELETE"),
    Resource(
        "/v1/fine_tuning/jobs",
        "GET POST",
        models=in_body(("model",), *(("method", "reinforcement", *path) for path in _OF_GRADER)),
        hides_cost=True,
    ),
    Resource("/v1/fine_tuning/jobs/{fine_tuning_job_id}", "GET"),
    Resource("/v1/fine_tuning/jobs/{fine_tuning_job_id}/cancel", "POST"),
    Resource("/v1/fine_tuning/jobs/{fine_tuning_job_id}/checkpoints", "GET"),
    Resource("/v1/fine_tuning/jobs/{fine_tuning_job_id}/events", "GET"),
    Resource("/v1/fine_tuning/jobs/{fine_tuning_job_id}/pause", "POST"),
    Resource("/v1/fine_tuning/jobs/{fine_tuning_job_id}/resume", "POST", hides_cost=True),
    Resource("/v1/live/sessions", "POST", models=_LIVE, hides_cost=True),
    Resource("/v1/live/sessions/{session_id}/accept", "POST", models=_LIVE, hides_cost=True),
    Resource("/v1/live/sessions/{session_id}/content", "GET"),
    Resource("/v1/live/sessions/{session_id}/fork", "POST", models=_DELEGATION, hides_cost=True),
    Resource("/v1/live/sessions/{session_id}/hangup", "POST"),
    Resource("/v1/live/sessions/{session_id}/refer", "POST"),
    Resource("/v1/live/sessions/{session_id}/reject", "POST"),
    Resource("/v1/realtime/calls", "POST", models=_IN_SESSION_PART, hides_cost=True),
    Resource(
        "/v1/realtime/calls/{call_id}/accept", "POST", models=in_body(*_OF_SESSION_PART), hides_cost=True
    ),
    Resource("/v1/realtime/calls/{call_id}/hangup", "POST"),
    Resource("/v1/realtime/calls/{call_id}/refer", "POST"),
    Resource("/v1/realtime/calls/{call_id}/reject", "POST"),
    Resource("/v1/realtime/client_secrets", "POST", models=_SESSION, hides_cost=True),
    Resource(
        "/v1/realtime/sessions",
        "POST",
        models=in_body(("model",), ("input_audio_transcription", "model")),
        hides_cost=True,
    ),
    Resource(
        "/v1/realtime/transcription_sessions",
        "POST",
        models=in_body(("input_audio_transcription", "model")),
        hides_cost=True,
    ),
    Resource("/v1/realtime/translations/calls", "POST", models=_IN_SESSION_PART, hides_cost=True),
    Resource("/v1/realtime/translations/client_secrets", "POST", models=_SESSION, hides_cost=True),
    Resource("/v1/responses/{response_id}", "GET DELETE", unstored=_TRANSLATED_RESPONSE),
    Resource("/v1/responses/{response_id}/cancel", "POST", unstored=_TRANSLATED_RESPONSE),
    Resource("/v1/responses/{response_id}/input_items", "GET", unstored=_TRANSLATED_RESPONSE),
    Resource("/v1/safety/alerts/{id}", "GET"),
    Resource("/v1/safety/cases/{id}", "GET"),
    Resource("/v1/skills", "GET POST"),
    Resource("/v1/skills/{skill_id}", "GET POST DELETE"),
    Resource("/v1/skills/{skill_id}/content", "GET"),
    Resource("/v1/skills/{skill_id}/versions", "GET POST"),
    Resource("/v1/skills/{skill_id}/versions/{version}", "GET DELETE"),
    Resource("/v1/skills/{skill_id}/versions/{version}/content", "GET"),
    Resource("/v1/threads", "POST"),
    Resource("/v1/threads/runs", "POST", models=_MODEL, metered=True, hides_cost=True),
    Resource("/v1/threads/{thread_id}", "GET POST DELETE"),
    Resource("/v1/threads/{thread_id}/messages", "GET POST"),
    Resource("/v1/threads/{thread_id}/messages/{message_id}", "GET POST DELETE"),
    Resource("/v1/threads/{thread_id}/runs", "GET POST", models=_MODEL, metered=True, hides_cost=True),
    Resource("/v1/threads/{thread_id}/runs/{run_id}", "GET POST"),
    Resource("/v1/threads/{thread_id}/runs/{run_id}/cancel", "POST"),
    Resource("/v1/threads/{thread_id}/runs/{run_id}/steps", "GET"),
    Resource("/v1/threads/{thread_id}/runs/{run_id}/steps/{step_id}", "GET"),
    Resource(
        "/v1/threads/{thread_id}/runs/{run_id}/submit_tool_outputs", "POST", metered=True, hides_cost=True
    ),
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

_ORGANIZATION: Final = (
    Resource("/v1/organization/admin_api_keys", "GET POST"),
    Resource("/v1/organization/admin_api_keys/{key_id}", "GET DELETE"),
    Resource("/v1/organization/audit_logs", "GET"),
    Resource("/v1/organization/certificates", "GET POST"),
    Resource("/v1/organization/certificates/activate", "POST"),
    Resource("/v1/organization/certificates/deactivate", "POST"),
    Resource("/v1/organization/certificates/{certificate_id}", "GET POST DELETE"),
    Resource("/v1/organization/costs", "GET"),
    Resource("/v1/organization/data_retention", "GET POST"),
    Resource("/v1/organization/external_keys", "GET POST"),
    Resource("/v1/organization/external_keys/{external_key_id}", "GET DELETE"),
    Resource("/v1/organization/external_keys/{external_key_id}/validate", "POST"),
    Resource("/v1/organization/external_storage", "GET POST"),
    Resource("/v1/organization/external_storage/{external_storage_id}", "GET DELETE"),
    Resource("/v1/organization/external_storage/{external_storage_id}/validate", "POST"),
    Resource("/v1/organization/groups", "GET POST"),
    Resource("/v1/organization/groups/{group_id}", "GET POST DELETE"),
    Resource("/v1/organization/groups/{group_id}/roles", "GET POST"),
    Resource("/v1/organization/groups/{group_id}/roles/{role_id}", "GET DELETE"),
    Resource("/v1/organization/groups/{group_id}/users", "GET POST"),
    Resource("/v1/organization/groups/{group_id}/users/{user_id}", "GET DELETE"),
    Resource("/v1/organization/invites", "GET POST"),
    Resource("/v1/organization/invites/{invite_id}", "GET DELETE"),
    Resource("/v1/organization/projects", "GET POST"),
    Resource("/v1/organization/projects/{project_id}", "GET POST"),
    Resource("/v1/organization/projects/{project_id}/api_keys", "GET"),
    Resource("/v1/organization/projects/{project_id}/api_keys/{api_key_id}", "GET POST DELETE"),
    Resource("/v1/organization/projects/{project_id}/archive", "POST"),
    Resource("/v1/organization/projects/{project_id}/certificates", "GET"),
    Resource("/v1/organization/projects/{project_id}/certificates/activate", "POST"),
    Resource("/v1/organization/projects/{project_id}/certificates/deactivate", "POST"),
    Resource("/v1/organization/projects/{project_id}/data_retention", "GET POST"),
    Resource("/v1/organization/projects/{project_id}/groups", "GET POST"),
    Resource("/v1/organization/projects/{project_id}/groups/{group_id}", "GET DELETE"),
    Resource("/v1/organization/projects/{project_id}/hosted_tool_permissions", "GET POST"),
    Resource("/v1/organization/projects/{project_id}/model_permissions", "GET POST DELETE"),
    Resource("/v1/organization/projects/{project_id}/rate_limits", "GET"),
    Resource("/v1/organization/projects/{project_id}/rate_limits/{rate_limit_id}", "POST"),
    Resource("/v1/organization/projects/{project_id}/service_accounts", "GET POST"),
    Resource("/v1/organization/projects/{project_id}/service_accounts/{id}", "GET POST DELETE"),
    Resource("/v1/organization/projects/{project_id}/service_accounts/{service_account_id}/api_keys", "POST"),
    Resource("/v1/organization/projects/{project_id}/service_tier_settings", "GET POST"),
    Resource("/v1/organization/projects/{project_id}/spend_alerts", "GET POST"),
    Resource("/v1/organization/projects/{project_id}/spend_alerts/{alert_id}", "GET POST DELETE"),
    Resource("/v1/organization/projects/{project_id}/spend_limit", "GET POST DELETE"),
    Resource("/v1/organization/projects/{project_id}/users", "GET POST"),
    Resource("/v1/organization/projects/{project_id}/users/{user_id}", "GET POST DELETE"),
    Resource("/v1/organization/roles", "GET POST"),
    Resource("/v1/organization/roles/{role_id}", "GET POST DELETE"),
    Resource("/v1/organization/spend_alerts", "GET POST"),
    Resource("/v1/organization/spend_alerts/{alert_id}", "GET POST DELETE"),
    Resource("/v1/organization/spend_limit", "GET POST DELETE"),
    Resource("/v1/organization/usage/audio_speeches", "GET"),
    Resource("/v1/organization/usage/audio_transcriptions", "GET"),
    Resource("/v1/organization/usage/code_interpreter_sessions", "GET"),
    Resource("/v1/organization/usage/completions", "GET"),
    Resource("/v1/organization/usage/decisions", "GET"),
    Resource("/v1/organization/usage/embeddings", "GET"),
    Resource("/v1/organization/usage/file_search_calls", "GET"),
    Resource("/v1/organization/usage/images", "GET"),
    Resource("/v1/organization/usage/moderations", "GET"),
    Resource("/v1/organization/usage/vector_stores", "GET"),
    Resource("/v1/organization/usage/web_search_calls", "GET"),
    Resource("/v1/organization/users", "GET"),
    Resource("/v1/organization/users/{user_id}", "GET POST DELETE"),
    Resource("/v1/organization/users/{user_id}/roles", "GET POST"),
    Resource("/v1/organization/users/{user_id}/roles/{role_id}", "GET DELETE"),
    Resource("/v1/organization/workload_identity_providers", "GET POST"),
    Resource("/v1/organization/workload_identity_providers/{id}", "GET POST DELETE"),
    Resource("/v1/organization/workload_identity_providers/{id}/federation_rules", "GET POST"),
    Resource(
        "/v1/organization/workload_identity_providers/{id}/federation_rules/{rule_id}", "GET POST DELETE"
    ),
    Resource("/v1/projects/{project_id}/groups/{group_id}/roles", "GET POST"),
    Resource("/v1/projects/{project_id}/groups/{group_id}/roles/{role_id}", "GET DELETE"),
    Resource("/v1/projects/{project_id}/roles", "GET POST"),
    Resource("/v1/projects/{project_id}/roles/{role_id}", "GET POST DELETE"),
    Resource("/v1/projects/{project_id}/users/{user_id}/roles", "GET POST"),
    Resource("/v1/projects/{project_id}/users/{user_id}/roles/{role_id}", "GET DELETE"),
)
"""The organization: projects or workspaces, people, keys, limits and usage."""

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
        NOWHERE,
        Treatment.REFUSE,
        group="conversations",
    )


OPENAI_ROUTES: Final = (
    *routes_of(_OPENAI, _RESOURCES),
    *routes_of(_OPENAI, _OF_COMPATIBLE_HOSTS),
    Route(
        "models_delete",
        "DELETE",
        "/v1/models/{model}",
        _OPENAI,
        Modality.PLATFORM,
        IN_PATH,
        Treatment.RELAY,
        metered=False,
        group="models",
    ),
    _conversations("conversations", "/v1/conversations"),
    _conversations("conversations_below", "/v1/conversations/{path}"),
    *routes_of(_OPENAI, _ORGANIZATION),
)
"""Stored objects, files, jobs, vector stores, assistants, agents, realtime over HTTP, what is refused, and
the organization."""
