"""``mgw requests`` of a file: what it prints, and what it says where it cannot."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from mgw.cli.gateway_query import GatewayQuery
from mgw.cli.main import main
from mgw.usage.event import Outcome, UsageEvent
from mgw.usage.record import encode
from mgw.usage.usage_table import UsageTable
from tests.support.usage import event

NOW = 1_769_860_800.0


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "usage.db"
    table = UsageTable(str(path))
    failed = event(
        request_id="req_failed",
        time=NOW - 5.0,
        status=Outcome.UPSTREAM_ERROR,
        http_status=503,
        error="overloaded",
        client="team",
        provider="backup",
        upstream_request_id="up_1",
        dropped_fields=("logit_bias",),
    )
    plain = [event(request_id=f"req_{number}", time=NOW - number) for number in range(60)]
    table.add([encode(each) for each in (failed, *plain)])
    table.close()
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["requests", *arguments])
    found = capsys.readouterr()
    return status, found.out, found.err


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Any]:  # Any: JSON
    status, out, _ = run(capsys, *arguments, "--json")
    assert status == 0
    return [json.loads(line) for line in out.splitlines()]


def test_the_newest_come_first_up_to_a_limit(capsys: pytest.CaptureFixture[str], database: Path) -> None:
    found = listed(capsys, "--database", str(database))
    assert [row["request_id"] for row in found[:3]] == ["req_0", "req_1", "req_2"]
    assert len(found) == 50
    assert len(listed(capsys, "--database", str(database), "--limit", "1000")) == 61


@pytest.mark.parametrize(
    "asked",
    [
        "--client team",
        "--provider backup",
        "--status 5xx",
        "--status upstream_error",
        "--error overloaded",
        "--request-id req_failed",
        "--upstream-request-id up_1 --status 503",
        "--client team --since 2026-01-31T11:59:00Z --until 2026-01-31T12:00:00Z",
    ],
)
def test_filters_find_a_request(capsys: pytest.CaptureFixture[str], database: Path, asked: str) -> None:
    (found,) = listed(capsys, "--database", str(database), *asked.split())
    assert found["request_id"] == "req_failed"


def test_a_configuration_leads_to_its_file(capsys: pytest.CaptureFixture[str], database: Path) -> None:
    config = database.parent / "mgw.yaml"
    config.write_text(f"hooks: {{sqlite: {{path: {database}}}}}")
    for arguments in ([str(config)], ["-c", str(config)]):
        assert len(listed(capsys, *arguments, "--client", "team")) == 1


def test_an_id_shows_every_field(capsys: pytest.CaptureFixture[str], database: Path) -> None:
    _, out, _ = run(capsys, "--database", str(database), "--request-id", "req_failed")
    shown = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert shown["error"] == "overloaded"
    assert shown["dropped_fields"] == "logit_bias"
    known = [name for name in UsageEvent.__struct_fields__ if name in shown]
    assert list(shown) == known


def test_a_table_and_csv_have_a_row_for_each(capsys: pytest.CaptureFixture[str], database: Path) -> None:
    _, out, _ = run(capsys, "--database", str(database), "--limit", "3")
    assert [line.split()[-1] for line in out.splitlines()] == ["request_id", "req_0", "req_1", "req_2"]
    _, out, _ = run(capsys, "--database", str(database), "--client", "team", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert tuple(row) == UsageEvent.__struct_fields__
    assert row["dropped_fields"] == '["logit_bias"]'


def test_where_there_is_nothing_it_says_so(capsys: pytest.CaptureFixture[str], database: Path) -> None:
    assert run(capsys, "--database", str(database), "--client", "nobody") == (0, "", "no such requests\n")
    assert run(capsys, "--database", str(database), "--client", "nobody", "--json") == (0, "", "")


def test_of_a_gateway_it_reads_as_many_pages_as_it_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, str]] = []

    def ask(_: GatewayQuery, path: str, parameters: dict[str, str]) -> dict[str, Any]:  # Any: JSON
        assert path == "/v1/dashboard/requests"
        asked.append(parameters)
        page = int(parameters.get("cursor", "0"))
        size = min(int(parameters["limit"]), 500)
        rows = [{"request_id": f"req_{page + number}"} for number in range(size)]
        return {"in_progress": [], "requests": rows, "next": str(page + size)}

    monkeypatch.setattr(GatewayQuery, "ask", ask)
    found = listed(capsys, "gateway.example:8787", "--client", "team", "--limit", "1100")
    assert [row["request_id"] for row in found] == [f"req_{number}" for number in range(1100)]
    client = {"client": "team"}
    assert asked == [
        {**client, "limit": "500"},
        {**client, "limit": "500", "cursor": "500"},
        {**client, "limit": "100", "cursor": "1000"},
    ]


def test_two_places_are_one_too_many(capsys: pytest.CaptureFixture[str], database: Path) -> None:
    for more in (["--url", "http://localhost"], ["mgw.yaml"], ["localhost:8787"]):
        status, _, err = run(capsys, "--database", str(database), *more)
        assert (status, err.endswith("name only one\n")) == (2, True)


def test_a_file_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, _, err = run(capsys, "--database", str(tmp_path / "no.db"))
    assert (status, "does not exist yet" in err) == (1, True)


@pytest.mark.parametrize("wrong", ["--status failed", "--limit 0", "--limit many", "--since never"])
def test_a_wrong_value_says_what_is_expected(capsys: pytest.CaptureFixture[str], wrong: str) -> None:
    with pytest.raises(SystemExit) as ended:
        run(capsys, *wrong.split())
    assert ended.value.code == 2
    assert "expected" in capsys.readouterr().err
