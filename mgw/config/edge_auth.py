"""The gateway keys: strings, or mappings with a name and permissions.

Source: contract 3.22 to 3.25.  Of a named key the file may hold no more than the digest; a key that is known
gets its digest here, so that whoever compares keys needs nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Annotated, Final

from pydantic import ConfigDict, Field, GetJsonSchemaHandler, WithJsonSchema
from pydantic.annotated_handlers import GetCoreSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from mgw.config.checks import KEY, checked_key, text_like
from mgw.config.environment import LoadContext
from mgw.config.field_types import ModelPattern, NamedKey, OnOff, Variable
from mgw.config.problems import LIMITS_OF_KEYS, Path
from mgw.config.quoting import quote
from mgw.config.settings_base import (
    Documentation,
    ListOf,
    NotInFile,
    Omittable,
    Settings,
    UniqueList,
    check_with,
    expect,
    parse_with,
    setting,
    wrong_type,
    wrong_value,
)
from mgw.nouns.secret import Secret

_KEYS: Final[Path] = ("edge_auth", "keys")
_ONE_OF: Final = ("key", "key_env", "sha256")
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_DIGEST: Final = re.compile(r"[0-9A-Fa-f]{64}")
_INSTEAD: Final = "to read the key from the environment, name its variable in keys_env"
_LABELS: Final = frozenset({"none", "other"})
"""What metrics say of requests without a named key."""


def _checked_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(
            "expected a name of at most 64 letters, digits, '.', '_' and '-' that does not begin with '.' "
            f"or '-', found {quote(text)}"
        )
    if text in _LABELS:
        raise ValueError(f"expected another name: metrics use {text} for requests without a named key")
    return text


def _digest(text: str) -> Secret:
    if not _DIGEST.fullmatch(text):
        raise ValueError(
            "expected the 64 hex digits of the key's SHA-256 (of the key alone, without a line break)"
        )
    return Secret(text.lower())


ClientName = Annotated[
    str,
    expect("the name of the key (in quotes if YAML would read it as a number)"),
    check_with(_checked_name),
    WithJsonSchema(text_like(_NAME.pattern) | {"not": {"enum": sorted(_LABELS)}}),
]
Digest = Annotated[
    Secret,
    parse_with(_digest, "the 64 hex digits of the key's SHA-256, in quotes", Secret),
    WithJsonSchema(text_like(_DIGEST.pattern)),
]
Limit = Annotated[int, Field(gt=0, le=2**53), expect("a whole number above 0")]


class NamedKeySettings(Settings):
    """A key with a name, and what it may be used for."""

    model_config = ConfigDict(json_schema_extra={"required": ["name"]})

    position: NotInFile[int] = 0
    """The key's position in the list of the file."""
    name: ClientName = Field(
        default=None,
        validate_default=True,
        json_schema_extra=Documentation(
            "Name of the person or program that has the key",
            "It is the ``client`` of usage events and metrics. Names are unique and have at most 64 "
            "letters, digits, ``.``, ``_`` and ``-``.",
        ),
    )
    key: Omittable[NamedKey] = setting(
        "The key itself", "Exactly one of ``key``, ``key_env`` and ``sha256`` is required."
    )
    key_env: Omittable[Variable] = setting("Environment variable that contains the key")
    sha256: Omittable[Digest] = setting(
        "SHA-256 of the key as 64 hex digits, so that the file does not contain the key",
        "Only for long random keys: short ones can be found from their digest. The log hides such "
        "a key from its first use on.",
    )
    models: Omittable[UniqueList[ModelPattern]] = setting(
        "Patterns for the models that the key may use",
        "A model is allowed if a pattern matches its name in the request or the "
        "``<provider>/<model>`` that it stands for. Requests for any other model return 404, and "
        "model lists do not contain it. ``*`` matches any characters, ``?`` one character, "
        "``[...]`` one of these. Case does not matter. An empty list allows no model. ``mgw "
        "check`` warns about patterns that can match no model.",
        shown="all models",
    )
    requests_per_minute: Omittable[Limit] = setting(
        "Maximum number of requests in any 60 seconds",
        "Beyond it, clients get 429 with ``Retry-After``. Requests that the gateway rejects do not count.",
        shown="no limit",
    )
    tokens_per_minute: Omittable[Limit] = setting(
        "Number of tokens (input and output) in any 60 seconds beyond which requests are rejected",
        "Tokens count when they are known, at the end of a request, so requests in progress may "
        "exceed the limit.",
        shown="no limit",
    )
    max_in_flight: Omittable[Limit] = setting(
        "Maximum number of concurrent requests; a realtime session counts as one",
        "Beyond it, clients get 429 with ``Retry-After: 1``.",
        shown="no limit",
    )

    @property
    def limits(self) -> Mapping[str, int]:
        """The limits on how much it may be used, by the names of their settings."""
        found = {name: getattr(self, name) for name in LIMITS_OF_KEYS}
        return {name: most for name, most in found.items() if most is not None}

    @property
    def is_restricted(self) -> bool:
        """Whether it may do less than a key without a name: a limit, or only some models."""
        return self.models is not None or bool(self.limits)


def _text_or_mapping(value: object, mapping: Callable[[object], object]) -> object:
    if isinstance(value, Secret):
        return value
    if isinstance(value, str):
        return _key_of(value)
    if isinstance(value, dict | NamedKeySettings):
        return mapping(value)
    raise wrong_type("a string (put the key in quotes) or a mapping with a name")


def _key_of(text: str) -> Secret:
    try:
        return Secret(checked_key(text, _INSTEAD))
    except ValueError as error:
        raise wrong_value(f"the key {error}") from None


class _TextOrMapping:
    """Take a key, or the mapping that names one."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        mapping = handler.generate_schema(NamedKeySettings)
        return core_schema.no_info_wrap_validator_function(_text_or_mapping, mapping)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [dict(KEY), handler(schema)]}


EdgeKey = Annotated[Secret | NamedKeySettings, _TextOrMapping()]


class EdgeAuthSettings(Settings):
    """Who may use the gateway."""

    enabled: OnOff = setting(
        "Whether clients must authenticate with a gateway key",
        "If so, at least one must be configured.",
        default=False,
    )
    keys: ListOf[EdgeKey] = setting(
        "Gateway keys", "A mapping gives a key a name, models and limits.", default=()
    )
    """The keys, with those of the environment; a named one has its digest, and its key once that is known."""
    keys_env: Omittable[Variable] = setting(
        "Environment variable that contains more keys, separated by commas or white space"
    )

    @property
    def named(self) -> tuple[NamedKeySettings, ...]:
        """The keys that have names."""
        return tuple(key for key in self.keys if isinstance(key, NamedKeySettings))

    @property
    def names(self) -> list[str]:
        """The names of keys."""
        return [key.name for key in self.named]

    @property
    def digests(self) -> list[Secret]:
        """The digests of named keys, which are secrets too: tokens are made from them."""
        return [key.sha256 for key in self.named if key.sha256 is not None]

    @property
    def unrestricted(self) -> EdgeAuthSettings:
        """The same without the keys that have ``models`` or limits."""
        kept = [key for key in self.keys if isinstance(key, Secret) or not key.is_restricted]
        return self.model_copy(update={"keys": tuple(kept)})

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The keys themselves, as far as they are known."""
        found = [key.key if isinstance(key, NamedKeySettings) else key for key in self.keys]
        return tuple(key for key in found if key is not None)


def digest_of(key: Secret) -> str:
    """Return the SHA-256 of a key in hex digits."""
    return sha256(key.reveal().encode("latin-1")).hexdigest()


def settle_edge_auth(edge_auth: EdgeAuthSettings, context: LoadContext) -> EdgeAuthSettings:
    """Fill in the keys of the environment and the digests of named ones, and note what does not fit."""
    report, by_name = context.report, ("edge_auth", "keys_env")
    keys: list[Secret | NamedKeySettings] = []
    for position, key in enumerate(edge_auth.keys):
        path = (*_KEYS, position)
        keys.append(_settle_named(key, path, context) if isinstance(key, NamedKeySettings) else key)
    _check_unique(keys, context)
    if edge_auth.keys_env is not None:
        more = context.keys_from(edge_auth.keys_env, by_name)
        named = {key.sha256 for key in keys if isinstance(key, NamedKeySettings)}
        if any(Secret(digest_of(key)) in named for key in more):
            report.add(by_name, "one of these keys is also a named key in edge_auth.keys: keep only one")
        keys += more
    excused = report.has_problem_below(_KEYS) or report.has_problem_below(by_name)
    if edge_auth.enabled and not keys and not excused:
        report.add(("edge_auth", "enabled"), "edge auth requires a key: set edge_auth.keys or keys_env")
    texts = dict.fromkeys(key for key in keys if isinstance(key, Secret))
    kept = [key for key in keys if isinstance(key, NamedKeySettings)]
    return edge_auth.model_copy(update={"keys": (*texts, *kept)})


def _settle_named(key: NamedKeySettings, path: Path, context: LoadContext) -> NamedKeySettings:
    """Return a named key with its digest."""
    stated = [name for name in _ONE_OF if getattr(key, name) is not None]
    if len(stated) != 1:
        found = " and ".join(stated) or "none of them"
        context.report.add(path, f"expected exactly one of key, key_env and sha256, found {found}")
        return key
    secret = key.key
    if key.key_env is not None:
        secret = context.key_from(key.key_env, (*path, "key_env"))
    digest = key.sha256 if secret is None else Secret(digest_of(secret))
    if Secret(digest_of(Secret(key.name or ""))) == digest:
        context.report.add((*path, "name"), "the name is the key itself, and names are logged")
    return key.model_copy(update={"key": secret, "sha256": digest, "position": path[-1]})


def _check_unique(keys: Iterable[Secret | NamedKeySettings], context: LoadContext) -> None:
    """Note what two keys have in common, one of which has a name."""
    names: dict[str, int] = {}
    digests: dict[Secret, tuple[int, bool]] = {}
    for position, key in enumerate(keys):
        is_named = isinstance(key, NamedKeySettings)
        digest = key.sha256 if isinstance(key, NamedKeySettings) else Secret(digest_of(key))
        path = (*_KEYS, position)
        if isinstance(key, NamedKeySettings):
            before = names.setdefault(key.name, position)
            if before != position:
                context.report.add(
                    (*path, "name"), f"edge_auth.keys.{before} has the same name: names must be unique"
                )
        if digest is None:
            continue
        first, was_named = digests.setdefault(digest, (position, is_named))
        if first != position and (is_named or was_named):
            context.report.add(path, f"the same key as edge_auth.keys.{first}: keep only one")
