"""The dashboard's page: what its strict policy demands of the files, and what keeps them readable."""

from __future__ import annotations

import re
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "mgw" / "dashboard" / "static"
VENDOR = STATIC / "vendor"
PAGES = sorted(STATIC.glob("*.html"))
STYLES = sorted((STATIC / "css").glob("*.css"))
MODULES = sorted((STATIC / "js").rglob("*.js"))
OUR_MODULES = {path.resolve() for path in MODULES}
OURS = [*PAGES, *STYLES, *MODULES, STATIC / "icon.svg"]

MAX_LINES = 300
IMPORT = re.compile(r"""(?:\bfrom|\bimport)\s*\(?\s*"([^"\n]+)\"""")
ADDRESS = re.compile(r"(?:https?:)?//[\w.-]+\.\w+")
NAMESPACE = "http://www.w3.org/2000/svg"
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|cssText"
)


class Page(HTMLParser):
    """What a page refers to, and what a strict policy forbids."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.references: list[str] = []
        self.forbidden: list[str] = []
        self._in_script = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note references, and inline scripts and styles."""
        for name, value in attrs:
            if name in {"src", "href"}:
                self.references.append(value or "")
            if name == "style" or name.startswith("on"):
                self.forbidden.append(f"{tag} {name}")
        if tag == "style":
            self.forbidden.append(tag)
        self._in_script = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        """Leave a script."""
        self._in_script = False

    def handle_data(self, data: str) -> None:
        """Note a script's text."""
        if self._in_script and data.strip():
            self.forbidden.append(data)


def by_path(path: Path) -> str:
    """Return the name of a test's case."""
    return path.relative_to(STATIC).as_posix()


def imports(module: Path) -> list[Path]:
    """Return the files that a module imports."""
    return [(module.parent / name).resolve() for name in IMPORT.findall(module.read_text(encoding="utf-8"))]


def assets(page: Path) -> list[Path]:
    """Return the files that a page refers to."""
    names = [name for name in Page(page).references if not name.startswith("#")]
    return [STATIC / PurePosixPath(name).relative_to("ui/assets") for name in names]


def test_there_are_the_two_pages() -> None:
    assert [path.name for path in PAGES] == ["index.html", "sign-in.html"]
    assert len(MODULES) > 20


@pytest.mark.parametrize("page", PAGES, ids=by_path)
def test_a_page_has_no_script_or_style_of_its_own(page: Path) -> None:
    assert Page(page).forbidden == []


@pytest.mark.parametrize("page", PAGES, ids=by_path)
def test_what_a_page_refers_to_is_there(page: Path) -> None:
    assert [path for path in assets(page) if not path.is_file()] == []


@pytest.mark.parametrize("module", MODULES, ids=by_path)
def test_what_a_module_imports_is_there(module: Path) -> None:
    assert [path for path in imports(module) if not path.is_file()] == []


def test_every_module_and_style_is_used() -> None:
    used = {path.resolve() for page in PAGES for path in assets(page)}
    waiting = [path for path in used if path in OUR_MODULES]
    while waiting:
        new = set(imports(waiting.pop())) - used
        used |= new
        waiting += new & OUR_MODULES
    assert {path.resolve() for path in (*STYLES, *MODULES)} - used == set()


@pytest.mark.parametrize("path", OURS, ids=by_path)
def test_nothing_comes_from_elsewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace(NAMESPACE, "")
    assert ADDRESS.findall(text) == []
    assert "@import" not in text
    assert "url(" not in text


@pytest.mark.parametrize("module", MODULES, ids=by_path)
def test_a_module_makes_no_markup_from_text(module: Path) -> None:
    assert MARKUP.findall(module.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", [*MODULES, *STYLES], ids=by_path)
def test_a_file_is_short_and_says_what_it_is_for(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MAX_LINES
    assert lines[0].startswith(("/**", "/*", "//"))


def test_what_is_not_ours_has_its_licence_and_is_as_its_readme_says() -> None:
    for folder in VENDOR.iterdir():
        said = dict(
            re.findall(r"^([0-9a-f]{64})  (\S+)$", (folder / "README").read_text(encoding="utf-8"), re.M)
        )
        files = {path.name for path in folder.iterdir()} - {"README"}
        assert set(said.values()) == files
        assert "LICENSE" in files
        for digest, name in said.items():
            assert sha256((folder / name).read_bytes()).hexdigest() == digest
