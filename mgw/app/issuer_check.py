"""Where the public keys of issuers come from, as ``mgw check`` prints it; nothing is fetched."""

from __future__ import annotations

from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.file_faults import shown_path
from mgw.config.jwt import JwtSettings
from mgw.config.quoting import redact, shown


def key_sources(edge_auth: EdgeAuthSettings) -> list[str]:
    """Return a line for each issuer."""
    return [f"issuer {shown(entry.name)}: keys from {_source_of(entry)}" for entry in edge_auth.jwt]


def _source_of(entry: JwtSettings) -> str:
    if entry.jwks_file is not None:
        return f"the file {shown_path(entry.jwks_file)}"
    if entry.jwks_url is not None:
        found = redact(entry.jwks_url.partition("?")[0])
    else:
        found = f"the jwks_uri in {redact(entry.discovery_url)}"
    if entry.proxy is not None:
        found += f", through the proxy {redact(entry.proxy.name)}"
    return found
