"""The plain lines of the process log (contract 7.6)."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from mgw.nouns.secret import redact_patterns
from mgw.ops.logs import AccessLog, UsageLog, format_value, hide_credentials, usage_line
from mgw.usage.event import ELLIPSIS, Outcome, SettledExchange
from mgw.usage.line_writer import INTERVAL, LineWriter
from mgw.usage.record import EndedRequest
from tests.support.usage import AtOnce, MemoryOutput, exchange

# A value is a bare word or a JSON string; the order is that of the line.
PAIR = re.compile(r' ([a-z_]+)=("(?:[^"\\]|\\.)*"|[^\s"=]+)')


def taken_apart(line: str) -> dict[str, str]:
    """Read a line as a program would."""
    _, _, rest = line.partition(" ")
    pairs = PAIR.findall(" " + rest)
    assert "".join(f" {name}={value}" for name, value in pairs) == " " + rest
    return {name: json.loads(value) if value.startswith('"') else value for name, value in pairs}


def shown(settled: SettledExchange) -> str:
    """The line of an exchange, without its end."""
    line = usage_line(settled).decode()
    assert line.endswith("\n")
    return line[:-1]


def log_on(clock: Clock) -> tuple[LineWriter, MemoryOutput]:
    """A writer of lines, and where they arrive."""
    output = MemoryOutput()
    return LineWriter("log", clock, AtOnce(), lambda: output), output


def test_a_usage_line_has_its_fields_in_a_fixed_order() -> None:
    assert shown(exchange()) == (
        "usage time=2025-11-24T16:00:00.250Z status=200 outcome=ok dialect=openai route=chat provider=main "
        "model=fast upstream_model=gpt-5 tokens_in=12 tokens_out=0 latency_ms=1234.6 request_id=req_1 "
        "ttft_ms=99.0 stream=true attempts=1 key_hash=0123456789ab"
    )


def test_a_usage_line_says_what_is_unknown() -> None:
    line = shown(
        exchange(
            provider=None, model=None, upstream_model=None, tokens_in=None, tokens_out=None, http_status=None
        )
    )
    for name in ("provider", "model", "upstream_model", "tokens_in", "tokens_out", "status"):
        assert f" {name}=- " in line


def test_a_usage_line_tells_of_a_session() -> None:
    line = shown(exchange(session_minutes=1.5, bytes_in=1, bytes_out=2, frames_in=3, frames_out=0))
    assert " bytes_in=1 bytes_out=2 frames_in=3 frames_out=0 session_minutes=1.500 " in line


def test_a_usage_line_says_why_an_exchange_did_not_end_well() -> None:
    line = shown(exchange(error="reset", upstream_request_id="up_1"))
    assert " request_id=req_1 error=reset " in line
    assert line.endswith(" upstream_request_id=up_1")


def test_a_usage_line_names_the_dropped_fields() -> None:
    line = shown(exchange(dropped_fields=("logit_bias", "messages[].name")))
    assert line.endswith(" dropped_fields=logit_bias,messages[].name")


def test_an_outcome_stands_beside_the_status() -> None:
    line = shown(exchange(status=Outcome.CLIENT_ABORT, http_status=499))
    assert " status=499 outcome=client_abort " in line


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("gpt-5", "gpt-5"),
        ("meta/llama:4@x", "meta/llama:4@x"),
        ("größe", "größe"),
        (None, "-"),
        ("-", '"-"'),
        ("", '""'),
        ("a b", '"a b"'),
        ("a=b", '"a=b"'),
        ('a"b', r'"a\"b"'),
        ("a\nusage status=200", r'"a\nusage status=200"'),
        ("a\x9b31m", r'"a\u009b31m"'),
        ("a\u2028b", r'"a\u2028b"'),
        ("a\ud800", r'"a\ud800"'),
    ],
)
def test_a_value_is_a_bare_word_or_a_json_string(value: str | None, text: str) -> None:
    assert format_value(value) == text


def test_a_long_value_is_cut() -> None:
    assert format_value("m" * 256) == "m" * 256
    assert format_value("m" * 257) == "m" * 256 + ELLIPSIS


def test_a_credential_in_a_path_is_not_shown() -> None:
    assert "canary" not in format_value("/v1beta/models/x%3Fkey=canary-1234")


@pytest.mark.parametrize("before", ["", "models/", "a:"])
@pytest.mark.parametrize(
    "value",
    [
        "sk-proj-CANARY0123456789",
        "AIzaCANARY0123456789",
        "ya29.CANARY0123456789",
        "eyJCANARY0123.CANARY.CANARY",
        "gsk_CANARY0123456789",
        "xai-CANARY0123456789",
        "pplx-CANARY0123456789",
        "nvapi-CANARY0123456789",
        "hf_CANARY0123456789",
        "AKIACANARY0123456789",
        "ASIACANARY0123456789",
        "my_key%3dCANARY0123456789",
        "Proxy-Authorization:CANARY0123456789",
        "x-goog-api-key:CANARY0123456789",
        "X-Api-Key:CANARY0123456789",
    ],
)
def test_a_credential_that_is_the_whole_value_is_not_shown(value: str, before: str) -> None:
    assert "CANARY" not in format_value(before + value)
    assert "CANARY" not in hide_credentials(before + value)
    assert "CANARY" not in shown(exchange(model=before + value, upstream_request_id=before + value))


@pytest.mark.parametrize("prefix", ["Authorization: AWS4-HMAC-SHA256 Credential=", "", "?X-Amz-Credential="])
def test_a_signature_of_aws_is_not_shown(prefix: str) -> None:
    signature = "0123456789abcdef" * 4
    said = f"{prefix}AKIACANARY0123456789/20260102/us-east-1/bedrock/aws4_request, Signature={signature}"
    assert signature not in hide_credentials(said)
    assert "AKIACANARY" not in hide_credentials(said)
    assert signature not in format_value(f"/x?X-Amz-Signature%3D{signature}")
    assert "Signature=wrong" in hide_credentials("Signature=wrong")


@given(value=st.text(st.sampled_from("ask-_/:%3dAIza.xyeJ0123456789"), max_size=40))
def test_any_bare_value_is_one_that_needs_no_redaction(value: str) -> None:
    assert hide_credentials(value) == redact_patterns(value)


@given(model=st.one_of(st.text(st.sampled_from('a -="\\\n\x9b\u2028\ud800')), st.text()))
def test_any_model_name_leaves_a_line_that_can_be_taken_apart(model: str) -> None:
    line = shown(exchange(model=model))
    assert line.isprintable()
    found = taken_apart(line)
    assert (found["status"], found["request_id"]) == ("200", "req_1")
    assert found["model"] == model or "[redacted]" in found["model"]


def test_the_usage_log_writes_one_line_per_event() -> None:
    clock = Clock()
    lines, output = log_on(clock)
    sink = UsageLog(lines)
    sink.record_all(iter([exchange(model="größe"), exchange()]))
    sink.reopen()
    sink.flush()
    clock.advance(0)
    assert output.written.decode() == f"{shown(exchange(model='größe'))}\n{shown(exchange())}\n"


def test_the_usage_log_writes_what_waits_when_it_is_closed() -> None:
    clock = Clock()
    lines, output = log_on(clock)
    sink = UsageLog(lines)
    sink.record_all(iter([exchange()]))
    closed = sink.close()
    clock.pump([0, 0])
    assert closed.called
    assert output.written
    assert (sink.errors, sink.dropped) == (0, 0)


def access(method: str, raw_path: str, status: int = 200, error: str | None = None) -> str:
    """The access line of one request."""
    clock = Clock()
    lines, output = log_on(clock)
    ended = EndedRequest(
        1_764_000_000.25, method.encode("latin-1"), raw_path.encode("latin-1"), status, 0.0123, "req_1", error
    )
    AccessLog(lines).record_all([ended])
    clock.advance(INTERVAL)
    return output.written.decode()


def test_an_access_line_has_its_fields_in_a_fixed_order() -> None:
    assert access("POST", "/v1/chat/completions") == (
        "http time=2025-11-24T16:00:00.250Z status=200 method=POST path=/v1/chat/completions latency_ms=12.3 "
        "request_id=req_1\n"
    )


def test_an_access_line_says_why_a_request_did_not_end_well() -> None:
    assert access("GET", "/", 502, "dns").endswith(" request_id=req_1 error=dns\n")


def test_a_query_is_not_logged() -> None:
    line = access("GET", "/v1beta/models?key=canary&pageSize=2")
    assert " path=/v1beta/models " in line
    assert "canary" not in line


@pytest.mark.parametrize("raw_path", ["/healthz", "/metrics", "/metrics?x=1"])
def test_what_is_asked_all_the_time_is_not_logged(raw_path: str) -> None:
    assert not access("GET", raw_path)


def test_a_path_cannot_forge_a_line() -> None:
    line = access("GET", "/a\r\nhttp status=500")
    assert line.count("\n") == 1
    assert shlex.split(line)[2] == "status=200"
