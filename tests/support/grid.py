"""The support grid of contract 4.7 as data: the routes that need a capability, and what each kind does.

Written from contract 2.7, 4.7, 4.8 and 6.2, and from nothing of the
gateway: not a name of its code stands here.  What the contract says of "images", "videos" and
"transcription" is said here of every route below those paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

OPENAI, COMPAT, ANTHROPIC, GEMINI = KINDS = ("openai", "openai_compat", "anthropic", "gemini")
"""The columns; a provider of each is named after its kind."""
FAMILY: Final = {OPENAI: OPENAI, COMPAT: OPENAI, ANTHROPIC: ANTHROPIC, GEMINI: GEMINI}

_EVERYTHING: Final = ("text", "image_gen", "video_gen", "audio_speech", "audio_transcribe", "realtime")
CAPABILITIES: Final = _EVERYTHING
DEFAULTS: Final = {OPENAI: _EVERYTHING, COMPAT: ("text",), ANTHROPIC: ("text",), GEMINI: _EVERYTHING}
"""What is on where the configuration says nothing (contract 2.7)."""


class Cell(StrEnum):
    """What becomes of a request."""

    PASSED = "P"
    TRANSLATED = "T"
    UNSUPPORTED = "U"
    OFF = "O"
    """Refused because the capability is off, whatever the kind could do."""


class Flag(StrEnum):
    """What the configuration says of the capabilities."""

    UNSAID = "unsaid"
    ON = "on"
    OFF = "off"


STATUS: Final = {Cell.OFF: 403, Cell.UNSUPPORTED: 400}
ERRORS: Final[dict[tuple[str, Cell], dict[str, Any]]] = {
    (OPENAI, Cell.OFF): {"type": "invalid_request_error", "code": "unsupported_modality"},
    (OPENAI, Cell.UNSUPPORTED): {"type": "invalid_request_error", "code": "unsupported_provider_capability"},
    (ANTHROPIC, Cell.OFF): {"type": "permission_error"},
    (ANTHROPIC, Cell.UNSUPPORTED): {"type": "invalid_request_error"},
    (GEMINI, Cell.OFF): {"code": 403, "status": "PERMISSION_DENIED"},
    (GEMINI, Cell.UNSUPPORTED): {"code": 400, "status": "INVALID_ARGUMENT"},
}
"""What stands below ``error`` beside the message (contract 6.2); by the client's family."""

BOUNDARY: Final = "b0undary"
JSON_TYPE: Final = "application/json"
FORM_TYPE: Final = f"multipart/form-data; boundary={BOUNDARY}"
_MODEL: Final = b"PROVIDER/m-1"


@dataclass(frozen=True)
class Row:
    """One route, with a request to it."""

    name: str
    """As usage events call it."""
    client: str
    """The family of the client."""
    capability: str
    cells: str
    """P, T and U in the order of :data:`KINDS`."""
    method: str
    path: str
    body: bytes = b""
    headers: tuple[str, ...] = ()
    upstream_path: str = ""
    """Where a request is passed to, if that is not where it came to."""

    @property
    def names_model(self) -> bool:
        """Whether the request names a model; else a header says which provider it means."""
        return _MODEL in self.body or "{model}" in self.path

    def cell(self, kind: str) -> Cell:
        """What the kind does, its capability being on."""
        return Cell(self.cells[KINDS.index(kind)])

    def expected(self, kind: str, flag: Flag) -> Cell:
        """What is to happen: the flag is asked before the kind."""
        on = flag is Flag.ON or (flag is Flag.UNSAID and self.capability in DEFAULTS[kind])
        return self.cell(kind) if on else Cell.OFF

    def request(self, kind: str, key: str) -> bytes:
        """The request in HTTP, for the provider of a kind, with a key of the gateway's."""
        body = self.body.replace(b"PROVIDER", kind.encode())
        head = [f"{self.method} {self.path.replace('{model}', f'{kind}/m-1')} HTTP/1.1", "Host: gateway"]
        head += [f"Authorization: Bearer {key}", *self.headers]
        if not self.names_model:
            head.append(f"X-Provider: {kind}")
        if body:
            head.append(f"Content-Type: {FORM_TYPE if body.startswith(b'--') else JSON_TYPE}")
            head.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*head, "", ""]).encode() + body

    def passed_to(self) -> str:
        """The path at the provider, below its base address's version."""
        path = self.upstream_path or self.path
        return path.replace("{model}", "m-1").removeprefix("/v1beta").removeprefix("/v1")

    def passed_body(self) -> bytes:
        """The body at the provider: the client's but for the model."""
        return self.body.replace(_MODEL, b"m-1")


def _form(*parts: tuple[str, bytes]) -> bytes:
    """A form with a file in it, and the model between its other parts."""
    pieces = [f"--{BOUNDARY}\r\nContent-Disposition: form-data; name={name}\r\n\r\n" for name, _ in parts]
    whole = b"".join(head.encode() + value + b"\r\n" for head, (_, value) in zip(pieces, parts, strict=True))
    return whole + f"--{BOUNDARY}--\r\n".encode()


_FILE: Final = ('"file"; filename="a.wav"', b'RIFF\r\n--not the boundary\x00\xff "model": "x"')
_IMAGE: Final = ('"image"; filename="a.png"\r\nContent-Type: image/png', b"\x89PNG\r\n\x1a\n\x00")
_PROMPT: Final = ('"prompt"', b"a cat")
_NAMED: Final = ('"model"', _MODEL)
_SAYS: Final = b'[ {"role": "user", "content": "Hi" } ]'
_CHAT: Final = b'{ "max_tokens":16, "messages" : %b,\n\t"model" : "%b" }' % (_SAYS, _MODEL)
_RESPOND: Final = b'{ "input" : "H\\u0069",\n\t"model" : "%b", "store": false }' % _MODEL
_IMAGINE: Final = b'{"prompt": "\\u0061 cat",\n "model" : "%b", "n": 1, "own":[1.0e0] }' % _MODEL
_SPEAK: Final = b'{ "input":"H\\u0069", "voice": "alloy" ,"model":"%b", "response_format": "pcm" }' % _MODEL
_CONTENT: Final = b'{ "contents" : [ {"parts":[ {"text":"Hi"}]} ] , "generationConfig":{ "temperature":1.0 }}'
_ALOUD: Final = (
    b'{ "contents" : [ {"parts":[ {"text":"Hi"}]} ] , "generationConfig":{ "responseModalities":["AUDIO"] }}'
)
_PREDICT: Final = b'{ "instances":[ {"prompt" :"a cat"} ] }'
_VERSION: Final = ("anthropic-version: 2023-06-01",)
_GENERATE: Final = "/v1beta/models/{model}:generateContent"


def _openai(name: str, capability: str, method: str, path: str, body: bytes = b"") -> Row:
    """A route that only OpenAI's kinds have."""
    return Row(name, OPENAI, capability, "PPUU", method, path, body)


TEXT: Final = (
    Row("chat", OPENAI, "text", "PPTT", "POST", "/v1/chat/completions", _CHAT),
    Row("responses", OPENAI, "text", "PPUU", "POST", "/v1/responses", _RESPOND),
    Row("messages", ANTHROPIC, "text", "TTPT", "POST", "/v1/messages", _CHAT, _VERSION),
    Row("generate_content", GEMINI, "text", "TTTP", "POST", _GENERATE, _CONTENT),
    Row(
        "stream_generate_content",
        GEMINI,
        "text",
        "TTTP",
        "POST",
        "/v1beta/models/{model}:streamGenerateContent",
        _CONTENT,
    ),
)
IMAGES: Final = (
    _openai("images_generations", "image_gen", "POST", "/v1/images/generations", _IMAGINE),
    _openai("images_edits", "image_gen", "POST", "/v1/images/edits", _form(_IMAGE, _NAMED, _PROMPT)),
    _openai("images_variations", "image_gen", "POST", "/v1/images/variations", _form(_NAMED, _IMAGE)),
)
VIDEOS: Final = (
    _openai("videos_create", "video_gen", "POST", "/v1/videos", _form(_PROMPT, _NAMED, _IMAGE)),
    _openai("videos_list", "video_gen", "GET", "/v1/videos"),
    _openai("videos_retrieve", "video_gen", "GET", "/v1/videos/v_1"),
    _openai("videos_delete", "video_gen", "DELETE", "/v1/videos/v_1"),
    _openai("videos_content", "video_gen", "GET", "/v1/videos/v_1/content"),
    _openai("videos_remix", "video_gen", "POST", "/v1/videos/v_1/remix", b'{ "prompt" : "more" }'),
    _openai("videos_edits", "video_gen", "POST", "/v1/videos/edits", _form(_PROMPT, _IMAGE)),
    _openai("videos_extensions", "video_gen", "POST", "/v1/videos/extensions", _form(_PROMPT, _IMAGE)),
    _openai("videos_characters_create", "video_gen", "POST", "/v1/videos/characters", _form(_IMAGE)),
    _openai("videos_characters_retrieve", "video_gen", "GET", "/v1/videos/characters/c_1"),
)
SPEECH: Final = (
    Row("audio_speech", OPENAI, "audio_speech", "PPUT", "POST", "/v1/audio/speech", _SPEAK),
    Row(
        "anthropic_audio_speech",
        ANTHROPIC,
        "audio_speech",
        "TTUT",
        "POST",
        "/v1/audio/speech",
        _SPEAK,
        _VERSION,
    ),
    Row(
        "generate_speech",
        GEMINI,
        "audio_speech",
        "TTUP",
        "POST",
        "/v1beta/models/{model}:generateSpeech",
        _ALOUD,
        upstream_path=_GENERATE,
    ),
)
HEARING: Final = (
    _openai(
        "audio_transcriptions", "audio_transcribe", "POST", "/v1/audio/transcriptions", _form(_FILE, _NAMED)
    ),
    _openai("audio_translations", "audio_transcribe", "POST", "/v1/audio/translations", _form(_NAMED, _FILE)),
)
PREDICTIONS: Final = (
    Row(
        "gemini_models_predict",
        GEMINI,
        "image_gen",
        "UUUP",
        "POST",
        "/v1beta/models/{model}:predict",
        _PREDICT,
    ),
    Row(
        "gemini_models_predict_long_running",
        GEMINI,
        "video_gen",
        "UUUP",
        "POST",
        "/v1beta/models/{model}:predictLongRunning",
        _PREDICT,
    ),
)
"""Google's own images and videos: plain relays (contract 4.3, 4.7)."""

GRID: Final = (*TEXT, *IMAGES, *VIDEOS, *SPEECH, *HEARING, *PREDICTIONS)
ROW: Final = {row.name: row for row in GRID}


def configuration(flag: Flag) -> str:
    """A provider of each kind; every capability unsaid, on or off."""
    said = "" if flag is Flag.UNSAID else ", ".join(f"{name}: {flag is Flag.ON}" for name in CAPABILITIES)
    lines = [
        f'  {kind}: {{kind: {kind}, base_url: "https://{kind.replace("_", "-")}.example/'
        f'{"v1beta" if kind == GEMINI else "v1"}", api_key: k-{kind}, capabilities: {{{said}}}}}'
        for kind in KINDS
    ]
    return "\n".join(["providers:", *lines, ""])


def served() -> Iterator[tuple[Row, str]]:
    """Every cell that is passed through or translated."""
    for row in GRID:
        for kind in KINDS:
            if row.cell(kind) in (Cell.PASSED, Cell.TRANSLATED):
                yield row, kind
