"""What a configuration becomes."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.testing import MemoryReactorClock

from mgw import generation
from mgw.credentials.signed_again import Again
from mgw.generation import Generation, build_generation, build_in_slices, make_parts
from mgw.nouns.errors import GatewayError
from mgw.nouns.vocabulary import Effort, Family, ForcedTools
from mgw.routing.table import route_table
from tests.support.configs import THREE_FAMILIES, config
from tests.support.deferreds import result_of
from tests.support.token_endpoints import TokenHosts

ROWS = """
translation:
  models:
    - {match: "house-*", family: anthropic, budget: false, max_output: false, default: none, efforts: [low]}
    - {match: "gemini-2.5-pro*", family: gemini, budget: [5, 10]}
"""


def test_an_operators_rows_stand_before_the_shipped_ones_and_inherit_the_rest() -> None:
    models = build_generation(
        1, config(THREE_FAMILIES + ROWS), MemoryReactorClock(), 0, TokenHosts().sources
    ).models
    house = models.row("house-7", Family.ANTHROPIC)
    assert (house.budget, house.max_output, house.default) == (None, None, Effort.NONE)
    assert house.efforts == (Effort.LOW,)
    assert house.forced_tools is ForcedTools.NEVER
    pro = models.row("gemini-2.5-pro-preview", Family.GEMINI)
    assert (pro.budget, pro.off) == ((5, 10), False)
    assert models.row("house-7", Family.GEMINI).budget is None


def built(text: str) -> Generation:
    return build_generation(1, config(THREE_FAMILIES + text), MemoryReactorClock(), 0, TokenHosts().sources)


def test_prices_come_from_the_configuration_or_from_a_file_and_are_off_without_both(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("rows:\n  - {model: gpt-5, provider: main, input: 2, output: 10}\n")
    rows = "prices: {rows: [{model: gpt-5, provider: main, input: 2, output: 10}]}\n"
    found = [built(text).prices for text in (rows, f"prices: {{file: {file}}}\n")]
    assert None not in found
    stated = [table.row("main", "gpt-5", 0.0) for table in found if table is not None]
    assert stated[0] == stated[1] is not None
    assert built("").prices is None


def test_mistakes_in_a_file_of_prices_are_told_like_those_of_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(
        "rows:\n  - {model: gpt-5, provider: mian, input: 2}\n  - {model: gpt-6}\n  - {model: a, inptu: 1}\n"
    )
    with pytest.raises(ValueError, match="rows") as refusal:
        built(f"prices: {{file: {file}}}\n")
    known = "main, host, claude, gem, mute"
    assert str(refusal.value).splitlines() == [
        f"{file}:2: rows.0.provider: no provider is named 'mian', did you mean main? (known: {known})",
        f"{file}:3: rows.1: a row without a price, expected at least one, such as input and output",
        f"{file}:4: rows.2.inptu: unknown key, did you mean input?",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "1: expected a mapping of settings, found nothing"),
        ("- 1\n", "1: expected a mapping of settings, found a list"),
        ("row: []\n", "1: row: unknown key, did you mean rows?"),
        ("{}\n", "1: rows: missing, expected a list of prices"),
        ("rows: 5\n", "1: rows: expected a list, found the number 5"),
    ],
)
def test_a_file_of_prices_has_rows_and_nothing_else(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match="prices") as refusal:
        built(f"prices: {{file: {file}}}\n")
    assert str(refusal.value) == f"{file}:{problem}"


def test_a_file_of_prices_may_be_relative_as_other_files_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prices.yaml").write_text("rows:\n  - {model: gpt-5, input: 2}\n")
    monkeypatch.chdir(tmp_path)
    prices = built("prices: {file: prices.yaml}\n").prices
    assert prices is not None
    assert prices.row("main", "gpt-5", 0.0) is not None


def test_a_file_of_prices_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^prices\.file: file not found: .*/none\.yaml$"):
        built(f"prices: {{file: {tmp_path / 'none.yaml'}}}\n")


PROVIDER = "\nproviders:\n  p: {kind: openai_compat, base_url: 'https://a.example/v1', %s}\n"
NAMED_FILES = {
    "prices": "prices: {file: FILE}\n" + PROVIDER % "api_key: k",
    "profiles": "profiles: {example: {file: FILE}}\n" + PROVIDER % "api_key: k",
    "ca_file": PROVIDER % "api_key: k, ca_file: FILE",
    "service_account_file": PROVIDER % "auth: service_account, service_account_file: FILE",
    "adc": PROVIDER % "auth: adc, service_account_file: FILE",
}
"""Settings that name a file, which is read when the configuration is."""


@pytest.mark.parametrize("settings", NAMED_FILES.values(), ids=NAMED_FILES.keys())
@pytest.mark.parametrize("kind", ["a pipe", "a device", "too large"])
def test_no_named_file_is_waited_for_or_read_without_end(tmp_path: Path, settings: str, kind: str) -> None:
    file = tmp_path / "named"
    if kind == "a pipe":
        os.mkfifo(file)
    elif kind == "a device":
        file.symlink_to("/dev/zero")
    else:
        with file.open("wb") as sparse:
            sparse.truncate(50 * 1024**3)
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"not a regular file|more than \d+ bytes|larger than \d+ bytes"):
        build_generation(
            1, config(settings.replace("FILE", str(file))), MemoryReactorClock(), 0, TokenHosts().sources
        )
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 32 * 1024**2


def turn(reactor: MemoryReactorClock) -> None:
    """Do the one thing that is due, and not what follows from it."""
    due = reactor.calls.pop(0)
    due.called = 1
    due.func(*due.args, **due.kw)


def test_a_generation_is_built_in_slices_and_what_is_given_up_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(generation, "SLICE_SECONDS", 0.0)
    reactor, hosts = MemoryReactorClock(), TokenHosts()
    text = PROVIDER % "auth: oauth2, oauth: {token_url: 'http://i.example', client_id: a, client_secret: b}"
    parts = make_parts(config(text + text.splitlines()[2].replace("p:", "q:", 1) + "\n"), {}, 0)
    building = Deferred.fromCoroutine(build_in_slices(2, parts, reactor, hosts.sources))
    turns = 0
    while not building.called:
        turn(reactor)
        turns += 1
    assert turns > 2, "others can go on in between"
    built = result_of(building)
    assert built.credentials["p"] is built.credentials["q"]
    built.retire()
    assert hosts.sources.find_token(built.credentials["p"].identity) is None  # type: ignore[attr-defined]  # it is a RenewedToken

    parts = make_parts(parts.config, {}, 0)
    building = Deferred.fromCoroutine(build_in_slices(3, parts, reactor, hosts.sources))
    while not parts.credentials:
        turn(reactor)
    building.cancel()
    _ = building.addErrback(lambda failure: failure.trap(CancelledError))
    (given_up,) = parts.credentials.values()
    assert hosts.sources.find_token(given_up.identity) is None  # type: ignore[attr-defined]  # as above


def test_what_was_counted_of_signatures_does_not_go_back_with_a_reload() -> None:
    hosts = TokenHosts()
    first, second = (
        build_generation(number, config(THREE_FAMILIES), MemoryReactorClock(), 0, hosts.sources)
        for number in (1, 2)
    )
    for each in (first, second, first):  # whose last requests are still under way
        each.signed_again.note("main", Again.CLOCK)
    assert dict(second.signed_again.rows()) == {("main", Again.CLOCK): 3}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("", "; the dashboard is at /ui"),
        (
            "dashboard: {enabled: false}",
            "; the dashboard is off: to turn it on, set dashboard.enabled to true",
        ),
        ("routes: {deny: [dashboard]}", ""),
    ],
)
def test_who_guesses_the_path_of_the_dashboard_is_told_where_it_is(settings: str, said: str) -> None:
    table = route_table(config(f"{THREE_FAMILIES}{settings}\n"))
    with pytest.raises(GatewayError) as refused:
        table.match("GET", "/dashboard", None, [])
    assert refused.value.message == f"no such endpoint: /dashboard{said}"
