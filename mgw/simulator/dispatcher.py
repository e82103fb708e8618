"""From a recorded request to a response: route, credential, body, faults, and the handler of the route.

The order is that of a vendor's front door: route, credential, body, model, and only then the fields.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote

import msgspec
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from mgw.simulator.api import ApiError, Family, Request, Response, StreamResponse
from mgw.simulator.families import (
    ERROR_RESPONSES,
    Credential,
    credential_of,
    family_of,
    invalid_credential,
    missing_credential,
    unknown_model,
)
from mgw.simulator.faults import Faults, UnknownFaultError, read_faults
from mgw.simulator.http.bodies import read_body
from mgw.simulator.http.router import BodyKind, Route, RouteMatch
from mgw.simulator.platform.resources import check_ids
from mgw.simulator.platform.store import Store
from mgw.simulator.recording import RecordedRequest, Recorder, answer_operation, is_operation
from mgw.simulator.routes import ROUTER

_OPENAI_HEADERS: Final = (("openai-processing-ms", "1"), ("x-ratelimit-remaining-requests", "99"))
_GATEWAY_PARAMETERS: Final = ("mgw", "provider")
"""Parameters that no vendor has: where they arrive, something before us has let them through."""
log: Final = Logger()


@dataclass(slots=True)
class _IncomingRequest:
    """What is known of a request before its row has been found."""

    request: RecordedRequest
    raw_path: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    faults: Faults = field(default_factory=Faults)
    credential: Credential | None = None


@dataclass(slots=True)
class Dispatcher:
    """Answers requests: the service behind the connections."""

    reactor: IReactorTime
    recorder: Recorder
    now: Callable[[], float]
    store: Store = field(default_factory=Store)

    async def answer(self, request: RecordedRequest) -> tuple[Response, Faults]:
        """Answer one complete request."""
        raw_path, _, raw_query = request.target.partition("?")
        query = dict(parse_qsl(raw_query, keep_blank_values=True))
        if is_operation(raw_path):
            return await answer_operation(self.recorder, self.reactor, request, raw_path, query), Faults()
        headers = {name.lower(): value for name, value in request.headers}
        asked = _IncomingRequest(request, raw_path, unquote(raw_path), query, headers)
        answer = self._ask(asked)
        self.recorder.shorten(request)
        return answer, asked.faults

    def _ask(self, asked: _IncomingRequest) -> Response:
        request = asked.request
        found = ROUTER.find(asked.raw_path)
        family = _family(found, asked)
        request_id = f"req_sim{request.number:08d}"
        try:
            row, ids = _route(request.method, asked, found, family)
            asked.credential = _credential(row, asked)
            answer = self._answer_row(row, ids, asked)
            return _with_request_id(answer, family, request_id)
        except ApiError as refusal:
            return _with_retry_after(ERROR_RESPONSES[family](refusal, request_id), asked.faults)
        except Exception:  # a bug of the simulator: said aloud, and answered as a vendor would answer its own
            log.failure("no answer to {method} {path}", method=request.method, path=asked.raw_path)
            return ERROR_RESPONSES[family](
                ApiError(500, "The simulator has a bug; its log says where."), request_id
            )

    def _answer_row(self, row: Route, ids: tuple[str, ...], asked: _IncomingRequest) -> Response:
        """Read the body, fail where that is asked for, and let the row do what it does."""
        request, headers = asked.request, asked.headers
        reads = BodyKind.NOTHING if row.method == "GET" else row.reads
        body, form = read_body(request.body, headers, reads, is_upload=row.is_upload)
        model = _model(row, ids) or body.get("model") or (form.fields().get("model") if form else "") or ""
        named = model if isinstance(model, str) else ""
        asked.faults = _faults((named, *ids), headers)
        if asked.credential is not None and asked.faults.text("key") not in {None, asked.credential.value}:
            raise invalid_credential(row.family, asked.credential)
        self._fail(row.family, str(model), asked)
        call = Request(
            asked.path,
            asked.query,
            headers,
            body,
            str(model),
            asked.faults,
            request.number,
            int(self.now()),
            family=row.family,
            method=row.method,
            template=row.template,
            ids=ids,
            raw=request.body,
            form=form,
            origin=f"{request.scheme}://{headers.get('host', 'localhost')}",
            store=self.store,
            lenient=self.recorder.lenient,
        )
        check_ids(call)
        return row.handler(call)

    def _fail(self, family: Family, model: str, asked: _IncomingRequest) -> None:
        """Raise the failure that was asked for."""
        faults = asked.faults
        if model.removeprefix("models/").startswith("missing"):
            raise unknown_model(family, model)
        status = faults.number("status")
        name = model or asked.raw_path
        if "flaky" in faults and self.recorder.fail_again(name, faults.number("flaky", place=1) or 0):
            status = faults.number("flaky")
        if status is not None and status >= 400:
            refusal = ApiError(status, f"The simulator was asked for status {status}.")
            refusal.retry_after = _retry_after_seconds(faults)
            raise refusal


def _family(found: RouteMatch | None, asked: _IncomingRequest) -> Family:
    """Whose the path is; where several vendors have it, or none, whom the headers mean."""
    if found is not None and len(found.rows) == 1:
        return next(iter(found.rows))
    return family_of(asked.path, asked.headers, asked.query)


def _route(
    method: str, asked: _IncomingRequest, found: RouteMatch | None, family: Family
) -> tuple[Route, tuple[str, ...]]:
    """The row of a method.  Raises Refusal where the vendor has none."""
    methods = None if found is None else found.rows.get(family)
    if found is None or methods is None:
        raise ApiError(404, f"Invalid URL ({method} {asked.path})")
    row = methods.get(method)
    if row is None:
        raise ApiError(405, f"Not allowed to {method} on {asked.path}", code="method_not_allowed")
    for name in _GATEWAY_PARAMETERS:
        if name in asked.query:
            raise ApiError(400, f"Unknown query parameter: '{name}'.", name, "unknown_parameter")
    return row, found.ids


def _credential(row: Route, asked: _IncomingRequest) -> Credential | None:
    """Whom the client says it is.  Raises Refusal; what continues an upload is known by that."""
    if row.is_upload and "upload_id" in asked.query:
        return None
    credential = credential_of(row.family, asked.headers, asked.query)
    if credential is None:
        raise missing_credential(row.family)
    if credential.value.startswith("wrong"):
        raise invalid_credential(row.family, credential)
    if row.family is Family.ANTHROPIC and not asked.headers.get("anthropic-version"):
        raise ApiError(400, "anthropic-version: header is required")
    return credential


def _model(row: Route, ids: tuple[str, ...]) -> str:
    """The model, where the path names it."""
    if not row.names_model:
        return ""
    return f"tunedModels/{ids[-1]}" if "/tunedModels/" in row.template else ids[-1]


def _faults(names: Iterable[str], headers: Mapping[str, str]) -> Faults:
    try:
        return read_faults("+".join(names), headers.items())
    except UnknownFaultError as error:
        raise ApiError(400, str(error), "model") from None


def _with_request_id(answer: Response, family: Family, request_id: str) -> Response:
    """Add the headers by which a vendor names the request."""
    if family is Family.GEMINI:
        return answer
    name = "request-id" if family is Family.ANTHROPIC else "x-request-id"
    more = () if family is Family.ANTHROPIC else _OPENAI_HEADERS
    return _with_headers(answer, ((name, request_id), *more))


def _with_headers(answer: Response, more: tuple[tuple[str, str], ...]) -> Response:
    return msgspec.structs.replace(answer, headers=answer.headers + more)


def _with_retry_after(answer: Response, faults: Faults) -> Response:
    silent = "no-retry-after" in faults
    if silent or answer.status not in {429, 503, 529} or isinstance(answer, StreamResponse):
        return answer
    return _with_headers(answer, (("Retry-After", str(_retry_after_seconds(faults))),))


def _retry_after_seconds(faults: Faults) -> int:
    seconds = faults.number("retry-after")
    return 1 if seconds is None else seconds
