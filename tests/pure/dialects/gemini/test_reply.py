"""A whole answer of generateContent, both ways."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any, Final

import pytest
from google.genai.types import BlockedReason, FinishReason, GenerateContentResponse
from hypothesis import given, settings
from hypothesis import strategies as st

from mgw.canonical.conversation import (
    Citation,
    Media,
    MediaKind,
    Part,
    Refusal,
    Signature,
    Text,
    Thinking,
    ToolCall,
)
from mgw.canonical.reply import (
    Alternative,
    Candidate,
    Reply,
    StopReason,
    TokenLogprob,
    TokenUsage,
)
from mgw.dialects.dialect import ReplyContext, ReplySource, RequestContext
from mgw.dialects.gemini import CLIENT, PROVIDER
from mgw.dialects.gemini.reply import FAILURES
from mgw.dialects.refusal import AnswerError
from mgw.dialects.signatures import SKIP_VALIDATOR, tag_signature
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family

Json = dict[str, Any]
ANSWERING: Final = ReplyContext("req_1", "gpt", 0)
FOREIGN: Final = Signature(Family.ANTHROPIC, "c2ln")


def parse(body: Json) -> Reply:
    return PROVIDER.text.parse_reply(json.dumps(body).encode(), ReplySource("seed"))


def candidate(*parts: Json, finish: str | None = "STOP", **fields: Any) -> Json:
    found: Json = {"content": {"role": "model", "parts": list(parts)}, **fields}
    return {**found, "finishReason": finish} if finish else found


def parsed(*parts: Json, finish: str | None = "STOP", **fields: Any) -> Candidate:
    return parse({"candidates": [candidate(*parts, finish=finish, **fields)]}).candidates[0]


def render(reply: Reply) -> Json:
    found: Json = json.loads(CLIENT.text.render_reply(reply, ANSWERING))
    GenerateContentResponse.model_validate(deepcopy(found))  # which changes what it is given
    return found


def rendered(*parts: Part, stop: StopReason = StopReason.END) -> list[Json]:
    found: list[Json] = render(Reply((Candidate(parts, stop),)))["candidates"][0]["content"]["parts"]
    return found


# Read -----------------------------------------------------------------------------------------------------


def test_an_answer_is_read_whole() -> None:
    found = parse(
        {
            "candidates": [
                candidate(
                    {"text": "Hm.", "thought": True},
                    {"text": "It is."},
                    {
                        "functionCall": {"name": "f", "id": "c1", "args": {"z": 1.0, "a": 2}},
                        "thoughtSignature": "c2ln",
                    },
                    {"functionCall": {"name": "f"}},
                    {"inlineData": {"mimeType": "image/png", "data": "-_8"}},
                )
            ],
            "usageMetadata": {
                "promptTokenCount": 10,
                "toolUsePromptTokenCount": 1,
                "candidatesTokenCount": "4",
                "thoughtsTokenCount": 3,
                "cachedContentTokenCount": 2,
                "totalTokenCount": 18,
            },
            "modelVersion": "gemini-x",
            "responseId": "r1",
            "unheardOf": {},
        }
    )
    assert (found.id, found.model) == ("r1", "gemini-x")
    assert found.usage == TokenUsage(11, 7, cache_read=2, reasoning=3)
    thought, text, first, second, image = found.candidates[0].parts
    assert thought == Thinking("Hm.", Signature(Family.GEMINI, ""))
    assert text == Text("It is.")
    assert first == ToolCall("c1", "f", '{"z":1.0,"a":2}', Signature(Family.GEMINI, "c2ln"))
    assert isinstance(second, ToolCall)
    assert (second.name, second.arguments, second.signature) == ("f", "{}", None)
    assert second.id.startswith("call_")
    assert image == Media(MediaKind.IMAGE, "image/png", data="+/8=")
    assert found.candidates[0].stop is StopReason.TOOL_USE


def test_arguments_are_compact_and_else_as_the_model_wrote_them() -> None:
    args = b'{ "a" : 1e2 ,\n"b":1.50}'
    body = b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":%b}}]}}]}' % args
    part = PROVIDER.text.parse_reply(body, ReplySource("s")).candidates[0].parts[0]
    assert isinstance(part, ToolCall)
    assert part.arguments == '{"a":1e2,"b":1.50}'


def test_made_identifiers_differ_within_an_answer_and_between_answers() -> None:
    body = {"candidates": [candidate(*[{"functionCall": {"name": "f"}}] * 3)] * 2}
    data = json.dumps(body).encode()
    identifiers = [
        part.id
        for seed in ("a", "b")
        for one in PROVIDER.text.parse_reply(data, ReplySource(seed)).candidates
        for part in one.parts
        if isinstance(part, ToolCall)
    ]
    assert len(set(identifiers)) == 12


STOPS: Final[dict[str | None, StopReason]] = {
    None: StopReason.END,
    "STOP": StopReason.END,
    "OTHER": StopReason.END,
    "LANGUAGE": StopReason.END,
    "NO_IMAGE": StopReason.END,
    "IMAGE_OTHER": StopReason.END,
    "CONTINUATION": StopReason.END,
    "ESCALATION": StopReason.END,
    "FINISH_REASON_UNSPECIFIED": StopReason.END,
    "MAX_TOKENS": StopReason.LENGTH,
    **dict.fromkeys(sorted(FAILURES), StopReason.END),
    **dict.fromkeys(
        ["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "JAILBREAK"],
        StopReason.REFUSAL,
    ),
    **dict.fromkeys(["IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"], StopReason.REFUSAL),
}


@pytest.mark.parametrize("finish", STOPS)
def test_every_reason_has_its_stop(finish: str | None) -> None:
    found = parsed({"text": "a"}, finish=finish)
    assert (found.stop, found.unknown_stop) == (STOPS[finish], None)
    expected = StopReason.TOOL_USE if STOPS[finish] is StopReason.END else STOPS[finish]
    assert parsed({"functionCall": {"name": "f"}}, finish=finish).stop is expected


def test_the_table_of_stops_has_every_reason_of_the_sdk() -> None:
    assert {reason.value for reason in FinishReason} - set(map(str, STOPS)) == {"PUP_LIMITED_DISABLED"}


def test_an_unknown_reason_is_an_end_and_told() -> None:
    found = parsed({"text": "a"}, finish="BOREDOM")
    assert (found.stop, found.unknown_stop) == (StopReason.END, "BOREDOM")


@pytest.mark.parametrize("reason", [reason.value for reason in BlockedReason])
def test_a_blocked_prompt_is_a_refusal(reason: str) -> None:
    feedback = {"blockReason": reason}
    found = parse({"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 3}})
    assert found.candidates == (
        Candidate((Refusal(f"The prompt was blocked: {reason}."),), StopReason.REFUSAL),
    )
    assert found.usage.tokens_in == 3


def test_a_refusal_without_words_is_explained_by_the_provider() -> None:
    body = {"candidates": [{"finishReason": "SAFETY", "finishMessage": "Not this."}]}
    assert parse(body).candidates[0].parts == (Refusal("Not this."),)


@pytest.mark.parametrize("finish", sorted(FAILURES))
@pytest.mark.parametrize("parts", [(), ({"text": "Hm.", "thought": True},)], ids=["nothing", "a thought"])
def test_an_answer_that_is_nothing_but_a_failure_is_broken(finish: str, parts: tuple[Json, ...]) -> None:
    with pytest.raises(GatewayError) as caught:
        parsed(*parts, finish=finish, finishMessage="it went wrong")
    assert caught.value.reason is Reason.UPSTREAM_BROKEN
    assert finish in caught.value.message
    assert "it went wrong" in caught.value.message


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"{}", b'{"candidates":[]}', b'{"error":{"code":500}}', b'{"candidates":5}'],
)
def test_what_is_no_answer_is_broken(body: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        PROVIDER.text.parse_reply(body, ReplySource("s"))
    assert caught.value.reason is Reason.UPSTREAM_BROKEN


@settings(deadline=None)
@given(st.binary(max_size=40) | st.text('{}[]",:candtesprx0', max_size=40).map(str.encode))
def test_no_bytes_make_anything_but_an_answer_or_a_broken_one(body: bytes) -> None:
    try:
        PROVIDER.text.parse_reply(body, ReplySource("s"))
    except GatewayError as error:
        assert error.reason is Reason.UPSTREAM_BROKEN  # noqa: PT017 - an answer is as good


def test_what_goes_with_a_text_is_read() -> None:
    found = parsed(
        {"text": "a"},
        {"functionCall": {"name": "f"}},
        citationMetadata={"citationSources": [{"startIndex": 1, "endIndex": 2, "uri": "u", "title": "t"}]},
        logprobsResult={
            "chosenCandidates": [{"token": "a", "logProbability": -0.5}],
            "topCandidates": [{"candidates": [{"token": "b", "logProbability": -1}]}],
        },
    )
    assert found.parts[0] == Text("a", citations=(Citation("u", "t", 1, 2),))
    assert found.logprobs == (TokenLogprob("a", -0.5, (Alternative("b", -1.0),)),)


@pytest.mark.parametrize("field", ["usageMetadata", "citationMetadata", "logprobsResult"])
@pytest.mark.parametrize(
    "value", [5, [], "x", {"promptTokenCount": -1, "citations": 5, "chosenCandidates": 5}]
)
def test_what_is_malformed_beside_a_text_does_not_take_the_text(field: str, value: Any) -> None:
    one = candidate({"text": "a"})
    body = {"candidates": [{**one, field: value}], field: value}
    assert parse(body).candidates[0].parts == (Text("a"),)


# Written --------------------------------------------------------------------------------------------------


TWO_CANDIDATES = Reply(
    (
        Candidate((Text("a"), ToolCall("1", "f", '{"z":1,"a":2}')), StopReason.TOOL_USE),
        Candidate((Text("b", citations=(Citation("u", None, 0, 1),)),), StopReason.LENGTH),
    ),
    "r1",
    "gpt-x",
    TokenUsage(10, 7, cache_read=2, reasoning=3),
)


def test_an_answer_is_written_whole() -> None:
    assert render(TWO_CANDIDATES) == {
        "candidates": [
            {
                "content": {
                    "parts": [
                        {"text": "a"},
                        {
                            "functionCall": {"id": "1", "name": "f", "args": {"z": 1, "a": 2}},
                            "thoughtSignature": SKIP_VALIDATOR,
                        },
                    ],
                    "role": "model",
                },
                "finishReason": "STOP",
                "index": 0,
            },
            {
                "content": {"parts": [{"text": "b"}], "role": "model"},
                "finishReason": "MAX_TOKENS",
                "index": 1,
                "citationMetadata": {"citationSources": [{"startIndex": 0, "endIndex": 1, "uri": "u"}]},
            },
        ],
        "usageMetadata": {
            "promptTokenCount": 10,
            "candidatesTokenCount": 4,
            "totalTokenCount": 17,
            "cachedContentTokenCount": 2,
            "thoughtsTokenCount": 3,
        },
        "modelVersion": "gpt-x",
        "responseId": "r1",
    }


def test_an_answer_without_a_name_gets_the_gateways() -> None:
    found = render(Reply((Candidate((), StopReason.END),)))
    assert (found["modelVersion"], found["responseId"]) == ("gpt", "req_1")
    assert found["candidates"][0]["content"]["parts"] == [{"text": ""}]
    assert "usageMetadata" not in found


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"error":{"code":429,"message":"Slow down."}}', 429),
        (b'[{"error":{"code":429,"message":"Slow down."}}]', 429),
        (b'{"message":"Slow down."}', 502),
        (b"Slow down.", 502),
        (b"<html><title>Slow down.</title></html>", 502),
    ],
)
def test_an_answer_that_is_an_error_has_its_status_and_its_words(body: bytes, status: int) -> None:
    with pytest.raises(AnswerError) as caught:
        PROVIDER.text.parse_reply(body, ReplySource("s"))
    assert (caught.value.error.status, caught.value.error.message) == (status, "Slow down.")


def test_an_array_of_responses_is_one_answer() -> None:
    pieces = [
        {
            "candidates": [
                {"content": {"parts": [{"text": "a"}], "role": "model"}, "index": 0},
                {"content": {"parts": [{"text": "x"}]}, "index": 1, "finishReason": "MAX_TOKENS"},
            ],
            "usageMetadata": {"promptTokenCount": 3},
            "modelVersion": "gemini-x",
            "responseId": "r",
        },
        {"candidates": [{"content": {"parts": [{"text": "b"}]}}], "error": None},
        {
            "candidates": [{"finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2},
        },
    ]
    found = PROVIDER.text.parse_reply(json.dumps(pieces).encode(), ReplySource("s"))
    assert [(one.parts, one.stop) for one in found.candidates] == [
        ((Text("ab"),), StopReason.END),
        ((Text("x"),), StopReason.LENGTH),
    ]
    assert (found.model, found.id, found.usage) == ("gemini-x", "r", TokenUsage(3, 2))


def test_the_first_call_is_signed_and_every_thought_keeps_its_signature() -> None:
    redacted = Signature(Family.ANTHROPIC, "eHg=", redacted=True)
    assert rendered(
        Thinking("Hm.", FOREIGN),
        Thinking("", redacted),
        Thinking("Oh."),
        ToolCall("1", "f", ""),
        ToolCall("2", "f", "{}"),
    ) == [
        {"text": "Hm.", "thought": True, "thoughtSignature": tag_signature(FOREIGN, "Hm.")},
        {"text": "", "thought": True, "thoughtSignature": tag_signature(redacted)},
        {"text": "Oh.", "thought": True},
        {"functionCall": {"id": "1", "name": "f", "args": {}}, "thoughtSignature": SKIP_VALIDATOR},
        {"functionCall": {"id": "2", "name": "f", "args": {}}},
    ]
    assert rendered(ToolCall("1", "f", "{}", FOREIGN))[0]["thoughtSignature"] == tag_signature(FOREIGN)


def test_a_call_carries_the_signature_of_the_one_thought_before_it() -> None:
    other = Signature(Family.ANTHROPIC, "eHg=")
    parts = rendered(
        Thinking("Hm.", FOREIGN),
        Text("Let me look."),
        ToolCall("1", "f", "{}"),
        ToolCall("2", "f", "{}"),
        Thinking("", other),
        ToolCall("3", "f", "{}"),
        Thinking("a", FOREIGN),
        Thinking("b", other),
        ToolCall("4", "f", "{}"),
        Thinking("c", FOREIGN),
        ToolCall("5", "f", "{}", Signature(Family.OPENAI, "b3du")),
        Thinking("d", Signature(Family.OPENAI, "eHg=")),
        ToolCall("6", "f", "{}"),
    )
    assert [part.get("thoughtSignature") for part in parts if "functionCall" in part] == [
        tag_signature(FOREIGN, "Hm."),
        None,
        tag_signature(other, ""),
        None,
        tag_signature(Signature(Family.OPENAI, "b3du")),
        None,
    ]


@pytest.mark.parametrize(
    ("stop", "args"),
    [
        (StopReason.LENGTH, None),
        (StopReason.REFUSAL, None),
        (StopReason.TOOL_USE, {"arguments": '{"a":'}),
        (StopReason.END, {"arguments": '{"a":'}),
    ],
)
def test_a_call_that_was_cut_off_is_left_out(stop: StopReason, args: Json | None) -> None:
    parts = rendered(Text("a"), ToolCall("1", "f", '{"a":'), stop=stop)
    assert [part["functionCall"]["args"] for part in parts[1:]] == ([] if args is None else [args])


def test_an_empty_text_is_no_part() -> None:
    assert rendered(Text(""), Text("a"), Text("")) == [{"text": "a"}]


def test_media_are_blobs_or_addresses() -> None:
    assert rendered(
        Media(MediaKind.IMAGE, "image/png", data="AAAA"), Media(MediaKind.IMAGE, url="https://x.org/a.png")
    ) == [
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://x.org/a.png"}},
    ]


def test_a_refusal_is_text_and_a_reason() -> None:
    found = render(Reply((Candidate((Refusal("No."),), StopReason.REFUSAL),)))["candidates"][0]
    assert (found["content"]["parts"], found["finishReason"]) == ([{"text": "No."}], "SAFETY")


def test_log_probabilities_go_beside_the_text() -> None:
    tokens = (TokenLogprob("a", -0.5, (Alternative("b", -1.0),)), TokenLogprob("c", 0.0))
    reply = Reply((Candidate((Text("ac"),), StopReason.END, logprobs=tokens),))
    result = render(reply)["candidates"][0]["logprobsResult"]
    assert [one["token"] for one in result["chosenCandidates"]] == ["a", "c"]
    assert parse(render(reply)).candidates[0].logprobs == tokens


def test_what_a_client_keeps_of_an_answer_comes_back_as_it_was() -> None:
    parts: tuple[Part, ...] = (
        Thinking("Hm.", FOREIGN),
        Thinking("", Signature(Family.ANTHROPIC, "eHg=", redacted=True)),
        Text("a"),
        ToolCall("1", "f", '{"z":1,"a":2}', Signature(Family.OPENAI, "b3du")),
        ToolCall("2", "g", "{}"),
    )
    response = GenerateContentResponse.model_validate(render(Reply((Candidate(parts, StopReason.TOOL_USE),))))
    assert response.candidates is not None
    content = response.candidates[0].content
    assert content is not None
    kept = content.model_dump(mode="json", by_alias=True, exclude_none=True)  # as the SDK sends it
    request = json.dumps({"contents": [kept]}).encode()
    assert CLIENT.text.parse_request(request, RequestContext("m")).request.turns[0].parts == parts
