"""What strict chat templates refuse: those of Qwen, Gemma, Llama and Mistral.

Sources: the templates that the models are published with, whose words the refusals have
(``raise_exception('...')``); a host answers with a 400 and those words.  The one here is the strictest of
each: one system message, which is the first; then the user and the assistant in turn, the user first; and
identifiers of calls as Mistral has them, where the model is one of Mistral's.
"""

import re
from itertools import pairwise
from typing import Final

from mgw_sim.api import ApiError, Json

_NINE: Final = re.compile("[a-zA-Z0-9]{9}")
_MISTRAL: Final = re.compile("mistral|mixtral|codestral|devstral|magistral")


def check_template(model: str, messages: list[Json]) -> None:
    """Raise the ApiError for messages that no strict template takes."""
    roles = [message["role"] for message in messages]
    if "developer" in roles:
        raise _refused("Unexpected message role.")
    if "system" in roles[1:]:
        raise _refused("System message must be at the beginning.")
    spoken = [role for role in roles if role != "system"]
    if not spoken or spoken[0] != "user":
        raise _refused("After the optional system message, conversation roles must start with user.")
    for before, role in pairwise(spoken):
        if before == role and role != "tool":
            raise _refused("Conversation roles must alternate user/assistant/user/assistant/...")
    for message in messages:
        if message["role"] == "assistant" and not (message.get("content") or message.get("tool_calls")):
            raise _refused("Assistant message must have either content or tool_calls.")
    if _MISTRAL.search(model.lower()):
        _check_call_ids(messages)


def _check_call_ids(messages: list[Json]) -> None:
    ids = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    ids += [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    if not all(_NINE.fullmatch(call_id) for call_id in ids):
        raise _refused("Tool call IDs should be alphanumeric strings with length 9!")


def _refused(words: str) -> ApiError:
    return ApiError(400, words, code="BadRequestError")
