"""The words that the gateway itself puts into requests.

Each fills a place that would else be empty, or tells the model of something that its wire has no place for.
The same case has the same words towards every family.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from mgw.canonical.conversation import Media, Text, ToolResult

BEGIN: Final = "(The conversation begins with the assistant.)"
"""A user's turn before a history that begins with the assistant's, where the wire refuses that."""
GO_ON: Final = "Go on from exactly where you stopped."
"""A user's turn behind a history that ends with the assistant's, where the model refuses that."""
NO_RESULT: Final = "No result was recorded for this call."
"""The answer of a call that history leaves without one."""
ATTACHED: Final = "The result is attached below."
"""The text of a result that is nothing but media, where the wire has those elsewhere."""
ANSWER_IN_JSON: Final = "Answer with a JSON object."
"""An instruction, where the wire refuses to be asked for JSON that no message speaks of."""
BETWEEN: Final = "\n\n"
"""Between texts that were apart and become one."""


def left_out(media: Media) -> str:
    """Return what stands in place of media that the wire, or the vendor, has no place for."""
    return f"[{media.kind} left out]"


def told(media: Media) -> str:
    """Return a document that is plain text as it is told where the wire has no documents of text."""
    return BETWEEN.join(filter(None, (media.name, media.context, media.text)))


def orphaned(result: ToolResult) -> tuple[Text | Media, ...]:
    """Return a result whose call history does not have, as what the user says."""
    what = "Error" if result.is_error else "Result"
    parts = (Text(f"[{what} of {result.name or result.call_id}]"), *result.parts)
    if result.cache is None or parts[-1].cache is not None:
        return parts
    return (*parts[:-1], replace(parts[-1], cache=result.cache))
