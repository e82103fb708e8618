"""What the gateway put into a history is taken out where it stands, and nothing else is touched."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.conversation import Signature
from mgw.dialects import dialect_of, foreign_history
from mgw.dialects.signatures import SKIP_VALIDATOR, TAG, tag_signature
from mgw.nouns.vocabulary import DialectName, Family
from tests.support.dice import Dice, Writer, one_of, sampled_from, written
from tests.support.laws import examples

Json = Any  # Any: whatever a client sends
TAGGED = tag_signature(Signature(Family.GEMINI, "EwIB/+A=")).encode()
REDACTED = tag_signature(Signature(Family.ANTHROPIC, "no base64", redacted=True)).encode()

SKIP = SKIP_VALIDATOR.encode()
URL_SAFE = TAGGED.replace(b"+", b"-").replace(b"/", b"_")
THINKING = b'{"type":"thinking","thinking":"hm","signature":"%b"}'
TEXT = b'{"type":"text","text":"hi"}'
USER = b'{"role":"user","content":"ask"}'


# --- messages ----------------------------------------------------------------------------------------------


def clean_history(dialect: DialectName, body: bytes) -> bytes:
    return foreign_history.clean_history(dialect_of(dialect).find_tagged, body)


def messages(*blocks: bytes) -> bytes:
    return b'{"messages":[%b,{"role":"assistant","content":[%b]}]}' % (USER, b", ".join(blocks))


@pytest.mark.parametrize(
    "thought",
    [
        THINKING % TAGGED,
        THINKING % TAGGED.replace(b"/", rb"\/"),
        THINKING % (b"older" + TAGGED),
        b'{"type":"redacted_thinking","data":"%b"}' % REDACTED,
        rb'{"\u0074ype":"thin\u006bing","s\u0069gnature":"%b","cache_control":{"type":"ephemeral"}}' % TAGGED,
        b'{"type":"text","type":"thinking","signature":"mine","signature":"%b"}' % TAGGED,
    ],
    ids=["plain", "escaped value", "behind another's", "redacted", "escaped keys", "stated twice"],
)
def test_a_tagged_thought_goes_with_one_comma(thought: bytes) -> None:
    assert clean_history(DialectName.ANTHROPIC, messages(thought, TEXT)) == messages(TEXT)
    assert clean_history(DialectName.ANTHROPIC, messages(TEXT, thought)) == messages(TEXT)
    assert clean_history(DialectName.ANTHROPIC, messages(TEXT, thought, thought, TEXT)) == messages(
        TEXT, TEXT
    )


@pytest.mark.parametrize(
    "body",
    [
        messages(THINKING % b"EwIB", b'{"type":"text","text":"%b"}' % TAGGED),
        messages(b'{"type":"thinking","signature":"%b","signature":"mine"}' % TAGGED),
        messages(b'{"type":"thinking","data":"%b"}' % TAGGED),
        messages(b'{"type":"tool_use","input":%b}' % (THINKING % TAGGED)),
        messages(b'["thinking","%b"]' % TAGGED, b'"%b"' % TAGGED),
        b'{"messages":{"content":[%b]}}' % (THINKING % TAGGED),
        b'{"messages":[{"content":%b}]}' % (THINKING % TAGGED),
        b'{"messages":[{"content":"%b"}]}' % TAGGED,
        b'{"messages":"%b"}' % TAGGED,
        b'{"system":[%b]}' % (THINKING % TAGGED),
        b'"%b"' % TAGGED,
        b"[%b]" % messages(THINKING % TAGGED),
    ],
    ids=[
        "text",
        "overruled",
        "other key",
        "tool input",
        "no blocks",
        "messages no array",
        "content no array",
        "content a text",
        "messages a text",
        "system",
        "a text",
        "an array",
    ],
)
def test_a_tag_anywhere_else_stays(body: bytes) -> None:
    assert clean_history(DialectName.ANTHROPIC, body) is body


def test_a_message_of_which_nothing_is_left_goes_whole() -> None:
    only = messages(THINKING % TAGGED, b'{"type":"redacted_thinking","data":"%b"}' % REDACTED)
    assert clean_history(DialectName.ANTHROPIC, only) == b'{"messages":[%b]}' % USER


def test_a_message_whose_last_content_says_something_stays() -> None:
    twice = b'{"messages":[{"content":[%b],"content":"hi"}]}' % (THINKING % TAGGED)
    assert clean_history(DialectName.ANTHROPIC, twice) == twice


# --- chat --------------------------------------------------------------------------------------------------

DETAILS = b'"reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"%b"}]' % TAGGED
EXTRA = b'"extra_content":{"google":{"thought_signature":"%b"}}'


def chat(*members: bytes) -> bytes:
    return b'{"messages":[%b,{%b}],"n":1}' % (USER, b", ".join(members))


@pytest.mark.parametrize(
    ("members", "left"),
    [
        ((b'"content":"a"', b'"reasoning_content":"hm"', DETAILS), (b'"content":"a"',)),
        ((DETAILS, b'"content":"a"', b'"reasoning":"hm"'), (b'"content":"a"',)),
        ((b'"reasoning":"a"', b'"content":"a"', DETAILS, b'"reasoning":"b"'), (b'"content":"a"',)),
        ((b'"content":""', b'"reasoning_details":[{"data":"%b"}]' % REDACTED), (b'"content":""',)),
        ((b'"content":"a"', EXTRA % TAGGED), (b'"content":"a"',)),
        (
            (b'"tool_calls":[{"id":"1", %b},{%b}]' % (EXTRA % TAGGED, EXTRA % b"EwIB"),),
            (b'"tool_calls":[{"id":"1"},{%b}]' % (EXTRA % b"EwIB"),),
        ),
    ],
    ids=["reasoning_content", "reasoning", "stated twice", "redacted", "extra_content", "tool call"],
)
def test_tagged_reasoning_goes_with_its_text(members: tuple[bytes, ...], left: tuple[bytes, ...]) -> None:
    role = b'"role":"assistant"'
    assert clean_history(DialectName.OPENAI_CHAT, chat(role, *members)) == chat(role, *left)


@pytest.mark.parametrize(
    "members",
    [
        (b'"reasoning_content":"%b"' % TAGGED,),
        (b'"reasoning_content":"hm"', b'"reasoning_details":[{"signature":"EwIB","text":"%b"}]' % TAGGED),
        (b'"reasoning_details":"%b"' % TAGGED,),
        (b'"extra_content":{"thought_signature":"%b"}' % TAGGED,),
        (b'"tool_calls":[{"function":{"arguments":"%b"}}]' % TAGGED,),
        (b'"content":null', b'"name":"%b"' % TAGGED),
    ],
    ids=["no details", "native", "details no array", "extra not google's", "arguments", "name"],
)
def test_reasoning_that_is_not_tagged_stays(members: tuple[bytes, ...]) -> None:
    sent = chat(*members)
    assert clean_history(DialectName.OPENAI_CHAT, sent) is sent


def test_an_assistant_that_only_thought_said_nothing() -> None:
    only = chat(
        b'"role":"assistant"', b'"content":null', DETAILS, b'"reasoning_content":"hm"', b'"tool_calls":[ ]'
    )
    assert clean_history(DialectName.OPENAI_CHAT, only) == b'{"messages":[%b],"n":1}' % USER


# --- generateContent ---------------------------------------------------------------------------------------


def contents(*parts: bytes) -> bytes:
    return b'{"contents":[{"role":"model","parts":[%b]},{"parts":[{"text":"ask"}]}]}' % b", ".join(parts)


CALL = b'{"functionCall":{"name":"f"},"thoughtSignature":"%b"}'
THOUGHT = b'{"text":"hm","thought":true,"thoughtSignature":"%b"}'


@pytest.mark.parametrize(
    "part",
    [
        CALL,
        b'{"functionCall":{"name":"f"},"thought_signature":"%b"}',
        rb'{"functionCall":{"name":"f"},"\u0074houghtSignature": "%b" }',
        b'{"text":"hi","thoughtSignature":"%b"}',
        b'{"text":"hi","thought":false,"thoughtSignature":"%b"}',
        b'{"functionCall":{"name":"f"},"thought":true,"thoughtSignature":"%b"}',
    ],
    ids=["call", "snake case", "escaped key", "text", "no thought", "thought and call"],
)
def test_a_tagged_signature_becomes_the_skip_value(part: bytes) -> None:
    expected = contents(THOUGHT % b"EwIB", part % SKIP)
    for sent in (TAGGED, URL_SAFE):
        assert clean_history(DialectName.GEMINI, contents(THOUGHT % b"EwIB", part % sent)) == expected


def test_a_thought_of_another_family_goes() -> None:
    call = CALL % SKIP
    assert clean_history(DialectName.GEMINI, contents(THOUGHT % TAGGED, CALL % TAGGED)) == contents(call)
    assert clean_history(DialectName.GEMINI, contents(CALL % TAGGED, THOUGHT % TAGGED)) == contents(call)


def test_contents_of_which_nothing_is_left_go_whole() -> None:
    left = b'{"contents":[{"parts":[{"text":"ask"}]}]}'
    assert clean_history(DialectName.GEMINI, contents(THOUGHT % TAGGED)) == left


@pytest.mark.parametrize("name", ["generateContentRequest", "generate_content_request"])
def test_a_request_that_is_to_be_counted_is_cleaned_too(name: str) -> None:
    sent, left = contents(THOUGHT % TAGGED, CALL % TAGGED), contents(CALL % SKIP)
    within = b'{"model":"m", "%b":%%b}' % name.encode()
    assert clean_history(DialectName.GEMINI, within % sent) == within % left


# --- what stays --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        messages(THINKING % TAGGED, TEXT)[:-1],
        messages(THINKING % TAGGED, TEXT) + b"}",
        b'{"messages":%b,"content":["%b"]}' % (b"[" * 100_000 + b"]" * 100_000, TAGGED),
        b'{"messages":[%b{"content":[%b]}]}' % (b"0," * 300_000, THINKING % TAGGED),
        TAGGED,
    ],
    ids=["cut off", "too much", "too deep", "too many parts", "no JSON"],
)
@pytest.mark.parametrize("dialect", DialectName)
def test_what_cannot_be_read_is_the_vendors_to_refuse(dialect: DialectName, body: bytes) -> None:
    assert clean_history(dialect, body) is body


def test_a_dialect_that_is_never_translated_is_not_looked_at() -> None:
    sent = messages(THINKING % TAGGED, TEXT)
    assert clean_history(DialectName.OPENAI, sent) is sent


def test_reasoning_items_of_the_gateway_are_cut_out_of_the_input_of_responses() -> None:
    thought = b'{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"%b"}'
    own, others = thought % b"gAAAAAB", b'{"role":"user","content":"%b"}' % TAGGED
    body = b'{"model":"m", "input":[ %b,\n%b,%b, %b]}'
    sent = body % (thought % (TAGGED + b".SGk="), own, others, thought % TAGGED)
    assert clean_history(DialectName.OPENAI_RESPONSES, sent) == b'{"model":"m", "input":[ %b,%b]}' % (
        own,
        others,
    )
    text = b'{"model":"m","input":"%b"}' % TAGGED
    assert clean_history(DialectName.OPENAI_RESPONSES, text) == text


# --- the law: the same as an edit of the parsed document ---------------------------------------------------

SIGNATURES = sampled_from(
    [json.dumps(text) for text in [TAGGED.decode()] * 3 + [REDACTED.decode(), "EwIB", URL_SAFE.decode(), ""]]
)
TEXTS = [
    "hi",
    "",
    "é",
    '"]},{[',
    TAGGED.decode(),
    r"\n",
    "thinking",
    "redacted_thinking",
    "text",
    "assistant",
]
STRINGS = sampled_from(
    [json.dumps(text, ensure_ascii=escaped) for text in TEXTS for escaped in (True, False)]
)
OTHERS = one_of(
    STRINGS,
    sampled_from(
        ["null", "true", "1.50", "1E400", "-0.0", r'"\ud800"', '{"a":1,"a":2}', "[]", "{ }", "[[[]],{}]"]
    ),
)


def member(name: str, values: Writer) -> Writer:
    spelled = [f'"{name}"'] * 5 + [rf'"\u{ord(name[0]):04x}{name[1:]}"']
    return lambda dice: dice.spaced(dice.one_of(spelled), ":", values(dice))


def an_array(values: Writer) -> Writer:
    return lambda dice: f"[{','.join([dice.spaced(values(dice)) for _ in range(dice.below(5))])}]"


def an_object(*members: Writer, others: str = "id") -> Writer:
    """An object of all these members in any order, or of some, or of some of them twice."""
    some = (*members, member(others, OTHERS))

    def write(dice: Dice) -> str:
        if dice.below(3):
            chosen = dice.shuffled(members)
        else:
            chosen = [dice.one_of(some) for _ in range(dice.below(7))]
        return f"{{{','.join([one(dice) for one in chosen])}}}"

    return write


def thought(kind: str, name: str) -> Writer:
    return an_object(
        member("type", sampled_from([f'"{kind}"'])), member(name, SIGNATURES), member("thinking", STRINGS)
    )


BLOCKS = one_of(
    OTHERS,
    thought("thinking", "signature"),
    thought(r"t\u0068inking", "signature"),
    thought("redacted_thinking", "data"),
    thought("redacted_thinking", "signature"),
    thought("text", "signature"),
)
MESSAGES = an_object(
    member("messages", an_array(an_object(member("content", an_array(BLOCKS)), others="content"))),
    others="messages",
)

GOOGLE = an_object(member("google", an_object(member("thought_signature", SIGNATURES))), others="google")
CALLS = an_array(one_of(OTHERS, an_object(member("extra_content", GOOGLE))))
ENTRIES = an_array(one_of(OTHERS, an_object(member("signature", SIGNATURES), member("data", SIGNATURES))))
CHATS = an_object(
    member(
        "messages",
        an_array(
            an_object(
                member("content", OTHERS),
                member("reasoning_details", one_of(OTHERS, ENTRIES)),
                member("reasoning_content", OTHERS),
                member("extra_content", one_of(OTHERS, GOOGLE)),
                member("tool_calls", one_of(OTHERS, CALLS)),
                others="role",
            )
        ),
    ),
)

PARTS = an_object(
    member("text", STRINGS),
    member("thought", sampled_from(["true", "true", "false"])),
    member("thoughtSignature", SIGNATURES),
    others="functionCall",
)
CONTENTS = an_object(
    member("contents", an_array(an_object(member("parts", an_array(one_of(OTHERS, PARTS))), others="parts"))),
    others="contents",
)


def parsed(body: bytes) -> Json:
    return json.loads(body, parse_int=str, parse_float=str)


def has_tag(value: Json) -> bool:
    return isinstance(value, str) and TAG in value


def items(value: Json, key: str) -> list[Json]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def edited_messages(body: Json) -> None:
    def is_thought(block: Json) -> bool:
        if not isinstance(block, dict):
            return False
        signed = {"thinking": "signature", "redacted_thinking": "data"}.get(block.get("type", ""))
        return has_tag(block.get(signed or ""))

    for message in list(items(body, "messages")):
        blocks = items(message, "content")
        left = [block for block in blocks if not is_thought(block)]
        if blocks and not left:
            body["messages"] = [other for other in body["messages"] if other is not message]
        elif blocks:
            message["content"] = left


def has_extra(value: Json) -> bool:
    extra = value.get("extra_content")
    google = extra.get("google") if isinstance(extra, dict) else None
    return isinstance(google, dict) and has_tag(google.get("thought_signature"))


def edited_chat(body: Json) -> None:
    for message in list(items(body, "messages")):
        cut = {"extra_content"} if has_extra(message) else set()
        details = [entry for entry in items(message, "reasoning_details") if isinstance(entry, dict)]
        if any(has_tag(entry.get("signature")) or has_tag(entry.get("data")) for entry in details):
            cut |= {"reasoning_details", "reasoning_content"}
        said = [message[key] for key in message.keys() - cut - {"role"}]
        if cut and all(value is None or value == [] for value in said):
            body["messages"] = [other for other in body["messages"] if other is not message]
            continue
        for key in cut & message.keys():
            del message[key]
        for call in items(message, "tool_calls"):
            if isinstance(call, dict) and has_extra(call):
                del call["extra_content"]


def edited_contents(body: Json) -> None:
    def is_thought(part: Json) -> bool:
        if not isinstance(part, dict) or part.get("thought") is not True or "functionCall" in part:
            return False
        return has_tag(part.get("thoughtSignature"))

    for content in list(items(body, "contents")):
        parts = items(content, "parts")
        left = [part for part in parts if not is_thought(part)]
        for part in left:
            if isinstance(part, dict) and has_tag(part.get("thoughtSignature")):
                part["thoughtSignature"] = SKIP_VALIDATOR
        if parts and not left:
            body["contents"] = [other for other in body["contents"] if other is not content]
        elif parts:
            content["parts"] = left


PIECE = re.compile(rb'"(?:[^"\\]|\\.)*"|[^"\s]')


def is_what_is_left(pieces: list[bytes], of: list[bytes]) -> bool:
    """Whether some of a body's pieces are left, in their order."""
    there = iter(of)
    return all(piece in there for piece in pieces)


def alike(text: bytes) -> bytes:
    """A body in which the values that may be replaced, and what replaces them, are one and the same."""
    return text.replace(REDACTED, TAGGED).replace(URL_SAFE, TAGGED).replace(SKIP, TAGGED)


LAWS: dict[DialectName, tuple[st.SearchStrategy[str], Callable[[Json], None]]] = {
    DialectName.ANTHROPIC: (written(MESSAGES), edited_messages),
    DialectName.OPENAI_CHAT: (written(CHATS), edited_chat),
    DialectName.GEMINI: (written(CONTENTS), edited_contents),
}


@pytest.mark.slow
@pytest.mark.parametrize("dialect", LAWS)
@examples(450)
@given(data=st.data())
def test_it_reads_as_if_the_parsed_document_had_been_edited(
    dialect: DialectName, data: st.DataObject
) -> None:
    bodies, edit = LAWS[dialect]
    body = data.draw(bodies).encode()
    expected = parsed(body)
    edit(expected)
    cleaned = clean_history(dialect, body)
    assert parsed(cleaned) == expected
    assert is_what_is_left(PIECE.findall(alike(cleaned)), PIECE.findall(alike(body)))
    if cleaned == body:
        assert cleaned is body
    assert clean_history(dialect, cleaned) is cleaned


@pytest.mark.slow
@given(text=written(one_of(MESSAGES, CHATS, CONTENTS)))
def test_without_a_tag_it_is_the_same_object(text: str) -> None:
    body = text.replace(TAG, "EwIBEwIB").encode()
    for dialect in DialectName:
        assert clean_history(dialect, body) is body
