"""No secret gets into the process log, whoever wrote the line."""

from __future__ import annotations

from io import StringIO

import pytest
from twisted.logger import Logger, LogLevel, textFileLogObserver
from twisted.python.failure import Failure

from mgw.nouns.secret import REDACTED, Secret, redact_patterns, redact_secrets
from mgw.ops.logs import RedactingObserver

CANARY = "canary-7f3a91"


def logged(canary: str = CANARY) -> tuple[Logger, StringIO]:
    """A logger behind the observer, and what twistd's own observer would write."""
    stream = StringIO()
    observer = RedactingObserver(textFileLogObserver(stream), lambda: [Secret(canary)])
    return Logger("test", observer=observer), stream


def test_a_line_without_a_secret_is_written_as_ever() -> None:
    log, stream = logged()
    log.warn("{account} rests for {seconds} s", account="main", seconds=5)
    assert stream.getvalue().endswith(" [test#warn] main rests for 5 s\n")


def test_braces_in_a_value_are_no_format() -> None:
    log, stream = logged()
    log.info("{text}", text="{log_level} {0}")
    assert stream.getvalue().endswith("] {log_level} {0}\n")


def test_a_known_secret_in_a_value_is_not_written() -> None:
    log, stream = logged()
    log.info("answer: {answer}", answer=f"no account has {CANARY} here")
    assert stream.getvalue().endswith(f"] answer: no account has {REDACTED} here\n")


def test_a_known_secret_is_found_percent_encoded() -> None:
    assert redact_secrets("x=abcd%2Fefgh", [Secret("abcd/efgh")]) == f"x={REDACTED}"


def test_a_secret_that_begins_with_another_leaves_nothing_behind() -> None:
    secrets = [Secret("abcd.efg"), Secret("abcd.efg.hij")]
    assert redact_secrets("abcd.efg.hij", secrets) == REDACTED


def test_a_word_too_short_for_a_secret_stays() -> None:
    assert redact_secrets("a sea", [Secret("a")]) == "a sea"


def fails_with_a_secret(secret: str) -> None:
    """Raise an error that quotes its argument, from a frame that holds it."""
    held = secret
    raise ValueError(f"cannot reach https://host/v1?alt=sse&x={held}")


def test_a_failures_message_and_traceback_are_without_the_secret() -> None:
    log, stream = logged()
    try:
        fails_with_a_secret(CANARY)
    except ValueError:
        log.failure("a bug")
    text = stream.getvalue()
    assert CANARY not in text
    assert "fails_with_a_secret" in text
    assert f"x={REDACTED}" in text


def test_local_variables_are_not_written_though_a_failure_holds_them() -> None:
    log, stream = logged(canary="another-secret")
    try:
        "".join([CANARY, 1])  # type: ignore[list-item]  # it is to fail
    except TypeError:
        held = CANARY.upper()
        log.failure("a bug", failure=Failure(captureVars=True))
        assert held not in stream.getvalue()
    assert "a bug" in stream.getvalue()


def test_an_event_that_cannot_be_formatted_is_written_without_the_secret() -> None:
    log, stream = logged()
    log.info("{missing}", present=CANARY)
    assert "Unable to format" in stream.getvalue()
    assert CANARY not in stream.getvalue()


def test_no_field_of_an_event_reaches_the_observer_behind() -> None:
    seen: list[dict[str, object]] = []
    log = Logger("test", observer=RedactingObserver(seen.append, list))
    log.error("a line", canary=CANARY)
    (format_value,) = seen
    assert CANARY not in str(format_value)
    assert format_value["log_level"] is LogLevel.error
    assert format_value["log_text"] == "a line"


@pytest.mark.parametrize(
    "text",
    [
        f"GET /v1beta/models?alt=sse&key={CANARY}&x=1",
        f"GET /v1beta/models?key%3D{CANARY}",
        f"grant_type=x&refresh_token={CANARY}",
        f"client_secret={CANARY};",
        f"Authorization: Bearer {CANARY}",
        f"Authorization: Basic {CANARY}",
        f"{{'authorization': 'bearer {CANARY}'}}",
        f"(b'Authorization', b'Bearer {CANARY}')",
        f"x-api-key: {CANARY}",
        f"[(b'x-goog-api-key', b'{CANARY}')]",
        f"sk-ant-{CANARY}",
        f"the key sk-{CANARY} is wrong",
        f"AIzaSy{CANARY}",
        f"ya29.{CANARY}",
        f"the token {CANARY}0 has expired",
        f"gsk_{CANARY}{CANARY}",
        f"xai-{CANARY}{CANARY}",
        f"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOi{CANARY}.{CANARY}",
        f"/a/eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOi{CANARY}…",
        f"/a/eyJhbGciOiJSUzI1NiJ9{CANARY}…",
    ],
)
def test_what_looks_like_a_credential_is_not_written(text: str) -> None:
    found = redact_patterns(text)
    assert CANARY not in found
    assert REDACTED in found


@pytest.mark.parametrize(
    "text",
    [
        "task-force-of-many-words",
        "max_tokens=5 tokens_in=12",
        "the bearer of news",
        "a token limitation of this model, or a token whatsoever",
        "key_hash=0123456789ab",
        "mgw.yaml:14: providers.main.base_ulr: unknown key, did you mean base_url?",
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    assert redact_patterns(text) == text


def test_a_long_text_is_looked_through_in_no_time() -> None:
    assert redact_patterns("key" * 100_000) == "key" * 100_000
    for text in ("eyJ" * 100_000, "eyJaaaaaaaa.." * 20_000, "eyJaaaaaaaa.b " * 20_000):
        assert redact_patterns(text) == text
