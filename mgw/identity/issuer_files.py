"""Files with the public keys of issuers, as a configuration names them: whether each can be used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mgw.config.file_faults import unreadable
from mgw.config.jwt import JWT, JwtSettings
from mgw.config.problems import dotted_path
from mgw.reactor.regular_file import read_regular_file


def unusable_key_files(entries: Sequence[JwtSettings]) -> Iterator[str]:
    """Yield a line for each ``jwks_file`` that cannot be read or has no usable key; this blocks."""
    for position, entry in enumerate(entries):
        fault = None if entry.jwks_file is None else _fault_of(entry.jwks_file)
        if fault is not None:
            yield f"{dotted_path((*JWT, position, 'jwks_file'))}: {fault}"


def _fault_of(path: str) -> str | None:
    # Here, since few need the library, which takes long to import.
    from mgw.clients.tokens.key_set import MAX_SET_BYTES, parse_key_set

    try:
        parse_key_set(read_regular_file(path, MAX_SET_BYTES))
    except OSError as error:
        return unreadable(path, error, hides_path=True)
    except ValueError as error:
        return f"no set of public keys (JWKS): {error}"
    return None
