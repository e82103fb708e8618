"""Time zones and the ends of keys: a date is valid through its last instant, on days of clock changes too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.config.time_zones import parse_expiry, zone_of

ONE = "providers: {main: {kind: openai}}\n"


@pytest.mark.parametrize(
    ("day", "zone", "ends"),
    [
        ("2027-03-31", "UTC", "2027-04-01T00:00:00+00:00"),
        ("2027-03-31", "Europe/Berlin", "2027-04-01T00:00:00+02:00"),
        ("2027-03-28", "Europe/Berlin", "2027-03-29T00:00:00+02:00"),  # a day of 23 hours
        ("2027-10-31", "Europe/Berlin", "2027-11-01T00:00:00+01:00"),  # one of 25
        ("2018-11-03", "America/Sao_Paulo", "2018-11-04T01:00:00-02:00"),  # the next has no midnight
        ("2018-02-17", "America/Sao_Paulo", "2018-02-18T00:00:00-03:00"),  # its last hour comes twice
        ("2011-12-29", "Pacific/Apia", "2011-12-31T00:00:00+14:00"),  # the next day was left out
        ("2028-02-28", "Asia/Kathmandu", "2028-02-29T00:00:00+05:45"),
    ],
)
def test_a_date_is_valid_through_that_day_in_its_zone(day: str, zone: str, ends: str) -> None:
    assert parse_expiry(day).ends(zone_of(zone)) == datetime.fromisoformat(ends).timestamp()


@given(
    seconds=st.integers(946_684_800, 253_300_000_000),
    minutes=st.integers(-23 * 60, 23 * 60),
    between=st.sampled_from("Tt "),
)
def test_a_moment_of_rfc_3339_is_that_moment_whatever_the_zone(
    seconds: int, minutes: int, between: str
) -> None:
    moment = datetime.fromtimestamp(seconds, timezone(timedelta(minutes=minutes)))
    for text in (moment.isoformat(sep=between), moment.astimezone(UTC).strftime("%Y-%m-%dT%XZ")):
        assert parse_expiry(text).ends(zone_of("Asia/Tokyo")) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("2027-02-30", "2027-13-01", "9999-12-31", "27-03-31", "20270331", "2027-W13", "tomorrow", "90d"),
        *("2027-03-31T18:00:00", "2027-03-31T18:00Z", "2027-03-31T25:00:00Z", "2027-03-31T18:00:00+0200"),
        *("0001-01-01", "0001-01-01T00:00:00+14:00"),
    ],
)
def test_anything_else_is_no_end(text: str) -> None:
    with pytest.raises(ValueError, match="expected a date such as 2027-03-31"):
        parse_expiry(text)


@pytest.mark.parametrize(
    "written", ["2027-03-31", "'2027-03-31'", "2027-03-31T18:00:00Z", "2027-03-31 18:00:00+02:00"]
)
def test_a_file_may_write_it_with_quotes_or_without(written: str) -> None:
    text = f"{ONE}edge_auth: {{keys: [{{name: a, key: a-long-key, expires: {written}}}]}}\n"
    (key,) = parse(text, "mgw.yaml", {}).edge_auth.named
    assert key.expires is not None
    assert key.expires.text == written.strip("'")


@pytest.mark.parametrize(
    ("zone", "said"),
    [
        ("Europe/Berlim", "the system knows no time zone 'Europe/Berlim', did you mean Europe/Berlin?"),
        ("Europe", "the system knows no time zone 'Europe'"),
        ("../etc/passwd", "expected the name of a time zone such as Europe/Berlin"),
        ("A/../B", "the system knows no time zone 'A/../B'"),
        ("+02:00", "expected the name of a time zone such as Europe/Berlin"),
    ],
)
def test_an_unknown_time_zone_is_a_mistake(zone: str, said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse(f"{ONE}edge_auth: {{timezone: '{zone}'}}\n", "mgw.yaml", {})
    assert str(refusal.value).startswith(f"mgw.yaml:2: edge_auth.timezone: {said}")
