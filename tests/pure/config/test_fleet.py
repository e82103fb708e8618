"""The settings ``workers`` and ``fleet``: what is read, what is refused, and that no password shows."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.app.check import warnings_of_workers
from mgw.config import fleet
from mgw.config.fleet import RedisAddress, has_redis_package, parse_redis
from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.config.secrets import secrets_of
from mgw.config.settings import Config
from mgw.nouns.secret import Secret

ONE = "providers: {main: {kind: openai}}\n"
FORM = "expected redis://host:port/db, rediss:// for TLS, or unix:///path?db=0"
ENCODED = "in user and password, percent-encode everything but letters, digits and -._~"
PLACEHOLDER = "placeholder, and placeholders are not filled in"


def configured(settings: str, **environ: str) -> Config:
    return parse(f"{ONE}{settings}", "f", environ)


def problem(settings: str, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        configured(settings, **environ)
    (found,) = caught.value.problems
    return f"{found.line}: {found.path}: {found.message}"


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("redis://redis.example", RedisAddress(False, "redis.example", 6379)),
        ("REDIS://Redis.Example:7000/", RedisAddress(False, "redis.example", 7000)),
        ("rediss://10.0.0.1:6380/3", RedisAddress(True, "10.0.0.1", 6380, None, 3)),
        ("redis://[2001:DB8::1]/15", RedisAddress(False, "2001:db8::1", 6379, None, 15)),
        ("redis://:p%40ss@h", RedisAddress(False, "h", 6379, None, 0, None, Secret("p@ss"))),
        ("redis://me:a:b@h/1", RedisAddress(False, "h", 6379, None, 1, "me", Secret("a:b"))),
        ("unix:///run/redis.sock", RedisAddress(False, "", 0, "/run/redis.sock")),
        ("unix:///run/a%20b.sock?db=2", RedisAddress(False, "", 0, "/run/a b.sock", 2)),
        ("unix://me:x@/run/r", RedisAddress(False, "", 0, "/run/r", 0, "me", Secret("x"))),
    ],
)  # fmt: skip
def test_an_address_is_taken_apart(written: str, address: RedisAddress) -> None:
    assert parse_redis(written) == address


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("redis.canary:6379", FORM),
        ("http://redis.canary:6379", FORM),
        ("redis:canary:1", FORM),
        ("redis://canary:0", "with a port from 1 to 65535"),
        ("redis://canary:65536", "with a port from 1 to 65535"),
        ("redis://canary:80/path", "where db is the number of a database"),
        ("redis://canary:80/1/2", "where db is the number of a database"),
        ("redis://canary:80/1?db=2", "where db is the number of a database"),
        ("redis://u:can#ary@h:80", ENCODED),
        ("redis://u:can@ary@h:80", ENCODED),
        ("redis://u:can ary@h:80", ENCODED),
        ("redis://u:cänary@h:80", ENCODED),
        ("redis://u:canary%zz@h:80", ENCODED),
        ("redis://canary@h:80", "a user name requires a password"),
        ("redis://canary:@h:80", "a user name requires a password"),
        ("redis://:@canary:80", "the password is empty"),
        ("redis://u:canary%0a@h:80", "contains control characters"),
        ("redis://u:$CANARY@h:80", f"the password is a {PLACEHOLDER}"),
        ("${CANARY}", f"a {PLACEHOLDER}: to read the address from the environment, name"),
        ("redis://[canary]:80", FORM),
        ("redis://-canary:80", "expected a host name or an IP address after ://"),
        ("unix://canary/path", FORM),
        ("unix:///canary/", FORM),
        ("unix:///canary?db=x", FORM),
        ("unix:///canary%00", FORM),
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_without_being_quoted(written: str, said: str) -> None:
    found = problem(f"fleet: {{redis: {{url: {json.dumps(written)}}}}}")
    assert found.startswith("2: fleet.redis.url: ")
    assert said in found
    assert "canary" not in found.lower()
    by_name = problem("fleet: {redis: {url_env: WHERE}}", WHERE=written)
    assert by_name.startswith("2: fleet.redis.url_env: the address in the environment variable WHERE: ")
    assert said in by_name
    assert "canary" not in by_name.lower()


def test_the_environment_can_hold_it_and_its_password_is_a_secret() -> None:
    config = configured("fleet: {redis: {url_env: WHERE}}", WHERE="rediss://me:canary-1@h:1")
    redis = config.fleet.redis
    assert redis is not None
    assert redis.url == RedisAddress(True, "h", 1, None, 0, "me", Secret("canary-1"))
    assert redis.prefix == "mgw:"
    assert secrets_of(config) == [Secret("canary-1")]
    assert "canary" not in repr(config)


@pytest.mark.parametrize(
    ("settings", "environ", "said"),
    [
        ("url_env: WHERE", {}, "redis.url_env: the environment variable WHERE is not set"),
        ("url_env: WHERE", {"WHERE": ""}, "redis.url_env: the environment variable WHERE is empty"),
        ("url: 5", {}, "redis.url: expected an address such as redis://redis.example:6379/0, found"),
        ('url_env: "redis://u:canary@h"', {}, "redis.url_env: expected the name of an environment variable"),
        ("prefix: a", {}, "redis: missing, expected url or url_env"),
        ("url: 'redis://h', prefix: ''", {}, "redis.prefix: expected at most 64 letters"),
    ],
)
def test_what_is_wrong_with_the_settings_is_told(settings: str, environ: dict[str, str], said: str) -> None:
    found = problem(f"fleet: {{redis: {{{settings}}}}}", **environ)
    assert f"2: fleet.{said}" in found
    assert "canary" not in found


@given(password=st.text(min_size=1, max_size=20), wrong=st.sampled_from(["", "@", "/", ":x", "#", " "]))
def test_no_password_shows_whatever_is_wrong(password: str, wrong: str) -> None:
    text = json.dumps(f"redis://me:{wrong}sk-canary{password}{wrong}@h:1")
    try:
        shown = repr(configured(f"fleet: {{redis: {{url: {text}}}}}"))
    except ConfigError as error:
        shown = str(error) + repr(error.problems)
    assert "canary" not in shown


def test_redis_without_its_library_is_an_error_that_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert has_redis_package()
    monkeypatch.setattr(fleet, "REDIS_PACKAGE", "no_such_package_at_all")
    assert problem("fleet: {redis: {url: 'redis://h'}}") == (
        "2: fleet.redis: the library for Redis is not installed: pip install 'mgw-gateway[redis]'"
    )
    assert configured("fleet:").fleet.redis is None


@pytest.mark.parametrize(("written", "workers"), [("", None), ("workers: 3", 3), ("workers: auto", "auto")])
def test_workers_stay_as_they_are_written(written: str, workers: int | str | None) -> None:
    assert configured(written).workers == workers


def test_more_workers_than_cpus_or_connections_are_warned_about() -> None:
    shape = "providers: {{a: {{kind: openai, max_connections: 3}}, b: {{kind: openai}}}}\n{}"
    none, some, many, every = (
        parse(shape.format(text), "f", {}) for text in ("", "workers: 3", "workers: 4", "workers: auto")
    )
    assert warnings_of_workers(none, 1) == []
    assert warnings_of_workers(some, 3) == []
    assert warnings_of_workers(every, 3) == []
    few = "providers.a.max_connections: 3 is fewer than one connection for each of the 4 workers"
    assert warnings_of_workers(every, 4) == [few]
    assert warnings_of_workers(many, 2) == [
        "workers: 4, but the service may use only 2 CPUs",
        few,
    ]
