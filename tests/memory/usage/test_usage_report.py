"""``mgw usage`` adds up what is in the table, as the events say it."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mgw.cli.main import main
from mgw.cli.moments import parse_moment
from mgw.usage.event import Outcome
from mgw.usage.record import encode
from mgw.usage.usage_table import UsageTable
from tests.support.usage import event

DAY = 86_400.0
FIRST = 1_769_860_800.0
"""2026-01-31T12:00:00Z"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "usage.db"
    table = UsageTable(str(path))
    events = [
        event(request_id="1", time=FIRST, tokens_in=10, tokens_out=1, cost_usd=0.1),
        event(request_id="2", time=FIRST + 1, tokens_in=20, tokens_out=2, cost_usd=0.2),
        event(request_id="3", time=FIRST + DAY, tokens_in=40, tokens_out=4, provider="other", model="=sum"),
        event(request_id="4", time=FIRST + 2 * DAY, status=Outcome.REJECTED, provider=None, tokens_in=None),
    ]
    table.add([encode(each) for each in events])
    table.close()
    return path


def run(database: Path, *arguments: str, capsys: pytest.CaptureFixture[str]) -> Any:
    assert main(["usage", "--database", str(database), "--format", "json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_sums_by_model(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = run(database, capsys=capsys)
    assert [(row["model"], row["requests"], row["answered"], row["tokens_in"]) for row in rows] == [
        ("=sum", 1, 1, 40),
        ("fast", 3, 2, 30),
    ]


def test_sums_without_end_are_told_as_near_as_can_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "usage.db"
    table = UsageTable(str(path))
    table.add([encode(event(request_id=str(number), tokens_in=2**53)) for number in range(1100)])
    table.close()
    (row,) = run(path, capsys=capsys)
    assert row["requests"] == 1100
    assert row["tokens_in"] == pytest.approx(1100 * 2**53)


def test_sums_by_several(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = run(database, "--by", "day,provider", capsys=capsys)
    assert [(row["day"], row["provider"], row["requests"]) for row in rows] == [
        ("2026-01-31", "main", 2),
        ("2026-02-01", "other", 1),
        ("2026-02-02", None, 1),
    ]


def test_money_adds_up_exactly_and_what_is_unknown_is_not_zero(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = run(database, "--by", "provider", capsys=capsys)
    costs = {row["provider"]: row["cost_usd"] for row in rows}
    assert costs == {"main": 0.3, "other": None, None: None}


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        (("--since", "2026-02-01"), 2),
        (("--until", "2026-02-01"), 2),
        (("--since", "2026-01-31T12:00:01Z", "--until", "2026-02-01T13:00:00+01:00"), 1),
        (("--since", "2026-01-31T12:00:01", "--until", "2026-02-01T13:00:01+01:00"), 2),
    ],
)
def test_times_limit_what_is_summed(
    database: Path, capsys: pytest.CaptureFixture[str], limits: tuple[str, ...], found: int
) -> None:
    rows = run(database, "--by", "status", *limits, capsys=capsys)
    assert sum(row["requests"] for row in rows) == found


def test_a_time_may_be_that_long_ago(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = datetime.now(UTC).timestamp()
    table = UsageTable(str(tmp_path / "usage.db"))
    table.add([encode(event(request_id=str(days), time=now - days * DAY)) for days in (0.1, 1.5, 8)])
    table.close()
    found = [
        run(tmp_path / "usage.db", "--by", "status", "--since", since, capsys=capsys)[0]["requests"]
        for since in ("12h", "2d", "30d")
    ]
    assert found == [1, 2, 3]


@pytest.mark.parametrize("weekday", range(7))
def test_a_day_begins_at_its_midnight_in_utc(weekday: int) -> None:
    now = datetime(2026, 2, 2 + weekday, 15, 30, tzinfo=UTC)  # the second is a Monday
    assert parse_moment("today", now) == f"2026-02-{2 + weekday:02d}T00:00:00.000Z"
    assert parse_moment("yesterday", now) == f"2026-02-{1 + weekday:02d}T00:00:00.000Z"
    assert parse_moment("monday", now) == "2026-02-02T00:00:00.000Z"


@pytest.mark.parametrize(
    ("by", "found"),
    [
        ("error", [(None, 3), ("dns", 1)]),
        ("route", [("chat", 3), ("messages", 1)]),
        ("key", [("0123456789ab", 3), ("ab", 1)]),
        ("hour", [("2026-01-31T12:00Z", 3), ("2026-02-01T12:00Z", 1)]),
    ],
)
@pytest.mark.parametrize("closed", [False, True], ids=["events", "closed hours"])
def test_more_can_be_summed_up_by(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], by: str, found: list[tuple[Any, int]], *, closed: bool
) -> None:
    table = UsageTable(str(tmp_path / "usage.db"))
    events = [event(request_id=str(number), time=FIRST + number) for number in range(3)]
    events.append(
        event(
            request_id="4", time=FIRST + DAY, error="dns", route="messages", key_hash="ab", status=Outcome.OK
        )
    )
    table.add([encode(each) for each in events])
    while closed and table.roll_up("2026-03-01T00"):
        pass
    table.close()
    rows = run(tmp_path / "usage.db", "--by", by, capsys=capsys)
    assert [(row[by], row["requests"]) for row in rows] == found
    assert rows[0]["latency_ms_p50"] == pytest.approx(1234.568, rel=0.05)
    assert rows[0]["ttft_ms_p95"] == pytest.approx(99.0, rel=0.05)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (("--provider", "other"), 1),
        (("--model", "fast"), 3),
        (("--status", "rejected"), 1),
        (("--model", "fast", "--status", "ok"), 2),
        (("--client", "nobody"), 0),
        (("--route", "chat", "--key", "0123456789ab"), 4),
        (("--error", "dns"), 0),
    ],
)
def test_filters_are_exact(
    database: Path, capsys: pytest.CaptureFixture[str], filters: tuple[str, ...], found: int
) -> None:
    (row,) = run(database, "--by", "", *filters, capsys=capsys)
    assert row["requests"] == found


def test_a_table_by_two_columns_fits_into_120_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = UsageTable(str(tmp_path / "usage.db"))
    usual = {
        "client": "code-agents",
        "model": "claude-sonnet-4-5",
        "cost_usd": 12.345678901,
        "tokens_in": 10**8,
    }
    outcomes = [Outcome.OK] * 99 + [Outcome.UPSTREAM_ERROR, Outcome.REJECTED, Outcome.CLIENT_ABORT]
    events = [event(request_id=str(at), **usual, status=status) for at, status in enumerate(outcomes)]
    table.add([encode(each) for each in events])
    table.close()
    assert main(["usage", "--database", str(tmp_path / "usage.db"), "--by", "client,model"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= 120
    assert "p95_ms" in lines[0]


def test_csv_has_all_columns_and_no_formula(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", "--database", str(database), "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["model"], row["tokens_in"], row["session_minutes"]) for row in rows] == [
        ("'=sum", "40", ""),
        ("fast", "30", ""),
    ]


def test_the_table_has_a_total_and_no_empty_columns(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["usage", "--database", str(database), "--by", "provider"]) == 0
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert table == [
        [
            *(
                "provider",
                "requests",
                "failed",
                "rejected",
                "tokens_in",
                "tokens_out",
                "cost_usd",
                "unpriced",
            ),
            *("p50_ms", "p95_ms", "ttft_p50"),
        ],
        ["-", "1", "0", "1", "-", "0", "-", "0", "-", "-", "-"],
        ["main", "2", "0", "0", "30", "3", "0.3", "0", "1259", "1287", "100"],
        ["other", "1", "0", "0", "40", "4", "-", "1", "1259", "1287", "100"],
        ["total", "4", "0", "1", "70", "7", "0.3", "1", "1259", "1287", "100"],
    ]


def test_a_file_of_an_older_version_has_unknown_sums(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = sqlite3.connect(tmp_path / "usage.db")
    connection.execute("CREATE TABLE usage_events (request_id TEXT PRIMARY KEY, time TEXT, status TEXT)")
    connection.execute("INSERT INTO usage_events VALUES ('1', '2026-01-01T00:00:00.000Z', 'ok')")
    connection.commit()
    connection.close()
    (row,) = run(tmp_path / "usage.db", "--by", "client", capsys=capsys)
    assert (row["client"], row["requests"], row["cost_usd"]) == (None, 1, None)


def test_the_file_is_found_in_a_configuration_that_needs_an_environment(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "mgw.yaml"
    config.write_text(f"edge_auth: {{keys_env: NOT_SET}}\nhooks: {{sqlite: {{path: {database}}}}}\n")
    assert main(["usage", "-c", str(config), "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_reading_changes_nothing_and_waits_for_no_writer(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = UsageTable(str(database))
    writer.add([encode(event(request_id="5"))])
    assert len(run(database, capsys=capsys)) == 2
    writer.add([encode(event(request_id="6"))])
    writer.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--by", "colour"),
            "unknown column 'colour'; expected one or more of client, model, provider, status, error, ",
        ),
        (("--since", "friday"), "not a time: 'friday'; expected one such as today, yesterday, monday, "),
        (("--by", "tag:\udcff"), "argument --by: expected text in UTF-8"),
        (("--client", "\udcff"), "argument --client: expected text in UTF-8"),
        (("--status", "no"), "(choose from 'ok', 'upstream_error', 'client_abort', 'rejected')"),
        (("-c", "mgw.yaml"), "a configuration file and --database: name only one"),
        (("mgw.yaml",), "a configuration file and --database: name only one"),
    ],
)
def test_a_wrong_option_exits_with_2_and_says_what_is_expected(
    database: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    try:
        status = main(["usage", "--database", str(database), *arguments])
    except SystemExit as end:
        status = int(end.code or 0)
    captured = capsys.readouterr()
    assert (status, captured.out) == (2, "")
    assert said in captured.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--database", "{folder}/no.db"),
            "does not exist yet; a gateway with hooks.sqlite creates it",
        ),
        (("--database", "{folder}"), " is not a file"),
        (
            ("--database", "{folder}/other.db"),
            "has no table usage_events: it does not come from ",
        ),
        (("{folder}/no.yaml",), "configuration file not found: "),
        (("{folder}/mgw.yaml",), "mgw.yaml has no hooks.sqlite.path, so its gateway keeps no usage events"),
        (("{folder}/usage.db",), "is an SQLite file; to read it: mgw usage --database "),
    ],
)
def test_what_cannot_be_reported_is_said(
    database: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    folder = database.parent
    (folder / "mgw.yaml").write_text("providers: {main: {kind: openai}}")
    (folder / "other.db").touch()
    assert main(["usage", *(each.format(folder=folder) for each in arguments)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("mgw usage: ")
    assert said in captured.err


def test_a_folder_of_others_says_who_may_read_the_file(
    database: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", refuse)
    assert main(["usage", "--database", str(database)]) == 1
    assert capsys.readouterr().err == (
        f"mgw usage: {database}: Permission denied; run the command as root, or as the user of the gateway\n"
    )


def test_no_events_yet_is_said_in_place_of_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, config = tmp_path / "usage.db", tmp_path / "mgw.yaml"
    config.write_text(f"hooks: {{sqlite: {{path: {path}}}}}\n")
    table = UsageTable(str(path))
    table.open()
    table.close()
    assert main(["usage", str(config)]) == 0
    assert capsys.readouterr() == ("", f"no usage events yet in {path}\n")
    assert main(["usage", str(config), "--format", "json"]) == 0
    assert capsys.readouterr() == ("[]\n", "")


def test_a_file_that_the_gateway_has_just_created_has_no_events_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, config = tmp_path / "usage.db", tmp_path / "mgw.yaml"
    config.write_text(f"hooks: {{sqlite: {{path: {path}}}}}\n")
    path.touch()
    assert main(["usage", str(config)]) == 0
    assert capsys.readouterr() == ("", f"no usage events yet in {path}\n")


def test_a_period_without_events_says_from_when_the_last_one_is(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["usage", "--database", str(database), "--since", "2026-03-01"]) == 0
    assert capsys.readouterr() == (
        "",
        "no usage events in this period; the last one is from 2026-02-02T12:00:00.000Z\n",
    )
