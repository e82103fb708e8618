"""Content blocks of a request: which are known, and what becomes of thoughts and summaries."""

from __future__ import annotations

import json
import typing
from typing import Any

import pytest
from anthropic.types import ContentBlockParam
from anthropic.types.beta import BetaContentBlockParam
from pydantic import BaseModel

from mgw.canonical.conversation import (
    CacheMark,
    Signature,
    Text,
    Thinking,
)
from mgw.dialects.signatures import tag_signature
from mgw.nouns.errors import GatewayError
from mgw.nouns.vocabulary import Family
from tests.support.messages import (
    parse,
    parse_or_refuse,
    refusal,
)

GEMINIS = Signature(Family.GEMINI, "Zm9v")


PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


def kinds_of(hint: Any) -> set[str]:  # Any: a union of typed dicts and models, perhaps annotated
    if typing.get_args(hint):
        return {kind for one in typing.get_args(hint) for kind in kinds_of(one)}
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return set(typing.get_args(hint.model_fields["type"].annotation))
    return set(typing.get_args(typing.get_type_hints(hint)["type"])) if typing.is_typeddict(hint) else set()


@pytest.mark.parametrize("kind", sorted(kinds_of(ContentBlockParam) | kinds_of(BetaContentBlockParam)))
def test_every_block_that_the_reference_names_is_known(kind: str) -> None:
    for role in ("user", "assistant"):
        body = {"model": "m", "max_tokens": 1, "messages": [{"role": role, "content": [{"type": kind}]}]}
        found = parse_or_refuse(json.dumps(body).encode())
        if isinstance(found, GatewayError):  # something is missing, or it is the other role's
            assert "none of" not in found.message
        else:
            assert found.unread == {f"messages[].content[{kind}]"}


def test_a_block_of_an_unknown_type_is_refused_by_its_name() -> None:
    error = refusal(messages=[{"role": "user", "content": [{"type": "hologram"}]}])
    assert "hologram" in error.message
    assert error.param == "messages[0].content[0].type"


@pytest.mark.parametrize(
    ("role", "block"),
    [
        ("user", {"type": "tool_use", "id": "t", "name": "f", "input": {}}),
        ("user", {"type": "thinking", "thinking": "", "signature": "s"}),
        ("assistant", {"type": "tool_result", "tool_use_id": "t"}),
        ("system", {"type": "image", "source": PNG}),
    ],
    ids=["call", "thought", "result", "image"],
)
def test_a_block_in_a_message_of_the_wrong_role_is_refused(role: str, block: dict[str, object]) -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": role, "content": [block]}]
    assert refusal(messages=messages).param == "messages[1].content[0].type"


def test_a_damaged_signature_leaves_its_thought_out() -> None:
    block = {"type": "thinking", "thinking": "Hm.", "signature": tag_signature(GEMINIS)[:9]}
    parsed = parse(messages=[{"role": "assistant", "content": [block, {"type": "text", "text": "x"}]}])
    assert parsed.request.turns[0].parts == (Text("x"),)
    assert parsed.unread == {"messages[].content[thinking]"}


def test_a_thought_that_its_client_altered_is_left_out_and_reported() -> None:
    def thought(words: str) -> dict[str, str]:
        return {"type": "thinking", "thinking": words, "signature": tag_signature(GEMINIS, "Hm.")}

    kept = parse(messages=[{"role": "assistant", "content": [thought("Hm.")]}])
    assert kept.request.turns[0].parts == (Thinking("Hm.", GEMINIS),)
    assert not kept.unread
    for words in ("Hm. ", "", "Other."):
        altered = parse(messages=[{"role": "assistant", "content": [thought(words)]}])
        assert altered.request.turns[0].parts == ()
        assert altered.unread == {"messages[].content[thinking]"}


def test_the_vendors_summary_of_a_compacted_conversation_is_kept() -> None:
    block = {"type": "compaction", "content": "They spoke of bees.", "signature": "s"}
    parsed = parse(messages=[{"role": "assistant", "content": [block]}, {"role": "user", "content": "And?"}])
    assert parsed.request.turns[0].parts == (Text("They spoke of bees.\n\n"),)


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_compaction_is_a_paragraph_of_its_own(role: str) -> None:
    blocks = [{"type": "compaction", "content": "We spoke."}, {"type": "text", "text": "And now?"}]
    parsed = parse(messages=[{"role": role, "content": blocks}])
    assert parsed.request.turns[0].parts == (Text("We spoke.\n\n"), Text("And now?"))
    assert not parsed.unread


BILLED = "x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=cli; cch=36ee5;"


@pytest.mark.parametrize(
    ("system", "kept"),
    [
        (BILLED, ()),
        (BILLED + "\n\nBe brief.", (Text("Be brief."),)),
        ([{"type": "text", "text": BILLED}], ()),
        ([{"type": "text", "text": BILLED}, {"type": "text", "text": "Be brief."}], (Text("Be brief."),)),
        (
            [{"type": "text", "text": BILLED + "\nBe brief.", "cache_control": {"type": "ephemeral"}}],
            (Text("Be brief.", CacheMark()),),
        ),
    ],
)
def test_what_claude_code_is_billed_by_is_left_out_and_reported(system: Any, kept: tuple[Text, ...]) -> None:
    parsed = parse(system=system, messages=[{"role": "user", "content": BILLED}])
    assert parsed.request.system == kept
    assert parsed.unread == {"system[x-anthropic-billing-header]"}
    assert parsed.request.turns[0].parts == (Text(BILLED),)
