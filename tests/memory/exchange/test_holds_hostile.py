"""No request walks around a limit by its shape, and none is given room back in a new period."""

from __future__ import annotations

import gzip
import json
from typing import Any, Final

import pytest
from msgspec.structs import replace

from mgw.bodies.source import BodySource, MemoryBody
from mgw.clients.client import clients_of
from mgw.clients.limits import Taken
from mgw.config.provider import Provider
from mgw.exchange.charge import charge_for
from mgw.exchange.offload import SEARCHED_BYTES
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Kind
from mgw.routing.resolve import Target
from mgw.routing.routes import ROUTES
from mgw.usage.event import Outcome
from tests.memory.exchange.test_holds import TOKENS, USD, Asked, held_for
from tests.memory.exchange.test_untold import UNTOLD
from tests.support.bodies import SteppedDisk
from tests.support.deferreds import refusal_of
from tests.support.pipelines import answered
from tests.support.translation import asked, said

IMAGES: Final = "/v1/images/generations"
EDITS: Final = "/v1/images/edits"
SPEECH: Final = "/v1/audio/speech"
AN_IMAGE: Final = 40_000_000
FORM: Final = [(b"Content-Type", b"multipart/form-data; boundary=xyz")]
PADDING: Final = " " * SEARCHED_BYTES
DAY: Final = 86_400.0


@pytest.fixture
def gateway() -> Asked:
    return Asked()


def form(**parts: str) -> bytes:
    head = b'--xyz\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n'
    named = b"".join(head % (name.encode(), value.encode()) for name, value in parts.items())
    return named + b"--xyz--\r\n"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", b'{"prompt":{"id":"pmpt_1"},"input":"hi"}'),
        (IMAGES, b'{"prompt":"a fox"}'),
        ("/v1beta/interactions", b'{"agent":"deep-research","input":"hi"}'),
        ("/v1/rerank", b'{"query":"fox","documents":["dog"]}'),
    ],
)
def test_a_request_without_a_model_has_no_price(gateway: Asked, path: str, body: bytes) -> None:
    _, done = gateway.ask(body, path)
    error = refusal_of(done)
    assert (error.reason, "names no model" in error.message) == (Reason.MODEL_NOT_PRICED, True)
    assert gateway.pipeline.endpoint.connections == []
    assert gateway.books.held == []


@pytest.mark.parametrize(("path", "method"), [("/v1/moderations", "POST"), ("/v1/videos/video_1", "GET")])
def test_what_costs_nothing_needs_no_model(gateway: Asked, path: str, method: str) -> None:
    gateway.pipeline.ask(path, b'{"input":"hi"}' if method == "POST" else b"", method=method)
    assert len(gateway.books.held) == 1


def test_a_request_without_a_model_is_admitted_where_the_operator_allows_it() -> None:
    gateway = Asked(unpriced="allow")
    gateway.ask(b'{"prompt":{"id":"pmpt_1"},"input":"hi"}', "/v1/responses")
    assert len(gateway.books.held) == 1


JSON_IMAGES: Final = json.dumps({"model": "dall-e-3", "prompt": "a fox", "n": 3}).encode()


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        (IMAGES, gzip.compress(JSON_IMAGES), [(b"Content-Encoding", b"gzip")]),
        (IMAGES, JSON_IMAGES + PADDING.encode(), None),
        (EDITS, MemoryBody(form(model="dall-e-3", image="\x89PNG", n="3", prompt="a fox")), FORM),
        (EDITS, form(model="dall-e-3", n="3", prompt="a fox"), FORM),
    ],
)
def test_images_are_held_by_their_number_however_that_is_stated(
    gateway: Asked, path: str, body: bytes | BodySource, headers: Any
) -> None:
    gateway.pipeline.ask(path, body, headers)
    assert gateway.books.held == [Taken(1, 0, 3 * AN_IMAGE)]


@pytest.mark.parametrize(
    ("stated", "images"), [("0", 1), ("-4", 1), ("x", 1), ("1e3", 1), ("999", 128), ("9" * 3000, 128)]
)
def test_odd_numbers_of_images_in_a_form_are_bounded(gateway: Asked, stated: str, images: int) -> None:
    gateway.pipeline.ask(EDITS, MemoryBody(form(model="dall-e-3", n=stated)), FORM)
    assert gateway.books.held == [Taken(1, 0, images * AN_IMAGE)]


def test_a_long_request_for_speech_is_charged_by_its_text(gateway: Asked) -> None:
    gateway.ask(b'{"model":"tts-1","voice":"x","input":"hello, fox"%b}' % PADDING.encode(), SPEECH)
    assert gateway.books.held == [Taken(1, 0, 150_000)]
    gateway.send(answered(b"sound", content_type=b"audio/mpeg"))
    assert gateway.charged == 150_000


def test_text_to_be_spoken_that_is_not_found_holds_the_length_of_its_request(gateway: Asked) -> None:
    body = b'{"model":"tts-1","voice":"x","input":["hello, fox"]}'
    gateway.ask(body, SPEECH)
    assert gateway.books.held == [Taken(1, 0, len(body) * 15_000)]


def test_what_a_deferred_answer_names_as_its_price_is_charged(gateway: Asked) -> None:
    gateway.pipeline.ask("/v1/chat/deferred-completion/1", b"", method="GET")
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "cost_in_usd_ticks": 30_000_000}
    gateway.send(said({"choices": [], "usage": usage}))
    assert gateway.charged == 3_000_000


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/agents/automations"),
        ("POST", "/v1/agents/automations/a1/resume"),
        ("POST", "/v1/agents/automations/a1"),
        ("POST", "/v1/deployments/d1"),
        ("PATCH", "/v1beta/triggers/t1"),
    ],
)
def test_what_starts_sessions_of_agents_later_hides_its_cost(gateway: Asked, method: str, path: str) -> None:
    with pytest.raises(GatewayError) as refused:
        gateway.pipeline.ask(path, b"{}", method=method)
    assert refused.value.reason is Reason.ROUTE_NOT_PRICED


@pytest.mark.parametrize(("passes_midnight", "is_given_back"), [(False, True), (True, False)])
def test_an_estimate_that_is_known_in_a_new_period_gives_no_room_there(
    *, passes_midnight: bool, is_given_back: bool
) -> None:
    gateway = Asked(f"{TOKENS}, {USD}, {{in_flight: 5}}")
    gateway.thread.is_waiting = True
    clock, wall = gateway.pipeline.clock, gateway.pipeline.wall
    started = clock.seconds()
    gateway.books.clock = lambda: wall + clock.seconds() - started
    gateway.ask(asked("gpt-b", max_tokens=900, stream=True))
    (held,) = gateway.books.held
    gateway.send(answered(UNTOLD, content_type=b"text/event-stream"))
    assert gateway.books.row("tokens_per_day") == (held.tokens, 0)
    if passes_midnight:
        clock.advance(DAY - wall % DAY + 1)
    (client,) = clients_of(gateway.pipeline.generation.config.edge_auth, gateway.books)
    gateway.books.add(client.limits, Taken(1, 2000))
    gateway.thread.go_on()
    event = gateway.pipeline.settled[-1]
    assert event.counted_tokens < held.tokens
    used = event.counted_tokens if is_given_back else 0
    assert gateway.books.row("tokens_per_day") == (2000 + used, 0)


LARGE: Final = asked("gpt-b", max_tokens=5, user="fox and dog " * (SEARCHED_BYTES // 12 + 1))
CODED: Final = gzip.compress(asked("gpt-b", max_tokens=5, user="fox and dog " * SEARCHED_BYTES), 1)


@pytest.mark.parametrize(
    ("body", "headers"), [(LARGE, None), (CODED, [(b"Content-Encoding", b"gzip")])], ids=["large", "coded"]
)
@pytest.mark.parametrize("steps", range(8))
def test_a_client_that_leaves_while_a_thread_works_leaves_nothing_held(
    gateway: Asked, body: bytes, headers: Any, steps: int
) -> None:
    disk = SteppedDisk()
    gateway.pipeline.offload = disk
    _, done = gateway.ask(body, headers=headers)
    _ = done.addErrback(lambda _: None)
    for _ in range(steps):
        if disk.waiting:
            disk.step()
    done.cancel()
    disk.run()
    assert gateway.books.row("tokens_per_day") == (0, 0)
    assert gateway.books.row("usd_per_month") == (0, 0)
    assert gateway.books.in_flight("alice") == 0


@pytest.mark.parametrize("body", [LARGE, CODED], ids=["large", "coded"])
def test_what_a_thread_has_looked_at_holds_the_same(gateway: Asked, body: bytes) -> None:
    disk = SteppedDisk()
    gateway.pipeline.offload = disk
    gateway.ask(body, headers=[(b"Content-Encoding", b"gzip")] if body is CODED else None)
    assert gateway.books.held == []
    disk.run()
    plain = gzip.decompress(CODED) if body is CODED else body
    assert gateway.books.held == [held_for(plain, 5)]


def test_a_spooled_body_that_asks_a_model_holds_its_size(gateway: Asked) -> None:
    gateway = Asked(TOKENS)
    body = MemoryBody(b'{"tool_outputs":[{"output":"%b"}]}' % (b"fox " * 5000))
    gateway.pipeline.ask("/v1/threads/t/runs/r/submit_tool_outputs", body)
    assert gateway.books.held == [Taken(1, -(-body.size // 4) + 1000, 0)]


@pytest.mark.parametrize("times", [1, 6])
def test_a_model_that_is_stated_twice_is_the_one_that_has_the_price_everywhere(
    gateway: Asked, times: int
) -> None:
    twice = b'{"model":"gpt-dear-unknown","model":"gpt-b","messages":[{"role":"user","content":"hi"}]}'
    for _ in range(times):  # the last ones are known already
        gateway.ask(twice)
        gateway.send(said({}))
    sent = [json.loads(body, object_pairs_hook=list) for body in bodies_sent(gateway)]
    assert [[value for key, value in body if key == "model"] for body in sent] == [["gpt-b", "gpt-b"]] * times


def bodies_sent(gateway: Asked) -> list[bytes]:
    heads = [one.received for one in gateway.pipeline.endpoint.connections]
    return [part.partition(b"\r\n\r\n")[2] for head in heads for part in head.split(b"POST ")[1:]]


@pytest.mark.parametrize(
    ("outcome", "status", "has_answer", "charged"),
    [
        (Outcome.OK, 200, True, 7),
        (Outcome.REJECTED, 401, True, 7),
        (Outcome.REJECTED, 429, False, 0),
        (Outcome.CLIENT_ABORT, 499, True, 7),
        (Outcome.CLIENT_ABORT, 499, False, 0),
        (Outcome.UPSTREAM_ERROR, 200, True, 7),
        (Outcome.UPSTREAM_ERROR, 400, True, 0),
    ],
)
def test_images_cost_what_was_held_as_soon_as_they_are_answered(
    gateway: Asked, outcome: Outcome, status: int, *, has_answer: bool, charged: int
) -> None:
    gateway.ask(JSON_IMAGES, IMAGES)
    gateway.send(said({}))
    row = replace(gateway.pipeline.settled[-1], outcome=outcome, http_status=status, cost=None)
    (route,) = [one for one in ROUTES if one.name == "images_generations"]
    prices, target = (
        gateway.pipeline.generation.prices,
        Target(Provider(kind=Kind.OPENAI), "dall-e-3", "dall-e-3"),
    )
    assert charge_for(row, route, target, prices, 7, has_answer=has_answer) == charged
