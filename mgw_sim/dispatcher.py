"""From a recorded request to a response: route, credential, body, faults, and the handler of the route.

The order is that of a vendor's front door: route, credential, body, model, and only then the fields.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from mgw_sim.accounts import AccountError, Accounts, is_of_accounts
from mgw_sim.api import (
    Answer,
    ApiError,
    Family,
    Json,
    Request,
    UnaryResponse,
)
from mgw_sim.aws.authority import BEDROCK, MODEL_SERVICES, AwsAuthority
from mgw_sim.aws.credentials import PREFIX as AWS_PREFIX
from mgw_sim.aws.credentials import AwsCredentialServices
from mgw_sim.aws.errors import AwsError, type_header
from mgw_sim.aws.signature import KeyPair
from mgw_sim.families import (
    ERROR_RESPONSES,
    Credential,
    credential_of,
    family_of,
    invalid_credential,
    missing_credential,
    prompt_too_long,
    unknown_model,
)
from mgw_sim.faults import Faults, UnknownFaultError, read_faults
from mgw_sim.http.bodies import read_body
from mgw_sim.http.router import WEBSOCKET, BodyKind, Route, RouteMatch
from mgw_sim.http.upgrade import UPGRADE_HEADERS, asks_for_websocket, check_upgrade
from mgw_sim.identity.service import IdentityProviders, is_of_identity_provider
from mgw_sim.platform.resources import check_ids
from mgw_sim.platform.store import Store
from mgw_sim.recording import RecordedRequest, Recorder, answer_operation, is_operation
from mgw_sim.routes import ROUTER
from mgw_sim.tokens import (
    OPERATIONS,
    TokenAuthority,
    is_metadata_probe,
    is_token_request,
    metadata_root,
)

_OPENAI_HEADERS: Final = (("openai-processing-ms", "1"), ("x-ratelimit-remaining-requests", "99"))
_GATEWAY_PARAMETERS: Final = ("mgw", "provider")
"""Parameters that no vendor has: where they arrive, something before us has let them through."""
_BEHIND_AWS: Final = ("/anthropic/v1/", "/openai/v1/")
"""How the paths of Anthropic's and OpenAI's APIs begin at Amazon's hosts."""
_Answer = TypeVar("_Answer", bound=Answer)
log: Final = Logger()


@dataclass(slots=True)
class _IncomingRequest:
    """What is known of a request before its route has been found."""

    recorded: RecordedRequest
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
    aws_keys: tuple[KeyPair, ...] = ()
    accounts: Accounts = field(init=False)
    tokens: TokenAuthority = field(init=False)
    aws: AwsAuthority = field(init=False)
    aws_credentials: AwsCredentialServices = field(init=False)
    identity: IdentityProviders = field(init=False)

    def __post_init__(self) -> None:
        """Open the authorization server, and the endpoints of tokens and keys beside it."""
        self.accounts = Accounts(self.now)
        self.tokens = TokenAuthority(self.now)
        self.aws = AwsAuthority(self.now, self.aws_keys)
        self.aws_credentials = AwsCredentialServices(self.aws)
        self.identity = IdentityProviders(self.reactor, self.recorder, self.now, self.tokens.add)

    async def answer(self, recorded: RecordedRequest) -> tuple[Answer, Faults]:
        """Answer one complete request."""
        raw_path, _, raw_query = recorded.target.partition("?")
        query = dict(parse_qsl(raw_query, keep_blank_values=True))
        headers = {name.lower(): value for name, value in recorded.headers}
        if is_of_accounts(raw_path):
            body = bytes(recorded.body)
            return self.accounts.answer(recorded.method, raw_path, query, headers, body), Faults()
        if raw_path in OPERATIONS:
            return self.tokens.operate(recorded, raw_path, query), Faults()
        if is_metadata_probe(recorded):
            return metadata_root(), Faults()
        if is_token_request(raw_path):
            answered = self.tokens.answer(recorded, raw_path, query)
            self.recorder.shorten(recorded)
            return answered
        if raw_path.startswith(AWS_PREFIX):
            given, faults = self.aws_credentials.answer(recorded, raw_path)
            return _with_headers(given, (self.aws.date(faults),)), faults
        if is_of_identity_provider(raw_path):
            return await self.identity.answer(recorded, raw_path, query)
        if is_operation(raw_path):
            return await answer_operation(self.recorder, self.reactor, recorded, raw_path, query), Faults()
        raw_path = _without_cloud(raw_path)
        incoming = _IncomingRequest(recorded, raw_path, unquote(raw_path), query, headers)
        response = self._respond(incoming)
        if self.aws.verifies or "aws" in incoming.faults:  # a client of AWS sets its clock by this
            response = _with_headers(response, (self.aws.date(incoming.faults),))
        self.recorder.shorten(recorded)
        return response, incoming.faults

    def _respond(self, incoming: _IncomingRequest) -> Answer:
        recorded = incoming.recorded
        match = ROUTER.find(incoming.raw_path)
        family = _family(match, incoming)
        request_id = f"req_sim{recorded.number:08d}"
        try:
            route, ids = _route(recorded.method, incoming, match, family)
            incoming.credential = _credential(route, incoming)
            response = self._answer_route(route, ids, incoming)
            return _with_request_id(response, family, request_id)
        except ApiError as error:
            refusal = ERROR_RESPONSES[family](error, request_id)
            if isinstance(error, AccountError):
                return _with_headers(refusal, error.headers)
            if isinstance(error, AwsError) and family is not Family.BEDROCK:
                return _with_headers(refusal, (type_header(error),))
            if error.status == 426:
                return _with_headers(refusal, UPGRADE_HEADERS)
            if family is Family.BEDROCK and "retry-after" not in incoming.faults:
                return refusal  # Amazon says it nowhere
            return _with_retry_after(refusal, incoming.faults)
        except Exception:  # a bug of the simulator: said aloud, and answered as a vendor would answer its own
            log.failure("no answer to {method} {path}", method=recorded.method, path=incoming.raw_path)
            return ERROR_RESPONSES[family](
                ApiError(500, "Internal error in the simulator; see its log."), request_id
            )

    def _answer_route(self, route: Route, ids: tuple[str, ...], incoming: _IncomingRequest) -> Answer:
        """Read the body, fail where that is asked for, and call the route's handler."""
        recorded, headers = incoming.recorded, incoming.headers
        if route.family is Family.BEDROCK:
            headers.setdefault("content-type", "application/json")  # as its service model has it
        body_kind = BodyKind.NOTHING if route.method == "GET" else route.body_kind
        body, form = read_body(recorded.body, headers, body_kind, is_upload=route.is_upload)
        model = _model(route, ids) or body.get("model") or (form.fields().get("model") if form else "") or ""
        if route.method == WEBSOCKET:
            check_upgrade(headers)
            model = model or incoming.query.get("model", "")
        name = model if isinstance(model, str) else ""
        incoming.faults = _faults((name, *ids), headers)
        self._admit(route.family, name, body, incoming)
        self._fail(route.family, str(model), incoming)
        request = Request(
            incoming.path,
            incoming.query,
            headers,
            body,
            str(model),
            incoming.faults,
            recorded.number,
            int(self.now()),
            family=route.family,
            method=route.method,
            template=route.template,
            ids=ids,
            raw=recorded.body,
            form=form,
            origin=f"{recorded.scheme}://{headers.get('host', 'localhost')}",
            store=self.store,
            lenient=self.recorder.lenient,
        )
        check_ids(request)
        return route.handler(request)

    def _admit(self, family: Family, model: str, body: Json, incoming: _IncomingRequest) -> None:
        """Raise ApiError where whoever asks may not."""
        credential, faults = incoming.credential, incoming.faults
        if credential is not None and not self._is_known(credential, faults):
            raise invalid_credential(family, credential)
        if credential is not None:
            self.accounts.admit(credential.value, model, body, incoming.headers)
        if self.aws.verifies or "aws" in faults:
            services = BEDROCK if family is Family.BEDROCK else MODEL_SERVICES
            self.aws.check(incoming.recorded, faults, model, services)

    def _is_known(self, credential: Credential, faults: Faults) -> bool:
        """Whether a credential is the one that was asked for, or a good token where those are wanted."""
        if (self.tokens.required or "issued" in faults) and not self.tokens.is_good(credential.value):
            return False
        return faults.text("key") in {None, credential.value}

    def _fail(self, family: Family, model: str, incoming: _IncomingRequest) -> None:
        """Raise the failure that was asked for."""
        faults = incoming.faults
        if model.removeprefix("models/").removeprefix("anthropic.").startswith("missing"):
            raise unknown_model(family, model)
        if "too-long" in faults:
            raise prompt_too_long(family)
        status = faults.number("status")
        name = model or incoming.raw_path
        if "flaky" in faults and self.recorder.fail_again(name, faults.number("flaky", place=1) or 0):
            status = faults.number("flaky")
        if status is not None and status >= 400:
            error = ApiError(status, f"The simulator was asked for status {status}.")
            error.retry_after = _retry_after_seconds(faults)
            raise error


def _family(match: RouteMatch | None, incoming: _IncomingRequest) -> Family:
    """Return the family of the path; where several have it, or none, the one that the headers mean."""
    if match is not None and len(match.routes) == 1:
        return next(iter(match.routes))
    return family_of(incoming.path, incoming.headers, incoming.query)


def _route(
    method: str, incoming: _IncomingRequest, match: RouteMatch | None, family: Family
) -> tuple[Route, tuple[str, ...]]:
    """The route of a method.  Raises ApiError where the vendor has none."""
    methods = None if match is None else match.routes.get(family)
    if match is None or methods is None:
        raise ApiError(404, f"Invalid URL ({method} {incoming.path})")
    route = methods.get(WEBSOCKET) if asks_for_websocket(method, incoming.headers) else None
    route = route or methods.get(method)  # an upgrade that is not known here is not looked at: RFC 9110 7.8
    if route is None:
        raise ApiError(405, f"Not allowed to {method} on {incoming.path}", code="method_not_allowed")
    for name in _GATEWAY_PARAMETERS:
        if name in incoming.query:
            raise ApiError(400, f"Unknown query parameter: '{name}'.", name, "unknown_parameter")
    return route, match.ids


def _credential(route: Route, incoming: _IncomingRequest) -> Credential | None:
    """Whom the client says it is.  Raises ApiError; what continues an upload is known by that."""
    if route.is_upload and "upload_id" in incoming.query:
        return None
    credential = credential_of(route.family, incoming.headers, incoming.query)
    if credential is None:
        raise missing_credential(route.family)
    if credential.value.startswith("wrong"):
        raise invalid_credential(route.family, credential)
    if route.family is Family.ANTHROPIC and not incoming.headers.get("anthropic-version"):
        raise ApiError(400, "anthropic-version: header is required")
    return credential


def _model(route: Route, ids: tuple[str, ...]) -> str:
    """The model, where the path names it."""
    if not route.names_model:
        return ""
    return f"tunedModels/{ids[-1]}" if "/tunedModels/" in route.template else ids[-1]


def _faults(names: Iterable[str], headers: Mapping[str, str]) -> Faults:
    try:
        return read_faults("+".join(names), headers.items())
    except UnknownFaultError as error:
        raise ApiError(400, str(error), "model") from None


def _without_cloud(raw_path: str) -> str:
    """The path as the vendor's own host has it."""
    for prefix in _BEHIND_AWS:
        if raw_path.startswith(prefix):
            return raw_path[prefix.index("/v1/") :]
    return raw_path


def _with_request_id(response: Answer, family: Family, request_id: str) -> Answer:
    """Add the headers by which a vendor names the request."""
    if family is Family.GEMINI:
        return response
    if family is Family.OPENAI:
        return _with_headers(response, (("x-request-id", request_id), *_OPENAI_HEADERS))
    name = "x-amzn-requestid" if family is Family.BEDROCK else "request-id"
    return _with_headers(response, ((name, request_id),))


def _with_headers(response: _Answer, more: tuple[tuple[str, str], ...]) -> _Answer:
    return msgspec.structs.replace(response, headers=response.headers + more)


def _with_retry_after(response: UnaryResponse, faults: Faults) -> UnaryResponse:
    if "no-retry-after" in faults or response.status not in {429, 503, 529}:
        return response
    return _with_headers(response, (("Retry-After", str(_retry_after_seconds(faults))),))


def _retry_after_seconds(faults: Faults) -> int:
    seconds = faults.number("retry-after")
    return 1 if seconds is None else seconds
