"""How ``mgw tail`` shows events: one line each, and nothing in it that a terminal would act on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.cli.tail_lines import EventRenderer, Filters, harmless
from mgw.usage.event import Outcome
from mgw.usage.record import encode
from tests.support.usage import event

PLAIN = EventRenderer(Filters())
LOG = {"time": "2026-01-31T12:00:00.250Z", "level": "warn", "text": "it hurts"}


def usage(**changes: Any) -> dict[str, Any]:  # Any: the fields of an event by name
    """Return a usage event as it comes."""
    said: dict[str, Any] = json.loads(encode(event(**changes)))
    return said


def line(kind: str, said: dict[str, Any], renderer: EventRenderer = PLAIN) -> str:
    return renderer.render(kind, said, json.dumps(said))


def test_a_usage_event_is_one_line() -> None:
    shown = line("usage", usage(client="alice", tokens_out=340, cost_usd=0.00123))
    assert shown == (
        "16:00:00.250Z  200  alice  fast -> main/gpt-5  12 > 340 tokens  $0.00123  1235 ms  ttft 99 ms\n"
    )


def test_what_is_not_known_is_left_out_or_dashed() -> None:
    shown = line(
        "usage",
        usage(
            provider=None,
            model=None,
            upstream_model=None,
            tokens_in=None,
            tokens_out=None,
            http_status=None,
            ttft_ms=None,
            status=Outcome.REJECTED,
            error="model_not_found",
        ),
    )
    assert shown == "16:00:00.250Z  ---  -  -  1235 ms  rejected  model_not_found\n"


@pytest.mark.parametrize(
    ("kind", "said", "expected"),
    [
        ("log", LOG, "12:00:00.250Z  warn  it hurts\n"),
        ("log", {**LOG, "text": "a bug\n  at x\n"}, "12:00:00.250Z  warn  a bug\n      at x\n"),
        ("log", {**LOG, "text": ""}, "12:00:00.250Z  warn  \n"),
        (
            "health",
            {"time": LOG["time"], "provider": "main", "state": "failing", "error": "dns"},
            "12:00:00.250Z  provider main is failing (dns)\n",
        ),
        (
            "health",
            {"time": LOG["time"], "provider": "main", "state": "ok"},
            "12:00:00.250Z  provider main is ok\n",
        ),
        (
            "session",
            {"time": LOG["time"], "state": "closed", "provider": "main", "model": "m", "seconds": 61.2},
            "12:00:00.250Z  session closed  -  m -> main  61 s\n",
        ),
        ("reset", {}, "some events were lost here\n"),
        ("something", LOG, ""),
    ],
    ids=["log", "traceback", "empty", "failing", "ok", "session", "reset", "unknown"],
)
def test_other_events_are_lines_too(kind: str, said: dict[str, Any], expected: str) -> None:
    assert line(kind, said) == expected


@given(text=st.text(), kind=st.sampled_from(["usage", "log", "health", "session"]), as_json=st.booleans())
def test_nothing_that_a_terminal_would_act_on_is_shown(text: str, kind: str, as_json: bool) -> None:
    names = (
        "time",
        "level",
        "text",
        "provider",
        "state",
        "error",
        "model",
        "upstream_model",
        "client",
        "status",
    )
    said = dict.fromkeys(names, text)
    data = json.dumps(said, ensure_ascii=False)
    shown = EventRenderer(Filters(), as_json=as_json).render(kind, said, data)
    assert all(part.isprintable() for part in shown.split("\n"))


def test_colours_are_for_terminals() -> None:
    renderer = EventRenderer(Filters(), colours=True)
    assert "\x1b[31m500\x1b[0m" in line(
        "usage", usage(http_status=500, status=Outcome.UPSTREAM_ERROR), renderer
    )
    assert "\x1b[32m200\x1b[0m" in line("usage", usage(), renderer)
    assert "\x1b[33mwarn\x1b[0m" in line("log", LOG, renderer)
    assert "\x1b" not in line("log", LOG)


@pytest.mark.parametrize(
    ("filters", "shown"),
    [
        (Filters(client="alice"), True),
        (Filters(client="al*"), True),
        (Filters(client="bob"), False),
        (Filters(model="fast"), True),
        (Filters(model="gpt-*"), True),
        (Filters(model="o*"), False),
        (Filters(provider="main"), True),
        (Filters(provider="other"), False),
        (Filters(status="upstream_error"), True),
        (Filters(status="503"), True),
        (Filters(status="5xx"), True),
        (Filters(status="5XX"), True),
        (Filters(status="4xx"), False),
        (Filters(status="ok"), False),
        (Filters(client="alice", status="ok"), False),
    ],
)
def test_filters_choose_events(filters: Filters, shown: bool) -> None:
    said = usage(client="alice", http_status=503, status=Outcome.UPSTREAM_ERROR)
    assert bool(line("usage", said, EventRenderer(filters))) is shown


def test_an_event_without_the_field_does_not_pass_its_filter() -> None:
    for filters in (Filters(client="*"), Filters(model="*"), Filters(provider="*"), Filters(status="5xx")):
        assert line("log", LOG, EventRenderer(filters)) == ""


def test_json_is_the_event_as_it_came_or_says_what_it_is() -> None:
    renderer = EventRenderer(Filters(), as_json=True)
    data = '{"model":"fäst","cost_usd":0.000000001}'
    assert renderer.render("usage", json.loads(data), data) == f"{data}\n"
    assert json.loads(line("log", LOG, renderer)) == {"event": "log", **LOG}
    assert line("reset", {}, renderer) == ""
    csi = '{"model":"\u009b2J"}'
    assert renderer.render("usage", json.loads(csi), csi) == '{"model": "\\u009b2J"}\n'


def test_what_is_no_object_is_not_shown() -> None:
    assert PLAIN.render("usage", ["x"], "[]") == ""


def test_control_characters_become_question_marks() -> None:
    assert harmless("a\x1b[2J\u009b\u202eb") == "a?[2J??b"
