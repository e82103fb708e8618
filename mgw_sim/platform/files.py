"""Files of OpenAI and Anthropic: a form with the bytes, kept and given back; and OpenAI's uploads in parts.

Sources: the resources ``files``, ``uploads`` and ``containers.files`` of ``openai`` 3.54, ``files`` of
``anthropic`` 2.12.
"""

from typing import Final

from mgw_sim.api import ApiError, Family, FormPart, Handler, Json, Request, Response
from mgw_sim.platform.resources import (
    create_resource,
    fields_of,
    fill_template,
    find_resource,
    resource_response,
    store_key,
    store_new,
)
from mgw_sim.platform.store import Entry

_PURPOSES: Final = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
_UPLOAD: Final = "/v1/uploads/{}"


def create_file(request: Request) -> Response:
    """``POST /v1/files``, in either vendor's wire."""
    part = _file_part(request, "file")
    fields = fields_of(request)
    if request.family is Family.OPENAI:
        if fields.get("purpose") not in _PURPOSES:
            raise ApiError(400, f"Invalid value for 'purpose': {fields.get('purpose')!r}.", "purpose")
        more: Json = {"bytes": len(part.data), "filename": part.filename, "purpose": fields["purpose"]}
    else:
        more = {"size_bytes": len(part.data), "filename": part.filename, "mime_type": part.content_type}
    return resource_response(request, _store_file(request, "/v1/files", more, part.data))


def create_container_file(request: Request) -> Response:
    """``POST /v1/containers/{}/files``: the bytes, or the identifier of a file."""
    if request.form is None:
        return create_resource(request)
    part = _file_part(request, "file")
    more = {"bytes": len(part.data), "path": f"/mnt/data/{part.filename}", "container_id": request.ids[0]}
    return resource_response(request, _store_file(request, request.template, more, part.data))


def _store_file(request: Request, collection: str, fields: Json, data: bytes) -> Entry:
    """A new object with a content."""
    file = store_new(request, collection, fields)
    request.store.keep_content(
        (request.family.value, fill_template(collection, request.ids), file["id"]), data
    )
    return file


def _file_part(request: Request, *names: str) -> FormPart:
    part = request.form.file(*names) if request.form else None
    if part is None or part.filename is None:
        raise ApiError(
            400, f"Missing required parameter: '{names[0]}'.", names[0], "missing_required_parameter"
        )
    return part


def create_upload(request: Request) -> Response:
    """``POST /v1/uploads``: what will come."""
    for name in ("bytes", "filename", "mime_type", "purpose"):
        if name not in request.body:
            raise ApiError(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    return resource_response(
        request, store_new(request, "/v1/uploads", {**request.body, "expires_at": request.now + 3600})
    )


def add_upload_part(request: Request) -> Response:
    """``POST /v1/uploads/{}/parts``: some of it."""
    _pending_upload(request)
    part = _file_part(request, "data")
    return resource_response(
        request, _store_file(request, request.template, {"upload_id": request.ids[0]}, part.data)
    )


def complete_upload(request: Request) -> Response:
    """``POST /v1/uploads/{}/complete``: the parts in their order become a file."""
    upload = _pending_upload(request)
    parts = f"/uploads/{request.ids[0]}/parts"
    data = []
    for name in request.body.get("part_ids") or ():
        content = request.store.contents.get((request.family.value, parts, str(name)))
        if content is None:
            raise ApiError(400, f"No part found with id '{name}'.", "part_ids")
        data.append(content.data)
    joined = b"".join(data)
    expected = upload.get("bytes", len(joined))
    if len(joined) != expected:
        message = f"Expected {expected} bytes, but the parts have {len(joined)}."
        raise ApiError(400, message, "part_ids")
    fields = {"bytes": len(joined), "filename": upload.get("filename"), "purpose": upload.get("purpose")}
    file = _store_file(request, "/v1/files", fields, joined)
    completed = {**upload, "status": "completed", "file": file}
    return resource_response(request, request.store.put(store_key(request, _UPLOAD), completed))


def _pending_upload(request: Request) -> Entry:
    upload = find_resource(request, _UPLOAD)
    if upload.get("status") != "pending":
        raise ApiError(400, f"The upload is {upload.get('status')}.", "upload_id")
    return upload


def get_vector_store_content(request: Request) -> Response:
    """``GET /v1/vector_stores/{}/files/{}/content``: the text in pieces, as a page."""
    find_resource(request, "/v1/vector_stores/{}/files/{}")
    piece: Json = {"type": "text", "text": f"The text of {request.ids[1]}."}
    page: Json = {
        "object": "vector_store.file_content.page",
        "data": [piece],
        "has_more": False,
        "next_page": None,
    }
    return resource_response(request, page)


def add_vector_store_file(request: Request) -> Response:
    """``POST /v1/vector_stores/{}/files``: a file that is there already becomes one of the store's."""
    name = request.body.get("file_id")
    if not isinstance(name, str):
        raise ApiError(400, "Missing required parameter: 'file_id'.", "file_id", "missing_required_parameter")
    return resource_response(
        request,
        store_new(request, request.template, {**request.body, "vector_store_id": request.ids[0]}, name),
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
