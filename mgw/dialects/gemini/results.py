"""What a tool gave back, as the object that ``functionResponse.response`` is, and back (contract 8.16).

Text that is a JSON object goes as that object, other text as ``{"result": text}``, an error as
``{"error": text}``.  Back again the same way, with ``output``, the key that Google's reference and Gemini CLI
write, beside ``result``.

Source: ``FunctionResponse.response`` of google-genai 3.4.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw
from msgspec.json import Encoder

from mgw.canonical.conversation import JsonObject
from mgw.dialects.arguments import object_of

_ENCODER: Final = Encoder()


def response_of(text: str, *, is_error: bool) -> Raw | JsonObject:
    """Return the ``response`` for a result's text."""
    if is_error:
        return {"error": text}
    found = object_of(text)
    return {"result": text} if found is None else found


def text_of(response: JsonObject) -> tuple[str, bool]:
    """Return a response as text, and whether it tells of an error."""
    if len(response) == 1:
        key, value = next(iter(response.items()))
        if key == "error" and value is not None:
            return (value if type(value) is str else encoded(value)), True
        if key in {"result", "output"} and type(value) is str:
            return value, False
    return encoded(response), False


def encoded(value: Any) -> str:  # Any: JSON
    """Return compact JSON text, in the sender's key order.

    Raises: :class:`RecursionError` where it is nested too deeply.
    """
    return _ENCODER.encode(value).decode()
