"""A further dialect is its folder, its routes and two lines: a made-up one works with all that ship.

The lines would be its name among the names, and its ``Dialect`` in the registry.  The product's own are not
touched here: the registry is made from a list.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.conversation import Role, Text, ToolCall, ToolResult
from mgw.canonical.replay import replay_reply
from mgw.canonical.reply import Candidate, Reply, StopReason, TokenUsage, UpstreamError
from mgw.dialects import ClientSide, ProviderSide, Registry, load_dialect
from mgw.dialects.dialect import RenderOptions, ReplyContext, ReplySource, RequestContext
from mgw.dialects.last_event import LastEvent
from mgw.dialects.models import Models
from mgw.dialects.openai.options import ChatReplyOptions
from mgw.dialects.stream_end import StreamEnd
from mgw.exchange.stream_filter import StreamFilter
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import DialectName, Family, Kind, Modality
from mgw.routing.match import RouteTable
from mgw.routing.model_source import ModelAt, ModelSource
from mgw.routing.route import Route, Treatment
from mgw.routing.routes import ROUTES
from tests.support import postcards

Json = Any  # Any: JSON

OTHERS: Final = (
    DialectName.OPENAI_CHAT,
    DialectName.OPENAI_RESPONSES,
    DialectName.ANTHROPIC,
    DialectName.GEMINI,
)
"""The dialects that translate."""
REGISTRY: Final = Registry(lambda name: postcards.DIALECT if name == postcards.NAME else load_dialect(name))
ROUTE: Final = Route(
    "postcards",
    "POST",
    "/v1/postcards",
    postcards.NAME,
    Modality.TEXT,
    ModelSource(ModelAt.BODY),
    Treatment.CHAT,
    translated_for=frozenset(Family),
)
REQUEST: Final = {
    "to": "a-model",
    "notice": "Be brief.",
    "cards": [
        {"from": "me", "say": "What is there?"},
        {"from": "you", "run": {"id": "call_1", "tool": "look", "with": {"at": "door"}}},
        {"from": "me", "got": {"id": "call_1", "say": "A cat."}},
        {"from": "me", "say": "And now?"},
    ],
    "tools": [{"tool": "look", "takes": {"type": "object", "properties": {"at": {"type": "string"}}}}],
    "most": 99,
    "stamp": "a penny",
}
SAID: Final = [
    (Role.USER, "What is there?"),
    (Role.ASSISTANT, 'look({"at":"door"})'),
    (Role.USER, "A cat."),
    (Role.USER, "And now?"),
]
USAGE: Final = TokenUsage(7, 5)
REPLY: Final = Reply(
    (Candidate((Text("I look."), ToolCall("call_2", "look", '{"at":"tree"}')), StopReason.TOOL_USE),),
    usage=USAGE,
)
ANSWER: Final[Json] = {
    "cards": [{"say": "I look."}, {"run": {"id": "call_2", "tool": "look", "with": {"at": "tree"}}}],
    "end": "run",
    "usage": {"read": 7, "wrote": 5},
}
UNSAID: Final = {
    DialectName.OPENAI_RESPONSES: {"tools[].strict"},
    DialectName.GEMINI: {"contents[].parts[].functionResponse.name"},
}
"""What the requests of the others say that has no card."""
CONTEXT: Final = ReplyContext("req_1", "a-model", 1_770_000_000, ChatReplyOptions(include_usage=True))
SOURCE: Final = ReplySource("seed")
MODELS: Final = Models(())


def side_of_clients(name: DialectName) -> ClientSide:
    return REGISTRY.clients[name]


def side_of_providers(name: DialectName) -> ProviderSide:
    return REGISTRY.providers[name]


def setting(name: DialectName) -> RenderOptions:
    kinds = {Family.OPENAI: Kind.OPENAI_COMPAT, Family.ANTHROPIC: Kind.ANTHROPIC, Family.GEMINI: Kind.GEMINI}
    return RenderOptions("a-model", kinds[name.family], MODELS.row("a-model", name.family))


def carried(client: DialectName, provider: DialectName, body: bytes, *, stream: bool = False) -> Json:
    """Return what a provider gets, and what of the request is dropped."""
    asked = RequestContext("a-model", stream)
    parsed = side_of_clients(client).text.parse_request(body, asked)
    rendered = side_of_providers(provider).text.render_request(parsed.request, setting(provider))
    return rendered.body, parsed.dropped(rendered)


def said_in(dialect: DialectName, body: bytes) -> list[tuple[Role, str]]:
    """Return what was said in a request, part by part."""
    parsed = side_of_clients(dialect).text.parse_request(body, RequestContext("a-model"))
    found = []
    for turn in parsed.request.turns:
        for part in turn.parts:
            match part:
                case Text():
                    found.append((turn.role, part.text))
                case ToolCall():
                    found.append((turn.role, f"{part.name}({part.arguments})"))
                case ToolResult():
                    found += [(turn.role, text.text) for text in part.parts if isinstance(text, Text)]
    return found


def spoken(dialect: DialectName, reply: Reply) -> bytes:
    """Return the stream in which a dialect says an answer."""
    writer = side_of_clients(dialect).stream_writer(CONTEXT)
    return writer.write(replay_reply(reply)) + writer.finish()


def open_filter(provider: DialectName, client: DialectName) -> StreamFilter:
    return StreamFilter(
        side_of_providers(provider).stream_reader("seed"),
        side_of_clients(client).stream_writer(CONTEXT),
        {},
        lambda _: None,
        lambda text: text,
        LastEvent(REGISTRY.dialects[client].stream_events.last),
    )


def translated(provider: DialectName, client: DialectName, stream: bytes, size: int) -> bytes:
    """Return a provider's stream as a client gets it, where it comes in pieces of this size."""
    through = open_filter(provider, client)
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    return b"".join([through.feed(piece) for piece in pieces]) + through.finish()


def broken(provider: DialectName, client: DialectName, stream: bytes) -> bytes:
    """Return what a client gets of a provider's stream that breaks."""
    through = open_filter(provider, client)
    try:
        out = through.feed(stream)
        return out + through.finish()
    except GatewayError as error:
        return through.fail(error) or b""


def parts_of(reply: Reply) -> list[tuple[str, ...]]:
    """Return the texts and calls of an answer, without identifiers, which not all dialects keep."""
    (candidate,) = reply.candidates
    return [
        (part.text,) if isinstance(part, Text) else (part.name, part.arguments)
        for part in candidate.parts
        if isinstance(part, Text | ToolCall)
    ]


def test_its_route_leads_to_it() -> None:
    table = RouteTable((*ROUTES, ROUTE))
    found = table.match("POST", "/v1/postcards", None, [])
    assert REGISTRY.dialects[found.route.dialect] is postcards.DIALECT
    assert side_of_clients(found.route.dialect) is postcards.DIALECT.client


def test_the_dialects_that_ship_stay_what_they_are() -> None:
    assert [REGISTRY.dialects[name] for name in DialectName] == [*map(load_dialect, DialectName)]


@pytest.mark.parametrize("other", OTHERS)
def test_its_requests_reach_the_providers_of_all_others(other: DialectName) -> None:
    body, dropped = carried(postcards.NAME, other, json.dumps(REQUEST).encode())
    assert said_in(other, body) == SAID
    assert dropped == {"stamp"}
    again = side_of_clients(other).text.parse_request(body, RequestContext("a-model")).request
    assert [text.text for text in again.system] == ["Be brief."]
    assert ([tool.name for tool in again.tools], again.max_tokens) == (["look"], 99)


@pytest.mark.parametrize("other", OTHERS)
def test_requests_of_all_others_reach_its_providers(other: DialectName) -> None:
    theirs, _ = carried(postcards.NAME, other, json.dumps(REQUEST).encode())
    body, dropped = carried(other, postcards.NAME, theirs)
    sent = json.loads(body)
    assert said_in(postcards.NAME, body) == SAID
    assert (sent["notice"], sent["most"], sent["tools"][0]["tool"]) == ("Be brief.", 99, "look")
    assert dropped == UNSAID.get(other, set())


@pytest.mark.parametrize("other", OTHERS)
def test_what_it_cannot_say_is_reported_without_further_code(other: DialectName) -> None:
    path = {DialectName.GEMINI: "generationConfig.temperature"}.get(other, "temperature")
    theirs, _ = carried(postcards.NAME, other, json.dumps(REQUEST).encode())
    body = json.loads(theirs)
    holder = body.setdefault("generationConfig", {}) if other is DialectName.GEMINI else body
    holder["temperature"] = 0.5
    assert path in carried(other, postcards.NAME, json.dumps(body).encode())[1]


@pytest.mark.parametrize("other", OTHERS)
def test_a_whole_answer_is_translated_both_ways(other: DialectName) -> None:
    theirs = side_of_clients(other).text.render_reply(REPLY, CONTEXT)
    found = side_of_providers(other).text.parse_reply(theirs, SOURCE)
    card = json.loads(side_of_clients(postcards.NAME).text.render_reply(found, CONTEXT))
    for one in (card, ANSWER):
        assert [run.get("say") or run["run"]["with"] for run in one["cards"]] == ["I look.", {"at": "tree"}]
    assert (card["end"], card["usage"]) == (ANSWER["end"], ANSWER["usage"])
    own = side_of_providers(postcards.NAME).text.parse_reply(json.dumps(ANSWER).encode(), SOURCE)
    back = side_of_clients(other).text.render_reply(own, CONTEXT)
    read = side_of_providers(other).text.parse_reply(back, SOURCE)
    assert parts_of(read) == parts_of(REPLY)
    assert (read.candidates[0].stop, read.usage.tokens_in) == (StopReason.TOOL_USE, 7)


@pytest.mark.parametrize("other", OTHERS)
@given(size=st.integers(1, 80))
def test_a_stream_is_translated_both_ways_however_it_is_cut(other: DialectName, size: int) -> None:
    cards = translated(other, postcards.NAME, spoken(other, REPLY), size)
    events = [json.loads(line[6:]) for line in cards.decode().splitlines() if line.startswith("data: ")]
    assert "".join(event.get("say", "") for event in events) == "I look."
    assert [event["run"]["with"] for event in events if "run" in event] == [{"at": "tree"}]
    assert events[-1] == {"end": "run", "usage": {"read": 7, "wrote": 5}}
    back = translated(postcards.NAME, other, spoken(postcards.NAME, REPLY), size)
    assert back == translated(postcards.NAME, other, spoken(postcards.NAME, REPLY), 10_000)
    reader = side_of_providers(other).stream_reader("seed")
    reader.feed(back)
    reader.finish()
    assert (reader.usage.tokens_in, reader.usage.tokens_out) == (7, 5)


@pytest.mark.parametrize("other", OTHERS)
def test_a_stream_that_breaks_shows_its_error_both_ways(other: DialectName) -> None:
    began = b'data: {"say":"Hi"}\n\n'
    assert b"no stamps" in broken(
        postcards.NAME, other, began + b'data: {"sorry":"no stamps","why":"poor"}\n\n'
    )
    writer = side_of_clients(other).stream_writer(CONTEXT)
    events = replay_reply(REPLY)[:2]
    theirs = writer.write(events) + writer.fail(UpstreamError(503, "no stamps"))
    assert b'{"sorry":"no stamps"' in broken(other, postcards.NAME, theirs)
    with pytest.raises(GatewayError) as cut:
        translated(postcards.NAME, other, began, 9)
    assert cut.value.reason is Reason.UPSTREAM_BROKEN


@pytest.mark.parametrize("other", OTHERS)
def test_errors_are_translated_both_ways(other: DialectName) -> None:
    own = side_of_providers(postcards.NAME).parse_error(402, b'{"sorry":"no stamps","why":"poor"}')
    status, body = side_of_clients(other).render_error(own, "req_1")
    assert (status, b"no stamps" in body) == (402, True)
    theirs = side_of_providers(other).parse_error(status, body)
    status, body = side_of_clients(postcards.NAME).render_error(theirs, "req_1")
    assert (status, json.loads(body)["sorry"]) == (402, "no stamps")


def test_the_gateways_own_errors_are_said_in_it() -> None:
    error = GatewayError(Reason.UNKNOWN_MODEL, "no such model")
    body = postcards.DIALECT.render_refusal(error, "req_1")
    assert json.loads(body) == {"sorry": "no such model", "why": "model_not_found"}


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (b"application/json", json.dumps(ANSWER).encode()),
        (b"text/event-stream", spoken(postcards.NAME, REPLY)),
    ],
)
@given(size=st.integers(1, 80))
def test_its_tokens_are_counted_as_it_passes(content_type: bytes, body: bytes, size: int) -> None:
    end = StreamEnd(postcards.DIALECT.stream_events)
    meter = postcards.DIALECT.meter(content_type, end)
    last = LastEvent(postcards.DIALECT.stream_events.last)
    for start in range(0, len(body), size):
        meter.feed(body[start : start + size])
        last.feed(body[start : start + size])
    meter.finish()
    assert meter.usage == USAGE
    assert end.complete is last.passed is (content_type != b"application/json")


def test_token_counts_are_asked_for_both_ways() -> None:
    asked, other = RequestContext("a-model"), DialectName.ANTHROPIC
    own, theirs = side_of_clients(postcards.NAME).count, side_of_providers(other).count
    assert own is not None
    assert theirs is not None
    request = own.parse_request(json.dumps(REQUEST).encode(), asked).request
    rendered = theirs.render_request(request, setting(other))
    counted = theirs.usage(theirs.parse_reply(b'{"input_tokens":7}', SOURCE))
    assert json.loads(own.render_reply(counted, CONTEXT)) == {"usage": {"read": 7, "wrote": None}}
    back, provider = side_of_clients(other).count, side_of_providers(postcards.NAME).count
    assert back is not None
    assert provider is not None
    parsed = back.parse_request(rendered.body, asked)
    assert provider.render_request(parsed.request, setting(postcards.NAME)).target == b"/postcards/count"
    found = provider.usage(provider.parse_reply(b'{"usage":{"read":9}}', SOURCE))
    assert json.loads(back.render_reply(found, CONTEXT)) == {"input_tokens": 9}


def test_its_model_lists_are_read_and_written() -> None:
    page = postcards.DIALECT.lister.read(b'["a","b"]')
    assert [model.id for model in page.models] == ["a", "b"]
    assert postcards.DIALECT.render_list([], {}) == b"[]"
