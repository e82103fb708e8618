"""Who may use the dashboard: with keys, with a session, and on the same machine."""

from __future__ import annotations

import gc
import json
from hashlib import sha256
from os import urandom

import pytest
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress

import mgw.config.dashboard
from mgw.config.key_settings import NamedKeySettings
from mgw.config.load import parse_key_file
from mgw.dashboard.cookies import SECONDS, CookieSessions
from mgw.dashboard.feed import COMMENT_SECONDS
from mgw.dashboard.sign_in import MAX_FAILURES
from mgw.nouns.vocabulary import Family
from mgw.web.edge_auth import EdgeGate
from tests.support.configs import THREE_FAMILIES
from tests.support.dashboards import AWAY, HERE, Address, DashboardHarness, Response
from tests.support.web_servers import settled

KEY = "canary-dashboard-key"
OTHER = "canary-another-key-of-it"
EDGE = "canary-edge-key-12345"
OWN_KEYS = THREE_FAMILIES + f"dashboard: {{keys: [{KEY}, {OTHER}]}}\n"
EDGE_KEYS = THREE_FAMILIES + f"edge_auth: {{enabled: true, keys: [{EDGE}]}}\n"
NO_KEYS = THREE_FAMILIES
PATH = "/v1/dashboard/profiles"
BEARER = f"Authorization: Bearer {KEY}"

WITH_KEYS = {
    "no key": ([], 401),
    "the key as a bearer": ([BEARER], 200),
    "the key in x-api-key": ([f"x-api-key: {KEY}"], 200),
    "the second key": ([f"x-api-key: {OTHER}"], 200),
    "a right one beside a wrong one": (["Authorization: Bearer wrong-key-1", f"x-api-key: {KEY}"], 200),
    "a wrong key": (["Authorization: Bearer wrong-key-1"], 401),
    "the key in another scheme": ([f"Authorization: Basic {KEY}"], 401),
    "a right one behind seven": ([*["x-api-key: wrong-key-1"] * 7, f"x-api-key: {KEY}"], 200),
    "a right one behind eight": ([*["x-api-key: wrong-key-1"] * 8, f"x-api-key: {KEY}"], 401),
    "the key in quotes": ([f'x-api-key: "{KEY}"'], 401),
    "an own origin": ([BEARER, "Origin: http://gw.example"], 200),
    "a foreign origin that has the key": ([BEARER, "Origin: https://evil.example"], 200),
    "a foreign origin without one": (["Origin: https://evil.example"], 403),
    "two origins, of which one is its own": (
        ["Origin: https://evil.example", "Origin: http://gw.example"],
        403,
    ),
    "the same the other way round": (["Origin: http://gw.example", "Origin: https://evil.example"], 403),
    "an image on a foreign page": (["Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: image"], 403),
    "a foreign page that has the key": ([BEARER, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: empty"], 200),
    "a link on a foreign page": ([BEARER, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: document"], 200),
    "a cookie that is none": (["Cookie: mgw_dashboard=abc"], 401),
    "a cookie that is nearly one": (["Cookie: mgw_dashboard=0123456789ab-cdef.aaaaaa.bbbb; a=b"], 401),
}


@pytest.mark.parametrize(("headers", "status"), WITH_KEYS.values(), ids=WITH_KEYS)
@pytest.mark.parametrize("peer", [HERE, AWAY, UNIXAddress(b"/run/x")], ids=["here", "away", "unix"])
def test_with_keys_who_has_one_comes_in(headers: list[str], status: int, peer: Address) -> None:
    gateway = DashboardHarness(OWN_KEYS, peer)
    response = gateway.ask(PATH, *headers)
    assert response.status == status
    assert len(gateway.rejected) == (status != 200)
    assert gateway.observer.lines[-1] == ("GET", PATH, status)
    assert b"canary" not in response.body
    if status != 200:
        assert set(json.loads(response.body)["error"]) == {"message", "type", "param", "code"}
    assert settled(gateway) == (0, 0, 0)


@pytest.mark.parametrize(("own", "opens"), [(OWN_KEYS, False), (NO_KEYS, True)], ids=["own", "none"])
def test_the_keys_of_edge_auth_open_it_only_where_it_has_none(own: str, opens: bool) -> None:
    gateway = DashboardHarness(own + EDGE_KEYS.removeprefix(THREE_FAMILIES))
    assert gateway.ask(PATH, f"x-api-key: {EDGE}").status == (200 if opens else 401)


RESTRICTED = {
    "models": "models: ['*']",
    "no models": "models: []",
    "requests": "requests_per_minute: 1000000",
    "tokens": "tokens_per_minute: 1000000",
    "requests at a time": "max_in_flight: 1000000",
}


@pytest.mark.parametrize("restriction", RESTRICTED.values(), ids=RESTRICTED)
def test_a_key_with_models_or_limits_does_not_open_it(restriction: str) -> None:
    keys = f"edge_auth: {{enabled: true, keys: [{EDGE}, {{name: a, key: {KEY}, {restriction}}}]}}\n"
    gateway = DashboardHarness(NO_KEYS + keys)
    assert gateway.ask(PATH, f"x-api-key: {EDGE}").status == 200
    refused = gateway.ask(PATH, BEARER)
    assert refused.status == 401
    assert b"models or limits" in refused.body
    assert gateway.sign_in(KEY).status == 401


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_where_no_key_opens_it_only_this_machine_comes_in(enabled: str) -> None:
    keys = f"edge_auth: {{enabled: {enabled}, keys: [{{name: a, key: {KEY}, max_in_flight: 1}}]}}\n"
    assert DashboardHarness(NO_KEYS + keys, HERE).ask(PATH, host="localhost").status == 200
    assert DashboardHarness(NO_KEYS + keys, AWAY).ask(PATH, BEARER, host="localhost").status == 401


def test_a_named_key_without_models_or_limits_opens_it() -> None:
    gateway = DashboardHarness(NO_KEYS + f"edge_auth: {{enabled: true, keys: [{{name: a, key: {KEY}}}]}}\n")
    assert gateway.ask(PATH, BEARER).status == 200


GROUPS = "  groups: {ops: {}, others: {models: ['*']}, limited: {limits: [{requests: 9, per: day}]}}\n"


def grouped(more: str, dashboard: str = "") -> str:
    keys = f"  keys:\n    - {EDGE}\n    - {{name: a, key: {KEY}{more}}}\n"
    return f"{NO_KEYS}edge_auth:\n  enabled: true\n{keys}{GROUPS}{dashboard}\n"


@pytest.mark.parametrize(
    ("groups", "dashboard", "opens"),
    [
        ("[ops]", "", (True, True)),
        ("[others]", "", (True, False)),
        ("[ops, limited]", "", (True, False)),
        ("[ops]", "dashboard: {groups: [ops]}", (False, True)),
        ("[limited, others]", "dashboard: {groups: [limited]}", (False, True)),
        ("[limited]", "dashboard: {groups: [ops, others]}", (False, False)),
        ("[ops]", f"dashboard: {{groups: [ops], keys: [{OTHER}]}}", (False, True)),
    ],
)
def test_groups_decide_which_keys_of_clients_open_it(
    groups: str, dashboard: str, opens: tuple[bool, bool]
) -> None:
    limit = ", max_in_flight: 7" if dashboard else ""
    gateway = DashboardHarness(grouped(f", groups: {groups}{limit}", dashboard))
    found = [gateway.ask(PATH, f"x-api-key: {key}").status == 200 for key in (EDGE, KEY)]
    assert tuple(found) == opens
    assert (gateway.ask(PATH, f"x-api-key: {OTHER}").status == 200) is (OTHER in dashboard)
    assert gateway.sign_in(KEY).status == (204 if opens[1] else 401)


def test_a_key_that_is_disabled_does_not_open_it() -> None:
    gateway = DashboardHarness(grouped(", groups: [ops], disabled: true"))
    assert gateway.ask(PATH, BEARER).status == 401
    assert gateway.sign_in(KEY).status == 401


def test_a_key_opens_it_until_it_expires_and_its_session_ends_with_it() -> None:
    gateway = DashboardHarness(grouped(", groups: [ops], expires: 2027-01-15T08:10:00Z"))  # in 600 s
    cookie = f"Cookie: {gateway.sign_in(KEY).cookie}"
    for seconds, status in ((599.0, 200), (1.0, 401)):
        gateway.clock.advance(seconds)
        assert gateway.ask(PATH, BEARER).status == status
        assert gateway.ask(PATH, cookie).status == status
    assert gateway.sign_in(KEY).status == 401
    assert gateway.ask(PATH, f"x-api-key: {EDGE}").status == 200


PREVIOUS = f"previous: {{sha256: '{sha256(KEY.encode()).hexdigest()}', expires: 2027-01-15T08:10:00Z}}"


def test_a_key_that_was_rotated_opens_it_until_its_overlap_is_over() -> None:
    """It is valid for requests, and a browser that signed in with it is not signed out by the rotation."""
    gateway = DashboardHarness(EDGE_KEYS.replace("keys:", "keys_dir: /etc/mgw/keys.d, keys:"))
    gateway.file_keys.append(file_key())
    gateway.switch.follow_keys()
    cookie = f"Cookie: {gateway.sign_in(KEY).cookie}"
    gateway.file_keys[:] = [file_key(PREVIOUS, key=OTHER)]
    gateway.switch.follow_keys()
    for seconds, status in ((599.0, 200), (1.0, 401)):
        gateway.clock.advance(seconds)
        assert [gateway.ask(PATH, header).status for header in (BEARER, cookie)] == [status] * 2
        assert gateway.ask(PATH, f"x-api-key: {OTHER}").status == 200
    assert gateway.sign_in(KEY).status == 401


@pytest.mark.parametrize("ends", ["expires: 2027-01-15T08:05:00Z", "disabled: true"])
def test_a_previous_key_opens_it_no_longer_than_the_key_itself(ends: str) -> None:
    gateway = DashboardHarness(EDGE_KEYS.replace("keys:", "keys_dir: /etc/mgw/keys.d, keys:"))
    gateway.file_keys.append(file_key(PREVIOUS, ends, key=OTHER))
    gateway.switch.follow_keys()
    if "expires" in ends:
        assert gateway.ask(PATH, BEARER).status == 200
        gateway.clock.advance(300)
    assert [gateway.ask(PATH, f"x-api-key: {key}").status for key in (KEY, OTHER)] == [401] * 2


def file_key(*settings: str, key: str = KEY) -> NamedKeySettings:
    text = "\n".join([f"sha256: {sha256(key.encode()).hexdigest()}", *settings])
    return parse_key_file(text, "filed", "filed.yaml", None)[0]


def test_keys_of_files_open_it_as_others_do() -> None:
    gateway = DashboardHarness(EDGE_KEYS.replace("keys:", "keys_dir: /etc/mgw/keys.d, keys:"), HERE)
    assert gateway.ask(PATH, BEARER).status == 401
    gateway.file_keys.append(file_key())
    gateway.switch.follow_keys()
    assert gateway.ask(PATH, BEARER).status == 200
    cookie = f"Cookie: {gateway.sign_in(KEY).cookie}"
    assert gateway.ask(PATH, cookie).status == 200
    gateway.reload(EDGE_KEYS.replace("keys:", "keys_dir: /etc/mgw/keys.d, keys:"))
    assert gateway.ask(PATH, cookie).status == 200
    for restriction in ("models: [gpt-a]", "disabled: true", "limits: [{requests: 1, per: day}]"):
        gateway.file_keys[:] = [file_key(restriction)]
        gateway.switch.follow_keys()
        assert gateway.ask(PATH, BEARER).status == 401
        assert gateway.ask(PATH, cookie).status == 401
    gateway.file_keys.clear()
    gateway.switch.follow_keys()
    assert gateway.ask(PATH, cookie).status == 401


def test_where_files_may_have_keys_nobody_comes_in_without_one() -> None:
    text = NO_KEYS + "edge_auth: {enabled: true, keys_dir: /etc/mgw/keys.d}\n"
    assert DashboardHarness(text, HERE).ask(PATH, host="localhost").status == 401
    off = text.replace("enabled: true", "enabled: false")
    assert DashboardHarness(off, HERE).ask(PATH, host="localhost").status == 200


def named(more: str) -> str:
    return NO_KEYS + f"edge_auth: {{enabled: true, keys: [{EDGE}, {{name: a, key: {KEY}{more}}}]}}\n"


ENDINGS = {
    "its key is removed": (EDGE_KEYS, True),
    "its key may use some models only": (named(", models: [gpt-*]"), True),
    "its key has a limit": (named(", requests_per_minute: 1000"), True),
    "the dashboard has keys of its own": (named("") + f"dashboard: {{keys: [{OTHER}]}}\n", True),
    "the dashboard is off": (named("") + "dashboard: {enabled: false}\n", True),
    "the dashboard is denied": (named("") + "routes: {deny: [dashboard]}\n", True),
    "nobody needs a key": (named("").replace("enabled: true", "enabled: false"), True),
    "something else has changed": (named("") + "max_clients: 100\n", False),
}


@pytest.mark.parametrize(("text", "ends"), ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("way", ["key", "session"])
def test_a_reload_ends_the_events_of_whoever_has_lost_the_right_to_them(
    text: str, ends: bool, way: str
) -> None:
    gateway = DashboardHarness(named(""))
    header = BEARER if way == "key" else f"Cookie: {gateway.sign_in(KEY).cookie}"
    feed, other = gateway.read_events(header), gateway.read_events(f"x-api-key: {EDGE}")
    gateway.reload(text)
    assert feed.has_ended is ends
    assert gateway.rejected == []
    assert other.has_ended is (gateway.ask(PATH, f"x-api-key: {EDGE}").status != 200)


def test_a_reload_with_keys_ends_the_events_of_those_who_needed_none() -> None:
    gateway = DashboardHarness(NO_KEYS, HERE)
    feed = gateway.read_events(host="localhost")
    gateway.reload(NO_KEYS)
    assert not feed.has_ended
    gateway.reload(OWN_KEYS)
    assert feed.has_ended


def test_signing_out_ends_the_events_of_that_session_and_no_other() -> None:
    gateway = DashboardHarness(OWN_KEYS)
    mine, yours = (f"Cookie: {gateway.sign_in(KEY).cookie}" for _ in range(2))
    feeds = [gateway.read_events(*headers) for headers in ([mine], [yours], [BEARER], [mine, BEARER])]
    gateway.ask("/ui/logout", mine, method="POST")
    assert [feed.has_ended for feed in feeds] == [True, False, False, False]
    assert gateway.rejected == []


def test_the_end_of_a_session_ends_its_events() -> None:
    gateway = DashboardHarness(OWN_KEYS)
    feed, of_key = gateway.read_events(f"Cookie: {gateway.sign_in(KEY).cookie}"), gateway.read_events(BEARER)
    gateway.clock.pump([SECONDS - 60.0, 60.0])
    assert not feed.has_ended
    gateway.clock.advance(1)
    assert (feed.has_ended, of_key.has_ended) == (True, False)


def test_a_clock_that_is_set_ends_the_events_of_a_session_as_well() -> None:
    gateway = DashboardHarness(OWN_KEYS)
    feed = gateway.read_events(f"Cookie: {gateway.sign_in(KEY).cookie}")
    gateway.wall += SECONDS + 1
    gateway.clock.advance(COMMENT_SECONDS)
    assert feed.has_ended


LOCAL = {
    "here by its address": (HERE, "127.0.0.1:8787", [], 200),
    "here by name": (HERE, "localhost:8787", [], 200),
    "here by a name below localhost": (HERE, "mgw.localhost", [], 200),
    "another address of loopback": (IPv4Address("TCP", "127.9.9.9", 1), "127.0.0.1", [], 200),
    "IPv6": (IPv6Address("TCP", "::1", 1), "[::1]:8787", [], 200),
    "IPv4 in IPv6": (IPv6Address("TCP", "::ffff:127.0.0.1", 1), "localhost", [], 200),
    "its own page": (HERE, "localhost:8787", ["Origin: http://localhost:8787"], 200),
    "away": (AWAY, "localhost:8787", [], 401),
    "away by IPv6": (IPv6Address("TCP", "2001:db8::1", 1), "localhost", [], 401),
    "a UNIX socket": (UNIXAddress(b"/run/mgw"), "localhost", [], 401),
    "a proxy that says so": (HERE, "localhost", ["X-Forwarded-For: 192.0.2.1"], 401),
    "a proxy that says so in another way": (HERE, "localhost", ["Forwarded: for=192.0.2.1"], 401),
    "a proxy that names itself": (HERE, "localhost", ["Via: 1.1 proxy"], 401),
    "a proxy that names the first host": (HERE, "localhost", ["X-Forwarded-Host: gw.example"], 401),
    "a proxy of a network": (HERE, "localhost", ["CF-Connecting-IP: 192.0.2.1"], 401),
    "a script on a foreign page": (
        *(HERE, "localhost", ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: script"], 403),
    ),
    "an image on another port's page": (HERE, "localhost:8787", ["Sec-Fetch-Site: same-site"], 403),
    "a frame on a foreign page": (
        *(HERE, "localhost", ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: iframe"], 403),
    ),
    "a link on a foreign page": (
        *(HERE, "localhost", ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: document"], 200),
    ),
    "its own script": (HERE, "localhost", ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Dest: empty"], 200),
    "an address that was typed": (HERE, "localhost", ["Sec-Fetch-Site: none"], 200),
    "a host with no such port": (HERE, "localhost:65536", [], 403),
    "a foreign host": (HERE, "evil.example", [], 403),
    "a host that looks like ours": (HERE, "localhost.evil.example", [], 403),
    "another port's page": (HERE, "localhost:8787", ["Origin: http://localhost:3000"], 403),
    "a foreign page": (HERE, "localhost:8787", ["Origin: https://evil.example"], 403),
    "an opaque origin": (HERE, "localhost:8787", ["Origin: null"], 403),
}


@pytest.mark.parametrize(("peer", "host", "headers", "status"), LOCAL.values(), ids=LOCAL)
def test_without_keys_only_this_machine_comes_in(
    peer: Address, host: str, headers: list[str], status: int
) -> None:
    gateway = DashboardHarness(NO_KEYS, peer)
    assert gateway.ask(PATH, *headers, host=host).status == status
    assert len(gateway.rejected) == (status != 200)


OF_PROXIES = [
    "X-Forwarded-Port: 1",
    "X-Original-Forwarded-For: 192.0.2.1",
    "Client-IP: 192.0.2.1",
    "X-Client-IP: 192.0.2.1",
    "X-Cluster-Client-IP: 192.0.2.1",
    "True-Client-IP: 192.0.2.1",
    "Fastly-Client-IP: 192.0.2.1",
    "X-Azure-ClientIP: 192.0.2.1",
    "X-Real-IP: 192.0.2.1",
    "X-Envoy-External-Address: 192.0.2.1",
    "CF-Connecting-IPv6: 2001:db8::1",
    "DO-Connecting-IP: 192.0.2.1",
    "X-Appengine-Remote-Addr: 192.0.2.1",
    "X-Originating-IP: 192.0.2.1",
    "X_Forwarded_For: 192.0.2.1",
    "x-envoy-EXTERNAL-ADDRESS-extra: 1",
]


@pytest.mark.parametrize("header", OF_PROXIES)
def test_without_keys_whoever_names_the_address_of_a_client_is_a_proxy(header: str) -> None:
    gateway = DashboardHarness(NO_KEYS, HERE)
    assert gateway.ask(PATH, header, host="localhost").status == 401


@pytest.mark.parametrize(
    "header", ["X-Viable: 1", "X-Team: 192.0.2.1", "X-Realm: ip", "User-Agent: x-real-ip"]
)
def test_without_keys_any_other_header_is_a_local_clients(header: str) -> None:
    assert DashboardHarness(NO_KEYS, HERE).ask(PATH, header, host="localhost").status == 200


def test_a_proxy_that_is_trusted_is_not_this_machine() -> None:
    gateway = DashboardHarness(NO_KEYS + "trusted_proxies: ['127.0.0.1']\n", HERE)
    assert gateway.ask(PATH, host="localhost").status == 401


def test_without_keys_what_speaks_like_a_proxy_is_none_of_this_machine() -> None:
    gateway = DashboardHarness(NO_KEYS, HERE)
    gateway.connect()
    gateway.send(b"GET %b HTTP/1.0\r\nHost: 127.0.0.1:8787\r\n\r\n" % PATH.encode())
    assert Response(gateway.received()).status == 401


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_foreign_page_changes_nothing_even_with_a_key(method: str) -> None:
    gateway = DashboardHarness(OWN_KEYS)
    path = "/v1/dashboard/oauth/one"
    assert gateway.ask(path, BEARER, "Origin: https://evil.example", method=method).status == 403
    assert gateway.rejected == ["origin"]
    assert gateway.ask(path, BEARER, "Origin: http://gw.example", method=method).status == 404


def test_the_page_behind_a_proxy_is_known_by_the_public_url() -> None:
    gateway = DashboardHarness(OWN_KEYS + "public_url: https://llm.example/gw\n")
    origin = "Origin: https://llm.example"
    assert gateway.ask("/ui/login", origin, method="POST", body=b'{"key":"%b"}' % KEY.encode()).status == 204
    assert gateway.ask("/ui/login", "Origin: https://llm.example:444", method="POST").status == 403


def test_a_session_lasts_for_its_time() -> None:
    gateway = DashboardHarness(OWN_KEYS)
    signed = gateway.sign_in(KEY)
    assert (signed.status, signed.body) == (204, b"")
    rules = signed.headers["set-cookie"].split("; ")[1:]
    assert rules == ["Max-Age=43200", "Path=/", "HttpOnly", "SameSite=Strict"]
    assert KEY not in signed.headers["set-cookie"]
    cookie = f"Cookie: other=1; {signed.cookie}"
    assert gateway.ask(PATH, cookie).status == 200
    gateway.wall += SECONDS
    assert gateway.ask(PATH, cookie).status == 200
    gateway.wall += 1
    assert gateway.ask(PATH, cookie).status == 401


def test_cookies_may_come_in_several_headers() -> None:
    gateway = DashboardHarness(OWN_KEYS)
    cookies = [f"Cookie: {gateway.sign_in(KEY).cookie}", "Cookie: other=1"]
    assert gateway.ask(PATH, *cookies).status == 200
    assert gateway.ask(PATH, *reversed(cookies)).status == 200
    assert gateway.ask("/ui/logout", *cookies, method="POST").status == 204
    assert gateway.ask(PATH, *cookies).status == 401


@pytest.mark.parametrize("position", [0, 5, 20, 45, 50, 60, -1])
def test_a_cookie_that_was_changed_opens_nothing(position: int) -> None:
    gateway = DashboardHarness(OWN_KEYS)
    name, _, value = gateway.sign_in(KEY).cookie.partition("=")
    letters = list(value)
    letters[position] = "0" if letters[position] != "0" else "A"
    assert gateway.ask(PATH, f"Cookie: {name}={''.join(letters)}").status == 401


OVER_TLS = {
    "the address that is public": ("public_url: https://gw.example\n", []),
    "the word of a proxy": ("trusted_proxies: ['192.0.2.7']\n", ["X-Forwarded-Proto: https"]),
}


@pytest.mark.parametrize(("more", "headers"), OVER_TLS.values(), ids=OVER_TLS)
def test_under_tls_only_a_cookie_of_this_very_host_counts(more: str, headers: list[str]) -> None:
    gateway = DashboardHarness(OWN_KEYS + more)
    signed = gateway.ask("/ui/login", *headers, method="POST", body=b'{"key":"%b"}' % KEY.encode())
    name, _, rest = signed.headers["set-cookie"].partition("=")
    value, *rules = rest.split("; ")
    assert name == "__Host-mgw_dashboard"
    assert rules == ["Max-Age=43200", "Path=/", "HttpOnly", "SameSite=Strict", "Secure"]
    assert gateway.ask(PATH, *headers, f"Cookie: {name}={value}").status == 200
    assert gateway.ask(PATH, *headers, f"Cookie: mgw_dashboard={value}").status == 401
    out = gateway.ask("/ui/logout", *headers, f"Cookie: {name}={value}", method="POST")
    assert out.headers["set-cookie"].startswith("__Host-mgw_dashboard=; Max-Age=0; Path=/;")
    assert gateway.ask(PATH, *headers, f"Cookie: {name}={value}").status == 401


def test_without_tls_the_cookie_of_tls_counts_for_nothing() -> None:
    gateway = DashboardHarness(OWN_KEYS)
    value = gateway.sign_in(KEY).cookie.partition("=")[2]
    assert gateway.ask(PATH, f"Cookie: __Host-mgw_dashboard={value}").status == 401


def test_a_cookie_does_not_help_a_foreign_page() -> None:
    gateway = DashboardHarness(OWN_KEYS)
    cookie = f"Cookie: {gateway.sign_in(KEY).cookie}"
    assert gateway.ask(PATH, cookie, "Origin: https://gw.example:8443").status == 403


def test_signing_out_ends_the_session_and_no_other() -> None:
    gateway = DashboardHarness(OWN_KEYS)
    mine, yours = gateway.sign_in(KEY).cookie, gateway.sign_in(KEY).cookie
    out = gateway.ask("/ui/logout", f"Cookie: {mine}", method="POST")
    assert out.status == 204
    assert out.headers["set-cookie"].startswith("mgw_dashboard=; Max-Age=0;")
    assert gateway.ask(PATH, f"Cookie: {mine}").status == 401
    assert gateway.ask(PATH, f"Cookie: {yours}").status == 200


def test_a_key_that_is_removed_takes_its_sessions_with_it() -> None:
    gateway = DashboardHarness(OWN_KEYS)
    mine, yours = gateway.sign_in(KEY).cookie, gateway.sign_in(OTHER).cookie
    gateway.server.use(DashboardHarness(OWN_KEYS.replace(f"{KEY}, ", "")).generation)
    gateway.switch.follow()
    assert gateway.ask(PATH, f"Cookie: {mine}").status == 401
    assert gateway.ask(PATH, f"Cookie: {yours}").status == 200


def test_another_process_with_the_same_keys_takes_the_cookie() -> None:
    cookie = DashboardHarness(OWN_KEYS).sign_in(KEY).cookie
    assert DashboardHarness(OWN_KEYS).ask(PATH, f"Cookie: {cookie}").status == 200


DIGEST = sha256(KEY.encode())
BY_DIGEST = THREE_FAMILIES + (
    f'edge_auth: {{enabled: true, keys: [{{name: ops, sha256: "{DIGEST.hexdigest()}"}}]}}\n'
)


def test_a_digest_of_a_key_signs_no_session() -> None:
    gateway = DashboardHarness(BY_DIGEST)
    cookie = gateway.sign_in(KEY).cookie
    assert gateway.ask(PATH, f"Cookie: {cookie}").status == 200
    assert DashboardHarness(BY_DIGEST).ask(PATH, f"Cookie: {cookie}").status == 401
    forger = CookieSessions(lambda: gateway.wall, urandom)
    forger.use({DIGEST.digest(): DIGEST.digest()})
    forged = forger.begin(DIGEST.digest()).decode()
    assert gateway.ask(PATH, f"Cookie: mgw_dashboard={forged}").status == 401


def fail_to_sign_in(gateway: DashboardHarness, *headers: str) -> Response:
    return gateway.ask("/ui/login", *headers, method="POST", body=b'{"key":"wrong"}')


def test_failed_sign_ins_are_limited_for_each_client() -> None:
    gateway = DashboardHarness(OWN_KEYS)
    assert [gateway.sign_in("wrong").status for _ in range(MAX_FAILURES)] == [401] * MAX_FAILURES
    gateway.clock.advance(15)
    limited = gateway.sign_in("wrong")
    assert (limited.status, limited.headers["retry-after"]) == (429, "45")
    gateway.peer = IPv4Address("TCP", "192.0.2.8", 1)
    assert gateway.sign_in("wrong").status == 401
    gateway.peer = AWAY
    gateway.clock.advance(45)
    assert gateway.sign_in("wrong").status == 401


def test_a_right_key_is_never_locked_out() -> None:
    gateway = DashboardHarness(OWN_KEYS)
    assert {gateway.sign_in("wrong").status for _ in range(MAX_FAILURES + 1)} == {401, 429}
    signed = gateway.sign_in(KEY)
    assert signed.status == 204
    assert gateway.ask(PATH, f"Cookie: {signed.cookie}").status == 200


def test_failed_sign_ins_are_limited_for_all_addresses_that_a_client_may_have() -> None:
    gateway = DashboardHarness(OWN_KEYS)
    for number in range(MAX_FAILURES):
        gateway.peer = IPv6Address("TCP", f"2001:db8::{number + 1:x}", 1)
        assert gateway.sign_in("wrong").status == 401
    gateway.peer = IPv6Address("TCP", "2001:db8::ffff:1", 1)
    assert gateway.sign_in("wrong").status == 429
    gateway.peer = IPv6Address("TCP", "2001:db8:0:1::1", 1)
    assert gateway.sign_in("wrong").status == 401


def test_failed_sign_ins_are_those_of_the_client_behind_a_proxy_that_is_trusted() -> None:
    gateway = DashboardHarness(OWN_KEYS + "trusted_proxies: ['192.0.2.0/24']\n", AWAY)
    mine, yours = "X-Forwarded-For: 198.51.100.1", "X-Forwarded-For: 198.51.100.1, 198.51.100.2"
    assert {fail_to_sign_in(gateway, mine).status for _ in range(MAX_FAILURES)} == {401}
    assert fail_to_sign_in(gateway, mine).status == 429
    assert fail_to_sign_in(gateway, yours).status == 401
    gateway.peer = IPv4Address("TCP", "203.0.113.1", 1)  # no proxy of ours: it says what it likes
    assert {fail_to_sign_in(gateway, f"X-Forwarded-For: 198.51.100.{n}").status for n in range(9)} == {401}
    assert fail_to_sign_in(gateway, yours).status == 401
    assert fail_to_sign_in(gateway, yours).status == 429


BODIES = {
    "nothing": b"",
    "no JSON": b"key",
    "a list": b"[]",
    "a number": b'{"key": 1}',
    "an empty key": b'{"key": ""}',
    "half a letter": b'{"key": "\\ud800"}',
    "no text": b'{"key": "\xff"}',
    "too deep": b'{"key":' + b"[" * 30_000,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_body_without_a_key_is_refused_and_is_no_bug(body: bytes) -> None:
    gateway = DashboardHarness(OWN_KEYS)
    assert gateway.ask("/ui/login", method="POST", body=body).status == 400
    assert gateway.ask("/v1/dashboard/oauth/x", BEARER, method="POST", body=body).status in (400, 404)


CASES = {
    "an answer": (PATH, [BEARER], "GET", 200),
    "no key": (PATH, [], "GET", 401),
    "a foreign page": (PATH, ["Origin: null"], "GET", 403),
    "no such path": ("/v1/dashboard/nothing", [BEARER], "GET", 404),
    "a wrong method": (PATH, [BEARER], "PUT", 405),
    "no such login": ("/v1/dashboard/oauth/none", [BEARER], "GET", 404),
    "the page": ("/ui", [], "GET", 401),
    "no key to sign in with": ("/ui/login", [], "POST", 400),
}


@pytest.mark.parametrize(("path", "headers", "method", "status"), CASES.values(), ids=CASES)
def test_a_request_leaves_no_reference_cycle(path: str, headers: list[str], method: str, status: int) -> None:
    gateway = DashboardHarness(OWN_KEYS)
    gateway.ask(path, *headers, method=method)
    while gc.collect():  # what other tests have left open is closed by the first, and gone after the second
        pass
    gc.disable()
    try:
        for _ in range(5):
            assert gateway.ask(path, *headers, method=method).status == status
        gateway.connect()
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_form_leads_back_to_the_page() -> None:
    gateway = DashboardHarness(OWN_KEYS)
    form = "Content-Type: application/x-www-form-urlencoded"
    done = gateway.ask("/ui/login", form, method="POST", body=b"key=" + KEY.encode())
    assert (done.status, done.headers["location"]) == (303, "../ui")
    assert gateway.ask("/ui", f"Cookie: {done.cookie}").status == 200
    failed = gateway.ask("/ui/login", form, method="POST", body=b"key=wrong")
    assert (failed.status, failed.headers["location"]) == (303, "../ui#failed")
    assert "set-cookie" not in failed.headers


def test_the_page_without_a_key_is_the_one_to_sign_in_with() -> None:
    gateway = DashboardHarness(OWN_KEYS)
    page = gateway.ask("/ui")
    assert (page.status, page.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert b"ui/login" in page.body
    assert gateway.ask("/ui", BEARER).body != page.body


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("text", [OWN_KEYS, NO_KEYS], ids=["keys", "none"])
@pytest.mark.parametrize("query", ["", "?", "?view=models&x=%2F"])
def test_a_slash_behind_the_page_leads_to_the_page(method: str, text: str, query: str) -> None:
    response = DashboardHarness(text).ask(f"/ui/{query}", method=method)
    assert (response.status, response.headers["location"], response.body) == (308, f"../ui{query}", b"")


@pytest.mark.parametrize(
    "path", ["/ui/assets/nothing.js", "/ui/assets/../app.py", "/ui/assets/%2e%2e/app.py", "/ui/x"]
)
def test_no_path_leads_out_of_the_files(path: str) -> None:
    assert DashboardHarness(OWN_KEYS).ask(path, BEARER).status in (400, 401, 404)


def test_a_file_is_sent_once_and_then_known() -> None:
    gateway = DashboardHarness(OWN_KEYS)
    name = gateway.switch.dashboard.files.assets()[0]
    first = gateway.ask(f"/ui/assets/{name}")
    assert first.status == 200
    assert gateway.ask(f"/ui/assets/{name}", f"If-None-Match: {first.headers['etag']}").status == 304


def message_of(response: Response) -> str:
    message: str = json.loads(response.body)["error"]["message"]
    return message


HARNESS_KEY = "x-api-key: edge"
BELOW = ["/ui", "/ui/", "/ui/login", "/ui/assets/page.js", "/v1/dashboard", "/v1/dashboard/", PATH]


@pytest.mark.parametrize("path", BELOW)
def test_what_is_off_is_not_there_and_says_why(path: str) -> None:
    gateway = DashboardHarness(EDGE_KEYS + "dashboard: {enabled: false}\n")
    assert gateway.switch.recorder is None
    assert gateway.ask(path).status == 401
    response = gateway.ask(path, f"x-api-key: {EDGE}")
    assert response.status == 404
    assert message_of(response) == (
        f"no such endpoint: {path}; the dashboard is off: to turn it on, set dashboard.enabled to true"
    )


@pytest.mark.parametrize("path", BELOW)
def test_what_is_not_installed_is_not_there_and_says_why(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mgw.config.dashboard, "NEEDED_PACKAGE", "a_package_that_nobody_has")
    gateway = DashboardHarness(f"{NO_KEYS}# {path}\n", HERE)  # configurations are remembered by their text
    assert gateway.switch.recorder is None
    response = gateway.ask(path, HARNESS_KEY, host="localhost")
    assert response.status == 404
    assert message_of(response) == (
        f"no such endpoint: {path}; the dashboard is not installed: it needs the package "
        "a_package_that_nobody_has (pip install a_package_that_nobody_has)"
    )


def test_what_an_operator_denies_has_no_reason() -> None:
    gateway = DashboardHarness(NO_KEYS + "routes: {deny: [dashboard]}\n", HERE)
    assert message_of(gateway.ask("/ui", HARNESS_KEY, host="localhost")) == "no such endpoint: /ui"


@pytest.mark.parametrize("path", ["/ui/nothing", "/ui/assets/nothing.js", "/v1/dashboard/nothing"])
def test_what_is_not_there_is_named(path: str) -> None:
    response = DashboardHarness(OWN_KEYS).ask(path, BEARER)
    assert (response.status, message_of(response)) == (404, f"no such endpoint: {path}")


@pytest.mark.parametrize("path", ["/v1/dashboard", "/v1/dashboard/"])
def test_the_address_above_the_api_says_where_the_api_is(path: str) -> None:
    gateway = DashboardHarness(OWN_KEYS)
    assert gateway.ask(path).status == 401
    response = gateway.ask(path, BEARER)
    assert response.status == 404
    assert message_of(response).startswith(f"no such endpoint: {path}; /v1/dashboard/openapi.json describes")


def test_a_reload_turns_it_off_and_on() -> None:
    gateway = DashboardHarness(NO_KEYS, HERE)
    for more, status in (("dashboard: {enabled: false}\n", 404), ("", 200)):
        gateway.reload(NO_KEYS + more)
        assert gateway.ask("/ui", host="localhost").status == status


def test_a_wrong_method_is_told_the_right_ones() -> None:
    response = DashboardHarness(OWN_KEYS).ask(PATH, BEARER, method="PUT")
    assert (response.status, response.headers["allow"]) == (405, "GET, HEAD")


def test_it_goes_on_while_the_gateway_drains() -> None:
    gateway = DashboardHarness(OWN_KEYS)
    gateway.server.draining = True
    response = gateway.ask(PATH, BEARER)
    assert response.status == 200
    assert json.loads(response.body)["draining"] is True


def test_a_key_of_the_dashboard_is_nobodys_own_credential() -> None:
    config = DashboardHarness(OWN_KEYS).generation.config
    gate = EdgeGate(config.edge_auth, None, config.dashboard.keys)
    caller = gate.admit(Family.OPENAI, [(b"Authorization", b"Bearer " + KEY.encode())], None)
    assert caller.key is None
    assert "is a dashboard key" in (caller.flaw or "")
