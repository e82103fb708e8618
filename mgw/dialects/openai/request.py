"""A request of chat completions, understood.

Source: the SDK's ``completion_create_params``.  What is not taken here stays in :class:`Fields` and is
reported: ``logit_bias``, ``metadata``, ``store``, ``service_tier``, ``verbosity``, ``prediction``,
``web_search_options``, ``audio``, ``prompt_cache_key`` and whatever is newer than this text.
"""

from __future__ import annotations

from mgw.canonical.conversation import Conversation
from mgw.canonical.features import Feature
from mgw.dialects.dialect import Parsed, ReplyOptions, RequestContext, parsed
from mgw.dialects.fields import Fields, Ledger, open_request
from mgw.dialects.openai.messages import History
from mgw.dialects.openai.options import (
    read_candidates,
    read_max_tokens,
    read_output,
    read_reasoning,
    read_sampling,
    read_stop,
    read_user,
)
from mgw.dialects.openai.tools import read_function_choice, read_functions, read_tool_choice, read_tools


def parse_request(body: bytes, asked: RequestContext) -> Parsed[Conversation]:  # noqa: ARG001 - this wire says all in its body
    """Understand a request.

    Raises: :class:`GatewayError` (``MALFORMED``) for what is no such request, and for tools that are no
    functions.
    """
    ledger = Ledger()
    request = open_request(body, ledger)
    request.skip("model")
    history = _history(request)
    tools, functions = read_tools(request), read_functions(request)
    choice = read_tool_choice(request)
    if choice is None and functions:
        choice = read_function_choice(request)
    stream = request.flag("stream") or False
    options = request.nested("stream_options")
    style = ReplyOptions(
        include_usage=bool(options is not None and options.flag("include_usage")),
        legacy_functions=bool(functions and not tools),
    )
    _skip_usual(request)
    conversation = Conversation(
        turns=tuple(history.turns),
        system=tuple(history.system),
        tools=tools + functions,
        tool_choice=choice,
        parallel_calls=False if style.legacy_functions else _parallel(request),
        sampling=read_sampling(request),
        max_tokens=read_max_tokens(request),
        stop=read_stop(request),
        candidates=read_candidates(request),
        output=read_output(request),
        reasoning=read_reasoning(request),
        user=read_user(request),
        stream=stream,
    )
    return parsed(conversation, ledger, style)


def _history(request: Fields) -> History:
    if "messages" not in request:
        raise request.missing("messages")
    history = History()
    for message in request.objects("messages"):
        history.read(message)
    if not history.turns and not history.system:
        raise request.wrong("messages", "at least one message is required")
    return history


def _parallel(request: Fields) -> bool | None:
    """Take ``parallel_tool_calls``; ``true`` is what happens anyway."""
    parallel = request.flag("parallel_tool_calls", Feature.PARALLEL_CALLS)
    return False if parallel is False else None


def _skip_usual(request: Fields) -> None:
    """Take what asks for no more than text."""
    modalities = request.take("modalities")
    if modalities is not None and modalities != ["text"]:
        request.ledger.leave(request.path("modalities"))
