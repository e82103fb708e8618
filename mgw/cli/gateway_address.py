"""The address of a running gateway and the key for its dashboard, as a command line has them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit

from mgw.cli.tail_lines import harmless

DEFAULT_URL: Final = "http://127.0.0.1:8787"
KEY_ENV: Final = "MGW_KEY"


class OptionError(Exception):
    """An option is wrong; the text says how."""


def add_gateway(parser: argparse.ArgumentParser) -> None:
    """Let a command ask a running gateway."""
    parser.add_argument("--url", help="the gateway's address, as an option")
    parser.add_argument(
        "--key-env",
        metavar="NAME",
        help=f"environment variable with a key for the dashboard (default: {KEY_ENV}, if it is set)",
    )


def address_of(url: str) -> SplitResult:
    """Return the parts of an address, which may lack its scheme.

    :raises OptionError: it is none.
    """
    if "://" not in url:
        url = f"http://{url}"
    try:
        address = urlsplit(url)
        port_is_fine = address.port is None or address.port > 0
    except ValueError:
        raise OptionError("--url is not an address") from None
    if address.scheme not in ("http", "https") or not address.hostname or not port_is_fine:
        raise OptionError(f"--url: expected an address such as {DEFAULT_URL}")
    if "@" in address.netloc or address.query or address.fragment:
        raise OptionError("--url: no user, password, query or fragment; a key comes from --key-env")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise OptionError("--url: only visible ASCII characters")
    return address


def headers_of(key_env: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the header with the key that the environment has, if it has one.

    :raises OptionError: it has none under the name that the command line names, or it cannot be one.
    """
    name = key_env or KEY_ENV
    key = environment.get(name, "").strip()
    if not key:
        if key_env is not None:
            raise OptionError(f"the environment variable {harmless(name)} is not set")
        return {}
    if not key.isascii() or not key.isprintable() or " " in key:
        raise OptionError(
            f"the environment variable {harmless(name)} contains something that cannot be a key"
        )
    return {"Authorization": f"Bearer {key}"}
