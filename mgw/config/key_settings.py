"""A gateway key with a name, and what it may be used for.

The same settings stand in the list of the configuration and, but for the name and the key itself, in a file
of the directory of keys.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Final

from pydantic import ConfigDict, Field, WithJsonSchema

from mgw.config.checks import text_like
from mgw.config.field_types import ModelPattern, NamedKey, OnOff, Variable
from mgw.config.groups import (
    HOLDER_NAME,
    MAX_TAG_CHARACTERS,
    MAX_TAGS,
    GroupName,
    PriorityName,
    Tags,
    check_group_names,
    check_tags,
    checked_holder_name,
)
from mgw.config.limit_rows import LimitAmount, LimitRowSettings, check_limit_rows
from mgw.config.problems import LIMITS_OF_KEYS, Path, Report
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
    required,
    setting,
)
from mgw.config.time_zones import ExpirySetting
from mgw.nouns.secret import Secret

_DIGEST: Final = re.compile(r"[0-9A-Fa-f]{64}")


def _digest(text: str) -> Secret:
    if not _DIGEST.fullmatch(text):
        raise ValueError(
            "expected the 64 hex digits of the key's SHA-256 (of the key alone, without a line break)"
        )
    return Secret(text.lower())


ClientName = Annotated[
    str,
    expect("the name of the key (in quotes if YAML would read it as a number)"),
    check_with(checked_holder_name),
    WithJsonSchema(HOLDER_NAME),
]
Digest = Annotated[
    Secret,
    parse_with(_digest, "the 64 hex digits of the key's SHA-256, in quotes", Secret),
    WithJsonSchema(text_like(_DIGEST.pattern)),
]


class PreviousKeySettings(Settings):
    """The key before a rotation."""

    model_config = ConfigDict(json_schema_extra={"required": ["sha256", "expires"]})

    sha256: Digest = required("SHA-256 of the previous key as 64 hex digits")
    expires: ExpirySetting = required("When the previous key stops being valid, as in the key's ``expires``")


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
    requests_per_minute: Omittable[LimitAmount] = setting(
        "Maximum number of requests in any 60 seconds",
        "Beyond it, clients get 429 with ``Retry-After``. Requests that the gateway rejects do not count.",
        shown="no limit",
    )
    tokens_per_minute: Omittable[LimitAmount] = setting(
        "Number of tokens (input and output) in any 60 seconds beyond which requests are rejected",
        "Tokens count when they are known, at the end of a request, so requests in progress may "
        "exceed the limit.",
        shown="no limit",
    )
    max_in_flight: Omittable[LimitAmount] = setting(
        "Maximum number of concurrent requests; a realtime session counts as one",
        "Beyond it, clients get 429 with ``Retry-After: 1``.",
        shown="no limit",
    )
    groups: UniqueList[GroupName] = setting(
        "Groups that the client with the key is in",
        "Their limits apply in addition to the key's own, and of their models, it may use those that at "
        "least one group allows.",
        default=(),
    )
    limits: ListOf[LimitRowSettings] = setting(
        "Limits on what the client uses",
        "Each row has the settings of ``edge_auth.limits``, but for ``each``.",
        default=(),
    )
    tags: Tags = setting(
        "Names and values that usage events of the client contain",
        f"At most {MAX_TAGS}; a value has at most {MAX_TAG_CHARACTERS} characters. They take precedence over "
        "the tags of its groups.",
        default={},
    )
    expires: Omittable[ExpirySetting] = setting(
        "When the key stops being valid",
        "With a date, the key is valid through that day in ``edge_auth.timezone``. Requests with it then "
        "get a 401.",
        shown="never",
    )
    priority: Omittable[PriorityName] = setting(
        "Priority of the client's requests where requests wait",
        shown="the highest of its groups, otherwise ``interactive``",
    )
    disabled: OnOff = setting(
        "Whether requests with the key are rejected with 401",
        "A disabled key is still never sent to a provider.",
        default=False,
    )
    previous: PreviousKeySettings | None = setting(
        "The key before a rotation, which is valid beside the new one until it expires"
    )

    @property
    def older_limits(self) -> Mapping[str, int]:
        """The limits that are settings of their own, by their names."""
        found = {name: getattr(self, name) for name in LIMITS_OF_KEYS}
        return {name: most for name, most in found.items() if most is not None}

    @property
    def is_restricted(self) -> bool:
        """Whether it may itself do less than a key without a name: a limit, or only some models."""
        return self.models is not None or bool(self.limits) or bool(self.older_limits)


def check_key(key: NamedKeySettings, path: Path, groups: Collection[str], report: Report) -> None:
    """Note what is wrong with a key, but for the key itself.

    :param path: where its settings stand.
    :param groups: the names of all groups.
    """
    check_group_names(key.groups, (*path, "groups"), groups, report)
    check_limit_rows(key.limits, (*path, "limits"), report, is_of_key=True, beside=key.older_limits.keys())
    check_tags(key.tags, (*path, "tags"), report)
    if key.previous is not None:
        for name, words in (("sha256", "the digest of the previous key"), ("expires", "when it ends")):
            here = (*path, "previous", name)
            if getattr(key.previous, name) is None and not report.has_problem_below(here):
                report.add(here, f"missing, expected {words}")
