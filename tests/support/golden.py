"""The golden cases: what a client sends, what the provider must get, and what the client must get back.

A case is a folder ``tests/golden/<client>/<case>/`` with one request and, for each provider that it goes to,
a folder ``<upstream>/``.  The files are the truth, in the words of the vendors.  In the case's folder:

``request.json``
    what the client sends
``case.yaml``
    ``about``: one line.  Optional: ``model`` (the provider's), ``kind``, ``stream``, ``array`` (a Gemini
    stream without ``alt=sse``), ``answers`` (how many; 1), ``broken`` (the client's stream must show a
    break), ``uncounted`` (the provider told no usage), ``target`` and ``headers`` where they are not the
    usual ones, ``odd`` (why the provider's side is outside of what its own reference shows).  Where it is
    not the same for all providers, each has its own in its folder

In the folder of a provider:

``upstream_request.json``, ``dropped.json``
    what the provider must get, and what is reported as dropped (absent: nothing)
``upstream_reply.json`` or ``upstream_stream.txt``, ``reply.json`` or ``stream.txt``
    what the provider answers, and what the client must get
``upstream_error.json``, ``error.json``
    the same for a refusal of the provider's: status, body, and ``headers`` beside the content's type (absent:
    none)
``refused.json``
    the gateway's own refusal, of the request or of an answer that it cannot use

``python -m tests.support.golden --write [part of a case's path]`` writes the expected files anew.  Whoever
does that reads every difference against the vendors' references.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import yaml

from mgw.canonical.conversation import Conversation
from mgw.canonical.reply import TokenUsage
from mgw.dialects import client_side_of, provider_side_of
from mgw.dialects.dialect import Parsed, Rendered, RenderOptions, ReplyContext, ReplySource, RequestContext
from mgw.dialects.models import Models
from mgw.dialects.tool_names import restore_names_in_events, restore_names_in_reply
from mgw.exchange.response import BufferedResponse
from mgw.exchange.response_translation import JsonTranslation
from mgw.http.response_head import judge_lines, read_response_head
from mgw.nouns.errors import GatewayError
from mgw.nouns.families import text_dialect
from mgw.nouns.vocabulary import Family, Kind
from mgw.upstream.client import UpstreamResponse

GOLDEN: Final = Path(__file__).parent.parent / "golden"
SEED: Final = "golden"
REQUEST_ID: Final = "req_golden"
CREATED: Final = 1_770_000_000
WRITTEN: Final = (
    "upstream_request.json",
    "dropped.json",
    "reply.json",
    "stream.txt",
    "error.json",
    "refused.json",
)
"""The files that are expected, not given."""
_MODELS: Final = {
    Family.OPENAI: "gpt-5.2",
    Family.ANTHROPIC: "claude-opus-4-6",
    Family.GEMINI: "gemini-3.5-flash",
}
_ORDERED: Final = frozenset(
    {"parameters", "input_schema", "parametersJsonSchema", "responseJsonSchema", "schema", "input", "args"}
)
"""The keys under which the order of keys is the sender's."""
_ROWS: Final = Models(())

Json = Any  # Any: JSON as a file has it


@dataclass(frozen=True)
class Case:
    """A request and one provider that it goes to: the provider's folder."""

    folder: Path

    @property
    def name(self) -> str:
        """``client/case/upstream``."""
        return "/".join(self.folder.parts[-3:])

    @property
    def client(self) -> Family:
        """Whose wire the client speaks."""
        return Family(self.folder.parts[-3])

    @property
    def upstream(self) -> Family:
        """Whose wire the provider speaks."""
        return Family(self.folder.parts[-1])

    @cached_property
    def said(self) -> dict[str, Json]:
        """What ``case.yaml`` says."""
        found = self.bytes_of("case.yaml")
        assert found is not None, f"{self.name}: no case.yaml"
        said: dict[str, Json] = yaml.safe_load(found)
        return said

    @property
    def streams(self) -> bool:
        """The client asks for a stream."""
        return bool(self.said.get("stream"))

    @property
    def model(self) -> str:
        """The provider's model."""
        return str(self.said.get("model", _MODELS[self.upstream]))

    def bytes_of(self, file: str) -> bytes | None:
        """Return what a file holds, the provider's own or the case's; ``None`` where there is none."""
        paths = (self.folder / file, self.folder.parent / file)
        return next((path.read_bytes() for path in paths if path.exists()), None)

    def json_of(self, file: str) -> Json:
        """Return the JSON of a file; ``None`` where there is none."""
        found = self.bytes_of(file)
        return None if found is None else json.loads(found)


def cases() -> list[Case]:
    """Return all cases, in the order of their names."""
    requests = sorted(GOLDEN.glob("*/*/request.json"))
    return [Case(folder) for path in requests for folder in sorted(path.parent.iterdir()) if folder.is_dir()]


def parse(case: Case) -> Parsed[Conversation]:
    """Read the client's request."""
    body = case.bytes_of("request.json")
    assert body is not None, f"{case.name}: no request.json"
    query = b"alt=sse" if case.streams and not case.said.get("array") else None
    gemini = case.client is Family.GEMINI
    asked = RequestContext(
        "gateway-model", stream=case.streams and gemini, raw_query=query if gemini else None
    )
    return client_side_of(text_dialect(case.client)).text.parse_request(body, asked)


def render(case: Case, parsed: Parsed[Conversation]) -> Rendered:
    """Write the provider's request."""
    kind = Kind(case.said.get("kind", case.upstream.value))
    field = "max_tokens" if kind is Kind.OPENAI_COMPAT else "max_completion_tokens"
    row = _ROWS.row(case.model, case.upstream)
    setting = RenderOptions(case.model, kind, row, max_tokens_field=field)
    return provider_side_of(text_dialect(case.upstream)).text.render_request(parsed.request, setting)


@dataclass(frozen=True)
class Sent:
    """A request on its way: what the client said, and what the provider gets."""

    case: Case
    parsed: Parsed[Conversation]
    rendered: Rendered

    @property
    def answering(self) -> ReplyContext:
        """What an answer is written with."""
        return ReplyContext(REQUEST_ID, self.case.model, CREATED, self.parsed.reply_options)


def send(case: Case) -> Sent:
    """Translate the request."""
    parsed = parse(case)
    return Sent(case, parsed, render(case, parsed))


def translated_stream(sent: Sent, pieces: Iterable[bytes]) -> bytes:
    """Return the client's stream for the provider's, cut in these pieces."""
    reader = provider_side_of(text_dialect(sent.case.upstream)).stream_reader(SEED)
    writer = client_side_of(text_dialect(sent.case.client)).stream_writer(sent.answering)
    names = sent.rendered.renamed
    told: list[bytes] = []
    try:
        told += [writer.write(restore_names_in_events(reader.feed(piece), names)) for piece in pieces]
        told.append(writer.write(restore_names_in_events(reader.finish(), names)))
        told.append(writer.finish())
    except GatewayError as error:
        told.append(writer.fail(error))
    return b"".join(told)


def produced(case: Case) -> dict[str, bytes]:
    """Return the files of :data:`WRITTEN` as the translation makes them today."""
    try:
        sent = send(case)
    except GatewayError as error:
        return {"refused.json": _refused(error)}
    files = {"upstream_request.json": pretty(json.loads(sent.rendered.body))}
    dropped = sorted(sent.parsed.dropped(sent.rendered))
    if dropped:
        files["dropped.json"] = pretty(dropped)
    try:
        files.update(_answered(sent))
    except GatewayError as error:
        files["refused.json"] = _refused(error)
    return files


def _answered(sent: Sent) -> Iterator[tuple[str, bytes]]:
    case = sent.case
    upstream, client = (
        provider_side_of(text_dialect(case.upstream)).text,
        client_side_of(text_dialect(case.client)).text,
    )
    reply = case.bytes_of("upstream_reply.json")
    stream = case.bytes_of("upstream_stream.txt")
    error = case.json_of("upstream_error.json")
    if stream is not None:
        yield "stream.txt", translated_stream(sent, [stream])
    elif reply is not None:
        told = restore_names_in_reply(upstream.parse_reply(reply, ReplySource(SEED)), sent.rendered.renamed)
        answer = client.render_reply(told, sent.answering)
        yield "reply.json", pretty(json.loads(answer))
    elif error is not None:
        yield "error.json", pretty(_translated_refusal(sent, error))


def _translated_refusal(sent: Sent, error: dict[str, Json]) -> dict[str, Json]:
    """Return the refusal that the client gets, with its headers."""
    case, body = sent.case, error["body"]
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    lines = "".join(f"{name}: {value}\r\n" for name, value in error.get("headers", {}).items())
    received = f"HTTP/1.1 {error['status']} Refused\r\n{lines}\r\n".encode()
    head = read_response_head(error["status"], received, judge_lines(received))
    refused = SimpleNamespace(status=head.status, head=head)  # all that is looked at
    translation = JsonTranslation(
        client_side_of(text_dialect(case.client)),
        provider_side_of(text_dialect(case.upstream)),
        REQUEST_ID,
        [],
        lambda raw, content_type: (raw, content_type, TokenUsage()),
    )
    response = translation.client_response(
        cast("UpstreamResponse", refused), may_try_again=False, unframed=False
    )
    assert isinstance(response, BufferedResponse), case.name
    full = response.complete(raw)
    headers = {name.decode(): value.decode() for name, value in full.headers if name != b"Content-Type"}
    found: dict[str, Json] = {"status": full.status, "body": json.loads(full.body)}
    return found | ({"headers": headers} if headers else {})


def _refused(error: GatewayError) -> bytes:
    return pretty({"status": error.status, "param": error.param, "message": error.message})


def pretty(value: Json) -> bytes:
    """Return JSON as the files have it."""
    return json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"


def comparable(value: Json, *, ordered: bool = False) -> Json:
    """Return JSON whose text is the same wherever the meaning is: order counts in schemas and arguments."""
    if isinstance(value, list):
        return [comparable(item, ordered=ordered) for item in value]
    if not isinstance(value, dict):
        return value
    keys = list(value) if ordered else sorted(value)
    return {key: comparable(value[key], ordered=ordered or key in _ORDERED) for key in keys}


def usual_target(case: Case) -> str:
    """Return where the provider's reference has conversations, below its base address."""
    if case.upstream is Family.OPENAI:
        return "/chat/completions"
    if case.upstream is Family.ANTHROPIC:
        return "/messages"
    verb = "streamGenerateContent?alt=sse" if case.streams else "generateContent"
    return f"/models/{case.model}:{verb}"


def usual_headers(case: Case) -> dict[str, str]:
    """Return the headers that the provider's reference demands beside the credential."""
    return {"anthropic-version": "2023-06-01"} if case.upstream is Family.ANTHROPIC else {}


def main(arguments: list[str]) -> int:
    """Write the expected files of the cases whose names hold one of the arguments; of all without any."""
    if arguments[:1] != ["--write"]:
        sys.stderr.write("usage: python -m tests.support.golden --write [part of a case's path] ...\n")
        return 2
    for case in cases():
        if not arguments[1:] or any(part in case.name for part in arguments[1:]):
            write(case)
    return 0


def write(case: Case) -> None:
    """Write the expected files of one case, and remove those that are not made any more."""
    files = produced(case)
    for file in WRITTEN:
        path = case.folder / file
        if file in files:
            path.write_bytes(files[file])
        else:
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
