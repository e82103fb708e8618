"""How each vendor represents the objects of its platform: identifiers and types, pages, errors.

A resource type is found by its collection, spelt without version and identifiers: ``threads/runs/steps``.
One that is not in the table is called after its collection: a ``dream`` of ``dreams``.  Sources: the types of
the three SDKs.

OpenAI pages by the identifier of the last entry (``after``), Anthropic by that (``after_id``, ``before_id``)
or by a token (``page``), Google by a token (``pageToken``).  Tokens are identifiers, too: a page that is
asked for again is the same again.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from mgw_sim.anthropic.paths import PAGED_BY_ID
from mgw_sim.api import ApiError, Family, Json, Request, rfc3339
from mgw_sim.gemini.paths import BY_ID
from mgw_sim.platform.store import Entry

_DEFAULT_SIZES: Final = {Family.OPENAI: 20, Family.ANTHROPIC: 20, Family.GEMINI: 50}
_MAX_SIZE: Final = 1000


class ResourceType(Struct, frozen=True):
    """One kind of objects; ``default_fields`` are what each has from the beginning."""

    prefix: str
    kind: str
    default_fields: Mapping[str, Any] = {}  # fields of a vendor's JSON
    deleted: str | None = None
    """What a deleted one says of itself, where that does not follow from the kind."""


_OPENAI_TYPES: Final[Mapping[str, ResourceType]] = {
    "agents": ResourceType("agent_", "agent"),
    "agents/automations": ResourceType("auto_", "agent.automation"),
    "agents/sessions": ResourceType("asess_", "agent.session", {"status": "idle"}),
    "assistants": ResourceType("asst_", "assistant", {"tools": [], "metadata": {}}),
    "audio/voice_consents": ResourceType("cons_", "audio.voice_consent"),
    "audio/voices": ResourceType("voice_", "audio.voice"),
    "batches": ResourceType(
        "batch_",
        "batch",
        {"status": "validating", "request_counts": {"total": 0, "completed": 0, "failed": 0}},
    ),
    "chat/completions": ResourceType("chatcmpl-", "chat.completion"),
    "chatkit/sessions": ResourceType(
        "cksess_", "chatkit.session", {"status": "active", "client_secret": "ek_sim"}
    ),
    "chatkit/threads": ResourceType("cthr_", "chatkit.thread"),
    "containers": ResourceType("cntr_", "container", {"status": "running"}),
    "containers/files": ResourceType("cfile_", "container.file", {"source": "user"}),
    "content_provenance_checks": ResourceType("cpc_", "content_provenance_check"),
    "conversations": ResourceType("conv_", "conversation"),
    "evals": ResourceType("eval_", "eval"),
    "evals/runs": ResourceType("evalrun_", "eval.run", {"status": "queued"}),
    "evals/runs/output_items": ResourceType("outputitem_", "eval.run.output_item"),
    "files": ResourceType("file-", "file", {"status": "processed"}, "file"),
    "fine_tuning/checkpoints/permissions": ResourceType("cp_", "checkpoint.permission"),
    "fine_tuning/jobs": ResourceType("ftjob-", "fine_tuning.job", {"status": "queued"}),
    "organization/admin_api_keys": ResourceType("key_", "organization.admin_api_key"),
    "organization/certificates": ResourceType(
        "cert_", "organization.certificate", deleted="certificate.deleted"
    ),
    "organization/groups": ResourceType("group_", "group"),
    "organization/invites": ResourceType("invite-", "organization.invite", {"status": "pending"}),
    "organization/projects": ResourceType("proj_", "organization.project", {"status": "active"}),
    "organization/projects/service_accounts": ResourceType(
        "svc_acct_", "organization.project.service_account"
    ),
    "organization/users": ResourceType("user-", "organization.user"),
    "responses": ResourceType("resp_", "response"),
    "skills": ResourceType("skill_", "skill"),
    "skills/versions": ResourceType("skillver_", "skill.version"),
    "threads": ResourceType("thread_", "thread", {"metadata": {}}),
    "threads/messages": ResourceType("msg_", "thread.message"),
    "threads/runs": ResourceType("run_", "thread.run", {"status": "queued"}),
    "threads/runs/steps": ResourceType("step_", "thread.run.step"),
    "uploads": ResourceType("upload_", "upload", {"status": "pending"}),
    "uploads/parts": ResourceType("part_", "upload.part"),
    "vaults": ResourceType("vault_", "vault"),
    "vaults/credentials": ResourceType("vcred_", "vault.credential"),
    "vector_stores": ResourceType("vs_", "vector_store", {"status": "completed", "usage_bytes": 0}),
    "vector_stores/file_batches": ResourceType(
        "vsfb_", "vector_store.files_batch", {"status": "in_progress"}
    ),
    "vector_stores/files": ResourceType("file-", "vector_store.file", {"status": "completed"}),
    "videos": ResourceType("video_", "video", {"status": "queued", "progress": 0}),
    "videos/characters": ResourceType("char_", "video.character"),
    "webhook_endpoints": ResourceType("we_", "webhook_endpoint"),
}
_ANTHROPIC_TYPES: Final[Mapping[str, ResourceType]] = {
    "agents": ResourceType("agent_", "agent", {"version": 1}),
    "compliance/review/cases": ResourceType("rvc_", "compliance_review_case", {"status": {"type": "open"}}),
    "compliance/review/items": ResourceType("msg_", "compliance_review_item"),
    "compliance/review/notices": ResourceType("rvn_", "compliance_review_notice"),
    "deployment_runs": ResourceType("drun_", "deployment_run"),
    "deployments": ResourceType("dep_", "deployment"),
    "dreams": ResourceType("dream_", "dream"),
    "environments": ResourceType("env_", "environment"),
    "environments/work": ResourceType("work_", "work"),
    "files": ResourceType("file_", "file", {"downloadable": True}),
    "memory_stores": ResourceType("memstore_", "memory_store"),
    "memory_stores/memories": ResourceType("mem_", "memory"),
    "memory_stores/memory_versions": ResourceType("memver_", "memory_version"),
    "messages/batches": ResourceType("msgbatch_", "message_batch"),
    "organizations/api_keys": ResourceType("apikey_", "api_key"),
    "organizations/external_storage": ResourceType(
        "estrg_", "external_storage", {"status": {"type": "available"}}
    ),
    "organizations/providers/google/projects/data_controls": ResourceType(
        "", "google_managed_project_data_controls"
    ),
    "organizations/rbac_groups/members": ResourceType("user_", "rbac_group_member"),
    "organizations/workspaces": ResourceType("wrkspc_", "workspace"),
    "organizations/workspaces/members": ResourceType("user_", "workspace_member"),
    "sessions": ResourceType("sesn_", "session", {"status": "idle"}),
    "sessions/resources": ResourceType("sesrsc_", "session_resource"),
    "sessions/threads": ResourceType("sthr_", "session_thread"),
    "skills": ResourceType("skill_", "skill", {"source": "custom"}),
    "skills/versions": ResourceType("skillver_", "skill_version"),
    "tunnels": ResourceType("tun_", "tunnel"),
    "user_profiles": ResourceType("uprof_", "user_profile"),
    "user_profiles/providers/google/data_controls": ResourceType("", "google_managed_data_controls"),
    "vaults": ResourceType("vlt_", "vault"),
    "vaults/credentials": ResourceType("vcrd_", "vault_credential"),
}
_GEMINI_TYPES: Final[Mapping[str, ResourceType]] = {
    "batches": ResourceType("", "operation"),
    "cachedContents": ResourceType("", "cachedContent"),
    "interactions": ResourceType("v1_", "interaction", {"status": "completed"}),
    "tunedModels": ResourceType("", "tunedModel", {"state": "CREATING"}),
    "webhooks": ResourceType("wh_", "webhook", {"state": "enabled"}),
}
_TYPES: Final = {
    Family.OPENAI: _OPENAI_TYPES,
    Family.ANTHROPIC: _ANTHROPIC_TYPES,
    Family.GEMINI: _GEMINI_TYPES,
}


def resource_type_of(family: Family, collection: str) -> ResourceType:
    """The resource type of a collection."""
    resource_type = _TYPES[family].get(collection)
    if resource_type is not None:
        return resource_type
    kind = _singularize(collection.rpartition("/")[2])
    return ResourceType("" if family is Family.GEMINI else f"{kind}_", kind)


def _singularize(word: str) -> str:
    for ending, single in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("s", "")):
        if word.endswith(ending):
            return word.removesuffix(ending) + single
    return word


def represent(request: Request, resource_type: ResourceType, path: str, name: str, fields: Json) -> Entry:
    """An object in its vendor's shape, with the fields that it was made of."""
    match request.family:
        case Family.OPENAI:
            return {
                **resource_type.default_fields,
                **fields,
                "id": name,
                "object": resource_type.kind,
                "created_at": request.now,
            }
        case Family.ANTHROPIC:
            stamp = {"created_at": rfc3339(request.now), "updated_at": rfc3339(request.now)}
            return {**resource_type.default_fields, **fields, "id": name, "type": resource_type.kind, **stamp}
    if path.rpartition("/")[2] in BY_ID:
        return {
            **resource_type.default_fields,
            **fields,
            "id": fields.get("id", name),
            "created": rfc3339(request.now),
            "updated": rfc3339(request.now),
        }
    stamp = {"createTime": rfc3339(request.now), "updateTime": rfc3339(request.now)}
    return {**resource_type.default_fields, **fields, "name": f"{path.lstrip('/')}/{name}", **stamp}


def not_found(request: Request, resource_type: ResourceType, name: str) -> ApiError:
    """There is no such object."""
    match request.family:
        case Family.OPENAI:
            return ApiError(404, f"No {resource_type.kind} found with id '{name}'.", "id", "not_found")
        case Family.ANTHROPIC:
            return ApiError(404, f"{resource_type.kind} not found: {name}")
    return ApiError(404, f"Requested entity was not found: {name}")


def represent_deleted(request: Request, resource_type: ResourceType, name: str) -> Json:
    """What a vendor says of an object that was deleted."""
    match request.family:
        case Family.OPENAI:
            return {
                "id": name,
                "object": resource_type.deleted or f"{resource_type.kind}.deleted",
                "deleted": True,
            }
        case Family.ANTHROPIC:
            return {"id": name, "type": resource_type.deleted or f"{resource_type.kind}_deleted"}
    return {}


def list_page(request: Request, path: str, entries: list[Entry]) -> Json:
    """The page that was asked for of all the entries of a collection."""
    match request.family:
        case Family.OPENAI:
            return openai_page(request, entries)
        case Family.ANTHROPIC:
            is_by_id = request.template.removeprefix("/v1") in PAGED_BY_ID
            return anthropic_page(request, entries) if is_by_id else anthropic_token_page(request, entries)
    return gemini_page(request, path.rpartition("/")[2], entries)


def openai_page(request: Request, entries: list[Entry]) -> Json:
    """A list of OpenAI's."""
    page_entries, more = _entries_after(request, entries, request.query.get("after"), "limit")
    return {"object": "list", "data": page_entries, **_first_and_last(page_entries), "has_more": more}


def anthropic_page(request: Request, entries: list[Entry]) -> Json:
    """A list of Anthropic's that pages by identifiers, forwards or backwards."""
    before = request.query.get("before_id")
    if before is None:
        page_entries, more = _entries_after(request, entries, request.query.get("after_id"), "limit")
    else:
        page_entries, more = _entries_after(request, entries[::-1], before, "limit")
        page_entries = page_entries[::-1]
    return {"data": page_entries, **_first_and_last(page_entries), "has_more": more}


def anthropic_token_page(request: Request, entries: list[Entry]) -> Json:
    """A list of Anthropic's that pages by tokens."""
    token = request.query.get("page")
    page_entries, more = _entries_after(request, entries, token and token.removeprefix("page_"), "limit")
    return {
        "data": page_entries,
        "next_page": f"page_{_name(page_entries[-1])}" if more else None,
        "has_more": more,
    }


def gemini_page(request: Request, plural: str, entries: list[Entry]) -> Json:
    """A list of Google's; the newer collections spell their words with underscores."""
    is_new = plural in BY_ID
    token = request.query.get("page_token") or request.query.get("pageToken") or None
    size = "page_size" if "page_size" in request.query else "pageSize"
    page_entries, more = _entries_after(request, entries, token, size)
    fields: Json = {"operations" if plural == "batches" else plural: page_entries}
    if more:
        fields["next_page_token" if is_new else "nextPageToken"] = _name(page_entries[-1])
    return fields


def _entries_after(
    request: Request, entries: list[Entry], after: str | None, size: str
) -> tuple[list[Entry], bool]:
    """Return ``size`` entries behind the one that is named, and whether there are more."""
    names = [_name(entry) for entry in entries]
    if after and after not in names:
        raise ApiError(400, f"Invalid page: {after!r} is unknown.", "after")
    start = names.index(after) + 1 if after else 0
    size_text = request.query.get(size) or str(_DEFAULT_SIZES[request.family])
    if not re.fullmatch(r"[0-9]{1,6}", size_text) or not int(size_text):
        raise ApiError(400, f"Invalid value for '{size}': {size_text!r}.", size)
    stop = start + min(int(size_text), _MAX_SIZE)
    return entries[start:stop], stop < len(entries)


def _first_and_last(entries: list[Entry]) -> Json:
    return {
        "first_id": _name(entries[0]) if entries else None,
        "last_id": _name(entries[-1]) if entries else None,
    }


def _name(entry: Entry) -> str:
    return str(entry.get("id") or entry.get("name"))
