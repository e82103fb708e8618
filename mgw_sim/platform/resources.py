"""A server of resources that knows nothing of what they mean: it keeps, lists, changes and forgets them.

Which of these a route does follows from its path and method:

=============================  ======================================================================
ends with an identifier        GET gives it, POST, PUT and PATCH change it, DELETE forgets it
ends with a collection         GET lists, POST makes one
``…/{}/content`` and the like  GET gives bytes
a word or verb behind an       POST does something with that object, and returns it
identifier
anything else                  one object of that name, of which there is only one
=============================  ======================================================================

An object echoes what it was made of.  Unknown identifiers are 404, but see ``Request.lenient``.
"""

import re
from collections.abc import Collection
from typing import Any, Final

from mgw_sim.api import (
    Family,
    Handler,
    Json,
    Request,
    Response,
    StreamResponse,
    json_response,
    rfc3339,
    sse_event,
)
from mgw_sim.gemini.content import pretty_json_response
from mgw_sim.http.bodies import download
from mgw_sim.platform.representation import (
    ResourceType,
    list_page,
    not_found,
    represent,
    represent_deleted,
    resource_type_of,
)
from mgw_sim.platform.store import Entry, GeneratedContent, Key

_VERSION: Final = re.compile(r"(?:/upload)?/(?:v1beta|v1alpha|v1)")
_CONTENT_PATHS: Final = ("/content", "/media/{}", ":download", "/environments/{}/files/{...}")
_NO_CONTENT_PATHS: Final = ("/vector_stores/{}/files/{}/content",)
_LIST_ACTIONS: Final = ("activate", "deactivate")
"""POSTs whose answer is a list."""
_CREATE_ONLY: Final = ("api_keys", "file_batches", "messages")
"""Collections below an identifier that have no list, so that they look like something to be done with it."""
_SINGLETONS: Final = (
    "compliance_settings",
    "data_controls",
    "hosted_tool_permissions",
    "model_permissions",
    "service_tier_settings",
    "stats",
)
"""Words that end like collections and are none."""
_COLLECTIONS: Final = (
    "cost",
    "cost_report",
    "effective",
    "external_storage",
    "usage",
    "usage_report",
    "user_cost_report",
    "user_usage_report",
    "work",
)
"""Collections that do not end like ones."""
_ACTION_RESULTS: Final[dict[str, Json]] = {
    "activate": {"status": {"type": "active"}},
    "archive": {"archived": True},
    "cancel": {"status": "cancelled"},
    "complete": {"status": "completed"},
    "pause": {"status": "paused"},
    "respond": {"status": {"type": "closed"}},
    "resume": {"status": "queued"},
    "unpause": {"status": "active"},
}
"""What a word behind an identifier does to the object."""
_DEFAULT_SIZE: Final = 1000
_READ_ONLY_FIELDS: Final = {
    Family.OPENAI: ("id", "object"),
    Family.ANTHROPIC: ("id", "type"),
    Family.GEMINI: ("id", "name"),
}
"""What of an object nobody can change."""


def handler_for(method: str, template: str, methods: Collection[str]) -> Handler:
    """What answers a route, by the table above; ``methods`` are all that its path has."""
    *_, before, last = template.split("/")
    if method == "GET" and template.endswith(_CONTENT_PATHS) and not template.endswith(_NO_CONTENT_PATHS):
        return download_resource
    if last in {"{}", "{...}"}:
        return {"GET": get_resource, "DELETE": delete_resource}.get(method, update_resource)
    if last.startswith("{") or (method == "POST" and before == "{}" and _is_action(last, methods)):
        return act_on_resource
    if last in _LIST_ACTIONS:
        return list_resources
    if last not in _COLLECTIONS and (not last.endswith("s") or last in _SINGLETONS):
        return create_resource if methods == ["POST"] else serve_singleton
    return {"GET": list_resources, "POST": create_resource}.get(method, serve_singleton)


def _is_action(last: str, methods: Collection[str]) -> bool:
    return methods == ["POST"] and last not in _CREATE_ONLY


def without_version(template: str) -> str:
    """A template without its version."""
    return _VERSION.sub("", template, count=1)


def fill_template(template: str, ids: tuple[str, ...]) -> str:
    """A template without version, with identifiers in the place of its wildcards."""
    next_ids = iter(ids)
    return re.sub(r"\{(?:\.\.\.)?\}", lambda _: next(next_ids), without_version(template))


def resource_type_at(request: Request, collection: str) -> ResourceType:
    """The resource type of a collection, given as a template."""
    words = [word for word in without_version(collection).split("/") if word and not word.startswith("{")]
    return resource_type_of(request.family, "/".join(words))


def store_key(request: Request, item: str) -> Key:
    """Where the object of a template that ends with an identifier is kept."""
    collection, _, name = fill_template(item.partition(":")[0], request.ids).rpartition("/")
    return request.family.value, collection, name


def store_new(request: Request, collection: str, fields: Json, name: str | None = None) -> Entry:
    """Make an object of a collection (a template) and keep it."""
    resource_type, path = resource_type_at(request, collection), fill_template(collection, request.ids)
    identifier = name or request.id(resource_type.prefix)
    return request.store.put(
        (request.family.value, path, identifier), represent(request, resource_type, path, identifier, fields)
    )


def find_resource(request: Request, item: str) -> Entry:
    """The object of a template that ends with an identifier.  Raises ApiError."""
    key = store_key(request, item)
    resource = request.store.get(key)
    if resource is not None:
        return resource
    collection = item.partition(":")[0].rpartition("/")[0]
    resource_type = resource_type_at(request, collection)
    invented = request.lenient or "lenient" in request.faults or "size" in request.faults
    if not invented:
        raise not_found(request, resource_type, key[2])
    return represent(request, resource_type, key[1], key[2], {})


def check_ids(request: Request) -> None:
    """Raise the ApiError for an identifier that begins with ``missing``: it is nobody's."""
    for name in request.ids:
        if name.startswith("missing"):
            raise not_found(request, resource_type_at(request, request.template.partition("/{")[0]), name)


def fields_of(request: Request) -> Json:
    """What the client said of an object: the fields of its JSON, or the plain ones of its form."""
    return dict(request.form.fields()) if request.form is not None else dict(request.body)


def resource_response(request: Request, value: Json) -> Response:
    """An object as the answer: as an event where the client asked for events."""
    wants_events = request.body.get("stream") is True or request.query.get("stream") == "true"
    if wants_events or "text/event-stream" in request.headers.get("accept", ""):
        kind = value.get("object") or value.get("type") or "object"
        end = (b"data: [DONE]\n\n",) if request.family is Family.OPENAI else ()
        event = sse_event({**value, "event_type": f"{kind}.created"}, f"{kind}.created")
        return StreamResponse((event, *end), sse_event({"error": {"message": "The server broke."}}, "error"))
    return pretty_json_response(value) if request.family is Family.GEMINI else json_response(value)


def get_resource(request: Request) -> Response:
    """Give an object."""
    return resource_response(request, find_resource(request, request.template))


def list_resources(request: Request) -> Response:
    """List a collection."""
    template = request.template
    path = fill_template(template, request.ids)
    if "text/event-stream" in request.headers.get("accept", ""):
        return resource_response(request, {"object": "event", "type": "event"})
    return resource_response(
        request, list_page(request, path, list(request.store.all(request.family.value, path)))
    )


def create_resource(request: Request) -> Response:
    """Make an object."""
    return resource_response(
        request, store_new(request, request.template, fields_of(request), _chosen_name(request))
    )


def _chosen_name(request: Request) -> str | None:
    """The identifier that a client chose, where its vendor lets it."""
    name = request.body.get("name") if request.family is Family.GEMINI else None
    return name.rpartition("/")[2] if isinstance(name, str) and "/" in name else None


def update_resource(request: Request) -> Response:
    """Change an object."""
    resource = find_resource(request, request.template)
    read_only: Entry = {
        name: resource[name] for name in _READ_ONLY_FIELDS[request.family] if name in resource
    }
    return resource_response(
        request,
        request.store.put(
            store_key(request, request.template), {**resource, **fields_of(request), **read_only}
        ),
    )


def act_on_resource(request: Request) -> Response:
    """Do something with the object before the last word of the path, or before the verb."""
    item, _, word = request.template.rpartition(":" if ":" in request.template else "/")
    resource = find_resource(request, item)
    changed = {**resource, **_ACTION_RESULTS.get(word, {})}
    if word == "archive" and request.family is Family.ANTHROPIC:
        changed = {**resource, "archived_at": rfc3339(request.now)}
    return resource_response(request, request.store.put(store_key(request, item), changed))


def delete_resource(request: Request) -> Response:
    """Forget an object."""
    find_resource(request, request.template)
    key = store_key(request, request.template)
    request.store.drop(key)
    resource_type = resource_type_at(request, request.template.rpartition("/")[0])
    return resource_response(request, represent_deleted(request, resource_type, key[2]))


def serve_singleton(request: Request) -> Response:
    """Give or change what there is only one of."""
    path, _, name = fill_template(request.template, request.ids).rpartition("/")
    key = (request.family.value, path, name)
    if request.method == "DELETE":
        request.store.drop(key)
        return resource_response(
            request, represent_deleted(request, resource_type_at(request, request.template), name)
        )
    resource = request.store.get(key) or represent(
        request, resource_type_at(request, request.template), path, name, {}
    )
    if request.method != "GET":
        resource = request.store.put(key, {**resource, **fields_of(request)})
    return resource_response(request, resource)


def download_resource(request: Request) -> Response:
    """Give the bytes of an object: those that were uploaded, or made ones."""
    item = request.template.removesuffix("/content").partition(":")[0]
    size = request.faults.number("size")
    resource = find_resource(request, item)
    stored = request.store.contents.get(store_key(request, item))
    if size is None and stored is not None:
        return download(request, stored, _media_type(resource), resource.get("filename"))
    return download(
        request, GeneratedContent(_DEFAULT_SIZE if size is None else size), _media_type(resource), None
    )


def _media_type(resource: Entry) -> str:
    media_type: Any = resource.get("mime_type") or resource.get("mimeType")
    return media_type if isinstance(media_type, str) else "application/octet-stream"
