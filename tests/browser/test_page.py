"""The dashboard's page in a real browser, before a stub that shows it what is rare."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Run

SCENARIOS = (
    "sign_in",
    "live",
    "charts",
    "pace",
    "connection",
    "logins",
    "limits",
    "keyboard",
    "looks",
    "history",
    "requests_looks",
    "screens",
)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_page(run: Run, stub: str, name: str) -> None:
    run(name, stub)
