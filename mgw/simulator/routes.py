"""From a recorded request to an answer: the table of routes, credentials, bodies, faults.

The order is that of a vendor's front door: route, credential, body, model, and only then the fields.
"""

import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import msgspec
import zstandard
from msgspec import Struct
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from mgw.simulator import operations
from mgw.simulator.answer import Answer, Call, Handler, Json, Refusal, Stream
from mgw.simulator.anthropic_messages import count_tokens, messages
from mgw.simulator.families import (
    REFUSE,
    Family,
    credential_of,
    family_of,
    no_credential,
    unknown_model,
    wrong_credential,
)
from mgw.simulator.faults import Faults, UnknownFaultError, read_faults
from mgw.simulator.gemini_content import generate, stream_generate
from mgw.simulator.gemini_more import batch_embed, count_gemini_tokens, embed
from mgw.simulator.models import model_of, models_of
from mgw.simulator.openai_chat import chat
from mgw.simulator.openai_more import completions, embeddings, moderations
from mgw.simulator.openai_responses import responses
from mgw.simulator.recording import RecordedRequest, Recorder, is_operation

_OPENAI_HEADERS: Final = (("openai-processing-ms", "1"), ("x-ratelimit-remaining-requests", "99"))
log: Final = Logger()

_MOST_BODY: Final = 256 * 1024 * 1024
_GOOGLE: Final = r"/(?:v1|v1beta|v1alpha)(?:/projects/[^/]+/locations/[^/]+/publishers/google)?"
_GEMINI_MODEL: Final = _GOOGLE + r"/(?:models/|(?=tunedModels/))(?P<model>.+):"


class Route(Struct, frozen=True):
    """A row: ``path`` is a pattern whose group ``model`` is the model, where that stands in the path."""

    method: str
    path: str
    handler: Handler
    family: Family | None = None
    """None: several families have the path, and the headers say which one is meant."""


ROUTES: Final = (
    Route("POST", "/v1/chat/completions", chat, Family.OPENAI),
    Route("POST", "/v1/completions|/beta/completions", completions, Family.OPENAI),
    Route("POST", "/v1/responses", responses, Family.OPENAI),
    Route("POST", "/v1/embeddings", embeddings, Family.OPENAI),
    Route("POST", "/v1/moderations", moderations, Family.OPENAI),
    Route("POST", "/v1/messages", messages, Family.ANTHROPIC),
    Route("POST", "/v1/messages/count_tokens", count_tokens, Family.ANTHROPIC),
    Route("POST", _GEMINI_MODEL + "generateContent", generate, Family.GEMINI),
    Route("POST", _GEMINI_MODEL + "streamGenerateContent", stream_generate, Family.GEMINI),
    Route("POST", _GEMINI_MODEL + "countTokens", count_gemini_tokens, Family.GEMINI),
    Route("POST", _GEMINI_MODEL + "embedContent", embed, Family.GEMINI),
    Route("POST", _GEMINI_MODEL + "batchEmbedContents", batch_embed, Family.GEMINI),
    Route("GET", "/v1/models|/v1beta/models|/v1alpha/models", models_of),
    Route("GET", "/(?:v1|v1beta|v1alpha)/models/(?P<model>.+)", model_of),
)


@dataclass(slots=True)
class Desk:
    """Answers requests: the service behind the connections."""

    reactor: IReactorTime
    recorder: Recorder
    now: Callable[[], float]

    async def answer(self, request: RecordedRequest) -> tuple[Answer, Faults]:
        """Answer one complete request."""
        raw_path, _, raw_query = request.target.partition("?")
        if is_operation(raw_path):
            query = dict(parse_qsl(raw_query))
            return await operations.answer(self.recorder, self.reactor, request, raw_path, query), Faults()
        return self._ask(request, unquote(raw_path), dict(parse_qsl(raw_query, keep_blank_values=True)))

    def _ask(self, request: RecordedRequest, path: str, query: dict[str, str]) -> tuple[Answer, Faults]:
        headers = {name.lower(): value for name, value in request.headers}
        family = family_of(path, headers, query)
        request_id = f"req_sim{request.number:08d}"
        faults = Faults()
        try:
            route, model = _route(request.method, path)
            family = route.family or family
            credential = credential_of(family, headers, query)
            if credential is None:
                raise no_credential(family)
            if credential.value.startswith("wrong"):
                raise wrong_credential(family, credential)
            body = _parse(request, headers) if route.method == "POST" else {}
            model = model or body.get("model") or ""
            faults = _faults(model if isinstance(model, str) else "", headers)
            if faults.text("key") not in {None, credential.value}:
                raise wrong_credential(family, credential)
            self._fail(family, str(model), faults)
            call = Call(path, query, headers, body, str(model), faults, request.number, int(self.now()))
            answer = _named(route.handler(call), family, request_id)
        except Refusal as refusal:
            answer = _retry_after(REFUSE[family](refusal, request_id), faults)
        except Exception:  # a bug of the simulator: said aloud, and answered as a vendor would answer its own
            log.failure("no answer to {method} {path}", method=request.method, path=path)
            answer = REFUSE[family](Refusal(500, "The simulator has a bug; its log says where."), request_id)
        return answer, faults

    def _fail(self, family: Family, model: str, faults: Faults) -> None:
        """Raise the failure that the model's name asks for."""
        if model.removeprefix("models/").startswith("missing"):
            raise unknown_model(family, model)
        status = faults.number("status")
        if "flaky" in faults and self.recorder.fail_again(model, faults.number("flaky", place=1) or 0):
            status = faults.number("flaky")
        if status is not None and status >= 400:
            refusal = Refusal(status, f"The simulator was asked for status {status}.")
            refusal.retry_after = _seconds(faults)
            raise refusal


def _route(method: str, path: str) -> tuple[Route, str | None]:
    found = False
    for route in ROUTES:
        match = re.fullmatch(route.path, path)
        if match and route.method == method:
            return route, match.groupdict().get("model")
        found = found or match is not None
    if found:
        raise Refusal(405, f"Not allowed to {method} on {path}", code="method_not_allowed")
    raise Refusal(404, f"Invalid URL ({method} {path})")


def _parse(request: RecordedRequest, headers: Mapping[str, str]) -> Json:
    """The body as a JSON object.  Raises Refusal."""
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise Refusal(400, f"Unsupported content type {media!r}: this request wants application/json.")
    raw = _unpacked(bytes(request.body), headers.get("content-encoding", "identity"))
    try:
        value: Any = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"We could not parse the JSON body of your request: {error}") from None
    if not isinstance(value, dict):
        raise Refusal(400, "The body of a request is a JSON object.")
    return value


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def _unpacked(raw: bytes, coding: str) -> bytes:
    try:
        match coding.strip().lower():
            case "identity":
                return raw
            case "gzip":
                return zlib.decompressobj(wbits=31).decompress(raw, _MOST_BODY)
            case "zstd":
                return zstandard.ZstdDecompressor().decompressobj().decompress(raw)
    except (zlib.error, zstandard.ZstdError):
        raise Refusal(400, f"The body is no {coding}.") from None
    raise Refusal(400, f"Unsupported Content-Encoding {coding!r}.")


def _faults(model: str, headers: Mapping[str, str]) -> Faults:
    try:
        return read_faults(model, headers.items())
    except UnknownFaultError as error:
        raise Refusal(400, str(error), "model") from None


def _named(answer: Answer, family: Family, request_id: str) -> Answer:
    """Add the headers by which a vendor names the request."""
    if family is Family.GEMINI:
        return answer
    name = "request-id" if family is Family.ANTHROPIC else "x-request-id"
    more = () if family is Family.ANTHROPIC else _OPENAI_HEADERS
    return _with_headers(answer, ((name, request_id), *more))


def _with_headers(answer: Answer, more: tuple[tuple[str, str], ...]) -> Answer:
    return msgspec.structs.replace(answer, headers=answer.headers + more)


def _retry_after(answer: Answer, faults: Faults) -> Answer:
    silent = "no-retry-after" in faults
    if silent or answer.status not in {429, 503, 529} or isinstance(answer, Stream):
        return answer
    return _with_headers(answer, (("Retry-After", str(_seconds(faults))),))


def _seconds(faults: Faults) -> int:
    seconds = faults.number("retry-after")
    return 1 if seconds is None else seconds
