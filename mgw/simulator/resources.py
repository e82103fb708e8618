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

from mgw.simulator.answer import Answer, Call, Family, Handler, Json, Refusal, Stream, sse, unary
from mgw.simulator.content import download
from mgw.simulator.gemini_content import pretty
from mgw.simulator.nouns import Noun, noun_of
from mgw.simulator.pages import page
from mgw.simulator.resources_gemini import BY_ID
from mgw.simulator.store import Entry, Key, Made
from mgw.simulator.times import time_of

_VERSION: Final = re.compile(r"(?:/upload)?/(?:v1beta|v1alpha|v1)")
_BYTES: Final = ("/content", "/media/{}", ":download", "/environments/{}/files/{...}")
_NO_BYTES: Final = ("/vector_stores/{}/files/{}/content",)
_DEEDS_OF_LISTS: Final = ("activate", "deactivate")
"""POSTs whose answer is a list."""
_MADE_ONLY: Final = ("api_keys", "file_batches", "messages")
"""Collections below an identifier that have no list, so that they look like something to be done with it."""
_SINGLE: Final = (
    "compliance_settings",
    "hosted_tool_permissions",
    "model_permissions",
    "service_tier_settings",
    "stats",
)
"""Words that end like collections and are none."""
_LISTS: Final = (
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
_OUTCOMES: Final[dict[str, Json]] = {
    "archive": {"archived": True},
    "cancel": {"status": "cancelled"},
    "complete": {"status": "completed"},
    "pause": {"status": "paused"},
    "resume": {"status": "queued"},
    "unpause": {"status": "active"},
}
"""What a word behind an identifier does to the object."""
_DEFAULT_CONTENT: Final = 1000
_FIXED: Final = {
    Family.OPENAI: ("id", "object"),
    Family.ANTHROPIC: ("id", "type"),
    Family.GEMINI: ("id", "name"),
}
"""What of an object nobody can change."""


def handler_for(method: str, template: str, methods: Collection[str]) -> Handler:
    """What answers a row, by the table above; ``methods`` are all that its path has."""
    *_, before, last = template.split("/")
    if method == "GET" and template.endswith(_BYTES) and not template.endswith(_NO_BYTES):
        return content
    if last in {"{}", "{...}"}:
        return {"GET": get, "DELETE": delete}.get(method, update)
    if last.startswith("{") or (method == "POST" and before == "{}" and _is_deed(last, methods)):
        return act
    if last in _DEEDS_OF_LISTS:
        return list_all
    if last not in _LISTS and (not last.endswith("s") or last in _SINGLE):
        return create if methods == ["POST"] else the_one
    return {"GET": list_all, "POST": create}.get(method, the_one)


def _is_deed(last: str, methods: Collection[str]) -> bool:
    return methods == ["POST"] and last not in _MADE_ONLY


def bare(template: str) -> str:
    """A template without its version."""
    return _VERSION.sub("", template, count=1)


def fill(template: str, ids: tuple[str, ...]) -> str:
    """A template without version, with identifiers in the place of its wildcards."""
    found = iter(ids)
    return re.sub(r"\{(?:\.\.\.)?\}", lambda _: next(found), bare(template))


def noun_at(call: Call, collection: str) -> Noun:
    """The noun of a collection, given as a template."""
    words = [word for word in bare(collection).split("/") if word and not word.startswith("{")]
    return noun_of(call.family, "/".join(words))


def key_at(call: Call, item: str) -> Key:
    """Where the object of a template that ends with an identifier is kept."""
    collection, _, name = fill(item.partition(":")[0], call.ids).rpartition("/")
    return call.family.value, collection, name


def new(call: Call, collection: str, fields: Json, name: str | None = None) -> Entry:
    """Make an object of a collection (a template) and keep it."""
    noun, path = noun_at(call, collection), fill(collection, call.ids)
    made = name or call.id(noun.prefix)
    return call.store.put((call.family.value, path, made), shape(call, noun, path, made, fields))


def shape(call: Call, noun: Noun, path: str, name: str, fields: Json) -> Entry:
    """An object in its vendor's shape, with the fields that it was made of."""
    match call.family:
        case Family.OPENAI:
            return {**noun.more, **fields, "id": name, "object": noun.kind, "created_at": call.now}
        case Family.ANTHROPIC:
            stamp = {"created_at": time_of(call.now), "updated_at": time_of(call.now)}
            return {**noun.more, **fields, "id": name, "type": noun.kind, **stamp}
    if path.rpartition("/")[2] in BY_ID:
        return {
            **noun.more,
            **fields,
            "id": fields.get("id", name),
            "created": time_of(call.now),
            "updated": time_of(call.now),
        }
    stamp = {"createTime": time_of(call.now), "updateTime": time_of(call.now)}
    return {**noun.more, **fields, "name": f"{path.lstrip('/')}/{name}", **stamp}


def item_at(call: Call, item: str) -> Entry:
    """The object of a template that ends with an identifier.  Raises Refusal."""
    key = key_at(call, item)
    found = call.store.get(key)
    if found is not None:
        return found
    collection = item.partition(":")[0].rpartition("/")[0]
    noun = noun_at(call, collection)
    invented = call.lenient or "lenient" in call.faults or "size" in call.faults
    if not invented:
        raise unknown(call, noun, key[2])
    return shape(call, noun, key[1], key[2], {})


def unknown(call: Call, noun: Noun, name: str) -> Refusal:
    """There is no such object."""
    match call.family:
        case Family.OPENAI:
            return Refusal(404, f"No {noun.kind} found with id '{name}'.", "id", "not_found")
        case Family.ANTHROPIC:
            return Refusal(404, f"{noun.kind} not found: {name}")
    return Refusal(404, f"Requested entity was not found: {name}")


def check_ids(call: Call) -> None:
    """Raise the Refusal for an identifier that begins with ``missing``: it is nobody's."""
    for name in call.ids:
        if name.startswith("missing"):
            raise unknown(call, noun_at(call, call.template.partition("/{")[0]), name)


def fields_of(call: Call) -> Json:
    """What the client said of an object: the fields of its JSON, or the plain ones of its form."""
    return dict(call.form.fields()) if call.form is not None else dict(call.body)


def said(call: Call, value: Json) -> Answer:
    """An object as the answer: as an event where the client asked for events."""
    wanted = call.body.get("stream") is True or call.query.get("stream") == "true"
    if wanted or "text/event-stream" in call.headers.get("accept", ""):
        kind = value.get("object") or value.get("type") or "object"
        done = (b"data: [DONE]\n\n",) if call.family is Family.OPENAI else ()
        event = sse({**value, "event_type": f"{kind}.created"}, f"{kind}.created")
        return Stream((event, *done), sse({"error": {"message": "The server broke."}}, "error"))
    return pretty(value) if call.family is Family.GEMINI else unary(value)


def get(call: Call) -> Answer:
    """Give an object."""
    return said(call, item_at(call, call.template))


def list_all(call: Call) -> Answer:
    """List a collection."""
    template = call.template
    path = fill(template, call.ids)
    if "text/event-stream" in call.headers.get("accept", ""):
        return said(call, {"object": "event", "type": "event"})
    return said(call, page(call, path, list(call.store.all(call.family.value, path))))


def create(call: Call) -> Answer:
    """Make an object."""
    return said(call, new(call, call.template, fields_of(call), _wished_name(call)))


def _wished_name(call: Call) -> str | None:
    """The identifier that a client chose, where its vendor lets it."""
    name = call.body.get("name") if call.family is Family.GEMINI else None
    return name.rpartition("/")[2] if isinstance(name, str) and "/" in name else None


def update(call: Call) -> Answer:
    """Change an object."""
    found = item_at(call, call.template)
    kept: Entry = {name: found[name] for name in _FIXED[call.family] if name in found}
    return said(call, call.store.put(key_at(call, call.template), {**found, **fields_of(call), **kept}))


def act(call: Call) -> Answer:
    """Do something with the object before the last word of the path, or before the verb."""
    item, _, word = call.template.rpartition(":" if ":" in call.template else "/")
    found = item_at(call, item)
    done = {**found, **_OUTCOMES.get(word, {})}
    if word == "archive" and call.family is Family.ANTHROPIC:
        done = {**found, "archived_at": time_of(call.now)}
    return said(call, call.store.put(key_at(call, item), done))


def delete(call: Call) -> Answer:
    """Forget an object."""
    item_at(call, call.template)
    key = key_at(call, call.template)
    call.store.drop(key)
    noun = noun_at(call, call.template.rpartition("/")[0])
    return said(call, gone(call, noun, key[2]))


def gone(call: Call, noun: Noun, name: str) -> Json:
    """What a vendor says of an object that was deleted."""
    match call.family:
        case Family.OPENAI:
            return {"id": name, "object": noun.deleted or f"{noun.kind}.deleted", "deleted": True}
        case Family.ANTHROPIC:
            return {"id": name, "type": noun.deleted or f"{noun.kind}_deleted"}
    return {}


def the_one(call: Call) -> Answer:
    """Give or change what there is only one of."""
    path, _, name = fill(call.template, call.ids).rpartition("/")
    key = (call.family.value, path, name)
    if call.method == "DELETE":
        call.store.drop(key)
        return said(call, gone(call, noun_at(call, call.template), name))
    found = call.store.get(key) or shape(call, noun_at(call, call.template), path, name, {})
    if call.method != "GET":
        found = call.store.put(key, {**found, **fields_of(call)})
    return said(call, found)


def content(call: Call) -> Answer:
    """Give the bytes of an object: those that were uploaded, or made ones."""
    item = call.template.removesuffix("/content").partition(":")[0]
    size = call.faults.number("size")
    found = item_at(call, item)
    kept = call.store.contents.get(key_at(call, item))
    if size is None and kept is not None:
        return download(call, kept, _media_type(found), found.get("filename"))
    return download(call, Made(_DEFAULT_CONTENT if size is None else size), _media_type(found), None)


def _media_type(found: Entry) -> str:
    said: Any = found.get("mime_type") or found.get("mimeType")
    return said if isinstance(said, str) else "application/octet-stream"
