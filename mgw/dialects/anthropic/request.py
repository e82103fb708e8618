"""A request of the messages API, read.

Sources: the SDK's ``MessageCreateParams`` with all that it holds, the beta types of the same name, and of API
version 2023-06-01 the fields that the newest types have dropped (``temperature``, ``top_p``, ``top_k``).
What is not named here is reported as unread.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.canonical.conversation import (
    Conversation,
    OutputFormat,
    OutputKind,
    Reasoning,
    Role,
    Sampling,
    Text,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.dialects.anthropic.content import content, system_texts
from mgw.dialects.anthropic.errors import NO_THREADS
from mgw.dialects.anthropic.tools import read_choice, read_tools
from mgw.dialects.dialect import Parsed, RequestContext, parsed
from mgw.dialects.fields import Fields, Ledger, none_of, open_request
from mgw.errors import GatewayError, Reason
from mgw.vocabulary import Effort

_ROLES: Final = MappingProxyType({"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM})
_EFFORTS: Final = MappingProxyType(
    {effort.value: effort for effort in (Effort.LOW, Effort.MEDIUM, Effort.HIGH, Effort.XHIGH, Effort.MAX)}
)
_THINKING: Final = ("enabled", "adaptive", "disabled", "between_tools")
_DISPLAYS: Final = MappingProxyType({"summarized": True, "omitted": False})


def parse_request(body: bytes, _asked: RequestContext) -> Parsed[Conversation]:
    """Read a request for an answer."""
    ledger = Ledger()
    root = open_request(body, ledger)
    if "max_tokens" not in root:
        raise root.missing("max_tokens")
    return parsed(_conversation(root), ledger)


def parse_count(body: bytes, _asked: RequestContext) -> Parsed[Conversation]:
    """Read a request for a count of tokens, which needs no limit of the answer."""
    ledger = Ledger()
    return parsed(_conversation(open_request(body, ledger)), ledger)


def _conversation(root: Fields) -> Conversation:
    root.required_text("model")  # the route has resolved it
    _refuse_a_thread(root)
    system, turns = _messages(root)
    parallel_calls, choice = read_choice(root)
    metadata, config = root.nested("metadata"), root.nested("output_config")
    return Conversation(
        turns=turns,
        system=(*system_texts(root), *system),
        tools=read_tools(root),
        tool_choice=choice,
        parallel_calls=parallel_calls,
        sampling=Sampling(
            root.number("temperature", Feature.TEMPERATURE),
            root.number("top_p", Feature.TOP_P),
            root.integer("top_k", Feature.TOP_K),
        ),
        max_tokens=_limit(root),
        stop=tuple(filter(None, root.texts("stop_sequences", Feature.STOP))),
        output=_output(root, config),
        reasoning=_reasoning(root, config),
        user=None if metadata is None else metadata.text("user_id", Feature.USER),
        stream=root.flag("stream") is True,
    )


def _limit(root: Fields) -> int | None:
    limit = root.integer("max_tokens", Feature.MAX_TOKENS)
    if limit == 0:
        raise root.wrong(
            "max_tokens", "0 warms Anthropic's cache, which other families do not have: send 1 or more"
        )
    return limit


def _refuse_a_thread(root: Fields) -> None:
    """Refuse to go on with a conversation that the vendor holds: all but its last turn is missing here."""
    thread = root.nested("thread")
    if thread is None:
        return
    if thread.text("type") == "continue":
        message = "thread: only the vendor that stores a thread can continue it; send all messages instead"
        raise GatewayError(Reason.MALFORMED, message, param="thread", code=NO_THREADS)
    root.leave("thread")
    thread.skip(*thread)


def _messages(root: Fields) -> tuple[tuple[Text, ...], tuple[Turn, ...]]:
    """Return the instructions that stand before all else, and the turns."""
    if "messages" not in root:
        raise root.missing("messages")
    messages = root.objects("messages")
    roles = [_role(message) for message in messages]
    last_user = max((place for place, role in enumerate(roles) if role is Role.USER), default=-1)
    leading: list[Text] = []
    turns: list[Turn] = []
    for place, (message, role) in enumerate(zip(messages, roles, strict=True)):
        parts = content(message, role)
        if role is Role.SYSTEM:
            # Guide on mid-conversation system messages: then it is shown for the turn that it follows only.
            clear_at = message.text("clear_at")
            if clear_at == "next_user_message" and place < last_user:
                continue
            if not turns:
                leading += [part for part in parts if isinstance(part, Text)]
                continue
        turns.append(Turn(role, parts))
    return tuple(leading), tuple(turns)


def _role(message: Fields) -> Role:
    said = message.required_text("role")
    role = _ROLES.get(said)
    if role is None:
        raise none_of(message, "role", said, _ROLES)
    return role


def _output(root: Fields, config: Fields | None) -> OutputFormat | None:
    """Read ``output_config.format``, or ``output_format``, as it was called before."""
    found = None if config is None else config.nested("format")
    if found is None:
        found = root.nested("output_format")
        if found is None:
            return None
    kind = found.required_text("type")
    if kind != "json_schema":
        raise none_of(found, "type", kind, ("json_schema",))
    schema = found.raw_object("schema", Feature.OUTPUT)
    if schema is None:
        raise found.missing("schema")
    return OutputFormat(OutputKind.SCHEMA, schema)


def _reasoning(root: Fields, config: Fields | None) -> Reasoning:
    effort = _effort(config)
    thinking = root.nested("thinking")
    if thinking is None:
        return Reasoning(effort)
    kind = thinking.text("type", Feature.REASONING)
    if kind is None:
        raise thinking.missing("type")
    if kind not in _THINKING:
        raise none_of(thinking, "type", kind, _THINKING)
    budget = thinking.integer("budget_tokens", Feature.REASONING)
    if kind == "enabled" and budget is None:
        raise thinking.missing("budget_tokens")
    thoughts = _thoughts(thinking)
    if kind == "enabled":
        return Reasoning(effort, budget, thoughts=thoughts)
    if kind == "adaptive":
        return Reasoning(effort, adaptive=True, thoughts=thoughts)
    return Reasoning(effort, budget=0, thoughts=thoughts)


def _effort(config: Fields | None) -> Effort | None:
    said = None if config is None else config.text("effort", Feature.REASONING)
    if config is None or said is None:
        return None
    if said not in _EFFORTS:
        raise none_of(config, "effort", said, _EFFORTS)
    return _EFFORTS[said]


def _thoughts(thinking: Fields) -> bool | None:
    display = thinking.text("display", Feature.THOUGHTS)
    if display is None:
        return None
    if display not in _DISPLAYS:  # beta: "updates", short lines between calls
        thinking.leave("display")
    return _DISPLAYS.get(display)
