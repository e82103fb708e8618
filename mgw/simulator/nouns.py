"""What the vendors call their objects: the prefix of identifiers, the word for the kind, what a new one has.

A collection is spelt without version and identifiers: ``threads/runs/steps``.  What does not stand here is
called after its collection: a ``dream`` of ``dreams``.  Sources: the types of the three SDKs.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from mgw.simulator.answer import Family


class Noun(Struct, frozen=True):
    """One kind of objects; ``more`` is what each has from the beginning."""

    prefix: str
    kind: str
    more: Mapping[str, Any] = {}  # fields of a vendor's JSON
    deleted: str | None = None
    """What a deleted one says of itself, where that does not follow from the kind."""


_OPENAI: Final[Mapping[str, Noun]] = {
    "agents": Noun("agent_", "agent"),
    "agents/automations": Noun("auto_", "agent.automation"),
    "agents/sessions": Noun("asess_", "agent.session", {"status": "idle"}),
    "assistants": Noun("asst_", "assistant", {"tools": [], "metadata": {}}),
    "audio/voice_consents": Noun("cons_", "audio.voice_consent"),
    "audio/voices": Noun("voice_", "audio.voice"),
    "batches": Noun(
        "batch_",
        "batch",
        {"status": "validating", "request_counts": {"total": 0, "completed": 0, "failed": 0}},
    ),
    "chat/completions": Noun("chatcmpl-", "chat.completion"),
    "chatkit/sessions": Noun("cksess_", "chatkit.session", {"status": "active", "client_secret": "ek_sim"}),
    "chatkit/threads": Noun("cthr_", "chatkit.thread"),
    "containers": Noun("cntr_", "container", {"status": "running"}),
    "containers/files": Noun("cfile_", "container.file", {"source": "user"}),
    "content_provenance_checks": Noun("cpc_", "content_provenance_check"),
    "conversations": Noun("conv_", "conversation"),
    "evals": Noun("eval_", "eval"),
    "evals/runs": Noun("evalrun_", "eval.run", {"status": "queued"}),
    "evals/runs/output_items": Noun("outputitem_", "eval.run.output_item"),
    "files": Noun("file-", "file", {"status": "processed"}, "file"),
    "fine_tuning/checkpoints/permissions": Noun("cp_", "checkpoint.permission"),
    "fine_tuning/jobs": Noun("ftjob-", "fine_tuning.job", {"status": "queued"}),
    "organization/admin_api_keys": Noun("key_", "organization.admin_api_key"),
    "organization/certificates": Noun("cert_", "organization.certificate", deleted="certificate.deleted"),
    "organization/groups": Noun("group_", "group"),
    "organization/invites": Noun("invite-", "organization.invite", {"status": "pending"}),
    "organization/projects": Noun("proj_", "organization.project", {"status": "active"}),
    "organization/projects/service_accounts": Noun("svc_acct_", "organization.project.service_account"),
    "organization/users": Noun("user-", "organization.user"),
    "responses": Noun("resp_", "response"),
    "skills": Noun("skill_", "skill"),
    "skills/versions": Noun("skillver_", "skill.version"),
    "threads": Noun("thread_", "thread", {"metadata": {}}),
    "threads/messages": Noun("msg_", "thread.message"),
    "threads/runs": Noun("run_", "thread.run", {"status": "queued"}),
    "threads/runs/steps": Noun("step_", "thread.run.step"),
    "uploads": Noun("upload_", "upload", {"status": "pending"}),
    "uploads/parts": Noun("part_", "upload.part"),
    "vaults": Noun("vault_", "vault"),
    "vaults/credentials": Noun("vcred_", "vault.credential"),
    "vector_stores": Noun("vs_", "vector_store", {"status": "completed", "usage_bytes": 0}),
    "vector_stores/file_batches": Noun("vsfb_", "vector_store.files_batch", {"status": "in_progress"}),
    "vector_stores/files": Noun("file-", "vector_store.file", {"status": "completed"}),
    "videos": Noun("video_", "video", {"status": "queued", "progress": 0}),
    "videos/characters": Noun("char_", "video.character"),
    "webhook_endpoints": Noun("we_", "webhook_endpoint"),
}
_ANTHROPIC: Final[Mapping[str, Noun]] = {
    "agents": Noun("agent_", "agent", {"version": 1}),
    "deployment_runs": Noun("drun_", "deployment_run"),
    "deployments": Noun("dep_", "deployment"),
    "dreams": Noun("dream_", "dream"),
    "environments": Noun("env_", "environment"),
    "environments/work": Noun("work_", "work"),
    "files": Noun("file_", "file", {"downloadable": True}),
    "memory_stores": Noun("memstore_", "memory_store"),
    "memory_stores/memories": Noun("mem_", "memory"),
    "memory_stores/memory_versions": Noun("memver_", "memory_version"),
    "messages/batches": Noun("msgbatch_", "message_batch"),
    "organizations/api_keys": Noun("apikey_", "api_key"),
    "organizations/rbac_groups/members": Noun("user_", "rbac_group_member"),
    "organizations/workspaces": Noun("wrkspc_", "workspace"),
    "organizations/workspaces/members": Noun("user_", "workspace_member"),
    "sessions": Noun("sesn_", "session", {"status": "idle"}),
    "sessions/resources": Noun("sesrsc_", "session_resource"),
    "sessions/threads": Noun("sthr_", "session_thread"),
    "skills": Noun("skill_", "skill", {"source": "custom"}),
    "skills/versions": Noun("skillver_", "skill_version"),
    "tunnels": Noun("tun_", "tunnel"),
    "user_profiles": Noun("uprof_", "user_profile"),
    "vaults": Noun("vlt_", "vault"),
    "vaults/credentials": Noun("vcrd_", "vault_credential"),
}
_GEMINI: Final[Mapping[str, Noun]] = {
    "batches": Noun("", "operation"),
    "cachedContents": Noun("", "cachedContent"),
    "interactions": Noun("v1_", "interaction", {"status": "completed"}),
    "tunedModels": Noun("", "tunedModel", {"state": "CREATING"}),
    "webhooks": Noun("wh_", "webhook", {"state": "enabled"}),
}
_NOUNS: Final = {Family.OPENAI: _OPENAI, Family.ANTHROPIC: _ANTHROPIC, Family.GEMINI: _GEMINI}


def noun_of(family: Family, collection: str) -> Noun:
    """The noun of a collection."""
    known = _NOUNS[family].get(collection)
    if known is not None:
        return known
    kind = _singular(collection.rpartition("/")[2])
    return Noun("" if family is Family.GEMINI else f"{kind}_", kind)


def _singular(word: str) -> str:
    for ending, single in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("s", "")):
        if word.endswith(ending):
            return word.removesuffix(ending) + single
    return word
