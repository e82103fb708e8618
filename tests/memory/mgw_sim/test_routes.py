"""The routes: every path of the SDKs has one, each answers its own vendor and no other.

Google's SDK does not spell its paths out: ``tests/sockets/test_simulator_gemini.py`` has it send them.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import anthropic
import openai
import pytest

from mgw_sim.api import Family
from mgw_sim.http.router import BodyKind, Route
from mgw_sim.routes import ROUTES
from tests.memory.mgw_sim.client import CLAUDE, GOOGLE, KEYS, Client
from tools.sdk_inventory import sent_paths

_BY_FAMILY: Final = {Family.OPENAI: KEYS, Family.ANTHROPIC: CLAUDE, Family.GEMINI: GOOGLE}
_FAMILIES: Final = tuple(_BY_FAMILY)
"""The vendors themselves; the clouds have a handful of rows each."""


def _sdk_paths(package: Path) -> Iterator[tuple[str, str]]:
    """Method and path of each call that the resources of an SDK make, read from their source."""
    for file in sorted((package / "resources").rglob("*.py")):
        for sent in sent_paths(ast.parse(file.read_text())):
            method, _, path = sent.partition(" ")
            yield method, path


@pytest.mark.parametrize(
    ("family", "package", "prefix", "least"),
    [(Family.OPENAI, openai, "/v1", 370), (Family.ANTHROPIC, anthropic, "", 260)],
    ids=["openai", "anthropic"],
)
def test_every_path_of_the_sdk_has_its_row(family: Family, package: object, prefix: str, least: int) -> None:
    file = getattr(package, "__file__", None)
    assert isinstance(file, str)
    rows = {(row.method, row.template.replace("{...}", "{}")) for row in ROUTES if row.family is family}
    wanted = {(method, prefix + path) for method, path in _sdk_paths(Path(file).parent)}
    assert len(wanted) >= least
    assert wanted - rows == set()


def _goes_well(row: Route) -> bool:
    """Whether a row answers an empty body, or says what it wants beyond that."""
    client = Client(_BY_FAMILY[row.family])
    client.recorder.lenient = True
    path = row.template.replace("{...}", "known").replace("{}", "known")
    beta = "assistants=v2, chatkit_beta=v1"
    body: dict[str, str] | None = None if row.method == "GET" else {}
    answer = client.ask(row.method, f"{path}?id=known", body, openai_beta=beta)
    return answer.status in {200, 201, 202} or (row.method in {"POST", "PUT"} and answer.status == 400)


@pytest.mark.parametrize("family", _FAMILIES, ids=[family.value for family in _FAMILIES])
def test_every_row_answers_its_own_vendor(family: Family) -> None:
    rows = [
        row for row in ROUTES if row.family is family and row.body_kind is BodyKind.ANY and not row.is_upload
    ]
    assert len(rows) > 100
    assert [row for row in rows if not _goes_well(row)] == []


def _refuses(row: Route, headers: tuple[tuple[bytes, bytes], ...]) -> bool:
    path = row.template.replace("{...}", "known").replace("{}", "known")
    return Client(headers).ask(row.method, path, {}).status == 401


_FOREIGN: Final = {
    Family.OPENAI: ((b"x-api-key", b"k"),),
    Family.ANTHROPIC: ((b"x-goog-api-key", b"k"), (b"anthropic-version", b"2023-06-01")),
    Family.GEMINI: ((b"x-api-key", b"k"), (b"x-goog-api-client", b"c")),
}
"""The sign of the family where it has one, with the carrier of another one's credential."""


@pytest.mark.parametrize("family", _FAMILIES, ids=[family.value for family in _FAMILIES])
def test_every_row_refuses_the_carrier_of_another_vendor(family: Family) -> None:
    rows = [row for row in ROUTES if row.family is family]
    assert [row for row in rows if not _refuses(row, _FOREIGN[family])] == []
