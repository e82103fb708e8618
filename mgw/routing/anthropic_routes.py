"""What Anthropic's clients ask for beside text (contract 4.4, 4.16).

The paths are those of Anthropic's SDK.
"""

from __future__ import annotations

from typing import Final

from mgw.routing.resource import Resource, rows
from mgw.routing.route import ModelAt, Route, Treatment, UrlRewrite
from mgw.vocabulary import DialectName, Modality

_AGENT: Final = (
    ("model",),
    ("model", "id"),
    ("multiagent", "advisor", "model"),
    ("multiagent", "agents", None, "model"),
)
"""A model is a name, or an object that holds one."""
_SESSION_AGENT: Final = (("agent", "model"), ("agent", "model", "id"))

_RESOURCES: Final = (
    Resource("/v1/agents", "GET POST", models=_AGENT, preferred=True),
    Resource("/v1/agents/{agent_id}", "GET POST", models=_AGENT, preferred=True),
    Resource("/v1/agents/{agent_id}/archive", "POST", preferred=True),
    Resource("/v1/agents/{agent_id}/versions", "GET", preferred=True),
    Resource("/v1/deployment_runs", "GET"),
    Resource("/v1/deployment_runs/{deployment_run_id}", "GET"),
    Resource("/v1/deployments", "GET POST", models=_SESSION_AGENT),
    Resource("/v1/deployments/{deployment_id}", "GET POST", models=_SESSION_AGENT),
    Resource("/v1/deployments/{deployment_id}/archive", "POST"),
    Resource("/v1/deployments/{deployment_id}/pause", "POST"),
    Resource("/v1/deployments/{deployment_id}/run", "POST"),
    Resource("/v1/deployments/{deployment_id}/unpause", "POST"),
    Resource("/v1/dreams", "GET POST", models=_AGENT),
    Resource("/v1/dreams/{dream_id}", "GET"),
    Resource("/v1/dreams/{dream_id}/archive", "POST"),
    Resource("/v1/dreams/{dream_id}/cancel", "POST"),
    Resource("/v1/environments", "GET POST", preferred=True),
    Resource("/v1/environments/{environment_id}", "GET POST DELETE", preferred=True),
    Resource("/v1/environments/{environment_id}/archive", "POST", preferred=True),
    Resource("/v1/environments/{environment_id}/work", "GET", preferred=True),
    Resource("/v1/environments/{environment_id}/work/poll", "GET", preferred=True),
    Resource("/v1/environments/{environment_id}/work/stats", "GET", preferred=True),
    Resource("/v1/environments/{environment_id}/work/{work_id}", "GET POST", preferred=True),
    Resource("/v1/environments/{environment_id}/work/{work_id}/ack", "POST", preferred=True),
    Resource("/v1/environments/{environment_id}/work/{work_id}/heartbeat", "POST", preferred=True),
    Resource("/v1/environments/{environment_id}/work/{work_id}/stop", "POST", preferred=True),
    Resource("/v1/files", "GET POST"),
    Resource("/v1/files/{file_id}", "GET DELETE"),
    Resource("/v1/files/{file_id}/content", "GET"),
    Resource("/v1/memory_stores", "GET POST", preferred=True),
    Resource("/v1/memory_stores/{memory_store_id}", "GET POST DELETE", preferred=True),
    Resource("/v1/memory_stores/{memory_store_id}/archive", "POST", preferred=True),
    Resource("/v1/memory_stores/{memory_store_id}/memories", "GET POST", preferred=True),
    Resource("/v1/memory_stores/{memory_store_id}/memories/{memory_id}", "GET POST DELETE", preferred=True),
    Resource("/v1/memory_stores/{memory_store_id}/memory_versions", "GET", preferred=True),
    Resource(
        "/v1/memory_stores/{memory_store_id}/memory_versions/{memory_version_id}", "GET", preferred=True
    ),
    Resource(
        "/v1/memory_stores/{memory_store_id}/memory_versions/{memory_version_id}/redact",
        "POST",
        preferred=True,
    ),
    Resource(
        "/v1/messages/batches",
        "GET POST",
        models=(("requests", None, "params", "model"),),
        model_at=ModelAt.BATCH,
        url_rewrite=UrlRewrite.RESULTS_URL,
    ),
    Resource("/v1/messages/batches/{message_batch_id}", "GET DELETE", url_rewrite=UrlRewrite.RESULTS_URL),
    Resource("/v1/messages/batches/{message_batch_id}/cancel", "POST", url_rewrite=UrlRewrite.RESULTS_URL),
    Resource("/v1/messages/batches/{message_batch_id}/results", "GET"),
    Resource("/v1/sessions", "GET POST", models=_SESSION_AGENT, preferred=True),
    Resource("/v1/sessions/{session_id}", "GET POST DELETE", models=_SESSION_AGENT, preferred=True),
    Resource("/v1/sessions/{session_id}/archive", "POST", preferred=True),
    Resource("/v1/sessions/{session_id}/events", "GET POST", preferred=True),
    Resource("/v1/sessions/{session_id}/events/stream", "GET", preferred=True),
    Resource("/v1/sessions/{session_id}/resources", "GET POST", preferred=True),
    Resource("/v1/sessions/{session_id}/resources/{resource_id}", "GET POST DELETE", preferred=True),
    Resource("/v1/sessions/{session_id}/threads", "GET", preferred=True),
    Resource("/v1/sessions/{session_id}/threads/{thread_id}", "GET", preferred=True),
    Resource("/v1/sessions/{session_id}/threads/{thread_id}/archive", "POST", preferred=True),
    Resource("/v1/sessions/{session_id}/threads/{thread_id}/events", "GET", preferred=True),
    Resource("/v1/sessions/{session_id}/threads/{thread_id}/stream", "GET", preferred=True),
    Resource("/v1/skills", "GET POST", preferred=True),
    Resource("/v1/skills/{skill_id}", "GET DELETE", preferred=True),
    Resource("/v1/skills/{skill_id}/versions", "GET POST", preferred=True),
    Resource("/v1/skills/{skill_id}/versions/{version}", "GET DELETE", preferred=True),
    Resource("/v1/skills/{skill_id}/versions/{version}/content", "GET", preferred=True),
    Resource("/v1/tunnels", "GET POST", preferred=True),
    Resource("/v1/tunnels/{tunnel_id}", "GET", preferred=True),
    Resource("/v1/tunnels/{tunnel_id}/archive", "POST", preferred=True),
    Resource("/v1/tunnels/{tunnel_id}/certificates", "GET POST", preferred=True),
    Resource("/v1/tunnels/{tunnel_id}/certificates/{certificate_id}", "GET", preferred=True),
    Resource("/v1/tunnels/{tunnel_id}/certificates/{certificate_id}/archive", "POST", preferred=True),
    Resource("/v1/tunnels/{tunnel_id}/reveal_token", "POST", preferred=True),
    Resource("/v1/tunnels/{tunnel_id}/rotate_token", "POST", preferred=True),
    Resource("/v1/user_profiles", "GET POST"),
    Resource("/v1/user_profiles/{user_profile_id}", "GET POST DELETE"),
    Resource("/v1/user_profiles/{user_profile_id}/action_urls", "POST"),
    Resource("/v1/user_profiles/{user_profile_id}/enrollment_url", "POST"),
    Resource("/v1/vaults", "GET POST"),
    Resource("/v1/vaults/{vault_id}", "GET POST DELETE"),
    Resource("/v1/vaults/{vault_id}/archive", "POST"),
    Resource("/v1/vaults/{vault_id}/credentials", "GET POST"),
    Resource("/v1/vaults/{vault_id}/credentials/{credential_id}", "GET POST DELETE"),
    Resource("/v1/vaults/{vault_id}/credentials/{credential_id}/archive", "POST"),
    Resource("/v1/vaults/{vault_id}/credentials/{credential_id}/mcp_oauth_validate", "POST"),
)

_COMPLETE: Final = Route(
    "complete",
    "POST",
    "/v1/complete",
    DialectName.ANTHROPIC,
    Modality.TEXT,
    ModelAt.BODY,
    Treatment.RELAY,
    metered=False,
)
"""The text completions that came before messages; their answers tell no tokens."""

ANTHROPIC_ROUTES: Final = (_COMPLETE, *rows(DialectName.ANTHROPIC, _RESOURCES))
"""Text completions, message batches, files, skills, agents and what they work with."""
