"""Ten minutes with an identity provider that is away, slow or wrong, as docs/identity.rst describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
import yaml

from mgw.identity.key_refresh import WAIT_SECONDS
from mgw.nouns.token_flaw import TokenFlaw
from tests.support.outages import FAILED_FOR_ALERT, OUTAGES, ROTATES, Seen, rows, table

ROOT: Final = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def found() -> dict[str, Seen]:
    return dict(rows())


@pytest.mark.parametrize("name", [name for name in OUTAGES if name != ROTATES])
def test_whose_key_is_known_does_not_notice(found: dict[str, Seen], name: str) -> None:
    seen = found[name]
    assert (seen.known.statuses, seen.known.longest) == ({200}, 0.0)


def test_a_key_that_was_withdrawn_opens_nothing_after_the_next_fetch(found: dict[str, Seen]) -> None:
    seen = found[ROTATES]
    assert (seen.known.statuses, seen.rotated.statuses) == ({200, 401}, {200})
    assert seen.flaws == {("corp", TokenFlaw.UNKNOWN_KEY)}
    assert seen.failed == 0


@pytest.mark.parametrize("name", OUTAGES)
def test_nobody_waits_long_and_all_is_well_a_minute_later(found: dict[str, Seen], name: str) -> None:
    seen = found[name]
    assert seen.later.statuses == {200}
    for requests in (seen.known, seen.rotated, seen.first):
        assert requests.longest <= WAIT_SECONDS
        assert len(requests.statuses & {401, 503}) <= 1
    if seen.failed:
        assert (seen.rotated.statuses, seen.first.statuses) == ({401}, {503})
        assert seen.flaws == {("corp", TokenFlaw.UNKNOWN_KEY), ("corp", TokenFlaw.KEYS_UNAVAILABLE)}
        assert seen.failed > FAILED_FOR_ALERT, "the alert"
        assert 10 <= len([line for line in seen.log if "could not be fetched" in line]) <= 11, "once a minute"


def test_the_alert_is_the_one_that_the_table_names() -> None:
    rules = yaml.safe_load((ROOT / "etc" / "prometheus-alerts.yaml").read_text(encoding="utf-8"))
    found = [rule for group in rules["groups"] for rule in group["rules"]]
    (alert,) = [rule["expr"] for rule in found if rule.get("alert") == "MgwIssuerKeysFailing"]
    assert alert == f'increase(mgw_jwks_fetches_total{{result="failed"}}[15m]) > {FAILED_FOR_ALERT}'


def test_the_page_has_the_table(found: dict[str, Seen]) -> None:
    page = (ROOT / "docs" / "identity.rst").read_text(encoding="utf-8")
    wanted = table(found.items())
    assert wanted in page, f"put this into docs/identity.rst:\n\n{wanted}"
