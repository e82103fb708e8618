"""A request of chat completions, both ways.

Sources: the SDK's ``completion_create_params``; contract 8.7, 8.9.  What is not taken here stays in
:class:`Fields` and is reported: ``logit_bias``, ``metadata``, ``store``, ``service_tier``, ``verbosity``,
``prediction``, ``web_search_options``, ``audio`` and whatever is newer than this text.
Hosts other than OpenAI know less of the API: no ``allowed_tools``, no ``safety_identifier``.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from mgw.canonical.conversation import NO_SHAPE, Conversation, JsonObject, OutputKind, Text, Turn
from mgw.canonical.features import Feature
from mgw.canonical.identifiers import CHAT_NAME
from mgw.canonical.instructions import mention_json
from mgw.dialects.dialect import (
    DEFAULT_OPTIONS,
    Parsed,
    Rendered,
    RenderOptions,
    ReplyOptions,
    RequestContext,
    finish_parsing,
)
from mgw.dialects.fields import Fields, Ledger, encode_request, open_request
from mgw.dialects.openai.messages import parse_turns
from mgw.dialects.openai.one_pass import parse_in_one_pass
from mgw.dialects.openai.options import (
    parse_candidates,
    parse_image_shape,
    parse_max_tokens,
    parse_modalities,
    parse_output,
    parse_reasoning,
    parse_sampling,
    parse_stop_sequences,
    parse_user,
    render_limits,
    render_output,
    render_prompt_cache_key,
    render_reasoning_and_sampling,
    render_user,
)
from mgw.dialects.openai.tools import (
    parse_function_choice,
    parse_functions,
    parse_tool_choice,
    parse_tools,
    render_tools,
)
from mgw.dialects.openai.turns import render_turns
from mgw.dialects.placeholders import ANSWER_IN_JSON
from mgw.dialects.refusal import no_messages
from mgw.dialects.tool_names import ToolNames

_TARGET: Final = b"/chat/completions"
_CARRIED: Final = frozenset(
    {
        Feature.SYSTEM,
        Feature.TURN_NAME,
        Feature.MEDIA_DETAIL,
        Feature.MEDIA_NAME,
        Feature.FILE_ID,
        Feature.IMAGE,
        Feature.DOCUMENT,
        Feature.AUDIO,
        Feature.VIDEO,
        Feature.THINKING,
        Feature.REFUSAL,
        Feature.RESULT_NAME,
        Feature.TOOLS,
        Feature.TOOL_STRICT,
        Feature.TOOL_CHOICE,
        Feature.TOOL_CHOICE_NAMES,
        Feature.PARALLEL_CALLS,
        Feature.TEMPERATURE,
        Feature.TOP_P,
        Feature.TOP_K,
        Feature.FREQUENCY_PENALTY,
        Feature.PRESENCE_PENALTY,
        Feature.SEED,
        Feature.LOGPROBS,
        Feature.TOP_LOGPROBS,
        Feature.MAX_TOKENS,
        Feature.STOP,
        Feature.CANDIDATES,
        Feature.OUTPUT,
        Feature.OUTPUT_NAME,
        Feature.OUTPUT_DESCRIPTION,
        Feature.OUTPUT_STRICT,
        Feature.REASONING,
        Feature.THOUGHTS,
        Feature.USER,
        Feature.PROMPT_CACHE_KEY,
    }
)
"""What this dialect can carry, though not every value, and not for every model."""


def parse_request(body: bytes, asked: RequestContext) -> Parsed[Conversation]:  # noqa: ARG001 - the body has it all
    """Understand a request.

    :raises GatewayError: ``MALFORMED`` for what is no such request, and for tools that are no
    functions.
    """
    parsed = parse_in_one_pass(body)
    if parsed is not None:
        return parsed
    ledger = Ledger()
    request = open_request(body, ledger)
    request.skip("model")
    system, turns = _parse_messages(request)
    conversation = Conversation(
        turns=turns,
        system=system,
        sampling=parse_sampling(request),
        max_tokens=parse_max_tokens(request),
        stop=parse_stop_sequences(request),
        stream=request.flag("stream") or False,
    )
    style = DEFAULT_OPTIONS
    if request.unread:
        conversation, style = _parse_rare_fields(request, conversation)
    return finish_parsing(conversation, ledger, style)


def _parse_rare_fields(request: Fields, conversation: Conversation) -> tuple[Conversation, ReplyOptions]:
    """Take what a mere chat does not have; return the conversation with it, and how to write the answer."""
    tools, functions = parse_tools(request), parse_functions(request)
    choice = parse_tool_choice(request)
    if choice is None and functions:
        choice = parse_function_choice(request)
    options = request.nested("stream_options")
    style = ReplyOptions(
        include_usage=bool(options is not None and options.flag("include_usage")),
        legacy_functions=bool(functions and not tools),
    )
    conversation = replace(
        conversation,
        tools=tools + functions,
        tool_choice=choice,
        parallel_calls=False if style.legacy_functions else _parse_parallel_calls(request),
        candidates=parse_candidates(request),
        output=parse_output(request),
        reasoning=parse_reasoning(request),
        image_answers="modalities" in request.unread and parse_modalities(request),
        image_shape=parse_image_shape(request) if "image_config" in request.unread else NO_SHAPE,
        user=parse_user(request),
        prompt_cache_key=request.text("prompt_cache_key", Feature.PROMPT_CACHE_KEY),
    )
    return conversation, style


def _parse_messages(request: Fields) -> tuple[tuple[Text, ...], tuple[Turn, ...]]:
    system, turns = parse_turns(request)
    if not turns and not system:
        raise request.wrong("messages", "at least one message is required")
    return system, turns


def _parse_parallel_calls(request: Fields) -> bool | None:
    """Take ``parallel_tool_calls``; ``true`` is what happens anyway."""
    parallel = request.flag("parallel_tool_calls", Feature.PARALLEL_CALLS)
    return False if parallel is False else None


def render_request(conversation: Conversation, options: RenderOptions) -> Rendered:
    """Write a request.

    :raises GatewayError: ``MALFORMED`` for a conversation without content, a URL that the
    model does not fetch, and what is nested too deeply.
    """
    lost: set[Feature] = set()
    names = ToolNames(CHAT_NAME)
    output = conversation.output
    if output is not None and output.kind is OutputKind.JSON and options.places_instructions:
        conversation = mention_json(conversation, ANSWER_IN_JSON)
    messages = render_turns(conversation, options, names, lost)
    if not messages:
        raise no_messages()
    body: JsonObject = {"model": options.model, "messages": messages}
    if conversation.tools:
        render_tools(body, conversation, options, names, lost)
    wrapped = render_output(body, output)
    render_reasoning_and_sampling(body, conversation, options, lost)
    render_limits(body, conversation, options, lost)
    render_user(body, conversation, options)
    if conversation.prompt_cache_key is not None:
        render_prompt_cache_key(body, conversation.prompt_cache_key, options, lost)
    if conversation.stream:
        body["stream"] = True
        if options.stream_usage:
            body["stream_options"] = {"include_usage": True}
    data, renamed = encode_request(body), names.renamed
    return Rendered(_TARGET, data, _CARRIED, frozenset(lost), renamed=renamed, wrapped=wrapped)
