"""Subscription accounts: an authorization server, and what each account may do with the vendors' routes.

Tokens say whose they are: ``sim-access-NAME-7``.  A credential that begins so is looked at on every route;
any other is accepted as ever.  A refresh token is good for one use.  One that comes a second time takes all
tokens of its account along, as vendors do that suspect a theft.

Sources: RFC 6749 (codes, refreshing), RFC 7636 (PKCE, ``S256`` alone), RFC 8628 (device codes), RFC 7009
(revocation).
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from mgw_sim.api import ApiError, Json, Response, UnaryResponse, json_response

ACCESS: Final = "sim-access-"
REFRESH: Final = "sim-refresh-"
_DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_ACCOUNT: Final = re.compile(r"[A-Za-z0-9]{1,32}")
_MAX_CODES: Final = 1000
_FORBIDDEN_TEXT: Final = "This account is not entitled to use this model."


class OAuthError(Exception):
    """A refusal in OAuth's own shape."""

    def __init__(self, code: str, status: int = 400) -> None:
        super().__init__(code)
        self.code = code
        self.status = status


class AccountError(ApiError):
    """A refusal of a vendor's route, with headers of its own."""

    def __init__(self, status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(status, message)
        self.headers = headers


@dataclass(slots=True)
class Account:
    """One account: its tokens, its limit and what it demands."""

    access: dict[str, float] = field(default_factory=dict)
    """When each access token ends."""
    refresh: set[str] = field(default_factory=set)
    spent: set[str] = field(default_factory=set)
    used: dict[str, int] = field(default_factory=dict)
    """Requests by model."""
    refreshes: int = 0
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Code:
    """A code that is waiting to be exchanged."""

    account: str | None
    client_id: str
    challenge: str = ""
    redirect_uri: str = ""
    denied: bool = False
    until: float | None = None
    """When it can no longer be exchanged, for a device."""
    polled_at: float | None = None


@dataclass(slots=True)
class Accounts:
    """The authorization server.

    :param now: returns unix seconds.
    """

    now: Callable[[], float]
    accounts: dict[str, Account] = field(default_factory=dict)
    expires_in: int = 3600
    interval: int = 5
    device_expires_in: int = 600
    _codes: dict[str, _Code] = field(default_factory=dict)
    _serial: int = 0

    def answer(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Response:
        """Answer a request below ``/login/``, or for an account below ``/_sim/``."""
        form = _fields(headers, body)
        handlers: dict[tuple[str, str], Callable[[], Response]] = {
            ("GET", "/login/authorize"): lambda: self._authorize(query),
            ("POST", "/login/token"): lambda: self._token(form),
            ("POST", "/login/device"): lambda: self._device(form, headers),
            ("GET", "/login/device/approve"): lambda: self._approve(query),
            ("POST", "/login/revoke"): lambda: self._revoke(form),
            ("GET", "/_sim/accounts"): lambda: json_response(self._as_json()),
            ("PUT", "/_sim/accounts"): lambda: self._settle(query),
            ("DELETE", "/_sim/accounts"): self._clear,
        }
        handler = handlers.get((method, path))
        if handler is None:
            return UnaryResponse(b'{"error":"no such route"}', status=404)
        try:
            return handler()
        except OAuthError as error:
            described = {"error": error.code, "error_description": "The simulator rejected this request."}
            return UnaryResponse(json.dumps(described).encode(), status=error.status)

    def admit(self, token: str, model: str, body: Json, headers: Mapping[str, str]) -> None:
        """Let a request of an account pass.  Raises ApiError where the vendor would refuse it."""
        if not token.startswith(ACCESS):
            return
        name = token.removeprefix(ACCESS).rpartition("-")[0]
        account = self.accounts.get(name)
        if account is None or account.access.get(token, 0.0) <= self.now():
            raise AccountError(401, "The access token is invalid or has expired.")
        settings = account.settings
        if model and model in settings.get("forbidden", "").split(","):
            raise AccountError(403, _FORBIDDEN_TEXT, (("x-sim-entitlement", "none"),))
        self._check_demands(settings, body, headers)
        account.used[model] = account.used.get(model, 0) + 1
        if "requests" in settings and account.used[model] > int(settings["requests"]):
            raise AccountError(429, "This account has reached its limit.", self._limit_headers(settings))

    def _check_demands(self, settings: Mapping[str, str], body: Json, headers: Mapping[str, str]) -> None:
        for demand in filter(None, settings.get("header", "").split(",")):
            name, _, value = demand.partition(":")
            if value not in headers.get(name.lower(), ""):
                raise AccountError(400, f"This account requires the header {demand}.")
        prefix = settings.get("tool-prefix", "")
        for tool in body.get("tools") or ():
            name = tool.get("name") or tool.get("function", {}).get("name") or ""
            if not name.startswith(prefix):
                raise AccountError(400, f"This account requires tool names that begin with {prefix}.")

    def _limit_headers(self, settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        if "retry-after" in settings:
            return (("Retry-After", settings["retry-after"]),)
        if "reset" in settings:
            return (("x-sim-reset", str(int(self.now()) + int(settings["reset"]))),)
        return ()

    def _authorize(self, query: Mapping[str, str]) -> Response:
        """Show the page of a login, or approve at once: ``?account=NAME`` (RFC 6749 4.1.1)."""
        redirect, client = query.get("redirect_uri", ""), query.get("client_id", "")
        if not redirect or not client or query.get("response_type") != "code":
            raise OAuthError("invalid_request")
        if not query.get("code_challenge") or query.get("code_challenge_method") != "S256":
            raise OAuthError("invalid_request")
        name = query.get("account")
        if name is None:
            here = "/login/authorize?" + urlencode({**query, "account": "demo"})
            page = f'<!doctype html><title>Log in</title><a href="{html.escape(here)}">Log in as demo</a>'
            return UnaryResponse(page.encode(), content_type="text/html; charset=utf-8")
        if query.get("deny"):
            said = {"error": "access_denied"}
        else:
            said = {"code": self._keep(_Code(name, client, query["code_challenge"], redirect))}
        if "state" in query:
            said["state"] = query["state"]
        location = redirect + ("&" if "?" in redirect else "?") + urlencode(said)
        return UnaryResponse(b"", status=302, headers=(("Location", location),))

    def _device(self, form: Mapping[str, str], headers: Mapping[str, str]) -> Response:
        """Begin the login on another device (RFC 8628 3.1)."""
        if not form.get("client_id"):
            raise OAuthError("invalid_request")
        code = self._keep(_Code(None, form["client_id"], until=self.now() + self.device_expires_in))
        user_code = f"SIM-{code.rpartition('-')[2]}"
        page = f"http://{headers.get('host', 'localhost')}/login/device/approve"
        return json_response(
            {
                "device_code": code,
                "user_code": user_code,
                "verification_uri": page,
                "verification_uri_complete": f"{page}?user_code={user_code}",
                "expires_in": self.device_expires_in,
                "interval": self.interval,
            }
        )

    def _approve(self, query: Mapping[str, str]) -> Response:
        """Approve a device: ``?user_code=CODE&account=NAME``, or ``&deny=1``."""
        code = self._codes.get("sim-code-" + query.get("user_code", "").removeprefix("SIM-"))
        if code is None:
            raise OAuthError("invalid_request", 404)
        code.denied = "deny" in query
        code.account = query.get("account", "demo")
        return json_response({"approved": not code.denied})

    def _token(self, form: Mapping[str, str]) -> Response:
        match form.get("grant_type"):
            case "authorization_code":
                return self._exchange(form)
            case "refresh_token":
                return self._refresh(form)
            case grant if grant == _DEVICE_GRANT:
                return self._poll(form)
        raise OAuthError("unsupported_grant_type")

    def _exchange(self, form: Mapping[str, str]) -> Response:
        code = self._codes.pop(form.get("code", ""), None)
        verifier = form.get("code_verifier", "").encode()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier).digest()).rstrip(b"=").decode()
        if code is None or code.account is None or code.client_id != form.get("client_id"):
            raise OAuthError("invalid_grant")
        if code.challenge != challenge or code.redirect_uri != form.get("redirect_uri"):
            raise OAuthError("invalid_grant")
        return self._issue(code.account)

    def _poll(self, form: Mapping[str, str]) -> Response:
        code = self._codes.get(form.get("device_code", ""))
        if code is None or code.client_id != form.get("client_id"):
            raise OAuthError("expired_token")
        if code.until is not None and code.until <= self.now():
            raise OAuthError("expired_token")
        before, code.polled_at = code.polled_at, self.now()
        if code.account is None:
            is_early = before is not None and self.now() - before < self.interval
            raise OAuthError("slow_down" if is_early else "authorization_pending")
        del self._codes[form["device_code"]]
        if code.denied:
            raise OAuthError("access_denied")
        return self._issue(code.account)

    def _refresh(self, form: Mapping[str, str]) -> Response:
        token = form.get("refresh_token", "")
        name = token.removeprefix(REFRESH).rpartition("-")[0]
        account = self.accounts.get(name)
        if account is None or "refuse-refresh" in account.settings:
            raise OAuthError("invalid_grant")
        if token in account.spent:
            account.access.clear()
            account.refresh.clear()
        if token not in account.refresh:
            raise OAuthError("invalid_grant")
        account.refresh.discard(token)
        account.spent.add(token)
        account.refreshes += 1
        return self._issue(name)

    def _issue(self, name: str) -> Response:
        """Return a new pair of tokens."""
        if not _ACCOUNT.fullmatch(name):
            raise OAuthError("invalid_request")
        account = self.accounts.setdefault(name, Account())
        self._serial += 1
        access, refresh = f"{ACCESS}{name}-{self._serial}", f"{REFRESH}{name}-{self._serial}"
        account.access[access] = self.now() + self.expires_in
        account.refresh.add(refresh)
        claims = base64.urlsafe_b64encode(json.dumps({"account": {"id": f"id-{name}"}}).encode())
        return json_response(
            {
                "access_token": access,
                "refresh_token": refresh,
                "id_token": f"e30.{claims.rstrip(b'=').decode()}.sim",
                "token_type": "Bearer",
                "expires_in": self.expires_in,
                "scope": "inference profile",
                "account": {"email": f"{name}@sim.example"},
            }
        )

    def _revoke(self, form: Mapping[str, str]) -> Response:
        for account in self.accounts.values():
            if form.get("token", "") in account.refresh | set(account.access):
                account.access.clear()
                account.refresh.clear()
        return UnaryResponse(b"")

    def _settle(self, query: Mapping[str, str]) -> Response:
        """Set what holds for one account, ``?name=NAME``, or for all: ``?expires-in=`` and so on."""
        self.expires_in = int(query.get("expires-in", self.expires_in))
        self.interval = int(query.get("interval", self.interval))
        self.device_expires_in = int(query.get("device-expires-in", self.device_expires_in))
        if "name" in query:
            account = self.accounts.setdefault(query["name"], Account())
            account.settings = {key: value for key, value in query.items() if key != "name"}
            account.used.clear()
            if "expire" in query:
                account.access.clear()
        return json_response(self._as_json())

    def _clear(self) -> Response:
        self.accounts.clear()
        self._codes.clear()
        self.expires_in, self.interval, self.device_expires_in = 3600, 5, 600
        return json_response({})

    def _as_json(self) -> dict[str, Any]:
        return {
            name: {"used": account.used, "refreshes": account.refreshes, "settings": account.settings}
            for name, account in self.accounts.items()
        }

    def _keep(self, code: _Code) -> str:
        """Keep a code; the oldest makes room."""
        if len(self._codes) >= _MAX_CODES:
            del self._codes[next(iter(self._codes))]
        self._serial += 1
        name = f"sim-code-{self._serial}"
        self._codes[name] = code
        return name


def is_of_accounts(path: str) -> bool:
    """Whether a path is the authorization server's."""
    return path.startswith("/login/") or path == "/_sim/accounts"


def _fields(headers: Mapping[str, str], body: bytes) -> dict[str, str]:
    """The fields of a form, or of the JSON that some vendors take in its place."""
    if headers.get("content-type", "").partition(";")[0] == "application/json":
        try:
            found = json.loads(body)
        except ValueError:
            return {}
        return {key: str(value) for key, value in found.items()} if isinstance(found, dict) else {}
    return dict(parse_qsl(body.decode("latin-1"), keep_blank_values=True))
