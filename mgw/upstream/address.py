"""A provider's address, and the address of a call to it."""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from mgw.config.provider import Provider
from mgw.nouns.kinds import KINDS
from mgw.wire.target import query_value, split_target, with_parameter

_PORTS: Final = {"http": 80, "https": 443}


class Address(Struct, frozen=True):
    """The parts of a base address."""

    scheme: str
    """``http`` or ``https``."""
    host: str
    """A name or an IP address, the latter without brackets."""
    port: int
    host_header: bytes
    """What ``Host`` says: the port only where it is not the scheme's own (RFC 9110 7.2)."""
    path: bytes
    """The path without a slash at its end; empty for an origin."""

    @property
    def secure(self) -> bool:
        """Whether TLS is spoken there."""
        return self.scheme == "https"

    @property
    def origin(self) -> str:
        """The address without its path, as it may be shown to people."""
        return f"{self.scheme}://{self.host_header.decode()}"


def address_of(base_url: str) -> Address:
    """Take ``base_url`` apart.

    :raises ValueError: for anything but an ``http`` or ``https`` address with a host, and no user.
    """
    parts = urlsplit(base_url)
    if parts.scheme not in _PORTS or not parts.hostname or parts.fragment or "@" in parts.netloc:
        raise ValueError(
            "an address must start with http:// or https:// and have a host, but no user or fragment"
        )
    own_port = _PORTS[parts.scheme]
    host = parts.hostname
    if not host.isascii():
        raise ValueError("a host name with non-ASCII letters must be written in its xn-- form")
    port = own_port if parts.port is None else parts.port
    ascii_host = f"[{host}]" if ":" in host else host
    header = ascii_host if port == own_port else f"{ascii_host}:{port}"
    return Address(parts.scheme, host, port, header.encode(), parts.path.rstrip("/").encode())


def call_target(
    provider: Provider,
    path: bytes,
    raw_query: bytes | None = None,
    *,
    prefix: bytes = b"",
    version: bytes = b"",
) -> bytes:
    """Return the target of a call to a provider, as its request line has it.

    :param path: below the base address, with its leading ``/``.
    :param raw_query: the client's own or the call's; ``None`` without a question mark.  The provider's
        ``api_version`` is added to it where it says none.
    :param prefix: what stands before the path of the base address.
    :param version: what the call needs in place of a ``/v1`` at the end of the base address.
    """
    base = _path_of(provider.base_url)
    if version:
        base = base.removesuffix(b"/v1") + b"/" + version
    if provider.api_version is not None:
        raw_query = _versioned(raw_query, KINDS[provider.kind].version_parameter, provider.api_version)
    whole = prefix + base + path
    return whole if raw_query is None else whole + b"?" + raw_query


def call_url(provider: Provider, target: str) -> str:
    """Return the whole address of a call, as it may be shown to people.

    :param target: path below the base address, and query.
    """
    path, raw_query = split_target(target.encode())
    origin = provider.base_url.removesuffix(_path_of(provider.base_url).decode())
    return origin + call_target(provider, path, raw_query).decode()


def _versioned(raw_query: bytes | None, parameter: str | None, version: str) -> bytes | None:
    if parameter is None or query_value(raw_query, parameter) is not None:
        return raw_query
    return with_parameter(raw_query, parameter, version)


@lru_cache(maxsize=1024)  # as many as there are providers, at the most
def _path_of(base_url: str) -> bytes:
    return address_of(base_url).path
