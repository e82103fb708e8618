"""Images and documents in Anthropic's blocks (``anthropic.types`` 2.x, and the API's own refusals)."""

import base64
import binascii
from typing import Final

from mgw.simulator.answer import Json, Refusal

_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_MAGIC: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
_SOURCES: Final = {
    "image": ("base64", "url", "file"),
    "document": ("base64", "url", "text", "content", "file"),
}


def check_source(where: str, block: Json) -> None:
    """Raise the Refusal for an image or a document that is none."""
    kind, source = block["type"], block["source"] or {}
    tag = source.get("type")
    if tag not in _SOURCES[kind]:
        expected = ", ".join(f"'{name}'" for name in _SOURCES[kind])
        said = f"Input tag '{tag}' found using 'type' does not match any of the expected tags: {expected}"
        raise Refusal(400, f"{where}.{kind}.source: {said}")
    if tag == "base64":
        _check_base64(
            f"{where}.{kind}.source.base64", source, _IMAGES if kind == "image" else ("application/pdf",)
        )
    if tag == "url" and not source["url"].startswith(("http://", "https://")):
        raise Refusal(400, f"{where}.{kind}.source.url.url: Only HTTPS URLs are supported.")


def _check_base64(where: str, source: Json, kinds: tuple[str, ...]) -> None:
    media_type = source["media_type"]
    if media_type not in kinds:
        *first, last = [f"'{kind}'" for kind in kinds]
        wanted = f"{', '.join(first)} or {last}" if first else last
        raise Refusal(400, f"{where}.media_type: Input should be {wanted}")
    try:
        raw = base64.b64decode(source["data"], validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(400, f"{where}: invalid base64 data") from None
    seen = next((kind for magic, kind in _MAGIC.items() if raw.startswith(magic)), media_type)
    if seen != media_type and media_type in _IMAGES:
        raise Refusal(400, f"{where}.data: Image does not match the provided media type {media_type}")
