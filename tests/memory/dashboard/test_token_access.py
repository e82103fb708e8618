"""Tokens of identity providers that open the dashboard, and the sessions of who has signed in with one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mgw.dashboard.cookies import SECONDS
from mgw.dashboard.sign_in import MAX_FAILURES
from mgw.dashboard.token_sessions import MAX_SESSIONS, TokenSessions
from mgw.nouns.secret import Secret
from mgw.nouns.token_flaw import TokenFlaw
from mgw.web.key_changes import KeyChanges
from tests.memory.web.test_tokens import Issued
from tests.support.configs import THREE_FAMILIES
from tests.support.dashboards import AWAY, HERE, Address, DashboardHarness, Response
from tests.support.token_issuers import ISSUER, encoded

PATH = "/v1/dashboard/requests"
KEY = "ops-canary-key-00001"
RULES = "[{when: {role: ops}, groups: [ops]}, {when: {role: guest}}]"
OPEN = "dashboard: {groups: [ops]}\n"


def text(rules: str = RULES, more: str = OPEN, name: str = "corp") -> str:
    return f"""{THREE_FAMILIES}
edge_auth:
  enabled: true
  keys: [plain-canary-0001, {{name: opal, key: {KEY}, groups: [ops]}}]
  groups: {{ops: {{}}, others: {{}}}}
  jwt: [{{name: {name}, issuer: {ISSUER}, audience: mgw, clock_skew: 0, rules: {rules}}}]
{more}"""


class Operators(DashboardHarness):
    """A dashboard that tokens of one issuer open, at 1000 seconds."""

    def __init__(self, config: str = "", peer: Address = AWAY) -> None:
        super().__init__(config or text(), peer, wall=1000.0)
        self.issued = Issued(self)
        self.changes = KeyChanges(self.server)
        self.changes.on_issuer_keys = self.switch.follow_issuers
        self.switch.follow()

    def read_wall(self) -> float:
        return self.wall + self.clock.seconds()

    def token(self, subject: str = "ann", expires: float = 1600.0, **claims: Any) -> str:  # Any: JSON
        return self.issued.token(subject, expires, **{"role": "ops", **claims})

    def rotate(self) -> None:
        """The issuer has another key, and the old one no more."""
        self.issued.issuer.keys[:] = []
        self.issued.issuer.rotate()
        self.issued.keys.known["corp"] = self.issued.issuer.key_set()
        self.changes.use_issuer_keys()


def bearer(token: str) -> str:
    return f"Authorization: Bearer {token}"


def error(response: Response) -> tuple[int, str, str]:
    found = json.loads(response.body)["error"]
    return response.status, found["code"], found["message"]


@pytest.mark.parametrize("carrier", ["Authorization: Bearer ", "x-api-key: "])
def test_a_token_of_a_client_in_its_groups_opens_it(carrier: str) -> None:
    gateway = Operators()
    assert gateway.ask(PATH, carrier + gateway.token()).status == 200
    assert gateway.ask("/ui", carrier + gateway.token()).status == 200
    assert (gateway.rejected, gateway.tokens_rejected) == ([], [])


def test_a_token_in_other_groups_does_not() -> None:
    gateway = Operators()
    status, code, message = error(gateway.ask(PATH, bearer(gateway.token(role="guest"))))
    assert (status, code) == (401, "invalid_api_key")
    assert "or a token of a client in one of dashboard.groups" in message
    assert gateway.rejected == ["key"]
    assert gateway.sign_in(gateway.token(role="guest")).status == 401


NEVER = {
    "no groups": text(more=""),
    "keys of its own": text(more="dashboard: {keys: [own-canary-000001]}\n"),
    "another group": text(more="dashboard: {groups: [others]}\n").replace(
        ", groups: [ops]}]", ", groups: [others]}]", 1
    ),
    "edge auth off": text().replace("enabled: true", "enabled: false"),
}


@pytest.mark.parametrize("config", NEVER.values(), ids=NEVER)
@pytest.mark.parametrize("role", ["ops", "guest", "nobody"])
def test_without_its_groups_no_token_opens_it(config: str, role: str) -> None:
    gateway = Operators(config)
    refused = gateway.ask(PATH, bearer(gateway.token(role=role)))
    assert error(refused)[:2] == (401, "invalid_api_key")
    assert gateway.sign_in(gateway.token(role=role)).status == 401
    assert gateway.tokens_rejected == []
    if "enabled: true" in config:
        assert "tokens are not accepted" in error(refused)[2]


def test_where_only_tokens_open_it_this_machine_needs_one_too() -> None:
    config = text().replace(f", {{name: opal, key: {KEY}, groups: [ops]}}", "")
    gateway = Operators(config, HERE)
    assert gateway.ask(PATH, host="localhost").status == 401
    assert gateway.ask(PATH, bearer(gateway.token()), host="localhost").status == 200


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {  # Any: JSON
    "expired": ({"exp": 1000.0}, 401, "invalid_token"),
    "audience": ({"aud": "another"}, 401, "invalid_token"),
    "no_rule": ({"role": "nobody"}, 403, "access_denied"),
}


@pytest.mark.parametrize(("flaw", "case"), REFUSED.items(), ids=REFUSED)
def test_a_token_that_opens_nothing_is_refused_as_elsewhere(
    flaw: str, case: tuple[dict[str, Any], int, str]
) -> None:
    gateway, (claims, status, code) = Operators(), case
    refused = gateway.ask(PATH, bearer(gateway.token(**claims)))
    assert error(refused)[:2] == (status, code)
    assert refused.headers["www-authenticate"].startswith('Bearer realm="mgw", error="')
    assert gateway.tokens_rejected == [("corp", TokenFlaw(flaw))]
    assert gateway.rejected == ["rule" if flaw == "no_rule" else "token"]
    page = gateway.ask("/ui", bearer(gateway.token(**claims)))
    assert (page.status, page.headers["content-type"].partition(";")[0]) == (401, "text/html")
    assert error(gateway.sign_in(gateway.token(**claims)))[:2] == (status, code)


def test_a_wrong_token_beside_a_right_key_does_not_matter() -> None:
    gateway = Operators()
    assert gateway.ask(PATH, bearer(gateway.token(exp=1.0)), f"x-api-key: {KEY}").status == 200


def test_without_keys_of_the_issuer_it_is_tried_again() -> None:
    gateway = Operators()
    gateway.issued.keys.known.clear()
    refused = gateway.ask(PATH, bearer(gateway.token()))
    assert error(refused)[:2] == (503, "identity_provider_unavailable")
    assert refused.headers["retry-after"] == "5"
    for _ in range(MAX_FAILURES + 1):  # nobody has guessed
        assert gateway.sign_in(gateway.token()).status == 503


@pytest.mark.parametrize("way", ["header", "sign-in"])
@pytest.mark.parametrize("comes", [True, False])
def test_an_unknown_key_is_waited_for(way: str, comes: bool) -> None:
    gateway = Operators()
    issued = gateway.issued
    issued.keys.may_ask = True
    issued.issuer.rotate()
    token = gateway.token()
    if way == "header":
        gateway.ask_later(PATH, bearer(token))
    else:
        gateway.ask_later("/ui/login", method="POST", body=b'{"key":"%b"}' % token.encode())
    assert gateway.received() == b""
    issued.keys.may_ask = False
    if comes:
        issued.keys.known["corp"] = issued.issuer.key_set()
    for waiting in issued.keys.asked:
        waiting.callback(None)
    gateway.clock.advance(0)
    status = Response(gateway.received()).status
    assert status == ((200 if way == "header" else 204) if comes else 401)
    assert gateway.tokens_rejected == ([] if comes else [("corp", TokenFlaw.UNKNOWN_KEY)])


def test_a_client_that_leaves_while_it_waits_leaves_nothing() -> None:
    gateway = Operators()
    gateway.issued.keys.may_ask = True
    gateway.issued.issuer.rotate()
    gateway.ask_later(PATH, bearer(gateway.token()))
    gateway.leave()
    assert gateway.issued.keys.asked[0].called  # cancelled
    assert gateway.tokens_rejected == []


def test_a_session_ends_with_its_token() -> None:
    gateway = Operators()
    signed = gateway.sign_in(gateway.token())
    rules = signed.headers["set-cookie"].split("; ")[1:]
    assert (signed.status, rules) == (204, ["Max-Age=600", "Path=/", "HttpOnly", "SameSite=Strict"])
    cookie = f"Cookie: other=1; {signed.cookie}"
    assert gateway.ask(PATH, cookie).status == 200
    gateway.wall += 599.0
    assert gateway.ask(PATH, cookie).status == 200
    gateway.wall += 1.0
    assert gateway.ask(PATH, cookie).status == 401
    gateway.wall -= 100.0  # a clock that is set back
    assert gateway.ask(PATH, cookie).status == 401


def test_a_session_ends_after_its_time_with_a_token_of_years() -> None:
    gateway = Operators()
    signed = gateway.sign_in(gateway.token(expires=1e9))
    assert "Max-Age=43200;" in signed.headers["set-cookie"]
    gateway.wall += SECONDS - 1.0
    assert gateway.ask(PATH, f"Cookie: {signed.cookie}").status == 200
    gateway.wall += 1.0
    assert gateway.ask(PATH, f"Cookie: {signed.cookie}").status == 401


def test_the_cookie_has_nothing_of_the_token() -> None:
    gateway = Operators()
    token = gateway.token()
    cookie = gateway.sign_in(token).cookie.partition("=")[2]
    assert len(cookie) == 32
    assert all(part[:12] not in cookie for part in token.split("."))
    assert gateway.ask(PATH, f"Cookie: mgw_dashboard={cookie[:-1]}x").status == 401


def test_signing_out_ends_the_session_and_its_events() -> None:
    gateway = Operators()
    mine, yours = (f"Cookie: {gateway.sign_in(gateway.token()).cookie}" for _ in range(2))
    feeds = [gateway.read_events(header) for header in (mine, yours, bearer(gateway.token()))]
    assert gateway.ask("/ui/logout", mine, method="POST").status == 204
    assert [feed.has_ended for feed in feeds] == [True, False, False]
    assert [gateway.ask(PATH, header).status for header in (mine, yours)] == [401, 200]


@pytest.mark.parametrize("way", ["token", "session"])
def test_the_end_of_a_token_ends_its_events(way: str) -> None:
    gateway = Operators()
    token = gateway.token()
    feed = gateway.read_events(
        bearer(token) if way == "token" else f"Cookie: {gateway.sign_in(token).cookie}"
    )
    of_key = gateway.read_events(f"x-api-key: {KEY}")
    gateway.clock.pump([590.0, 9.0])
    assert not feed.has_ended
    gateway.clock.advance(1.0)
    assert (feed.has_ended, of_key.has_ended) == (True, False)


CHANGES = {
    "another key of the issuer": (None, True),
    "the rule is gone": (text(rules="[{when: {role: guest}, groups: [ops]}]"), True),
    "the rule gives another group": (text(rules="[{when: {role: ops}, groups: [others]}]"), True),
    "the group does not open it any more": (text(more="dashboard: {groups: [others]}\n"), True),
    "no group opens it any more": (text(more=""), True),
    "the issuer is gone": (text().replace(ISSUER, "https://another.example"), True),
    "nothing of it": (text(more=OPEN + "max_clients: 100\n"), False),
}


@pytest.mark.parametrize("way", ["token", "session"])
@pytest.mark.parametrize(("config", "ends"), CHANGES.values(), ids=CHANGES)
def test_who_has_lost_the_right_to_it_is_out_at_once(config: str | None, ends: bool, way: str) -> None:
    gateway = Operators()
    token = gateway.token()
    header = bearer(token) if way == "token" else f"Cookie: {gateway.sign_in(token).cookie}"
    feed, other = gateway.read_events(header), gateway.read_events(f"x-api-key: {KEY}")
    if config is None:
        gateway.rotate()
        assert not other.has_ended
    else:
        gateway.reload(config)
    assert feed.has_ended is ends
    status = gateway.ask(PATH, header).status
    assert status in ({401, 403} if ends else {200})
    assert gateway.ask(PATH).status == 401


def test_a_right_that_comes_back_opens_a_session_that_has_not_ended() -> None:
    gateway = Operators()
    cookie = f"Cookie: {gateway.sign_in(gateway.token()).cookie}"
    gateway.reload(text(more=""))
    assert gateway.ask(PATH, cookie).status == 401
    gateway.reload(text())
    assert gateway.ask(PATH, cookie).status == 200


def test_failed_sign_ins_with_tokens_count() -> None:
    gateway = Operators()
    for _ in range(MAX_FAILURES):
        assert gateway.sign_in(gateway.token(exp=1.0)).status == 401
    assert gateway.sign_in(gateway.token(exp=1.0)).status == 429
    assert gateway.sign_in(gateway.token()).status == 204


def test_a_form_with_a_token_leads_to_the_page() -> None:
    gateway = Operators()
    for token, where in ((gateway.token(), "../ui"), (gateway.token(exp=1.0), "../ui#failed")):
        form = f"username=x&key={token}".encode()
        kind = "Content-Type: application/x-www-form-urlencoded"
        sent = gateway.ask("/ui/login", kind, method="POST", body=form)
        assert (sent.status, sent.headers["location"]) == (303, where)


def test_a_page_of_another_origin_reads_with_a_token_and_changes_nothing() -> None:
    gateway = Operators()
    foreign, header = "Origin: https://evil.example", bearer(gateway.token())
    assert gateway.ask(PATH, header, foreign).status == 200
    assert gateway.ask(PATH, f"Cookie: {gateway.sign_in(gateway.token()).cookie}", foreign).status == 403
    assert gateway.ask("/v1/dashboard/oauth/one", header, foreign, method="POST").status == 403


def test_the_page_asks_for_a_key_to_try_a_model_with() -> None:
    gateway = Operators()
    cookie = f"Cookie: {gateway.sign_in(gateway.token()).cookie}"
    profiles = json.loads(gateway.ask("/v1/dashboard/profiles", cookie).body)
    assert (profiles["try_it"], profiles["auth"]) == ({"as": "key"}, "keys")
    begun = gateway.ask("/v1/dashboard/try", cookie, "Origin: http://gw.example", method="POST")
    assert begun.status == 401


def test_a_foreign_token_is_a_wrong_key() -> None:
    gateway = Operators()
    header, claims = encoded(b'{"alg":"ES256"}'), encoded(b'{"iss":"https://chatgpt.com"}')
    refused = gateway.ask(PATH, bearer(f"{header}.{claims}.{'x' * 86}"))
    assert error(refused)[:2] == (401, "invalid_api_key")
    assert (gateway.rejected, gateway.tokens_rejected) == (["key"], [])


def test_the_session_that_was_used_least_recently_makes_room() -> None:
    numbers = iter(range(10**6))
    sessions = TokenSessions(lambda: 0.0, lambda count: next(numbers).to_bytes(count))
    cookies = [sessions.begin(Secret(f"token {n}"), 10.0) for n in range(MAX_SESSIONS)]

    def token_of(cookie: bytes) -> list[str]:
        return [one.token.reveal() for one in sessions.sessions_in(b"c=" + cookie, b"c")]

    assert token_of(cookies[0]) == ["token 0"]
    sessions.begin(Secret("one more"), 10.0)
    assert [token_of(cookie) for cookie in cookies[:3]] == [["token 0"], [], ["token 2"]]


def test_sessions_that_have_ended_are_not_kept() -> None:
    now = 0.0
    sessions = TokenSessions(lambda: now, lambda count: int(now).to_bytes(count))
    cookie = sessions.begin(Secret("token"), 10.0)
    now = 10.0
    sessions.begin(Secret("another"), 20.0)
    now = 9.0
    assert not list(sessions.sessions_in(b"c=" + cookie, b"c"))


def test_events_of_a_session_end_by_the_clock_skew_of_the_moment() -> None:
    gateway = Operators(text().replace("clock_skew: 0", "clock_skew: 300"))
    cookie = f"Cookie: {gateway.sign_in(gateway.token()).cookie}"
    gateway.reload(text())
    gateway.clock.advance(599.0)
    feed = gateway.read_events(cookie)
    gateway.clock.advance(1.0)
    assert feed.has_ended
