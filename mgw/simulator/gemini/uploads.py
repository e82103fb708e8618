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

from mgw.simulator.api import ApiError, Json, Request, Response, UnaryResponse, rfc3339
from mgw.simulator.gemini.content import pretty_json_response
from mgw.simulator.platform.resources import fill_template, store_new, without_version
from mgw.simulator.platform.store import MAX_CONTENT, Key, Store

_GRANULARITY: Final = 262144
_LIFETIME: Final = 48 * 3600  # seconds
_TYPE_PREFIX: Final = "type.googleapis.com/google.ai.generativelanguage.v1beta."


@dataclass(slots=True)
class _UploadSession:
    """An upload that has begun; what is too much to keep is counted and digested all the same."""

    call: Request
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
            self.call.store.keep_content(key, bytes(self.data))

    def forget(self) -> None:
        """Keep nothing of it from here on."""
        self.kept = False
        self.data.clear()


def upload(call: Request) -> Response:
    """Everything below ``/upload``."""
    if "upload_id" in call.query:
        return _continue_upload(call)
    protocol = call.headers.get("x-goog-upload-protocol") or {
        "multipart": "multipart",
        "media": "raw",
        "resumable": "resumable",
    }.get(call.query.get("uploadType", ""), "raw")
    match protocol:
        case "resumable":
            return _start_upload(call)
        case "multipart":
            return _upload_multipart(call)
        case "raw":
            return _upload_whole(call, {}, call.headers.get("content-type", ""), bytes(call.raw))
    raise ApiError(400, f"Unknown upload protocol: {protocol}")


def _start_upload(call: Request) -> Response:
    if call.headers.get("x-goog-upload-command", "").strip() != "start":
        raise ApiError(400, "The first command of a resumable upload is `start`.")
    said = call.headers.get("x-goog-upload-header-content-length")
    if said is not None and not said.isdigit():
        raise ApiError(400, "X-Goog-Upload-Header-Content-Length is no length.")
    name = call.id("up-")
    media_type = call.headers.get("x-goog-upload-header-content-type", "application/octet-stream")
    session = _UploadSession(_without_body(call), call.path, int(said) if said else None, media_type)
    call.store.begin(name, session)
    url = f"{call.origin}{quote(call.path, safe='/:')}?upload_id={name}&upload_protocol=resumable"
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


def _without_body(call: Request) -> Request:
    """A call without its raw body, to be kept."""
    return msgspec.structs.replace(call, raw=b"")


def _continue_upload(call: Request) -> Response:
    session = call.store.sessions.get(call.query["upload_id"])
    if not isinstance(session, _UploadSession) or session.path != call.path:
        raise ApiError(404, "There is no such upload.")
    commands = [word.strip() for word in call.headers.get("x-goog-upload-command", "").split(",")]
    if commands == ["query"]:
        return _status_response(session, ("X-Goog-Upload-Size-Received", str(session.received)))
    if session.status != "active":
        raise ApiError(400, f"The upload has ended: {session.status}.")
    if commands == ["cancel"]:
        session.status = "cancelled"
        session.forget()
        return _status_response(session)
    if not commands or set(commands) - {"upload", "finalize"}:
        raise ApiError(400, f"Unknown upload command: {', '.join(commands)}")
    if "upload" in commands:
        _append(call, session)
    return _finalize(session) if "finalize" in commands else _status_response(session)


def _append(call: Request, session: _UploadSession) -> None:
    offset = call.headers.get("x-goog-upload-offset", "")
    if offset != str(session.received):
        raise ApiError(400, f"The offset is {offset}, but {session.received} bytes have come so far.")
    _make_room(call.store, len(call.raw))
    session.take(call.raw)
    if session.expected is not None and session.received > session.expected:
        raise ApiError(400, f"{session.received} bytes have come, and {session.expected} were announced.")


def _make_room(store: Store, size: int) -> None:
    """Forget what has come of the oldest uploads until there is room for so many bytes more."""
    running = [one for one in store.sessions.values() if isinstance(one, _UploadSession) and one.data]
    held = sum(len(one.data) for one in running) + size
    for one in running:
        if held <= MAX_CONTENT:
            return
        held -= len(one.data)
        one.forget()


def _finalize(session: _UploadSession) -> Response:
    if session.expected not in {None, session.received}:
        raise ApiError(400, f"{session.received} bytes have come, and {session.expected} were announced.")
    session.status = "final"
    made = _create_object(session)
    session.forget()
    answer = pretty_json_response(made)
    return msgspec.structs.replace(answer, headers=(("X-Goog-Upload-Status", "final"),))


def _status_response(session: _UploadSession, *more: tuple[str, str]) -> Response:
    granularity = ("X-Goog-Upload-Chunk-Granularity", str(_GRANULARITY))
    return UnaryResponse(b"", headers=(("X-Goog-Upload-Status", session.status), granularity, *more))


def _upload_multipart(call: Request) -> Response:
    """Two parts: what is to be known, as JSON, and the bytes."""
    parts = call.form.parts if call.form else ()
    if len(parts) != 2:
        raise ApiError(400, "A multipart upload has two parts: JSON, and the bytes.")
    try:
        said: Any = json.loads(parts[0].data)
    except ValueError:
        raise ApiError(400, "The first part of a multipart upload is JSON.") from None
    return _upload_whole(call, said if isinstance(said, dict) else {}, parts[1].content_type, parts[1].data)


def _upload_whole(call: Request, said: Json, media_type: str, data: bytes) -> Response:
    session = _UploadSession(
        msgspec.structs.replace(call, body=said, raw=b""), call.path, len(data), media_type
    )
    session.take(data)
    return pretty_json_response(_create_object(session))


def _create_object(session: _UploadSession) -> Json:
    """What the finished upload has become, by what it was sent to."""
    template = without_version(session.call.template)
    if template == "/files":
        return {"file": _create_file(session)}
    if template.endswith(":uploadToFileSearchStore"):
        return _create_document(session)
    return {"files": [_create_environment_file(session)]}


def _create_environment_file(session: _UploadSession) -> Json:
    call = session.call
    path = call.ids[-1]
    folder = fill_template(call.template.removesuffix("/{...}"), call.ids)
    found: Json = {"name": path.rpartition("/")[2], "path": path, "size_bytes": session.received}
    key = (call.family.value, folder, path)
    session.keep_content(key)
    return call.store.put(key, found)


def _create_file(session: _UploadSession) -> Json:
    call = session.call
    said: Json = call.body.get("file") or {}
    wished = str(said.get("name") or "").removeprefix("files/") or None
    fields: Json = {
        "displayName": said.get("displayName") or said.get("display_name") or "",
        "mimeType": said.get("mimeType") or session.media_type,
        "sizeBytes": str(session.received),
        "sha256Hash": base64.b64encode(session.digest.hexdigest().encode()).decode(),
        "expirationTime": rfc3339(call.now + _LIFETIME),
        "state": "ACTIVE",
        "source": "UPLOADED",
    }
    named = msgspec.structs.replace(call, template=call.template.removeprefix("/upload"))
    made = store_new(named, named.template, fields, wished or call.id("f-"))
    made["uri"] = f"{call.origin}/v1beta/{made['name']}"
    session.keep_content((call.family.value, "/files", made["name"].rpartition("/")[2]))
    return made


def _create_document(session: _UploadSession) -> Json:
    """A document of a store, and the operation that has made it."""
    call = session.call
    name, store = call.id("doc-"), f"fileSearchStores/{call.ids[0]}"
    fields: Json = {
        "displayName": call.body.get("displayName", name),
        "mimeType": session.media_type,
        "sizeBytes": str(session.received),
        "customMetadata": call.body.get("customMetadata", []),
        "state": "STATE_ACTIVE",
    }
    document = store_new(call, "/v1/fileSearchStores/{}/documents", fields, name)
    operation = f"{store}/upload/operations/{name}"
    done: Json = {
        "name": operation,
        "done": True,
        "response": {
            "@type": _TYPE_PREFIX + "UploadToFileSearchStoreResponse",
            "parent": store,
            "documentName": document["name"],
            "mimeType": session.media_type,
            "sizeBytes": str(session.received),
        },
    }
    call.store.put((call.family.value, f"/{store}/upload/operations", name), done)
    return done
