"""A server of resources that knows nothing of what they mean: it keeps, lists, changes and forgets them.

Which of these a row does follows from its path and method:

=============================  ======================================================================
ends with an identifier        GET gives it, POST, PUT and PATCH change it, DELETE forgets it
ends with a collection         GET lists, POST makes one
``…/{}/content`` and the like  GET gives bytes
a word or verb behind an       POST does something with that object, and answers it
identifier
anything else                  one object of that name, of which there is only one
=============================  ======================================================================

An object echoes what it was made of.  Unknown identifiers are 404, but see ``Call.lenient``.
"""

import re
from collections.abc import Collection
from typing import Any, Final

from mgw.simulator.api import (
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
from mgw.simulator.gemini.content import pretty_json_response
from mgw.simulator.http.bodies import download
from mgw.simulator.platform.representation import (
    ResourceType,
    list_page,
    not_found,
    represent,
    represent_deleted,
    resource_type_of,
)
from mgw.simulator.platform.store import Entry, GeneratedContent, Key

_VERSION: Final = re.compile(r"(?:/upload)?/(?:v1beta|v1alpha|v1)")
_CONTENT_PATHS: Final = ("/content", "/media/{}", ":download", "/environments/{}/files/{...}")
_NO_CONTENT_PATHS: Final = ("/vector_stores/{}/files/{}/content",)
_LIST_ACTIONS: Final = ("activate", "deactivate")
"""POSTs whose answer is a list."""
_CREATE_ONLY: Final = ("api_keys", "file_batches", "messages")
"""Collections below an identifier that have no list, so that they look like something to be done with it."""
_SINGLETONS: Final = (
    "compliance_settings",
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
    "archive": {"archived": True},
    "cancel": {"status": "cancelled"},
    "complete": {"status": "completed"},
    "pause": {"status": "paused"},
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
    """What answers a row, by the table above; ``methods`` are all that its path has."""
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
    found = iter(ids)
    return re.sub(r"\{(?:\.\.\.)?\}", lambda _: next(found), without_version(template))


def resource_type_at(call: Request, collection: str) -> ResourceType:
    """The noun of a collection, given as a template."""
    words = [word for word in without_version(collection).split("/") if word and not word.startswith("{")]
    return resource_type_of(call.family, "/".join(words))


def store_key(call: Request, item: str) -> Key:
    """Where the object of a template that ends with an identifier is kept."""
    collection, _, name = fill_template(item.partition(":")[0], call.ids).rpartition("/")
    return call.family.value, collection, name


def store_new(call: Request, collection: str, fields: Json, name: str | None = None) -> Entry:
    """Make an object of a collection (a template) and keep it."""
    noun, path = resource_type_at(call, collection), fill_template(collection, call.ids)
    made = name or call.id(noun.prefix)
    return call.store.put((call.family.value, path, made), represent(call, noun, path, made, fields))


def find_resource(call: Request, item: str) -> Entry:
    """The object of a template that ends with an identifier.  Raises Refusal."""
    key = store_key(call, item)
    found = call.store.get(key)
    if found is not None:
        return found
    collection = item.partition(":")[0].rpartition("/")[0]
    noun = resource_type_at(call, collection)
    invented = call.lenient or "lenient" in call.faults or "size" in call.faults
    if not invented:
        raise not_found(call, noun, key[2])
    return represent(call, noun, key[1], key[2], {})


def check_ids(call: Request) -> None:
    """Raise the Refusal for an identifier that begins with ``missing``: it is nobody's."""
    for name in call.ids:
        if name.startswith("missing"):
            raise not_found(call, resource_type_at(call, call.template.partition("/{")[0]), name)


def fields_of(call: Request) -> Json:
    """What the client said of an object: the fields of its JSON, or the plain ones of its form."""
    return dict(call.form.fields()) if call.form is not None else dict(call.body)


def resource_response(call: Request, value: Json) -> Response:
    """An object as the answer: as an event where the client asked for events."""
    wanted = call.body.get("stream") is True or call.query.get("stream") == "true"
    if wanted or "text/event-stream" in call.headers.get("accept", ""):
        kind = value.get("object") or value.get("type") or "object"
        done = (b"data: [DONE]\n\n",) if call.family is Family.OPENAI else ()
        event = sse_event({**value, "event_type": f"{kind}.created"}, f"{kind}.created")
        return StreamResponse((event, *done), sse_event({"error": {"message": "The server broke."}}, "error"))
    return pretty_json_response(value) if call.family is Family.GEMINI else json_response(value)


def get_resource(call: Request) -> Response:
    """Give an object."""
    return resource_response(call, find_resource(call, call.template))


def list_resources(call: Request) -> Response:
    """List a collection."""
    template = call.template
    path = fill_template(template, call.ids)
    if "text/event-stream" in call.headers.get("accept", ""):
        return resource_response(call, {"object": "event", "type": "event"})
    return resource_response(call, list_page(call, path, list(call.store.all(call.family.value, path))))


def create_resource(call: Request) -> Response:
    """Make an object."""
    return resource_response(call, store_new(call, call.template, fields_of(call), _chosen_name(call)))


def _chosen_name(call: Request) -> str | None:
    """The identifier that a client chose, where its vendor lets it."""
    name = call.body.get("name") if call.family is Family.GEMINI else None
    return name.rpartition("/")[2] if isinstance(name, str) and "/" in name else None


def update_resource(call: Request) -> Response:
    """Change an object."""
    found = find_resource(call, call.template)
    kept: Entry = {name: found[name] for name in _READ_ONLY_FIELDS[call.family] if name in found}
    return resource_response(
        call, call.store.put(store_key(call, call.template), {**found, **fields_of(call), **kept})
    )


def act_on_resource(call: Request) -> Response:
    """Do something with the object before the last word of the path, or before the verb."""
    item, _, word = call.template.rpartition(":" if ":" in call.template else "/")
    found = find_resource(call, item)
    done = {**found, **_ACTION_RESULTS.get(word, {})}
    if word == "archive" and call.family is Family.ANTHROPIC:
        done = {**found, "archived_at": rfc3339(call.now)}
    return resource_response(call, call.store.put(store_key(call, item), done))


def delete_resource(call: Request) -> Response:
    """Forget an object."""
    find_resource(call, call.template)
    key = store_key(call, call.template)
    call.store.drop(key)
    noun = resource_type_at(call, call.template.rpartition("/")[0])
    return resource_response(call, represent_deleted(call, noun, key[2]))


def serve_singleton(call: Request) -> Response:
    """Give or change what there is only one of."""
    path, _, name = fill_template(call.template, call.ids).rpartition("/")
    key = (call.family.value, path, name)
    if call.method == "DELETE":
        call.store.drop(key)
        return resource_response(call, represent_deleted(call, resource_type_at(call, call.template), name))
    found = call.store.get(key) or represent(call, resource_type_at(call, call.template), path, name, {})
    if call.method != "GET":
        found = call.store.put(key, {**found, **fields_of(call)})
    return resource_response(call, found)


def download_resource(call: Request) -> Response:
    """Give the bytes of an object: those that were uploaded, or made ones."""
    item = call.template.removesuffix("/content").partition(":")[0]
    size = call.faults.number("size")
    found = find_resource(call, item)
    kept = call.store.contents.get(store_key(call, item))
    if size is None and kept is not None:
        return download(call, kept, _media_type(found), found.get("filename"))
    return download(call, GeneratedContent(_DEFAULT_SIZE if size is None else size), _media_type(found), None)


def _media_type(found: Entry) -> str:
    media_type: Any = found.get("mime_type") or found.get("mimeType")
    return media_type if isinstance(media_type, str) else "application/octet-stream"
