"""Images, audio and files in a chat's messages: who may say them, and in which form.

Sources: ``openai.types.chat`` (only a user's content has other parts than text and refusals) and the words of
the API's own refusals.
"""

import base64
import binascii
import re
from typing import Final

from mgw.simulator.answer import Json, Refusal

_DATA: Final = re.compile(r"data:([^;,]+)(?:;[^;,]+)*;base64,(.+)", re.DOTALL)
_IMAGES: Final = ("image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp")
_MEDIA: Final = {"image_url": "Image URL", "input_audio": "Audio input", "file": "File"}


def is_base64(text: str) -> bool:
    """Whether a text is base64 of something, line breaks left aside."""
    try:
        return bool(base64.b64decode("".join(text.split()), validate=True))
    except (binascii.Error, ValueError):
        return False


def check_media(index: int, message: Json) -> None:
    """Raise the Refusal for the first part of a message that may not stand there, or is no such thing."""
    content = message.get("content")
    for place, part in enumerate(content if isinstance(content, list) else ()):
        kind, role = part["type"], message["role"]
        where = f"messages[{index}].content[{place}]"
        if kind in _MEDIA and role != "user":
            raise _misplaced(index, role, kind)
        if kind == "refusal" and role != "assistant":
            raise Refusal(400, f"Invalid value: 'refusal'. ({where}.type)", f"{where}.type", "invalid_value")
        if kind == "image_url":
            _check_image(f"{where}.image_url.url", part["image_url"]["url"])
        elif kind == "input_audio" and not is_base64(part["input_audio"]["data"]):
            raise _invalid(f"{where}.input_audio.data", "Expected base64-encoded audio.")
        elif kind == "file":
            _check_file(f"{where}.file", part["file"] or {})


def _misplaced(index: int, role: str, kind: str) -> Refusal:
    message = (
        f"Invalid 'messages[{index}]'. {_MEDIA[kind]}s are only allowed for messages with role 'user', but "
        f"this message with role '{role}' contains an {_MEDIA[kind]}."
    )
    return Refusal(400, message, f"messages[{index}]", "invalid_value")


def _invalid(param: str, wanted: str) -> Refusal:
    return Refusal(400, f"Invalid value: '{param}'. {wanted}", param, "invalid_value")


def _check_image(param: str, url: str) -> None:
    if re.match(r"https?://", url):
        return
    found = _DATA.fullmatch(url)
    if found is None or not found[1].startswith("image/") or not is_base64(found[2]):
        wanted = (
            "Expected a base64-encoded data URL with an image MIME type (e.g. 'data:image/png;base64,…')."
        )
        raise _invalid(param, wanted)
    if found[1].lower() not in _IMAGES:
        message = (
            "You uploaded an unsupported image. Please make sure your image has of one the following "
            "formats: ['png', 'jpeg', 'gif', 'webp']."
        )
        raise Refusal(400, message, param, "invalid_image_format")


def _check_file(param: str, held: Json) -> None:
    if held.get("file_data") is None and held.get("file_id") is None:
        name = f"{param}.file_id"
        raise Refusal(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    data = held.get("file_data")
    found = None if data is None else _DATA.fullmatch(data)
    if data is not None and not is_base64(found[2] if found else data):
        raise _invalid(f"{param}.file_data", "Expected a base64-encoded data URL.")
