"""How a running gateway is reached, as a command line has it: address, key for the dashboard, certificate."""

from __future__ import annotations

import argparse
import os
import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPSConnection
from typing import Final
from urllib.parse import SplitResult, urlsplit

from mgw.cli.tail_lines import harmless
from mgw.config.file_faults import unreadable

DEFAULT_URL: Final = "http://127.0.0.1:8787"
KEY_ENV: Final = "MGW_KEY"
_OTHER_KEY: Final = "KEY_VALUES_MISMATCH"
_NO_PEM: Final = "expected a certificate and its private key in PEM"


class OptionError(Exception):
    """An option is wrong; the text says how."""


class _PassphraseError(Exception):
    """A private key is encrypted."""


def add_gateway(parser: argparse.ArgumentParser) -> None:
    """Let a command ask a running gateway."""
    parser.add_argument("--url", help="the gateway's address, as an option")
    parser.add_argument(
        "--key-env",
        metavar="NAME",
        help=f"environment variable with a key or token for the dashboard (default: {KEY_ENV}, if it is set)",
    )
    parser.add_argument(
        "--client-cert",
        metavar="FILE",
        help="client certificate for a gateway with tls.client_ca (PEM, with intermediate certificates)",
    )
    parser.add_argument(
        "--client-key", metavar="FILE", help="private key of the certificate (default: in the same file)"
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


def certificate_of(
    cert_file: str | None, key_file: str | None, address: SplitResult
) -> ssl.SSLContext | None:
    """Return what shows a client certificate to the gateway; ``None``: the command line names none.

    :raises OptionError: it cannot be used.
    """
    if cert_file is None:
        if key_file is not None:
            raise OptionError("--client-key: name its certificate with --client-cert")
        return None
    if address.scheme != "https":
        raise OptionError("--client-cert: only with an address that begins with https://")
    context = ssl.create_default_context()
    try:
        context.load_cert_chain(cert_file, key_file, password=_no_passphrase)
    except _PassphraseError:
        raise OptionError("--client-cert: its key has a passphrase: store it without one") from None
    except ssl.SSLError as error:
        why = "this is not the key of the certificate" if error.reason == _OTHER_KEY else _NO_PEM
        raise OptionError(f"--client-cert: {why}") from None
    except OSError as error:
        files = [file for file in (cert_file, key_file) if file is not None and not os.access(file, os.R_OK)]
        raise OptionError(f"--client-cert: {unreadable((files or [cert_file])[0], error)}") from None
    return context


def connect_to(address: SplitResult, seconds: float, certificate: ssl.SSLContext | None) -> HTTPConnection:
    """Return a connection that is not open yet.

    :param seconds: how long each step of it may take.
    """
    host, port = address.hostname or "", address.port
    if address.scheme == "https":
        return HTTPSConnection(host, port, timeout=seconds, context=certificate)
    return HTTPConnection(host, port, timeout=seconds)


def _no_passphrase() -> str:
    raise _PassphraseError
