"""Log in to an account: with a browser, with a pasted code, or with a code for another device.

Sources: RFC 8252 (loopback redirects), RFC 7636 (PKCE), RFC 8628 (device codes).
"""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from hmac import compare_digest
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from mgw.config.profile import Profile
from mgw.credentials.subscription.store import StoredCredential
from mgw.credentials.subscription.token_exchange import DeviceCode, ProfileEndpoints
from mgw.credentials.token_request import TokenRequestError
from mgw.nouns.secret import Secret

SLOWER: Final = 5.0
"""How much longer the interval is after each ``slow_down`` (RFC 8628 3.5)."""
_LONGEST_CODE: Final = 4096
_FOREIGN: Final = "the response belongs to another login: its state is not the one that was sent"


class LoginError(Exception):
    """The login came to nothing; the text says why, without a code or a token."""


class ForeignAnswerError(LoginError):
    """What came back belongs to another login, or to none."""


class LoginRefusedError(LoginError):
    """Somebody, or the vendor, said no."""


class LoginExpiredError(LoginError):
    """Nobody approved the login in time."""


class Way(Enum):
    """How somebody logs in."""

    BROWSER = "browser"
    """The browser is sent back to a port of this machine."""
    PASTE = "paste"
    """Somebody pastes what the browser got."""
    DEVICE = "device"
    """Somebody types in a code on another device."""


def missing_for(way: Way, profile: Profile) -> str | None:
    """Return the setting that a profile would need for a login; ``None``: it has all."""
    redirect = profile.redirect
    if way is Way.DEVICE:
        return "device.url" if profile.device.url is None else None
    if profile.authorization.url is None:
        return "authorization.url"
    if way is Way.PASTE and redirect.pasted_url is None and not redirect.port:
        return "redirect.pasted_url or redirect.port"
    return None


def pasted_redirect(profile: Profile) -> str:
    """Return where the browser is sent if somebody pastes what it got; often, nobody answers there."""
    redirect = profile.redirect
    return redirect.pasted_url or f"http://{redirect.host}:{redirect.port}{redirect.path}"


@dataclass(slots=True)
class AuthorizationRequest:
    """One login with a browser: what is asked for, and what must come back.

    :param redirect_uri: where the browser is sent with the code.
    """

    profile: Profile
    redirect_uri: str
    _state: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    _verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48), repr=False)

    @property
    def url(self) -> str:
        """The page on which somebody logs in."""
        challenge = urlsafe_b64encode(sha256(self._verifier.encode()).digest()).rstrip(b"=").decode()
        authorization = self.profile.authorization
        assert authorization.url is not None, "the caller checked it"
        query = {
            "response_type": "code",
            "client_id": self.profile.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": " ".join(self.profile.scopes),
            "state": self._state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            **authorization.parameters,
        }
        return f"{authorization.url}?{urlencode({key: value for key, value in query.items() if value})}"

    def code_in(self, query: str) -> Secret:
        """Return the code that a redirect brought.

        :raises LoginError: it is no answer to this request, or a refusal.
        """
        fields = dict(parse_qsl(query, keep_blank_values=True))
        if not compare_digest(fields.get("state", "").encode(), self._state.encode()):
            raise ForeignAnswerError(_FOREIGN)
        if "error" in fields:
            raise LoginRefusedError(f"the login was refused ({_word(fields['error'])})")
        return _checked_code(fields.get("code", ""))

    def pasted_code(self, text: str) -> Secret:
        """Return the code in what somebody pasted: the whole redirect, ``code#state``, or the code alone.

        :raises LoginError: as :meth:`code_in`.
        """
        text = text.strip()
        if text.startswith(("http://", "https://")):
            return self.code_in(urlsplit(text).query)
        code, mark, state = text.partition("#")
        if mark and not compare_digest(state.encode(), self._state.encode()):
            raise ForeignAnswerError(
                "the code belongs to another login: its state is not the one that was sent"
            )
        return _checked_code(code)

    def grant(self, code: Secret) -> dict[str, str | Secret]:
        """Return the fields that exchange a code for tokens."""
        fields: dict[str, str | Secret] = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": Secret(self._verifier),
        }
        return {**fields, "state": self._state} if self.profile.token.sends_state else fields


@dataclass(slots=True)
class DeviceLogin:
    """A login with a code that is typed in on another device.

    :param wall: returns unix seconds.
    :param show: is told where to type in which code.
    """

    endpoints: ProfileEndpoints
    clock: IReactorTime
    wall: Callable[[], float]
    show: Callable[[DeviceCode], None]

    async def run(self) -> StoredCredential:
        """Return the entry, once somebody has approved.  Cancelling ends the polls.

        :raises LoginError: nobody does, or it is refused.
        :raises TokenRequestError: the endpoints cannot be asked.
        """
        code = await self.endpoints.ask_for_device_code()
        until = self.clock.seconds() + code.seconds
        self.show(code)
        interval = code.interval
        while (left := until - self.clock.seconds()) >= interval:
            await deferLater(self.clock, interval)
            try:
                return await self.endpoints.poll_device(code.secret, self.wall())
            except TokenRequestError as error:
                interval = _interval_after(error, interval)
        if left > 0:
            await deferLater(self.clock, left)
        raise LoginExpiredError("nobody approved the login in time")


def _interval_after(error: TokenRequestError, interval: float) -> float:
    """Return the seconds until the next poll.

    :raises LoginError: there is none.
    """
    if error.error_code == "slow_down":
        return interval + SLOWER
    if error.response_status in (None, 429) or (error.response_status or 0) >= 500:
        return interval * 2  # RFC 8628 3.5: whoever does not answer is asked less often
    if error.error_code == "authorization_pending":
        return interval
    if error.error_code == "expired_token":
        raise LoginExpiredError("nobody approved the login in time") from None
    raise LoginRefusedError(f"the login was refused: {error.message}") from None


@dataclass(slots=True)
class RedirectWaiter:
    """Takes the redirect of one login; ``code`` fires with what it brought."""

    request: AuthorizationRequest
    path: str
    code: Deferred[Secret] = field(default_factory=Deferred)

    def on_request(self, method: bytes, path: bytes, query: bytes) -> tuple[int, str]:
        """Return the status and the page for a request of the browser's.

        What answers another login, or none, changes nothing: any page may send a browser here.
        """
        if method != b"GET" or path.decode("latin-1") != self.path:
            return 404, "Not found."
        if self.code.called:
            return 200, "This login is over. You can close this page."
        try:
            code = self.request.code_in(query.decode("latin-1"))
        except ForeignAnswerError:
            return 400, "This is not the response to the login in progress."
        except LoginError as error:
            self.code.errback(error)
            return 200, "The login was refused. You can close this page."
        self.code.callback(code)
        return 200, "You are logged in. You can close this page."


def _checked_code(text: str) -> Secret:
    if not text or len(text) > _LONGEST_CODE or not all("!" <= letter <= "~" for letter in text):
        raise LoginError("the response has no code")
    return Secret(text)


def _word(text: str) -> str:
    """Return an error's name if it can be one (RFC 6749 4.1.2.1)."""
    fits = len(text) <= 40 and text.replace("_", "").isalpha() and text.isascii()
    return text if fits else "unknown reason"
