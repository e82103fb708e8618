"""The lines of the process log as JSON (contract 7.6)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from twisted.logger import LogEvent, Logger, LogLevel, LogPublisher

from mgw.nouns.secret import REDACTED, Secret
from mgw.ops.json_lines import MAX_LINE, access_json, joined_json, message_json, usage_json
from mgw.ops.logs import RedactingObserver
from mgw.usage.event import ELLIPSIS, SettledExchange
from mgw.usage.record import EndedRequest, encode_settled
from tests.support.usage import exchange

CANARY = "canary-7f3a91"
KINDS = ("usage", "http", "log")
any_text = st.one_of(st.text(st.sampled_from('a -="\\\n\x00\x7f\x9b\u2028\ud800ö😀')), st.text())


def read(line: bytes) -> dict[str, Any]:
    """Read a line as a collector does, and see that it is one line of what prints."""
    text = line.decode()
    assert text.endswith("\n")
    assert text[:-1].isprintable()
    found: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    assert found["kind"] in KINDS
    assert found["level"] in {"debug", "info", "warn", "error", "critical"}
    assert len(found["time"]) == len("2025-11-24T16:00:00.250Z")
    assert list(found)[:3] == ["time", "level", "kind"]
    return found


def ended(method: bytes | None = b"POST", raw_path: bytes | None = b"/v1/x", **more: Any) -> EndedRequest:
    """The end of a request, some milliseconds later."""
    found = EndedRequest(1_764_000_000.5, method, raw_path, 200, 0.0123, "req_1")
    return replace(found, **more)


def access(request: EndedRequest) -> dict[str, Any]:
    (line,) = access_json([request])
    return read(line)


def logged(action: Any, canary: str = CANARY) -> tuple[dict[str, Any], str]:  # Any: takes a logger
    """The line of what is logged, and its text."""
    seen: list[LogEvent] = []
    action(Logger("mgw.test", observer=RedactingObserver(seen.append, lambda: [Secret(canary)])))
    (event,) = seen
    return read(message_json(event)), event["log_text"]


def test_a_usage_line_has_the_fields_of_the_event() -> None:
    settled = exchange(upstream_request_id="up_1", dropped_fields=("logit_bias",), cost_usd=0.25)
    found = read(usage_json(settled))
    assert (found.pop("level"), found.pop("kind")) == ("info", "usage")
    assert found == json.loads(encode_settled(settled))


def test_a_usage_line_tells_of_a_session() -> None:
    found = read(usage_json(exchange(session_minutes=1.5, bytes_in=1, bytes_out=2, frames_in=3)))
    assert (found["session_minutes"], found["bytes_in"], found["frames_in"]) == (1.5, 1, 3)


def test_an_access_line_has_the_names_of_the_event() -> None:
    assert access(ended(error="reset")) == {
        "time": "2025-11-24T16:00:00.500Z",
        "level": "info",
        "kind": "http",
        "request_id": "req_1",
        "http_status": 200,
        "method": "POST",
        "path": "/v1/x",
        "latency_ms": 12.3,
        "error": "reset",
    }


def test_what_could_not_be_read_of_a_request_is_left_out() -> None:
    assert "path" not in access(ended(None, None))
    assert access(ended(None, b"/a"))["path"] == "/a"


def test_a_query_and_a_credential_in_a_path_are_not_shown() -> None:
    assert access(ended(raw_path=b"/v1/models?key=canary"))["path"] == "/v1/models"
    assert "canary" not in access(ended(raw_path=b"/v1beta/models/x%3Fkey=canary-1234"))["path"]


@pytest.mark.parametrize("raw_path", [b"/healthz", b"/metrics", b"/metrics?x=1"])
def test_what_is_asked_all_the_time_is_not_logged(raw_path: bytes) -> None:
    assert not access_json([ended(raw_path=raw_path)])


def test_one_line_says_what_both_say() -> None:
    settled, request = exchange(), ended()
    found = read(joined_json(settled, request))
    assert found == {**read(usage_json(settled)), "method": "POST", "path": "/v1/x"}


def test_one_line_has_the_status_of_the_response_where_the_event_has_none() -> None:
    assert read(joined_json(exchange(http_status=None), ended()))["http_status"] == 200


def test_the_same_name_has_the_same_type_in_all_lines() -> None:
    types: dict[str, type] = {}
    failure, _ = logged(lambda log: log.error("x"))
    for found in (failure, access(ended(error="dns")), read(usage_json(exchange(error="dns")))):
        for name, value in found.items():
            assert types.setdefault(name, type(value)) is type(value), name


def test_credentials_in_the_names_of_a_client_are_hidden() -> None:
    key = f"key={CANARY}"
    settled = exchange(
        model=key,
        upstream_model=key,
        upstream_request_id=key,
        dropped_fields=(key, "a"),
        error_message=f"no such {key}",
    )
    line = usage_json(settled)
    assert CANARY.encode() not in line
    assert read(line)["model"] == f"key={REDACTED}"
    assert read(line)["dropped_fields"] == [f"key={REDACTED}", "a"]
    assert read(line)["error_message"] == f"no such key={REDACTED}"


def test_long_values_are_cut() -> None:
    found = read(usage_json(exchange(model="m" * 300)))
    assert found["model"] == "m" * 256 + ELLIPSIS


@given(model=any_text, upstream_id=any_text, client=any_text, name=any_text)
def test_any_text_leaves_one_line_of_json(model: str, upstream_id: str, client: str, name: str) -> None:
    settled = exchange(
        model=model,
        upstream_model=model,
        upstream_request_id=upstream_id,
        client=client,
        dropped_fields=(name,),
    )
    found = read(usage_json(settled))
    assert (found["request_id"], found["kind"], found["status"]) == ("req_1", "usage", "ok")
    assert found == read(usage_json(settled)), "what was remembered says the same"
    joined = read(joined_json(settled, ended()))
    assert {**found, "method": "POST", "path": "/v1/x"} == joined


@given(method=st.binary(), path=st.binary(), error=any_text)
def test_any_bytes_of_a_request_leave_one_line_of_json(method: bytes, path: bytes, error: str) -> None:
    request = ended(method, path, error=error)
    for line in access_json([request, request]):
        assert read(line)["request_id"] == "req_1"
    assert read(joined_json(exchange(), request))["http_status"] == 200


@given(text=any_text, secret=st.sampled_from(["canary-1234", "öä-canary-1"]))
def test_any_message_leaves_one_line_of_json_without_a_secret(text: str, secret: str) -> None:
    found, shown = logged(
        lambda log: log.warn("{a}: {text} {secret}", a="a", text=text, secret=secret), secret
    )
    assert secret not in found["message"]
    assert found["message"] == shown.encode("utf-8", "replace").decode()
    assert (found["level"], found["kind"], found["logger"]) == ("warn", "log", "mgw.test")


def fails_with(secret: str) -> None:
    raise ValueError(f"cannot reach https://host/v1?x={secret}\nmgw")


def log_failure(log: Logger) -> None:
    try:
        fails_with(CANARY)
    except ValueError:
        log.failure("internal error: {what}", what="x")


def test_a_traceback_has_a_field_of_its_own() -> None:
    found, text = logged(log_failure)
    assert found["message"] == "internal error: x"
    assert found["level"] == "critical"
    traceback = found["traceback"]
    assert traceback.startswith("Traceback (most recent call last)")
    assert "fails_with" in traceback
    assert f"x={REDACTED}\nmgw" in traceback
    assert CANARY not in str(found)
    assert f"{found['message']}\n{traceback}" == text.rstrip("\n")


def test_a_failure_keeps_its_one_text() -> None:
    """The text log and the dashboard show it."""
    _, text = logged(log_failure)
    assert text.startswith("internal error: x\nTraceback (most recent call last)")


@pytest.mark.parametrize("text", ["x" * 100_000, "\x01" * 60_000, "ö" * 60_000, "\x9b" * 60_000])
def test_a_line_is_bounded(text: str) -> None:
    def fail(log: Logger) -> None:
        try:
            raise ValueError(text)
        except ValueError:
            log.failure("{text}", text=text[:30_000])

    for action in (fail, lambda log: log.info("{text}", text=text)):
        found, _ = logged(action)
        assert found["message"].endswith(ELLIPSIS)
        line = message_json({"log_text": text, "log_time": 0.0, "log_level": LogLevel.info})
        assert len(line) <= MAX_LINE


@pytest.mark.parametrize("character", ["x", "\x01", "\x9b", "😀"])
def test_a_usage_line_is_bounded(character: str) -> None:
    text = character * 4096
    names = tuple(f"{number}{text}" for number in range(256))
    settled = exchange(model=text, upstream_model=text, upstream_request_id=text, dropped_fields=names)
    line = joined_json(settled, ended(raw_path=b"\x9b" * 8000))
    assert len(line) <= MAX_LINE
    assert read(line)["dropped_fields"][-1] == ELLIPSIS


def test_a_message_of_a_worker_says_which() -> None:
    event: LogEvent = {
        "log_time": 0.0,
        "log_level": LogLevel.info,
        "log_system": "worker 3",
        "log_worker_namespace": "mgw.app.worker",
        "log_worker": 3,
        "log_text": "x",
    }
    found = read(message_json(event))
    assert (found["worker"], found["logger"]) == (3, "mgw.app.worker")


def test_an_observer_that_fails_is_told_of_in_json() -> None:
    """A publisher takes an observer that raises out of the way and says so, past the redaction."""
    seen: list[LogEvent] = []

    def fails(event: LogEvent) -> None:
        if "log_text" in event:
            raise ValueError(f"key={CANARY}")

    observers: Any = (fails, seen.append)  # Any: an observer is any function
    publisher = LogPublisher(*observers)
    publisher({"log_text": "x", "log_format": "{log_text}", "log_time": 0.0, "log_level": LogLevel.info})
    lines = [read(message_json(event)) for event in seen]
    assert [line["logger"] for line in lines] == ["-", "twisted.logger._observer"]
    assert CANARY not in str(lines)


def test_settled_records_are_not_changed() -> None:
    settled: SettledExchange = exchange(model=f"key={CANARY}")
    usage_json(settled)
    assert settled.labels.model == f"key={CANARY}"
