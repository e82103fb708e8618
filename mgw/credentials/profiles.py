"""The files of profiles: how the API of a subscription is called."""

from __future__ import annotations

from collections.abc import Mapping

from mgw.config.file_faults import unreadable
from mgw.config.load import parse_profile, read_text
from mgw.config.problems import ConfigError, dotted_path
from mgw.config.profile import Profile
from mgw.config.settings import Config


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
