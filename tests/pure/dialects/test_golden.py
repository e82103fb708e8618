"""Every golden case holds: see :mod:`tests.support.golden` for what a case is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import pytest

from mgw.nouns.vocabulary import Family
from mgw_sim.anthropic.messages import messages
from mgw_sim.api import ApiError, Request
from mgw_sim.faults import Faults
from mgw_sim.gemini.content import generate_content, stream_generate_content
from mgw_sim.openai.chat import chat
from tests.support.golden import (
    GOLDEN,
    WRITTEN,
    Case,
    cases,
    comparable,
    produced,
    send,
    translated_stream,
    usual_headers,
    usual_target,
)
from tests.support.grammar import (
    check_chat,
    check_chat_stream,
    check_gemini_array,
    check_gemini_sse,
    check_generate_content,
    check_message,
    check_messages_stream,
)
from tests.support.grammar.anthropic import check_error as check_anthropic_error
from tests.support.grammar.gemini import check_error as check_gemini_error
from tests.support.grammar.openai import check_error as check_openai_error

_ERRORS: Final[dict[Family, Callable[[Any], None]]] = {
    Family.OPENAI: check_openai_error,
    Family.ANTHROPIC: check_anthropic_error,
    Family.GEMINI: check_gemini_error,
}
_CASES: Final = cases()
_FEWEST: Final = 200
"""So many cases there are at least: an empty folder proves nothing."""
_STOP: Final = re.compile(rb'"(?:finish_reason|finishReason|stop_reason|blockReason)":"')
"""What ends an answer, in any provider's words."""


def named(chosen: list[Case]) -> list[Any]:  # Any: pytest does not name the type of a parameter
    return [pytest.param(case, id=case.name) for case in chosen]


def having(file: str) -> list[Any]:  # Any: as above
    return named([case for case in _CASES if (case.folder / file).exists()])


def test_there_are_cases_of_every_pair() -> None:
    pairs = {(case.client, case.upstream) for case in _CASES}
    assert pairs == {(one, other) for one in Family for other in Family if one is not other}
    assert len(_CASES) >= _FEWEST


def test_a_case_is_one_request_whichever_provider_it_goes_to() -> None:
    streams = {(case.folder.parent, case.streams, case.said.get("array")) for case in _CASES}
    assert len(streams) == len({case.folder.parent for case in _CASES})
    assert not [path for path in GOLDEN.rglob("request.json") if path.parent.parent.parent != GOLDEN]


@pytest.mark.parametrize("case", named(_CASES))
def test_a_case_holds(case: Case) -> None:
    found = produced(case)
    for file in WRITTEN:
        expected = case.bytes_of(file)
        assert (file in found) == (expected is not None), f"{file}: {found.get(file)!r}"
        if expected is not None and file.endswith(".txt"):
            assert found[file].decode() == expected.decode()
        elif expected is not None:
            assert _text(json.loads(found[file])) == _text(json.loads(expected)), file


def _text(value: Any) -> str:  # Any: JSON
    return json.dumps(comparable(value), ensure_ascii=False, indent=1)


@pytest.mark.parametrize("case", having("upstream_request.json"))
def test_a_request_goes_where_the_provider_has_it(case: Case) -> None:
    rendered = send(case).rendered
    headers = {name.decode(): value.decode() for name, value in rendered.headers}
    assert rendered.target.decode() == case.said.get("target", usual_target(case))
    assert headers == case.said.get("headers", usual_headers(case))


@pytest.mark.parametrize("case", having("upstream_request.json"))
def test_an_independent_provider_takes_the_request(case: Case) -> None:
    target = urlsplit(case.said.get("target", usual_target(case)))
    call = Request(
        path=target.path,
        query=dict(parse_qsl(target.query)),
        headers=case.said.get("headers", usual_headers(case)),
        body=case.json_of("upstream_request.json"),
        model=case.model,
        faults=Faults({}),
        number=1,
        now=1,
    )
    gemini = stream_generate_content if case.streams else generate_content
    handlers = {Family.OPENAI: chat, Family.ANTHROPIC: messages, Family.GEMINI: gemini}
    try:
        handlers[case.upstream](call)
    except ApiError as refusal:
        pytest.fail(f"{refusal.status}: {refusal.message} ({refusal.param})")


@pytest.mark.parametrize("case", having("stream.txt"))
def test_a_stream_is_the_same_however_it_is_cut(case: Case) -> None:
    sent = send(case)
    data, expected = case.bytes_of("upstream_stream.txt"), case.bytes_of("stream.txt")
    assert data is not None
    assert expected is not None
    for size in (1, 2, 7, 64, 1000):
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        assert translated_stream(sent, pieces).decode() == expected.decode(), f"pieces of {size}"


@pytest.mark.parametrize("case", having("stream.txt"))
def test_a_stream_that_ends_too_early_shows_it_unless_its_answer_was_complete(case: Case) -> None:
    sent = send(case)
    data = case.bytes_of("upstream_stream.txt")
    assert data is not None
    ends = [found.end() for found in re.finditer(rb"\n\r?\n", data)]
    for end in [0, *ends[:-1]]:
        cut = translated_stream(sent, [data[:end]])
        stops = len(_STOP.findall(data[:end]))
        broken = case.said.get("broken") or stops < case.said.get("answers", 1)
        check_stream(case.client, cut, case, broken=broken, counted=False)


@pytest.mark.parametrize("case", having("stream.txt"))
def test_the_clients_stream_keeps_to_its_grammar(case: Case) -> None:
    data = case.bytes_of("stream.txt")
    assert data is not None
    broken, counted = bool(case.said.get("broken")), not case.said.get("uncounted")
    check_stream(case.client, data, case, broken=broken, counted=counted)


@pytest.mark.parametrize("case", having("upstream_stream.txt"))
def test_the_providers_stream_is_one_that_it_could_send(case: Case) -> None:
    data = case.bytes_of("upstream_stream.txt")
    assert data is not None
    if "odd" not in case.said:
        check_stream(case.upstream, data, case)


def check_stream(
    family: Family, data: bytes, case: Case, *, broken: bool = False, counted: bool = True
) -> None:
    answers = case.said.get("answers", 1)
    if family is Family.ANTHROPIC:
        check_messages_stream(data, broken=broken)
    elif family is Family.GEMINI and family is case.client and case.said.get("array"):
        check_gemini_array(data, n=answers, broken=broken, counted=counted)
    elif family is Family.GEMINI:
        check_gemini_sse(data, n=answers, broken=broken, counted=counted)
    else:
        asked = case.json_of("request.json" if family is case.client else "upstream_request.json")
        usage = bool((asked.get("stream_options") or {}).get("include_usage"))
        check_chat_stream(data, include_usage=usage, n=answers, broken=broken)


@pytest.mark.parametrize("case", having("reply.json"))
def test_a_whole_answer_keeps_to_its_grammar(case: Case) -> None:
    data = case.bytes_of("reply.json")
    assert data is not None
    check_whole(case.client, data, case.said.get("answers", 1))


@pytest.mark.parametrize("case", having("upstream_reply.json"))
def test_the_providers_answer_is_one_that_it_could_send(case: Case) -> None:
    data = case.bytes_of("upstream_reply.json")
    assert data is not None
    if "odd" not in case.said:
        check_whole(case.upstream, data, case.said.get("answers", 1))


def check_whole(family: Family, data: bytes, answers: int) -> None:
    if family is Family.ANTHROPIC:
        check_message(data)
    elif family is Family.GEMINI:
        check_generate_content(data, n=answers)
    else:
        check_chat(data, n=answers)


@pytest.mark.parametrize("case", having("error.json"))
def test_an_error_keeps_to_its_shape(case: Case) -> None:
    _ERRORS[case.client](case.json_of("error.json")["body"])
