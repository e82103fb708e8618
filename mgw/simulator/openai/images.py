"""OpenAI's images: made, edited and varied (types: ``openai.types.image*`` 3.54).

Each is one pixel whose colour follows from the prompt.  The models of the ``gpt-image`` and ``chatgpt-image``
kind count tokens, answer in base64 always, and stream; others give an address unless base64 is asked for.
"""

import base64
import hashlib
import re
import struct
import zlib
from typing import Any, Final

from mgw.simulator.api import (
    ApiError,
    Handler,
    Json,
    Request,
    Response,
    StreamResponse,
    json_response,
    sse_event,
)
from mgw.simulator.model import token_count
from mgw.simulator.openai.errors import error_value, validate
from mgw.simulator.validation import Shape, array, boolean, either, integer, mapping, string

_GPT_IMAGE: Final = re.compile(r"(?:chat)?gpt-image")
_MAX_IMAGES: Final = 10
_COMMON_FIELDS: Final = {
    "model": string(),
    "prompt": string(),
    "background": string("transparent", "opaque", "auto"),
    "complexity": string("low", "medium", "high"),
    "frame_count": integer(1),
    "frame_duration_ms": integer(1),
    "moderation": string("low", "auto"),
    "n": integer(1, _MAX_IMAGES),
    "output_compression": integer(0, 100),
    "output_format": string("png", "webp", "jpeg", "gif", "svg"),
    "partial_images": integer(0, 3),
    "quality": string("low", "medium", "high", "xhigh", "max", "auto", "standard", "hd"),
    "response_format": string("url", "b64_json"),
    "safety_identifier": string(),
    "size": string(),
    "stream": boolean(),
    "style": string("vivid", "natural"),
    "svg": mapping(),
    "user": string(),
}
_GENERATION: Final = Shape(_COMMON_FIELDS, required=("prompt",))
_EDIT: Final = Shape(
    {
        **_COMMON_FIELDS,
        "image": either(string(), mapping()),
        "images": array(),
        "mask": either(string(), mapping()),
        "input_fidelity": string("high", "low"),
    },
    is_open=True,
)
_NUMBER_FIELDS: Final = ("n", "output_compression", "partial_images", "frame_count", "frame_duration_ms")
_ERROR_EVENT: Final = sse_event({"type": "error", **error_value(ApiError(500, "The server broke."))}, "error")


def generate_image(call: Request) -> Response:
    """``POST /v1/images/generations``."""
    validate(call.body, _GENERATION, lenient="lenient" in call.faults)
    return _image_response(call, call.body, "image_generation", images=0)


def edit_image(call: Request) -> Response:
    """``POST /v1/images/edits``: a form with images, or JSON that names them."""
    if call.form is None:
        validate(call.body, _EDIT, lenient=True)
        return _image_response(call, call.body, "image_edit", images=1)
    said = _form_fields(call)
    given = sum(part.name in {"image", "image[]"} for part in call.form.parts)
    for name, there in (("image", given), ("prompt", said.get("prompt"))):
        if not there:
            raise ApiError(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    return _image_response(call, said, "image_edit", images=given)


def create_variation(call: Request) -> Response:
    """``POST /v1/images/variations``."""
    if call.form is None or call.form.file("image") is None:
        raise ApiError(400, "Missing required parameter: 'image'.", "image", "missing_required_parameter")
    return _image_response(call, _form_fields(call), "image_variation", images=1)


def _form_fields(call: Request) -> Json:
    """The plain fields of the form, checked as those of JSON are."""
    assert call.form is not None
    said: Json = dict(call.form.fields())
    for name in _NUMBER_FIELDS:
        if name in said:
            said[name] = int(said[name]) if said[name].isdigit() else said[name]
    if "stream" in said:
        said["stream"] = said["stream"] == "true"
    validate(said, _EDIT, lenient=True)
    return said


def _image_response(call: Request, said: Json, kind: str, *, images: int) -> Response:
    is_gpt = bool(_GPT_IMAGE.match(call.model))
    prompt = str(said.get("prompt") or "")
    seeds = [f"{prompt}{index}" for index in range(said.get("n") or 1)]
    settings = {
        "background": "opaque",
        "output_format": said.get("output_format") or "png",
        "quality": "high" if said.get("quality") in {None, "auto"} else said["quality"],
        "size": "1024x1024" if said.get("size") in {None, "auto"} else said["size"],
    }
    usage = _usage(prompt, images, len(seeds))
    if said.get("stream"):
        if not is_gpt:
            raise ApiError(400, "Streaming is not supported with this model.", "stream")
        return _image_stream(
            call, kind, seeds[0], settings, {"usage": usage, "partial": said.get("partial_images")}
        )
    if is_gpt:
        data: list[Any] = [{"b64_json": _png(seed)} for seed in seeds]
        return json_response({"created": call.now, **settings, "data": data, "usage": usage})
    if said.get("response_format") == "b64_json":
        data = [{"b64_json": _png(seed), "revised_prompt": prompt} for seed in seeds]
    else:
        address = f"{call.origin}/images/{call.id('img-')}"
        data = [{"url": f"{address}-{index}.png", "revised_prompt": prompt} for index in range(len(seeds))]
    return json_response({"created": call.now, "data": data})


def _image_stream(call: Request, kind: str, seed: str, settings: Json, more: Json) -> Response:
    shared = {"created_at": call.now, **settings}
    partial = [
        {"type": f"{kind}.partial_image", "partial_image_index": index, "b64_json": _png(f"{seed}{index}")}
        for index in range(more["partial"] or 0)
    ]
    last = {"type": f"{kind}.completed", "b64_json": _png(seed), "usage": more["usage"]}
    return StreamResponse(
        tuple(sse_event({**event, **shared}, event["type"]) for event in (*partial, last)), _ERROR_EVENT
    )


def _usage(prompt: str, images: int, made: int) -> Json:
    text, seen, out = token_count(prompt), 100 * images, 1000 * made
    return {
        "input_tokens": text + seen,
        "input_tokens_details": {"text_tokens": text, "image_tokens": seen},
        "output_tokens": out,
        "output_tokens_details": {"text_tokens": 0, "image_tokens": out},
        "total_tokens": text + seen + out,
    }


def _png(seed: str) -> str:
    """A PNG of one pixel, in base64 (RFC 2083)."""
    colour = hashlib.sha256(seed.encode()).digest()[:3]
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"\0" + colour)),
        (b"IEND", b""),
    )
    packed = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    ]
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(packed)).decode()


IMAGE_HANDLERS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/images/generations"): generate_image,
    ("POST", "/images/edits"): edit_image,
    ("POST", "/images/variations"): create_variation,
}
