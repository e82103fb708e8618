"""The dialect in which a provider is asked for a conversation.

A kind's row says in which dialects its providers can be asked: OpenAI's models in two.  Newer ones refuse
function tools on chat completions unless reasoning is off, and hosts may serve only one of the two.

Source: contract 11.1 and 11.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from mgw.canonical.conversation import Conversation, Thinking
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.kinds import KindRow
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import ChatTools, DialectName, Family, ThroughResponses


class AskedProvider(Struct, frozen=True):
    """Who is asked."""

    kind: KindRow
    dialects: Sequence[DialectName]
    """Those of the kind's dialects that the host speaks, in their order."""
    row: ModelRow
    """What the model takes."""


def choose_dialect(
    conversation: Conversation, client: Family, asked: AskedProvider, *, foreign: bool
) -> DialectName:
    """Return the dialect in which a provider is asked for a conversation.

    :param client: the family of the client.
    :param foreign: whether clients of other families may be led through Responses.
    :raises GatewayError: ``MALFORMED`` where only Responses could take the request, and may not be used.
    """
    kind, dialects = asked.kind, asked.dialects
    if kind.through_responses and client is not kind.family:
        if foreign:
            if _goes_through_responses(conversation, asked.row, kind.family):
                return dialects[-1]
        elif asked.row.through_responses is ThroughResponses.ALWAYS:
            raise _responses_off("the model is not served on chat completions", "model")
        elif conversation.tools and asked.row.chat_tools is ChatTools.NEVER:
            raise _responses_off("the model does not accept tools on chat completions", "tools")
    return dialects[0]


def _responses_off(why: str, param: str) -> GatewayError:
    """Return the refusal of what only Responses could serve, where they may not be used."""
    message = (
        f"{why}, and translation.responses.upstream is none in the gateway's configuration: set it to "
        "foreign, or choose another model"
    )
    return GatewayError(Reason.MALFORMED, message, param=param)


def _goes_through_responses(conversation: Conversation, row: ModelRow, family: Family) -> bool:
    when = row.through_responses
    if when is not ThroughResponses.TOOLS:
        return when is ThroughResponses.ALWAYS
    return bool(conversation.tools) or _has_signed_thoughts(conversation, family)


def _has_signed_thoughts(conversation: Conversation, family: Family) -> bool:
    """Whether history has thoughts that a family signed."""
    for turn in conversation.turns:
        for part in turn.parts:
            signature = part.signature if isinstance(part, Thinking) else None
            if signature is not None and signature.family is family and signature.value:
                return True
    return False
