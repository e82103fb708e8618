"""Contents of the files that a configuration names, except those that are reread while in use.

Reading and parsing them blocks and may take seconds (a large file of prices, a thousand ``ca_file``), so a
reload does it in a thread, and what is made of it there is ready to be used (:mod:`mgw.generation`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ssl import SSLContext
from typing import TypeVar

from msgspec import Struct, field

from mgw.config.file_faults import unreadable
from mgw.config.load import parse_prices, parse_profile, read_text
from mgw.config.problems import ConfigError, dotted_path
from mgw.config.profile import Profile
from mgw.config.quoting import redact
from mgw.config.settings import Config
from mgw.credentials.google_sources import GoogleCredentials, find_google_credentials
from mgw.upstream.tls import client_context
from mgw.usage.prices import PriceTable

T = TypeVar("T")


class ConfiguredFiles(Struct, frozen=True):
    """What files hold; in place of what cannot be used stands why, as a :class:`ValueError`."""

    authorities: Mapping[str, SSLContext | ValueError] = field(default_factory=dict)
    """Whom TLS trusts, by ``ca_file``."""
    google: Mapping[str, GoogleCredentials | ValueError] = field(default_factory=dict)
    """By provider."""
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    """Those that could be read."""
    profile_problems: tuple[str, ...] = ()
    prices: PriceTable | ValueError | None = None


def read_configured_files(config: Config, environ: Mapping[str, str]) -> ConfiguredFiles:
    """Read the files that a configuration names, and its own rows of prices; this blocks."""
    providers = config.providers.values()
    problems: list[str] = []
    profiles = read_profiles(config, environ, problems)
    client_context(None)  # the system's authorities, which are kept
    return ConfiguredFiles(
        authorities={
            file: _or_error(lambda file=file: _authorities(file))  # type: ignore[misc]  # bound now
            for file in dict.fromkeys(provider.ca_file for provider in providers)
            if file is not None
        },
        google={
            provider.name: _or_error(lambda provider=provider: find_google_credentials(provider))  # type: ignore[misc]  # as above
            for provider in providers
            if provider.google is not None
        },
        profiles=profiles,
        profile_problems=tuple(problems),
        prices=_or_error(lambda: _prices(config)),
    )


def read_profiles(config: Config, environ: Mapping[str, str], problems: list[str]) -> dict[str, Profile]:
    """Read the profiles that a configuration names, and note what is wrong with them."""
    found: dict[str, Profile] = {}
    for name, settings in config.profiles.items():
        try:
            found[name] = parse_profile(read_text(settings.file), settings.file, environ)
        except OSError as error:
            where = dotted_path(("profiles", name, "file"))
            problems.append(f"{where}: {unreadable(settings.file, error)}")
        except ConfigError as error:
            problems += str(error).splitlines()
    return found


def _or_error(read: Callable[[], T]) -> T | ValueError:
    try:
        return read()
    except ValueError as error:
        return ValueError(str(error))  # without the frames, which hold what was read


def _authorities(file: str) -> SSLContext:
    try:
        return client_context(file)
    except OSError as error:
        reason = unreadable(file, error)
    except ValueError:
        reason = f"{redact(file)} contains no PEM certificate"
    raise ValueError(reason)


def _prices(config: Config) -> PriceTable | None:
    """Return what models cost, as the configuration or a file of it says."""
    prices = config.prices
    if prices is None or prices.file is None:
        return None if prices is None else PriceTable(prices.rows)
    try:
        return PriceTable(parse_prices(read_text(prices.file), prices.file, config.providers))
    except OSError as error:
        reason = f"prices.file: {unreadable(prices.file, error)}"
    except ConfigError as error:
        reason = str(error)
    raise ValueError(reason)
