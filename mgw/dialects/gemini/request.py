"""A client's generateContent request as a conversation.

Sources: ``_GenerateContentParameters_to_mldev`` of google-genai 3.4, whose JSON this is; proto3 JSON, which
takes keys in camel and in snake case.
"""

from __future__ import annotations

from mgw.canonical.conversation import Conversation
from mgw.dialects.dialect import Parsed, ReplyOptions, RequestContext, parsed
from mgw.dialects.fields import Fields, Ledger, open_request
from mgw.dialects.gemini.config import parse_config
from mgw.dialects.gemini.content import parse_contents, parse_system
from mgw.dialects.gemini.tools import parse_choice, parse_tools
from mgw.errors import GatewayError, Reason
from mgw.wire.target import query_value


def parse_request(body: bytes, asked: RequestContext) -> Parsed[Conversation]:
    """Return what a client asks; without ``alt=sse`` a stream is answered as an array.

    Raises: :class:`GatewayError` (``MALFORMED``).
    """
    ledger = Ledger(snake_too=True)
    conversation = parse_conversation(open_request(body, ledger), asked)
    in_array = asked.stream and query_value(asked.raw_query, "alt") != "sse"
    return parsed(conversation, ledger, ReplyOptions(in_array=in_array))


def parse_conversation(request: Fields, asked: RequestContext) -> Conversation:
    """Return the conversation that a request is.

    Raises: :class:`GatewayError` (``MALFORMED``).
    """
    try:
        return _conversation(request, asked)
    except RecursionError:
        raise GatewayError(Reason.MALFORMED, "the request is nested too deeply") from None


def _conversation(request: Fields, asked: RequestContext) -> Conversation:
    request.skip("model")  # the path names it
    config = parse_config(request.nested("generationConfig"))
    contents = request.objects_or_one("contents")
    if not contents:
        raise request.missing("contents")
    system = request.nested("systemInstruction")
    return Conversation(
        turns=parse_contents(contents, config.detail),
        system=() if system is None else parse_system(system),
        tools=parse_tools(request),
        tool_choice=parse_choice(request),
        sampling=config.sampling,
        max_tokens=config.max_tokens,
        stop=config.stop,
        candidates=config.candidates,
        output=config.output,
        reasoning=config.reasoning,
        stream=asked.stream,
    )
