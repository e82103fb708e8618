"""Text that the gateway adds to requests.

Each fills a place that would else be empty, or tells the model of something that its API has no field for.
The same case has the same words towards every family.
"""

from __future__ import annotations

from typing import Final

from mgw.canonical.conversation import Media

ATTACHED: Final = "The result is attached below."
"""The text of a result that is nothing but media, where the API has those elsewhere."""
ANSWER_IN_JSON: Final = "Answer with a JSON object."
"""An instruction, where the API refuses to be asked for JSON that no message speaks of."""
BEGIN_STRICT: Final = "…"
"""What the user says before a history that begins with the assistant, where a chat template refuses that."""
BETWEEN: Final = "\n\n"
"""The text between texts that were apart and become one."""


def describe_omission(media: Media) -> str:
    """Return what stands in place of media that the API, or the vendor, has no place for."""
    return f"[{media.kind} left out]"


def describe_document(media: Media) -> str:
    """Return a document of plain text as a text, where the API has no documents of text."""
    return BETWEEN.join(filter(None, (media.name, media.context, media.text)))
