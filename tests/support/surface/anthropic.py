"""What Anthropic's clients ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.support.grid import ANTHROPIC
from tests.support.surface.asked import FILE, SIGNED, form, read

_TEXT: Final = r"""
POST /v1/messages { "max_tokens":16,"messages":[{"role":"user","content":"H\u0069"}], "model" : "MODEL" }
"""
_COUNT: Final = r"""
POST /v1/messages/count_tokens {"messages":[{"role":"user","content":"Hi"}] , "model":"MODEL"}
"""
_COMPLETE: Final = r"""
POST /v1/complete {"prompt":"\n\nHuman: Hi\n\nAssistant:", "model" : "MODEL","max_tokens_to_sample":16}
"""
_BATCH: Final = r"""
POST /v1/messages/batches { "requests":[ {"custom_id":"a","params":{"model" : "MODEL", "max_tokens":1.0e0}},
  {"params":{ "model":"MODEL","metadata":{"model":"known-to-anthropic"} }, "custom_id":"\u0062"} ] }
"""
_OWN: Final = r"""
GET /v1/organizations/cost_report?starting_at=1
GET /v1/organizations/usage_report/messages?starting_at=1
GET /v1/organizations/usage_report/claude_code?starting_at=1
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
"""The paths of Anthropic's clients, whatever they sign with (contract 4.13)."""
_IF_SIGNED: Final = r"""
GET /v1/files?limit=2
GET /v1/files/file_1
DELETE /v1/files/file_1
GET /v1/files/file_1/content
GET /v1/vaults
GET /v1/agents/sessions
GET /v1/skills
GET /v1/environments
"""

BY_ANTHROPIC: Final = (
    *read(ANTHROPIC, _TEXT, modality="text", tells=True),
    *read(ANTHROPIC, _COUNT, modality="text"),
    *read(ANTHROPIC, _COMPLETE, modality="text"),
    *(replace(asked, chooses=False) for asked in read(ANTHROPIC, _BATCH)),
    *read(ANTHROPIC, _OWN),
    *read(ANTHROPIC, _IF_SIGNED, *SIGNED),
    *(replace(form(ANTHROPIC, path, FILE), headers=SIGNED) for path in ("/v1/files", "/v1/skills")),
    *(form(ANTHROPIC, path, FILE) for path in ("/v1/skills", "/v1/skills/skill_1/versions")),
)
