"""A renderer cannot forget: whatever a conversation says is written, or reported without a line about it.

:mod:`tests.pure.dialects.test_accounting` walks the vendors' types; this walks our own.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, get_args, get_type_hints

import pytest
from msgspec import Struct
from msgspec.json import encode
from msgspec.structs import fields, replace

from mgw.canonical.conversation import (
    CacheMark,
    Conversation,
    ImageShape,
    Media,
    MediaKind,
    OutputFormat,
    OutputKind,
    Part,
    Reasoning,
    Refusal,
    Role,
    Sampling,
    Signature,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMode,
    ToolResult,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.dialects import client_side_of
from mgw.dialects.dialect import Parsed, Rendered, RequestContext
from mgw.nouns.errors import GatewayError
from mgw.nouns.families import text_dialect
from mgw.nouns.vocabulary import Effort, Family
from tests.support.said import ESSENTIAL, FEATURES, HOLDERS, INNER, OF_ANSWERS, Place
from tools.translation.accounting import TARGETS, Target, through_responses
from tools.translation.field_cases import CLIENTS, cases

MARK: Final = CacheMark("1h")
OWN: Final = {family: Signature(family, "c2ln") for family in Family}
PNG: Final = Media(MediaKind.IMAGE, "image/png", "aWs=")
PDF: Final = Media(MediaKind.DOCUMENT, "application/pdf", "aWs=")
NOTES: Final = Media(MediaKind.DOCUMENT, "text/plain", text="words")
SCHEMA: Final = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
TOOL: Final = Tool("f", "what it does", SCHEMA)
CALL: Final = ToolCall("1", "f", '{"a":"b"}')
RESULT: Final = ToolResult("1", (Text("done"),))
ORPHAN: Final = ToolResult("9", (Text("done"),))
HELLO: Final = Turn(Role.USER, (Text("hello"),))


def asked(*parts: Part, name: str | None = None) -> Conversation:
    return Conversation((Turn(Role.USER, parts, name),))


def said(*parts: Part) -> Conversation:
    return Conversation((HELLO, Turn(Role.ASSISTANT, parts), HELLO))


def looped(call: ToolCall = CALL, result: ToolResult = RESULT) -> Conversation:
    turns = (HELLO, Turn(Role.ASSISTANT, (call,)), Turn(Role.USER, (result,)))
    return Conversation(turns, tools=(TOOL,))


def tooled(tool: Tool = TOOL, **more: object) -> Conversation:
    return replace(asked(Text("hello")), tools=(tool, replace(TOOL, name="g")), **more)


def formatted(**more: object) -> Conversation:
    output = OutputFormat(OutputKind.SCHEMA, **{"schema": SCHEMA, **more})  # type: ignore[arg-type]  # of any field
    return replace(asked(Text("hello")), output=output)


def wished(**more: object) -> Conversation:
    return replace(asked(Text("hello")), **more)


def sampled(**more: object) -> Conversation:
    return wished(sampling=Sampling(**more))  # type: ignore[arg-type]  # of any field


def reasoned(**more: object) -> Conversation:
    return wished(reasoning=Reasoning(**more))  # type: ignore[arg-type]  # of any field


PLAIN: Final = asked(Text("hello"))
NEW: Final[Any] = object()  # a member of Feature that does not exist yet
MORE: Final = {
    Feature.MEDIA_NAME: (asked(NOTES), asked(replace(NOTES, name="a.txt"))),
    Feature.THINKING: (said(Text("a")), said(Thinking("hm", OWN[Family.OPENAI]), Text("a"))),
}
"""Features that a dialect may write of other things only."""
WAYS: Final = (*TARGETS, *map(through_responses, TARGETS[:2]))
OF_MEDIA: Final = {Feature.IMAGE, Feature.DOCUMENT, Feature.AUDIO, Feature.VIDEO}
"""Told by what the media are, and not by a field."""
UNWRITTEN: Final[dict[str, set[Feature]]] = {
    "openai": {Feature.THINKING, Feature.THOUGHTS, Feature.TOP_K, Feature.PROMPT_CACHE_KEY},
    "openai_compat": {Feature.THOUGHTS},
    "openai through Responses": set(),
    "openai_compat through Responses": set(),
    "anthropic": {
        Feature.MEDIA_DETAIL,
        Feature.OUTPUT_NAME,
        Feature.OUTPUT_DESCRIPTION,
        Feature.OUTPUT_STRICT,
    },
    "gemini": {
        Feature.TOOL_STRICT,
        Feature.PARALLEL_CALLS,
        Feature.OUTPUT_NAME,
        Feature.OUTPUT_DESCRIPTION,
        Feature.OUTPUT_STRICT,
        Feature.IMAGE_ANSWERS,
        Feature.IMAGE_SHAPE,
    },
}
"""What a renderer answers for value by value, and carries only where it asks for what happens anyway."""
PAIRS: Final[dict[Place, tuple[Conversation, Conversation]]] = {
    (Conversation, "turns"): (PLAIN, Conversation((HELLO, Turn(Role.ASSISTANT, (Text("a"),)), HELLO))),
    (Conversation, "stream"): (PLAIN, wished(stream=True)),
    (Conversation, "system"): (PLAIN, wished(system=(Text("Be brief."),))),
    (Conversation, "tools"): (PLAIN, tooled()),
    (Conversation, "parallel_calls"): (tooled(), tooled(parallel_calls=False)),
    (Conversation, "max_tokens"): (PLAIN, wished(max_tokens=77)),
    (Conversation, "stop"): (PLAIN, wished(stop=("END",))),
    (Conversation, "candidates"): (PLAIN, wished(candidates=2)),
    (Conversation, "user"): (PLAIN, wished(user="u-1")),
    (Conversation, "image_answers"): (PLAIN, wished(image_answers=True)),
    (ImageShape, "aspect_ratio"): (PLAIN, wished(image_shape=ImageShape("1:1"))),
    (ImageShape, "size"): (PLAIN, wished(image_shape=ImageShape(size="2K"))),
    (Conversation, "prompt_cache_key"): (PLAIN, wished(prompt_cache_key="k-1")),
    (Turn, "role"): (said(Text("a")), Conversation((HELLO, Turn(Role.USER, (Text("a"),)), HELLO))),
    (Turn, "parts"): (PLAIN, asked(Text("hello"), Text("you"))),
    (Turn, "name"): (PLAIN, asked(Text("hello"), name="ann")),
    (Text, "text"): (PLAIN, asked(Text("other"))),
    (Text, "cache"): (PLAIN, asked(Text("hello", MARK))),
    (Text, "signature"): (said(Text("a")), said(Text("a", signature=OWN[Family.GEMINI]))),
    (Media, "kind"): (asked(PDF), asked(replace(PDF, kind=MediaKind.AUDIO, media_type="audio/wav"))),
    (Media, "media_type"): (asked(PNG), asked(replace(PNG, media_type="image/webp"))),
    (Media, "data"): (asked(PNG), asked(replace(PNG, data="aWsK"))),
    (Media, "url"): (asked(PNG), asked(replace(PNG, data=None, url="https://example.com/a.png"))),
    (Media, "file_id"): (asked(PDF), asked(replace(PDF, data=None, file_id="file-1"))),
    (Media, "text"): (asked(PDF), asked(replace(PDF, media_type="text/plain", data=None, text="words"))),
    (Media, "name"): (asked(PNG), asked(replace(PNG, name="a.png"))),
    (Media, "context"): (asked(PDF), asked(replace(PDF, context="A draft."))),
    (Media, "detail"): (asked(PNG), asked(replace(PNG, detail="low"))),
    (Media, "cache"): (asked(PNG), asked(replace(PNG, cache=MARK))),
    (Media, "signature"): (said(PNG), said(replace(PNG, signature=OWN[Family.GEMINI]))),
    (ToolCall, "id"): (looped(), looped(replace(CALL, id="2"), replace(RESULT, call_id="2"))),
    (ToolCall, "name"): (looped(), looped(replace(CALL, name="g"))),
    (ToolCall, "arguments"): (looped(), looped(replace(CALL, arguments='{"a":"c"}'))),
    (ToolCall, "signature"): (looped(), looped(replace(CALL, signature=OWN[Family.GEMINI]))),
    (ToolCall, "cache"): (looped(), looped(replace(CALL, cache=MARK))),
    (ToolResult, "call_id"): (looped(), looped(replace(CALL, id="2"), replace(RESULT, call_id="2"))),
    (ToolResult, "parts"): (looped(), looped(result=replace(RESULT, parts=(Text("other"),)))),
    (ToolResult, "name"): (asked(ORPHAN), asked(replace(ORPHAN, name="f"))),
    (ToolResult, "is_error"): (looped(), looped(result=replace(RESULT, is_error=True))),
    (ToolResult, "cache"): (looped(), looped(result=replace(RESULT, cache=MARK))),
    (Thinking, "text"): (said(Text("a")), said(Thinking("hm"), Text("a"))),
    (Thinking, "signature"): (
        said(Text("a")),
        said(Thinking("hm", OWN[Family.ANTHROPIC]), Thinking("hm", OWN[Family.GEMINI]), Text("a")),
    ),
    (Refusal, "text"): (said(Refusal("No.")), said(Refusal("Never."))),
    (Tool, "name"): (tooled(), tooled(replace(TOOL, name="h"))),
    (Tool, "description"): (tooled(replace(TOOL, description=None)), tooled()),
    (Tool, "schema"): (tooled(replace(TOOL, schema=None)), tooled()),
    (Tool, "strict"): (tooled(), tooled(replace(TOOL, strict=True))),
    (Tool, "cache"): (tooled(), tooled(replace(TOOL, cache=MARK))),
    (ToolChoice, "mode"): (tooled(), tooled(tool_choice=ToolChoice(ToolMode.ANY))),
    (ToolChoice, "names"): (
        tooled(tool_choice=ToolChoice(ToolMode.ANY)),
        tooled(tool_choice=ToolChoice(ToolMode.ANY, ("f",))),
    ),
    (OutputFormat, "kind"): (PLAIN, wished(output=OutputFormat(OutputKind.JSON))),
    (OutputFormat, "schema"): (formatted(schema=None), formatted()),
    (OutputFormat, "name"): (formatted(), formatted(name="plan")),
    (OutputFormat, "description"): (formatted(), formatted(description="A plan.")),
    (OutputFormat, "strict"): (formatted(), formatted(strict=False)),
    (Reasoning, "effort"): (PLAIN, reasoned(effort=Effort.HIGH)),
    (Reasoning, "budget"): (PLAIN, reasoned(budget=2048)),
    (Reasoning, "adaptive"): (reasoned(effort=Effort.NONE), reasoned(adaptive=True)),
    (Reasoning, "thoughts"): (
        reasoned(effort=Effort.HIGH, thoughts=False),
        reasoned(effort=Effort.HIGH, thoughts=True),
    ),
    (Sampling, "temperature"): (PLAIN, sampled(temperature=0.5)),
    (Sampling, "top_p"): (PLAIN, sampled(top_p=0.5)),
    (Sampling, "top_k"): (PLAIN, sampled(top_k=5)),
    (Sampling, "frequency_penalty"): (PLAIN, sampled(frequency_penalty=0.5)),
    (Sampling, "presence_penalty"): (PLAIN, sampled(presence_penalty=0.5)),
    (Sampling, "seed"): (PLAIN, sampled(seed=5)),
    (Sampling, "logprobs"): (PLAIN, sampled(logprobs=True)),
    (Sampling, "top_logprobs"): (sampled(logprobs=True), sampled(logprobs=True, top_logprobs=2)),
}
"""For each field two conversations that differ in it."""


def render(target: Target, conversation: Conversation) -> Rendered:
    return target.side.text.render_request(conversation, target.setting)


def structs(kind: object) -> set[type[Struct]]:
    """All kinds of values that one is made of, but for those that are carried as a whole."""
    if not (isinstance(kind, type) and issubclass(kind, Struct)):
        return {found for inner in get_args(kind) for found in structs(inner)}
    if issubclass(kind, INNER):
        return set()
    return {kind, *(one for hint in get_type_hints(kind).values() for one in structs(hint))}


def test_every_field_of_a_conversation_has_its_place_here() -> None:
    held = {(one, field.name) for one in structs(Conversation) for field in fields(one)}
    assert held == FEATURES.keys() | ESSENTIAL | HOLDERS | OF_ANSWERS, "name the feature of it in FEATURES"
    assert PAIRS.keys() == FEATURES.keys() | ESSENTIAL, "write a conversation without it and one with it"


@pytest.mark.parametrize("target", WAYS, ids=lambda target: target.name)
@pytest.mark.parametrize("place", PAIRS, ids=lambda place: f"{place[0].__name__}.{place[1]}")
def test_what_a_conversation_says_is_written_or_reported(target: Target, place: Place) -> None:
    without, conversation = (render(target, one) for one in PAIRS[place])
    if without.body == conversation.body and without.target == conversation.target:
        feature = FEATURES.get(place)
        assert feature is not None, "what every dialect carries"
        assert feature not in conversation.carried - conversation.lost


@pytest.mark.parametrize("target", WAYS, ids=lambda target: target.name)
def test_what_a_renderer_says_that_it_carries_it_writes_for_some_conversation(target: Target) -> None:
    written = {
        feature
        for feature, pair in (*((FEATURES[place], PAIRS[place]) for place in FEATURES), *MORE.items())
        if len({render(target, one).body for one in pair}) > 1
    }
    carried = render(target, PLAIN).carried
    assert carried - written - OF_MEDIA == UNWRITTEN[target.name]


def test_every_feature_is_said_by_some_client() -> None:
    found: set[Feature] = {Feature.DIMENSIONS, Feature.TASK_TYPE, Feature.EMBEDDING_TITLE}  # of embeddings
    for client in CLIENTS:
        for case in cases(client):
            for body in case.bodies:
                with suppress(GatewayError):
                    parsed = client_side_of(text_dialect(client.family)).text.parse_request(
                        encode(body), RequestContext("a-model")
                    )
                    found |= parsed.said.keys()
    assert found == set(Feature), "declare a field that no SDK has in tools/translation/sdk_types.py"


@pytest.mark.parametrize("target", WAYS, ids=lambda target: target.name)
def test_a_feature_that_no_renderer_has_heard_of_is_reported(target: Target) -> None:
    parsed = Parsed(PLAIN, frozenset(), {NEW: frozenset({"foo_level"})})
    assert parsed.dropped(render(target, PLAIN)) == {"foo_level"}


def test_of_a_feature_that_one_renderer_carries_the_others_report_the_loss() -> None:
    """A field that was taught to one renderer alone is reported by all others, which know nothing of it."""
    parsed = Parsed(PLAIN, frozenset({"unread"}), {NEW: frozenset({"foo_level"})})
    for target in WAYS:
        rendered = render(target, PLAIN)
        taught = replace(rendered, carried=rendered.carried | {NEW})
        assert parsed.dropped(taught) == {"unread"}
        assert parsed.dropped(replace(taught, lost=frozenset({NEW}))) == {"unread", "foo_level"}
        assert parsed.dropped(rendered) == {"unread", "foo_level"}
