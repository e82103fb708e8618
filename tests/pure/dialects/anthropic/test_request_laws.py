"""The vendor takes whatever is rendered, and it parses as it was meant."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mgw.canonical.conversation import (
    CacheMark,
    Conversation,
    Media,
    MediaKind,
    Reasoning,
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
from mgw.dialects.anthropic.request import parse_request, render_request
from mgw.dialects.dialect import RequestContext
from mgw.nouns.errors import GatewayError
from mgw.nouns.vocabulary import Effort, Family
from mgw_sim.anthropic.messages import messages as answer_of
from mgw_sim.api import ApiError as Refused
from tests.support.messages import (
    ADAPTIVE,
    ASSISTANT,
    EXTENDED,
    FIXED,
    FOREIGN,
    LOOK,
    NEW,
    NEWEST,
    OWN,
    PNG,
    SYSTEM,
    USER,
    asked,
    setting,
)

PDF = Media(MediaKind.DOCUMENT, "application/pdf", data="JVBERi0=")
WORDS = st.sampled_from(["", " ", "\n", "a", "b ", " c", "Ünïcode"])
IDS = st.sampled_from(["1", "2", "a b", "x" * 65])
SIGNATURES = st.sampled_from(
    [None, OWN, FOREIGN, Signature(Family.OPENAI, ""), Signature(Family.ANTHROPIC, "")]
)
MARKS = st.sampled_from([None, None, None, CacheMark(), CacheMark("5m")])
TEXTS = st.builds(Text, WORDS, cache=MARKS)
ANY_MEDIA = st.sampled_from(
    [
        PNG,
        replace(PNG, file_id="f", data=None),
        Media(MediaKind.AUDIO, data="UklG"),
        Media(MediaKind.DOCUMENT, "application/pdf", data="JVBERi0="),
    ]
)
RESULTS = st.builds(
    ToolResult,
    IDS,
    st.lists(TEXTS | ANY_MEDIA, max_size=2).map(tuple),
    is_error=st.booleans(),
    cache=MARKS,
)
CALLS = st.builds(
    ToolCall,
    IDS,
    st.sampled_from(["look", "a.b"]),
    st.sampled_from(["", "{}", '{"a": 1}', "{", "1"]),
    SIGNATURES,
)
THOUGHTS = st.builds(Thinking, st.just("Hm."), SIGNATURES)
TURNS = st.lists(
    st.builds(Turn, st.just(USER), st.lists(TEXTS | RESULTS | ANY_MEDIA, max_size=4).map(tuple))
    | st.builds(
        Turn, st.just(ASSISTANT), st.lists(TEXTS | CALLS | THOUGHTS | ANY_MEDIA, max_size=5).map(tuple)
    )
    | st.builds(Turn, st.just(SYSTEM), st.lists(TEXTS, max_size=2).map(tuple)),
    max_size=7,
)
CONVERSATIONS = st.builds(
    Conversation,
    TURNS,
    st.lists(TEXTS, max_size=2).map(tuple),
    st.sampled_from([(), (LOOK,), (LOOK, Tool("a.b", strict=True))]),
    st.sampled_from([None, *(ToolChoice(mode) for mode in ToolMode), ToolChoice(ToolMode.ANY, ("look",))]),
    st.sampled_from([None, True, False]),
    st.builds(
        Sampling, st.sampled_from([None, 0.0, 2.0]), st.sampled_from([None, 0.5]), st.sampled_from([None, 3])
    ),
    st.sampled_from([None, 1, 1025, 4096]),
    reasoning=st.builds(
        Reasoning,
        st.sampled_from([None, *Effort]),
        st.sampled_from([None, -1, 0, 5, 10**6]),
        st.booleans(),
        st.sampled_from([None, True, False]),
    ),
)


def tolerable(refused: Refused, body: dict[str, Any]) -> bool:
    """What a client's own history may bring about."""
    if "prefill" in refused.message:
        return bool(body["messages"][-1]["role"] == "assistant")
    # The simulator looks at the last step of a loop, where the vendor looks at its begin.
    return "Expected `thinking`" in refused.message and '"thinking": "Hm."' in json.dumps(body["messages"])


@given(
    conversation=CONVERSATIONS,
    model=st.sampled_from(
        [EXTENDED, ADAPTIVE, NEWEST, FIXED, "claude-3-haiku-20240307", "claude-sonnet-5-5"]
    ),
    version=st.sampled_from([None, NEW]),
)
def test_the_vendor_takes_whatever_is_rendered(
    conversation: Conversation, model: str, version: str | None
) -> None:
    try:
        rendered = render_request(conversation, setting(model, version))
    except GatewayError as error:
        assert "no message has content" in error.message  # noqa: PT017  anything else is a defect
        return
    body = json.loads(rendered.body)
    try:
        answer_of(asked(rendered))
    except Refused as refused:
        assert tolerable(refused, body)  # noqa: PT017  anything else is a defect
    roles = [message["role"] for message in body["messages"]]
    for place, role in enumerate(roles):
        if role == "system":
            assert place
            assert roles[place - 1] == "user"
            assert roles[place + 1 :][:1] in ([], ["assistant"])
    assert all(first != second for first, second in pairwise(roles))
    for message in body["messages"]:
        if message["role"] == "assistant":
            assert message["content"][-1]["type"] not in {"thinking", "redacted_thinking"}
    assert json.dumps(body).count('"cache_control"') <= 4
    ids = [
        block["id"]
        for message in body["messages"]
        for block in message["content"]
        if block["type"] == "tool_use"
    ]
    assert len(set(ids)) == len(ids)


@given(conversation=CONVERSATIONS)
def test_what_was_rendered_parses_as_it_was_meant(conversation: Conversation) -> None:
    try:
        rendered = render_request(conversation, setting(ADAPTIVE))
    except GatewayError:
        return
    again = parse_request(rendered.body, RequestContext(ADAPTIVE))
    assert not again.unread
    second = render_request(again.request, setting(ADAPTIVE))
    first_body, second_body = json.loads(rendered.body), json.loads(second.body)
    assert second_body["messages"] == first_body["messages"]
    assert second_body.get("system") == first_body.get("system")
    assert second_body.get("tools") == first_body.get("tools")
    assert not second.lost & {Feature.THINKING, Feature.CACHE, Feature.TOOL_STRICT}
