"""Logins in the dashboard from request to use: the gateway and simulator as processes."""

from __future__ import annotations

import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from tests.support.desk import NO_REDIRECTS, TOKENS, Desk, fetch, message
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.simulator import SimulatorProcess, start_simulator
from tests.support.waiting import WAIT_SECONDS

Json = dict[str, Any]  # Any: JSON


@pytest.fixture(scope="module")
def simulator() -> Iterator[SimulatorProcess]:
    with start_simulator() as simulator:
        yield simulator


@pytest.fixture
def desk(tmp_path: Path, simulator: SimulatorProcess) -> Desk:
    fetch(f"{simulator.url}/_sim/accounts", "DELETE")
    desk = Desk(tmp_path, simulator)
    desk.write()
    profile = tmp_path / "profile.yaml"
    profile.write_text(profile.read_text().replace("  port: 0", "  port: 14555"))
    return desk


@pytest.fixture
def gateway(desk: Desk) -> Iterator[GatewayProcess]:
    with start_gateway(desk.config) as gateway:
        yield gateway
    written = gateway.stdout.data + gateway.stderr.data
    assert not [secret for secret in (*TOKENS, b"SIM-") if secret in written], (
        "tokens and codes are not logged"
    )


def ask(gateway: GatewayProcess, method: str, entry: str, **body: str) -> tuple[int, Json]:
    """Ask the dashboard; what it says holds no token."""
    data = json.dumps(body).encode() if body else None
    url = f"{gateway.url}/v1/dashboard/oauth/{entry}"
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:
            status, said = response.status, response.read()
    except urllib.error.HTTPError as refusal:
        status, said = refusal.code, refusal.read()
    assert not [secret for secret in TOKENS if secret in said]
    answer: Json = json.loads(said) if said else {}
    if answer:
        schemas = json.loads(gateway.get("/v1/dashboard/openapi.json"))["components"]["schemas"]
        schema = schemas["login" if status < 300 else "error"]
        assert not list(Draft202012Validator(schema).iter_errors(answer)), answer
    return status, answer


def wait_for_end(gateway: GatewayProcess, entry: str) -> Json:
    """Return a flow that has ended, as whoever asks again and again sees it."""
    return wait_until(lambda: ask(gateway, "GET", entry)[1], lambda flow: flow["state"] != "pending")


def wait_until(look: Callable[[], Json], is_it: Callable[[Json], bool]) -> Json:
    until = time.monotonic() + WAIT_SECONDS
    while not is_it(found := look()):
        assert time.monotonic() < until, found
    return found


def approve(flow: Json, **more: str) -> None:
    """Do what somebody does on the page of a device login."""
    fetch(flow["verification_uri_complete"] + "".join(f"&{name}={value}" for name, value in more.items()))


def redirect_of(flow: Json, more: str = "") -> str:
    """Return where the page of a browser login sends somebody."""
    try:
        NO_REDIRECTS.open(f"{flow['authorization_url']}&account=alice{more}", timeout=WAIT_SECONDS)
    except urllib.error.HTTPError as redirect:
        return str(redirect.headers["Location"])
    raise AssertionError("the page sends nobody anywhere")


def test_an_account_is_in_use_when_somebody_has_approved_its_device_login(
    desk: Desk, gateway: GatewayProcess
) -> None:
    desk.account(interval=0)
    assert message(gateway)[0] == 401, "nobody has logged in"
    status, flow = ask(gateway, "POST", "a")
    assert (status, flow["flow"], flow["state"]) == (201, "device", "pending")
    assert ask(gateway, "POST", "a")[0] == 200, "it is the same"
    assert ask(gateway, "GET", "a")[1]["user_code"] == flow["user_code"]
    approve(flow, account="alice")
    ended = wait_for_end(gateway, "a")
    assert ended == {
        "entry": "a",
        "flow": "device",
        "state": "complete",
        "message": "logged in as alice@sim.example",
    }
    assert message(gateway)[0] == 200
    assert desk.account()["alice"]["used"] == {"m": 1}
    assert desk.run("status", "a").returncode == 0, "as after mgw auth login"
    assert (desk.folder / "credentials" / "store.json").stat().st_mode & 0o777 == 0o600


def test_an_account_is_in_use_when_somebody_has_pasted_where_the_browser_was_sent(
    desk: Desk, gateway: GatewayProcess
) -> None:
    status, flow = ask(gateway, "POST", "b", flow="pkce")
    assert (status, flow["state"], flow["wants_code"]) == (201, "pending", True)
    address = redirect_of(flow)
    assert address.startswith("http://127.0.0.1:14555/callback?code=")
    status, refusal = ask(gateway, "POST", "b", code=address.replace("state=", "state=x"))
    assert (status, refusal["error"]["param"]) == (400, "code")
    status, ended = ask(gateway, "POST", "b", code=address)
    assert (status, ended["state"]) == (200, "complete")
    assert message(gateway)[0] == 200
    assert desk.account()["alice"]["used"] == {"m": 1}


def test_a_login_that_somebody_refuses_fails(desk: Desk, gateway: GatewayProcess) -> None:
    desk.account(interval=0)
    approve(ask(gateway, "POST", "a")[1], deny="1")
    ended = wait_for_end(gateway, "a")
    assert (ended["state"], "access_denied" in ended["message"]) == ("failed", True)
    address = redirect_of(ask(gateway, "POST", "a", flow="pkce")[1], "&deny=1")
    assert ask(gateway, "POST", "a", code=address)[1]["state"] == "failed"
    assert not (desk.folder / "credentials" / "store.json").exists()


def test_a_login_that_nobody_approves_expires(desk: Desk, gateway: GatewayProcess) -> None:
    desk.account(interval=0, device_expires_in=1)
    assert ask(gateway, "POST", "a")[1]["state"] == "pending"
    assert wait_for_end(gateway, "a")["state"] == "expired"


def test_a_login_that_is_cancelled_cannot_be_approved_any_more(desk: Desk, gateway: GatewayProcess) -> None:
    desk.account(interval=0)
    flow = ask(gateway, "POST", "a")[1]
    assert ask(gateway, "DELETE", "a") == (204, {})
    assert ask(gateway, "GET", "a")[1]["state"] == "cancelled"
    approve(flow)
    assert message(gateway)[0] == 401
    assert ask(gateway, "DELETE", "a") == (204, {}), "it is forgotten"
    for method in ("GET", "DELETE"):
        status, refusal = ask(gateway, method, "a")
        assert (status, refusal["error"]["code"]) == (404, "login_not_found")


def test_what_is_not_there_or_not_known_is_said(gateway: GatewayProcess) -> None:
    for method in ("GET", "POST", "DELETE"):
        status, refusal = ask(gateway, method, "nobody")
        assert status == 404
        assert "known: a, b" in refusal["error"]["message"]
    assert ask(gateway, "POST", "a", flow="magic")[0] == 400


def test_a_reload_cancels_the_logins_to_entries_that_have_gone(desk: Desk, gateway: GatewayProcess) -> None:
    for entry in ("a", "b"):
        assert ask(gateway, "POST", entry, flow="pkce")[0] == 201
    text = gateway.config_file.read_text()
    gateway.config_file.write_text(text.replace("credentials: [a, b]", "credentials: [a]"))
    gateway.signal(signal.SIGHUP)
    assert wait_for_end(gateway, "b")["state"] == "cancelled"
    assert ask(gateway, "GET", "a")[1]["state"] == "pending"


def test_a_gateway_stops_at_once_though_logins_are_pending(desk: Desk) -> None:
    with start_gateway(desk.config) as gateway:
        assert ask(gateway, "POST", "a")[0] == 201
        assert ask(gateway, "POST", "b", flow="pkce")[0] == 201
        begun = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - begun < 5, "none of the polls, and no time limit"
        assert b"dashboard login to a finished: cancelled" in gateway.stderr.data
