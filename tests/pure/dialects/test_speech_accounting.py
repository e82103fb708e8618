"""The law of accounting for speech: every field of a request arrives, is reported, or is refused."""

from __future__ import annotations

import msgspec
import pytest

from mgw.nouns.errors import GatewayError
from mgw.nouns.vocabulary import Family
from tests.support.speech_cases import GENERATE_SPEECH, SPEECH, Sent, sent
from tools.translation.accounting import covers
from tools.translation.field_cases import Case, Client, cases
from tools.translation.sdk_types import Json

WAYS = [
    pytest.param(SPEECH, Family.OPENAI, Family.GEMINI, id="openai to gemini"),
    pytest.param(SPEECH, Family.ANTHROPIC, Family.GEMINI, id="anthropic to gemini"),
    pytest.param(GENERATE_SPEECH, Family.GEMINI, Family.OPENAI, id="gemini to openai"),
]
NOTHING_LOST = {
    ("response_format", "pcm"): "that is what comes",
    ("response_format", "wav"): "a matter of the answer",
    ("generationConfig.responseModalities", "['AUDIO']"): "that is asked for anyway",
    ("generationConfig.speechConfig", "{}"): "it says nothing",
    ("contents[user].parts[].thought", "False"): "nor does this",
}
"""Values that change nothing and are not reported, and why nothing is lost with them."""
SAYS_NOTHING = frozenset({"model", "contents[user].parts[].thoughtSignature", "systemInstruction.role"})
"""Fields that mean nothing where they stand."""


def sent_of(client: Client, family: Family, provider: Family, body: Json) -> Sent | GatewayError:
    return sent(family, provider, msgspec.json.encode(body))


def became(client: Client, family: Family, provider: Family, case: Case, value: Json, body: Json) -> str:
    found = sent_of(client, family, provider, body)
    if isinstance(found, GatewayError):
        return "refused"
    if any(covers(path, case.path) or path.startswith(f"{case.path}.") for path in found.reported):
        return "reported"
    others = [case.without] if case.without is not None else [other for other in case.bodies if other != body]
    for other in others:
        before = sent_of(client, family, provider, other)
        if isinstance(before, Sent) and before.up != found.up:
            return "arrived"
    return "lost"


@pytest.mark.parametrize(("client", "family", "provider"), WAYS)
def test_no_field_is_lost_in_silence(client: Client, family: Family, provider: Family) -> None:
    lost = [
        (case.path, value)
        for case in cases(client)
        if not case.holder and case.path not in SAYS_NOTHING
        for value, body in zip(case.values, case.bodies, strict=True)
        if (case.path, str(value)) not in NOTHING_LOST
        and became(client, family, provider, case, value, body) == "lost"
    ]
    assert lost == []


@pytest.mark.parametrize(
    ("path", "fate"),
    [
        ("input", "arrived"),
        ("instructions", "arrived"),
        ("voice", "arrived"),
        ("speed", "reported"),
        ("stream_format", "reported"),
    ],
)
def test_each_field_of_openais_has_the_fate_that_the_document_tells(path: str, fate: str) -> None:
    (case,) = [case for case in cases(SPEECH) if case.path == path]
    fates = {
        became(SPEECH, Family.OPENAI, Family.GEMINI, case, value, body)
        for value, body in zip(case.values, case.bodies, strict=True)
        if isinstance(value, str | float)
    }
    assert fates == {fate}


def test_the_walk_sees_the_whole_wires() -> None:
    assert {case.path for case in cases(SPEECH)} >= {"input", "model", "voice", "response_format", "speed"}
    assert len(cases(GENERATE_SPEECH)) >= 500
