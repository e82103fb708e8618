"""Why an exchange did not end well: one word in its event, and one warning a minute that says the rest."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.error import DNSLookupError
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import provider

from mgw.nouns.errors import GatewayError
from mgw.upstream.tls import CertificateNameError
from mgw.usage.event import Outcome, UsageEvent
from tests.support.pipelines import Pipeline, answered

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"


@contextmanager
def warnings() -> Iterator[list[str]]:
    """What the process log is told meanwhile."""
    heard: list[str] = []

    @provider(ILogObserver)
    def observe(event: LogEvent) -> None:
        heard.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)
    try:
        yield heard
    finally:
        globalLogPublisher.removeObserver(observe)


class Asked:
    """One request to a provider that the test plays, and what became of it."""

    def __init__(self, pipeline: Pipeline | None = None, refusal: Exception | None = None) -> None:
        self.pipeline = pipeline or Pipeline()
        self.pipeline.endpoint.refusal = refusal
        self.errors: list[GatewayError] = []
        _, self.done = self.pipeline.ask()
        _ = self.done.addErrback(self._failed)

    @property
    def event(self) -> UsageEvent:
        return self.pipeline.events[-1]

    def _failed(self, failure: Failure) -> None:
        failure.trap(GatewayError)
        assert isinstance(failure.value, GatewayError)
        self.errors.append(failure.value)


def nothing(_: Asked) -> None:
    """The attempt to connect has failed already."""


def hangs_up(asked: Asked) -> None:
    asked.pipeline.connection.close()


def hangs_up_in_the_head(asked: Asked) -> None:
    asked.pipeline.connection.send(b"HTTP/1.1 200")
    asked.pipeline.connection.reset()


def breaks_off(asked: Asked) -> None:
    asked.pipeline.connection.send(HEAD + b"half")
    asked.pipeline.connection.reset()


def says_nothing(asked: Asked) -> None:
    asked.pipeline.clock.advance(601)


def falls_silent(asked: Asked) -> None:
    asked.pipeline.connection.send(HEAD + b"half")
    asked.pipeline.clock.advance(301)


def greets(asked: Asked) -> None:
    asked.pipeline.connection.send(b"220 mail.example ESMTP\r\n")


def mumbles(asked: Asked) -> None:
    asked.pipeline.connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")


def answers(status: bytes) -> Callable[[Asked], None]:
    return lambda asked: asked.pipeline.connection.send(answered(b"{}", status))


@pytest.mark.parametrize(
    ("refusal", "happens", "word", "sentence"),
    [
        (Refused(), nothing, "refused_connection", "provider main refused the connection"),
        (DNSLookupError(), nothing, "dns", "provider main cannot be found: its host name has no address"),
        (TimeoutError(), nothing, "connect_timeout", "provider main did not accept a connection within 10 s"),
        (
            CertificateNameError("that is not valid for its host name"),
            nothing,
            "tls",
            "provider main has a certificate that is not valid for its host name",
        ),
        (None, hangs_up, "reset", "provider main closed the connection before it responded"),
        (None, hangs_up_in_the_head, "reset", "closed the connection in the middle of the response head"),
        (None, breaks_off, "truncated", "provider main closed the connection in the middle of the response"),
        (None, says_nothing, "first_byte_timeout", "provider main sent no response within 600 s"),
        (None, falls_silent, "idle_timeout", "was silent for 300 s in the middle of the response"),
        (None, greets, "not_http", "provider main sent something that is not HTTP"),
        (None, mumbles, "unreadable", "provider main sent an unreadable response"),
        (None, answers(b"503 Busy"), "upstream_5xx", "the provider returned status 503"),
        (None, answers(b"429 Slow"), "upstream_4xx", "the provider returned status 429"),
    ],
)
def test_a_failure_is_one_word_in_the_event_and_the_clients_sentence_in_the_log(
    refusal: Exception | None, happens: Callable[[Asked], None], word: str, sentence: str
) -> None:
    with warnings() as heard:
        asked = Asked(refusal=refusal)
        happens(asked)
    assert (asked.event.error, asked.event.status) == (word, Outcome.UPSTREAM_ERROR)
    (warning,) = heard
    assert sentence in warning
    assert f"(provider=main error={word} request_id=req_1)" in warning
    for error in asked.errors:
        assert error.message in warning
        assert "example" not in error.message  # where a provider is
    if refusal is not None:
        assert "api.openai.com" in warning or ".example" in warning


def test_the_providers_refusal_of_a_request_is_no_warning() -> None:
    with warnings() as heard:
        asked = Asked()
        answers(b"400 Bad Request")(asked)
    assert (asked.event.error, heard) == ("upstream_4xx", [])


def test_what_ends_well_has_no_error_and_the_providers_id() -> None:
    asked = Asked()
    asked.pipeline.connection.send(
        HEAD.replace(b"Content-Type", b"X-Request-ID: up_1\r\nContent-Type") + b"{}       "
    )
    assert (asked.event.status, asked.event.error) == (Outcome.OK, None)
    assert asked.event.upstream_request_id == "up_1"


@pytest.mark.parametrize("value", [b"", b"a b", b"x" * 129, b"\xff"])
def test_an_id_that_cannot_be_believed_is_left_out(value: bytes) -> None:
    asked = Asked()
    head = HEAD.replace(b"Content-Type", b"request-id: " + value + b"\r\nContent-Type")
    asked.pipeline.connection.send(head + b"{}       ")
    assert asked.event.upstream_request_id is None


def test_one_cause_of_one_provider_is_told_once_a_minute_and_counted_meanwhile() -> None:
    pipeline = Pipeline()
    with warnings() as heard:
        for _ in range(3):
            Asked(pipeline, Refused())
        assert len(heard) == 1
        Asked(pipeline, DNSLookupError())
        assert len(heard) == 2
        pipeline.clock.advance(60)
        Asked(pipeline, Refused())
    assert heard[2].endswith("; 2 more of these since the last warning")
    assert [event.error for event in pipeline.events].count("refused_connection") == 4


def test_of_the_providers_own_words_the_message_alone_is_in_the_warning() -> None:
    pipeline = Pipeline()
    with warnings() as heard:
        _, done = pipeline.ask(
            "/v1/messages", b'{"model":"main/m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}'
        )
        _ = done.addErrback(lambda _: None)
        body = b'{"error":{"message":"no such model","param":"canary"},"request":"canary"}'
        pipeline.connection.send(answered(body))
    assert pipeline.event().error == "unreadable"
    assert "no such model" in heard[0]
    assert "canary" not in "".join(heard)


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":%b}]}\n\n'
STREAMING = b'{"model":"main/m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}'


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_a_client_that_leaves_behind_the_last_event_had_all_of_it(path: str) -> None:
    """The provider's last chunk, which ends its body, comes later or never."""
    pipeline = Pipeline()
    _, done = pipeline.ask(path, STREAMING)
    _ = done.addErrback(lambda _: None)
    pipeline.connection.send(
        STREAM + chunk(CHUNKS % b"null") + chunk(CHUNKS % b'"stop"') + chunk(b"data: [DONE]\n\n")
    )
    done.cancel()
    event = pipeline.event()
    assert (event.status, event.http_status, event.error) == (Outcome.OK, 200, None)


def test_a_compressed_stream_is_looked_into_for_its_last_event() -> None:
    zipped = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    pieces = [
        zipped.compress(data) + zipped.flush(zlib.Z_SYNC_FLUSH)
        for data in (b"", CHUNKS % b"null", CHUNKS % b'"stop"', b"data: [DONE]\n\n")
    ]
    head = STREAM.replace(b"Transfer-", b"Content-Encoding: gzip\r\nTransfer-")
    for count, outcome in ((3, Outcome.CLIENT_ABORT), (4, Outcome.OK)):
        pipeline = Pipeline()
        _, done = pipeline.ask("/v1/chat/completions", STREAMING)
        _ = done.addErrback(lambda _: None)
        pipeline.connection.send(head + chunk(pieces[0][:5]))
        pipeline.connection.send(chunk(pieces[0][5:] + b"".join(pieces[1:count])))
        done.cancel()
        assert pipeline.event().status is outcome


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_a_client_that_leaves_before_the_last_event_has_left(path: str) -> None:
    pipeline = Pipeline()
    _, done = pipeline.ask(path, STREAMING)
    _ = done.addErrback(lambda _: None)
    pipeline.connection.send(STREAM + chunk(CHUNKS % b"null"))
    done.cancel()
    event = pipeline.event()
    assert (event.status, event.http_status, event.error) == (Outcome.CLIENT_ABORT, 499, "client_abort")
