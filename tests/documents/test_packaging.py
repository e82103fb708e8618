"""What the wheel and the source archive hold; neither is built, only what setuptools would put into them."""

from __future__ import annotations

import subprocess
import sys
from email import message_from_string
from pathlib import Path

import pytest

from tests.support.waiting import WAIT_SECONDS

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = (
    "mgw.yaml",
    "mgw-demo.yaml",
    "mgw.schema.json",
    "prices.example.yaml",
    "deployment/haproxy.cfg",
    "deployment/Dockerfile",
    "deployment/helm/mgw/templates/deployment.yaml",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as the wheel gets it (``lib``), and the metadata (``mgw_gateway.egg-info``)."""
    folder = tmp_path_factory.mktemp("packaging")
    command = ["egg_info", f"--egg-base={folder}", "build_py", f"--build-lib={folder / 'lib'}"]
    subprocess.run(
        [sys.executable, "setup.py", "-q", *command],
        cwd=ROOT,
        capture_output=True,
        timeout=WAIT_SECONDS * 3,
        check=True,
    )
    return folder


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_wheel_holds_each_example(made: Path, name: str) -> None:
    assert (made / "lib/mgw/etc" / name).read_bytes() == (ROOT / "etc" / name).read_bytes()


def test_the_wheel_holds_every_module_and_the_plugin(made: Path) -> None:
    plugin = ROOT / "twisted/plugins/mgw_plugin.py"
    for file in (
        *(ROOT / "mgw").rglob("*.py"),
        *(ROOT / "mgw_sim").rglob("*.py"),
        ROOT / "mgw/py.typed",
        plugin,
    ):
        assert (made / "lib" / file.relative_to(ROOT)).is_file(), file


def test_the_wheel_holds_every_file_of_the_dashboard(made: Path) -> None:
    files = [path for path in (ROOT / "mgw/dashboard/static").rglob("*") if path.is_file()]
    assert len(files) > 40
    for file in files:
        assert (made / "lib" / file.relative_to(ROOT)).read_bytes() == file.read_bytes()


def test_the_source_archive_holds_what_a_build_and_a_reader_need(made: Path) -> None:
    listed = set((made / "mgw_gateway.egg-info/SOURCES.txt").read_text(encoding="utf-8").splitlines())
    wanted = {"CHANGELOG.rst", "CONTRIBUTING.rst", "LICENSE", "Makefile", "MANIFEST.in", "README.rst"}
    wanted |= {"constraints.txt", "pyproject.toml", "setup.py"}
    wanted |= {f"etc/{name}" for name in EXAMPLES}
    wanted |= {f"docs/{file.name}" for file in (ROOT / "docs").glob("*.rst")}
    wanted |= {
        "twisted/plugins/mgw_plugin.py",
        "tests/conftest.py",
        "bench/run.py",
        "docs/conf.py",
        "tools/site.py",
    }
    assert wanted <= listed
    assert not {name for name in listed if "dropin.cache" in name or "__pycache__" in name}


def test_the_metadata_says_whose_it_is_and_what_it_runs_on(made: Path) -> None:
    metadata = message_from_string((made / "mgw_gateway.egg-info/PKG-INFO").read_text(encoding="utf-8"))
    assert (metadata["Name"], metadata["Author"], metadata["License"]) == (
        "mgw-gateway",
        "the mgw authors",
        "MIT",
    )
    assert metadata["Requires-Python"] == ">=3.11"
    assert "Framework :: Twisted" in metadata.get_all("Classifier", [])
    assert "dashboard" in metadata.get_all("Provides-Extra", [])  # commands of earlier releases name it
    required, _, _ = (made / "mgw_gateway.egg-info/requires.txt").read_text(encoding="utf-8").partition("[")
    assert "itsdangerous" in required
    entry_points = (made / "mgw_gateway.egg-info/entry_points.txt").read_text(encoding="utf-8")
    assert "mgw = mgw.cli.main:main" in entry_points
