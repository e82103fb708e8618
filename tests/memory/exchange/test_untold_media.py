"""Tokens that nobody tells of requests that are no chat: media, interactions, runs, and what is ranked."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from mgw.bodies.source import MemoryBody
from mgw.exchange.untold import may_be_estimated
from mgw.nouns.vocabulary import Modality
from mgw.routing.route import Treatment
from mgw.routing.routes import ROUTES
from mgw.tokens.estimate import UNSEEN_IMAGE
from tests.memory.exchange.test_holds import Asked as Charged
from tests.memory.exchange.test_untold import IN, KEY, OUT, SSE, TEXT, TOKENS, Asked, Thread
from tests.support.chat_streams import sse
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import answered

JSON: Final = b"application/json"
FORM: Final = [(b"Content-Type", b"multipart/form-data; boundary=xyz")]
SECONDS: Final = 60
SOUND: Final = b"\x00\xff" * (8_000 * SECONDS)
HEADS: Final = (
    b'--xyz\r\nContent-Disposition: form-data; name="model"\r\n\r\nmain/whisper-1\r\n'
    b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a.mp3"\r\n\r\n'
)
UPLOAD: Final = MemoryBody(HEADS + SOUND + b"\r\n--xyz--\r\n")
SPEECH: Final = json.dumps({"model": "main/tts-1", "voice": "x", "input": TEXT}).encode()
DRAWING: Final = json.dumps({"model": "main/dall-e-3", "prompt": TEXT, "n": 2}).encode()
INTERACTION: Final = json.dumps({"model": "gem/gem-x", "input": TEXT})
RUN: Final = json.dumps({"assistant_id": "a", "model": "main/m", "additional_messages": [{"content": TEXT}]})


def about(tokens: int) -> Any:  # Any: as pytest has it
    return pytest.approx(tokens, rel=0.15, abs=40)


def parts(**more: Any) -> bytes:  # Any: JSON
    return json.dumps(more).encode()


ANSWERS: Final = [
    ("speech", "/v1/audio/speech", SPEECH, b"sound" * 999, b"audio/mpeg", OUT, None),
    ("a transcription", "/v1/audio/transcriptions", UPLOAD, parts(text=TEXT), JSON, 600, OUT),
    ("a transcription as text", "/v1/audio/transcriptions", UPLOAD, TEXT.encode(), b"text/plain", 600, OUT),
    ("images", "/v1/images/generations", DRAWING, parts(data=[{"url": "u"}]), JSON, OUT, 2 * UNSEEN_IMAGE),
    (
        *(
            "an edited image",
            "/v1/images/edits",
            MemoryBody(HEADS.replace(b"whisper-1", b"dall-e-3") + SOUND),
        ),
        *(parts(data=[{"url": "u"}]), JSON, UNSEEN_IMAGE, UNSEEN_IMAGE),
    ),
    (
        *("an interaction", "/v1beta/interactions", INTERACTION.encode()),
        *(parts(outputs=[{"type": "text", "text": TEXT}]), JSON, OUT, OUT),
    ),
    (
        *("a streamed interaction", "/v1beta/interactions", INTERACTION.encode()),
        *(sse({"event_type": "content.delta", "delta": {"type": "text", "text": TEXT}}), SSE, OUT, OUT),
    ),
    (
        *(
            "an interaction in the background",
            "/v1beta/interactions",
            f'{INTERACTION[:-1]},"background":true}}'.encode(),
        ),
        *(parts(id="i", status="in_progress"), JSON, OUT, 4096),
    ),
    (
        *(
            "an answer from passages",
            "/v1beta/models/gem-x:generateAnswer",
            parts(contents=[{"parts": [{"text": TEXT}]}]),
        ),
        *(parts(answer={"content": {"parts": [{"text": TEXT}]}}), JSON, OUT, OUT),
    ),
    ("a run", "/v1/threads/t1/runs", RUN.encode(), parts(id="run_1", status="queued"), JSON, OUT, 4096),
    (
        *("a run with a limit", "/v1/threads/runs", f'{RUN[:-1]},"max_completion_tokens":70}}'.encode()),
        *(parts(id="run_1", status="queued"), JSON, OUT, 70),
    ),
    (
        *("a streamed run", "/v1/threads/t1/runs", RUN.encode()),
        *(sse({"delta": {"content": [{"type": "text", "text": {"value": "x"}}]}}), SSE, OUT, 0),
    ),
    (
        *("what is ranked", "/v1/rerank", parts(model="main/r", query="fox", documents=[TEXT])),
        *(parts(results=[{"index": 0, "document": {"text": TEXT}}]), JSON, OUT, None),
    ),
]


@pytest.mark.parametrize(
    ("path", "body", "answer", "content_type", "tokens_in", "tokens_out"),
    [case[1:] for case in ANSWERS],
    ids=[case[0] for case in ANSWERS],
)
def test_what_is_no_chat_is_estimated_too(
    path: str, body: Any, answer: bytes, content_type: bytes, tokens_in: int, tokens_out: int | None
) -> None:
    if isinstance(body, MemoryBody) and not body.data.endswith(b"--xyz--\r\n"):
        body = MemoryBody(body.data + b"\r\n--xyz--\r\n")
    asked = Asked(TOKENS, body, path, FORM if isinstance(body, MemoryBody) else None)
    asked.answer(answer, content_type)
    assert (asked.event.tokens_in, asked.event.tokens_out) == (None, None)
    found_in, found_out = asked.estimated
    assert found_in == about(tokens_in)
    assert found_out == (None if tokens_out is None else about(tokens_out))
    assert asked.counts.taken[-1].tokens == (found_in or 0) + (found_out or 0)


def test_what_is_told_of_a_transcription_is_not_estimated() -> None:
    asked = Asked(TOKENS, UPLOAD, "/v1/audio/transcriptions", FORM)  # type: ignore[arg-type]  # read as others are
    asked.answer(parts(text="hi", usage={"type": "tokens", "input_tokens": 7, "output_tokens": 2}), JSON)
    assert (asked.event.tokens_in, asked.estimated) == (7, (None, None))


def test_nothing_of_an_upload_is_kept_for_its_estimate() -> None:
    thread = Thread(is_waiting=True)
    asked = Asked(TOKENS, UPLOAD, "/v1/audio/transcriptions", FORM, thread)  # type: ignore[arg-type]  # as above
    asked.answer(parts(text="hi"), JSON)
    assert asked.pipeline.estimates is not None
    assert asked.pipeline.estimates.pending_bytes == 0
    thread.go_on()
    assert asked.estimated[0] == about(600)


def test_without_a_limit_on_tokens_none_of_them_is_estimated() -> None:
    text = THREE_FAMILIES + KEY.format(more="", limits="requests_per_minute: 100")
    assert Asked(text, SPEECH, "/v1/audio/speech").answer(b"sound", b"audio/mpeg").estimated == (None, None)


def test_a_transcription_that_tells_no_length_is_charged_by_its_size() -> None:
    gateway = Charged("{usd: 1, per: month}")
    body = MemoryBody(UPLOAD.data.replace(b"whisper-1", b"by-minute"))
    gateway.pipeline.ask("/v1/audio/transcriptions", body, FORM)
    gateway.send(answered(parts(text="hi"), content_type=JSON))
    assert gateway.charged == pytest.approx(6_000_000, rel=0.05)


def test_an_image_without_a_price_of_its_own_is_charged_by_tokens() -> None:
    gateway = Charged("{usd: 1, per: month}")
    gateway.ask(parts(model="gpt-image", prompt="a fox"), "/v1/images/generations")
    gateway.send(answered(parts(data=[{"b64_json": "QUJD"}]), content_type=JSON))
    assert gateway.charged is not None
    assert gateway.charged >= UNSEEN_IMAGE * 10_000


def test_each_route_that_asks_a_model_is_estimated_and_no_other() -> None:
    exempt = {
        route.name for route in ROUTES if route.modality is Modality.TEXT and not may_be_estimated(route)
    }
    assert {name for name in exempt if "count" not in name and "input_tokens" not in name} == {
        "moderations",
        "complete",
    }
    for route in ROUTES:
        if route.treatment in (Treatment.COUNT, Treatment.REALTIME, Treatment.LOCAL) or not route.metered:
            assert not may_be_estimated(route), route.name


TRANSLATED: Final = (
    b'{"model":"claude/c","messages":[{"role":"user","content":"Tell me of a fox and a dog."}]}'
)
CUT: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"


@pytest.mark.parametrize(("data", "error"), [(CUT, "truncated"), (answered(b"no JSON"), "unreadable")])
def test_an_answer_that_cannot_be_handed_on_counts_its_request(data: bytes, error: str) -> None:
    asked = Asked(TOKENS, TRANSLATED)
    asked.pipeline.connection.send(data)
    if error == "truncated":
        asked.pipeline.connection.reset()
    assert (asked.event.http_status, asked.event.error) == (502, error)
    assert asked.estimated == (pytest.approx(IN, abs=4), 0)


def test_a_stream_that_is_nothing_but_an_error_counts_nothing() -> None:
    asked = Asked(TOKENS, TRANSLATED[:-1] + b',"stream":true}')
    event = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n'
    asked.answer(event)
    assert (asked.event.error, asked.estimated) == ("upstream_error_event", (None, None))
