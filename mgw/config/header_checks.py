"""Which headers an operator may change for a provider."""

from __future__ import annotations

from mgw.config.checks import checked_header_name
from mgw.config.environment import LoadContext
from mgw.config.problems import Path
from mgw.config.provider import Provider
from mgw.config.quoting import shown
from mgw.nouns.kinds import KINDS
from mgw.nouns.varying_headers import VARYING


def check_headers(provider: Provider, path: Path, context: LoadContext) -> None:
    """Note headers that are not an operator's to change, and those that are named twice."""
    edits = provider.headers
    seen = _check_names(provider, edits.set, (*path, "set"), context)
    for name in edits.remove:
        if name in seen or name in edits.forward:
            context.report.add((*path, "remove"), f"{shown(name)} is also set or forwarded: keep only one")
    for key in ("remove_tokens", "add_tokens"):
        names: dict[str, tuple[str, ...]] = getattr(edits, key)
        _check_names(provider, names, (*path, key), context)
        for name in names:
            if name.lower().encode("latin-1", "replace") in VARYING:
                message = f"{name} differs for each request, so it can only be removed or set as a whole"
                context.report.add((*path, key, name), message)


def _check_names(
    provider: Provider, names: dict[str, tuple[str, ...]] | dict[str, str], path: Path, context: LoadContext
) -> dict[str, str]:
    """Check the names of headers; return how each is spelled."""
    key_header = None if provider.kind is None else KINDS[provider.kind].key_header.decode().lower()
    seen: dict[str, str] = {}
    for name in names:
        here = (*path, name)
        try:
            checked_header_name(name)
        except ValueError as error:
            context.report.add(here, str(error))
        else:
            if name.lower() == key_header:
                context.report.add(here, f"{name} carries the provider's key: set its api_key instead")
        if name.lower() in seen:
            context.report.add(here, f"the same header as {shown(seen[name.lower()])}: keep only one")
        seen[name.lower()] = name
    return seen
