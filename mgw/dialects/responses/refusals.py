"""Why a request of Responses is refused that a stateless translation cannot do (contract 11.3, 11.4).

The codes tell programs which part of the request is at fault; each message says what to send instead.
"""

from __future__ import annotations

from typing import Final

from mgw.dialects.fields import Fields
from mgw.nouns.errors import GatewayError

PARAMETER: Final = "unsupported_parameter"
TOOL: Final = "unsupported_tool"
ITEM: Final = "unsupported_item"
LONGEST_SHOWN: Final = 64
"""Characters of a client's word in a message or in a path."""


def unsupported(fields: Fields, key: str, message: str, code: str) -> GatewayError:
    """Return the refusal of ``key``, or of the object where it is empty, with a code of its own."""
    error = fields.wrong(key, message)
    error.code = code
    return error


def hosted_tool(tool: Fields, kind: str, key: str = "") -> GatewayError:
    """Return the refusal of a tool that only OpenAI's servers run."""
    message = (
        f"tools of type {kind[:LONGEST_SHOWN]!r} run on OpenAI's servers only: remove the tool, let the "
        "gateway drop it (translation.responses.hosted_tools: drop), or use an OpenAI provider"
    )
    return unsupported(tool, key, message, TOOL)


def not_encodable(fields: Fields, key: str) -> GatewayError:
    """Return the refusal of a value that cannot be written as JSON again."""
    return fields.wrong(key, "is nested too deeply, or contains a value that JSON cannot represent")
