"""What ``make test-newest`` tells: what the newest SDKs have that the pinned ones have not."""

from __future__ import annotations

from pathlib import Path

from tools.newest import ROOT, differences, followers, report, versions
from tools.sdk_inventory import Inventory, inventory

RESOURCE = """
class Files:
    @cached_property
    def raw(self): ...

    def retrieve(self, file_id): return self._get(path_template("/files/{file_id}", file_id=file_id))

    def list(self): return self._get_api_list("/files", page=Page, method="post")

    def _hidden(self): ...

class AsyncFiles:
    def later(self): ...
"""
MODEL = 'Model: TypeAlias = Union[str, Literal["large-1", "small-1"]]'
EVENT = """
class Started(BaseModel):
    type: Literal["run.started"]
    status: Literal["queued"]

class Ended(BaseModel):
    event_type: Annotated[Literal["run.ended"], Field()]
"""
GENERATED = """
class Interactions(BaseSDK):
    def cancel(self, id):
        return self.request(
            method="POST",
            path="/{api_version}/interactions/{id}/cancel",
        )
"""
FORMATTED = """
_LIVE_PATH = 'files/live'

class Files(BaseModule):
    def get(self, name):
        path = 'files/{file}'.format_map(url)
        return self.join(path = '/')
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def written(folder: Path) -> Path:
    files = {"resources/beta/files.py": RESOURCE, "types/chat_model.py": MODEL, "types/event.py": EVENT}
    return write(folder, {**files, "tests/test_files.py": RESOURCE.replace("list", "never")})


def test_what_an_sdk_offers_is_read_from_its_source(tmp_path: Path) -> None:
    found = inventory(written(tmp_path))
    assert found.methods == {"beta.files.retrieve", "beta.files.list"}
    assert found.paths == {"GET /files/{}", "POST /files"}
    assert found.models == {"large-1", "small-1"}
    assert found.kinds == {"run.started", "run.ended"}


def test_googles_sdk_writes_its_paths_in_two_ways(tmp_path: Path) -> None:
    found = inventory(write(tmp_path, {"_gaos/interactions.py": GENERATED, "files.py": FORMATTED}))
    assert found.methods == {"interactions.cancel", "files.get"}
    assert found.paths == {"POST /interactions/{}/cancel", "/files/{}", "/files/live"}


def test_each_thing_that_is_new_or_gone_has_its_line() -> None:
    empty = frozenset[str]()
    before = Inventory(frozenset({"files.list"}), empty, frozenset({"m-1"}), empty)
    after = Inventory(frozenset({"files.list", "files.get"}), empty, frozenset({"m-2"}), empty)
    assert list(differences(before, after)) == [
        "    new methods",
        "        files.get",
        "    new models",
        "        m-2",
        "    removed models",
        "        m-1",
    ]
    assert list(differences(after, after)) == ["    nothing is new"]


def packages(folder: Path, openai: str, ruff: str) -> Path:
    written(folder / "openai")
    libraries = {"openai": openai, "Ruff": ruff, "attrs": "1.0"}
    files = {
        f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        for name, version in libraries.items()
    }
    return write(folder, files)


def test_the_versions_stand_beside_what_they_bring(tmp_path: Path) -> None:
    pinned, newest = packages(tmp_path / "a", "3.1.0", "0.1"), packages(tmp_path / "b", "3.2.0", "0.2")
    write(newest, {"openai/types/chat_model.py": MODEL.replace("small-1", "small-2")})
    assert versions(pinned) == {"openai": "3.1.0", "ruff": "0.1", "attrs": "1.0"}
    assert list(report(pinned, newest)) == [
        "openai 3.1.0 -> 3.2.0",
        "    new models",
        "        small-2",
        "    removed models",
        "        small-1",
        "anthropic not installed",
        "    nothing is new",
        "google-genai not installed",
        "    nothing is new",
        "other libraries",
        "    ruff 0.1 -> 0.2",
    ]


def test_the_tests_that_use_an_sdk_run_with_the_newest() -> None:
    names = {str(file.relative_to(ROOT)) for file in followers(ROOT / "tests")}
    assert {
        "tests/pure/dialects/test_accounting.py",
        "tests/pure/dialects/test_models.py",
        "tests/memory/mgw_sim/test_routes.py",
        "tests/sockets/test_sdk_surface.py",
        "tests/sockets/test_realtime_sdks.py",
    } <= names
    assert "tests/pure/wire/test_nested_strings.py" not in names
