"""The reference pages list what the code has: settings, fields of usage events, metrics, causes of errors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from twisted.internet.defer import Deferred

from mgw.config.schema import schema_text
from mgw.ops.metrics import Metrics
from mgw.usage.event import UsageEvent
from mgw.workers.worker_state import WorkersState
from tests.support.deferreds import result_of
from tests.support.monitoring import fleet_tables, labels_by_name, metrics_with_everything, page_of

ROOT: Final = Path(__file__).resolve().parents[2]
Schema = dict[str, Any]  # Any: a JSON schema, as it was decoded
COMMANDS: Final = ("mgw run", "mgw check", "mgw sim", "mgw schema", "mgw example", "mgw --help")
TARGETS: Final = ("run", "check", "test", "soak", "bench-shapes", "help")


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def settings(schema: Schema, definitions: Schema, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every setting that is no block, by its path; names that the operator chooses are left out."""
    for name, setting in schema.get("properties", {}).items():
        blocks = [block for shape in (setting, *setting.get("anyOf", ())) for block in within(shape)]
        for block in blocks:
            yield from settings(definitions[block], definitions, (*above, name))
        if not blocks:
            yield from settings_of(setting, (*above, name))


def settings_of(setting: Schema, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    inside = [name for shape in setting.get("anyOf", ()) for name in shape.get("properties", ())]
    yield from ((*path, name) for name in inside) if inside else [path]


def within(shape: Schema) -> Iterator[str]:
    for place in (shape, shape.get("items"), shape.get("additionalProperties")):
        if isinstance(place, dict) and "$ref" in place:
            yield place["$ref"].rpartition("/")[2]


def every_setting() -> list[tuple[str, ...]]:
    schema = json.loads(schema_text())
    return list(settings(schema, schema["$defs"]))


# The schema has the neutral spellings too; the page explains them once.
NEUTRAL: Final = {"alpha", "beta", "gamma", "google"}


TIERS = ("tiers", "service_tiers")


@pytest.mark.parametrize("path", every_setting(), ids=".".join)
def test_the_page_on_configuration_has_every_setting(path: tuple[str, ...]) -> None:
    if path[-1].removesuffix("_dialect") in NEUTRAL:
        return
    if path[:2] == ("prices", "rows") and path[-1] not in TIERS:  # tiers have the prices of a row
        path = tuple(step for step in path if step not in TIERS)
    names = {".".join(path[start:]) for start in range(len(path))}
    assert any(f"``{name}``" in page("docs/configuration.rst") for name in names)


@pytest.mark.parametrize("path", every_setting(), ids=".".join)
def test_the_example_has_every_setting(path: tuple[str, ...]) -> None:
    if path[-1].removesuffix("_dialect") not in NEUTRAL:
        assert re.search(rf"\b{re.escape(path[-1])}:", page("etc/mgw.yaml"))


def test_the_page_on_models_has_every_column() -> None:
    columns = [path[2] for path in every_setting() if path[:2] == ("translation", "models")]
    assert columns
    assert not [name for name in columns if f"``{name}``" not in page("docs/models.rst")]


def test_the_page_on_usage_events_has_every_field_in_order() -> None:
    meanings, names = page("docs/usage-events.rst").split("\nNames elsewhere\n")
    for table in (meanings, names):
        assert re.findall(r"^   \* - ``(\w+)``$", table, re.MULTILINE) == list(UsageEvent.__struct_fields__)


def test_the_page_on_metrics_has_every_metric_and_no_other() -> None:
    metrics = Metrics(frozenset(), workers=WorkersState(), fleet=fleet_tables)
    _, parts = result_of(Deferred.fromCoroutine(metrics.render(None)))
    named = set(re.findall(r"^# TYPE (mgw_\w+)", b"".join(parts).decode(), re.MULTILINE))
    text = page("docs/metrics.rst")
    terms = re.findall(r"^``mgw_.*", text, re.MULTILINE)
    assert set(re.findall(r"``(mgw_\w+)", "\n".join(terms))) == named


def test_the_page_on_metrics_has_the_labels_of_each(tmp_path: Path) -> None:
    found = labels_by_name(page_of(metrics_with_everything(tmp_path)))
    terms = "\n".join(re.findall(r"^``mgw_.*", page("docs/metrics.rst"), re.MULTILINE))
    for name, labels in re.findall(r"``(mgw_\w+)(?:\{([^}]*)\})?``", terms):
        of_name = found.get(name, found.get(f"{name}_count", frozenset()))
        assert of_name == {label.strip() for label in labels.split(",") if label}, name


def test_the_readme_names_the_commands() -> None:
    readme = page("README.rst")
    assert not [command for command in COMMANDS if command not in readme]
    assert not [target for target in TARGETS if f"make {target}" not in readme]


def test_words_around_the_values_of_a_setting_are_not_shown_as_values() -> None:
    assert "or a grant that begins with ``urn:``; default" in " ".join(page("docs/configuration.rst").split())
