"""Subscription accounts from login to request: ``mgw auth``, the gateway and the simulator as processes."""

from __future__ import annotations

import json
import os
import pty
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tests.support.commands import MGW, run_mgw
from tests.support.desk import NO_REDIRECTS, Desk, fetch, message
from tests.support.fork_server import ROOT
from tests.support.gateway import CANARY, start_gateway
from tests.support.simulator import SimulatorProcess, start_simulator
from tests.support.waiting import WAIT_SECONDS

PAGE = re.compile(rb"^(http://\S+)$", re.MULTILINE)
DEVICE_CODE = re.compile(rb"user_code=(SIM-\d+)")


@pytest.fixture(scope="module")
def simulator() -> Iterator[SimulatorProcess]:
    with start_simulator() as simulator:
        yield simulator


@pytest.fixture
def desk(tmp_path: Path, simulator: SimulatorProcess) -> Desk:
    fetch(f"{simulator.url}/_sim/accounts", "DELETE")
    desk = Desk(tmp_path, simulator)
    desk.write()
    return desk


def test_a_login_with_a_browser_is_kept_for_its_owner_alone(desk: Desk) -> None:
    with desk.running("login", "a") as (process, shown):
        page = shown.wait_for(PAGE.search, WAIT_SECONDS, "the page")[1].decode()
        redirect = re.search(r"redirect_uri=([^&]+)", page)
        assert redirect is not None
        back = urllib.request.unquote(redirect[1])  # type: ignore[attr-defined]  # of urllib.parse
        with pytest.raises(urllib.error.HTTPError, match="400"):
            fetch(f"{back}?code=of-somebody-else&state=wrong")
        assert b"You are logged in" in fetch(f"{page}&account=alice")
        assert process.wait(WAIT_SECONDS) == 0
    store = desk.folder / "credentials" / "store.json"
    assert store.stat().st_mode & 0o777 == 0o600
    entry = json.loads(store.read_bytes())["entries"]["a"]
    assert (entry["account"], entry["details"]) == ("alice@sim.example", {"account_id": "id-alice"})
    assert desk.run("status", "a").returncode == 0
    listed = json.loads(desk.run("list", "--json").stdout)
    assert [(row["name"], row["account"], row["usable"]) for row in listed] == [
        ("a", "alice@sim.example", True)
    ]


def test_a_login_that_is_refused_or_not_finished_fails(desk: Desk) -> None:
    with desk.running("login", "a") as (process, shown):
        page = shown.wait_for(PAGE.search, WAIT_SECONDS, "the page")[1].decode()
        fetch(f"{page}&account=alice&deny=1")
        assert process.wait(WAIT_SECONDS) == 1
        assert b"access_denied" in shown.whole(WAIT_SECONDS)
    done = desk.run("login", "a", "--timeout", "0.2")
    assert done.returncode == 1
    assert b"not completed within 0.2 s" in done.stderr
    assert desk.run("status", "a").returncode == 1


def test_a_login_with_a_code_for_another_device(desk: Desk) -> None:
    desk.account(interval=0)
    with desk.running("login", "b", "--device") as (process, shown):
        code = shown.wait_for(DEVICE_CODE.search, WAIT_SECONDS, "the code")[1].decode()
        fetch(f"{desk.simulator.url}/login/device/approve?user_code={code}&account=bob")
        assert process.wait(WAIT_SECONDS) == 0
    with desk.running("login", "b", "--device") as (process, shown):
        code = shown.wait_for(DEVICE_CODE.search, WAIT_SECONDS, "the code")[1].decode()
        fetch(f"{desk.simulator.url}/login/device/approve?user_code={code}&deny=1")
        assert process.wait(WAIT_SECONDS) == 1
    assert desk.run("status", "b").returncode == 0, "what was there before stays"


def test_a_code_is_pasted_into_a_terminal(desk: Desk) -> None:
    profile = desk.folder / "profile.yaml"
    profile.write_text(profile.read_text().replace("  port: 0", "  port: 14555"))
    child, terminal = pty.fork()
    if child == 0:
        program = [sys.executable, *MGW, *desk.command("login", "a", "--paste")]
        os.execve(sys.executable, program, {**os.environ, "PYTHONPATH": str(ROOT)})
    seen = b""
    while b"paste the code" not in seen or not seen.rstrip().endswith(b":"):
        seen += os.read(terminal, 4096)
    page = re.search(rb"http://\S+authorize\S+", seen)
    assert page is not None
    try:
        NO_REDIRECTS.open(f"{page[0].decode()}&account=alice", timeout=WAIT_SECONDS)
    except urllib.error.HTTPError as redirect:
        os.write(terminal, redirect.headers["Location"].encode() + b"\n")
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert desk.run("status", "a").returncode == 0


def test_without_a_terminal_nothing_waits_for_an_answer_that_cannot_come(desk: Desk) -> None:
    profile = desk.folder / "profile.yaml"
    profile.write_text(profile.read_text().replace("  port: 0", "  port: 14555"))
    done = desk.run("login", "a", "--paste")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"standard input ended" in done.stderr
    assert desk.run("import", "a").returncode == 2, "empty input is no JSON"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), b"usage"),
        (("login",), b"NAME"),
        (("login", "a/b"), b"at most 64"),
        (("login", "a", "--profile", "nobody"), b"unknown profile 'nobody'; expected one of sim"),
        (("login", "a", "--device", "--paste"), b"not allowed with"),
        (("login", "a", "--paste"), b"redirect.port"),
        (("import", "a", "/does/not/exist"), b"No such file"),
    ],
)
def test_what_cannot_be_done_is_said(desk: Desk, arguments: tuple[str, ...], said: bytes) -> None:
    done = desk.run(*arguments)
    assert done.returncode == (1 if said == b"No such file" else 2)
    assert said in done.stderr


def test_tokens_of_another_program_are_imported_and_given_back(desk: Desk) -> None:
    tokens = {"oauth": {"accessToken": "canary-token-1", "expiresAt": 1999999999000, "scopes": ["x"]}}
    file = desk.folder / "tokens.json"
    file.write_text(json.dumps(tokens))
    assert desk.run("import", "a", str(file)).returncode == 2
    assert desk.run("import", "a", str(file), "--at", "oauth").returncode == 0
    entry = json.loads((desk.folder / "credentials/store.json").read_bytes())["entries"]["a"]
    assert (entry["access_token"], entry["expires_at"]) == ("canary-token-1", 1999999999.0)
    desk.import_login("b", "bob")
    assert desk.run("logout", "b").returncode == 0
    assert desk.run("logout", "b").returncode == 1
    listed = json.loads(desk.run("list", "--json").stdout)
    assert [row["name"] for row in listed] == ["a"]


def test_requests_go_with_accounts_in_turn_and_leave_those_that_are_limited(desk: Desk) -> None:
    desk.import_login("a", "canaryA")
    desk.import_login("b", "canaryB")
    with start_gateway(desk.config) as gateway:
        assert [message(gateway)[0] for _ in range(4)] == [200] * 4
        assert {name: found["used"] for name, found in desk.account().items()} == {
            "canaryA": {"m": 2},
            "canaryB": {"m": 2},
        }
        desk.account("canaryA", requests=0, retry_after=700)
        assert [message(gateway)[0] for _ in range(2)] == [200, 200]
        desk.account("canaryB", requests=0, reset=50)
        status, said = message(gateway)
        assert (status, said["error"]["type"]) == (429, "rate_limit_error")
        assert 40 <= int(said["Retry-After"]) <= 50
        received = desk.simulator.counters()["received"]
        assert message(gateway)[0] == 429
        assert message(gateway, path="/count_tokens")[0] == 429, "the simulator's own: it was asked"
        assert desk.simulator.counters()["received"] == received + 1
        assert message(gateway, "sub/n")[0] == 429
    with start_gateway(desk.config) as gateway:
        desk.account("canaryA", forbidden="m")
        desk.account("canaryB")
        assert [message(gateway)[0] for _ in range(3)] == [200] * 3
        assert desk.account()["canaryA"]["used"] == {}
    named = {request.value("x-account-id") for request in desk.simulator.requests()}
    assert {"id-canaryA", "id-canaryB"} <= named


def test_a_gateway_without_a_login_starts_and_says_so_until_somebody_logs_in(desk: Desk) -> None:
    with start_gateway(desk.config) as gateway:
        status, said = message(gateway)
        assert status == 401
        assert "mgw auth login" in said["error"]["message"]
        assert message(gateway, "other/n")[0] == 200
        assert [entry["id"] for entry in json.loads(gateway.get("/v1/models"))["data"]] == ["other/n"]
        desk.import_login("a", "canaryA")
        while message(gateway)[0] != 200:
            pass
        listed = [entry["id"] for entry in json.loads(gateway.get("/v1/models"))["data"]]
        assert listed == ["sub/m", "other/n"]


def test_two_gateways_that_refresh_one_account_use_its_refresh_token_once(desk: Desk) -> None:
    desk.import_login("a", "canaryA", expires_in=0)
    with start_gateway(desk.config) as first, start_gateway(desk.config) as second:
        with ThreadPoolExecutor(8) as threads:
            asked = [threads.submit(message, gateway) for gateway in [first, second] * 4]
            assert {work.result()[0]: work.result()[1] for work in asked}.keys() == {200}
        assert desk.account()["canaryA"]["refreshes"] == 1
        desk.account("canaryA", expire=1)
        with ThreadPoolExecutor(8) as threads:
            asked = [threads.submit(message, gateway) for gateway in [first, second] * 4]
            assert {work.result()[0]: work.result()[1] for work in asked}.keys() == {200}
        assert desk.account()["canaryA"]["refreshes"] == 2
        assert message(first)[0] == message(second)[0] == 200


def test_a_reload_lets_those_that_rest_go_on_resting(desk: Desk) -> None:
    import signal

    desk.import_login("a", "canaryA")
    desk.account("canaryA", requests=0, retry_after=700)
    with start_gateway(desk.config) as gateway:
        assert message(gateway)[0] == 429
        gateway.signal(signal.SIGHUP)
        gateway.log(b"the configuration was reloaded")
        received = desk.simulator.counters()["received"]
        assert message(gateway)[0] == 429
        assert desk.simulator.counters()["received"] == received


def test_demanded_names_and_headers_reach_the_vendor_and_the_client_sees_its_own(desk: Desk) -> None:
    desk.more = 'tools: {prefix: sim_}\ncloak: {headers: {X-App: cli}, system: ["You are it."]}\n'
    desk.write()
    desk.import_login("a", "canaryA")
    desk.account("canaryA", header="X-App:cli", tool_prefix="sim_")
    tool = {"name": "look", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
    turn = {"role": "user", "content": "use tool sim_look"}
    with start_gateway(desk.config) as gateway:
        status, said = message(gateway, tools=[tool], messages=[turn])
        assert status == 200, said
        assert [block["name"] for block in said["content"] if block["type"] == "tool_use"] == ["look"]
    sent = desk.simulator.requests()[-1].json()
    assert [one["name"] for one in sent["tools"]] == ["sim_look"]
    assert sent["system"] == [{"type": "text", "text": "You are it."}]


def test_check_says_which_accounts_cannot_be_used(desk: Desk) -> None:
    def warned() -> bytes:
        done = run_mgw(["check", "-c", str(desk.folder / "mgw.yaml")])
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert b"nobody has logged in to a yet" in warned()
    desk.import_login("a", "canaryA")
    assert b"log in to a " not in warned()
    (desk.folder / "credentials").chmod(0o755)
    assert b"chmod 700" in warned()


def test_sessions_go_with_accounts_and_their_headers(desk: Desk) -> None:
    desk.import_login("a", "canaryA")
    desk.import_login("b", "canaryB")
    desk.account("canaryA", requests=0, retry_after=60)
    with start_gateway(desk.config.replace("kind: anthropic", "kind: openai", 1)) as gateway:
        for _ in range(2):
            url = f"ws://127.0.0.1:{gateway.port}/v1/realtime?model=sub/m"
            with connect(url, open_timeout=WAIT_SECONDS) as session:
                assert json.loads(session.recv(WAIT_SECONDS))["type"] == "session.created"
        assert CANARY not in gateway.get("/metrics")
    sessions = [one for one in desk.simulator.requests() if one.target.startswith("/v1/realtime")]
    assert [one.value("x-account-id") for one in sessions] == ["id-canaryA", "id-canaryB", "id-canaryB"]


def test_one_account_alone_is_refreshed_when_it_is_refused(desk: Desk) -> None:
    desk.import_login("a", "canaryA")
    desk.import_login("b", "canaryB")
    pool = "pool: {credentials: [a, b], profile: sim}"
    one = "auth: oauth2\n    oauth: {credentials: %s, profile: sim}"
    with start_gateway(desk.config.replace(pool, one % "a")) as gateway:
        desk.account("canaryA", expire=1)
        assert message(gateway)[0] == 200
        assert gateway.event()["attempts"] == 2
        desk.account("canaryA", requests=0, retry_after=60)
        assert [message(gateway)[0] for _ in range(2)] == [429, 429]
        assert desk.account()["canaryA"]["used"] == {"m": 2}, "each was asked"
    with start_gateway(
        desk.config.replace(pool, one % "b")
    ) as gateway:  # one that has not just been refreshed
        desk.account("canaryB", expire=1, refuse_refresh=1)
        assert message(gateway)[0] == 401
        gateway.log(b"credential b was not refreshed")
    done = desk.run("status", "b")
    assert b"last error" in done.stdout
