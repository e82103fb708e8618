"""The simulator is an independent witness: it shares no code with the gateway."""

import ast
from pathlib import Path

import mgw_sim


def _imported(path: Path) -> set[str]:
    """The modules that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, path
            found.add(node.module or "")
    return found


def test_it_imports_nothing_of_the_gateway() -> None:
    [folder] = mgw_sim.__path__
    files = sorted(Path(folder).rglob("*.py"))
    assert len(files) > 40
    assert "mgw" not in {name.partition(".")[0] for path in files for name in _imported(path)}
