"""Logins in the dashboard, in memory: the store, the vendor's endpoints, and what users see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from twisted.internet.defer import Deferred

from mgw.dashboard.logins import Logins
from tests.support.deferreds import result_of
from tests.support.subscriptions import PROFILE, SubscriptionPlay

DEVICE = 'device: {url: "http://idp.example/device"}\n'
PASTE = (
    'authorization: {url: "http://idp.example/authorize"}\n'
    "redirect: {port: 14555}\n"
    "account: {label: [account]}\n"
)
BOTH = PROFILE + DEVICE + PASTE
CODE = {
    "device_code": "canary-device-code",
    "user_code": "UC-1",
    "verification_uri": "http://idp.example/activate",
    "verification_uri_complete": "http://idp.example/activate?code=UC-1",
    "expires_in": 60,
    "interval": 5,
}
Json = dict[str, Any]  # Any: JSON


@dataclass
class LoginPlay(SubscriptionPlay):
    """The logins of a process, the store, and the endpoints of the vendor."""

    text: str = BOTH
    names: tuple[str, ...] = ("home", "work")
    logins: Logins = field(init=False)

    def __post_init__(self) -> None:
        SubscriptionPlay.__post_init__(self)
        self.sources = [self.source(self.names)]
        self.logins = Logins(lambda: self.sources, self.clock)

    def post(self, name: str = "work", **body: str) -> Deferred[tuple[int, Json]]:
        return Deferred.fromCoroutine(self.logins.begin(name, body))

    def begin_device(self, name: str = "work", **more: object) -> Json:
        """Begin a flow; return what its user sees."""
        posted = self.post(name, flow="device")
        assert not posted.called, "the endpoint has not answered yet"
        self.hosts.newest().answer({**CODE, **more})
        status, seen = result_of(posted)
        assert status == 201
        return seen

    def begin_paste(self, name: str = "work") -> Json:
        status, seen = result_of(self.post(name, flow="pkce"))
        assert status == 201
        return seen

    def paste(self, seen: Json, **said: str) -> Deferred[tuple[int, Json]]:
        """Post the address to which a browser was sent."""
        asked = asked_of(seen)
        back = urlencode({"state": asked["state"], **said})
        return self.post(code=f"{asked['redirect_uri']}?{back}")

    def grant(self) -> None:
        """Give the tokens that are asked for."""
        self.hosts.newest().answer_token("canary-access", refresh_token="canary-refresh", account="alice@x")

    def seen(self, name: str = "work") -> Json:
        """Return what a user sees of a flow."""
        return result_of(self.logins.state(name))

    def state(self, name: str = "work") -> str:
        return str(self.seen(name)["state"])

    def cancel(self, name: str = "work") -> None:
        result_of(self.logins.cancel(name))


def asked_of(seen: Json) -> dict[str, str]:
    """Return what the page is asked for on which somebody logs in."""
    return {key: values[0] for key, values in parse_qs(urlsplit(seen["authorization_url"]).query).items()}
