"""Each limit holds what it says: exactly so much passes, and one more does not.

A test that stays far below a limit, and another far above, notices neither a ``>`` that should be ``>=`` nor
another number.  So every constant ``MAX_...`` of a module has a case here, or a row in
:mod:`tests.support.limits`: the test that tries both sides, or why nobody could see one more.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from ipaddress import ip_network
from pathlib import Path
from typing import Final

import pytest
from twisted.logger import LogEvent

from mgw.canonical.conversation import Conversation, Role, Text, Turn
from mgw.canonical.reply import NO_USAGE, TextAdded, TokenUsage
from mgw.canonical.speech import SpeechReply
from mgw.clients.identity_clients import IdentityClients
from mgw.clients.origins import parse_host
from mgw.clients.peers import client_behind
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.listen import parse_listen
from mgw.config.load import parse_each_price
from mgw.config.near_names import near_name
from mgw.config.problems import ConfigError
from mgw.config.profile import LimitsSettings
from mgw.config.quoting import is_quotable, quote
from mgw.config.resilience import RetriesSettings
from mgw.config.yaml_document import MAX_DEPTH
from mgw.credentials.recent_secrets import RecentSecrets
from mgw.credentials.subscription.limits import cooldown_seconds
from mgw.credentials.subscription.token_exchange import _printable, header_text
from mgw.credentials.token_request import parse_token_text
from mgw.dashboard.event_ring import EventRing
from mgw.dashboard.log_lines import LogLine, LogLines
from mgw.dashboard.sign_in import MAX_FAILURES, FailureCounts
from mgw.dashboard.usage_answer import UsageRows
from mgw.dashboard.usage_query import parse_usage_query
from mgw.dialects import dialect_of
from mgw.dialects.anthropic.schema import StrictToolBudget
from mgw.dialects.dialect import RequestContext
from mgw.dialects.gemini import PROVIDER as GEMINI
from mgw.dialects.metering import EventStreamMeter, UnaryMeter, meter_whole
from mgw.dialects.openai.embedding import parse_request
from mgw.dialects.openai.errors import cut_message
from mgw.dialects.openai.schema import fits_strict
from mgw.dialects.openai.stream_reader import ChatStreamReader
from mgw.dialects.openai.tools import TOOL_PLACES
from mgw.dialects.renamed_tools import RestoredStream
from mgw.dialects.speech import add_wave_header
from mgw.dialects.tool_name_map import ToolNameMap
from mgw.exchange.attempts import Attempts, Step, Trouble
from mgw.exchange.response_translation import format_dropped_fields
from mgw.http.body import ChunkedRequestBody
from mgw.http.connect_head import ConnectReader
from mgw.http.upstream_connection import UpstreamConnection
from mgw.nouns.errors import GatewayError
from mgw.nouns.secret import Secret
from mgw.nouns.vocabulary import DialectName, Family
from mgw.ops.logs import RedactingObserver
from mgw.realtime.messages import find_message_models
from mgw.routing.resolve import Resolver
from mgw.upstream.agent import _BufferConsumer
from mgw.upstream.unframing import Unframing
from mgw.usage.journal import UnknownStopLog
from mgw.usage.record import encode
from mgw.usage.trace_context import trace_context_of
from mgw.usage.usage_read import OTHER
from mgw.wire.encodings import decode_content
from mgw.wire.frames import FrameReader
from mgw.wire.json_array import ElementReader
from mgw.wire.multipart import FormReader, find_part
from mgw.wire.sse import EventReader
from mgw.wire.whole_frames import PING, render_frame
from tests.support.chat_streams import chunk
from tests.support.cloud_limits import CLOUD_CASES
from tests.support.configs import config
from tests.support.counting import are_remembered
from tests.support.endless_frame import Endless
from tests.support.hostile_json import WAYS
from tests.support.limits import HELD, NOBODY_SEES, NOT_TRIED
from tests.support.pipelines import Pipeline, answered
from tests.support.responses_streams import message, whole
from tests.support.subscriptions import PROFILE, profile
from tests.support.translation import asked
from tests.support.usage import event, exchange

ROOT: Final = Path(__file__).resolve().parents[2]
NAME: Final = re.compile(r"^(_?MAX_[A-Z0-9_]+)(?:: [^=\n]+)? = (?=\d)", re.MULTILINE)
TEXT: Final[dict[str, object]] = {"type": "string"}
PROVIDERS: Final = "providers: {p: {kind: openai, api_key: k}}\n"
PARENT: Final = (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")


def is_taken(work: Callable[[], object]) -> bool:
    """Whether something is taken, and not refused as too much."""
    try:
        work()
    except (GatewayError, ConfigError):
        return False
    return True


def is_configured(text: str) -> bool:
    return is_taken(lambda: config(PROVIDERS + text))


def is_grouped(settings: str) -> bool:
    """Whether a group may have these settings."""
    return is_configured(f"edge_auth: {{groups: {{a: {{{settings}}}}}}}\nprices: {{rows: []}}")


def takes_element(element: bytes) -> bool:
    return is_taken(lambda: ElementReader().feed(b"[" + element + b"]"))


def takes_event(data: bytes) -> bool:
    return is_taken(lambda: EventReader().feed(b"data: " + data + b"\n\n"))


def takes_frame(size: int) -> bool:
    """Whether so much is taken for one frame of a host that is not complete yet."""
    unframing = Unframing(Endless())
    unframing.feed(bytes(size), ends=False)
    return unframing.fault is None


def takes_bare_document(size: int) -> bool:
    """Whether a document without a field, as some hosts break off, is read from a stream."""
    reader = EventReader(bare=True)
    return bool([*reader.feed(document(size) + b"\n"), *reader.finish()])


def document(size: int) -> bytes:
    """Return one in which nothing is so long that a meter leaves it out."""
    texts, rest = divmod(size - 14, 4)
    return b'{"usage":["' + b'x","' * texts + b"x" * rest + b'"]}'


def note(_document: bytes, _before: TokenUsage) -> TokenUsage:
    """A reader of usage that finds some in whatever it is shown."""
    return TokenUsage(tokens_in=1)


def is_metered(size: int) -> bool:
    """Whether a meter looks at a document, in pieces as in one."""
    found = [meter_whole(b"application/json", note, document(size))]
    for pieces in ([document(size)], [document(size)[:7], document(size)[7:]]):
        meter = UnaryMeter(note)
        for piece in pieces:
            meter.feed(piece)
        meter.finish()
        found.append(meter.usage)
    assert len(set(found)) == 1
    return found[0] is not NO_USAGE


def is_event_metered(size: int) -> bool:
    meter = EventStreamMeter(note)
    event = b"data: " + document(size - 6)
    meter.feed(event[:100])
    meter.feed(event[100:])
    meter.feed(b"\n\n")
    return meter.usage is not NO_USAGE


def listed(count: int, one: bytes) -> bytes:
    return b"[" + b",".join([one] * count) + b"]"


def reads_gemini_candidate(count: int) -> bool:
    part = f'{{"candidates":[{{"index":{count - 1},"content":{{"parts":[{{"text":"a"}}]}}}}]}}'
    return TextAdded("a", count - 1) in GEMINI.stream_reader("seed").feed(f"data: {part}\n\n".encode())


def opens_tunnel(size: int) -> bool:
    head = b"HTTP/1.1 200 OK\r\nX: "
    reader = ConnectReader()
    reader.feed(head + b"x" * (size - len(head) - 4) + b"\r\n\r\n")
    return reader.opened


def takes_line(size: int) -> bool:
    return is_taken(lambda: ChunkedRequestBody().feed(b"1;" + b"a" * (size - 2)))


def takes_response_head(size: int) -> bool:
    connection = UpstreamConnection()
    connection.become_ready()
    connection.send(b"GET")
    head = b"HTTP/1.1 200 OK\r\nX: "
    connection.receive(head + b"x" * (size - len(head) - 4) + b"\r\n\r\n")
    return connection.fault is None


def keeps_state(size: int) -> bool:
    context = trace_context_of([PARENT, (b"tracestate", b"a=" + b"x" * 200 + b",b=" + b"y" * (size - 205))])
    return context is not None and bool(context.state)


def renames_line(size: int) -> bool:
    """Whether a tool is renamed in a line of so many bytes that comes in pieces."""
    stream = RestoredStream(TOOL_PLACES, ToolNameMap({"shell": "Bash"}, "x_"))
    call = b'{"index":0,"function":{"name":"Bash"}}'
    begin = b'data: {"choices":[{"index":0,"delta":{"tool_calls":[%b]}}],"x":"' % call
    line = begin + b"x" * (size - len(begin) - 2) + b'"}'
    return b'"shell"' in stream.feed(line) + stream.feed(b"\n\n") + stream.finish()


def repeats_after(seconds: float) -> bool:
    attempts = Attempts(RetriesSettings(attempts=1), creates_nothing=True, targets=())
    return attempts.next_step(Trouble(may_have_begun=False, retry_after=seconds)) is Step.REPEAT


def notes_stops(count: int) -> bool:
    """Whether the log remembers so many words, one after the other."""
    log = UnknownStopLog()
    for number in range(count):
        log.note("p", f"word {number}")
    return len(log._seen) == count


def looks_at_prefixes(count: int) -> bool:
    """Whether the last of so many prefixes is still compared with the names of providers."""
    found: list[str] = []
    text = PROVIDERS.replace("{p:", "{main:") + "defaults: {openai_dialect: main}\n"
    resolver = Resolver(config(text), lambda prefix, *_: found.append(prefix))
    for number in range(count - 1):
        resolver.resolve(f"some-host-{number}/m", Family.OPENAI)
    resolver.resolve("mian/m", Family.OPENAI)
    return found == ["mian"]


def tells_stops_apart(size: int) -> bool:
    """Whether two words that differ in the last of so many characters are two."""
    log = UnknownStopLog()
    log.note("p", "x" * (size - 1) + "a")
    log.note("p", "x" * (size - 1) + "b")
    return len(log._seen) == 2


def shows_whole(size: int) -> bool:
    text = ("ab " * size)[:size]
    assert (quote(text) == repr(text)) == is_quotable(text)
    return is_quotable(text)


def nests(depth: int) -> bool:
    """Whether a file is read that is nested so deeply, whatever its settings are worth."""
    text = "a: " + "[" * (depth - 2) + "x" + "]" * (depth - 2)
    try:
        config(text)
    except ConfigError as error:
        return f"nested deeper than {MAX_DEPTH}" not in str(error)
    return True


class Huge(bytes):
    """Bytes that say they are as many as a test needs."""

    size = 0

    def __len__(self) -> int:
        return self.size


def gets_wave_header(size: int) -> bool:
    """Whether so many samples become a file, whose head has room for their number."""
    samples = Huge(b"ab")
    samples.size = size
    return add_wave_header(SpeechReply(samples, "audio/pcm"), "wav").media_type == "audio/wav"


def rests(seconds: int) -> bool:
    """Whether an account rests as long as a provider says."""
    limits = LimitsSettings()
    return cooldown_seconds([(b"retry-after", b"%d" % seconds)], limits, 0.0) == seconds


def reads_items(count: int) -> bool:
    return is_taken(lambda: whole([message("msg_1", "a")] * count))


def holds_events(count: int) -> bool:
    ring = EventRing("start")
    ring.add_rows([exchange()] * count)
    return ring.has_all_behind(0)


def holds_chars(size: int) -> bool:
    """Whether two lines of the log are kept that have so many characters together, here and for readers."""
    told: list[LogLine] = []
    turns: list[Callable[[], None]] = []
    lines = LogLines(turns.append, told.extend)
    for text in ("a" * (size // 2), "b" * (size - size // 2)):
        lines({"log_text": text, "log_time": 0.0})
    while turns:
        turns.pop(0)()
    assert len(told) == len(lines.last())
    return len(told) == 2


def keeps_groups(count: int) -> bool:
    """Whether so many keys each have a sum of their own, which names those that were asked most."""
    rows = UsageRows(groups={f"key {number}": [number] for number in range(count)})
    rows.fold()
    return OTHER not in rows.groups


def takes_lookalikes(count: int) -> bool:
    """Whether a form may have so many places that look like its boundary at first."""
    head = b'--xYz\r\nContent-Disposition: form-data; name="file"\r\n\r\n'
    reader = FormReader(b"multipart/form-data; boundary=xYz", "model")
    return is_taken(lambda: reader.feed(head + b"\r\n--xYz-x" * count))


def writes_whole_line(size: int) -> bool:
    base = len(encode(event(model="")))
    model = "m" * (size - base)
    line = encode(event(model=model))
    assert json.loads(line)["model"] != model or len(line) == size
    return len(line) == size


def writes_whole(name: str, value: str) -> bool:
    """Whether a value is written whole in an event that has to be shortened."""
    changes: dict[str, object] = {"dropped_fields": ("\ud800",), "model": "m"}
    changes[name] = ("\ud800", value) if name == "dropped_fields" else value
    line = json.loads(encode(event(**changes)))
    return value in (line[name] if name == "dropped_fields" else [line[name]])


def closed(properties: dict[str, object]) -> dict[str, object]:
    """The schema of an object that has these properties, and no others."""
    said = {"type": "object", "properties": properties, "required": list(properties)}
    return {**said, "additionalProperties": False}


def deep(levels: int) -> dict[str, object]:
    schema = closed({})
    for _ in range(levels - 1):
        schema = closed({"a": schema})
    return schema


def admits_optional(count: int) -> bool:
    """Whether a strict tool may have so many properties that it need not be given."""
    schema = closed({f"p{number}": TEXT for number in range(count)})
    return StrictToolBudget().admits({**schema, "required": []})


def admits_unions(count: int) -> bool:
    either = {"anyOf": [TEXT, {"type": "integer"}]}
    return StrictToolBudget().admits(closed({f"p{number}": either for number in range(count)}))


def sends_user(size: int) -> bool:
    """Whether OpenAI gets a user's name as it is."""
    [target] = [way for way in WAYS if way.name == "openai"]
    conversation = Conversation((Turn(Role.USER, (Text("Hello."),)),), user="u" * size)
    body = target.side.text.render_request(conversation, target.setting).body
    return bool(json.loads(body)["safety_identifier"] == "u" * size)


def is_listened_on(port: int) -> bool:
    try:
        parse_listen(f"127.0.0.1:{port}")
    except ValueError:
        return False
    return True


def takes_title(size: int) -> bool:
    body = json.dumps({"model": "m", "input": "a", "title": "x" * size}).encode()
    return is_taken(lambda: parse_request(body, RequestContext("m")))


FORM: Final = b"multipart/form-data; boundary="


def part(name: str, content: bytes, more: bytes = b"") -> bytes:
    return b'Content-Disposition: form-data; name="%b"%b\r\n\r\n' % (name.encode(), more) + content


def takes_form(*parts: bytes, boundary: bytes = b"xYz", padding: bytes = b"") -> bool:
    between = b"\r\n--" + boundary
    body = b"".join(between + padding + b"\r\n" + each for each in parts)[2:] + between + b"--\r\n"
    return is_taken(lambda: find_part(body, FORM + boundary))


def takes_part_head(size: int) -> bool:
    return takes_form(part("a", b"", b"\r\nX: " + b"x" * (size - len(part("a", b"", b"\r\nX: ")))))


def takes_ping(size: int) -> bool:
    """Whether a control frame may have so long a payload, in pieces as in one."""
    data = render_frame(PING, b"x" * size)
    found = []
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        reader = FrameReader(masked=False)
        for piece in pieces:
            reader.feed(piece)
        found.append(reader.fault is None)
    assert found[0] == found[1]
    return found[0]


def logs_whole(size: int) -> bool:
    """Whether a line of the log has so many characters."""
    shown: list[LogEvent] = []
    observer = RedactingObserver(shown.append, tuple)
    observer({"log_format": "{text}", "text": "a b " * (size // 4) + "c" * (size % 4), "log_time": 0.0})
    return len(shown[0]["log_text"]) == size


def tells_refusal(size: int) -> bool:
    """Whether the words of a provider's refusal of so many bytes reach the client."""
    words = b'{"type":"error","error":{"type":"invalid_request_error","message":"Why."},"x":"'
    pipeline = Pipeline()
    client, _ = pipeline.ask(body=asked("smart"))
    pipeline.connection.send(answered(words + b"x" * (size - len(words) - 2) + b'"}', b"400 Bad Request"))
    return b"Why." in client.body


def believes_hops(count: int) -> bool:
    """Whether the client behind so many proxies is known."""
    said = ", ".join(["192.0.2.1", *["10.0.0.2"] * (count - 1)])
    return client_behind("10.0.0.1", said, [ip_network("10.0.0.0/8")]) == "192.0.2.1"


def knows_secrets(count: int) -> bool:
    """Whether the first of so many secrets is known still."""
    recent = RecentSecrets()
    recent.note(*[Secret(f"canary{number:06}") for number in range(count)])
    return "canary000000" in [secret.reveal() for secret in recent]


def counts_clients(count: int) -> bool:
    """Whether the failures of the first are known when so many clients have failed."""
    failures = FailureCounts(lambda: 0.0)
    for number in range(count):
        for _ in range(MAX_FAILURES if number == 0 else 1):
            failures.add(f"client {number}")
    return not is_taken(lambda: failures.check("client 0"))


def names_fields(size: int) -> bool:
    """Whether the header that names what was dropped may be so long, with room for an ellipsis."""
    room = len(", %E2%80%A6")
    value = format_dropped_fields(["a", "n" * (size - room - len("a, ") - 2)])
    return not value.endswith(b"%E2%80%A6")


def names_message_model(count: int) -> bool:
    """Whether a model is found in a message of so many values, itself and the model among them."""
    events = [b'{"model":"m"}', *[b"{}"] * (count - 4)]
    return bool(find_message_models(b'{"events":[%b]}' % b",".join(events), (("events", None, "model"),)))


def buffers(size: int) -> bool:
    """Whether a request of the gateway's own may be so large, in two pieces."""
    buffer = _BufferConsumer()
    buffer.write(b"x")
    return is_taken(lambda: buffer.write(b"x" * (size - 1)))


def has_prices(rows: int) -> bool:
    """Whether a file of prices may have so many rows."""
    text = "rows:\n" + "- {model: m, input: 1}\n" * rows
    return is_taken(lambda: parse_each_price(text, "prices.yaml", (), lambda row: row.model))


def has_text(size: int) -> bool:
    """Whether a text of a profile may be so long."""
    text = json.dumps("x" * size)
    return is_taken(lambda: profile(PROFILE + f"\ncloak: {{system: [{text}]}}\n"))


def is_token(size: int) -> bool:
    try:
        parse_token_text("t" * size, "token")
    except ValueError:
        return False
    return True


def is_issued(settings: str) -> bool:
    """Whether an issuer of tokens may have these settings."""
    entry = f"name: a, issuer: 'https://a.example', audience: b, rules: [{{}}], {settings}"
    return is_configured(f"edge_auth: {{jwt: [{{{entry}}}]}}")


def remembers_clients(number: int) -> bool:
    """Whether so many clients of tokens are remembered."""
    clients = IdentityClients(EdgeAuthSettings(), None)
    first = clients.client_of("corp", "first", (), {})
    for other in range(number - 1):
        clients.client_of("corp", str(other), (), {})
    return clients.client_of("corp", "first", (), {}) is first


CASES: Final[dict[str, Callable[[int], bool]]] = {
    **CLOUD_CASES,
    "mgw.clients.identity_clients.MAX_CLIENTS": remembers_clients,
    "mgw.clients.local_counts.MAX_IDLE_HOLDERS": are_remembered,
    "mgw.clients.peers.MAX_HOPS": believes_hops,
    "mgw.config.field_types.MAX_BYTES": lambda size: is_configured(f"max_body_bytes: {size}"),
    "mgw.config.field_types.MAX_TOKENS": lambda count: is_configured(
        f"translation: {{default_max_tokens: {count}}}"
    ),
    "mgw.config.groups.MAX_TAGS": lambda count: is_grouped(
        f"tags: {{{', '.join(f't{number}: a' for number in range(count))}}}"
    ),
    "mgw.config.groups.MAX_TAG_CHARACTERS": lambda size: is_grouped(f"tags: {{a: {'x' * size}}}"),
    "mgw.config.jwt.MAX_CLOCK_SKEW": lambda seconds: is_issued(f"clock_skew: {seconds}"),
    "mgw.config.limit_rows.MAX_USD": lambda usd: is_grouped(f"limits: [{{usd: {usd}, per: day}}]"),
    "mgw.config.fleet.MAX_WORKERS": lambda count: is_configured(f"workers: {count}"),
    "mgw.config.listen.MAX_PORT": is_listened_on,
    "mgw.config.near_names.MAX_NAME": lambda size: near_name("n" * size, ["n" * (size - 1)]) is not None,
    "mgw.config.prices.MAX_FACTOR": lambda factor: is_configured(
        f"prices: {{rows: [{{model: m, input: 1, inference_geo: {{us: {factor}}}}}]}}"
    ),
    "mgw.config.prices.MAX_PRICE": lambda price: is_configured(
        f"prices: {{rows: [{{model: m, input: {price}, output: {price}}}]}}"
    ),
    "mgw.config.prices.MAX_ROWS": has_prices,
    "mgw.config.profile.MAX_TEXT_CHARACTERS": has_text,
    "mgw.config.quoting.MAX_SHOWN": shows_whole,
    "mgw.config.resilience.MAX_ATTEMPTS": lambda count: is_configured(f"retries: {{attempts: {count}}}"),
    "mgw.config.yaml_document.MAX_CHARACTERS": lambda size: is_configured("#" * (size - len(PROVIDERS))),
    "mgw.config.yaml_document.MAX_DEPTH": nests,
    "mgw.credentials.recent_secrets.MAX_SECRETS": knows_secrets,
    "mgw.credentials.subscription.token_exchange.MAX_DETAIL_CHARACTERS": lambda size: (
        header_text("x" * size) != ""
    ),
    "mgw.credentials.subscription.token_exchange._MAX_SHOWN_CHARACTERS": lambda size: (
        _printable("x" * size) == "x" * size
    ),
    "mgw.credentials.token_request.MAX_TOKEN_BYTES": is_token,
    "mgw.exchange.response_translation.MAX_HEADER_BYTES": names_fields,
    "mgw.realtime.messages._MAX_VALUES": names_message_model,
    "mgw.upstream.agent.MAX_BODY_BYTES": buffers,
    "mgw.upstream.unframing.MAX_FRAME_BYTES": takes_frame,
    "mgw.credentials.subscription.limits.MAX_REST_SECONDS": rests,
    "mgw.dashboard.event_ring.MAX_EVENTS": holds_events,
    "mgw.dashboard.log_lines.MAX_CHARS": holds_chars,
    "mgw.clients.origins._MAX_PORT": lambda port: parse_host(f"a:{port}") is not None,
    "mgw.dashboard.sign_in.MAX_CLIENTS": counts_clients,
    "mgw.dashboard.usage_answer.MAX_GROUPS": keeps_groups,
    "mgw.dashboard.usage_query._MAX_STEP_DIGITS": lambda digits: is_taken(
        lambda: parse_usage_query({"step": "60".zfill(digits)}, 1e9)
    ),
    "mgw.dialects.anthropic.catalog.MAX_LIMIT": lambda count: is_taken(
        lambda: dialect_of(DialectName.ANTHROPIC).render_list((), {"limit": str(count)})
    ),
    "mgw.dialects.anthropic.schema.MAX_OPTIONAL": admits_optional,
    "mgw.dialects.anthropic.schema.MAX_UNIONS": admits_unions,
    "mgw.dialects.gemini.stream_reader._MAX_CANDIDATES": reads_gemini_candidate,
    "mgw.dialects.metering.MAX_BODY_BYTES": is_metered,
    "mgw.dialects.metering.MAX_EVENT_BYTES": is_event_metered,
    "mgw.dialects.openai.embedding.MAX_TITLE_CHARS": takes_title,
    "mgw.dialects.openai.errors.MAX_MESSAGE_BYTES": lambda size: cut_message("x" * size) == "x" * size,
    "mgw.dialects.openai.options._MAX_USER_CHARS": sends_user,
    "mgw.dialects.openai.schema._MAX_CHARACTERS": lambda size: fits_strict(closed({"a" * size: TEXT})),
    "mgw.dialects.openai.schema._MAX_DEPTH": lambda levels: fits_strict(deep(levels)),
    "mgw.dialects.openai.schema._MAX_ENUM_VALUES": lambda count: fits_strict(
        closed({"a": {**TEXT, "enum": [f"{number}" for number in range(count)]}})
    ),
    "mgw.dialects.openai.schema._MAX_PROPERTIES": lambda count: fits_strict(
        closed({f"p{number}": TEXT for number in range(count)})
    ),
    "mgw.dialects.openai.stream_reader._MAX_CHOICES": lambda count: (
        TextAdded("a", count - 1) in ChatStreamReader("seed").feed(chunk({"content": "a"}, index=count - 1))
    ),
    "mgw.dialects.renamed_tools.MAX_LINE_BYTES": renames_line,
    "mgw.dialects.responses.candidates._MAX_ITEMS": reads_items,
    "mgw.dialects.speech.MAX_SAMPLES_BYTES": gets_wave_header,
    "mgw.exchange.attempts.MAX_PAUSE": repeats_after,
    "mgw.exchange.response_translation.MAX_ERROR_BYTES": tells_refusal,
    "mgw.usage.journal._MAX_STOP_LENGTH": tells_stops_apart,
    "mgw.usage.journal._MAX_UNKNOWN_STOPS": notes_stops,
    "mgw.http.body.MAX_CHUNK_EXTRAS": takes_line,
    "mgw.http.connect_head.MAX_CONNECT_HEAD": opens_tunnel,
    "mgw.http.upstream_connection.MAX_HEAD_BYTES": takes_response_head,
    "mgw.ops.logs.MAX_TEXT": logs_whole,
    "mgw.routing.resolve.MAX_PREFIXES": looks_at_prefixes,
    "mgw.usage.event.MAX_LINE_BYTES": writes_whole_line,
    "mgw.usage.event.MAX_NAME": lambda size: writes_whole("dropped_fields", "n" * size),
    "mgw.usage.event.MAX_TEXT": lambda size: writes_whole("model", "m" * size),
    "mgw.usage.trace_context.MAX_STATE_BYTES": keeps_state,
    "mgw.wire.encodings.MAX_CODINGS": lambda count: is_taken(
        lambda: decode_content(b"", b",".join([b"gzip"] * count), 1)
    ),
    "mgw.wire.encodings.MAX_MEMBERS": lambda count: is_taken(
        lambda: decode_content(gzip.compress(b"") * count, b"gzip", 1)
    ),
    "mgw.wire.frames._MAX_CONTROL_BYTES": takes_ping,
    "mgw.wire.json_array.MAX_ELEMENT_BYTES": lambda size: takes_element(b'"' + b"x" * (size - 2) + b'"'),
    "mgw.wire.json_array.MAX_OBJECTS": lambda count: takes_element(listed(count, b"{}")),
    "mgw.wire.json_array.MAX_VALUES": lambda count: takes_element(listed(count, b"0")),
    "mgw.wire.multipart.MAX_LOOKALIKES": takes_lookalikes,
    "mgw.wire.multipart.MAX_PARTS": lambda count: takes_form(*[part("a", b"")] * count),
    "mgw.wire.multipart.MAX_PART_HEAD_BYTES": takes_part_head,
    "mgw.wire.multipart.MAX_VALUE_BYTES": lambda size: takes_form(part("model", b"m" * size)),
    "mgw.wire.multipart._MAX_BOUNDARY_BYTES": lambda size: takes_form(part("a", b""), boundary=b"x" * size),
    "mgw.wire.multipart._MAX_PADDING_BYTES": lambda size: takes_form(part("a", b""), padding=b" " * size),
    "mgw.wire.sse.MAX_BARE_BYTES": takes_bare_document,
    "mgw.wire.sse.MAX_EVENT_BYTES": lambda size: takes_event(b"x" * (size - 6)),
    "mgw.wire.sse.MAX_OBJECTS": lambda count: takes_event(listed(count, b"{}")),
    "mgw.wire.sse.MAX_VALUES": lambda count: takes_event(listed(count, b"0")),
}


def limits() -> Iterator[str]:
    """Every number ``MAX_...`` of a module."""
    for path in sorted((ROOT / "mgw").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        yield from (f"{module}.{found[1]}" for found in NAME.finditer(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", CASES)
def test_exactly_so_much_passes_and_one_more_does_not(name: str) -> None:
    module, _, constant = name.rpartition(".")
    limit = int(getattr(import_module(module), constant))
    takes = CASES[name]
    assert (takes(limit), takes(limit + 1)) == (True, False)


def test_every_limit_is_tried_from_both_sides() -> None:
    held = [name for names in HELD.values() for name in names]
    unseen = [name for names in NOBODY_SEES.values() for name in names]
    known, there = [*CASES, *held, *unseen, *NOT_TRIED], set(limits())
    new, gone = sorted(there - set(known)), sorted(set(known) - there)
    assert new == [], "new limits: give each a case here, or a row in tests/support/limits.py"
    assert gone == [], "limits that are gone"
    assert len(known) == len(set(known)), "a limit that stands in two places"


@pytest.mark.parametrize("test", HELD)
def test_the_tests_that_hold_limits_are_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")
