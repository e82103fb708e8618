"""Google's uploads: in several requests (resumable), in one with what is to be known of it, or bare.

Sources: the guide of the Files API, and ``_upload_fd`` of ``google.genai._api_client``.  Resumable ones are

    start                 -> X-Goog-Upload-URL, where all that follows goes; it needs no credential
    upload                -> X-Goog-Upload-Status: active
    query                 -> how much has come (X-Goog-Upload-Size-Received)
    upload, finalize      -> the object, and X-Goog-Upload-Status: final
    cancel                -> X-Goog-Upload-Status: cancelled
"""

import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import msgspec

from mgw_sim.api import ApiError, Json, Request, Response, UnaryResponse, rfc3339
from mgw_sim.gemini.content import pretty_json_response
from mgw_sim.platform.resources import fill_template, store_new, without_version
from mgw_sim.platform.store import MAX_CONTENT, Key, Store

_GRANULARITY: Final = 262144
_LIFETIME: Final = 48 * 3600  # seconds
_TYPE_PREFIX: Final = "type.googleapis.com/google.ai.generativelanguage.v1beta."


@dataclass(slots=True)
class _UploadSession:
    """An upload that has begun; what is too much to keep is counted and digested all the same."""

    request: Request
    path: str
    expected: int | None
    media_type: str
    data: bytearray = field(default_factory=bytearray)
    received: int = 0
    digest: Any = field(default_factory=hashlib.sha256)  # hashlib does not name the type
    status: str = "active"
    kept: bool = True

    def take(self, data: bytes | bytearray) -> None:
        """Take a chunk."""
        self.received += len(data)
        self.digest.update(data)
        if self.kept:
            self.data += data

    def keep_content(self, key: Key) -> None:
        """Leave the bytes with an object, if they are still there."""
        if self.kept:
            self.request.store.keep_content(key, bytes(self.data))

    def forget(self) -> None:
        """Keep nothing of it from here on."""
        self.kept = False
        self.data.clear()


def upload(request: Request) -> Response:
    """Everything below ``/upload``."""
    if "upload_id" in request.query:
        return _continue_upload(request)
    protocol = request.headers.get("x-goog-upload-protocol") or {
        "multipart": "multipart",
        "media": "raw",
        "resumable": "resumable",
    }.get(request.query.get("uploadType", ""), "raw")
    match protocol:
        case "resumable":
            return _start_upload(request)
        case "multipart":
            return _upload_multipart(request)
        case "raw":
            return _upload_whole(request, {}, request.headers.get("content-type", ""), bytes(request.raw))
    raise ApiError(400, f"Unknown upload protocol: {protocol}")


def _start_upload(request: Request) -> Response:
    if request.headers.get("x-goog-upload-command", "").strip() != "start":
        raise ApiError(400, "The first command of a resumable upload must be `start`.")
    length = request.headers.get("x-goog-upload-header-content-length")
    if length is not None and not length.isdigit():
        raise ApiError(400, "X-Goog-Upload-Header-Content-Length must be a number of bytes.")
    name = request.id("up-")
    media_type = request.headers.get("x-goog-upload-header-content-type", "application/octet-stream")
    session = _UploadSession(
        _without_body(request), request.path, int(length) if length else None, media_type
    )
    request.store.begin(name, session)
    url = f"{request.origin}{quote(request.path, safe='/:')}?upload_id={name}&upload_protocol=resumable"
    return UnaryResponse(
        b"",
        headers=(
            ("X-GUploader-UploadID", name),
            ("X-Goog-Upload-Status", "active"),
            ("X-Goog-Upload-URL", url),
            ("X-Goog-Upload-Control-URL", url),
            ("X-Goog-Upload-Chunk-Granularity", str(_GRANULARITY)),
        ),
    )


def _without_body(request: Request) -> Request:
    """A call without its raw body, to be kept."""
    return msgspec.structs.replace(request, raw=b"")


def _continue_upload(request: Request) -> Response:
    session = request.store.sessions.get(request.query["upload_id"])
    if not isinstance(session, _UploadSession) or session.path != request.path:
        raise ApiError(404, "No such upload.")
    commands = [word.strip() for word in request.headers.get("x-goog-upload-command", "").split(",")]
    if commands == ["query"]:
        return _status_response(session, ("X-Goog-Upload-Size-Received", str(session.received)))
    if session.status != "active":
        raise ApiError(400, f"The upload is no longer active: {session.status}.")
    if commands == ["cancel"]:
        session.status = "cancelled"
        session.forget()
        return _status_response(session)
    if not commands or set(commands) - {"upload", "finalize"}:
        raise ApiError(400, f"Unknown upload command: {', '.join(commands)}")
    if "upload" in commands:
        _append(request, session)
    return _finalize(session) if "finalize" in commands else _status_response(session)


def _append(request: Request, session: _UploadSession) -> None:
    offset = request.headers.get("x-goog-upload-offset", "")
    if offset != str(session.received):
        raise ApiError(400, f"The offset is {offset}, but {session.received} bytes have been received.")
    _make_room(request.store, len(request.raw))
    session.take(request.raw)
    if session.expected is not None and session.received > session.expected:
        raise ApiError(400, f"{session.received} bytes were received, but {session.expected} were announced.")


def _make_room(store: Store, size: int) -> None:
    """Forget what has come of the oldest uploads until there is room for so many bytes more."""
    running = [one for one in store.sessions.values() if isinstance(one, _UploadSession) and one.data]
    total = sum(len(one.data) for one in running) + size
    for one in running:
        if total <= MAX_CONTENT:
            return
        total -= len(one.data)
        one.forget()


def _finalize(session: _UploadSession) -> Response:
    if session.expected not in {None, session.received}:
        raise ApiError(400, f"{session.received} bytes were received, but {session.expected} were announced.")
    session.status = "final"
    resource = _create_object(session)
    session.forget()
    answer = pretty_json_response(resource)
    return msgspec.structs.replace(answer, headers=(("X-Goog-Upload-Status", "final"),))


def _status_response(session: _UploadSession, *more: tuple[str, str]) -> Response:
    granularity = ("X-Goog-Upload-Chunk-Granularity", str(_GRANULARITY))
    return UnaryResponse(b"", headers=(("X-Goog-Upload-Status", session.status), granularity, *more))


def _upload_multipart(request: Request) -> Response:
    """Two parts: what is to be known, as JSON, and the bytes."""
    parts = request.form.parts if request.form else ()
    if len(parts) != 2:
        raise ApiError(400, "A multipart upload must have two parts: JSON, and the bytes.")
    try:
        metadata: Any = json.loads(parts[0].data)
    except ValueError:
        raise ApiError(400, "The first part of a multipart upload must be JSON.") from None
    return _upload_whole(
        request, metadata if isinstance(metadata, dict) else {}, parts[1].content_type, parts[1].data
    )


def _upload_whole(request: Request, metadata: Json, media_type: str, data: bytes) -> Response:
    session = _UploadSession(
        msgspec.structs.replace(request, body=metadata, raw=b""), request.path, len(data), media_type
    )
    session.take(data)
    return pretty_json_response(_create_object(session))


def _create_object(session: _UploadSession) -> Json:
    """What the finished upload has become, by what it was sent to."""
    template = without_version(session.request.template)
    if template == "/files":
        return {"file": _create_file(session)}
    if template.endswith(":uploadToFileSearchStore"):
        return _create_document(session)
    return {"files": [_create_environment_file(session)]}


def _create_environment_file(session: _UploadSession) -> Json:
    request = session.request
    path = request.ids[-1]
    folder = fill_template(request.template.removesuffix("/{...}"), request.ids)
    file: Json = {"name": path.rpartition("/")[2], "path": path, "size_bytes": session.received}
    key = (request.family.value, folder, path)
    session.keep_content(key)
    return request.store.put(key, file)


def _create_file(session: _UploadSession) -> Json:
    request = session.request
    metadata: Json = request.body.get("file") or {}
    chosen_name = str(metadata.get("name") or "").removeprefix("files/") or None
    fields: Json = {
        "displayName": metadata.get("displayName") or metadata.get("display_name") or "",
        "mimeType": metadata.get("mimeType") or session.media_type,
        "sizeBytes": str(session.received),
        "sha256Hash": base64.b64encode(session.digest.hexdigest().encode()).decode(),
        "expirationTime": rfc3339(request.now + _LIFETIME),
        "state": "ACTIVE",
        "source": "UPLOADED",
    }
    request_without_upload = msgspec.structs.replace(
        request, template=request.template.removeprefix("/upload")
    )
    file = store_new(
        request_without_upload, request_without_upload.template, fields, chosen_name or request.id("f-")
    )
    file["uri"] = f"{request.origin}/v1beta/{file['name']}"
    session.keep_content((request.family.value, "/files", file["name"].rpartition("/")[2]))
    return file


def _create_document(session: _UploadSession) -> Json:
    """A document of a store, and the operation that has made it."""
    request = session.request
    name, store = request.id("doc-"), f"fileSearchStores/{request.ids[0]}"
    fields: Json = {
        "displayName": request.body.get("displayName", name),
        "mimeType": session.media_type,
        "sizeBytes": str(session.received),
        "customMetadata": request.body.get("customMetadata", []),
        "state": "STATE_ACTIVE",
    }
    document = store_new(request, "/v1/fileSearchStores/{}/documents", fields, name)
    operation_name = f"{store}/upload/operations/{name}"
    result: Json = {
        "name": operation_name,
        "done": True,
        "response": {
            "@type": _TYPE_PREFIX + "UploadToFileSearchStoreResponse",
            "parent": store,
            "documentName": document["name"],
            "mimeType": session.media_type,
            "sizeBytes": str(session.received),
        },
    }
    request.store.put((request.family.value, f"/{store}/upload/operations", name), result)
    return result
