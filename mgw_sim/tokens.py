"""A token endpoint, a metadata server, and the tokens that they have issued.

``POST /oauth/token`` knows client credentials, refresh tokens, token exchange (RFC 8693) and signed
assertions (RFC 7523).  ``/computeMetadata/v1/…/token`` is the metadata server of a machine of Google's.  The
words of :mod:`mgw_sim.faults` stand among the scopes; ``PUT /_sim/tokens`` sets some for all requests.
"""

import base64
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus

from msgspec import Struct

from mgw_sim.api import Response, UnaryResponse, dump_json, json_response
from mgw_sim.assertions import SigningKey, read_assertion
from mgw_sim.faults import Faults, UnknownFaultError, read_faults
from mgw_sim.recording import RecordedRequest

TOKEN_PATH: Final = "/oauth/token"  # noqa: S105  a path
METADATA_PREFIX: Final = "/computeMetadata/"
METADATA_TOKEN: Final = METADATA_PREFIX + "v1/instance/service-accounts/default/token"
OPERATIONS: Final = frozenset({"/_sim/tokens", "/_sim/service-account"})
USUAL_SECONDS: Final = 3600
MAX_TOKENS: Final = 10_000
"""How many are remembered; the oldest go first."""

_FLAVOR: Final = (("Metadata-Flavor", "Google"),)
NO_STORE: Final = (("Cache-Control", "no-store"),)  # RFC 6749 5.1


class TokenRefusedError(Exception):
    """The endpoint refuses: an error code of OAuth, and the status that goes with it."""

    def __init__(self, code: str, status: int = 400) -> None:
        super().__init__(code)
        self.code = code
        self.status = status


class GrantRequest(Struct, frozen=True):
    """One request for a token, and who sends it."""

    form: dict[str, str]
    client_id: str | None
    client_secret: str | None

    def need(self, name: str) -> str:
        """A field that must be there."""
        value = self.form.get(name)
        if not value:
            raise TokenRefusedError("invalid_request")
        return value


@dataclass(slots=True)
class TokenAuthority:
    """Issues tokens, and knows which of them are good."""

    now: Callable[[], float]
    required: bool = False
    """Every route of a vendor wants a token that was issued here and has not expired."""
    words: str = ""
    """Faults of all requests for tokens."""
    key: SigningKey = field(default_factory=SigningKey)
    _tokens: dict[str, float] = field(default_factory=dict)
    """When each expires."""
    _spent: set[str] = field(default_factory=set)
    """Refresh tokens that were replaced."""

    def is_good(self, token: str) -> bool:
        """Whether a token was issued here, has not expired and was not revoked."""
        return self.now() < self._tokens.get(token, 0)

    def add(self, token: str, seconds: float) -> None:
        """Take a token for good from now on for so long."""
        while len(self._tokens) >= MAX_TOKENS:
            del self._tokens[next(iter(self._tokens))]
        self._tokens[token] = self.now() + seconds

    def operate(self, recorded: RecordedRequest, path: str, query: Mapping[str, str]) -> Response:
        """Answer a request of a test: which tokens are wanted, what goes wrong, a key to sign with."""
        match recorded.method, path:
            case "PUT", "/_sim/tokens":
                self.required = query.get("required") == "on"
                self.words = query.get("words", "")
                return json_response({"required": self.required, "words": self.words})
            case "DELETE", "/_sim/tokens":
                count = len(self._tokens)
                self._tokens.clear()
                return json_response({"revoked": count})
            case "GET", "/_sim/service-account":
                return json_response(self.key.file(origin_of(recorded) + TOKEN_PATH))
        return UnaryResponse(b'{"error":"no such route"}', status=404)

    def answer(
        self, recorded: RecordedRequest, path: str, query: Mapping[str, str]
    ) -> tuple[Response, Faults]:
        """Answer a request for a token, and say what is to go wrong on its way."""
        is_metadata = path.startswith(METADATA_PREFIX)
        faults = Faults()
        try:
            form = dict(query) if is_metadata else read_form(recorded)
            scope = form.get("scope", "") or form.get("scopes", "").replace(",", " ")
            claims = read_assertion(form.get("assertion", ""))
            faults = read_faults(" ".join([scope, str(claims.get("scope", "")), self.words]), ())
            if is_metadata:
                return self._metadata(recorded, path, faults), faults
            if recorded.method != "POST":
                return UnaryResponse(b"", status=405, headers=(("Allow", "POST"),)), faults
            return self._token(read_grant_request(form, recorded), faults, origin_of(recorded)), faults
        except UnknownFaultError as error:
            return token_error("invalid_scope", 400, str(error)), faults
        except TokenRefusedError as refusal:
            return token_error(refusal.code, refusal.status), faults

    def _metadata(self, recorded: RecordedRequest, path: str, faults: Faults) -> Response:
        flavors = [value for name, value in recorded.headers if name.lower() == "metadata-flavor"]
        if flavors != ["Google"]:
            return UnaryResponse(b"Missing Metadata-Flavor:Google header.", 403, "text/html", _FLAVOR)
        if path != METADATA_TOKEN:
            return UnaryResponse(b"computeMetadata/\n", content_type="application/text", headers=_FLAVOR)
        return self._issue(faults, {}, _FLAVOR)

    def _token(self, asked: GrantRequest, faults: Faults, origin: str) -> Response:
        """Answer by the grant."""
        more: dict[str, object] = {}
        if (asked.client_secret or "").startswith("wrong"):
            raise TokenRefusedError("invalid_client", 401)
        match asked.form.get("grant_type"):
            case "client_credentials":
                if not asked.client_id or not asked.client_secret:
                    raise TokenRefusedError("invalid_client", 401)
            case "refresh_token":
                more = self._refreshed(asked.need("refresh_token"), faults)
            case "urn:ietf:params:oauth:grant-type:token-exchange":
                asked.need("subject_token_type")
                if asked.need("subject_token").startswith("wrong"):
                    raise TokenRefusedError("invalid_grant")
                more = {"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
            case "urn:ietf:params:oauth:grant-type:jwt-bearer":
                assertion = asked.need("assertion")
                if assertion.startswith("wrong") or not self.key.accepts(
                    assertion, origin + TOKEN_PATH, self.now()
                ):
                    raise TokenRefusedError("invalid_grant")
            case _:
                raise TokenRefusedError("unsupported_grant_type")
        return self._issue(faults, more, NO_STORE)

    def _refreshed(self, refresh_token: str, faults: Faults) -> dict[str, object]:
        if refresh_token.startswith("wrong") or refresh_token in self._spent:
            raise TokenRefusedError("invalid_grant")
        if "rotate" not in faults:
            return {}
        self._spent.add(refresh_token)
        return {"refresh_token": f"sim-refresh-{secrets.token_hex(8)}"}

    def _issue(
        self, faults: Faults, more: Mapping[str, object], headers: tuple[tuple[str, str], ...]
    ) -> Response:
        """Answer with a new token, or with what was asked for in its place."""
        wrong = _in_place_of_a_token(faults)
        if wrong is not None:
            return wrong
        token = f"sim-issued-{secrets.token_hex(8)}"
        said = faults.text("expires")
        life = _number(said)
        self.add(token, USUAL_SECONDS if life is None else life)
        fields: dict[str, object] = {"access_token": token, "token_type": "Bearer"}
        if said is None:
            fields["expires_in"] = USUAL_SECONDS
        elif said != "none":
            fields["expires_in"] = said if life is None else life
        if faults.text("token") == "no-token":
            del fields["access_token"]
        if faults.text("token") == "mac":
            fields["token_type"] = "mac"  # noqa: S105  a kind of token
        return UnaryResponse(dump_json({**fields, **more}), headers=headers)


def is_token_request(path: str) -> bool:
    """Whether a path is the token endpoint's or the metadata server's."""
    return path == TOKEN_PATH or path.startswith(METADATA_PREFIX)


def is_metadata_probe(recorded: RecordedRequest) -> bool:
    """Whether somebody looks for a metadata server."""
    return recorded.target == "/" and any(name.lower() == "metadata-flavor" for name, _ in recorded.headers)


def metadata_root() -> Response:
    """What a metadata server says at its root."""
    return UnaryResponse(b"computeMetadata/\n", content_type="application/text", headers=_FLAVOR)


def _in_place_of_a_token(faults: Faults) -> Response | None:
    status = faults.number("status")
    if status is not None:
        return token_error("server_error" if status >= 500 else "invalid_request", status)
    match faults.text("token"):
        case "html":
            return UnaryResponse(b"<!doctype html><title>Sign in</title>", content_type="text/html")
        case "list":
            return json_response([])
        case "redirect":
            return UnaryResponse(b"", 302, headers=(("Location", "/sign-in"),))
    return None


def read_grant_request(form: dict[str, str], recorded: RecordedRequest) -> GrantRequest:
    """Read who asks, from the fields or the header (RFC 6749 2.3.1).  Raises TokenRefusedError."""
    header = next((value for name, value in recorded.headers if name.lower() == "authorization"), "")
    if not header.startswith("Basic "):
        return GrantRequest(form, form.get("client_id"), form.get("client_secret"))
    try:
        pair = base64.b64decode(header.removeprefix("Basic "), validate=True).decode("ascii")
    except ValueError:
        raise TokenRefusedError("invalid_client", 401) from None
    client_id, _, client_secret = pair.partition(":")
    if "client_id" in form or "client_secret" in form:  # RFC 6749 2.3: one way only
        raise TokenRefusedError("invalid_request")
    return GrantRequest(form, unquote_plus(client_id), unquote_plus(client_secret))


def read_form(recorded: RecordedRequest) -> dict[str, str]:
    """The fields of a request, a form as the standard says or JSON as some vendors do.

    Raises TokenRefusedError.
    """
    media_type = next((value for name, value in recorded.headers if name.lower() == "content-type"), "")
    text = recorded.body.decode("utf-8", "replace")
    if media_type.partition(";")[0].strip() == "application/json":
        try:
            fields: Any = json.loads(text)
        except ValueError:
            raise TokenRefusedError("invalid_request") from None
        if not isinstance(fields, dict):
            raise TokenRefusedError("invalid_request")
        return {name: str(value) for name, value in fields.items()}
    pairs = parse_qsl(text, keep_blank_values=True)
    if len(dict(pairs)) != len(pairs):  # RFC 6749 3.2: none more than once
        raise TokenRefusedError("invalid_request")
    return dict(pairs)


def _number(text: str | None) -> float | int | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def token_error(
    code: str, status: int, description: str = "The simulator rejected this request."
) -> UnaryResponse:
    """An error as RFC 6749 5.2 has it."""
    return UnaryResponse(
        dump_json({"error": code, "error_description": description}), status, headers=NO_STORE
    )


def origin_of(recorded: RecordedRequest) -> str:
    """The address under which the simulator was asked, without a path."""
    host = next((value for name, value in recorded.headers if name.lower() == "host"), "localhost")
    return f"{recorded.scheme}://{host}"
