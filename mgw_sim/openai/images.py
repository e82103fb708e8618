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

from mgw_sim.api import (
    ApiError,
    Handler,
    Json,
    Request,
    Response,
    StreamResponse,
    json_response,
    sse_event,
)
from mgw_sim.model import token_count
from mgw_sim.openai.errors import error_value, validate
from mgw_sim.validation import Shape, array, boolean, either, integer, mapping, string

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


def generate_image(request: Request) -> Response:
    """``POST /v1/images/generations``."""
    validate(request.body, _GENERATION, lenient="lenient" in request.faults)
    return _image_response(request, request.body, "image_generation", images=0)


def edit_image(request: Request) -> Response:
    """``POST /v1/images/edits``: a form with images, or JSON that names them."""
    if request.form is None:
        validate(request.body, _EDIT, lenient=True)
        return _image_response(request, request.body, "image_edit", images=1)
    fields = _form_fields(request)
    image_count = sum(part.name in {"image", "image[]"} for part in request.form.parts)
    for name, value in (("image", image_count), ("prompt", fields.get("prompt"))):
        if not value:
            raise ApiError(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    return _image_response(request, fields, "image_edit", images=image_count)


def create_variation(request: Request) -> Response:
    """``POST /v1/images/variations``."""
    if request.form is None or request.form.file("image") is None:
        raise ApiError(400, "Missing required parameter: 'image'.", "image", "missing_required_parameter")
    return _image_response(request, _form_fields(request), "image_variation", images=1)


def _form_fields(request: Request) -> Json:
    """The plain fields of the form, checked as those of JSON are."""
    assert request.form is not None
    fields: Json = dict(request.form.fields())
    for name in _NUMBER_FIELDS:
        if name in fields:
            fields[name] = int(fields[name]) if fields[name].isdigit() else fields[name]
    if "stream" in fields:
        fields["stream"] = fields["stream"] == "true"
    validate(fields, _EDIT, lenient=True)
    return fields


def _image_response(request: Request, fields: Json, kind: str, *, images: int) -> Response:
    is_gpt = bool(_GPT_IMAGE.match(request.model))
    prompt = str(fields.get("prompt") or "")
    seeds = [f"{prompt}{index}" for index in range(fields.get("n") or 1)]
    settings = {
        "background": "opaque",
        "output_format": fields.get("output_format") or "png",
        "quality": "high" if fields.get("quality") in {None, "auto"} else fields["quality"],
        "size": "1024x1024" if fields.get("size") in {None, "auto"} else fields["size"],
    }
    usage = _usage(prompt, images, len(seeds))
    if fields.get("stream"):
        if not is_gpt:
            raise ApiError(400, "Streaming is not supported with this model.", "stream")
        return _image_stream(
            request, kind, seeds[0], settings, {"usage": usage, "partial": fields.get("partial_images")}
        )
    if is_gpt:
        data: list[Any] = [{"b64_json": _png(seed)} for seed in seeds]
        return json_response({"created": request.now, **settings, "data": data, "usage": usage})
    if fields.get("response_format") == "b64_json":
        data = [{"b64_json": _png(seed), "revised_prompt": prompt} for seed in seeds]
    else:
        address = f"{request.origin}/images/{request.id('img-')}"
        data = [{"url": f"{address}-{index}.png", "revised_prompt": prompt} for index in range(len(seeds))]
    return json_response({"created": request.now, "data": data})


def _image_stream(request: Request, kind: str, seed: str, settings: Json, more: Json) -> Response:
    shared = {"created_at": request.now, **settings}
    partial = [
        {"type": f"{kind}.partial_image", "partial_image_index": index, "b64_json": _png(f"{seed}{index}")}
        for index in range(more["partial"] or 0)
    ]
    last = {"type": f"{kind}.completed", "b64_json": _png(seed), "usage": more["usage"]}
    return StreamResponse(
        tuple(sse_event({**event, **shared}, event["type"]) for event in (*partial, last)), _ERROR_EVENT
    )


def _usage(prompt: str, images: int, image_count: int) -> Json:
    text_tokens, image_tokens, output_tokens = token_count(prompt), 100 * images, 1000 * image_count
    return {
        "input_tokens": text_tokens + image_tokens,
        "input_tokens_details": {"text_tokens": text_tokens, "image_tokens": image_tokens},
        "output_tokens": output_tokens,
        "output_tokens_details": {"text_tokens": 0, "image_tokens": output_tokens},
        "total_tokens": text_tokens + image_tokens + output_tokens,
    }


def _png(seed: str) -> str:
    """A PNG of one pixel, in base64 (RFC 2083)."""
    colour = hashlib.sha256(seed.encode()).digest()[:3]
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"\0" + colour)),
        (b"IEND", b""),
    )
    encoded = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    ]
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(encoded)).decode()


IMAGE_HANDLERS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/images/generations"): generate_image,
    ("POST", "/images/edits"): edit_image,
    ("POST", "/images/variations"): create_variation,
}
