"""The dashboard and the alert rules use what the gateway exports, and say what to do."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.monitoring import (
    ALERTS,
    OF_SCRAPES,
    Expression,
    dashboard,
    expressions,
    labels_by_name,
    metrics_with_everything,
    page_of,
    rules,
)

PROMTOOL: Final = shutil.which("promtool")
RULES_TEST: Final = Path(__file__).with_name("prometheus-alerts.test.yaml")
_OF_PROMETHEUS: Final = {"up": frozenset[str]()}
"""What no scraped process exports itself."""
_METRIC: Final = re.compile(r"(?<![\w$:])((?:mgw_|process_|python_|job\w*:mgw_)[\w:]*|up\b)(?:\{([^}]*)\})?")
_GROUPING: Final = re.compile(r"\b(?:by|on|without|ignoring) \(([^)]*)\)")
WITH_PROMTOOL: Final = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, frozenset[str]]:
    """The labels by name of all that there is: what a gateway exports, and what rules record."""
    found = labels_by_name(page_of(metrics_with_everything(tmp_path_factory.mktemp("store"))))
    for rule in rules():
        if "record" in rule:
            found[rule["record"]] = frozenset(rule["record"].partition(":")[0].split("_"))
    return {**found, **_OF_PROMETHEUS}


@pytest.mark.parametrize("expression", expressions(), ids=lambda expression: expression.place)
def test_every_metric_and_label_in_use_is_exported(
    known: dict[str, frozenset[str]], expression: Expression
) -> None:
    used = _METRIC.findall(re.sub(r"\[[^\]]*\]", "", expression.text))
    assert used
    assert not [name for name, _ in used if name not in known]
    for name, matchers in used:
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        assert labels <= known[name] | OF_SCRAPES
    there = OF_SCRAPES.union(*(known[name] for name, _ in used))
    for group in _GROUPING.findall(expression.text):
        assert {label.strip() for label in group.split(",") if label.strip()} <= there
    assert set(expression.shown.split()) <= there


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_every_alert_says_what_it_means_and_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"info", "warning", "critical"}
    assert set(alert["annotations"]) == {"summary", "description", "action"}
    assert all(text.strip() for text in alert["annotations"].values())


def test_the_panels_have_ids_places_and_the_source_that_is_chosen() -> None:
    board = dashboard()
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
    rows = [panel["title"] for panel in panels if panel["type"] == "row"]
    assert rows == [
        "Overview",
        "Providers",
        "Clients",
        "Cost",
        "Realtime",
        "Sinks",
        "Process",
        "Workers and fleet",
    ]
    names = [variable["name"] for variable in board["templating"]["list"]]
    assert names == ["datasource", "instance", "provider", "client"]


@WITH_PROMTOOL
def test_prometheus_accepts_the_rules() -> None:
    subprocess.run(["promtool", "check", "rules", str(ALERTS)], check=True, capture_output=True, timeout=60)


@WITH_PROMTOOL
def test_the_alerts_fire_when_they_should_and_only_then() -> None:
    done = subprocess.run(
        ["promtool", "test", "rules", RULES_TEST.name],
        cwd=RULES_TEST.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case_in_the_test_of_the_rules() -> None:
    cases = RULES_TEST.read_text(encoding="utf-8")
    assert not [alert["alert"] for alert in alerts() if f'alertname="{alert["alert"]}"' not in cases]
