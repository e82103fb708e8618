"""Who may use the gateway: gateway keys, as strings or as mappings with a name, and groups of clients.

Source: contract 3.22 to 3.25.  Of a named key the file may hold no more than the digest; a key that is known
gets its digest here, so that whoever compares keys needs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Annotated, Final

from pydantic import GetJsonSchemaHandler
from pydantic.annotated_handlers import GetCoreSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from mgw.config.checks import KEY, checked_key
from mgw.config.environment import LoadContext
from mgw.config.field_types import AbsolutePath, AnswerTokens, OnOff, Variable
from mgw.config.groups import GroupSettings, check_groups
from mgw.config.jwt import JWT, JwtSettings, settle_jwt
from mgw.config.key_settings import NamedKeySettings, check_key
from mgw.config.limit_rows import LimitRowSettings, check_limit_rows
from mgw.config.problems import Path
from mgw.config.settings_base import (
    EmptyIfNull,
    ListOf,
    Omittable,
    Settings,
    setting,
    wrong_type,
    wrong_value,
)
from mgw.config.time_zones import DEFAULT_ZONE, TimeZone
from mgw.nouns.secret import Secret

_KEYS: Final[Path] = ("edge_auth", "keys")
_LIMITS: Final[Path] = ("edge_auth", "limits")
_ONE_OF: Final = ("key", "key_env", "sha256")
_INSTEAD: Final = "to read the key from the environment, name its variable in keys_env"
GATEWAY: Final = "gateway"
"""The name of the whole gateway where it has limits."""


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
    keys_dir: Omittable[AbsolutePath] = setting(
        "Directory of files, each of which is a named key",
        "A file ``NAME.yaml`` contains ``sha256`` and, if needed, other settings of ``edge_auth.keys``, but "
        "neither ``name`` nor the key itself. Changes take effect without a reload.",
    )
    jwt: ListOf[JwtSettings] = setting(
        "Issuers of signed tokens (JWT), which open the gateway as keys do",
        "A token that one of these has issued is never sent to a provider as it is.",
        default=(),
    )
    timezone: TimeZone = setting(
        "Time zone in which the days, weeks and months of limits begin",
        "A name of the IANA time zone database such as ``Europe/Berlin``.",
        default=DEFAULT_ZONE,
        shown=f"``{DEFAULT_ZONE}``",
    )
    limits: ListOf[LimitRowSettings] = setting(
        "Limits on what all clients use together, or with ``each``, separately",
        "A request is rejected unless every row that applies to its client has room: those of its key, of "
        "its groups and of the gateway. A list must not have two rows that count the same over the same "
        "time, with the same ``each`` and ``action``.",
        default=(),
    )
    groups: EmptyIfNull[dict[str, EmptyIfNull[GroupSettings]]] = setting(
        "Groups of clients by name", "Names look like those of keys.", default={}
    )
    cut_revoked: OnOff = setting(
        "Whether requests in progress end when their key expires, is disabled or is removed",
        "If not, they may finish.",
        default=False,
    )
    estimate_untold: OnOff = setting(
        "Whether tokens are estimated if a provider does not report them",
        "Only for clients with limits on tokens or money, which responses without usage would evade.",
        default=True,
    )
    reserve_output_tokens: AnswerTokens = setting(
        "Maximum number of output tokens that an estimate assumes before a request is sent",
        "It applies to limits on money and to limits on tokens with ``count: before``, and takes the place "
        "of a limit that the request does not state.",
        default=4096,
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
    def client_names(self) -> list[str]:
        """The names that metrics call clients by: those of keys, and of the issuers of tokens."""
        return [*self.names, *(entry.name for entry in self.jwt)]

    @property
    def digests(self) -> list[Secret]:
        """The digests of named keys, which are secrets too: tokens are made from them."""
        return [key.sha256 for key in self.named if key.sha256 is not None]

    @property
    def all_limits(self) -> Iterator[tuple[Path, LimitRowSettings]]:
        """Every row of limits, with the path of its setting."""
        for position, row in enumerate(self.limits):
            yield (*_LIMITS, position), row
        for name, group in self.groups.items():
            for position, row in enumerate(group.limits):
                yield ("edge_auth", "groups", name, "limits", position), row
        for key in self.named:
            for position, row in enumerate(key.limits):
                yield (*_KEYS, key.position, "limits", position), row

    def may_do_anything(self, key: Secret | NamedKeySettings) -> bool:
        """Whether neither a key nor a group that it is in has ``models`` or limits."""
        if isinstance(key, Secret):
            return True
        groups = [self.groups[name] for name in key.groups if name in self.groups]
        return not key.is_restricted and all(group.models is None and not group.limits for group in groups)

    def keys_that(self, fit: Callable[[Secret | NamedKeySettings], bool]) -> EdgeAuthSettings:
        """Return the same with those keys alone that fit."""
        return self.model_copy(update={"keys": tuple(filter(fit, self.keys))})

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
    _check_rules(edge_auth, context)
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
    jwt = settle_jwt(edge_auth.jwt, edge_auth.names, edge_auth.groups, context)
    places = (_KEYS, by_name, ("edge_auth", "keys_dir"), JWT)
    excused = edge_auth.keys_dir is not None or any(map(report.has_problem_below, places))
    if edge_auth.enabled and not keys and not jwt and not excused:
        report.add(
            ("edge_auth", "enabled"),
            "edge auth requires a key or an issuer: set edge_auth.keys, keys_env, keys_dir or jwt",
        )
    texts = dict.fromkeys(key for key in keys if isinstance(key, Secret))
    kept = [key for key in keys if isinstance(key, NamedKeySettings)]
    return edge_auth.model_copy(update={"keys": (*texts, *kept), "jwt": jwt})


def _check_rules(edge_auth: EdgeAuthSettings, context: LoadContext) -> None:
    """Note what is wrong with groups, limits, and what named keys may do."""
    report = context.report
    check_groups(edge_auth.groups, report)
    check_limit_rows(edge_auth.limits, _LIMITS, report)
    for position, key in enumerate(edge_auth.keys):
        if isinstance(key, NamedKeySettings):
            path = (*_KEYS, position)
            check_key(key, path, edge_auth.groups, report)
            if key.name == GATEWAY and edge_auth.limits:
                what = f"limits of the gateway are shown under the name {GATEWAY}"
                report.add((*path, "name"), f"expected another name: {what}")


def check_budgets(edge_auth: EdgeAuthSettings, context: LoadContext) -> None:
    """Note each limit on money, where there are no prices."""
    for path, row in edge_auth.all_limits:
        if row.usd is not None:
            context.report.add((*path, "usd"), "requires prices: set prices.file or prices.rows")


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
