"""Headers sent upstream: the client's from an allow-list, the operator's edits, and our own.

Source: contract 2.12, 3.8 and 5.5.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from functools import lru_cache

from mgw.config.provider import HeadersSettings, Provider
from mgw.config.secrets import credentials_in
from mgw.credentials.provider import Credential
from mgw.nouns.families import FAMILIES
from mgw.nouns.secret import SIGNATURES, Secret
from mgw.nouns.vocabulary import Family
from mgw.routing.resolve import Target
from mgw.wire.header_tokens import add_tokens, remove_tokens
from mgw.wire.headers import RawHeaders, request_headers


def forwarded_headers(headers: RawHeaders, client: Family, target: Target) -> RawHeaders:
    """Return those of the client's headers that go to the target."""
    forward = forwarded_names(target.provider)
    return request_headers(headers, client=client, target=target.family, forward=forward)


def forwarded_names(provider: Provider) -> frozenset[bytes]:
    """Return the lower-case names of headers that go to a provider because its operator says so."""
    return _lowered(provider.headers.forward)


def provider_headers(headers: RawHeaders, provider: Provider, credential: Credential) -> RawHeaders:
    """Return a client's headers with the operator's edits, what the kind requires, and the credential."""
    if credential.headers is not None:
        headers = credential.headers.apply(headers)
    if credential.signer is not None:
        prefix = credential.signer.own_prefix
        headers = [pair for pair in headers if not pair[0].lower().startswith(prefix)]
    edits = provider.headers
    replaced = _lowered((*edits.set, *edits.remove))
    if replaced:
        headers = [pair for pair in headers if pair[0].lower() not in replaced]
        headers += [(name.encode("latin-1"), value.encode("latin-1")) for name, value in edits.set.items()]
    row = provider.row
    for name, value in row.required_headers:
        spellings = FAMILIES[row.family].version_headers | {name}
        if name not in replaced and not any(pair[0].lower() in spellings for pair in headers):
            headers.append((name, value))
    if edits.remove_tokens or edits.add_tokens:
        headers = _with_tokens(headers, edits)
    if credential.header:
        headers.append((credential.header, credential.value.reveal().encode("latin-1")))
    return headers


def _with_tokens(headers: RawHeaders, edits: HeadersSettings) -> RawHeaders:
    """Return headers with the operator's changes to elements of their lists."""
    for name, patterns in edits.remove_tokens.items():
        headers = remove_tokens(headers, name.lower().encode("latin-1"), _matcher(patterns))
    for name, tokens in edits.add_tokens.items():
        headers = add_tokens(headers, name.encode("latin-1"), [token.encode("latin-1") for token in tokens])
    return headers


def secrets_sent(provider: Provider, credential: Credential) -> tuple[Secret, ...]:
    """Return the operator's secrets that were sent, which no response may repeat."""
    key = () if credential.of_client else (credential.key,)
    signatures = () if credential.signer is None else (SIGNATURES,)
    of_account = () if credential.headers is None else credential.headers.secrets
    return *key, *credential.added, *signatures, *of_account, *credentials_in(provider.headers.set)


@lru_cache(maxsize=1024)  # some for each provider, at the most
def _matcher(patterns: tuple[str, ...]) -> Callable[[str], object]:
    return re.compile("|".join(map(translate, patterns)) or "(?!)").match


@lru_cache(maxsize=1024)  # as many as there are providers, at the most
def _lowered(names: tuple[str, ...]) -> frozenset[bytes]:
    return frozenset(name.lower().encode("latin-1") for name in names)
