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

from mgw.simulator.answer import Answer, Call, Json, Refusal, Unary
from mgw.simulator.gemini_content import pretty
from mgw.simulator.resources import bare, fill, new
from mgw.simulator.store import MOST_CONTENT, Key, Store
from mgw.simulator.times import time_of

_GRANULARITY: Final = 262144
_LIFE: Final = 48 * 3600  # seconds
_TYPE: Final = "type.googleapis.com/google.ai.generativelanguage.v1beta."


@dataclass(slots=True)
class _Session:
    """An upload that has begun; what is too much to keep is counted and digested all the same."""

    call: Call
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


def upload(call: Call) -> Answer:
    """Everything below ``/upload``."""
    if "upload_id" in call.query:
        return _continue(call)
    protocol = call.headers.get("x-goog-upload-protocol") or {
        "multipart": "multipart",
        "media": "raw",
        "resumable": "resumable",
    }.get(call.query.get("uploadType", ""), "raw")
    match protocol:
        case "resumable":
            return _start(call)
        case "multipart":
            return _multipart(call)
        case "raw":
            return _whole(call, {}, call.headers.get("content-type", ""), bytes(call.raw))
    raise Refusal(400, f"Unknown upload protocol: {protocol}")


def _start(call: Call) -> Answer:
    if call.headers.get("x-goog-upload-command", "").strip() != "start":
        raise Refusal(400, "The first command of a resumable upload is `start`.")
    said = call.headers.get("x-goog-upload-header-content-length")
    if said is not None and not said.isdigit():
        raise Refusal(400, "X-Goog-Upload-Header-Content-Length is no length.")
    name = call.id("up-")
    media_type = call.headers.get("x-goog-upload-header-content-type", "application/octet-stream")
    session = _Session(_lasting(call), call.path, int(said) if said else None, media_type)
    call.store.begin(name, session)
    url = f"{call.origin}{quote(call.path, safe='/:')}?upload_id={name}&upload_protocol=resumable"
    return Unary(
        b"",
        headers=(
            ("X-GUploader-UploadID", name),
            ("X-Goog-Upload-Status", "active"),
            ("X-Goog-Upload-URL", url),
            ("X-Goog-Upload-Control-URL", url),
            ("X-Goog-Upload-Chunk-Granularity", str(_GRANULARITY)),
        ),
    )


def _lasting(call: Call) -> Call:
    """A call without its raw body, to be kept."""
    return msgspec.structs.replace(call, raw=b"")


def _continue(call: Call) -> Answer:
    session = call.store.sessions.get(call.query["upload_id"])
    if not isinstance(session, _Session) or session.path != call.path:
        raise Refusal(404, "There is no such upload.")
    commands = [word.strip() for word in call.headers.get("x-goog-upload-command", "").split(",")]
    if commands == ["query"]:
        return _told(session, ("X-Goog-Upload-Size-Received", str(session.received)))
    if session.status != "active":
        raise Refusal(400, f"The upload has ended: {session.status}.")
    if commands == ["cancel"]:
        session.status = "cancelled"
        session.forget()
        return _told(session)
    if not commands or set(commands) - {"upload", "finalize"}:
        raise Refusal(400, f"Unknown upload command: {', '.join(commands)}")
    if "upload" in commands:
        _take(call, session)
    return _finalize(session) if "finalize" in commands else _told(session)


def _take(call: Call, session: _Session) -> None:
    offset = call.headers.get("x-goog-upload-offset", "")
    if offset != str(session.received):
        raise Refusal(400, f"The offset is {offset}, but {session.received} bytes have come so far.")
    _make_room(call.store, len(call.raw))
    session.take(call.raw)
    if session.expected is not None and session.received > session.expected:
        raise Refusal(400, f"{session.received} bytes have come, and {session.expected} were announced.")


def _make_room(store: Store, size: int) -> None:
    """Forget what has come of the oldest uploads until there is room for so many bytes more."""
    running = [one for one in store.sessions.values() if isinstance(one, _Session) and one.data]
    held = sum(len(one.data) for one in running) + size
    for one in running:
        if held <= MOST_CONTENT:
            return
        held -= len(one.data)
        one.forget()


def _finalize(session: _Session) -> Answer:
    if session.expected not in {None, session.received}:
        raise Refusal(400, f"{session.received} bytes have come, and {session.expected} were announced.")
    session.status = "final"
    made = _made(session)
    session.forget()
    answer = pretty(made)
    return msgspec.structs.replace(answer, headers=(("X-Goog-Upload-Status", "final"),))


def _told(session: _Session, *more: tuple[str, str]) -> Answer:
    granularity = ("X-Goog-Upload-Chunk-Granularity", str(_GRANULARITY))
    return Unary(b"", headers=(("X-Goog-Upload-Status", session.status), granularity, *more))


def _multipart(call: Call) -> Answer:
    """Two parts: what is to be known, as JSON, and the bytes."""
    parts = call.form.parts if call.form else ()
    if len(parts) != 2:
        raise Refusal(400, "A multipart upload has two parts: JSON, and the bytes.")
    try:
        said: Any = json.loads(parts[0].data)
    except ValueError:
        raise Refusal(400, "The first part of a multipart upload is JSON.") from None
    return _whole(call, said if isinstance(said, dict) else {}, parts[1].content_type, parts[1].data)


def _whole(call: Call, said: Json, media_type: str, data: bytes) -> Answer:
    session = _Session(msgspec.structs.replace(call, body=said, raw=b""), call.path, len(data), media_type)
    session.take(data)
    return pretty(_made(session))


def _made(session: _Session) -> Json:
    """What the finished upload has become, by what it was sent to."""
    template = bare(session.call.template)
    if template == "/files":
        return {"file": _file(session)}
    if template.endswith(":uploadToFileSearchStore"):
        return _document(session)
    return {"files": [_environment_file(session)]}


def _environment_file(session: _Session) -> Json:
    call = session.call
    path = call.ids[-1]
    folder = fill(call.template.removesuffix("/{...}"), call.ids)
    found: Json = {"name": path.rpartition("/")[2], "path": path, "size_bytes": session.received}
    key = (call.family.value, folder, path)
    session.keep_content(key)
    return call.store.put(key, found)


def _file(session: _Session) -> Json:
    call = session.call
    said: Json = call.body.get("file") or {}
    wished = str(said.get("name") or "").removeprefix("files/") or None
    fields: Json = {
        "displayName": said.get("displayName") or said.get("display_name") or "",
        "mimeType": said.get("mimeType") or session.media_type,
        "sizeBytes": str(session.received),
        "sha256Hash": base64.b64encode(session.digest.hexdigest().encode()).decode(),
        "expirationTime": time_of(call.now + _LIFE),
        "state": "ACTIVE",
        "source": "UPLOADED",
    }
    named = msgspec.structs.replace(call, template=call.template.removeprefix("/upload"))
    made = new(named, named.template, fields, wished or call.id("f-"))
    made["uri"] = f"{call.origin}/v1beta/{made['name']}"
    session.keep_content((call.family.value, "/files", made["name"].rpartition("/")[2]))
    return made


def _document(session: _Session) -> Json:
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
    document = new(call, "/v1/fileSearchStores/{}/documents", fields, name)
    operation = f"{store}/upload/operations/{name}"
    done: Json = {
        "name": operation,
        "done": True,
        "response": {
            "@type": _TYPE + "UploadToFileSearchStoreResponse",
            "parent": store,
            "documentName": document["name"],
            "mimeType": session.media_type,
            "sizeBytes": str(session.received),
        },
    }
    call.store.put((call.family.value, f"/{store}/upload/operations", name), done)
    return done
