"""Files of OpenAI and Anthropic: a form with the bytes, kept and given back; and OpenAI's uploads in parts.

Sources: the resources ``files``, ``uploads`` and ``containers.files`` of ``openai`` 3.54, ``files`` of
``anthropic`` 2.12.
"""

from typing import Final

from mgw.simulator.api import ApiError, Family, FormPart, Handler, Json, Request, Response
from mgw.simulator.platform.resources import (
    create_resource,
    fields_of,
    fill_template,
    find_resource,
    resource_response,
    store_key,
    store_new,
)
from mgw.simulator.platform.store import Entry

_PURPOSES: Final = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
_UPLOAD: Final = "/v1/uploads/{}"


def create_file(call: Request) -> Response:
    """``POST /v1/files``, in either vendor's wire."""
    part = _file_part(call, "file")
    fields = fields_of(call)
    if call.family is Family.OPENAI:
        if fields.get("purpose") not in _PURPOSES:
            raise ApiError(400, f"Invalid value for 'purpose': {fields.get('purpose')!r}.", "purpose")
        more: Json = {"bytes": len(part.data), "filename": part.filename, "purpose": fields["purpose"]}
    else:
        more = {"size_bytes": len(part.data), "filename": part.filename, "mime_type": part.content_type}
    return resource_response(call, _store_file(call, "/v1/files", more, part.data))


def create_container_file(call: Request) -> Response:
    """``POST /v1/containers/{}/files``: the bytes, or the identifier of a file."""
    if call.form is None:
        return create_resource(call)
    part = _file_part(call, "file")
    more = {"bytes": len(part.data), "path": f"/mnt/data/{part.filename}", "container_id": call.ids[0]}
    return resource_response(call, _store_file(call, call.template, more, part.data))


def _store_file(call: Request, collection: str, fields: Json, data: bytes) -> Entry:
    """A new object with a content."""
    made = store_new(call, collection, fields)
    call.store.keep_content((call.family.value, fill_template(collection, call.ids), made["id"]), data)
    return made


def _file_part(call: Request, *names: str) -> FormPart:
    part = call.form.file(*names) if call.form else None
    if part is None or part.filename is None:
        raise ApiError(
            400, f"Missing required parameter: '{names[0]}'.", names[0], "missing_required_parameter"
        )
    return part


def create_upload(call: Request) -> Response:
    """``POST /v1/uploads``: what will come."""
    for name in ("bytes", "filename", "mime_type", "purpose"):
        if name not in call.body:
            raise ApiError(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    return resource_response(
        call, store_new(call, "/v1/uploads", {**call.body, "expires_at": call.now + 3600})
    )


def add_upload_part(call: Request) -> Response:
    """``POST /v1/uploads/{}/parts``: some of it."""
    _pending_upload(call)
    part = _file_part(call, "data")
    return resource_response(call, _store_file(call, call.template, {"upload_id": call.ids[0]}, part.data))


def complete_upload(call: Request) -> Response:
    """``POST /v1/uploads/{}/complete``: the parts in their order become a file."""
    upload = _pending_upload(call)
    parts = f"/uploads/{call.ids[0]}/parts"
    data = []
    for name in call.body.get("part_ids") or ():
        found = call.store.contents.get((call.family.value, parts, str(name)))
        if found is None:
            raise ApiError(400, f"No part found with id '{name}'.", "part_ids")
        data.append(found.data)
    whole = b"".join(data)
    expected = upload.get("bytes", len(whole))
    if len(whole) != expected:
        message = f"Expected {expected} bytes, but the parts have {len(whole)}."
        raise ApiError(400, message, "part_ids")
    fields = {"bytes": len(whole), "filename": upload.get("filename"), "purpose": upload.get("purpose")}
    made = _store_file(call, "/v1/files", fields, whole)
    done = {**upload, "status": "completed", "file": made}
    return resource_response(call, call.store.put(store_key(call, _UPLOAD), done))


def _pending_upload(call: Request) -> Entry:
    found = find_resource(call, _UPLOAD)
    if found.get("status") != "pending":
        raise ApiError(400, f"The upload is {found.get('status')}.", "upload_id")
    return found


def get_vector_store_content(call: Request) -> Response:
    """``GET /v1/vector_stores/{}/files/{}/content``: the text in pieces, as a page."""
    find_resource(call, "/v1/vector_stores/{}/files/{}")
    piece: Json = {"type": "text", "text": f"The text of {call.ids[1]}."}
    page: Json = {
        "object": "vector_store.file_content.page",
        "data": [piece],
        "has_more": False,
        "next_page": None,
    }
    return resource_response(call, page)


def add_vector_store_file(call: Request) -> Response:
    """``POST /v1/vector_stores/{}/files``: a file that is there already becomes one of the store's."""
    name = call.body.get("file_id")
    if not isinstance(name, str):
        raise ApiError(400, "Missing required parameter: 'file_id'.", "file_id", "missing_required_parameter")
    return resource_response(
        call, store_new(call, call.template, {**call.body, "vector_store_id": call.ids[0]}, name)
    )


FILE_HANDLERS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/files"): create_file,
    ("POST", "/containers/{}/files"): create_container_file,
    ("POST", "/uploads"): create_upload,
    ("POST", "/uploads/{}/parts"): add_upload_part,
    ("POST", "/uploads/{}/complete"): complete_upload,
    ("POST", "/vector_stores/{}/files"): add_vector_store_file,
    ("GET", "/vector_stores/{}/files/{}/content"): get_vector_store_content,
}
