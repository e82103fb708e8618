"""Gemini: the checker takes what the vendor's reference shows, and refuses it with one rule broken."""

from __future__ import annotations

import pytest

from tests.support.grammar import check_gemini_array, check_gemini_sse, check_generate_content
from tests.support.grammar.mutation import mutated, named

USAGE = (
    '"usageMetadata":{"promptTokenCount":9,"cachedContentTokenCount":4,"candidatesTokenCount":3,'
    '"thoughtsTokenCount":2,"totalTokenCount":14}'
)
TEXT_CHUNK = (
    '{"candidates":[{"content":{"role":"model","parts":[{"text":"Hm.","thought":true},{"text":"Hi"}]},'
    '"index":0}],"modelVersion":"m","responseId":"r"}'
)
CALL_CHUNK = (
    '{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"f","args":{"a":1},'
    '"id":"x"},"thoughtSignature":"c2ln"},{"functionCall":{"name":"f"}}]},"index":0}]}'
)
LAST_CHUNK = (
    '{"candidates":[{"content":{"role":"model","parts":[{"text":"","thoughtSignature":"c2ln_-A"}]},'
    f'"finishReason":"STOP","index":0}}],{USAGE}}}'
)
BLOCKED = f'{{"promptFeedback":{{"blockReason":"SAFETY"}},{USAGE}}}'
GEMINI_ERROR = '{"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}'


def as_sse(*chunks: str, end: str = "\n\n") -> str:
    return "".join(f"data: {chunk}{end}" for chunk in chunks)


SSE = as_sse(TEXT_CHUNK, CALL_CHUNK, LAST_CHUNK)


def test_a_gemini_stream_as_the_reference_shows_it_is_taken() -> None:
    check_gemini_sse(SSE.encode())
    check_gemini_sse(as_sse(TEXT_CHUNK, LAST_CHUNK, end="\r\n\r\n").encode())
    check_gemini_sse(as_sse(BLOCKED).encode())
    check_gemini_sse(b"\n" + as_sse(LAST_CHUNK).encode() + b"\n")
    two = LAST_CHUNK.replace('"index":0', '"index":1')
    check_gemini_sse(as_sse(TEXT_CHUNK, two, LAST_CHUNK).encode(), n=2)
    safety = f'{{"candidates":[{{"finishReason":"SAFETY","index":0}}],{USAGE}}}'
    check_gemini_sse(as_sse(safety).encode())


def test_a_gemini_array_as_the_reference_shows_it_is_taken() -> None:
    check_gemini_array(f"[{TEXT_CHUNK}\n,\r\n{LAST_CHUNK}\n]\n".encode())
    check_gemini_array(f"[{TEXT_CHUNK},{GEMINI_ERROR}]".encode(), broken=True)


def test_a_gemini_stream_that_shows_its_break_is_taken_as_broken() -> None:
    check_gemini_sse(as_sse(TEXT_CHUNK, GEMINI_ERROR).encode(), broken=True)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    named(
        [
            ("data: {", "data:{", "does not begin with"),
            ("data: {", "event: x\ndata: {", "does not begin with"),
            ("data: {", ": still here\n\ndata: {", "does not begin with"),
            (as_sse(LAST_CHUNK), as_sse(LAST_CHUNK, "[DONE]"), ".DONE., which"),
            ("\n\ndata: ", "\ndata: ", "a second data line"),
            ("data: {", "data: {{", "no JSON"),
            ('"candidates":[', '"candidates":[],"x":[', "candidates is empty"),
            ('"role":"model"', '"role":"assistant"', "must be model"),
            ('"finishReason":"STOP",', "", "no finishReason of candidates"),
            ('"STOP"', '"stop"', "must be one of STOP"),
            (as_sse(CALL_CHUNK, LAST_CHUNK), as_sse(LAST_CHUNK, CALL_CHUNK), "follows its finishReason"),
            (f",{USAGE}", "", "usageMetadata is missing"),
            ('"totalTokenCount":14', '"totalTokenCount":12', "not the sum"),
            ('"cachedContentTokenCount":4', '"cachedContentTokenCount":10', "more is cached"),
            ('"promptTokenCount":9', '"promptTokenCount":"9"', "must be a whole number"),
            ('"index":0', '"index":1', "1 candidates were asked for"),
            ('"args":{"a":1}', '"args":"{}"', "args: must be an object"),
            ('"name":"f"', '"name":"9 f"', "an illegal name"),
            ('"thoughtSignature":"c2ln"', '"thoughtSignature":"c2.n"', "no base64"),
            ('"thoughtSignature":"c2ln"', '"thoughtSignature":""', "must be some text"),
            ('"thought":true', '"thought":"yes"', "true or false"),
            ('{"text":"Hi"}', '{"text":"Hi","functionCall":{"name":"f"}}', "must hold one of"),
            ('{"text":"Hi"}', "{}", "must hold one of"),
        ]
    ),
)
def test_a_gemini_stream_with_one_rule_broken_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_gemini_sse(mutated(SSE, old, new))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (as_sse(TEXT_CHUNK), "no error shown"),
        (as_sse(GEMINI_ERROR, TEXT_CHUNK), "something follows the error"),
        (as_sse('{"x":1,' + GEMINI_ERROR[1:]), "by its first key"),
        (as_sse(GEMINI_ERROR.replace("503", "0")), "code must be an HTTP status"),
        (as_sse(GEMINI_ERROR.replace("UNAVAILABLE", "overloaded")), "google.rpc.Code"),
    ],
)
def test_a_broken_gemini_stream_must_show_its_error_last(data: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_gemini_sse(data.encode(), broken=True)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (f"[{TEXT_CHUNK},{LAST_CHUNK}", "no JSON"),
        (f"[{TEXT_CHUNK},{LAST_CHUNK},]", "no JSON"),
        (LAST_CHUNK, "must begin with"),
        ("[]", "no chunk"),
        (f"[{LAST_CHUNK},{TEXT_CHUNK}]", "follows its finishReason"),
        (f"[{TEXT_CHUNK}]", "usageMetadata is missing"),
        (f"[{TEXT_CHUNK},{BLOCKED}]", "in the first chunk only"),
        (f"[{BLOCKED},{LAST_CHUNK}]", "follows a blocked prompt"),
    ],
)
def test_a_gemini_array_with_one_rule_broken_is_refused(data: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_gemini_array(data.encode())


def test_a_whole_generated_content_is_taken() -> None:
    check_generate_content(LAST_CHUNK.encode())
    check_generate_content(BLOCKED.encode())


@pytest.mark.parametrize(
    ("old", "new", "says"),
    named(
        [
            ('"finishReason":"STOP",', "", "must be one of STOP"),
            (f",{USAGE}", "", "must be an object"),
            ('"index":0', '"index":1', "in order"),
            ('"role":"model"', '"role":"user"', "must be model"),
            ('"candidates":', '"promptFeedback":{"blockReason":"NO"},"x":', "must be one of SAFETY"),
        ]
    ),
)
def test_a_whole_generated_content_with_one_rule_broken_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_generate_content(mutated(LAST_CHUNK, old, new))
