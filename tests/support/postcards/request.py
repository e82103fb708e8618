"""A request, both ways."""

from __future__ import annotations

from typing import Final

from mgw.canonical.conversation import Conversation, JsonObject, Text, Tool
from mgw.canonical.features import Feature
from mgw.canonical.identifiers import CHAT_NAME
from mgw.dialects.dialect import Parsed, Rendered, RenderOptions, RequestContext, finish_parsing
from mgw.dialects.fields import Fields, Ledger, encode_request, open_request
from mgw.dialects.refusal import no_messages
from mgw.dialects.tool_names import ToolNames
from tests.support.postcards.turns import parse_turns, render_turns

_CARRIED: Final = frozenset({Feature.SYSTEM, Feature.TOOLS, Feature.MAX_TOKENS})


def parse_request(body: bytes, asked: RequestContext) -> Parsed[Conversation]:
    ledger = Ledger()
    request = open_request(body, ledger)
    request.skip("to")
    notice = request.text("notice", Feature.SYSTEM)
    conversation = Conversation(
        parse_turns(request),
        system=() if notice is None else (Text(notice),),
        tools=tuple(_parse_tool(tool) for tool in request.objects("tools")),
        max_tokens=request.integer("most", Feature.MAX_TOKENS),
        stream=request.flag("live") is True,
    )
    if conversation.tools:
        request.note(Feature.TOOLS, "tools")
    return finish_parsing(conversation, ledger)


def _parse_tool(tool: Fields) -> Tool:
    return Tool(tool.required_text("tool"), schema=tool.raw_object("takes"))


def render_request(conversation: Conversation, options: RenderOptions) -> Rendered:
    lost: set[Feature] = set()
    names = ToolNames(CHAT_NAME)
    body: JsonObject = {"to": options.model, "cards": render_turns(conversation.turns, names, lost)}
    if not body["cards"]:
        raise no_messages()
    if conversation.system:
        body["notice"] = "\n".join(text.text for text in conversation.system)
    if conversation.tools:
        body["tools"] = [{"tool": names[tool.name], "takes": tool.schema} for tool in conversation.tools]
    if conversation.max_tokens is not None:
        body["most"] = conversation.max_tokens
    if conversation.stream:
        body["live"] = True
    return Rendered(b"/postcards", encode_request(body), _CARRIED, frozenset(lost), renamed=names.renamed)
