"""Read a configuration file, say what is wrong with it, and where calls go."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from mgw.advice import final_addresses, warnings
from mgw.config.load import parse
from mgw.config.problems import ConfigError, dotted_path
from mgw.config.quoting import redact
from mgw.config.settings import Config
from mgw.routing.routes import DENIABLE

DEFAULT_FILE = "/etc/mgw.yaml"


def reader_of(file: str) -> Callable[[], Config]:
    """Return what reads a configuration file, wherever the process changes to later.

    What it returns raises :class:`ConfigError`, or ``OSError`` where the file cannot be read.
    """
    path = Path(file).absolute()

    def read() -> Config:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        return parse(text, file, os.environ, DENIABLE)

    return read


def check(read: Callable[[], Config]) -> int:
    """Print what is to be said of a configuration; return the exit status."""
    config = read_or_tell(read)
    if config is None:
        return 1
    from twisted.internet import reactor  # here, since importing it installs one

    from mgw.generation import build_generation

    problems = _events_file(config)
    try:
        build_generation(0, config, reactor, 0)
    except ValueError as error:
        problems += str(error).splitlines()
    try:
        if config.tls is not None:
            from mgw.web.tls import RenewableCertificate  # OpenSSL is slow to import

            RenewableCertificate(config.tls)
    except ValueError as error:
        problems.append(str(error))
    for problem in problems:
        sys.stderr.write(f"mgw: {problem}\n")
    if problems:
        return 1
    for warning in [*warnings(config), *_token_files(config), *_spool(config)]:
        sys.stdout.write(f"warning: {warning}\n")
    for address in final_addresses(config):
        sys.stdout.write(f"{address}\n")
    sys.stdout.write("the configuration is valid\n")
    return 0


def _spool(config: Config) -> list[str]:
    """Return what keeps large bodies from being kept on disk; nothing is created."""
    place = Path(config.spool.dir)
    while not place.exists() and place != place.parent:
        place = place.parent
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return []
    where = redact(config.spool.dir)
    return [
        f"spool.dir: {where} cannot be written to: requests with bodies above 256 KiB get 503 on some routes"
    ]


def _events_file(config: Config) -> list[str]:
    """Return what keeps usage events from being written; nothing is created."""
    jsonl = config.hooks.jsonl
    if jsonl is None or jsonl.output in ("stdout", "stderr"):
        return []
    file = Path(jsonl.output)
    place = file if file.exists() else file.parent
    if place.is_dir() is not file.exists() and os.access(place, os.W_OK):
        return []
    return [f"hooks.jsonl.output: {redact(jsonl.output)} cannot be written"]


def _token_files(config: Config) -> list[str]:
    """Return a warning for each token file that is not there: somebody may be about to write it."""
    return [
        f"{dotted_path(('providers', provider.name, 'token_file'))}: the file cannot be read at present"
        for provider in config.providers.values()
        if provider.token_file is not None and not os.access(provider.token_file, os.R_OK)
    ]


def read_or_tell(read: Callable[[], Config]) -> Config | None:
    """Return a configuration, or ``None`` after its problems have been printed."""
    try:
        return read()
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
    except OSError as error:
        sys.stderr.write(f"mgw: the configuration file {error.filename} cannot be read: {error.strerror}\n")
    return None
