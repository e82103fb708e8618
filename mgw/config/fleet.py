"""Settings for several processes or hosts: ``workers`` and ``fleet``.

The address of Redis may hold a password: it is read once, and never shown.

Sources: the URI schemes ``redis`` and ``rediss`` as registered with IANA, RFC 3986 3.2.1 (user information).
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Annotated, Final, Literal
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct
from pydantic import PlainValidator, WithJsonSchema

from mgw.config.checks import REDIS_ADDRESS, checked_host, is_placeholder, text_like
from mgw.config.environment import LoadContext
from mgw.config.extras import pip_install
from mgw.config.field_types import Variable
from mgw.config.problems import Path
from mgw.config.quoting import quote
from mgw.config.settings_base import (
    Omittable,
    Settings,
    check_with,
    expect,
    parse_with,
    setting,
    wrong_type,
)
from mgw.nouns.secret import Secret

MAX_WORKERS: Final = 256
AUTO: Final = "auto"
REDIS_PORT: Final = 6379
REDIS_PACKAGE: Final = "hiredis"
REDIS_MISSING: Final = f"the library for Redis is not installed: {pip_install('redis')}"

_PREFIX: Final = re.compile(r"[A-Za-z0-9:._/{}-]{1,64}")
_BLANK: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME: Final = re.compile(r"(?:rediss?|unix)://", re.IGNORECASE)
_USER: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})+")
_DATABASE: Final = re.compile(r"[0-9]{1,5}")
_DATABASE_QUERY: Final = re.compile(r"db=[0-9]{1,5}")
_FORM: Final = (
    "expected redis://host:port/db, rediss:// for TLS, or unix:///path?db=0, with user:password@ before the "
    "host or the path if Redis requires it"
)
_ENCODED: Final = "in user and password, percent-encode everything but letters, digits and -._~"


class RedisAddress(Struct, frozen=True):
    """Where Redis is, and who we are to it."""

    secure: bool
    """Whether TLS is spoken."""
    host: str
    """A name or an IP address, the latter without brackets; empty for a UNIX socket."""
    port: int
    path: str | None = None
    """The path of a UNIX socket."""
    database: int = 0
    user: str | None = None
    """``None``: Redis' own default user."""
    password: Secret | None = None

    def __repr__(self) -> str:  # whoever mixes up the order writes a password as the host
        return "RedisAddress(…)"


def parse_redis(text: str) -> RedisAddress:
    """Read the address of a Redis.

    :raises ValueError: with a sentence that quotes nothing of it.
    """
    if is_placeholder(text):
        raise ValueError(
            "a placeholder, and placeholders are not filled in: to read the address from the environment, "
            "name its variable in url_env"
        )
    if not _SCHEME.match(text):
        raise ValueError(_FORM)
    if not text.isascii() or _BLANK.search(text) or "#" in text:
        raise ValueError(f"{_FORM}; {_ENCODED}")
    try:
        parts = urlsplit(text)
    except ValueError:
        raise ValueError(_FORM) from None
    user, at, place = parts.netloc.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise ValueError(f"{_FORM}; {_ENCODED}")
    name, password = _user_and_password(user)
    parts = parts._replace(netloc=place)
    if parts.scheme == "unix":
        path, database = _socket(parts)
        return RedisAddress(False, "", 0, path, database, name, password)  # noqa: FBT003 (as its fields say)
    host, port, database = _host_port_database(parts)
    return RedisAddress(parts.scheme == "rediss", host, port, None, database, name, password)


def _user_and_password(text: str) -> tuple[str | None, Secret | None]:
    user, colon, password = text.partition(":")
    user, password = unquote(user), unquote(password)
    if user and not password:
        raise ValueError("a user name requires a password; write a password alone as redis://:password@host")
    if colon and not password:
        raise ValueError("the password is empty")
    if _CONTROL.search(user + password):
        raise ValueError("the user name or the password contains control characters")
    if is_placeholder(password):
        raise ValueError(
            "the password is a placeholder, and placeholders are not filled in: put the whole address into "
            "an environment variable, and name that in url_env"
        )
    return user or None, Secret(password) if password else None


def _socket(parts: SplitResult) -> tuple[str, int]:
    path = unquote(parts.path)
    is_path = not parts.netloc and path.startswith("/") and not path.endswith("/") and "\0" not in path
    if not is_path or not (parts.query == "" or _DATABASE_QUERY.fullmatch(parts.query)):
        raise ValueError(_FORM)
    return path, int(parts.query.removeprefix("db=") or 0)


def _host_port_database(parts: SplitResult) -> tuple[str, int, int]:
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError(f"{_FORM}, with a port from 1 to 65535")
    database = parts.path.removeprefix("/")
    if parts.query or (database and not _DATABASE.fullmatch(database)):
        raise ValueError(f"{_FORM}, where db is the number of a database")
    host = checked_host(parts).removeprefix("[").removesuffix("]")
    return host, REDIS_PORT if port is None else port, int(database or 0)


def _workers(value: object) -> object:
    is_count = type(value) is int and 1 <= value <= MAX_WORKERS  # type(): True is an int too
    if is_count or value == AUTO:
        return value
    raise wrong_type(f"a whole number from 1 to {MAX_WORKERS}, or {AUTO}")


def _checked_prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise ValueError(
            "expected at most 64 letters, digits and ':', '.', '_', '/', '-', '{' and '}', "
            f"found {quote(text)}"
        )
    return text


Workers = Annotated[
    int | Literal["auto"],
    PlainValidator(_workers),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 1, "maximum": MAX_WORKERS}, {"const": AUTO}]},
    ),
]
RedisUrl = Annotated[
    RedisAddress,
    parse_with(parse_redis, "an address such as redis://redis.example:6379/0", RedisAddress),
    WithJsonSchema(REDIS_ADDRESS),
]
KeyPrefix = Annotated[
    str, expect("a string in quotes"), check_with(_checked_prefix), WithJsonSchema(text_like(_PREFIX.pattern))
]


class RedisSettings(Settings):
    """The Redis that the hosts of a fleet share."""

    url: Omittable[RedisUrl] = setting(
        "Address of Redis: ``redis://host:port/db``, ``rediss://`` for TLS, or ``unix:///path?db=0``; "
        "use ``url_env`` to keep a password out of this file",
        "If Redis requires a password, put ``user:password@`` or ``:password@`` before the host or the path. "
        "The default port is 6379, the default database 0. The address is never shown or logged. With TLS, "
        f"certificate and host name are verified. This requires ``{pip_install('redis')}``.",
    )
    url_env: Omittable[Variable] = setting("Environment variable that contains the address")
    prefix: KeyPrefix = setting(
        "Prefix of all keys in Redis",
        "Hosts with the same prefix share their limits.",
        default="mgw:",
        shown="``mgw:``",
    )


class FleetSettings(Settings):
    """What several hosts share."""

    redis: RedisSettings | None = setting(
        "The Redis that the hosts share; without it, each host counts on its own"
    )


def settle_fleet(fleet: FleetSettings, context: LoadContext) -> FleetSettings:
    """Fill in the address of the environment, and note what is missing."""
    redis, path = fleet.redis, ("fleet", "redis")
    if redis is None:
        return fleet
    if not has_redis_package():
        context.report.add(path, REDIS_MISSING)
    return fleet.model_copy(update={"redis": redis.model_copy(update={"url": _url(redis, path, context)})})


def has_redis_package() -> bool:
    """Whether the library that ``fleet.redis`` needs is installed; it is not imported."""
    return find_spec(REDIS_PACKAGE) is not None


def _url(redis: RedisSettings, path: Path, context: LoadContext) -> RedisAddress | None:
    by_name = (*path, "url_env")
    is_stated = context.is_set(redis.url, (*path, "url"))
    if redis.url_env is None:
        if not is_stated and not context.report.has_problem_below(by_name):
            context.report.add(path, "missing, expected url or url_env")
        return redis.url
    if is_stated:
        context.report.add(by_name, "url is also set: keep only one of them")
        return None
    return context.address_from(redis.url_env, by_name, parse_redis)
