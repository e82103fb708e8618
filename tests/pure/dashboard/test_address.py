"""What is said of where the dashboard is: in the log, by ``mgw check`` and by the demo."""

from __future__ import annotations

import pytest

from mgw.config.dashboard import OFF
from mgw.config.load import parse
from mgw.config.settings import Config
from mgw.dashboard.address import describe_dashboard, listening_urls, why_no_dashboard
from mgw.routing.routes import DENIABLE
from tests.support.configs import THREE_FAMILIES

OWN = "dashboard: {keys: [a-key-of-the-dashboard]}\n"
EDGE = "edge_auth: {enabled: true, keys: [a-key-of-a-client]}\n"
LIMITED = "edge_auth: {enabled: true, keys: [{name: a, key: a-key-of-a-client, models: ['gpt-*']}]}\n"
TOKENS = (
    "edge_auth: {enabled: true, groups: {admins: {}}, jwt: [{name: corp, issuer: 'https://a.example', "
    "audience: mgw, rules: [{groups: [admins]}]}]}\n"
)


def config_of(more: str) -> Config:
    return parse(THREE_FAMILIES + more, "mgw.yaml", {}, DENIABLE)


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("http://127.0.0.1:8787", "http://127.0.0.1:8787/ui"),
        ("https://127.0.0.1:8787", "https://127.0.0.1:8787/ui"),
        ("http://[::1]:8787", "http://[::1]:8787/ui"),
        ("http://192.0.2.1:80", "http://192.0.2.1:80/ui"),
        ("http://0.0.0.0:8787", "http://localhost:8787/ui"),
        ("https://[::]:8787", "https://localhost:8787/ui"),
        ("unix:/run/mgw/mgw.sock", "/ui over unix:/run/mgw/mgw.sock"),
    ],
)
def test_its_page_is_said_as_a_browser_on_this_machine_opens_it(url: str, page: str) -> None:
    assert describe_dashboard(config_of(OWN), [url]) == f"dashboard at {page}"


def test_where_nobody_knows_the_address_the_path_is_said() -> None:
    assert describe_dashboard(config_of(OWN), []) == "dashboard at /ui"


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1"])
def test_without_keys_nothing_is_added_on_loopback(url: str) -> None:
    assert describe_dashboard(config_of(""), [url]) == f"dashboard at {url}/ui"


@pytest.mark.parametrize("url", ["http://0.0.0.0:1", "http://[::]:1"])
@pytest.mark.parametrize("more", ["", LIMITED])
def test_without_keys_on_all_interfaces_it_is_for_this_machine(url: str, more: str) -> None:
    said = describe_dashboard(config_of(more), [url])
    assert said.endswith(":1/ui, for clients on this machine only: dashboard.keys is not set")


@pytest.mark.parametrize("url", ["http://192.0.2.1:1", "http://gw.example:1", "unix:/run/mgw.sock"])
def test_without_keys_where_no_peer_is_on_loopback_nobody_can_open_it(url: str) -> None:
    said = describe_dashboard(config_of(""), [url])
    assert said.endswith(", which no client can open until dashboard.keys is set")


def test_the_keys_of_clients_that_open_it_are_mentioned() -> None:
    said = describe_dashboard(config_of(EDGE), ["http://127.0.0.1:1"])
    assert said == (
        "dashboard at http://127.0.0.1:1/ui, for the keys of edge_auth that have neither models nor limits"
    )
    assert not describe_dashboard(config_of(EDGE + OWN), ["http://127.0.0.1:1"]).startswith(said)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://0.0.0.0:1", "http://192.0.2.1:1"])
def test_tokens_that_open_it_are_mentioned(url: str) -> None:
    said = describe_dashboard(config_of(TOKENS + "dashboard: {groups: [admins]}\n"), [url])
    assert said.endswith(":1/ui, for the keys and tokens of clients in one of dashboard.groups")
    assert "token" not in describe_dashboard(config_of(TOKENS + OWN), [url])


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("dashboard: {enabled: false}\n", OFF),
        ("routes: {deny: [dashboard]}\n", "the dashboard is off: routes.deny lists it"),
        ("routes: {deny: [dashboard_page]}\n", "the dashboard is off: routes.deny lists it"),
    ],
)
def test_what_is_off_has_a_reason(more: str, reason: str) -> None:
    assert describe_dashboard(config_of(more), ["http://127.0.0.1:1"]) == reason
    assert why_no_dashboard(config_of(more)) == reason


def test_a_page_without_its_api_is_still_there() -> None:
    assert why_no_dashboard(config_of("routes: {deny: [dashboard_api]}\n")) is None


@pytest.mark.parametrize(
    ("listen", "urls"),
    [
        ("127.0.0.1:8787", ["http://127.0.0.1:8787"]),
        (":8787", ["http://[::]:8787"]),
        ("[::1]:8787", ["http://[::1]:8787"]),
        ("127.0.0.1:0", []),
        ("unix:/run/mgw.sock:mode=660", ["unix:/run/mgw.sock"]),
        ("systemd:domain=INET:index=0", []),
        ("tcp:8787:interface=127.0.0.1", []),
    ],
)
def test_a_configuration_says_where_it_will_listen(listen: str, urls: list[str]) -> None:
    assert listening_urls(config_of(f"listen: '{listen}'\n")) == urls


def test_a_certificate_makes_it_https() -> None:
    more = "tls: {cert_file: /c.pem, key_file: /k.pem}\nlisten: gw.example:443\n"
    assert listening_urls(config_of(more)) == ["https://gw.example:443"]
