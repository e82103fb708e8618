"""What gives out AWS's keys: STS, the endpoint of containers, and the metadata service of instances.

They stand below ``/sim-aws/``: ``sts``, ``container/NAME`` and ``imds``, whose paths begin with ``/latest/``.
Words of :mod:`mgw_sim.faults` stand in the ARN of a role, in the name behind ``container/``, and behind
``imds+``; ``sim-expires-20`` gives keys for twenty seconds, ``sim-key-TEXT`` wants that ``Authorization`` of
a container.  Sources: botocore's model ``sts/2011-06-15``, its ``ContainerProvider`` and
``InstanceMetadataFetcher``.
"""

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qsl, unquote
from xml.sax.saxutils import escape

from mgw_sim.api import ApiError, Json, Response, UnaryResponse, json_response
from mgw_sim.aws.authority import STS, USUAL_SECONDS, AwsAuthority
from mgw_sim.aws.errors import AwsError, xml_error_response
from mgw_sim.aws.signature import KeyPair
from mgw_sim.faults import Faults, UnknownFaultError, read_faults
from mgw_sim.recording import RecordedRequest

PREFIX: Final = "/sim-aws/"
ROLE: Final = "simulated-role"
_VERSION: Final = "2011-06-15"
_ROLE_PATH: Final = "/latest/meta-data/iam/security-credentials/"


class _UnknownActionError(Exception):
    """STS has no such action here."""


@dataclass(slots=True)
class AwsCredentialServices:
    """Answers requests for keys."""

    authority: AwsAuthority
    _tokens: set[str] = field(default_factory=set)
    """The metadata service's own tokens."""

    def answer(self, request: RecordedRequest, path: str) -> tuple[Response, Faults]:
        """Answer one request, and say what is to go wrong on its way."""
        below = path.removeprefix(PREFIX)
        name = below.partition("/")[0]
        try:
            if name == "sts":
                return self._sts(request)
            if name == "container":
                return self._container(request, unquote(below.partition("/")[2]))
            if name.partition("+")[0] == "imds":
                return self._metadata(request, unquote(name), below[len(name) :])
        except UnknownFaultError as error:
            return UnaryResponse(f"{error}\n".encode(), 400, "text/plain"), Faults()
        return UnaryResponse(b"no such service\n", 404, "text/plain"), Faults()

    def _sts(self, request: RecordedRequest) -> tuple[Response, Faults]:
        form = dict(parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True))
        faults = read_faults(form.get("RoleArn", ""), ())
        status = faults.number("status")
        if status is not None:
            return xml_error_response(
                "Asked", f"The simulator was asked for status {status}.", status
            ), faults
        try:
            return self._assume(request, form, faults), faults
        except AwsError as error:
            # STS has these two without the ending that newer services give them
            code = str(error.code).removesuffix("Exception")
            named = {
                "UnrecognizedClient": "InvalidClientTokenId",
                "InvalidSignature": "SignatureDoesNotMatch",
            }
            return xml_error_response(named.get(code, code), error.message, error.status), faults
        except _UnknownActionError:
            message = f"Could not find operation {form.get('Action')} for version {form.get('Version')}"
            return xml_error_response("InvalidAction", message, 400), faults

    def _assume(self, request: RecordedRequest, form: dict[str, str], faults: Faults) -> Response:
        action = form.get("Action", "")
        if request.method != "POST" or form.get("Version") != _VERSION:
            raise _UnknownActionError
        if action == "AssumeRole":
            self.authority.check(request, faults, form.get("RoleArn", ""), STS)
        elif action == "AssumeRoleWithWebIdentity":
            token = form.get("WebIdentityToken", "")
            if not token or token.startswith("wrong"):
                message = "Couldn't retrieve verification key from your identity provider"
                return xml_error_response("InvalidIdentityToken", message, 400)
        else:
            raise _UnknownActionError
        for name in ("RoleArn", "RoleSessionName"):
            if not form.get(name):
                message = f"1 validation error detected: Value null at '{name}' failed to satisfy constraint"
                return xml_error_response("ValidationError", message, 400)
        key = self.authority.issue(_seconds(faults))
        return UnaryResponse(_role_answer(action, form, key), content_type="text/xml")

    def _container(self, request: RecordedRequest, name: str) -> tuple[Response, Faults]:
        faults = read_faults(name, ())
        status = faults.number("status")
        if status is not None:
            return json_error(status, f"The simulator was asked for status {status}."), faults
        wanted = faults.text("key")
        given = [value for header, value in request.headers if header.lower() == "authorization"]
        if request.method != "GET" or (wanted is not None and given != [wanted]):
            return json_error(401, "The token is not the one that this container was given."), faults
        return json_response({**_fields(self.authority.issue(_seconds(faults))), "RoleArn": ROLE}), faults

    def _metadata(self, request: RecordedRequest, name: str, path: str) -> tuple[Response, Faults]:
        faults = read_faults(name, ())
        headers = {header.lower(): value for header, value in request.headers}
        if "x-forwarded-for" in headers:
            return _text("Forbidden", 403), faults
        if (request.method, path) == ("PUT", "/latest/api/token"):
            if not headers.get("x-aws-ec2-metadata-token-ttl-seconds", "").isdigit():
                return _text("Bad Request", 400), faults
            token = secrets.token_urlsafe(40)
            self._tokens.add(token)
            return _text(token), faults
        if headers.get("x-aws-ec2-metadata-token") not in self._tokens:  # version 1 is turned off
            return _text("Unauthorized", 401), faults
        if request.method != "GET" or not path.startswith(_ROLE_PATH):
            return _text("Not Found", 404), faults
        role = path.removeprefix(_ROLE_PATH)
        if not role:
            return _text(ROLE), faults
        if role != ROLE:
            return _text("Not Found", 404), faults
        status = faults.number("status")
        if status is not None:
            return _text("Internal Server Error", status), faults
        now = _iso(self.authority.now())
        fields = _fields(self.authority.issue(_seconds(faults)))
        return json_response({"Code": "Success", "LastUpdated": now, "Type": "AWS-HMAC", **fields}), faults


def json_error(status: int, message: str) -> UnaryResponse:
    """An error of the containers' endpoint."""
    api_error = ApiError(status, message)
    return UnaryResponse(b'{"code":"Refused","message":"%b"}' % api_error.message.encode(), status)


def _seconds(faults: Faults) -> float:
    text = faults.text("expires")
    try:
        return USUAL_SECONDS if text is None else float(text)
    except ValueError:
        raise UnknownFaultError("sim-expires: expected a number of seconds") from None


def _text(text: str, status: int = 200) -> UnaryResponse:
    return UnaryResponse(text.encode(), status, "text/plain")


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _fields(key: KeyPair) -> Json:
    """A key as containers and instances get it."""
    assert key.expires is not None
    return {
        "AccessKeyId": key.key_id,
        "SecretAccessKey": key.secret,
        "Token": key.token,
        "Expiration": _iso(key.expires),
    }


def _role_answer(action: str, form: dict[str, str], key: KeyPair) -> bytes:
    """A key as STS gives it."""
    assert key.token is not None
    assert key.expires is not None
    arn = f"{form['RoleArn']}/{form['RoleSessionName']}"
    return (
        f'<{action}Response xmlns="https://sts.amazonaws.com/doc/{_VERSION}/">\n'
        f"  <{action}Result>\n    <AssumedRoleUser>\n      <AssumedRoleId>AROASIM:x</AssumedRoleId>\n"
        f"      <Arn>{escape(arn)}</Arn>\n    </AssumedRoleUser>\n    <Credentials>\n"
        f"      <AccessKeyId>{key.key_id}</AccessKeyId>\n"
        f"      <SecretAccessKey>{escape(key.secret)}</SecretAccessKey>\n"
        f"      <SessionToken>{escape(key.token)}</SessionToken>\n"
        f"      <Expiration>{_iso(key.expires)}</Expiration>\n    </Credentials>\n  </{action}Result>\n"
        "  <ResponseMetadata><RequestId>01234567-89ab-cdef-0123-456789abcdef</RequestId></ResponseMetadata>\n"
        f"</{action}Response>\n"
    ).encode()
