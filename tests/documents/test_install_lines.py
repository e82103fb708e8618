"""What readers are to install is this project's distribution: on PyPI, ``mgw`` is somebody else's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from mgw import DISTRIBUTION
from mgw.config.extras import pip_install
from tests.support.install_lines import ROOT, mistakes_in, named_in, tracked_texts
from tools.release_trial import EXTRAS as TRIED

HERE: Final = str(Path(__file__).resolve().relative_to(ROOT))
NAME: Final = "mgw-gateway"
SOME: Final = {"redis", "otlp"}


@pytest.fixture(scope="module")
def declared() -> dict[str, Any]:  # Any: what setup() is given
    """What ``setup.py`` says of the distribution."""
    said: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("setuptools.setup", lambda **given: said.update(given))
        path = ROOT / "setup.py"
        exec(compile(path.read_text(encoding="utf-8"), path, "exec"), {"__file__": str(path)})
    return said


def test_the_distribution_has_the_name_that_the_code_tells(declared: dict[str, Any]) -> None:
    assert declared["name"] == DISTRIBUTION == NAME


def test_no_text_tells_anybody_to_install_something_else(declared: dict[str, Any]) -> None:
    extras, found, lines = set(declared["extras_require"]), [], 0
    for name, text in tracked_texts().items():
        if name != HERE:
            lines += sum(1 for _ in named_in(text))
            found += [f"{name}: {wrong}" for wrong in mistakes_in(text, NAME, extras)]
    assert found == []
    assert lines > 15


def test_every_extra_that_is_packaged_or_tried_is_there(declared: dict[str, Any]) -> None:
    rules = (ROOT / "debian/rules").read_text(encoding="utf-8")
    packaged = set(re.findall(r"--extras (\w+)", rules))
    assert packaged
    assert packaged == set(TRIED.split(","))
    assert packaged <= set(declared["extras_require"])


def test_the_command_that_messages_show_is_one_for_a_shell() -> None:
    """Unquoted, zsh takes the brackets for a pattern."""
    assert pip_install("redis") == "pip install 'mgw-gateway[redis]'"


@pytest.mark.parametrize(
    "text",
    [
        "pip install mgw",
        "pip install 'mgw[redis]'",
        "``pip install -U\n    mgw[redis]``",
        "# needs pip install\n# mgw[redis], and more",
        "pip install \\\n    --constraint constraints.txt mgw",
        "python -m pip install mgw==0.4.0",
        "pip install MGW_gatewy",
        "pip install 'mgw-gateway[rediss]'",
        "pip install 'mgw-gateway[redis,dashbord]'",
        "pip install '.[dashbord]'",
        "$(PIP) -c constraints.txt '.[benches]'",
        "pip install dist/mgw-0.4.0-py3-none-any.whl",
        "pip install hiredis mgw",
        "default true if mgw[redis] is installed",
        "dist/mgw-VERSION.tar.gz",
        "<code>pip install mgw</code>",
    ],
)
def test_what_would_bring_a_stranger_is_found(text: str) -> None:
    assert mistakes_in(text, NAME, SOME)


@pytest.mark.parametrize(
    "text",
    [
        "pip install mgw-gateway",
        "pip install 'mgw-gateway[redis]'",
        "``pip install\n    'mgw-gateway[redis,otlp]'``",
        "pip install .",
        "pip install '.[redis]'",
        "$(PIP) -c constraints.txt '.[otlp]'",
        "pip install dist/mgw_gateway-0.4.0-py3-none-any.whl",
        "pip install bpe-openai\nmgw run",
        "pip install -r mgw-0.4.0.requirements.txt mgw_gateway",
        "pip install {TOKENIZER}",
        "pip uninstall mgw",
    ],
)
def test_what_is_ours_or_plainly_somebody_elses_is_fine(text: str) -> None:
    assert mistakes_in(text, NAME, SOME) == []
