"""All secrets in settings, which no log line and no response may contain.

They are found by the types of fields, so that a new setting need not be named here: each
:class:`~mgw.nouns.secret.Secret`, and each text of a field that does not print (``repr=False``), as the
values of headers are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, get_args, get_type_hints

from msgspec import Struct

from mgw.config.profile import Profile
from mgw.config.quoting import pieces_like_keys
from mgw.config.settings_base import Settings
from mgw.nouns.secret import Secret

_CREDENTIAL_NAME: Final = re.compile("auth|key|token|secret|password|credential", re.IGNORECASE)
"""Headers in which hosts take a credential beside those that the gateway knows."""
_SCHEME: Final = re.compile(r"[A-Za-z]{1,32} +(.+)")
"""The scheme of ``Authorization``; what stands behind it may be repeated alone."""
_MARK: Final = "-----"
"""Begins and ends the lines around a key in PEM (RFC 7468), which are the same for all keys."""


def secrets_of(settings: Settings) -> list[Secret]:
    """Return every secret that a configuration, a profile or a part of one holds."""
    return list(dict.fromkeys(part for secret in secrets_in(settings) for part in parts_of(secret)))


def secrets_in(value: object) -> list[Secret]:
    """Return every secret in settings, structs and containers of them, as it is held there."""
    found: list[Secret] = []
    rest = [value]
    while rest:  # a list of what is left, and one look at each type: large configurations have thousands
        one = rest.pop()
        if isinstance(one, Secret):
            found.append(one)
            continue
        names, texts = _fields_of(type(one))  # type: ignore[arg-type]  # classes can be hashed
        rest += [getattr(one, name) for name in names] if names else _items(one)
        for name in texts:
            found += _unprinted(getattr(one, name))
        if isinstance(one, Profile):
            found += _secrets_of_profile(one)
    return [secret for secret in found if secret]


def parts_of(secret: Secret) -> list[Secret]:
    """Return a secret, and what of it may be repeated alone: without a scheme, or a line of a key in PEM."""
    text = secret.reveal()
    found = [secret]
    scheme = _SCHEME.fullmatch(text)  # with no line break in it
    if scheme is not None:
        found.append(Secret(scheme[1]))
    elif "\n" in text:
        found += [Secret(line) for line in text.split() if not line.startswith(_MARK)]
    return found


def credentials_in(headers: Mapping[str, str]) -> list[Secret]:
    """Return the values of headers whose names speak of credentials, with their scheme and without it."""
    found = []
    for name, value in headers.items():
        if _CREDENTIAL_NAME.search(name):
            _, blank, bare = value.rpartition(" ")
            found += [Secret(value), Secret(bare)] if blank else [Secret(value)]
    return found


def _items(value: object) -> Iterable[object]:
    """Return what a container holds."""
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, tuple | list | set | frozenset) else ()


def _secrets_of_profile(profile: Profile) -> Iterator[Secret]:
    """Yield what a profile's texts say that may be a credential; most of them are none."""
    merged = {name: " ".join(values) for name, values in profile.headers.merge.items()}
    token, device = profile.token, profile.device
    named = (profile.headers.set, merged, profile.cloak.headers, token.headers, token.parameters)
    for texts in (*named, device.parameters, profile.authorization.parameters):
        yield from credentials_in(texts)


def _unprinted(value: object) -> Iterator[Secret]:
    """Yield the texts in a value that does not print; of an address, what may be a key."""
    if isinstance(value, str):
        yield from map(Secret, pieces_like_keys(value))
    elif isinstance(value, Mapping):
        for text in value.values():
            if isinstance(text, str) and text:
                yield Secret(text)
        yield from credentials_in({name: text for name, text in value.items() if isinstance(text, str)})


@cache  # as many as there are classes
def _fields_of(kind: type) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the fields of a class in which there may be a secret, and those with texts that do not print."""
    if issubclass(kind, Settings):
        fields = kind.model_fields.items()
        held = tuple(name for name, field in fields if _may_hold_secret(field.annotation))
        return held, tuple(name for name, field in fields if not field.repr)
    if issubclass(kind, Struct):
        return tuple(name for name, hint in get_type_hints(kind).items() if _may_hold_secret(hint)), ()
    return (), ()


def _may_hold_secret(annotation: Any) -> bool:  # Any: whatever annotates a field
    if annotation in (Secret, Any, object):
        return True
    inner: Iterable[Any] = get_args(annotation)
    if isinstance(annotation, type) and not inner:
        return any(_fields_of(annotation))
    return any(map(_may_hold_secret, inner))
